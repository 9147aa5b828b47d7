extension Scenario {
  /// Hundreds of machines with one receiver, which restarts in the middle: each delivers a capture or two.
  static let fleet = Scenario("fleet") {
    $0.isFleet = true
    $0.fileBytesMax = 700
    $0.latency = .milliseconds(2)...(.milliseconds(200))
    $0.bytesPerSecond = 2_000...1_000_000
    $0.diskTime = .microseconds(5)...(.milliseconds(5))
  }
}

/// Draws the same numbers for the same seed, on every machine (SplitMix64).
struct SeededGenerator: RandomNumberGenerator, Hashable, Sendable {
  private(set) var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var word = state
    word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
    word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
    return word ^ (word >> 31)
  }

  /// True with this probability.
  mutating func happens(_ probability: Double) -> Bool {
    guard probability > 0 else { return false }
    return Double(next() >> 11) / Double(1 << 53) < probability
  }

  /// Mostly short and now and then long: between the bounds, spread evenly over the orders of magnitude.
  mutating func duration(_ bounds: ClosedRange<Duration>) -> Duration {
    var span = max(1, bounds.lowerBound.microseconds)
    let end = max(span, bounds.upperBound.microseconds)
    while span < end, happens(0.6) { span = min(end, span * 4) }
    return .microseconds(Int64.random(in: max(1, bounds.lowerBound.microseconds)...span, using: &self))
  }

  /// Random bytes.
  mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count { withUnsafeBytes(of: next()) { bytes.append(contentsOf: $0) } }
    bytes.removeLast(bytes.count - count)
    return bytes
  }
}

extension Duration {
  var microseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds * 1_000_000 + attoseconds / 1_000_000_000_000
  }

  var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }
}

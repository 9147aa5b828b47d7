/// How the request went that is being answered, and when the destination has answered last.
struct LatestAnswer: Hashable, Sendable {
  /// What it took, where it carried bytes of files.
  private(set) var bodyTime: Duration = .zero
  /// Whether bytes of files have gone out with it; nil where it was to carry none.
  private(set) var hasSentBytes: Bool?
  /// What was refused goes to another address at once.
  private(set) var hasMoved = false
  /// When the destination has said something last, whatever it was.
  private(set) var answeredAt: MonotonicTime?

  mutating func begin(bodyTime: Duration, hasSentBytes: Bool?) {
    (self.bodyTime, self.hasSentBytes, hasMoved) = (bodyTime, hasSentBytes, false)
  }

  mutating func moved() { hasMoved = true }

  mutating func came(at now: MonotonicTime) { answeredAt = now }
}

import TransferModel

/// The request that is being answered, and the time of the destination's latest answer.
struct LatestAnswer: Hashable, Sendable {
  /// The duration of the request, where it carried bytes of files.
  private(set) var bodyTime: Duration = .zero
  /// Whether bytes of files have gone out with the request; nil where it was to carry none.
  private(set) var hasSentBytes: Bool?
  /// The refused request goes to another address at once.
  private(set) var hasMoved = false
  /// The time of the destination's latest answer, whatever it was.
  private(set) var answeredAt: MonotonicTime?

  mutating func begin(bodyTime: Duration, hasSentBytes: Bool?) {
    (self.bodyTime, self.hasSentBytes, hasMoved) = (bodyTime, hasSentBytes, false)
  }

  mutating func moved() { hasMoved = true }

  mutating func came(at now: MonotonicTime) { answeredAt = now }
}

/// How far a request's body has come.
public struct SentBody: Hashable, Sendable {
  /// What the network took of it so far; see ``SentByteCounter``.
  public var bytes: UInt64
  /// All of it, as it travels; 0 where that is not known.
  public var bodyBytes: UInt64
  /// How many requests of the same step were answered before this one.
  public var answered: Int

  /// A body of which so much is gone.
  public init(bytes: UInt64, of bodyBytes: UInt64, answered: Int = 0) {
    self.bytes = bytes
    self.bodyBytes = bodyBytes
    self.answered = answered
  }

  /// How many of so many plain bytes these stand for.
  package func plainBytes(of plainBytes: Int) -> UInt64 {
    let all = UInt64(clamping: plainBytes)
    guard bodyBytes > 0 else { return min(bytes, all) }
    let product = all.multipliedFullWidth(by: min(bytes, bodyBytes))
    return bodyBytes.dividingFullWidth(product).quotient
  }
}

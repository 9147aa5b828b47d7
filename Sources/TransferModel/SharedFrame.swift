/// Several files of one request that were compressed together, or tried to be.
public struct SharedFrame: Hashable, Sendable {
  /// The request's body before that.
  public var plainBytes: Int
  /// Its body as sent; as long where nothing was gained.
  public var sentBytes: Int

  /// What came of it.
  public init(plainBytes: Int, sentBytes: Int) {
    self.plainBytes = plainBytes
    self.sentBytes = sentBytes
  }

  /// The body was replaced.
  public var isShorter: Bool { sentBytes < plainBytes }
}

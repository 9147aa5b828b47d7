/// What is said of a spool to a server, and heard of it.
public protocol SpoolPresence: Sendable {
  /// The present start; nil where nothing is to be said of it.
  var start: SpoolStartID? { get }
  /// A server knows another start as the last one of a spool. Returns at once.
  func told(ofSpool spool: [UInt8], knownCount: UInt64, by server: String)
}

/// One start of a spool.
public struct SpoolStartID: Hashable, Sendable {
  /// The spool's id: 16 random bytes.
  public var spool: [UInt8]
  /// From 1 on.
  public var count: UInt64
  /// 16 random bytes of this start.
  public var mark: [UInt8]

  /// Names a start.
  public init(spool: [UInt8], count: UInt64, mark: [UInt8]) {
    self.spool = spool
    self.count = count
    self.mark = mark
  }
}

/// Chunks of one session that are zeros, and of which nothing is sent.
public struct ZerosSending: Hashable, Sendable {
  /// The session.
  public var session: SessionIdentity
  /// Which chunks; ascending, none empty, none touching the next one.
  public var ranges: [Range<Int>]
  /// The length of each.
  public var chunkBytes: Int
  /// The digest of each.
  public var digest: ChunkDigest

  /// Names chunks of zeros.
  public init(session: SessionIdentity, ranges: [Range<Int>], chunkBytes: Int, digest: ChunkDigest) {
    self.session = session
    self.ranges = ranges
    self.chunkBytes = chunkBytes
    self.digest = digest
  }
}

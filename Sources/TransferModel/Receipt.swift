public import FileModel

/// Proof of delivery (docs/protocol.md, P45).
public struct Receipt: Hashable, Sendable {
  /// The server's id of this publication.
  public var id: String
  /// The name under which the file was published.
  public var name: String
  /// The published size.
  public var sizeBytes: UInt64
  /// Merkle root, 64 hexadecimal digits.
  public var merkleRoot: String
  /// Tip of the commitment chain, 64 hexadecimal digits; empty where it is not known any more (``FormerPublication``).
  public var chainTip: String
  /// When it was published by the server's clock, milliseconds since 1970.
  public var publishedAtMilliseconds: Int64
  /// What the server said, where that is not known beforehand: JSON.
  public var answer: String?
  /// The name under which the file lies, where something was in the way of its own.
  public var publishedAs: String?
  /// The capture that the server says it is for; nil where it does not say that.
  public var fileID: FileID?
  /// How long the chunks were of which the root is; nil where that is not known.
  public var chunkBytes: Int?
  /// From the first byte that was sent of it to this receipt, milliseconds; nil where that is not known.
  public var durationMilliseconds: Int64?
  /// Whose the file was in whose place it was put, in the server's words, where that was another's; not recorded but in ``answer``.
  public var replaced: String?

  /// A receipt as the server gave it.
  public init(
    id: String, name: String, sizeBytes: UInt64, merkleRoot: String, chainTip: String, publishedAtMilliseconds: Int64,
    answer: String? = nil, publishedAs: String? = nil, fileID: FileID? = nil, chunkBytes: Int? = nil,
    durationMilliseconds: Int64? = nil, replaced: String? = nil
  ) {
    self.replaced = replaced
    self.publishedAs = publishedAs
    self.fileID = fileID
    self.chunkBytes = chunkBytes
    self.durationMilliseconds = durationMilliseconds
    self.answer = answer
    self.id = id
    self.name = name
    self.sizeBytes = sizeBytes
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.publishedAtMilliseconds = publishedAtMilliseconds
  }

  /// Over the whole upload; nil where it is not known how long that took, or it took no time.
  public var meanBytesPerSecond: Double? {
    guard let durationMilliseconds, durationMilliseconds > 0 else { return nil }
    return Double(sizeBytes) * 1000 / Double(durationMilliseconds)
  }
}

/// What a receiver has published of the capture that a session is opened for: so it says at the opening, as long as the file is there.
public struct PublishedContent: Hashable, Sendable, Codable {
  /// The client's identity of the file.
  public var fileID: String
  /// The published size.
  public var sizeBytes: UInt64
  /// Merkle root over the chunk digests: 64 hexadecimal digits.
  public var merkleRoot: String
  /// The size of the chunks that the root is over; that of the file where it came in one request.
  public var chunkBytes: Int
  /// The file's last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// The name under which it lies, where that is not the one that was asked for.
  public var publishedAs: String?

  enum CodingKeys: String, CodingKey {
    case fileID = "file_id"
    case sizeBytes = "size"
    case merkleRoot = "merkle_root"
    case chunkBytes = "chunk_size"
    case modifiedNanoseconds = "modified_ns"
    case publishedAs = "published_as"
  }

  /// Names a publication.
  public init(
    fileID: String, sizeBytes: UInt64, merkleRoot: String, chunkBytes: Int, modifiedNanoseconds: Int64,
    publishedAs: String? = nil
  ) {
    self.fileID = fileID
    self.sizeBytes = sizeBytes
    self.merkleRoot = merkleRoot
    self.chunkBytes = chunkBytes
    self.modifiedNanoseconds = modifiedNanoseconds
    self.publishedAs = publishedAs
  }
}

public import FileModel

/// Whose a published name may be for a publication to take it (docs/destinations.md#whose-a-name-is).
public struct NameRight: Hashable, Sendable {
  /// What becomes of the file where the name is another capture's.
  public var ifExists: FileSettings.IfExists
  /// What this spool has published under the name, or may have: that may be replaced.
  public var replaces: [EarlierPublication]
  /// The name under which it lies, where that is not the one that was asked for.
  public var publishedAs: String?

  /// Collects what a publication may do.
  public init(ifExists: FileSettings.IfExists, replaces: [EarlierPublication] = [], publishedAs: String? = nil) {
    self.ifExists = ifExists
    self.replaces = replaces
    self.publishedAs = publishedAs
  }
}

/// A publication of this spool: which capture, and which bytes.
public struct EarlierPublication: Hashable, Sendable {
  /// The capture.
  public var fileID: FileID
  /// Merkle root over the chunk digests, 64 hexadecimal digits.
  public var merkleRoot: String
  /// The published size.
  public var sizeBytes: UInt64
  /// The size of the chunks; nil where it is not known any more.
  public var chunkBytes: Int?
  /// The name under which it lies, where that is not the one that was asked for.
  public var publishedAs: String?
  /// The nonce of the session or the whole file that it was sent with, and the receipt's id; kept for destinations where the object
  /// that has a name tells whose it is (``DestinationAbilities/comparesObjects``).
  public var nonce: [UInt8]?
  /// The server's id of it.
  public var receiptID: String?
  /// Where in the spool it came from; nil where that is not known, as of what versions before recorded.
  public var origin: PublicationOrigin?

  /// Names a publication.
  public init(
    fileID: FileID, merkleRoot: String, sizeBytes: UInt64, chunkBytes: Int?, publishedAs: String? = nil,
    nonce: [UInt8]? = nil, receiptID: String? = nil, origin: PublicationOrigin? = nil
  ) {
    (self.nonce, self.receiptID, self.origin) = (nonce, receiptID, origin)
    self.fileID = fileID
    self.merkleRoot = merkleRoot
    self.sizeBytes = sizeBytes
    self.chunkBytes = chunkBytes
    self.publishedAs = publishedAs
  }
}

/// Where in the spool a publication came from: what is recorded at its path after it may take its name.
public struct PublicationOrigin: Hashable, Sendable {
  /// The path for which it was made.
  public var path: RelativePath
  /// What the capture is called there: its path, or what a template made of it. Nil where that is not known, as of what versions before
  /// recorded.
  public var name: RelativePath?
  /// The last change of the content, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64

  /// Names a place.
  public init(path: RelativePath, name: RelativePath?, modifiedNanoseconds: Int64) {
    self.path = path
    self.name = name
    self.modifiedNanoseconds = modifiedNanoseconds
  }
}

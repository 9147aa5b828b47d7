public import ChunkProtocol
public import Integrity

/// What a credential may do.
public struct CoreCredential: Hashable, Sendable {
  /// Its name.
  public var id: CredentialID
  /// Names that it may have in journals: the tokens of one user may come in another order, or the first one may go.
  public var formerIDs: [CredentialID]
  /// The name that what it begins gets in journals: that of its first token, also where it is known here as it was before.
  public var recordedID: CredentialID
  /// The keys from which its sessions' MAC keys are derived, one for each of its tokens. Secrets. A session's MACs may be
  /// those of any: its client may have got another token since it was opened.
  public var macMasterKeys: [[UInt8]]
  /// The most that may lie under its root, its open sessions included; nil for no limit.
  public var quotaBytes: UInt64?

  /// A credential as configured.
  public init(
    id: CredentialID, formerIDs: [CredentialID] = [], recordedID: CredentialID? = nil, macMasterKeys: [[UInt8]],
    quotaBytes: UInt64? = nil
  ) {
    self.id = id
    self.formerIDs = formerIDs
    self.recordedID = recordedID ?? id
    self.macMasterKeys = macMasterKeys
    self.quotaBytes = quotaBytes
  }
}

/// What a session is opened with; two openings with one idempotency key must agree in all of it.
public struct SessionParameters: Hashable, Sendable, Codable {
  /// The name that the file had when the session was opened; a hint, the commit names the file.
  public var name: String
  /// The size; nil while the file is still being written.
  public var sizeBytes: UInt64?
  /// The chunk size that the client asks for.
  public var chunkBytes: Int
  /// Chosen by the client; the MACs are bound to it.
  public var nonce: [UInt8]
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// The client's identity of the file.
  public var fileID: String
  /// The client's count of the file's contents.
  public var revision: UInt64
  /// The media type, when it is known.
  public var contentType: String?
  /// The session begins with what is published of the file, if anything is; nil means that it does not.
  public var takesBase: Bool?

  /// Collects what a session is opened with.
  public init(
    name: String, sizeBytes: UInt64?, chunkBytes: Int, nonce: [UInt8], modifiedNanoseconds: Int64, mode: UInt32,
    fileID: String = "", revision: UInt64 = 0, contentType: String? = nil, takesBase: Bool? = nil
  ) {
    self.name = name
    self.sizeBytes = sizeBytes
    self.chunkBytes = chunkBytes
    self.nonce = nonce
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.fileID = fileID
    self.revision = revision
    self.contentType = contentType
    self.takesBase = takesBase
  }
}

/// What is durable about a session from its beginning.
public struct SessionRecord: Hashable, Sendable, Codable {
  /// The session's name.
  public var id: String
  /// Whose it is.
  public var credential: String
  /// The key that opened it.
  public var idempotencyKey: String
  /// What it was opened with; `chunkBytes` is the size that the receiver settled on.
  public var opening: SessionParameters
  /// What the client asked for, to recognise a second opening with the same key.
  public var requestedChunkBytes: Int
  /// When it was opened.
  public var openedAt: Milliseconds

  /// The session's name.
  public var sessionID: SessionID { SessionID(id) }
  /// Whose it is.
  public var credentialID: CredentialID { CredentialID(credential) }
}

/// One chunk's digests and size.
public struct ChunkChecksums: Hashable, Sendable {
  /// Of the plain bytes.
  public var sha256: Digest32
  /// Castagnoli polynomial.
  public var crc32c: UInt32
  /// The number of plain bytes.
  public var sizeBytes: UInt32

  /// The checksums of one chunk.
  public init(sha256: Digest32, crc32c: UInt32, sizeBytes: UInt32) {
    self.sha256 = sha256
    self.crc32c = crc32c
    self.sizeBytes = sizeBytes
  }

  /// The checksums of bytes that are in memory as a whole.
  public init(of bytes: [UInt8]) {
    var hasher = ChunkHasher(blockBytes: 128 << 10)
    bytes.withUnsafeBytes { hasher.update($0) }
    let digests = hasher.finalize()
    self.init(sha256: digests.sha256, crc32c: digests.crc32c, sizeBytes: UInt32(clamping: bytes.count))
  }
}

extension ChunkChecksums {
  /// The checksums of two bodies, computed side by side. Only where ``ChunkHasherPair/isAvailable`` is true.
  static func ofBoth(_ first: [UInt8], _ second: [UInt8]) -> (ChunkChecksums, ChunkChecksums) {
    var hasher = ChunkHasherPair()
    first.withUnsafeBytes { first in
      second.withUnsafeBytes { second in
        for start in stride(from: 0, to: max(first.count, second.count), by: pairBlockBytes) {
          hasher.update(block(of: first, at: start), block(of: second, at: start))
        }
      }
    }
    let digests = hasher.finalize()
    return (
      ChunkChecksums(
        sha256: digests.first.sha256, crc32c: digests.first.crc32c, sizeBytes: UInt32(clamping: first.count)),
      ChunkChecksums(
        sha256: digests.second.sha256, crc32c: digests.second.crc32c, sizeBytes: UInt32(clamping: second.count))
    )
  }

  /// Two blocks stay in the first cache between their two digests.
  private static let pairBlockBytes = 8 << 10

  private static func block(of bytes: UnsafeRawBufferPointer, at start: Int) -> UnsafeRawBufferPointer {
    let start = min(start, bytes.count)
    return UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + pairBlockBytes, bytes.count)])
  }
}

/// What a commit states.
public struct CommitParameters: Hashable, Sendable {
  /// The final name.
  public var name: String
  /// The file's size.
  public var sizeBytes: UInt64
  /// The number of chunks; 0 for an empty file.
  public var chunkCount: UInt32
  /// Merkle root over the chunk digests.
  public var merkleRoot: Digest32
  /// Tip of the commitment chain.
  public var chainTip: Digest32
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// What to do when something has the name already, where the client says nothing of owners.
  public var ifExists: IfExists
  /// Whose the name may be; nil from an older client.
  public var ownership: NameOwnership?

  /// Collects what a commit states.
  public init(
    name: String, sizeBytes: UInt64, chunkCount: UInt32, merkleRoot: Digest32, chainTip: Digest32,
    modifiedNanoseconds: Int64, mode: UInt32, ifExists: IfExists, ownership: NameOwnership? = nil
  ) {
    self.ownership = ownership
    self.name = name
    self.sizeBytes = sizeBytes
    self.chunkCount = chunkCount
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.ifExists = ifExists
  }

  /// Whether both ask for the same. What becomes of a file that has the name does not count where the client says whose it may be:
  /// when it asks again it may know of other publications.
  func isSame(as other: CommitParameters) -> Bool {
    isSameName(name, other.name) && withoutOwners == other.withoutOwners
  }

  private var withoutOwners: CommitParameters {
    var facts = self
    if ownership != nil { (facts.ownership, facts.ifExists) = (nil, .replace) }
    return facts
  }
}

/// Proof of publication. The same publication always has the same receipt, also after a restart.
public struct PublicationReceipt: Hashable, Sendable, Codable {
  /// The receiver's name for this publication.
  public var id: String
  /// The published name.
  public var name: String
  /// The published size.
  public var sizeBytes: UInt64
  /// Merkle root over the chunk digests.
  @HexText public var merkleRoot: Digest32
  /// Tip of the commitment chain.
  @HexText public var chainTip: Digest32
  /// When.
  public var publishedAt: Milliseconds
  /// The name under which it lies, where a folder or a file was in the way of its own.
  public var publishedAs: String?
  /// The client's identity of the file, where the client gave one.
  public var fileID: String?
  /// Whose the file was in whose place it was put, where that was another's. Known until a restart.
  public var takenFrom: String?

  /// A receipt of a file that lies under its own name, or under another one.
  public init(
    id: String, name: String, sizeBytes: UInt64, merkleRoot: Digest32, chainTip: Digest32, publishedAt: Milliseconds,
    publishedAs: String? = nil, fileID: String? = nil
  ) {
    self.id = id
    self.fileID = fileID
    self.name = name
    self.sizeBytes = sizeBytes
    _merkleRoot = HexText(wrappedValue: merkleRoot)
    _chainTip = HexText(wrappedValue: chainTip)
    self.publishedAt = publishedAt
    self.publishedAs = publishedAs
  }

  /// Whether this is the receipt of what the commit asks for.
  func answers(_ commit: CommitParameters) -> Bool {
    isSameName(name, commit.name) && sizeBytes == commit.sizeBytes && merkleRoot == commit.merkleRoot
      && chainTip == commit.chainTip
  }
}

extension PublicationReceipt: JSONWritable {
  /// Writes the receipt as journals hold it.
  public func write(to json: inout JSONText) {
    json.object { json in
      json.member("chainTip", chainTip)
      if let fileID { json.member("fileID", fileID) }
      json.member("id", id)
      json.member("merkleRoot", merkleRoot)
      json.member("name", name)
      if let publishedAs { json.member("publishedAs", publishedAs) }
      json.member("publishedAt", publishedAt)
      json.member("sizeBytes", sizeBytes)
    }
  }
}

/// Whether two names are the same to a filesystem; `==` takes two spellings of é for one.
func isSameName(_ left: String, _ right: String) -> Bool {
  left.utf8.elementsEqual(right.utf8)
}

/// What the store is to publish from a session's data.
public struct Publication: Hashable, Sendable {
  /// The receipt that is handed out afterwards; it goes to the journal first.
  public var receipt: PublicationReceipt
  /// Whose root it goes to.
  public var credential: CredentialID
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// What to do when something has the name already, where the client says nothing of owners.
  public var ifExists: IfExists
  /// The size of the chunks that the receipt's Merkle root is over; that of the file where it came in one request.
  public var chunkBytes: UInt32 = 0
  /// Whose the name may be; nil from an older client.
  public var ownership: NameOwnership?
}

/// What a publication changed.
public struct PublicationResult: Hashable, Sendable {
  /// The size of the file that was replaced; 0 when there was none.
  public var replacedBytes: UInt64
  /// The name under which the file lies, where that is not its own.
  public var publishedAs: String?
  /// Whose the name is that was asked for, where the file has got a number for that.
  public var nameHolder: String?
  /// Whose the file was that it replaced, where that was another's.
  public var takenFrom: String?

  /// A publication that replaced this much.
  public init(
    replacedBytes: UInt64 = 0, publishedAs: String? = nil, nameHolder: String? = nil, takenFrom: String? = nil
  ) {
    self.replacedBytes = replacedBytes
    self.publishedAs = publishedAs
    self.nameHolder = nameHolder
    self.takenFrom = takenFrom
  }
}

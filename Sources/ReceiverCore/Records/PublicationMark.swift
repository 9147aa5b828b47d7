public import ChunkProtocol
public import Integrity

/// What a published file says of itself, in an attribute that is copied with it: which capture it is, which bytes, and whether it was
/// changed since.
public struct PublicationMark: Hashable, Sendable {
  /// The client's identity of the capture; never empty.
  public var fileID: String
  /// Root of the Merkle tree over the chunk digests.
  public var merkleRoot: Digest32
  /// The size of the chunks that the tree is over; that of the file where it came in one request.
  public var chunkBytes: UInt32
  /// Seven octets of a digest of the size and the modification time with which it was published.
  private var state: UInt64

  /// Names a publication and the state of its file: its size, and the time that the disk has kept, nanoseconds since 1970.
  public init(
    fileID: String, merkleRoot: Digest32, chunkBytes: UInt32, sizeBytes: UInt64, modifiedNanoseconds: Int64
  ) {
    self.fileID = fileID
    self.merkleRoot = merkleRoot
    self.chunkBytes = chunkBytes
    state = Self.state(sizeBytes, modifiedNanoseconds)
  }

  /// Whether the file was left alone since, by its present size and time.
  public func isUnchanged(sizeBytes: UInt64, modifiedNanoseconds: Int64) -> Bool {
    state == Self.state(sizeBytes, modifiedNanoseconds)
  }

  private static func state(_ sizeBytes: UInt64, _ modifiedNanoseconds: Int64) -> UInt64 {
    number(
      sha256(littleEndian(sizeBytes, 8) + littleEndian(UInt64(bitPattern: modifiedNanoseconds), 8)).bytes.prefix(
        stateBytes))
  }

  /// Whether it is the publication that a client names.
  public func isOf(_ claim: PublicationClaim) -> Bool {
    isSameName(fileID, claim.fileID) && merkleRoot == claim.merkleRoot
  }
}

extension PublicationMark {
  /// What a file says of itself.
  public enum Found: Hashable, Sendable {
    /// It is no publication, or one of a receiver before this one, or the filesystem has no attributes.
    case nothing
    /// There is something that is not understood, as of a later version.
    case unreadable
    /// Which publication it is.
    case mark(PublicationMark)
  }
}

extension PublicationMark {
  /// How the identity is written, which is at the end; all before it has its length.
  private enum Form: UInt8 {
    /// 16 bytes, which are written as 32 lower-case hexadecimal digits.
    case digits = 1
    case text = 2
  }

  private static let stateBytes = 7
  private static let headBytes = 1 + Digest32.byteCount + 4 + stateBytes

  /// The attribute's value. With an identity of 16 bytes there are 60: an inode of 256 bytes, as ext4 makes them, has room for so many
  /// beside the name of the attribute, and one more takes a block of the disk for each file.
  public var bytes: [UInt8] {
    let digits = fileID.utf8.count == 32 ? Hex.decode(fileID).flatMap { Hex.encode($0) == fileID ? $0 : nil } : nil
    return [(digits == nil ? Form.text : Form.digits).rawValue] + merkleRoot.bytes
      + Self.littleEndian(UInt64(chunkBytes), 4) + Self.littleEndian(state, Self.stateBytes)
      + (digits ?? Array(fileID.utf8))
  }

  /// The most bytes of a value.
  public static let bytesMax = headBytes + ProtocolLimits.shortTextBytesMax

  /// Reads a value; nil for one of a later version, and for nonsense.
  public init?(bytes: [UInt8]) {
    guard bytes.count > Self.headBytes, bytes.count <= Self.bytesMax, let form = Form(rawValue: bytes[0]),
      let root = Digest32(bytes[1...Digest32.byteCount])
    else { return nil }
    let numbers = bytes[(1 + Digest32.byteCount)...]
    let id = bytes[Self.headBytes...]
    switch form {
    case .digits:
      guard id.count == 16 else { return nil }
      fileID = Hex.encode(Array(id))
    case .text:
      guard let text = String(validating: id, as: UTF8.self) else { return nil }
      fileID = text
    }
    merkleRoot = root
    chunkBytes = UInt32(truncatingIfNeeded: Self.number(numbers.prefix(4)))
    state = Self.number(numbers.dropFirst(4).prefix(Self.stateBytes))
  }

  private static func littleEndian(_ number: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: number >> (8 * UInt64($0))) }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}

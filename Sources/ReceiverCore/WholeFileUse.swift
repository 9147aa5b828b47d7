import Integrity

/// What an idempotency key of a whole file was used for, in as few bytes as say it: there are tens of thousands of them, and as values with
/// texts and digests of their own each would take a kilobyte.
struct WholeFileUse: Hashable, Sendable {
  private let bytes: [UInt8]

  /// Without a receipt it is still under way.
  init(fingerprint: Digest32, receipt: PublicationReceipt?) {
    var packed = PackedFields()
    packed.add(fingerprint)
    if let receipt {
      packed.add(receipt.id.utf8)
      packed.add(receipt.name.utf8)
      packed.add(receipt.sizeBytes)
      packed.add(receipt.merkleRoot)
      packed.add(receipt.chainTip)
      packed.add(UInt64(bitPattern: Int64(receipt.publishedAt)))
      for text in [receipt.publishedAs, receipt.fileID, receipt.takenFrom] { packed.add(text) }
    }
    // A copy is as long as it is; what has grown has room to spare.
    bytes = Array(packed.bytes[...])
  }

  var fingerprint: Digest32 {
    var rest = bytes[...]
    return PackedFields.takeDigest(&rest)
  }

  var isUnderWay: Bool { bytes.count == Digest32.byteCount }

  var receipt: PublicationReceipt? { isUnderWay ? nil : receiptOfPublished }

  /// Of one that is not under way.
  fileprivate var receiptOfPublished: PublicationReceipt {
    var rest = bytes[...]
    _ = PackedFields.takeDigest(&rest)
    var receipt = PublicationReceipt(
      id: PackedFields.takeText(&rest), name: PackedFields.takeText(&rest), sizeBytes: PackedFields.takeNumber(&rest),
      merkleRoot: PackedFields.takeDigest(&rest), chainTip: PackedFields.takeDigest(&rest),
      publishedAt: Milliseconds(Int64(bitPattern: PackedFields.takeNumber(&rest))))
    receipt.publishedAs = PackedFields.takeOptionalText(&rest)
    receipt.fileID = PackedFields.takeOptionalText(&rest)
    receipt.takenFrom = PackedFields.takeOptionalText(&rest)
    return receipt
  }
}

/// Fields one after the other, texts each with its length: seven bits in each byte of it, the lowest first.
private struct PackedFields {
  private(set) var bytes: [UInt8] = []

  init() { bytes.reserveCapacity(320) }

  mutating func add(_ field: some Collection<UInt8>) {
    add(length: field.count)
    bytes.append(contentsOf: field)
  }

  mutating func add(_ digest: Digest32) {
    digest.withUnsafeBytes { bytes.append(contentsOf: $0) }
  }

  mutating func add(_ number: UInt64) {
    withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
  }

  /// An absent one differs from an empty one.
  mutating func add(_ text: String?) {
    add(length: text.map { $0.utf8.count + 1 } ?? 0)
    if let text { bytes.append(contentsOf: text.utf8) }
  }

  private mutating func add(length: Int) {
    var rest = length
    while rest >= 0x80 {
      bytes.append(UInt8(rest & 0x7f) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }

  static func takeDigest(_ rest: inout ArraySlice<UInt8>) -> Digest32 {
    guard let digest = Digest32(take(Digest32.byteCount, of: &rest)) else {
      preconditionFailure("no digest was packed here")
    }
    return digest
  }

  static func takeText(_ rest: inout ArraySlice<UInt8>) -> String {
    String(decoding: take(takeLength(&rest), of: &rest), as: UTF8.self)
  }

  static func takeOptionalText(_ rest: inout ArraySlice<UInt8>) -> String? {
    let length = takeLength(&rest)
    return length > 0 ? String(decoding: take(length - 1, of: &rest), as: UTF8.self) : nil
  }

  static func takeNumber(_ rest: inout ArraySlice<UInt8>) -> UInt64 {
    take(8, of: &rest).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func take(_ count: Int, of rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }

  private static func takeLength(_ rest: inout ArraySlice<UInt8>) -> Int {
    var (length, shift) = (0, 0)
    while let byte = rest.popFirst() {
      length |= Int(byte & 0x7f) << shift
      if byte < 0x80 { break }
      shift += 7
    }
    return length
  }
}

/// A whole file that was published before the start.
public struct RecoveredWholeFile: Sendable {
  /// Whose it is.
  public let credential: CredentialID
  /// The client's key.
  public let idempotencyKey: String
  /// When it was published.
  public let publishedAt: Milliseconds
  let use: WholeFileUse

  /// From what its journal says. `credential` is that of the record, as a value that others share.
  public init(_ record: WholeFileRecord, _ receipt: PublicationReceipt, credential: CredentialID? = nil) {
    self.credential = credential ?? CredentialID(record.credential)
    idempotencyKey = record.idempotencyKey
    publishedAt = receipt.publishedAt
    use = WholeFileUse(fingerprint: record.fingerprint, receipt: receipt)
  }

  /// What its journal says of the request.
  public var record: WholeFileRecord {
    WholeFileRecord(credential: credential.text, idempotencyKey: idempotencyKey, fingerprint: use.fingerprint)
  }

  /// Its receipt.
  public var receipt: PublicationReceipt { use.receiptOfPublished }
}

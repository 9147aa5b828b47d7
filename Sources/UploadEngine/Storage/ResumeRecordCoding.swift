import FileModel
import Integrity

/// The bytes of a resume record on disk, all numbers little-endian:
///
///     "UFSRESUM" ‖ version (2) ‖ length of the session id (2) ‖ session id ‖ sealed body
///
/// The header is authenticated with the body. The key is HKDF(master key, salt = session id), so a record is bound to
/// its session, to this spool's key and to this version of the format.
enum ResumeRecordCoding {
  private static let magic = Array("UFSRESUM".utf8)
  private static let version: UInt16 = 1
  private static let keyInfo = Array("uploadfs resume record v1".utf8)
  private static let acknowledgedBytes = 4 + 32 + 4

  /// Why bytes are no record, for people.
  struct Unreadable: Error {
    var reason: String
  }

  static func encode(_ record: ResumeRecord, masterKey: [UInt8]) throws(StorageError) -> [UInt8] {
    let session = Array(record.sessionID.utf8)
    var header = ByteWriter()
    header.append(magic)
    header.append(version)
    try header.appendCounted(session, as: UInt16.self)
    do {
      let sealed = try AES256GCM.seal(
        try body(of: record), key: key(masterKey, session: session), authenticating: header.bytes)
      return header.bytes + sealed
    } catch let error as StorageError {
      throw error
    } catch {
      throw StorageError(.invalid, "a resume record cannot be encrypted: \(error)")
    }
  }

  static func decode(_ bytes: [UInt8], masterKey: [UInt8]) throws(Unreadable) -> ResumeRecord {
    var reader = ByteReader(bytes)
    guard reader.take(magic.count).map({ Array($0) }) == magic else {
      throw Unreadable(reason: "it does not start like a resume record")
    }
    guard reader.take(UInt16.self) == version else {
      throw Unreadable(reason: "it has another version of the format")
    }
    guard let session = reader.takeCounted(as: UInt16.self) else { throw Unreadable(reason: "it is too short") }
    let sealedStart = reader.position
    let plain: [UInt8]
    do {
      plain = try AES256GCM.open(
        Array(bytes[sealedStart...]), key: key(masterKey, session: session),
        authenticating: Array(bytes[..<sealedStart]))
    } catch {
      throw Unreadable(reason: "it was damaged, or encrypted with another key")
    }
    guard let sessionID = String(validating: session, as: UTF8.self),
      let record = record(from: plain, sessionID: sessionID)
    else { throw Unreadable(reason: "its content does not fit together") }
    return record
  }

  private static func key(_ masterKey: [UInt8], session: [UInt8]) -> [UInt8] {
    HKDFSHA256.derive(inputKey: masterKey, salt: session, info: keyInfo, byteCount: 32)
  }

  private static func body(of record: ResumeRecord) throws(StorageError) -> [UInt8] {
    var writer = ByteWriter(capacity: 256 + record.path.bytes.count + record.acknowledged.count * acknowledgedBytes)
    writer.append(record.fileID.high)
    writer.append(record.fileID.low)
    try writer.appendCounted(record.nonce, as: UInt16.self)
    writer.append(Int64(record.chunkBytes))
    writer.append(record.epochRevision)
    try writer.appendCounted(record.path.bytes, as: UInt32.self)
    writer.append(record.sizeBytes)
    writer.append(record.openedAtSeconds)
    writer.append(UInt8(record.expiresAtSeconds == nil ? 0 : 1))
    writer.append(record.expiresAtSeconds ?? 0)
    try writer.appendCounted(record.chainTip, as: UInt16.self)
    writer.append(Int64(record.contiguousCount))
    try writer.append(count: record.acknowledged.count, as: UInt32.self)
    for chunk in record.acknowledged {
      guard chunk.digest.sha256.count == 32 else {
        throw StorageError(.invalid, "chunk \(chunk.index) has a SHA-256 of \(chunk.digest.sha256.count) bytes")
      }
      try writer.append(count: chunk.index, as: UInt32.self)
      writer.append(chunk.digest.sha256)
      writer.append(chunk.digest.crc32c)
    }
    return writer.bytes
  }

  /// Nil when the bytes do not fit together. They are authentic, so this is a mistake of a version of this software; it
  /// costs the resumption and nothing else.
  private static func record(from bytes: [UInt8], sessionID: String) -> ResumeRecord? {
    var reader = ByteReader(bytes)
    guard let high = reader.take(UInt64.self), let low = reader.take(UInt64.self),
      let nonce = reader.takeCounted(as: UInt16.self),
      let chunkBytes = reader.take(Int64.self).flatMap({ Int(exactly: $0) }), chunkBytes > 0,
      let epochRevision = reader.take(UInt64.self), let path = reader.takeCounted(as: UInt32.self),
      let sizeBytes = reader.take(UInt64.self), let openedAtSeconds = reader.take(Int64.self),
      let hasExpiry = reader.take(UInt8.self), hasExpiry <= 1, let expiry = reader.take(Int64.self),
      let chainTip = reader.takeCounted(as: UInt16.self),
      let contiguousCount = reader.take(Int64.self).flatMap({ Int(exactly: $0) }), contiguousCount >= 0,
      let count = reader.take(UInt32.self), Int(count) == reader.remaining / acknowledgedBytes,
      reader.remaining.isMultiple(of: acknowledgedBytes)
    else { return nil }
    var acknowledged: [ResumeRecord.AcknowledgedChunk] = []
    acknowledged.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let index = reader.take(UInt32.self), let sha256 = reader.take(32), let crc32c = reader.take(UInt32.self)
      else { return nil }
      acknowledged.append(.init(index: Int(index), digest: ChunkDigest(sha256: Array(sha256), crc32c: crc32c)))
    }
    return ResumeRecord(
      fileID: FileID(high: high, low: low), sessionID: sessionID, nonce: nonce, chunkBytes: chunkBytes,
      epochRevision: epochRevision, path: RelativePath(bytes: path), sizeBytes: sizeBytes,
      openedAtSeconds: openedAtSeconds, expiresAtSeconds: hasExpiry == 1 ? expiry : nil, acknowledged: acknowledged,
      chainTip: chainTip, contiguousCount: contiguousCount)
  }
}

/// Puts little-endian numbers and counted bytes together.
struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  init(capacity: Int = 0) {
    bytes.reserveCapacity(capacity)
  }

  mutating func append(_ more: [UInt8]) {
    bytes += more
  }

  mutating func append<Number: FixedWidthInteger>(_ number: Number) {
    withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
  }

  /// Appends a count that has to fit.
  mutating func append<Number: FixedWidthInteger>(count: Int, as type: Number.Type) throws(StorageError) {
    guard let number = Number(exactly: count) else {
      throw StorageError(.invalid, "\(count) does not fit into a resume record")
    }
    append(number)
  }

  mutating func appendCounted<Number: FixedWidthInteger>(_ more: [UInt8], as type: Number.Type) throws(StorageError) {
    try append(count: more.count, as: type)
    append(more)
  }
}

/// Takes apart what ``ByteWriter`` put together; nil when there are not enough bytes. Nothing is allocated before it is
/// known that the bytes are there.
struct ByteReader {
  private let bytes: [UInt8]
  private(set) var position = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  var remaining: Int { bytes.count - position }

  mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
    guard count >= 0, count <= remaining else { return nil }
    defer { position += count }
    return bytes[position..<(position + count)]
  }

  mutating func take<Number: FixedWidthInteger>(_ type: Number.Type) -> Number? {
    guard let slice = take(MemoryLayout<Number>.size) else { return nil }
    return slice.withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(as: Number.self)) }
  }

  mutating func takeCounted<Number: FixedWidthInteger>(as type: Number.Type) -> [UInt8]? {
    guard let number = take(type), let count = Int(exactly: number), let slice = take(count) else { return nil }
    return Array(slice)
  }
}

package import ChunkProtocol
import Integrity

/// What the receiver's journals say. The first byte is the kind; chunks are binary because there are many, the rest is JSON.
package enum JournalRecord: Sendable {
  /// The session exists.
  case session(SessionRecord)
  /// The chunk was written.
  case chunk(index: UInt32, ChunkChecksums)
  /// The data is complete, verified and on the disk, and the rename comes next.
  case committing(Committing)
  /// The rename is done.
  case published
  /// A whole file likewise.
  case wholeFile(WholeFile)
  /// The whole file with this receipt is renamed.
  case wholeFilePublished(Finished)

  /// These chunks were made zeros; the last one is included.
  case zeros(first: UInt32, last: UInt32)
  /// A client was told that what it holds is on the disk, and may have given up its own copy.
  case reliedUpon
  /// The journal is of a receiver that records that.
  case reliesWhenSaid
  /// The last start of a spool; in a file of its own.
  case spool(SpoolRecord)

  /// Names the file that is about to be renamed, so that it is recognised under its new name.
  package struct Committing: Hashable, Sendable, Codable, JSONWritable {
    package var receipt: PublicationReceipt
    package var inode: UInt64

    package init(receipt: PublicationReceipt, inode: UInt64) {
      self.receipt = receipt
      self.inode = inode
    }

    package func write(to json: inout JSONText) {
      json.object { json in
        json.member("inode", inode)
        json.member("receipt", receipt)
      }
    }
  }

  package struct WholeFile: Hashable, Sendable, Codable, JSONWritable {
    package var record: WholeFileRecord
    package var receipt: PublicationReceipt
    package var inode: UInt64

    package init(record: WholeFileRecord, receipt: PublicationReceipt, inode: UInt64) {
      self.record = record
      self.receipt = receipt
      self.inode = inode
    }

    package func write(to json: inout JSONText) {
      json.object { json in
        json.member("inode", inode)
        json.member("receipt", receipt)
        json.member("record", record)
      }
    }
  }

  package struct Finished: Hashable, Sendable, Codable, JSONWritable {
    package var receiptID: String

    package init(receiptID: String) {
      self.receiptID = receiptID
    }

    package func write(to json: inout JSONText) {
      json.object { $0.member("receiptID", receiptID) }
    }
  }

  private static let chunkBytes = 1 + 4 + 4 + 4 + 32

  package var bytes: [UInt8] {
    switch self {
    case .session(let facts): [1] + WireJSON.encode(facts)
    case .chunk(let index, let chunk): JournalRecord.encode(index, chunk)
    case .committing(let facts): [3] + WireJSON.encode(facts)
    case .published: [4]
    case .wholeFile(let facts): [5] + WireJSON.encode(facts)
    case .wholeFilePublished(let facts): [6] + WireJSON.encode(facts)
    case .reliedUpon: [7]
    case .reliesWhenSaid: [8]
    case .spool(let record): [9] + WireJSON.encode(record)
    case .zeros(let first, let last): [10] + JournalRecord.bytes(of: [first, last])
    }
  }

  /// The record; nil for a kind of a later version and for nonsense.
  package init?(_ payload: ArraySlice<UInt8>) {
    guard let kind = payload.first else { return nil }
    let rest = Array(payload.dropFirst())
    switch kind {
    case 1:
      guard let facts = try? WireJSON.decode(SessionRecord.self, from: rest) else { return nil }
      self = .session(facts)
    case 2:
      guard let record = JournalRecord.chunk(payload) else { return nil }
      self = record
    case 3:
      guard let facts = try? WireJSON.decode(Committing.self, from: rest) else { return nil }
      self = .committing(facts)
    case 4: self = .published
    case 5:
      guard let facts = try? WholeFile(written: rest) ?? WireJSON.decode(WholeFile.self, from: rest) else { return nil }
      self = .wholeFile(facts)
    case 6:
      guard let facts = try? Finished(written: rest) ?? WireJSON.decode(Finished.self, from: rest) else { return nil }
      self = .wholeFilePublished(facts)
    case 7: self = .reliedUpon
    case 8: self = .reliesWhenSaid
    case 9:
      guard let record = try? WireJSON.decode(SpoolRecord.self, from: rest) else { return nil }
      self = .spool(record)
    case 10:
      guard rest.count == 8 else { return nil }
      let (first, last) = (JournalRecord.number(rest[..<4]), JournalRecord.number(rest[4...]))
      guard first <= last, last < .max else { return nil }
      self = .zeros(first: first, last: last)
    default: return nil
    }
  }

  private static func encode(_ index: UInt32, _ chunk: ChunkChecksums) -> [UInt8] {
    var bytes: [UInt8] = [2]
    bytes.reserveCapacity(chunkBytes)
    bytes += self.bytes(of: [index, chunk.sizeBytes, chunk.crc32c])
    bytes.append(contentsOf: chunk.sha256.bytes)
    return bytes
  }

  private static func bytes(of numbers: [UInt32]) -> [UInt8] {
    numbers.flatMap { withUnsafeBytes(of: $0.littleEndian) { Array($0) } }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }

  private static func chunk(_ payload: ArraySlice<UInt8>) -> JournalRecord? {
    guard payload.count == chunkBytes else { return nil }
    let start = payload.startIndex + 1
    func number(_ position: Int) -> UInt32 {
      JournalRecord.number(payload[start + position * 4..<start + position * 4 + 4])
    }
    guard let digest = Digest32(payload[(start + 12)...]) else { return nil }
    return .chunk(index: number(0), ChunkChecksums(sha256: digest, crc32c: number(2), sizeBytes: number(1)))
  }
}

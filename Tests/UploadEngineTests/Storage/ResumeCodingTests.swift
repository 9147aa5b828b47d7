import FileModel
import Integrity
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// The bytes of a resume record, also those that this program never wrote.
@Suite struct ResumeCodingTests {
  private typealias Unreadable = ResumeRecordCoding.Unreadable
  private typealias Reading = ResumeRecordCoding.Reading

  private let key = ResumeFixture.masterKey
  private let envelope: ResumeRecordCoding.Envelope
  /// The file after each of three saves: whole, then two segments.
  private var files: [[UInt8]] = []
  private var records: [ResumeRecord] = []

  init() throws {
    envelope = try ResumeRecordCoding.makeEnvelope(sessionID: "s-1", masterKey: ResumeFixture.masterKey)
    var record = ResumeFixture.record()
    var file = try ResumeRecordCoding.encode(record, in: envelope)
    files = [file]
    records = [record]
    let saves: [[ResumeSnapshot.Change]] = [
      [.init(index: 7, digest: ResumeFixture.digest(70)), .init(index: 0, digest: ResumeFixture.digest(71))],
      [.init(index: 2, digest: nil), .init(index: 9, digest: nil)],
    ]
    for (position, changes) in saves.enumerated() {
      record.sizeBytes = UInt64(position)
      record.contiguousCount += 1
      file += try ResumeRecordCoding.segment(UInt64(position + 1), of: record, changes, in: envelope)
      var chunks: [Int: ChunkDigest] = [:]
      for chunk in record.acknowledged { chunks[chunk.index] = chunk.digest }
      for change in changes { chunks[change.index] = change.digest }
      record.acknowledged = chunks.sorted { $0.key < $1.key }.map { .init(index: $0.key, digest: $0.value) }
      files.append(file)
      records.append(record)
    }
  }

  private func decode(_ bytes: [UInt8]) throws -> Reading {
    try ResumeRecordCoding.decode(bytes, masterKey: key)
  }

  @Test func eachSegmentContinuesTheRecord() throws {
    for (file, record) in zip(files, records) {
      #expect(try decode(file) == Reading(record: record, unreadableBytes: 0))
    }
    #expect(records[2].acknowledged.map(\.index) == [0, 4, 7])
    #expect(records[2].acknowledged.first?.digest == ResumeFixture.digest(71))
  }

  @Test func everyFlippedByte_costsTheSegmentsFromThereOnAndNothingElse() throws {
    let whole = files[2]
    for position in whole.indices {
      var damaged = whole
      damaged[position] ^= 1 << UInt8(position % 8)
      expectPrefix(damaged, upTo: position, "byte \(position)")
    }
  }

  @Test func everyTruncation_costsTheSegmentsFromThereOnAndNothingElse() throws {
    for length in files[2].indices { expectPrefix(Array(files[2][..<length]), upTo: length, "first \(length) bytes") }
  }

  /// What lies before `position` is as it was written; the rest is not.
  private func expectPrefix(_ bytes: [UInt8], upTo position: Int, _ what: String) {
    let intact = files.lastIndex { $0.count <= position }
    do {
      let reading = try decode(bytes)
      guard let intact else {
        Issue.record("a record without its beginning was accepted: \(what)")
        return
      }
      #expect(
        reading == Reading(record: records[intact], unreadableBytes: bytes.count - files[intact].count), "\(what)")
    } catch {
      #expect(intact == nil, "\(what)")
    }
  }

  @Test func whateverFollows_doesNotChangeTheRecord() throws {
    for tail: [UInt8] in [[0], [0, 0, 0, 0], [UInt8](repeating: 0xff, count: 100), [UInt8](repeating: 0, count: 4096)] {
      #expect(try decode(files[2] + tail) == Reading(record: records[2], unreadableBytes: tail.count))
    }
  }

  @Test func tokensOfChunks_comeBack_andGoWithTheirChunk() throws {
    var record = ResumeFixture.record()
    for index in record.acknowledged.indices where index > 0 { record.acknowledged[index].token = "\"e-\(index)\"" }
    let last = try #require(record.acknowledged.last)
    let segment = try ResumeRecordCoding.segment(
      1, of: record, [.init(index: 0, digest: last.digest, token: "new"), .init(index: last.index, digest: nil)],
      in: envelope)
    let file = try ResumeRecordCoding.encode(record, in: envelope)
    #expect(try decode(file).record.acknowledged == record.acknowledged)
    let changed = [.init(index: 0, digest: last.digest, token: "new")] + record.acknowledged.dropFirst().dropLast()
    #expect(try decode(file + segment).record.acknowledged == changed)
  }

  @Test func segmentsOutOfPlace_areNotAccepted() throws {
    let first = Array(files[1][files[0].count...])
    let second = Array(files[2][files[1].count...])
    for tail in [second, second + first, first + first] {
      let reading = try decode(files[0] + tail)
      #expect(reading.record == (tail.starts(with: first) ? records[1] : records[0]))
      #expect(reading.unreadableBytes > 0)
    }
    // A segment of an earlier file of the same session, with the same number.
    let other = try ResumeRecordCoding.makeEnvelope(sessionID: "s-1", masterKey: key)
    let file = try ResumeRecordCoding.encode(records[0], in: other)
    #expect(try decode(file + first) == Reading(record: records[0], unreadableBytes: first.count))
  }

  @Test func aSegmentOfAnotherFile_isNotAccepted() throws {
    var foreign = records[0]
    foreign.fileID = FileID(high: 9, low: 9)
    let segment = try ResumeRecordCoding.segment(1, of: foreign, [], in: envelope)
    #expect(try decode(files[0] + segment).record == records[0])
  }

  @Test func anotherMasterKey_readsNothing() throws {
    #expect(throws: Unreadable.self) {
      try ResumeRecordCoding.decode(files[2], masterKey: [UInt8](repeating: 4, count: 32))
    }
  }

  @Test func anotherVersion_isNamed() throws {
    var newer = files[0]
    newer[8] = 4
    do {
      _ = try decode(newer)
      Issue.record("a record of a newer version was accepted")
    } catch let error as Unreadable {
      #expect(error.reason.contains("version 4"))
    }
  }

  @Test func anythingAtAll_isReadOrRefused() throws {
    var random = SplitMix(seed: 5)
    for length in 0..<300 {
      let bytes = (0..<length).map { _ in UInt8.random(in: .min ... .max, using: &random) }
      #expect(throws: Unreadable.self) { try decode(bytes) }
      #expect(throws: Unreadable.self) { try decode(Array(envelope.header.prefix(12)) + bytes) }
      #expect(throws: Unreadable.self) { try decode(envelope.header + bytes) }
    }
  }

  /// Behind the seal, as a faulty version of this software could have written it.
  @Test func authenticButSenselessContent_isRejectedWithoutATrap() throws {
    let body = try ResumeBody.encode(
      ResumeFixture.record(), records[0].acknowledged.map { .init(index: $0.index, digest: $0.digest) })
    #expect(ResumeBody(body, sessionID: "s-1") != nil)
    for length in body.indices { #expect(ResumeBody(Array(body[..<length]), sessionID: "s-1") == nil, "\(length)") }
    #expect(ResumeBody(body + [0], sessionID: "s-1") == nil)
    for position in body.indices {
      for value: UInt8 in [0, 0x7f, 0x80, 0xff] {
        var changed = body
        changed[position] = value
        // Another record or none; but no trap and no memory for what is not there.
        if let other = ResumeBody(changed, sessionID: "s-1") { #expect(other.changes.count == 3, "byte \(position)") }
      }
    }
  }

  @Test func theOwnerIsKept_withAndWithoutACredential() throws {
    for owner in [nil, SessionOwner(address: "", credentialMark: nil), SessionOwner(address: "a", credentialMark: "")] {
      var record = ResumeFixture.record()
      record.owner = owner
      #expect(try decode(ResumeRecordCoding.encode(record, in: envelope)).record == record)
    }
  }

  // MARK: - Earlier versions

  /// Regression: the record of the version before this one names no owner, and is all that there is of some captures.
  @Test func version2_isStillRead() throws {
    var record = ResumeFixture.record()
    record.owner = nil
    let session = Array(record.sessionID.utf8)
    var header = ByteWriter()
    header.append(Array("UFSRESUM".utf8))
    header.append(UInt16(2))
    try header.appendCounted(session, as: UInt16.self)
    header.append([UInt8](repeating: 6, count: 16))
    var body = try ResumeBody.encode(record, record.acknowledged.map { .init(index: $0.index, digest: $0.digest) })
    // File, nonce, chunk size, revision, name, size, begin and end: then says a byte that there is no owner.
    body.remove(at: 16 + 2 + 32 + 8 + 8 + 4 + record.path.bytes.count + 8 + 8 + 1 + 8)
    let sealingKey = HKDFSHA256.derive(
      inputKey: key, salt: session, info: Array("uploadfs resume record v2".utf8), byteCount: 32)
    var context = header
    context.append(UInt64(0))
    var file = header
    try file.appendCounted(
      AES256GCM.seal(body, key: sealingKey, authenticating: context.bytes), as: UInt32.self)
    #expect(try decode(file.bytes) == Reading(record: record, unreadableBytes: 0))
    for length in file.bytes.indices { #expect(throws: Unreadable.self) { try decode(Array(file.bytes[..<length])) } }
  }

  @Test func aTipOfAnotherLength_isNotRead() throws {
    let record = ResumeFixture.record()
    let tip = try #require(record.chainTip).bytes
    let body = try ResumeBody.encode(record, [])
    let start = try #require(body.firstRange(of: tip)).lowerBound
    for count in [0, 31, 32, 33] {
      var other = Array(body[..<(start - 2)]) + [UInt8(count), 0]
      other += (tip + [0]).prefix(count)
      other += body[(start + tip.count)...]
      let read = ResumeBody(other, sessionID: record.sessionID)
      #expect((read != nil) == [0, 32].contains(count), "\(count) bytes")
      #expect(read?.record.chainTip == (count == 32 ? record.chainTip : nil))
    }
  }

  /// As version 1 of the format wrote it.
  private func version1(_ record: ResumeRecord) throws -> [UInt8] {
    let session = Array(record.sessionID.utf8)
    var header = ByteWriter()
    header.append(Array("UFSRESUM".utf8))
    header.append(UInt16(1))
    try header.appendCounted(session, as: UInt16.self)
    var body = ByteWriter()
    body.append(record.fileID.high)
    body.append(record.fileID.low)
    try body.appendCounted(record.nonce, as: UInt16.self)
    body.append(Int64(record.chunkBytes))
    body.append(record.epochRevision)
    try body.appendCounted(record.path.bytes, as: UInt32.self)
    body.append(record.sizeBytes)
    body.append(record.openedAtSeconds)
    body.append(UInt8(1))
    body.append(record.expiresAtSeconds ?? 0)
    try body.appendCounted(record.chainTip?.bytes ?? [], as: UInt16.self)
    body.append(Int64(record.contiguousCount))
    try body.append(count: record.acknowledged.count, as: UInt32.self)
    for chunk in record.acknowledged {
      body.append(UInt32(chunk.index))
      body.append(chunk.digest.sha256)
      body.append(chunk.digest.crc32c)
    }
    let sealingKey = HKDFSHA256.derive(
      inputKey: key, salt: session, info: Array("uploadfs resume record v1".utf8), byteCount: 32)
    return header.bytes + (try AES256GCM.seal(body.bytes, key: sealingKey, authenticating: header.bytes))
  }

  @Test func version1_isStillRead() throws {
    var record = ResumeFixture.record()
    record.estimator = nil
    record.owner = nil
    let bytes = try version1(record)
    #expect(try decode(bytes) == Reading(record: record, unreadableBytes: 0))
    for length in bytes.indices { #expect(throws: Unreadable.self) { try decode(Array(bytes[..<length])) } }
    #expect(throws: Unreadable.self) { try decode(bytes + [0]) }
    for position in bytes.indices {
      var damaged = bytes
      damaged[position] ^= 0x10
      #expect(throws: Unreadable.self, "byte \(position)") { try decode(damaged) }
    }
  }

  @Test func offset_isWhereTheFirstGapBegins() {
    var record = ResumeFixture.record()
    record.sizeBytes = 10_000_000
    #expect(record.offsetBytes == 4 << 20)
    record.contiguousCount = 3
    #expect(record.offsetBytes == 10_000_000)
    record.contiguousCount = .max
    #expect(record.offsetBytes == 10_000_000)
    record.contiguousCount = -1
    #expect(record.offsetBytes == 0)
  }
}

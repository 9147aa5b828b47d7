import FileModel
import Fuzzing
import Integrity
import TransferModel

@testable import UploadEngine

private let masterKey = [UInt8](repeating: 5, count: 32)

private func digest(_ number: Int) -> ChunkDigest {
  ChunkDigest(sha256: sha256([UInt8(truncatingIfNeeded: number)]), crc32c: UInt32(truncatingIfNeeded: number))
}

private func record(chunks: Int, gap: Int = 0) -> ResumeRecord {
  var record = ResumeRecord(
    fileID: FileID(high: 1, low: 2), sessionID: "s-1", nonce: sha256([9]).bytes, chunkBytes: 4 << 20, epochRevision: 7,
    path: RelativePath("a/b.mov"), sizeBytes: 10_000_000, openedAtSeconds: 1_700_000_000,
    expiresAtSeconds: 1_700_600_000, acknowledged: [])
  for index in 0..<chunks {
    let place = index == chunks - 1 ? index + gap : index
    record.acknowledged.append(.init(index: place, digest: digest(index), token: index == 1 ? "9" : nil))
    record.merkle.insert(digest(index).sha256, at: place)
  }
  record.chainTip = sha256([1])
  record.contiguousCount = chunks
  record.estimator = SpeedEstimate.State(bytesPerSecond: 1e6, variance: 2, sampleCount: 3)
  return record
}

private func changes(_ record: ResumeRecord) -> [ResumeSnapshot.Change] {
  record.acknowledged.map { .init(index: $0.index, digest: $0.digest, token: $0.token) }
    + [.init(index: 9, digest: nil)]
}

/// A file of several segments, and where each ends.
private func log() throws -> (bytes: [UInt8], ends: [Int], envelope: ResumeRecordCoding.Envelope) {
  let envelope = try ResumeRecordCoding.makeEnvelope(sessionID: "s-1", masterKey: masterKey)
  var bytes = try ResumeRecordCoding.encode(record(chunks: 2), in: envelope)
  var ends = [bytes.count]
  for number in 1...3 {
    bytes += try ResumeRecordCoding.segment(
      UInt64(number), of: record(chunks: 0), [.init(index: 10 + number, digest: digest(number))], in: envelope)
    ends.append(bytes.count)
  }
  return (bytes, ends, envelope)
}

let resumeParsers: [FuzzedParser] = [
  // Arbitrary bytes; only the header and the lengths are within reach, because every body is sealed.
  FuzzedParser("ResumeRecordCoding", bytesMax: 1024, words: ["UFSRESUM", "s-1"]) {
    let log = try log()
    return [log.bytes, Array(log.bytes[..<log.ends[0]]), Array(log.envelope.header)]
  } test: { input in
    if let reading = try? ResumeRecordCoding.decode(input.bytes, masterKey: masterKey) {
      require((0...input.bytes.count).contains(reading.unreadableBytes), "what is unreadable is a part of the file")
    }
  },
  // A whole file that is cut off, and changed at one place: what was written before the place holds.
  FuzzedParser("ResumeRecordDamage", bytesMax: 16) {
    [[0, 0, 0, 0, 0], [1, 2, 3, 4, 5], [0xff, 0xff, 0xff, 0xff, 0xff]]
  } test: { input in
    var input = input
    var (bytes, ends, _) = try log()
    let (cut, place, change) = (
      (input.choose() << 8 | input.choose()) % (bytes.count + 1), (input.choose() << 8 | input.choose()) % bytes.count,
      UInt8(input.choose())
    )
    bytes[place] ^= change
    bytes.removeLast(cut)
    let whole = ends.count { $0 <= bytes.count && ($0 <= place || change == 0) }
    guard let reading = try? ResumeRecordCoding.decode(bytes, masterKey: masterKey) else {
      require(whole == 0, "\(whole) whole segments are read")
      return
    }
    require(whole > 0, "a damaged beginning is no record")
    require(reading.record.acknowledged.count == 2 + whole - 1, "whole segments are read, and no others")
    require(reading.unreadableBytes == bytes.count - ends[whole - 1], "the rest is unreadable")
  },
  FuzzedParser("ResumeBody", bytesMax: 1024) {
    [
      try ResumeBody.encode(record(chunks: 0), []),
      try ResumeBody.encode(record(chunks: 3), changes(record(chunks: 3))),
      try ResumeBody.encode(record(chunks: 7, gap: 5), changes(record(chunks: 7, gap: 5))),
    ]
  } test: { input in
    if let old = ResumeBody.recordOfVersion1(input.bytes, sessionID: "s-1") {
      require(old.chunkBytes > 0, "chunks have a length")
      _ = old.offsetBytes
    }
    guard let body = ResumeBody(input.bytes, sessionID: "s-1") else { return }
    require(
      body.record.chunkBytes > 0 && body.record.contiguousCount >= 0, "a record's numbers are within their bounds")
    _ = (body.record.offsetBytes, body.record.merkle.root(leafCount: body.record.merkle.leafCount))
    var merkle = body.record.merkle
    // What is taken out has to be hashed again.
    if merkle.leafCount < 1 << 12 { merkle.remove(0) { $0 < 64 ? sha256([UInt8($0)]) : nil } }
    let applied = ResumeBody.applying(body.changes, to: [:])
    require(applied.count <= body.changes.count, "no change makes two chunks")
    let written = try ResumeBody.encode(body.record, body.changes)
    guard let again = ResumeBody(written, sessionID: "s-1") else { fatalError("what is written is not read") }
    require(again.changes == body.changes, "the changes come back")
    try require(ResumeBody.encode(again.record, again.changes) == written, "the state comes back")
  },
]

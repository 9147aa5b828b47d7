import ChunkProtocol
import Fuzzing
import Integrity

@testable import ReceiverCore

private let receipt = PublicationReceipt(
  id: "0123abcd", name: "a/\"b\\\n\u{1}ü", sizeBytes: .max, merkleRoot: sha256([0]), chainTip: sha256([1]),
  publishedAt: -5)
private let opening = SessionParameters(
  name: "a", sizeBytes: 9, chunkBytes: 4, nonce: sha256([1]).bytes, modifiedNanoseconds: 5, mode: 0o644)
/// A digest as the journals of the first version hold it.
private let numbers = "[\(sha256([1]).bytes.map(String.init).joined(separator: ","))]"
private let records: [JournalRecord] = [
  .session(
    SessionRecord(
      id: "s", credential: "c", idempotencyKey: "k", opening: opening, requestedChunkBytes: 4, openedAt: 7)),
  .chunk(index: 3, ChunkChecksums(of: [1, 2, 3])),
  .committing(JournalRecord.Committing(receipt: receipt, inode: 7)), .published,
  .wholeFile(
    JournalRecord.WholeFile(
      record: WholeFileRecord(credential: "c0ffee", idempotencyKey: "k \"1\" \\", fingerprint: sha256([3])),
      receipt: receipt, inode: .max)),
  .wholeFilePublished(JournalRecord.Finished(receiptID: "0123abcd")),
]

let journalParsers: [FuzzedParser] = [
  FuzzedParser("Journal", bytesMax: 1024) {
    [
      JournalFraming.bytes(of: records.map(\.bytes)), JournalFraming.bytes(of: [[], [1]]),
      [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
    ]
  } test: { input in
    let found = JournalFraming.read(input.bytes)
    require(
      found.damagedBytes > 0
        || JournalFraming.bytes(of: found.payloads.map { Array($0) }) == Array(input.bytes[..<found.validBytes]),
      "what is read is what stands there")
    for payload in found.payloads { _ = JournalRecord(payload) }
    // The same bytes as payloads, torn at one place.
    var input = input
    let kept = input.choose() << 8 | input.choose()
    let payloads = input.bytes.split(separator: 0x0a, omittingEmptySubsequences: false).map { Array($0) }
    let journal = JournalFraming.bytes(of: payloads)
    let torn = Array(journal.prefix(kept % (journal.count + 1)))
    let read = JournalFraming.read(torn)
    var (whole, end) = (0, 0)
    while whole < payloads.count, end + 8 + payloads[whole].count <= torn.count {
      end += 8 + payloads[whole].count
      whole += 1
    }
    // What is torn may hold what looks like a record, as nothing does that the receiver writes.
    guard read.damagedBytes == 0 else { return }
    require(read.validBytes == end, "a journal ends where it is torn")
    require(read.payloads.map { Array($0) } == Array(payloads[..<whole]), "records before that are read")
  },
  FuzzedParser(
    "JournalRecord", bytesMax: 1024,
    words: [
      "\"receipt\":", "\"inode\":", "\"merkleRoot\":\"", "\"chainTip\":[", "\"publishedAt\":", "\"opening\":{", "[0,1]",
    ]
  ) {
    records.map(\.bytes) + [
      [3]
        + Array(
          #"{"inode":9,"receipt":{"id":"r","name":"a.bin","sizeBytes":1,"merkleRoot":\#(numbers),"chainTip":\#(numbers),"#
            .utf8) + Array(#""publishedAt":5}}"#.utf8)
    ]
  } test: { input in
    guard let record = JournalRecord(input.bytes[...]) else { return }
    let written = record.bytes
    guard let again = JournalRecord(written[...]) else { fatalError("what is written is not read") }
    require(again.bytes == written, "a record comes back")
  },
  FuzzedParser("PublicationMark", bytesMax: 400) {
    return ["00112233445566778899aabbccddeeff", "the file"].map {
      PublicationMark(fileID: $0, merkleRoot: sha256([1]), chunkBytes: 4, sizeBytes: 9, modifiedNanoseconds: -5).bytes
    }
  } test: { input in
    guard let mark = PublicationMark(bytes: input.bytes) else { return }
    require(PublicationMark(bytes: mark.bytes) == mark, "a mark comes back")
  },
]

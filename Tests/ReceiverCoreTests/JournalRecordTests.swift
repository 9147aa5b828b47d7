import ChunkProtocol
import Integrity
import Promises
import Testing

@testable import ReceiverCore

@Suite struct JournalRecordTests {
  private let receipt = PublicationReceipt(
    id: "0123abcd", name: "a/\"b\\\n\u{1}ü", sizeBytes: .max, merkleRoot: sha256([0]), chainTip: sha256([1]),
    publishedAt: -5)
  private let record = WholeFileRecord(credential: "c0ffee", idempotencyKey: "k \"1\" \\", fingerprint: sha256([3]))

  private func encoded(_ value: some Encodable) -> [UInt8] { WireJSON.encode(value) }

  /// Journals of earlier versions were written by the encoder, and earlier versions read what this one writes.
  @Test func records_areWrittenAsTheEncoderDoes_andReadBack() throws {
    let committing = JournalRecord.Committing(receipt: receipt, inode: 7)
    let file = JournalRecord.WholeFile(record: record, receipt: receipt, inode: .max)
    let finished = JournalRecord.Finished(receiptID: "0123abcd")
    #expect(JournalRecord.committing(committing).bytes == [3] + encoded(committing))
    #expect(JournalRecord.wholeFile(file).bytes == [5] + encoded(file))
    #expect(JournalRecord.wholeFilePublished(finished).bytes == [6] + encoded(finished))
    guard case .committing(committing)? = JournalRecord(JournalRecord.committing(committing).bytes[...]),
      case .wholeFile(file)? = JournalRecord(JournalRecord.wholeFile(file).bytes[...]),
      case .wholeFilePublished(finished)? = JournalRecord(JournalRecord.wholeFilePublished(finished).bytes[...])
    else { return #expect(Bool(false), "a record is not read back") }
  }

  /// What is written without escapes is read without the general decoder, and means the same.
  @Test func plainRecords_areReadAlike() throws {
    for (publishedAs, fileID) in [(nil, nil), ("a-2.mov", nil), (nil, "f1"), ("é", "")] as [(String?, String?)] {
      let receipt = PublicationReceipt(
        id: "r1", name: "a/ü.mov", sizeBytes: .max, merkleRoot: sha256([0]), chainTip: sha256([1]), publishedAt: -5,
        publishedAs: publishedAs, fileID: fileID)
      let record = WholeFileRecord(credential: "c0ffee", idempotencyKey: "k", fingerprint: sha256([3]))
      let file = JournalRecord.WholeFile(record: record, receipt: receipt, inode: .max)
      let bytes = encoded(file)
      #expect(JournalRecord.WholeFile(written: bytes) == file)
      for count in 0..<bytes.count { #expect(JournalRecord.WholeFile(written: Array(bytes[..<count])) == nil) }
      #expect(JournalRecord.WholeFile(written: bytes + [0x20]) == nil)
    }
    let escaped = JournalRecord.WholeFile(record: record, receipt: receipt, inode: 1)
    #expect(JournalRecord.WholeFile(written: encoded(escaped)) == nil)
    let finished = JournalRecord.Finished(receiptID: "r1")
    #expect(JournalRecord.Finished(written: encoded(finished)) == finished)
  }

  @Test func useOfAKey_isPackedAndUnpackedAlike() {
    for text in [nil, "", "a", String(repeating: "é", count: 300)] as [String?] {
      var receipt = receipt
      (receipt.publishedAs, receipt.fileID, receipt.takenFrom) = (text, text, text)
      let use = WholeFileUse(fingerprint: sha256([3]), receipt: receipt)
      #expect(use.receipt == receipt && use.fingerprint == sha256([3]) && !use.isUnderWay)
    }
    let begun = WholeFileUse(fingerprint: sha256([3]), receipt: nil)
    #expect(begun.receipt == nil && begun.isUnderWay && begun.fingerprint == sha256([3]))
  }

  @Test(.promises("P33m")) func rangesOfZeros_areOneRecordEach_howeverLongTheyAre() {
    let record = JournalRecord.zeros(first: 3, last: 199_999).bytes
    #expect(record.count == 9)
    guard case .zeros(3, 199_999)? = JournalRecord(record[...]) else {
      return #expect(Bool(false), "the record is not read back")
    }
    #expect(JournalRecord(JournalRecord.zeros(first: 4, last: 3).bytes[...]) == nil)
    #expect(JournalRecord(JournalRecord.zeros(first: 4, last: .max).bytes[...]) == nil)
    #expect(JournalRecord(record.dropLast()) == nil && JournalRecord((record + [0])[...]) == nil)
  }

  @Test func nonsenseInAJournal_neitherTrapsNorIsBelieved() {
    for seed in UInt8(0)..<200 {
      let bytes = (0..<100).map { UInt8(truncatingIfNeeded: Int($0) &* 37 &+ Int(seed) &* 101) }
      for payload in JournalFraming.read(bytes).payloads { _ = JournalRecord(payload) }
      _ = JournalRecord(bytes[...])
    }
    #expect(JournalRecord([2, 1, 2]) == nil && JournalRecord([]) == nil && JournalRecord([200]) == nil)
  }

  /// Neither as text nor as an array of numbers is a root of another length one.
  @Test(arguments: ["\"\"", "\"00ff\"", "[]", "[1]", "[\(Array(repeating: "0", count: 33).joined(separator: ","))]"])
  func digestOfAnotherLength_isNonsense(root: String) {
    let tip = "\"\(sha256([1]))\""
    func record(_ root: String) -> JournalRecord? {
      let receipt =
        "{\"chainTip\":\(tip),\"id\":\"r\",\"merkleRoot\":\(root),\"name\":\"a\",\"publishedAt\":5,\"sizeBytes\":1}"
      let record = "{\"credential\":\"c\",\"fingerprint\":\(tip),\"idempotencyKey\":\"k\"}"
      return JournalRecord([5] + Array("{\"inode\":9,\"receipt\":\(receipt),\"record\":\(record)}".utf8))
    }
    #expect(record(tip) != nil)
    #expect(record(root) == nil)
  }

  /// Journals of the first version hold digests as arrays of numbers.
  @Test func journalOfTheFirstVersion_isRead() throws {
    let digest = sha256([7])
    let numbers = "[\(digest.bytes.map(String.init).joined(separator: ","))]"
    let receipt = """
      {"id":"r","name":"a.bin","sizeBytes":1,"merkleRoot":\(numbers),"chainTip":\(numbers),"publishedAt":5}
      """
    guard case .committing(let facts)? = JournalRecord([3] + Array("{\"inode\":9,\"receipt\":\(receipt)}".utf8)) else {
      Issue.record("it is not understood")
      return
    }
    #expect(facts.receipt.merkleRoot == digest && facts.receipt.chainTip == digest && facts.inode == 9)
    let written = JournalRecord.committing(facts).bytes
    #expect(written.count < 300, "digests are text now")
    guard case .committing(facts)? = JournalRecord(written[...]) else {
      Issue.record("what is written is not what is read")
      return
    }
  }
}

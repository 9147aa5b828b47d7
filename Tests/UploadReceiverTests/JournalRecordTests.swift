import ChunkProtocol
import Testing

@testable import ReceiverCore
@testable import UploadReceiver

@Suite struct JournalRecordTests {
  private let receipt = ReceiptFacts(
    id: "0123abcd", name: "a/\"b\\\n\u{1}ü", sizeBytes: .max, merkleRoot: [0, 1, 255], chainTip: [], publishedAt: -5)
  private let record = WholeFileRecord(credential: "c0ffee", idempotencyKey: "k \"1\" \\", fingerprint: [3, 0xab])

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
}

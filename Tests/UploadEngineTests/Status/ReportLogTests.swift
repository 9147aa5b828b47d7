import FileModel
import Logging
import Promises
import Synchronization
import Testing
import TransferModel

@testable import UploadEngine

/// What the log says of a decision.
@Suite struct ReportLogTests {
  private func lines(of report: UploadReport) -> [String] {
    let kept = KeptLines()
    Logger(label: "test") { _ in LineHandler(kept: kept) }.log(report)
    return kept.lines.withLock { $0 }
  }

  private func delivered(as other: String?) -> UploadReport {
    let receipt = Receipt(
      id: "r1", name: "day 1/a.mov", sizeBytes: 7, merkleRoot: "", chainTip: "", publishedAtMilliseconds: 5,
      publishedAs: other)
    return .delivered(FileID(high: 0, low: 1), RelativePath("day 1/a.mov"), receipt)
  }

  /// Regression: after a receiver was restored a delivered file was sent again, got a number, and nothing pointed at its earlier content.
  @Test(.promises("S77k")) func whatStaysUnderItsName_isNamed() {
    #expect(
      lines(of: delivered(as: "day 1/a-2.mov")) == [
        "delivered under another name: its own was taken when that was chosen, and what lies there stays "
          + "name=day 1/a.mov path=day 1/a.mov published_as=day 1/a-2.mov receipt=r1"
      ])
    #expect(lines(of: delivered(as: nil)) == ["delivered path=day 1/a.mov receipt=r1"])
  }

  @Test func aChunkThatGoesTwice_isSaidWithItsReason() {
    let failure = FileStatus.Failure(code: "stalled", message: "no byte for 30 s", atMilliseconds: 1)
    #expect(
      lines(of: .chunkSentAgain(FileID(high: 0, low: 1), RelativePath("a.mov"), failure)) == [
        "a chunk of a file has not arrived; it is sent again code=stalled path=a.mov reason=no byte for 30 s"
      ])
  }

  @Test(arguments: [true, false]) func whatWasNotSent_isNotCalledOfNoUse(wasSent: Bool) {
    let failure = FileStatus.Failure(code: "misdirected", message: "elsewhere", atMilliseconds: 1)
    let line = lines(
      of: .setBack(FileID(high: 0, low: 1), RelativePath("a.mov"), failure, count: 2, wasSent: wasSent)
    ).first
    #expect(line?.hasPrefix(wasSent ? "what was sent of a file is of no use" : "a file is not taken") == true)
  }
}

private final class KeptLines: Sendable {
  let lines = Mutex<[String]>([])
}

/// Keeps each line, with what stands behind it by name.
private struct LineHandler: LogHandler {
  let kept: KeptLines
  var logLevel = Logger.Level.trace
  var metadata: Logger.Metadata = [:]
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let facts = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    kept.lines.withLock { $0.append((["\(event.message)"] + facts).joined(separator: " ")) }
  }
}

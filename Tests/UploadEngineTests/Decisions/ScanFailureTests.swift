import FileModel
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// A spool that the scan cannot read (docs/semantics.md, S35c).
@Suite struct ScanFailureTests {
  private let folder = RelativePath("day")

  /// Regression: its row stayed, and said of what came under its name after it that it was being written.
  @Test(.promises("S79c")) func captureThatIsRemovedBeforeTheSearchComesToIt_isForgotten() throws {
    var earlier = ScheduleHarness()
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    earlier.write(file)
    let entry = try #require(earlier.schedule.catalogEntry(of: file.id))
    var harness = ScheduleHarness(catalog: [entry])
    harness.handle(.removed(file.id))
    #expect(harness.others.contains(.forget(file.id)))
  }

  /// Regression: one error, and what the catalog knew was forgotten and its session ended at the server.
  @Test(.promises("S35c")) func whatCannotBeRead_isNotForgotten_andIsWaitedForTenSeconds() throws {
    var earlier = ScheduleHarness()
    earlier.handle(.scanEnded)
    let file = ImaginaryFile(1, "day/a.mov", size: 3500)
    earlier.beginSending(file)
    earlier.answerChunk(0, .chunkStored)
    let entry = try #require(earlier.schedule.catalogEntry(of: file.id))
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: Array(repeating: 1, count: 32), chunkBytes: ScheduleHarness.chunkBytes,
      epochRevision: 1, path: file.snapshot.names[0], sizeBytes: file.snapshot.sizeBytes,
      openedAtSeconds: 1_699_999_000, expiresAtSeconds: nil, acknowledged: [])

    var harness = ScheduleHarness(catalog: [entry], records: [record])
    harness.handle(.scanFailing(folder, errno: 5))
    #expect(!harness.schedule.isIdle && !harness.schedule.summary(at: harness.now).isScanGivenUp)
    for _ in 0..<20 {
      harness.advance(by: .seconds(1))
      harness.handle(.scanFailing(folder, errno: 5))
    }
    let summary = harness.schedule.summary(at: harness.now)
    #expect(harness.schedule.isIdle && summary.isScanGivenUp && !summary.isScanned)
    #expect(summary.failedPaths == [folder] && summary.undeliveredCount == 1)
    #expect(summary.lastFailure?.code == "spool-unreadable")
    let reports = harness.others.count { if case .report(.scanFailing) = $0 { true } else { false } }
    #expect(reports == 1, "said once")
    #expect(harness.sent.isEmpty && !harness.others.contains(.forget(file.id)))
    #expect(!harness.others.contains(.removeResume(file.id)))

    harness.handle(file.found)
    harness.handle(.scanEnded)
    #expect(!harness.schedule.isIdle && harness.schedule.summary(at: harness.now).failedPaths == [])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(!harness.schedule.summary(at: harness.now).isScanGivenUp)
  }

  @Test(.promises("S35d")) func aSearchThatWaits_isWaitedForTenSeconds_andWhatIsNewGoesOn() {
    var harness = ScheduleHarness()
    harness.apply { $0.searchWaits(reason: "no", at: $1) }
    let new = ImaginaryFile(1, "new.mov", size: 3500)
    harness.handle(new.settled)
    harness.succeed()
    #expect(harness.state(new.id) == .complete)
    #expect(!harness.schedule.isIdle && !harness.schedule.summary(at: harness.now).isScanGivenUp)
    for _ in 0..<11 { harness.advance(by: .seconds(1)) }
    let summary = harness.schedule.summary(at: harness.now)
    #expect(harness.schedule.isIdle && summary.isScanGivenUp && summary.undeliveredCount == 1)
    #expect(summary.failedPaths == [RelativePath(".")] && summary.lastFailure?.code == "spool-unreadable")
    harness.handle(.scanEnded)
    #expect(harness.schedule.summary(at: harness.now).undeliveredCount == 0)
  }
}

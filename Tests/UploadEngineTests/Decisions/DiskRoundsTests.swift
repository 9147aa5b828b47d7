import FileModel
import Promises
import Testing

@testable import UploadEngine

/// When the catalog may say that the spool's disk has what its rows describe (docs/semantics.md, S44e).
@Suite struct DiskRoundsTests {
  private func id(_ number: UInt64) -> FileID { FileID(high: 0, low: number) }

  @Test(.promises("S79j")) func aRoundWaitsForWhatTheDiskLackedWhenItBegan() {
    var rounds = DiskRounds()
    rounds.note(id(1), isMissing: true)
    #expect(rounds.poll() == .begin)
    rounds.began(isOfNewRows: true)
    rounds.note(id(2), isMissing: true)
    #expect(rounds.poll() == nil && rounds.poll() == nil)
    rounds.note(id(1), isMissing: false)
    // Rows that say what has become of a file since get their time.
    #expect(rounds.poll() == nil)
    // Until the catalog takes it.
    #expect(rounds.poll() == .next && rounds.poll() == .next)
    rounds.began(isOfNewRows: true)
    #expect(rounds.poll() == nil && rounds.poll() == nil)
    rounds.note(id(2), isMissing: false)
    #expect(rounds.poll() == nil && rounds.poll() == .next)
    rounds.began(isOfNewRows: false)
    #expect(rounds.poll() == .begin)
  }

  /// Regression: one file that the disk refused held up what the catalog says of all others.
  @Test(.promises("S79j")) func whatTheDiskDoesNotTake_isLeftToTheNextRound() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.write(file)
    harness.succeed()
    #expect(harness.schedule.checkDiskRound() == .begin)
    harness.schedule.diskRoundBegan(isOfNewRows: true)
    _ = harness.schedule.takeActions()
    for _ in 0..<DiskRounds.looksMax { #expect(harness.schedule.checkDiskRound() == nil) }
    #expect(harness.schedule.takeActions().isEmpty)
    // Its row is written again, and has the time of a look for that.
    #expect(harness.schedule.checkDiskRound() == nil)
    let recorded = harness.schedule.takeActions().contains { if case .record(file.id) = $0 { true } else { false } }
    #expect(recorded && harness.schedule.checkDiskRound() == .next)
    #expect(!harness.schedule.isEverythingOnDisk)
    harness.schedule.diskRoundBegan(isOfNewRows: true)
    #expect(harness.schedule.checkDiskRound() == nil && harness.schedule.takeActions().isEmpty)
  }

  @Test(.promises("S79j")) func whatIsBeingWritten_orIsNotWhole_holdsNoRoundUp() {
    var harness = ScheduleHarness()
    #expect(!harness.schedule.isEverythingOnDisk, "what lies in the spool is not known")
    harness.handle(.scanEnded)
    #expect(harness.schedule.isEverythingOnDisk)
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.write(file)
    #expect(!harness.schedule.isEverythingOnDisk)
    harness.handle(file.opened)
    #expect(!harness.schedule.isEverythingOnDisk, "no writer has changed it")
    file.snapshot.epoch = 2
    harness.handle(file.changed)
    #expect(harness.schedule.isEverythingOnDisk, "its row says that it is being written")
    harness.handle(file.settled)
    #expect(!harness.schedule.isEverythingOnDisk)
    file.snapshot.isOnDisk = true
    harness.handle(.onDisk(file.snapshot))
    #expect(harness.schedule.isEverythingOnDisk)
    var other = ImaginaryFile(2, "b.mov", size: 3000)
    other.snapshot.interruption = .mountDied
    harness.handle(other.found)
    #expect(harness.schedule.isEverythingOnDisk, "its row says that it is not whole")
    harness.write(ImaginaryFile(3, "c.mov", size: 3000))
    harness.handle(.removed(FileID(high: 0, low: 3)))
    #expect(harness.schedule.isEverythingOnDisk)
  }
}

import FileModel
import Testing

@testable import UploadEngine

/// Which phase may follow which, and what becomes of a change that cannot be.
@Suite struct PhasesTests {
  private typealias Kind = FileUpload.Phase.Kind

  private func followers(of phase: FileUpload.Phase) -> Set<Kind> { Set(Kind.allCases.filter { phase.mayBecome($0) }) }

  @Test func nothingFollowsARemoval() {
    #expect(followers(of: .removed(.undelivered)) == [.removed])
  }

  @Test func whatIsDelivered_isNeitherHeldNorFailsNorWaits() {
    #expect(followers(of: .complete).isDisjoint(with: [.held, .waiting, .failed, .cancelled]))
    #expect(followers(of: .complete).isSuperset(of: [.writing, .ready, .interrupted, .removed]))
    #expect(followers(of: .finishing).isSuperset(of: [.complete, .writing, .failed]))
    #expect(followers(of: .finishing).isDisjoint(with: [.held, .waiting, .cancelled]))
  }

  @Test func whatIsNotSent_cannotFail() {
    for phase in [FileUpload.Phase.ignored, .routedElsewhere] {
      #expect(followers(of: phase).isDisjoint(with: [.failed, .cancelled, .complete]))
    }
    #expect(!FileUpload.Phase.held.mayBecome(.failed))
  }

  @Test func contentThatStays_hasItsPhaseAgain_unlessSomethingCameInBetween() {
    var file = FileUpload(
      snapshot: ImaginaryFile(1, "a.mov", size: 4).snapshot, phase: .complete, isOpen: false, changeSequence: 1)
    let before = file.phaseBeforeChange
    file.beginWriting()
    var renamed = file
    file.stay(as: before, isToBeRecorded: false)
    #expect(file.phase == .complete)
    file.beginWriting()
    file.stay(as: before, isToBeRecorded: true)
    #expect(file.phase == .finishing, "the catalog has withdrawn the delivery")
    renamed.exclude(as: .ignored)
    renamed.stay(as: before, isToBeRecorded: true)
    #expect(renamed.phase == .ignored)
  }

  /// A removed file is said to have changed, which no filesystem says: the schedule goes on, and the log and its invariants have it once.
  @Test func anImpossibleEvent_isSaidAndSurvived() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = ScheduleHarness()
    harness.write(file)
    harness.handle(.removed(file.id))
    #expect(harness.schedule.brokenInvariants == [])
    harness.schedule.handle(.changed(file.snapshot), at: harness.now)
    #expect(harness.schedule.brokenInvariants == ["\(file.id) was removed and is writing"])
    let said = harness.schedule.takeActions().filter { if case .report(.contradiction) = $0 { true } else { false } }
    #expect(said == [.report(.contradiction("\(file.id) was removed and is writing"))])
    harness.schedule.handle(.settled(file.snapshot), at: harness.now)
    #expect(!harness.schedule.takeActions().contains { if case .report(.contradiction) = $0 { true } else { false } })
  }
}

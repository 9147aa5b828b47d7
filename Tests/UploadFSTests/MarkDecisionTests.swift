import FileModel
import Testing

@testable import UploadFS

/// Which mark a file is to have.
struct MarkDecisionTests {
  private static let instance = SpoolInstance(name: "boot")
  private static let failure = Interruption.writeFailed(errno: 5)

  private static func state(_ change: (inout CapturedFile.State) -> Void = { _ in }) -> CapturedFile.State {
    var state = CapturedFile.State(
      activity: .found, disk: DiskStanding(mark: WriterStateXattr.none), label: KnownLabel(found: nil),
      announcement: FileAnnouncement(wasCreatedHere: false))
    change(&state)
    return state
  }

  private static func onceClosed(_ state: CapturedFile.State) throws -> WriterStateXattr {
    try state.markOnceClosed(in: instance) { () throws(SystemError) in 7 }
  }

  @Test func writtenFile_saysThatItIsWritten_unlessSomethingIsMissing() {
    #expect(Self.state().markWhileWriting(in: Self.instance) == .writing(in: Self.instance))
    let refused = Self.state { $0.writeBack.refused(.inputOutput) }
    #expect(refused.markWhileWriting(in: Self.instance) == .interrupted(.notOnDisk))
    let lacking = Self.state {
      $0.writeBack.refused(.inputOutput)
      $0.integrity.present.lostContent(Self.failure)
    }
    #expect(lacking.markWhileWriting(in: Self.instance) == .interrupted(Self.failure))
  }

  @Test func closedFile_saysHowLongItIs_untilTheDiskHasIt() throws {
    #expect(try Self.onceClosed(Self.state()) == .closed(sizeBytes: 7, in: Self.instance))
    #expect(try Self.onceClosed(Self.state { $0.disk.synchronized(true) }) == .none)
    #expect(try Self.onceClosed(Self.state { $0.writeBack.refused(.inputOutput) }) == .interrupted(.notOnDisk))
  }

  @Test(arguments: [true, false]) func killedWriter_isToldWithItsRun_untilTheDiskHasTheContent(isOnDisk: Bool) throws {
    let state = Self.state {
      $0.integrity.present.writerKilled(signal: 9)
      $0.integrity.settleAsItIs()
      $0.disk.synchronized(isOnDisk)
    }
    let killed = Interruption.writerKilled(signal: 9)
    #expect(try Self.onceClosed(state) == (isOnDisk ? .interrupted(killed) : .ended(killed, in: Self.instance)))
    #expect(state.markOnceOnDisk == .interrupted(killed))
  }

  @Test func markThatDoubtsNothing_isReplacedOnceTheDiskHasTheContent() {
    func replaced(_ mark: WriterStateXattr) -> WriterStateXattr? {
      Self.state { $0.disk.doubted(mark) }.markToReplaceOnDisk
    }
    #expect(replaced(.closed(sizeBytes: 7, in: Self.instance)) == WriterStateXattr.none)
    #expect(replaced(.interrupted(.notOnDisk)) == WriterStateXattr.none, "it was in memory alone")
    #expect(replaced(.writing(in: Self.instance)) == nil && replaced(.none) == nil)
    #expect(replaced(.interrupted(Self.failure)) == nil)
  }

  @Test func savedFile_isInMemoryAlone_asLongAsItsDiskRefusesIt() {
    #expect(Self.state { $0.writeBack.refused(.inputOutput) }.markOnceSaved == .interrupted(.notOnDisk))
    #expect(Self.state().markOnceSaved == .none)
    let lacking = Self.state {
      $0.writeBack.refused(.inputOutput)
      $0.integrity.present.lostContent(Self.failure)
    }
    #expect(lacking.markOnceSaved == .interrupted(Self.failure))
  }
}

import FileModel
import Testing

@testable import UploadFS

struct RevisionIntegrityTests {
  private static let failure = Interruption.writeFailed(errno: 5)

  @Test func whatFailsWithoutAChange_leavesTheContentAsItWasSettled() {
    var integrity = RevisionIntegrity()
    integrity.present.lostContent(Self.failure)
    #expect(integrity.content(hasOpenRevision: false).interruption == nil)
    #expect(integrity.content(hasOpenRevision: true).interruption == Self.failure)
    integrity.settled(hasRevision: false)
    #expect(integrity.present.interruption == nil)
  }

  @Test func whatFailsInAChange_isSettledWithIt() {
    var integrity = RevisionIntegrity()
    integrity.present.lostContent(Self.failure)
    integrity.settled(hasRevision: true)
    #expect(integrity.content(hasOpenRevision: false).interruption == Self.failure)
    integrity.present.accepted()
    integrity.settleAsItIs()
    #expect(integrity.content(hasOpenRevision: false).interruption == nil)
  }

  @Test(arguments: [true, false]) func whatTheDiskLoses_aSettledContentLacks(hasOpenRevision: Bool) {
    var integrity = RevisionIntegrity()
    integrity.lostContent(Self.failure, hasOpenRevision: hasOpenRevision)
    #expect(integrity.present.interruption == Self.failure)
    #expect(integrity.settled.interruption == (hasOpenRevision ? nil : Self.failure))
  }

  @Test func contentOfAnEarlierRun_isSettledAsItWasFound() {
    var integrity = RevisionIntegrity()
    integrity.found(.mountDied)
    #expect(integrity.present.interruption == .mountDied && integrity.settled.interruption == .mountDied)
  }

  @Test func contentThatWasMadeEmpty_isWrittenAnew_untilTheNextRevision() {
    var integrity = RevisionIntegrity()
    integrity.began(.size(1))
    #expect(!integrity.isWrittenAnew)
    integrity.began(.size(0))
    integrity.began(.bytes(0..<1))
    #expect(integrity.isWrittenAnew)
    integrity.revisionBegan()
    #expect(!integrity.isWrittenAnew)
  }
}

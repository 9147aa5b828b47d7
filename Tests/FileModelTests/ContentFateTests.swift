import FileModel
import Promises
import Testing

@Suite struct ContentFateTests {
  private static let full = Interruption.writeFailed(errno: 28)

  @Test(.promises("S41c")) func failedWrite_isMadeGoodByWritingItsPlace() {
    var fate = ContentFate()
    fate.writeFailed(100..<200, Self.full)
    #expect(fate.interruption == Self.full)
    fate.wrote(0..<150)
    fate.wrote(160..<300)
    #expect(fate.interruption == Self.full, "150 to 160 are still missing")
    fate.wrote(150..<160)
    #expect(fate.interruption == nil)
  }

  @Test(.promises("S41c")) func failedWrite_isMadeGoodByCuttingItOff() {
    var fate = ContentFate()
    fate.writeFailed(100..<200, Self.full)
    fate.truncated(to: 150)
    #expect(fate.interruption == Self.full)
    fate.truncated(to: 100)
    #expect(fate.interruption == nil)
  }

  @Test func failedWrite_outlivesALaterWriterThatDoesNotTouchIt() {
    var fate = ContentFate()
    fate.writeFailed(100..<200, .writeRefused(limitBytes: 100))
    fate.revisionBegan()
    fate.wrote(0..<10)
    #expect(fate.interruption == .writeRefused(limitBytes: 100))
  }

  @Test func manyFailedWrites_areOnePlace() {
    var fate = ContentFate()
    for index in 0..<1000 { fate.writeFailed(UInt64(index * 10)..<UInt64(index * 10 + 5), Self.full) }
    fate.wrote(0..<9990)
    #expect(fate.interruption == Self.full)
    fate.wrote(9990..<9995)
    #expect(fate.interruption == nil)
  }

  @Test(.promises("S41c")) func lostContent_isMadeGoodByWritingAnewOnly() {
    var fate = ContentFate()
    fate.lostContent(.writeFailed(errno: 5))
    fate.wrote(0..<1000)
    fate.truncated(to: 10)
    fate.revisionBegan()
    #expect(fate.interruption == .writeFailed(errno: 5))
    fate.truncated(to: 0)
    #expect(fate.interruption == nil)
  }

  /// Regression: more failed writes than are told apart made of a loss at an unknown place one at theirs.
  @Test(.promises("S41c")) func lostContent_staysLost_howeverManyWritesFail() {
    var fate = ContentFate()
    fate.lostContent(.writeFailed(errno: 5))
    for index in 0..<100 { fate.writeFailed(UInt64(index * 10)..<UInt64(index * 10 + 5), Self.full) }
    fate.wrote(0..<1000)
    #expect(fate.interruption == .writeFailed(errno: 5) && fate.lossErrno == 5)
  }

  /// Regression: the next fsync succeeded.
  @Test(.promises("S41g")) func lostContent_staysLost_whenAChangeIsRefusedAfterIt() {
    var fate = ContentFate()
    fate.lostContent(.writeFailed(errno: 5))
    fate.lostContent(.changeRefused)
    #expect(fate.interruption == .writeFailed(errno: 5) && fate.lossErrno == 5)
    fate.lostContent(.lostInWriteBack(errno: 28, 0..<10))
    #expect(fate.lossErrno == 28)
  }

  @Test(.promises("S39f")) func deadWriter_isMadeGoodByALaterOne_orByWritingAnew() {
    var fate = ContentFate()
    fate.writerKilled(signal: 9)
    fate.wrote(0..<1000)
    #expect(fate.interruption == .writerKilled(signal: 9), "another writer of the same revision does not know")
    var later = fate
    later.revisionBegan()
    #expect(later.interruption == nil)
    fate.truncated(to: 0)
    #expect(fate.interruption == nil)
    #expect(ContentFate(found: .mountDied).interruption == .mountDied)
  }

  /// Regression: a part that the disk had refused was made good by appending to the file after a restart.
  @Test(
    .promises("S41l"),
    arguments: [
      .notOnDisk, .lostInWriteBack(errno: 5, 7..<9), .writeFailed(errno: 5), .writeRefused(limitBytes: 7),
      .changeRefused,
    ] as [Interruption])
  func whatAnEarlierRunHasFoundMissing_isMadeGoodByWritingAnewOnly(_ lack: Interruption) {
    var fate = ContentFate(found: lack)
    fate.revisionBegan()
    fate.wrote(0..<1000)
    fate.truncated(to: 10)
    #expect(fate.interruption == lack && fate.lack == lack)
    var accepted = fate
    accepted.accepted()
    #expect(accepted.interruption == nil && accepted.lack == nil)
    fate.truncated(to: 0)
    #expect(fate.interruption == nil && fate.lack == nil)
    #expect(ContentFate(found: .mountDied).lack == nil)
  }

  @Test func text_isReadAgain() {
    let all: [Interruption] = [
      .writeRefused(limitBytes: 7), .writeFailed(errno: 28), .writerKilled(signal: 9), .mountDied,
    ]
    for interruption in all { #expect(Interruption(interruption.text) == interruption) }
    for interruption in all { #expect(Interruption(interruption.code)?.code == interruption.code) }
    #expect(Interruption("writing") == nil && Interruption("") == nil)
  }
}

import Testing

@testable import UploadEngine

/// A file's place among those that are sent.
@Suite struct FileTurnTests {
  @Test func fileJoinsBehindThoseThatWereServed_andKeepsALaterPlace() {
    var turn = FileTurn()
    turn.join(at: 500)
    turn.give(100)
    #expect(turn.virtualTime == 600)
    turn.join(at: 550)
    #expect(turn.virtualTime == 600, "it was given more than those")
    turn.joinFirst()
    #expect(turn.virtualTime == 0)
  }

  @Test func anotherContent_mayTravelWithOthersAgain_overTheConnectionsThatDidNotMove() {
    var turn = FileTurn()
    turn.goAlone()
    turn.connectionStalled()
    turn.contentChanged()
    #expect(!turn.goesAlone && turn.needsNewConnection)
    turn.connectionMoved()
    #expect(!turn.needsNewConnection)
  }
}

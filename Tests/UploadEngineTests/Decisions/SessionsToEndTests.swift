import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct SessionsToEndTests {
  private let start = MonotonicTime(nanoseconds: 0)

  private func session(_ id: String, due seconds: Int64, attempts: Int = 0) -> SessionToEnd {
    var session = SessionToEnd(
      session: SessionIdentity(id: id, nonce: []), of: DiscardedSession(id: id, sinceSeconds: 0),
      due: start + .seconds(seconds))
    session.attempts = attempts
    return session
  }

  /// While there is something better to do each waits for its time; otherwise those go that were not tried yet.
  @Test func whatIsTaken_followsItsTime() {
    var sessions = SessionsToEnd()
    for one in [session("a", due: 5, attempts: 1), session("b", due: 5), session("c", due: 1)] { sessions.add(one) }
    var position = 0
    #expect(!sessions.isAnyTime(isBusy: true, at: start) && sessions.isAnyTime(isBusy: false, at: start))
    #expect(sessions.takeNext(after: &position, isBusy: true, at: start + .seconds(1))?.session.id == "c")
    position = 0
    #expect(sessions.takeNext(after: &position, isBusy: false, at: start + .seconds(1))?.session.id == "b")
    #expect(sessions.takeNext(after: &position, isBusy: false, at: start + .seconds(1)) == nil)
    #expect(sessions.ids == ["a"])
  }

  @Test func aSessionThatHasParts_isSpared() {
    var sessions = SessionsToEnd()
    sessions.add(session("a", due: 0))
    #expect(!sessions.spare("b") && sessions.spare("a") && !sessions.spare("a") && sessions.isEmpty)
  }

  /// What is beyond the bound is in the catalog, for a later run.
  @Test func theOldest_goFirstBeyondTheBound() {
    var sessions = SessionsToEnd()
    for number in 0...SessionsToEnd.countMax { sessions.add(session("\(number)", due: 0)) }
    #expect(sessions.ids.count == SessionsToEnd.countMax && sessions.ids.first == "1")
  }
}

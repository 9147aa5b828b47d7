import Promises
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct LeftoverPlanTests {
  private static let now: Int64 = 2_000_000_000
  private static let weekAgo = now - 604_800

  private func page(_ sessions: [(String, Int64?)], next: String? = nil) -> SessionPage {
    SessionPage(
      sessions: sessions.map { SessionPage.Session(id: $0.0, begunAtSeconds: $0.1) }, next: next)
  }

  private func plan(_ candidates: [String], inUse: LookupSet<String> = [], _ pages: [SessionPage])
    -> OrphanedSessionPlan
  {
    OrphanedSessionPlan(candidates: candidates, inUse: inUse, pages: pages, atSeconds: Self.now)
  }

  @Test(.promises("DE35")) func onlyWhatBeganHere_isEnded_howeverOldOthersAre() {
    let plan = plan(["ours"], [page([("ours", 5), ("theirs", 5), ("young", Self.weekAgo), ("unknown", nil)])])
    #expect(plan.ended == ["ours"])
    #expect(plan.strangers == 1)
  }

  @Test(.promises("DE34")) func whatIsInUse_isLeftAlone_andIsNoStranger() {
    let plan = plan(["ours"], inUse: ["ours", "renewed"], [page([("ours", 5), ("renewed", 5)])])
    #expect(plan.ended.isEmpty)
    #expect(plan.strangers == 0)
  }

  @Test func aWholeList_saysWhatIsGone() {
    let plan = plan(["there", "gone"], [page([("there", 5)])])
    #expect(plan.ended == ["there"])
    #expect(plan.gone == ["gone"])
  }

  @Test func theListMayCallThemOtherwise() {
    let plan = OrphanedSessionPlan(
      candidates: ["OURS", "GONE"], inUse: ["NEW"], pages: [page([("ours", 5), ("new", 5)])], atSeconds: Self.now,
      listedID: { $0.lowercased() })
    #expect(plan.ended == ["OURS"])
    #expect(plan.gone == ["GONE"])
    #expect(plan.strangers == 0)
  }

  @Test(
    .promises("DE36"),
    arguments: [
      [], [SessionPage(sessions: [], next: "a")], [SessionPage(sessions: [], next: "a"), SessionPage(sessions: [])],
    ])
  func withoutAWholeList_theServerIsToldInAnyCase(pages: [SessionPage]) {
    #expect(plan(["a", "b"], pages).ended == ["a", "b"])
    #expect(plan(["a", "b"], pages).gone.isEmpty)
  }
}

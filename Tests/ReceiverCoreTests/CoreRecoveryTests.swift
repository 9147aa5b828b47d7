import ChunkProtocol
import Integrity
import Lookup
import Promises
import ReceiverCore
import Testing

/// After a restart, and whole files.
@Suite struct CoreRecoveryTests {
  private func recovered() -> (CoreHarness, SessionID, SessionRecord) {
    let before = CoreHarness()
    let request = before.open()
    before.runEffects()
    guard case .sessionOpened(let facts, _, _, _, _)? = before.replies[request]?.last else { fatalError("not opened") }
    let core = CoreHarness()
    core.core.recover(open: facts, lastChange: core.now)
    return (core, facts.sessionID, facts)
  }

  @Test(.promises("P37")) func firstTouch_verifiesOnceAndLetsEveryoneWait() {
    let (core, id, _) = recovered()
    let query = core.query(id)
    let chunk = core.begin(id, 1, [1, 2, 3, 4])
    #expect(core.replies.isEmpty)
    #expect(core.pending.count == 1)
    core.pending = []
    core.send(.sessionVerified(id, .success([0: CoreHarness.facts([1, 2, 3, 4])])))
    guard case .held(let held)? = core.replies[query]?.last else {
      Issue.record("no answer")
      return
    }
    #expect(held.chunks.keys.sorted() == [0])
    #expect(core.isAdmitted(chunk))
  }

  @Test(.promises("P37")) func chunkThatIsNoLongerThere_isNotBelieved() {
    let (core, id, _) = recovered()
    let commit = core.commit(id, CoreHarness.commitParameters(id, [1, 2, 3, 4]))
    core.pending = []
    core.send(.sessionVerified(id, .success([:])))
    core.tick(after: 2000)
    #expect(core.refusal(commit) == .incomplete(missing: [0]))
  }

  @Test(.promises("P37")) func longVerification_tellsClientsToComeBack() {
    let (core, id, _) = recovered()
    let query = core.query(id)
    core.tick(after: 15_000)
    #expect(core.refusal(query) == .underWay)
    core.pending = []
    core.send(.sessionVerified(id, .success([:])))
    #expect(core.replies[query]?.count == 1)
    #expect(core.heldIndices(id) == [])
  }

  @Test func failedVerification_isTriedAgain() {
    let (core, id, _) = recovered()
    let query = core.query(id)
    core.pending = []
    core.send(.sessionVerified(id, .failure(.io("pread"))))
    #expect(core.refusal(query) == .storeFailed)
    _ = core.query(id)
    #expect(core.pending.count == 1)
  }

  @Test(.promises("P19")) func sameKeyAfterARestart_isTheSameSession() {
    let (core, id, _) = recovered()
    let again = core.open()
    guard case .sessionOpened(let facts, false, _, _, _)? = core.replies[again]?.last else {
      Issue.record("\(core.replies)")
      return
    }
    #expect(facts.sessionID == id)
  }

  @Test(.promises("P47", "P50")) func publishedBeforeTheRestart_getsTheSameReceipt() {
    let before = CoreHarness()
    let id = before.opened()
    let commit = before.commit(id, CoreHarness.commitParameters(id, []))
    let query = before.query(id)
    before.runEffects()
    guard let receipt = before.receipt(commit), case .held(let held)? = before.replies[query]?.last else {
      Issue.record("not published")
      return
    }
    let core = CoreHarness()
    core.core.recover(published: held.facts, receipt: receipt)
    #expect(core.receipt(core.commit(id, CoreHarness.commitParameters(id, []), receipt: "new")) == receipt)
    #expect(core.refusal(core.begin(id, 0, [1])) == .conflict)
  }

  // MARK: Whole files

  @Test(.promises("P57", "P58")) func wholeFile_isPublishedOncePerKey() {
    let core = CoreHarness()
    let first = core.beginFile([1, 2, 3])
    #expect(core.isAdmitted(first))
    #expect(core.refusal(core.beginFile([1, 2, 3])) == .underWay)
    #expect(core.refusal(core.beginFile([1, 2, 4])) == .idempotencyMismatch)
    core.send(.wholeFileArrived(first, CoreHarness.facts([1, 2, 3])))
    #expect(core.receipt(first) == nil)
    core.runEffects()
    let again = core.beginFile([1, 2, 3])
    #expect(core.pending.isEmpty)
    #expect(core.receipt(first) != nil && core.receipt(again) == core.receipt(first))
    #expect(core.refusal(core.beginFile([1, 2, 3], name: "other.txt")) == .idempotencyMismatch)
    #expect(core.refusal(core.open(key: "file-key")) == .idempotencyMismatch)
  }

  @Test(
    "A request that asks again may know of other publications, and may come from a later version",
    .promises("P111"))
  func wholeFileThatSaysOtherOwners_isTheSame() {
    let core = CoreHarness()
    let first = core.beginFile([1, 2, 3])
    core.send(.wholeFileArrived(first, CoreHarness.facts([1, 2, 3])))
    core.runEffects()
    let claim = PublicationClaim(
      fileID: "f", merkleRoot: sha256([1]), sizeBytes: 3, chunkBytes: nil)
    for ownership in [
      NameOwnership(ifTaken: .number), NameOwnership(ifTaken: .refuse),
      NameOwnership(ifTaken: .number, replaces: [claim], publishedAs: "b"),
    ] {
      let again = core.beginFile([1, 2, 3], ifExists: .fail, owning: ownership)
      #expect(core.receipt(again) != nil && core.receipt(again) == core.receipt(first))
    }
    #expect(core.refusal(core.beginFile([1, 2, 3], ifExists: .fail)) == .idempotencyMismatch)
  }

  @Test(.promises("P55", "P60")) func damagedWholeFile_leavesItsKeyFree() {
    let core = CoreHarness()
    let first = core.beginFile([1, 2, 3])
    core.send(.wholeFileArrived(first, CoreHarness.facts([1, 2, 9])))
    #expect(core.refusal(first) == .digestMismatch(field: "X-Chunk-SHA256"))
    #expect(core.pending.isEmpty)
    let broken = core.beginFile([1, 2, 3])
    core.send(.wholeFileFailed(broken, Refusal(.bodyTimeout, "slow")))
    let second = core.beginFile([4])
    core.send(.wholeFileArrived(second, CoreHarness.facts([4])))
    core.runEffects()
    #expect(core.receipt(second)?.sizeBytes == 1)
  }

  @Test(.promises("P56")) func emptyWholeFile_hasTheEmptyTree() {
    let core = CoreHarness()
    let request = core.beginFile([])
    core.send(.wholeFileArrived(request, CoreHarness.facts([])))
    core.runEffects()
    #expect(
      core.receipt(request)?.merkleRoot == CoreHarness.commitParameters(SessionID("file-key"), []).merkleRoot)
    #expect(core.receipt(request)?.chainTip == CoreHarness.commitParameters(SessionID("file-key"), []).chainTip)
  }

  @Test(.promises("P59")) func wholeFileKeys_areForgottenAfterTheirTime() {
    let core = CoreHarness { $0.sessionMaxAge = 100_000 }
    let first = core.beginFile([1])
    core.send(.wholeFileArrived(first, CoreHarness.facts([1])))
    core.runEffects()
    core.tick(after: 200_000)
    #expect(core.isAdmitted(core.beginFile([2])))
  }

  /// Regression: what was being verified was removed under it, and its folder stayed.
  @Test func endedSession_isRemovedAfterItsVerification() {
    let (core, id, _) = recovered()
    _ = core.query(id)
    core.send(.abort(core.makeRequest(), core.credential.id, id))
    #expect(!core.removes(id))
    core.send(.sessionVerified(id, .success([:])))
    #expect(core.removes(id))
  }
}

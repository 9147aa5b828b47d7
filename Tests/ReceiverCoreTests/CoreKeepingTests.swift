import Integrity
import Lookup
import Promises
import Testing

@testable import ReceiverCore

/// Sessions that a client relies upon, and those that cannot be read.
@Suite struct CoreKeepingTests {
  private func held(_ core: CoreHarness, key: String = "key") -> SessionID {
    let id = core.opened(key: key)
    _ = core.put(id, 0, [1, 2, 3, 4])
    core.runEffects()
    return id
  }

  private func notes(_ core: CoreHarness) -> [CoreNote] {
    core.pending.compactMap { if case .note(let note) = $0 { note } else { nil } }
  }

  // MARK: Relied upon

  @Test("Regression: a session whose parts existed there alone expired", .promises("P20", "S72c"))
  func reliedUponSession_neverExpires() {
    let core = CoreHarness()
    let id = held(core)
    let other = held(core, key: "other")
    #expect(core.secured(core.secure(id)) == nil)
    core.runEffects()
    for _ in 0..<10 { core.tick(after: 604_800_000) }
    #expect(core.heldIndices(id) == [0])
    #expect(core.refusal(core.query(other)) == .sessionExpired)
    // The client is told a time that never comes.
    let query = core.query(id)
    guard case .held(let held)? = core.replies[query]?.last else {
      Issue.record("no answer")
      return
    }
    #expect(held.expiresAt > core.now)
  }

  @Test func reliedUponSession_neverExpires_afterARestartEither() {
    let before = CoreHarness()
    let request = before.open()
    before.runEffects()
    guard case .sessionOpened(let facts, _, _, _, _)? = before.replies[request]?.last else {
      Issue.record("not opened")
      return
    }
    for mayHoldOnlyCopy in [true, false] {
      let core = CoreHarness()
      core.core.recover(
        open: facts, lastChange: core.now, recordedChunks: CoreHarness.recorded([4]), mayHoldOnlyCopy: mayHoldOnlyCopy)
      core.tick(after: 8 * 86_400_000)
      #expect((core.refusal(core.query(facts.sessionID)) == .sessionExpired) != mayHoldOnlyCopy)
    }
  }

  /// Regression: a week after its publication it was forgotten, and a recording of which its client had given up parts,
  /// and had not heard that it was published, was said to be lost.
  @Test(.promises("P50", "S72h"), arguments: [false, true])
  func thatAReliedUponSessionWasPublished_staysKnown(isRestarted: Bool) {
    let before = CoreHarness { $0.receiptsMax = 2 }
    let id = held(before)
    _ = before.secure(id)
    let query = before.query(id)
    let commit = before.commit(id, CoreHarness.commitParameters(id, [1, 2, 3, 4]))
    before.runEffects()
    guard let receipt = before.receipt(commit), case .held(let found)? = before.replies[query]?.last else {
      Issue.record("not published")
      return
    }
    let core = isRestarted ? CoreHarness { $0.receiptsMax = 2 } : before
    if isRestarted { core.core.recover(published: found.facts, receipt: receipt, mayHoldOnlyCopy: true) }
    for _ in 0..<10 { core.tick(after: 604_800_000) }
    #expect(core.receipt(core.commit(id, CoreHarness.commitParameters(id, [1, 2, 3, 4]), receipt: "new")) == receipt)
    // Of those that were not relied upon a week is enough; of all there are so many.
    for key in ["a", "b"] {
      let other = held(core, key: key)
      _ = core.commit(other, CoreHarness.commitParameters(other, [1, 2, 3, 4]))
      core.runEffects()
    }
    #expect(core.refusal(core.query(id)) == .sessionExpired)
  }

  @Test(.promises("P35")) func durabilityBeyondTheBound_isRefused() {
    let core = CoreHarness { $0.durableBytesMax = 6 }
    let (first, second) = (held(core, key: "1"), held(core, key: "2"))
    let one = core.secure(first)
    core.runEffects()
    #expect(core.secured(one) == [0])
    let two = core.secure(second)
    #expect(core.refusal(two) == .quotaExceeded)
    // The first goes on as it is, also when it grows beyond: nothing more is promised.
    _ = core.put(first, 1, [5, 6, 7, 8])
    core.runEffects()
    #expect(core.refusal(core.secure(first)) == .quotaExceeded)
    #expect(core.heldIndices(first) == [0, 1])
    // Once it is delivered, there is room.
    _ = core.commit(first, CoreHarness.commitParameters(first, [1, 2, 3, 4, 5, 6, 7, 8]))
    core.runEffects()
    let again = core.secure(second)
    core.runEffects()
    #expect(core.secured(again) == [0])
  }

  @Test func durabilityWithinAQuota_hasNoOtherBound() {
    let core = CoreHarness(quota: 1000) { $0.durableBytesMax = 1 }
    let id = held(core)
    let secured = core.secure(id)
    core.runEffects()
    #expect(core.secured(secured) == [0])
  }

  // MARK: The operator

  @Test("Regression: no operator could see or end what a machine that was gone had left")
  func operator_seesAndEndsWhatIsOpen() {
    let core = CoreHarness()
    let id = held(core)
    _ = core.secure(id)
    core.runEffects()
    core.tick(after: 5000)
    #expect(core.core.listing.map(\.id) == [id])
    #expect(core.core.listing.first?.heldBytes == 4 && core.core.listing.first?.age == 5000)
    #expect(core.core.listing.first?.mayHoldOnlyCopy == true && core.core.listing.first?.name == "scan.mov")
    let end = core.makeRequest()
    core.send(.endByOperator(end, id))
    guard case .ended? = core.replies[end]?.last else {
      Issue.record("not ended")
      return
    }
    #expect(core.removes(id) && core.core.listing.isEmpty)
    #expect(core.refusal(core.query(id)) == .sessionGone)
    let again = core.makeRequest()
    core.send(.endByOperator(again, id))
    #expect(core.refusal(again) == .sessionGone)
  }

  // MARK: Set aside

  private func withUnread(_ isDamaged: Bool) throws -> (CoreHarness, SessionID, SessionRecord) {
    let before = CoreHarness()
    let request = before.open()
    before.runEffects()
    let facts = try #require(
      before.replies[request]?.compactMap { if case .sessionOpened(let facts, _, _, _, _) = $0 { facts } else { nil } }
        .last)
    let core = CoreHarness()
    var found = RecoveredState()
    found.quarantined = [QuarantinedSession(id: facts.sessionID, why: "EIO", isDamaged: isDamaged)]
    core.core.recover(found)
    return (core, facts.sessionID, facts)
  }

  private func looks(_ core: CoreHarness) -> Int {
    core.pending.count { if case .recheck = $0 { true } else { false } }
  }

  @Test("Regression: what could not be read at the start stayed so until the next one")
  func unreadSession_isReadAgainWithGrowingPauses() throws {
    let (core, id, facts) = try withUnread(false)
    #expect(core.refusal(core.query(id)) == .storeFailed && core.core.quarantinedCount == 1)
    var pauses: [Milliseconds] = []
    var last = core.now
    for _ in 0..<70 where pauses.count < 6 {
      core.tick(after: 1000)
      guard looks(core) == 1 else { continue }
      pauses.append(core.now - last)
      last = core.now
      core.pending = []
      var still = RecoveredState()
      still.quarantined = [QuarantinedSession(id: id, why: "EIO", isDamaged: false)]
      core.send(.rechecked([id], pauses.count % 2 == 0 ? .success(still) : .failure(.io("EIO"))))
      #expect(core.core.quarantinedCount == 1 && notes(core).isEmpty)
    }
    #expect(pauses.first == 3000 || pauses.first == 2000, "\(pauses)")
    #expect(zip(pauses.dropFirst(), pauses).allSatisfy { $0 >= $1 } && pauses.allSatisfy { $0 <= 30_000 }, "\(pauses)")
    var found = RecoveredState()
    found.open = [
      RecoveredSession(
        facts: facts, lastChange: core.now, recordedChunks: CoreHarness.recorded([4]), mayHoldOnlyCopy: true)
    ]
    core.send(.rechecked([id], .success(found)))
    #expect(core.core.quarantinedCount == 0 && notes(core).count == 1)
    let query = core.query(id)
    #expect(core.refusal(query) == nil && core.core.listing.map(\.id) == [id])
  }

  @Test func sessionThatVanishedMeanwhile_isGone() throws {
    let (core, id, _) = try withUnread(true)
    #expect(core.refusal(core.query(id)) == .sessionDamaged)
    core.tick(after: 1)
    core.tick(after: 40_000)
    core.send(.rechecked([id], .success(RecoveredState())))
    #expect(core.refusal(core.query(id)) == .sessionGone && core.core.quarantinedCount == 0)
  }

  @Test func unreadSession_canBeEndedByTheOperatorOnly() throws {
    let (core, id, _) = try withUnread(true)
    let abort = core.makeRequest()
    core.send(.abort(abort, core.credential.id, id))
    #expect(core.refusal(abort) == .sessionDamaged && !core.removes(id))
    core.tick(after: 60 * 86_400_000)
    #expect(!core.removes(id) && core.core.listing.map(\.trouble) == ["EIO"])
    core.send(.endByOperator(core.makeRequest(), id))
    #expect(core.removes(id) && core.core.quarantinedCount == 0)
    // A look that was under way does not bring it back.
    var found = RecoveredState()
    found.quarantined = [QuarantinedSession(id: id, why: "EIO", isDamaged: true)]
    core.send(.rechecked([id], .success(found)))
    #expect(core.core.quarantinedCount == 0)
  }

  @Test("Regression: a session that was taken away stayed at 500 until the next start", arguments: [false, true])
  func sessionThatIsMeddledWith_isQuarantinedOrGone(isGone: Bool) {
    let failure: StoreFailure = isGone ? .sessionGone("gone") : .damaged("a link")
    let kind: Refusal.Kind = isGone ? .sessionGone : .sessionDamaged
    for step in 0..<4 {
      let core = CoreHarness()
      let id = held(core)
      let request: RequestID
      switch step {
      case 0:
        request = core.put(id, 1, [5, 6, 7, 8])
        let waiting = core.put(id, 1, [6, 6, 6, 6])
        core.send(.chunkWritten(request, failure))
        #expect(core.refusal(waiting) == kind)
      case 1:
        request = core.secure(id)
        core.send(.sessionSecured(request, id, failure))
      case 2:
        request = core.commit(id, CoreHarness.commitParameters(id, [1, 2, 3, 4]))
        core.send(.published(id, .failure(failure)))
      default:
        request = core.secure(id)
        core.send(.sessionSecured(request, id, .io("a moment before")))
        let query = core.query(id)
        core.send(.sessionVerified(id, .failure(failure)))
        #expect(core.refusal(query) == kind)
        #expect(core.refusal(core.query(id)) == kind, "at \(step)")
        continue
      }
      #expect(core.refusal(request) == kind, "at \(step)")
      #expect(core.refusal(core.query(id)) == kind, "at \(step)")
      #expect(core.removes(id) == isGone, "at \(step)")
      #expect(core.core.quarantinedCount == (isGone ? 0 : 1))
      // Its client begins anew, with the same key.
      let other = core.opened()
      #expect(other != id && core.heldIndices(other) == [])
    }
  }

  @Test("Regression: a clock that jumped between two starts made receipts old", .promises("P59"))
  func receipts_ageWhileAReceiverRuns() {
    let receipt = PublicationReceipt(
      id: "r", name: "small.txt", sizeBytes: 3, merkleRoot: sha256([]), chainTip: sha256([]), publishedAt: 0)
    for isKnown in [true, false] {
      let core = CoreHarness()
      var found = RecoveredState()
      var old = receipt
      old.publishedAt = core.now - 9 * 86_400_000
      if isKnown { (found.lastRun, found.pause) = (core.now - 8 * 86_400_000, 8 * 86_400_000) }
      found.wholeFiles = [
        RecoveredWholeFile(
          WholeFileRecord(credential: core.credential.id.text, idempotencyKey: "file-key", fingerprint: sha256([])), old
        )
      ]
      core.core.recover(found)
      core.tick(after: 1)
      #expect((core.refusal(core.beginFile([1, 2, 3])) == .idempotencyMismatch) == isKnown)
    }
  }
}

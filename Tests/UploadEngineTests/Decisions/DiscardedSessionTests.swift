import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// An orphaned session is ended at the server, however often the daemon is killed before the server hears of it
/// (docs/semantics.md, S77f).
@Suite struct DiscardedSessionTests {
  private let file = ImaginaryFile(1, "a.mov", size: 3000)
  private static let here = SessionOwner(address: "https://here", credentialMark: "a")
  private static let week: Int64 = 604_800
  private let busy = StepOutcome.refused(StepFailure(.busy, "not now"))

  private func noted(_ harness: ScheduleHarness) -> [DiscardedSession] {
    harness.others.compactMap { if case .noteDiscarded(let session) = $0 { session } else { nil } }
  }

  private func forgotten(_ harness: ScheduleHarness) -> [String] {
    harness.others.compactMap { if case .forgetDiscarded(let id) = $0 { id } else { nil } }
  }

  /// The next run, with what the catalog has.
  private func restarted(
    _ discarded: [DiscardedSession], catalog: [CatalogEntry] = [], records: [ResumeRecord] = [],
    owner: SessionOwner? = here
  ) -> ScheduleHarness {
    var harness = ScheduleHarness(owner: owner)
    let seconds = harness.now.wallMilliseconds / 1000
    harness.apply { schedule, _ in
      schedule.recover(
        RecoveredUploads(catalog: catalog, records: records, discarded: discarded, atSeconds: seconds))
    }
    return harness
  }

  private func session(_ id: String = "s", secondsAgo: Int64 = 60, owner: SessionOwner? = here) -> DiscardedSession {
    DiscardedSession(id: id, sinceSeconds: 1_700_000_000 - secondsAgo, owner: owner)
  }

  @Test(.promises("S77f")) func anEndThatTheServerWasNotTold_isKnownToTheNextRun() throws {
    var harness = ScheduleHarness(owner: Self.here)
    harness.handle(.scanEnded)
    harness.beginSending(file)
    harness.answer(StepFailure.connection(.connectFailed)) { $0.isChunk }
    harness.others = []
    harness.apply { $0.cancel(file.id, at: $1) }
    let note = try #require(harness.others.firstIndex { if case .noteDiscarded = $0 { true } else { false } })
    let removal = try #require(harness.others.firstIndex(of: .removeResume(file.id)))
    #expect(note < removal, "the record says it as long as nothing else does")
    #expect(noted(harness).map(\.id) == ["s"] && noted(harness)[0].owner == Self.here)
    #expect(!harness.sent.contains { $0.order.isAbort } && forgotten(harness).isEmpty, "no server is there")

    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var next = restarted(noted(harness), catalog: [entry])
    next.handle(file.found)
    #expect(!next.sent.contains { $0.order.isAbort }, "a file may still say that it has parts there")
    #expect(next.schedule.sessionsInUse.contains("s"))
    next.handle(.scanEnded)
    next.answer(.ended) { $0.isAbort }
    #expect(forgotten(next) == ["s"] && next.state(file.id) == .cancelled)
    #expect(next.sent.isEmpty && next.schedule.destination.sessionsToEnd.isEmpty)
  }

  /// Regression: a server that did not take the end was asked seven times in a row without a pause, and then never again.
  @Test func anEndThatIsNotTaken_isTriedMoreAndMoreSeldom_forAWeek() {
    var harness = restarted([session()])
    harness.handle(.scanEnded)
    var times: [MonotonicTime] = []
    while times.count < 30 {
      if harness.answer(busy, where: { $0.isAbort }) != nil {
        times.append(harness.now.monotonic)
        continue
      }
      guard let deadline = harness.schedule.nextDeadline else { break }
      harness.advance(by: max(.milliseconds(1), deadline - harness.now.monotonic))
    }
    let gaps = zip(times, times.dropFirst()).map { $1 - $0 }
    #expect(times.count == 30 && forgotten(harness).isEmpty)
    #expect(gaps.min() ?? .zero >= .seconds(15) && gaps.last == .seconds(3600), "\(gaps)")
    harness.now.wallMilliseconds += Self.week * 1000
    harness.advance(by: .seconds(3600))
    harness.answer(busy) { $0.isAbort }
    #expect(forgotten(harness) == ["s"] && harness.schedule.destination.sessionsToEnd.isEmpty, "it has expired by now")
  }

  @Test func whatIsSaidToAnotherUser_isNoEnd() {
    let elsewhere = SessionOwner(address: Self.here.address, credentialMark: "b")
    var harness = restarted([session(owner: elsewhere)])
    harness.handle(.scanEnded)
    harness.answer(.ended) { $0.isAbort }
    #expect(forgotten(harness).isEmpty && harness.sent.isEmpty, "it is kept for a run with that token")
    var refused = restarted([session()])
    refused.handle(.scanEnded)
    refused.answer(.refused(StepFailure(.forbidden, "no"))) { $0.isAbort }
    #expect(forgotten(refused).isEmpty && refused.sent.isEmpty, "a later run may be allowed to")
    var gone = restarted([session()])
    gone.handle(.scanEnded)
    gone.answer(.refused(StepFailure(.sessionGone, "no"))) { $0.isAbort }
    #expect(forgotten(gone) == ["s"])
  }

  @Test(.promises("S72b")) func aSessionThatHasPartsOfAFile_stays() {
    let parts = SessionPointer(chunkBytes: 1000, sessionID: "s", nonce: [], address: "", credentialMark: nil)
    var entry = CatalogEntry(
      id: file.id, path: file.snapshot.names[0], inode: 1, sizeBytes: 3000, modifiedNanoseconds: 5, revision: 1,
      state: .pending)
    entry.pointer = parts
    var known = restarted([session()], catalog: [entry])
    #expect(forgotten(known) == ["s"])
    known.handle(.scanEnded)
    #expect(!known.sent.contains { $0.order.isAbort })
    // The file alone says so.
    var released = file
    released.snapshot.isPartlyReleased = true
    released.snapshot.pointer = parts
    var found = restarted([session()])
    found.handle(released.found)
    found.handle(.scanEnded)
    #expect(forgotten(found) == ["s"] && !found.sent.contains { $0.order.isAbort })
  }

  /// Found by reading: a recording that was removed and put back lost the parts that only its upload had, which was ended after that.
  @Test(.promises("S72b")) func aFileThatIsPutBack_keepsItsUpload_asLongAsTheServerWasNotTold() {
    var harness = ScheduleHarness(owner: Self.here)
    harness.handle(.scanEnded)
    harness.apply { $0.discard(SessionIdentity(id: "s", nonce: []), of: Self.here, at: $1) }
    harness.apply { schedule, _ in schedule.keepSession("s") }
    harness.advance(by: .seconds(600))
    #expect(!harness.sent.contains { $0.order.isAbort } && forgotten(harness) == ["s"])
  }

  /// Found by reading: an end that was on its way when the file came back was tried again, and took the parts.
  @Test(.promises("S72b"), arguments: [StepFailure.Kind.busy, .transport(.cancelled)])
  func aFileThatIsPutBack_keepsAnUploadWhoseEndTheServerDidNotTake(kind: StepFailure.Kind) {
    var harness = ScheduleHarness(owner: Self.here)
    harness.handle(.scanEnded)
    harness.apply { $0.discard(SessionIdentity(id: "s", nonce: []), of: Self.here, at: $1) }
    harness.advance(by: .seconds(600))
    #expect(harness.sent.contains { $0.order.isAbort } && forgotten(harness).isEmpty)
    harness.apply { schedule, _ in schedule.keepSession("s") }
    harness.answer(.refused(StepFailure(kind, "no"))) { $0.isAbort }
    harness.advance(by: .seconds(7200))
    #expect(!harness.sent.contains { $0.order.isAbort } && forgotten(harness) == ["s"])
    #expect(harness.schedule.destination.sessionsToEnd.isEmpty)
  }

  /// Found by reading: another server had, under a short id, another client's upload.
  @Test func theSessionsOfAnotherAddress_areLeftToIt() {
    let elsewhere = session("elsewhere", owner: SessionOwner(address: "https://there", credentialMark: nil))
    var harness = restarted([session("here"), elsewhere])
    harness.handle(.scanEnded)
    harness.advance(by: .seconds(600))
    #expect(harness.sent.filter { $0.order.isAbort }.count == 1 && forgotten(harness).isEmpty)
  }

  @Test func aSessionThatMayHaveBeenEnded_isNotContinued() {
    let record = ResumeRecord(
      fileID: file.id, sessionID: "s", nonce: [], chunkBytes: 1000, epochRevision: 1, path: file.snapshot.names[0],
      sizeBytes: 3000, openedAtSeconds: 1, expiresAtSeconds: nil, acknowledged: [])
    var harness = restarted([session()], records: [record])
    #expect(harness.others.contains(.removeResume(file.id)))
    harness.handle(file.found)
    harness.handle(.scanEnded)
    #expect(!harness.sent.contains { $0.order.isQuery } && harness.sent.contains { $0.order.isOpenSession })
  }

  @Test func manyAreEndedAFewAtATime_andOldOnesAreForgotten() {
    let many = (0..<1000).map { session("s\($0)", secondsAgo: 5000 - Int64($0)) }
    var harness = restarted(many + [session("old", secondsAgo: Self.week + 1)])
    #expect(forgotten(harness) == ["old"])
    harness.handle(.scanEnded)
    var ended = 0
    while harness.sent.contains(where: { $0.order.isAbort }) {
      #expect(harness.sent.count <= 4)
      harness.answer(.ended) { $0.isAbort }
      ended += 1
    }
    #expect(ended == 1000 && forgotten(harness).count == 1001)
  }
}

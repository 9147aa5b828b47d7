import ChunkProtocol
import Integrity
import Promises
import Testing
import ReceiverCore

@Suite struct CoreCommitTests {
  @Test("Regression: a disk that fails after the rename takes nothing back", .promises("P47"))
  func failureAfterTheRename_isFollowedByTheReceipt() {
    let core = CoreHarness()
    let file: [UInt8] = [1, 2, 3, 4, 5]
    let id = core.opened()
    core.putAll(id, file)
    for _ in 0..<2 {
      let refused = core.commit(id, CoreHarness.commitParameters(id, file))
      while case .some(let effect) = core.pending.first, core.replies[refused] == nil {
        core.pending.removeFirst()
        if case .publish = effect { core.send(.published(id, .failure(.unsynced("fsync")))) } else { core.run(effect) }
      }
      #expect(core.refusal(refused) == .storeFailed)
      // Nothing is written into what is published, and nothing else is published.
      #expect(core.refusal(core.begin(id, 0, [9, 9, 9, 9])) == .storeFailed)
      #expect(core.refusal(core.commit(id, CoreHarness.commitParameters(id, file, name: "other"))) == .conflict)
    }
    let request = core.commit(id, CoreHarness.commitParameters(id, file), receipt: "another")
    core.runEffects()
    #expect(core.receipt(request)?.id == "receipt")
  }

  /// Found by the systematic faults: the client's file had changed meanwhile, and its session took nothing for ever.
  @Test(
    "Regression: a file that has changed since learns that the session is over", .promises("P47"),
    arguments: [true, false])
  func failureAfterTheRename_isEndedByAnotherContent(byAChunk: Bool) {
    let core = CoreHarness()
    let file: [UInt8] = [1, 2, 3, 4, 5]
    let id = core.opened()
    core.putAll(id, file)
    let refused = core.commit(id, CoreHarness.commitParameters(id, file))
    while case .some(let effect) = core.pending.first, core.replies[refused] == nil {
      core.pending.removeFirst()
      if case .publish = effect { core.send(.published(id, .failure(.unsynced("fsync")))) } else { core.run(effect) }
    }
    let changed = byAChunk ? core.begin(id, 0, [9]) : core.commit(id, CoreHarness.commitParameters(id, [9]))
    #expect(core.refusal(changed) == .storeFailed)
    core.runEffects()
    #expect(core.refusal(core.begin(id, 0, [9])) == .conflict)
    #expect(core.refusal(core.commit(id, CoreHarness.commitParameters(id, [9]))) == .conflict)
    #expect(core.receipt(core.commit(id, CoreHarness.commitParameters(id, file)))?.id == "receipt")
  }

  private let file: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]

  @Test(.promises("P45")) func completeFile_isPublishedOnceWithItsReceipt() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.runEffects()
    let receipt = core.receipt(commit)
    #expect(receipt?.name == "scan.mov" && receipt?.sizeBytes == 10)
    let again = core.commit(id, CoreHarness.commitParameters(id, file), receipt: "another")
    #expect(core.pending.isEmpty)
    #expect(core.receipt(again) == receipt)
  }

  @Test(.promises("P51")) func publicationsUnderOneName_areMadeOneAfterTheOther_inTheirOrder() {
    let core = CoreHarness()
    let small = core.beginFile(file, name: "scan.mov")
    core.send(.wholeFileArrived(small, CoreHarness.facts(file)))
    let id = core.opened()
    #expect(core.pending.isEmpty, "opened() has run the first publication")
    let other = core.beginFile(file, name: "scan.mov", key: "other")
    core.send(.wholeFileArrived(other, CoreHarness.facts(file)))
    let first = core.pending
    core.pending = []
    core.putAll(id, file)
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.runEffects()
    #expect(first.count == 1 && core.receipt(other) == nil)
    #expect(core.receipt(commit) == nil, "it waits for the name")
    // A failure lets the next one go on as well.
    core.send(.wholeFilePublished(other, .failure(.io("broken"))))
    #expect(core.isPublishing)
    core.runEffects()
    #expect(core.receipt(commit)?.name == "scan.mov")
  }

  @Test(.promises("P111")) func commitThatSaysOtherOwners_isTheSame_andItsWordsCount() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, Array(file[..<4]))
    let claim = PublicationClaim(
      fileID: "f", merkleRoot: sha256([1]), sizeBytes: 3, chunkBytes: nil)
    let owners = [
      NameOwnership(ifTaken: .refuse), NameOwnership(ifTaken: .number, replaces: [claim], publishedAs: "scan-2.mov"),
    ]
    let commits = owners.map { core.commit(id, CoreHarness.commitParameters(id, file, ifExists: .fail, owning: $0)) }
    #expect(commits.allSatisfy { core.replies[$0] == nil })
    core.putAll(id, file)
    core.runEffects()
    #expect(commits.allSatisfy { core.receipt($0) != nil })
    #expect(core.publications.map(\.ownership) == [owners[1]])
    // After that, any of them has the receipt.
    let last = core.commit(id, CoreHarness.commitParameters(id, file))
    #expect(core.receipt(last) == core.receipt(commits[0]))
  }

  @Test(.promises("P51")) func commitThatStillWaits_isRefused_whenALaterRequestHasPublishedItsName() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, Array(file[..<4]))
    let overtaken = core.commit(id, CoreHarness.commitParameters(id, file))
    let small = core.beginFile([7], name: "scan.mov")
    core.send(.wholeFileArrived(small, CoreHarness.facts([7])))
    core.runEffects()
    #expect(core.receipt(small) != nil)
    #expect(core.refusal(overtaken) == .conflict)
    core.putAll(id, file)
    core.runEffects()
    #expect(!core.isPublishing, "the older content must not come last")
    let again = core.commit(id, CoreHarness.commitParameters(id, file))
    core.runEffects()
    #expect(core.receipt(again) != nil, "asked for again, it is the latest")
  }

  @Test(.promises("P51")) func wholeFileThatIsSlow_isRefused_whenALaterRequestHasPublishedItsName() {
    let core = CoreHarness()
    let slow = core.beginFile(file, name: "scan.mov", key: "slow")
    let quick = core.beginFile([7], name: "scan.mov", key: "quick")
    core.send(.wholeFileArrived(quick, CoreHarness.facts([7])))
    core.runEffects()
    core.send(.wholeFileArrived(slow, CoreHarness.facts(file)))
    core.runEffects()
    #expect(core.receipt(quick) != nil)
    #expect(core.refusal(slow) == .conflict)
    let again = core.beginFile(file, name: "scan.mov", key: "slow")
    core.send(.wholeFileArrived(again, CoreHarness.facts(file)))
    core.runEffects()
    #expect(core.receipt(again) != nil, "its key is free")
  }

  @Test(.promises("P23"), arguments: ["in order", "in reverse", "at random"])
  func commitOfManyChunks_hashesNoneOfThemAgain(order: String) {
    let core = CoreHarness()
    let id = core.opened()
    let large = (0..<12_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 256) }
    let pieces = CoreHarness.chunks(large, 4)
    let indices: [Int] =
      switch order {
      case "in order": Array(pieces.indices)
      case "in reverse": pieces.indices.reversed()
      default: pieces.indices.map { ($0 * 7919) % pieces.count }
      }
    for index in indices {
      _ = core.put(id, UInt32(index), pieces[index])
      core.runEffects()
    }
    let commit = core.commit(id, CoreHarness.commitParameters(id, large))
    // What would hash 3000 digests is a checkCommit; the publication is asked for at once.
    #expect(core.pending.count == 1 && core.isPublishing)
    core.runEffects()
    #expect(core.receipt(commit)?.sizeBytes == 12_000)
  }

  @Test(.promises("P34")) func chainTipOfAQuery_isThatOfTheChunksWithoutAGap() {
    let core = CoreHarness()
    let id = core.opened()
    let pieces = CoreHarness.chunks(file, 4)
    func tip() -> Digest32? {
      let query = core.query(id)
      guard case .held(let held)? = core.replies[query]?.last else { return nil }
      return held.chainTip
    }
    func expected(_ count: Int) -> Digest32 {
      CoreHarness.commitParameters(id, pieces[..<count].flatMap { $0 }).chainTip
    }
    #expect(tip() == expected(0))
    _ = core.put(id, 1, pieces[1])
    core.runEffects()
    #expect(tip() == expected(0))
    _ = core.put(id, 0, pieces[0])
    core.runEffects()
    #expect(tip() == expected(2))
    // Taken back and replaced: computed from what is held.
    _ = core.put(id, 0, [9, 9, 9, 9])
    #expect(tip() == expected(0))
    core.runEffects()
    _ = core.put(id, 0, pieces[0])
    core.runEffects()
    #expect(tip() == expected(2))
  }

  @Test func proofKeptOrComputed_saysTheSame() {
    for isReplacing in [false, true] {
      for damage in 0..<4 {
        let core = CoreHarness()
        let id = core.opened()
        isReplacing ? core.putAllReplacingOne(id, file) : core.putAll(id, file)
        var facts = CoreHarness.commitParameters(id, file)
        if damage == 1 { facts.merkleRoot = sha256([0]) }
        if damage == 2 { facts.chainTip = sha256([0]) }
        if damage == 3 { facts = CoreHarness.commitParameters(id, Array(file[..<8])) }
        let commit = core.commit(id, facts)
        core.runEffects()
        core.tick(after: 2000)
        let expected: [Refusal.Kind?] = [
          nil, .digestMismatch(field: "merkle_root"), .digestMismatch(field: "chain_tip"), nil,
        ]
        #expect(core.refusal(commit) == expected[damage], "damage \(damage), replacing: \(isReplacing)")
        #expect((core.receipt(commit) != nil) == (expected[damage] == nil))
      }
    }
  }

  @Test(.promises("P38")) func emptyFile_isPublished() {
    let core = CoreHarness()
    let id = core.opened()
    let commit = core.commit(id, CoreHarness.commitParameters(id, []))
    core.runEffects()
    #expect(core.receipt(commit)?.sizeBytes == 0)
  }

  @Test(.promises("P47")) func twoCommitsAtOnce_publishOnceAndGetOneReceipt() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAllReplacingOne(id, file)
    let first = core.commit(id, CoreHarness.commitParameters(id, file), receipt: "first")
    let second = core.commit(id, CoreHarness.commitParameters(id, file), receipt: "second")
    core.run(core.pending.removeFirst())
    let third = core.commit(id, CoreHarness.commitParameters(id, file), receipt: "third")
    #expect(core.pending.count == 1)
    core.runEffects()
    #expect(core.receipt(first)?.id == "first")
    #expect(core.receipt(second) == core.receipt(first) && core.receipt(third) == core.receipt(first))
  }

  /// Regression: a file that was renamed while its last chunks were on their way was published under its old name, too.
  @Test(.promises("P48")) func anotherCommitBeforeTheLastChunks_takesThePlaceOfTheFirst() {
    let core = CoreHarness()
    let id = core.opened()
    let chunks = CoreHarness.chunks(file, 4)
    _ = core.put(id, 0, chunks[0])
    core.runEffects()
    let first = core.commit(id, CoreHarness.commitParameters(id, file, name: "a.mov"))
    let second = core.commit(id, CoreHarness.commitParameters(id, file, name: "b.mov"))
    #expect(core.refusal(first) == .conflict)
    #expect(core.replies[second] == nil, "it waits for what is missing")
    for index in chunks.indices.dropFirst() { _ = core.put(id, UInt32(index), chunks[index]) }
    core.runEffects()
    #expect(core.receipt(second)?.name == "b.mov")
  }

  @Test(.promises("P48")) func anotherCommitAtTheSameTimeOrLater_isAConflict() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    _ = core.commit(id, CoreHarness.commitParameters(id, file))
    let other = CoreHarness.commitParameters(id, file, name: "other.mov")
    #expect(core.refusal(core.commit(id, other)) == .conflict)
    core.runEffects()
    #expect(core.refusal(core.commit(id, other)) == .conflict)
  }

  @Test(.promises("P75a")) func namesThatOnlyLookTheSame_areDifferentCommits() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    _ = core.commit(id, CoreHarness.commitParameters(id, file, name: "caf\u{e9}"))
    #expect(core.refusal(core.commit(id, CoreHarness.commitParameters(id, file, name: "cafe\u{301}"))) == .conflict)
  }

  @Test(.promises("P40", "P98")) func commitBeforeTheLastChunks_waitsForThem() {
    let core = CoreHarness()
    let id = core.opened()
    let chunks = CoreHarness.chunks(file, 4)
    _ = core.put(id, 0, chunks[0])
    core.runEffects()
    let arriving = core.begin(id, 1, chunks[1])
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.tick(after: 10_000)
    #expect(core.replies[commit] == nil, "a chunk is on its way")
    core.send(.chunkArrived(arriving, CoreHarness.facts(chunks[1])))
    core.runEffects()
    // The last chunk's header has not even arrived.
    core.tick(after: 1500)
    #expect(core.replies[commit] == nil, "within the grace")
    _ = core.put(id, 2, chunks[2])
    core.runEffects()
    #expect(core.receipt(commit) != nil)
  }

  @Test(.promises("P40", "P41")) func commitWithNothingOnItsWay_saysWhatIsMissing() {
    let core = CoreHarness()
    let id = core.opened()
    _ = core.put(id, 1, [5, 6, 7, 8])
    core.runEffects()
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.tick(after: 1999)
    #expect(core.replies[commit] == nil)
    core.tick(after: 1)
    #expect(core.refusal(commit) == .incomplete(missing: [0, 2]))
    core.putAll(id, file)
    let again = core.commit(id, CoreHarness.commitParameters(id, file))
    core.runEffects()
    #expect(core.receipt(again) != nil)
  }

  @Test(.promises("P40")) func chunkThatNeverArrives_delaysTheCommitForABoundedTime() {
    let core = CoreHarness()
    let id = core.opened()
    _ = core.begin(id, 0, [1, 2, 3, 4])
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.tick(after: 29_999)
    #expect(core.replies[commit] == nil)
    core.tick(after: 1)
    #expect(core.refusal(commit) == .incomplete(missing: [0, 1, 2]))
  }

  @Test(.promises("P42")) func otherBytesThanCommitted_areNotPublished() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, [1, 2, 3, 4, 5, 6, 7, 8, 9, 99])
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.runEffects()
    core.tick(after: 2000)
    #expect(core.refusal(commit) == .digestMismatch(field: "merkle_root"))
    #expect(!core.isPublishing)
    var facts = CoreHarness.commitParameters(id, [1, 2, 3, 4, 5, 6, 7, 8, 9, 99])
    facts.chainTip = sha256([0])
    let other = core.commit(id, facts)
    core.runEffects()
    core.tick(after: 2000)
    #expect(core.refusal(other) == .digestMismatch(field: "chain_tip"))
  }

  @Test func replacementOnItsWay_isWaitedFor() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    var patched = file
    patched[0] = 77
    let arriving = core.begin(id, 0, Array(patched[0..<4]))
    let commit = core.commit(id, CoreHarness.commitParameters(id, patched))
    core.runEffects()
    core.tick(after: 5000)
    #expect(core.replies[commit] == nil)
    core.send(.chunkArrived(arriving, CoreHarness.facts(Array(patched[0..<4]))))
    core.runEffects()
    #expect(core.receipt(commit) != nil)
  }

  /// Regression, found by the simulation (power, seed 217): the second write began while the first one's content was being
  /// published.
  @Test(.promises("P49")) func replacementThatWaitsForTheSamePlace_isNeverWrittenIntoAPublication() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let commit = core.commit(id, CoreHarness.commitParameters(id, [77] + file.dropFirst()))
    _ = core.put(id, 0, [77] + file[1..<4])
    _ = core.put(id, 0, [88] + file[1..<4])
    var isPublishing = false
    while !core.pending.isEmpty {
      let effect = core.pending.removeFirst()
      if case .publish = effect { isPublishing = true }
      if case .writeChunk = effect { #expect(!isPublishing) }
      core.run(effect)
    }
    #expect(core.receipt(commit) == nil, "what is there now is not what the commit describes")
    _ = core.put(id, 0, [77] + file[1..<4])
    core.runEffects()
    #expect(core.receipt(commit) != nil)
  }

  @Test func replacementDuringTheCheck_makesItsVerdictWorthless() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAllReplacingOne(id, file)
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    guard case .checkCommit(let check)? = core.pending.first else {
      Issue.record("no check")
      return
    }
    core.pending = []
    let replacing = core.put(id, 0, [9, 9, 9, 9])
    core.send(.commitChecked(check.session, generation: check.generation, check.verdict))
    #expect(!core.isPublishing, "chunk 0 is being overwritten")
    core.runEffects()
    #expect(core.wasHeld(replacing) == false)
    core.tick(after: 30_000)
    #expect(core.refusal(commit) == .digestMismatch(field: "merkle_root"))
  }

  @Test func writeBeyondTheEnd_isOverBeforePublication() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let writing = core.put(id, 7, [1, 2, 3, 4])
    let write = core.pending.removeFirst()
    _ = core.commit(id, CoreHarness.commitParameters(id, file))
    #expect(core.pending.isEmpty, "the write could make the published file longer")
    core.run(write)
    #expect(core.wasHeld(writing) == false)
    #expect(core.pending.count == 1)
  }

  @Test(.promises("P49")) func chunkDuringPublication_isToldToWait() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let arriving = core.begin(id, 0, [9, 9, 9, 9])
    _ = core.commit(id, CoreHarness.commitParameters(id, file))
    #expect(core.isPublishing)
    core.send(.chunkArrived(arriving, CoreHarness.facts([9, 9, 9, 9])))
    #expect(core.refusal(arriving) == .underWay)
    #expect(core.refusal(core.begin(id, 0, [9, 9, 9, 9])) == .underWay)
    core.runEffects()
    #expect(core.refusal(core.begin(id, 0, [9, 9, 9, 9])) == .conflict)
  }

  @Test(.promises("P29", "P41")) func fileThatShrank_needsItsLastChunkAgain() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let shorter = Array(file[0..<7])
    let commit = core.commit(id, CoreHarness.commitParameters(id, shorter))
    core.tick(after: 2000)
    #expect(core.refusal(commit) == .incomplete(missing: [1]))
    _ = core.put(id, 1, Array(shorter[4...]))
    core.runEffects()
    let again = core.commit(id, CoreHarness.commitParameters(id, shorter))
    core.runEffects()
    #expect(core.receipt(again)?.sizeBytes == 7)
  }

  @Test(.promises("P46")) func refusedPublication_leavesAUsableSession_butNothingBeyondTheEnd() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let shorter = Array(file[0..<4])
    let commit = core.commit(id, CoreHarness.commitParameters(id, shorter))
    core.run(core.pending.removeFirst())
    core.pending = []
    // The store has cut the data at 4 bytes by now.
    core.send(.published(id, .failure(.nameExists)))
    #expect(core.refusal(commit) == .nameExists)
    #expect(core.heldIndices(id) == [0])
  }

  @Test func publicationThatFailedOnTheDisk_believesNothingAnyMore() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, file)
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.pending = []
    core.send(.published(id, .failure(.io("fsync"))))
    #expect(core.refusal(commit) == .storeFailed)
    let query = core.query(id)
    #expect(core.replies[query] == nil)
    guard case .verifySession? = core.pending.first else {
      Issue.record("the data must be read again: \(core.pending)")
      return
    }
  }

  @Test(.promises("P39")) func sizeAndCountThatContradict_areRefused() {
    let core = CoreHarness()
    let id = core.opened()
    var facts = CoreHarness.commitParameters(id, file)
    facts.chunkCount = 2
    #expect(core.refusal(core.commit(id, facts)) == .badRequest(field: "chunk_count"))
    facts.sizeBytes = .max
    #expect(core.refusal(core.commit(id, facts)) == .tooLarge(limitBytes: 800_000))
  }

  @Test(.promises("P52")) func abortDuringAWaitingCommit_answersBoth() {
    let core = CoreHarness()
    let id = core.opened()
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    let abort = core.makeRequest()
    core.send(.abort(abort, core.credential.id, id))
    #expect(core.refusal(commit) == .sessionGone)
    guard case .ended? = core.replies[abort]?.last else {
      Issue.record("no answer")
      return
    }
    core.tick(after: 60_000)
    #expect(core.replies[commit]?.count == 1)
  }
}

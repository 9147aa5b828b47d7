import ChunkProtocol
import Lookup
import Promises
import ReceiverCore
import Testing

/// Chunks that are zeros, and do not travel.
@Suite struct CoreZerosTests {
  private func range(_ first: UInt32, _ last: UInt32) -> ChunkIndexRange { ChunkIndexRange(first: first, last: last) }

  @Test(.promises("P33i", "P33j")) func zeros_areHeldAndCommittedAsOtherChunks() {
    let core = CoreHarness()
    let id = core.opened()
    let file: [UInt8] = [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 9]
    _ = core.put(id, 1, [1, 2, 3, 4])
    _ = core.put(id, 4, [9])
    let request = core.zeros(id, [range(0, 0), range(2, 3)])
    core.runEffects()
    #expect(core.wasHeld(request) == false)
    #expect(core.heldIndices(id) == [0, 1, 2, 3, 4])
    let commit = core.commit(id, CoreHarness.commitParameters(id, file))
    core.runEffects()
    #expect(core.receipt(commit)?.sizeBytes == 17)
  }

  @Test(.promises("P33j")) func zerosAgain_areNotWrittenAgain() {
    let core = CoreHarness()
    let id = core.opened()
    _ = core.zeros(id, [range(2, 5)])
    core.runEffects()
    #expect(core.wasHeld(core.zeros(id, [range(2, 3), range(5, 5)])) == true)
    #expect(core.pending.isEmpty)
    // The same bytes, sent.
    #expect(core.wasHeld(core.put(id, 3, [0, 0, 0, 0])) == true)
    let more = core.zeros(id, [range(0, 7)])
    guard case .writeZeros(_, _, let chunks, let chunkBytes)? = core.pending.first else {
      Issue.record("nothing is written")
      return
    }
    #expect(chunks.ranges == [0..<2, 6..<8] && chunkBytes == 4)
    core.runEffects()
    #expect(core.wasHeld(more) == false && core.heldIndices(id) == [0, 1, 2, 3, 4, 5, 6, 7])
  }

  @Test(.promises("P33j")) func zerosAndBytes_replaceEachOther() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, [1, 1, 1, 1, 2, 2, 2, 2, 3])
    _ = core.zeros(id, [range(0, 0)])
    // Neither is held while one takes the place of the other.
    #expect(core.heldNow(id) == [1, 2])
    core.runEffects()
    _ = core.put(id, 0, [5, 5, 5, 5])
    #expect(core.heldNow(id) == [1, 2])
    core.runEffects()
    let commit = core.commit(id, CoreHarness.commitParameters(id, [5, 5, 5, 5, 2, 2, 2, 2, 3]))
    core.runEffects()
    #expect(core.receipt(commit) != nil)
  }

  @Test(.promises("P33l")) func badRanges_areRefusedAsAWhole() {
    let core = CoreHarness { $0.fileBytesMax = 400 }
    let id = core.opened()
    let cases: [[ChunkIndexRange]] = [
      [], [range(3, 4), range(1, 2)], [range(1, 3), range(3, 5)], [range(1, 1), range(1, 1)], [range(5, 4)],
      (0..<1001).map { range($0 * 2, $0 * 2) },
    ]
    for ranges in cases { #expect(core.refusal(core.zeros(id, ranges)) == .badRequest(field: "ranges")) }
    for ranges in [[range(0, 100)], [range(0, 0), range(100, 100)], [range(0, .max)], [range(.max, .max)]] {
      #expect(core.refusal(core.zeros(id, ranges)) == .tooLarge(limitBytes: 400))
    }
    #expect(core.pending.isEmpty && core.heldIndices(id) == [])
    let last = core.zeros(id, [range(99, 99)])
    core.runEffects()
    #expect(core.wasHeld(last) == false)
  }

  @Test(.promises("P33l", "P89b", "SE7")) func wrongTag_storesNothing() {
    let core = CoreHarness()
    let id = core.opened()
    let other = core.opened(key: "other")
    let good = core.zerosMAC(id, [range(1, 2)])
    for (session, ranges, mac) in [
      (id, [range(1, 3)], good), (id, [range(1, 1), range(2, 2)], good), (other, [range(1, 2)], good),
      (id, [range(1, 2)], core.zerosMAC(id, [range(1, 2)], chunk: 8)), (id, [range(1, 2)], []),
      (id, [range(1, 1)], core.mac([0, 0, 0, 0], index: 1, session: id.text, token: CoreHarness.token)),
    ] {
      #expect(core.refusal(core.zeros(session, ranges, mac: mac)) == .tagMismatch)
    }
    #expect(core.pending.isEmpty)
    #expect(core.refusal(core.zeros(id, [range(1, 2)], by: core.other)) == .sessionGone)
  }

  @Test(.promises("P33l")) func chunkThatIsBeingWritten_isNotMadeZerosMeanwhile_norTheOtherWayRound() {
    let core = CoreHarness()
    let id = core.opened()
    let write = core.put(id, 2, [1, 1, 1, 1])
    #expect(core.refusal(core.zeros(id, [range(0, 4)])) == .underWay)
    core.runEffects()
    #expect(core.wasHeld(write) == false)
    let zeros = core.zeros(id, [range(0, 4)])
    #expect(core.refusal(core.put(id, 3, [2, 2, 2, 2])) == .underWay)
    #expect(core.refusal(core.zeros(id, [range(4, 9)])) == .underWay)
    let beside = core.put(id, 5, [2, 2, 2, 2])
    core.runEffects()
    #expect(core.wasHeld(zeros) == false && core.wasHeld(beside) == false)
    #expect(core.heldIndices(id) == [0, 1, 2, 3, 4, 5])
  }

  @Test(.promises("P33j", "P40")) func commit_waitsForZerosThatAreBeingWritten() {
    let core = CoreHarness()
    let id = core.opened()
    let zeros = core.zeros(id, [range(0, 2)])
    let commit = core.commit(id, CoreHarness.commitParameters(id, [UInt8](repeating: 0, count: 12)))
    core.tick(after: 5000)
    #expect(core.refusal(commit) == nil)
    core.runEffects()
    #expect(core.wasHeld(zeros) == false && core.receipt(commit) != nil)
    #expect(core.refusal(core.zeros(id, [range(0, 0)])) == .conflict)
  }

  @Test(.promises("P33j")) func zerosThatCouldNotBeWritten_areNotHeld() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, [1, 1, 1, 1])
    let request = core.zeros(id, [range(0, 3)])
    core.pending.removeAll()
    core.send(.zerosWritten(request, .full))
    #expect(core.refusal(request) == .insufficientStorage)
    #expect(core.heldIndices(id) == [])
    _ = core.zeros(id, [range(0, 3)])
    core.runEffects()
    #expect(core.heldIndices(id) == [0, 1, 2, 3])
  }

  @Test(.promises("P33m")) func quota_countsZerosAsBytes_andTheDiskDoesNot() {
    let core = CoreHarness(quota: 100)
    let id = core.opened()
    // The disk has room for nothing but its reserve.
    #expect(core.wasHeld(stored(core, core.zeros(id, [range(0, 9)], free: 1000))) == false)
    core.putAll(id, [UInt8](repeating: 1, count: 4))
    #expect(core.refusal(core.zeros(id, [range(10, 25)])) == .quotaExceeded)
    #expect(core.wasHeld(stored(core, core.zeros(id, [range(10, 24)]))) == false)
    // What takes the place of bytes takes no more than they do.
    #expect(core.wasHeld(stored(core, core.zeros(id, [range(0, 0)]))) == false)
    #expect(core.refusal(core.zeros(id, [range(25, 25)])) == .quotaExceeded)
    #expect(core.refusal(core.zeros(id, [range(0, 0)], free: 999)) == nil)
    #expect(core.refusal(core.zeros(core.opened(key: "b"), [range(0, 0)], free: 999)) == .insufficientStorage)
  }

  @Test(.promises("P33m")) func chunksThatAreReplacedForEver_haveABound() {
    let core = CoreHarness {
      $0.fileBytesMax = 16
      $0.writesPerChunkMax = 2
    }
    let id = core.opened()
    // The largest file has five chunks, counted generously: ten writes.
    for last in [2, 0, 0, 0] as [UInt32] {
      _ = core.zeros(id, [range(0, last)])
      core.runEffects()
      _ = core.put(id, 0, [1, 1, 1, 1])
      core.runEffects()
    }
    #expect(core.refusal(core.zeros(id, [range(0, 0)])) == .tooManySessions)
  }

  @Test(.promises("P33j", "P37")) func zerosOfAnEarlierRun_areHeldOnceTheyWereLookedAt() {
    let core = CoreHarness()
    let before = CoreHarness()
    let id = before.opened()
    guard let facts = before.facts(of: id) else {
      Issue.record("not opened")
      return
    }
    var recorded = ChunkTable()
    recorded.insertZeros(0..<1000, of: .zeros(4))
    recorded.insert(CoreHarness.facts([1, 2, 3, 4]), at: 7)
    core.core.recover(open: facts, lastChange: core.now, recordedChunks: recorded)
    let query = core.query(id)
    var found = ChunkTable()
    found.insertZeros(0..<900, of: .zeros(4))
    core.send(.sessionVerified(id, .success(found)))
    guard case .held(let held)? = core.replies[query]?.last else {
      Issue.record("no answer")
      return
    }
    #expect(held.chunks.keys.ranges == [0..<900] && held.chunks.zeros.count == 900)
  }

  @Test(.promises("P35")) func whatIsSecured_namesZerosThatWereNotReplacedMeanwhile() {
    let core = CoreHarness()
    let id = core.opened()
    _ = core.zeros(id, [range(0, 5)])
    core.runEffects()
    let secure = core.secure(id)
    let effects = core.pending
    core.pending = []
    _ = core.put(id, 2, [1, 1, 1, 1])
    core.runEffects()
    for effect in effects { core.run(effect) }
    #expect(core.secured(secure) == [0, 1, 3, 4, 5])
  }

  private func stored(_ core: CoreHarness, _ request: RequestID) -> RequestID {
    core.runEffects()
    return request
  }
}

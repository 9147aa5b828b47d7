import ChunkProtocol
import Integrity
import Lookup
import Promises
import ReceiverCore
import Testing

@Suite struct CoreChunkTests {
  @Test(.promises("P24")) func chunk_isAcknowledgedOnlyWhenItIsWritten() {
    let core = CoreHarness()
    let id = core.opened()
    let request = core.put(id, 0, [1, 2, 3, 4])
    #expect(core.wasHeld(request) == nil)
    core.runEffects()
    #expect(core.wasHeld(request) == false)
    #expect(core.heldIndices(id) == [0])
  }

  @Test(.promises("P26")) func sameChunkAgain_isWrittenOnce() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, [1, 2, 3, 4])
    let again = core.put(id, 0, [1, 2, 3, 4])
    #expect(core.pending.isEmpty)
    #expect(core.wasHeld(again) == true)
  }

  @Test(.promises("P27")) func twoOfOnePlaceAtOnce_areWrittenOneAfterTheOther() {
    let core = CoreHarness()
    let id = core.opened()
    let first = core.put(id, 0, [1, 1, 1, 1])
    let second = core.put(id, 0, [2, 2, 2, 2])
    let third = core.put(id, 0, [2, 2, 2, 2])
    #expect(core.pending.count == 1)
    core.run(core.pending.removeFirst())
    #expect(core.wasHeld(first) == false && core.wasHeld(second) == nil)
    #expect(core.pending.count == 1)
    core.runEffects()
    #expect(core.wasHeld(second) == false && core.wasHeld(third) == true)
  }

  @Test(.promises("P28")) func chunkBeingReplaced_isNotReportedAsHeld() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, [1, 1, 1, 1, 2, 2, 2, 2])
    _ = core.put(id, 0, [3, 3, 3, 3])
    let query = core.query(id)
    guard case .held(let held)? = core.replies[query]?.last else {
      Issue.record("no answer")
      return
    }
    #expect(held.chunks.keys.sorted() == [1])
    core.runEffects()
    #expect(core.heldIndices(id) == [0, 1])
  }

  @Test(.promises("P30")) func refusedReplacement_leavesWhatWasHeld() {
    let core = CoreHarness()
    let id = core.opened()
    core.putAll(id, [1, 1, 1, 1])
    let request = core.begin(id, 0, [2, 2, 2, 2])
    core.send(.chunkArrived(request, CoreHarness.facts([2, 2, 2, 9])))
    #expect(core.refusal(request) == .digestMismatch(field: "X-Chunk-SHA256"))
    #expect(core.pending.isEmpty)
    #expect(core.heldIndices(id) == [0])
  }

  @Test(.promises("P31")) func wrongTag_storesNothing() {
    let core = CoreHarness()
    let id = core.opened()
    let bytes: [UInt8] = [1, 2, 3, 4]
    for mac in [
      [UInt8](repeating: 0, count: 32), core.mac(bytes, index: 1, session: id.text, token: CoreHarness.token),
      core.mac(bytes, index: 0, session: "other", token: CoreHarness.token),
      core.mac(bytes, index: 0, session: id.text, nonce: 8, token: CoreHarness.token),
      core.mac(bytes, index: 0, session: id.text, token: CoreHarness.otherToken), [],
    ] {
      let request = core.begin(id, 0, bytes, mac: mac)
      core.send(.chunkArrived(request, CoreHarness.facts(bytes)))
      #expect(core.refusal(request) == .tagMismatch)
    }
    #expect(core.pending.isEmpty)
    #expect(core.heldIndices(id) == [])
  }

  @Test(.promises("P31", "P83")) func lyingSizes_areRefused() {
    let core = CoreHarness()
    let id = core.opened()
    let sizeField = Refusal.Kind.badRequest(field: "X-Chunk-Size")
    #expect(core.refusal(core.begin(id, 0, [])) == sizeField)
    #expect(core.refusal(core.begin(id, 0, [1, 2, 3, 4, 5])) == .tooLarge(limitBytes: 4))
    #expect(core.refusal(core.begin(id, 0, [1, 2, 3, 4], length: 3)) == sizeField)
    let encodingField = Refusal.Kind.badRequest(field: "X-Chunk-Encoding")
    #expect(core.refusal(core.begin(id, 0, [1, 2, 3, 4], length: 5, encoding: .lz4)) == encodingField)
    #expect(core.refusal(core.begin(id, 0, [1, 2, 3, 4], length: 5, encoding: .zstd(.none))) == encodingField)
    let shorter = core.begin(id, 0, [1, 2, 3, 4], length: 3, encoding: .lz4)
    #expect(core.isAdmitted(shorter))
    core.send(.chunkFailed(shorter, .bodyBrokeOff))
    let short = core.begin(id, 0, [1, 2, 3, 4], length: 4)
    core.send(.chunkArrived(short, CoreHarness.facts([1, 2, 3])))
    #expect(core.refusal(short) == sizeField)
    #expect(core.heldIndices(id) == [])
  }

  @Test(.promises("P31")) func chunkBeyondTheLargestFile_isRefusedWithTheLimit() {
    let core = CoreHarness { $0.fileBytesMax = 10 }
    let id = core.opened()
    #expect(core.isAdmitted(core.begin(id, 2, [1, 2])))
    #expect(core.refusal(core.begin(id, 2, [1, 2, 3])) == .tooLarge(limitBytes: 10))
    #expect(core.refusal(core.begin(id, 3, [1])) == .tooLarge(limitBytes: 10))
    #expect(core.refusal(core.begin(id, .max, [1])) == .tooLarge(limitBytes: 10))
  }

  @Test(.promises("P33a")) func bodyThatBreaksOff_leavesTheSessionUsable() {
    let core = CoreHarness()
    let id = core.opened()
    let request = core.begin(id, 0, [1, 2, 3, 4])
    core.send(.chunkFailed(request, Refusal(.bodyTimeout, "too slow")))
    #expect(core.refusal(request) == .bodyTimeout)
    core.putAll(id, [1, 2, 3, 4])
    #expect(core.heldIndices(id) == [0])
  }

  @Test(.promises("P24")) func failedWrite_isNotHeld() {
    let core = CoreHarness()
    let id = core.opened()
    let request = core.put(id, 0, [1, 2, 3, 4])
    core.pending = []
    core.send(.chunkWritten(request, .full))
    #expect(core.refusal(request) == .insufficientStorage)
    #expect(core.heldIndices(id) == [])
  }

  @Test(.promises("P52")) func sessionAbortedInMidChunk_answersTheChunk() {
    let core = CoreHarness()
    let id = core.opened()
    let arriving = core.begin(id, 0, [1, 2, 3, 4])
    let writing = core.put(id, 1, [1, 2, 3, 4])
    let waiting = core.put(id, 1, [5, 6, 7, 8])
    let abort = core.makeRequest()
    core.send(.abort(abort, core.credential.id, id))
    #expect(core.refusal(waiting) == .sessionGone)
    core.send(.chunkArrived(arriving, CoreHarness.facts([1, 2, 3, 4])))
    core.send(.chunkWritten(writing, nil))
    #expect(core.refusal(arriving) == .sessionGone && core.refusal(writing) == .sessionGone)
  }

  @Test func replacingForEver_isBounded() {
    let core = CoreHarness {
      $0.chunkCountMax = 1
      $0.writesPerChunkMax = 3
    }
    let id = core.opened()
    for value in UInt8(0)..<3 {
      _ = core.put(id, 0, [value, 0, 0, 0])
      core.runEffects()
    }
    #expect(core.refusal(core.begin(id, 0, [9, 0, 0, 0])) == .tooManySessions)
    #expect(core.heldIndices(id) == [0])
  }
}

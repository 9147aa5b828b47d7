import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct ChunkRetryTests {
  private func sending(_ file: ImaginaryFile) -> ScheduleHarness {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    return harness
  }

  @Test func failingChunk_restsAlone_theOthersGoOn() {
    let file = ImaginaryFile(1, "a.mov", size: 30_000)
    var harness = sending(file)
    harness.answerChunk(3, .refused(StepFailure(.digestMismatch, "damaged")))
    #expect(harness.state(file.id) == .uploading)
    #expect(harness.chunkRequests.count == 12, "its stream carries another chunk")
    #expect(!harness.chunkRequests.contains { $0.index == 3 })
    harness.advance(by: UploadConstants.retryBaseDelay)
    harness.answerReads()
    harness.answerChunk(0, .chunkStored)
    harness.answerChunk(1, .chunkStored)
    harness.answerChunk(2, .chunkStored)
    harness.answerChunk(4, .chunkStored)
    harness.answerReads()
    #expect(harness.chunkRequests.contains { $0.index == 3 })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func attempts_areCountedForEachChunk() {
    let file = ImaginaryFile(1, "a.mov", size: 10_000)
    var harness = sending(file)
    // Every chunk is damaged six times, 60 times in all; one more time would be too often.
    for _ in 0..<6 {
      for index in 0..<10 {
        harness.answerReads()
        for _ in 0..<100 where !harness.chunkRequests.contains(where: { $0.index == index }) {
          harness.advance(by: .seconds(1))
          harness.answer(.held(digests: [:])) { $0.isQuery }
          harness.answerReads()
        }
        harness.answerChunk(index, .refused(StepFailure(.digestMismatch, "damaged")))
        #expect(harness.state(file.id) != .failed)
      }
    }
    for _ in 0..<60 { harness.advance(by: .seconds(1)) }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.status(file.id)?.chunks.retried == 60)
    #expect(harness.saysSentAgain == ["a.mov: damaged"], "once for a file, however many chunks go twice")
  }

  /// Regression: the log had no word of a chunk that went twice, unless the whole file had to pause.
  @Test func aChunkThatGoesTwice_isSaid() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    harness.answerChunk(0, .chunkStored)
    #expect(harness.saysSentAgain == [])
    harness.answerChunk(1, .refused(StepFailure(.digestMismatch, "damaged")))
    #expect(harness.saysSentAgain == ["a.mov: damaged"])
  }

  @Test func chunkThatIsDamagedSevenTimes_failsTheFile() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    harness.answerChunk(0, .chunkStored)
    harness.answerChunk(2, .chunkStored)
    let held = [0, 2].reduce(into: LookupTable<Int, Digest32>()) {
      $0[$1] = ScheduleHarness.digest(file: file.id, epoch: 1, offset: UInt64($1) * 1000).sha256
    }
    for attempt in 1...7 {
      harness.answerReads()
      #expect(harness.state(file.id) != .failed, "attempt \(attempt)")
      harness.answerChunk(1, .refused(StepFailure(.digestMismatch, "damaged")))
      for _ in 0..<16 { harness.advance(by: .seconds(1)) }
      // A minute without progress: the server is asked in between.
      harness.answer(.held(digests: held)) { $0.isQuery }
    }
    #expect(harness.state(file.id) == .failed)
    #expect(harness.buffers.isEmpty)
  }

  @Test func failuresAfterAFailure_withNothingAcknowledgedBetween_pauseTheFile() {
    let file = ImaginaryFile(1, "a.mov", size: 100_000)
    var harness = sending(file)
    var sent = 0
    for _ in 0..<20 {
      harness.advance(by: .milliseconds(1))
      harness.answerReads()
      while harness.answer(StepFailure.connection(.connectionLost), where: { $0.isChunk }) != nil { sent += 1 }
    }
    #expect(harness.state(file.id) == .waiting)
    #expect(sent <= 30, "\(sent) chunks were thrown at a line that carries none")
    harness.advance(by: .seconds(2))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }

  @Test func tooEarly_isSentAgainAtOnce_onlyTheFirstTime() {
    let file = ImaginaryFile(1, "a.mov", size: 2000)
    var harness = sending(file)
    harness.answerChunk(0, .refused(StepFailure(.tooEarly, "too early")))
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, 1])
    harness.answerChunk(0, .refused(StepFailure(.tooEarly, "too early")))
    harness.answerReads()
    #expect(!harness.chunkRequests.contains { $0.index == 0 })
  }

  @Test(.promises("P94")) func retryAfter_isNotUndercut() {
    let file = ImaginaryFile(1, "a.mov", size: 2000)
    var harness = sending(file)
    harness.answerChunk(0, .refused(StepFailure(.tooEarly, "too early", retryAfter: .seconds(40))))
    for _ in 0..<39 {
      harness.advance(by: .seconds(1))
      harness.answerReads()
      #expect(!harness.chunkRequests.contains { $0.index == 0 })
    }
    harness.advance(by: .seconds(1))
    harness.answerReads()
    #expect(harness.chunkRequests.contains { $0.index == 0 })
  }

  @Test func chunkThatTheRestartedReceiverDenies_isSentAgain() {
    let file = ImaginaryFile(1, "a.mov", size: 20_000)
    var harness = sending(file)
    for index in 0..<5 { harness.answerChunk(index, .chunkStored) }
    harness.answerReads()
    // A conflict makes the client ask; the receiver has lost what it had not synced.
    for index in 5..<17 {
      guard harness.chunkRequests.contains(where: { $0.index == index }) else { continue }
      harness.answerChunk(index, .chunkStored)
      harness.answerReads()
    }
    for _ in 0..<100 where harness.commits.isEmpty {
      harness.answer(.chunkStored) { $0.isChunk }
      harness.answerReads()
    }
    harness.answer(.refused(StepFailure(.conflict, "other chunks"))) { $0.isCommit }
    harness.advance(by: .seconds(2))
    var held: LookupTable<Int, Digest32> = [:]
    for index in 0..<18 {
      held[index] = ScheduleHarness.digest(file: file.id, epoch: 1, offset: UInt64(index) * 1000).sha256
    }
    held[4] = nil
    harness.answer(.held(digests: held)) { $0.isQuery }
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [4, 18, 19])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func chunkThatTheServerDoesNotReplace_beginsTheUploadAnewAndEndsTheOldOne() {
    let file = ImaginaryFile(1, "a.mov", size: 5000)
    var harness = sending(file)
    harness.answerChunk(0, .refused(StepFailure(.notReplaceable, "it holds other bytes")))
    #expect(harness.status(file.id)?.lastFailure?.code == "rewritten")
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    harness.advance(by: .seconds(6))
    #expect(harness.sent.contains { $0.order.isAbort }, "the first session is ended")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("DE26c")) func aNameThatIsTakenAtTheEnd_beginsTheUploadAnewAndEndsTheOldOne() {
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    var harness = sending(file)
    for index in 0..<3 { harness.answerChunk(index, .chunkStored) }
    harness.answer(.refused(StepFailure(.nameTaken, "the next number"))) { $0.isCommit }
    #expect(harness.status(file.id)?.lastFailure?.code == "name-taken")
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    harness.advance(by: .seconds(6))
    #expect(harness.sent.contains { $0.order.isAbort }, "the first session is ended")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S72g")) func aDamagedSessionThatHasNothingAlone_isLeftForANewOne() {
    let file = ImaginaryFile(1, "a.mov", size: 5000)
    var harness = sending(file)
    harness.answerChunk(0, .refused(StepFailure(.sessionDamaged, "damaged")))
    #expect(harness.status(file.id)?.lastFailure?.code == "session-damaged")
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func acknowledgementInAnEarlierSession_saysNothingAboutTheNewOne() {
    let file = ImaginaryFile(1, "a.mov", size: 5000)
    var harness = sending(file)
    harness.answerChunk(0, .refused(StepFailure(.sessionGone, "gone")))
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    // It was on its way when the receiver gave the session up.
    harness.answerChunk(1, .chunkStored)
    harness.answerReads()
    let indices = harness.sent.compactMap { request -> Int? in
      if case .chunk(let one) = request.order, one.session.id == "s2" { return one.chunk.index }
      return nil
    }
    #expect(indices.sorted() == [0, 1, 2, 3, 4])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }

  @Test(.promises("P82")) func chunks_travelCompressed_onlyOnceTheReceiverSaysThatItDecodes() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 20_000)
    harness.write(file)
    #expect(harness.reads.allSatisfy { !$0.mayCompress })
    harness.answer(.warmed) { $0.isPrewarm }
    harness.answer(
      .sessionOpened(id: "s", chunkBytes: 1000, expiresAtSeconds: nil, encodings: [.identity, .lz4])
    ) { $0.isOpenSession }
    harness.answerReads()
    harness.answer(.chunkStored) { $0.isChunk }
    #expect(!harness.reads.isEmpty && harness.reads.allSatisfy { $0.mayCompress })
  }

  @Test(arguments: [-3_600_000, 3_600_000] as [Int64])
  func clockThatJumpsAnHour_movesNoDeadline(milliseconds: Int64) {
    let file = ImaginaryFile(1, "a.mov", size: 2000)
    var harness = sending(file)
    harness.answerChunk(0, StepFailure.connection(.connectionLost))
    let deadline = harness.schedule.nextDeadline
    harness.now.wallMilliseconds += milliseconds
    harness.apply { $0.woke(at: $1) }
    harness.answerReads()
    #expect(harness.schedule.nextDeadline == deadline)
    #expect(!harness.chunkRequests.contains { $0.index == 0 }, "it still rests")
    harness.advance(by: UploadConstants.retryBaseDelay)
    harness.answerReads()
    #expect(harness.chunkRequests.contains { $0.index == 0 })
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func clockThatJumpsToAndFro_changesNothing() {
    let file = ImaginaryFile(1, "a.mov", size: 40_000)
    var harness = sending(file)
    for step in 0..<40 where harness.state(file.id) != .complete {
      harness.now.wallMilliseconds += step.isMultiple(of: 2) ? 3_600_000 : -3_600_000
      if step == 3 { harness.answerChunk(3, StepFailure.connection(.connectionLost)) }
      harness.answerReads()
      harness.answer(.chunkStored) { $0.isChunk }
      #expect(!harness.sent.contains { $0.order.isOpenSession || $0.order.isQuery })
    }
    harness.advance(by: .seconds(1))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.status(file.id)?.chunks.retried == 1)
  }

  @Test func answersTwiceLateOrAsNonsense_changeNothing() {
    let file = ImaginaryFile(1, "a.mov", size: 5000)
    var harness = sending(file)
    let request = harness.sent.first { $0.order.isChunk }
    harness.answerChunk(0, .chunkStored)
    let nonsense: [StepOutcome] = [
      .chunkStored, .warmed, .ended, .held(digests: [-1: sha256([]), .max: sha256([1])]),
      .incomplete(missing: [.min, .max]),
      .sessionOpened(id: "", chunkBytes: .min, expiresAtSeconds: .min), .refused(StepFailure(.sessionGone, "gone")),
    ]
    for outcome in nonsense {
      for id in [request?.id ?? HTTPRequestID(1), HTTPRequestID(.max)] {
        harness.apply { $0.requestCompleted(id, outcome: outcome, connection: HTTPConnectionMetrics(), at: $1) }
      }
    }
    #expect(harness.status(file.id)?.chunks.done == 1)
    // As the answer to a chunk, each is a failure of that chunk.
    for (index, outcome) in nonsense.dropFirst().dropLast().prefix(4).enumerated() {
      harness.answerChunk(index + 1, outcome)
    }
    harness.apply { $0.chunkRead(ReadID(.max), result: .changed, at: $1) }
    harness.apply { $0.recorded(file.id, receipt: ScheduleHarness.receipt(.root, 1, root: "", tip: ""), at: $1) }
    harness.advance(by: .seconds(1))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.buffers.isEmpty)
  }
}

extension ScheduleHarness {
  /// Which files the log says to have a chunk that is sent again, and why.
  fileprivate var saysSentAgain: [String] {
    others.compactMap { action in
      guard case .report(.chunkSentAgain(_, let path, let failure)) = action else { return nil }
      return "\(path.displayText): \(failure.message)"
    }
  }
}

import FileModel
import Lookup
import OrderedCollections
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct CancelTests {
  /// Cancels (or removes) a file after each number of steps of its upload, and lets everything be answered that is under
  /// way, as cancelled or as successful.
  @Test(arguments: [false, true], [false, true])
  func atEveryStepOfAnUpload_nothingIsLeft(isRemoved: Bool, isAnsweredWell: Bool) {
    for size: UInt64 in [0, 400, 3500] {
      for steps in 0..<30 {
        var harness = ScheduleHarness(commitWaitsForChunks: true)
        harness.handle(.scanEnded)
        let file = ImaginaryFile(1, "a.mov", size: size)
        var opened: Set<String> = []
        walk(&harness, file, steps: steps, &opened)
        let wasDelivered = harness.schedule.files[file.id]?.receipt != nil
        if isRemoved { harness.handle(.removed(file.id)) } else { harness.apply { $0.cancel(file.id, at: $1) } }
        answerAll(&harness, well: isAnsweredWell, &opened)
        let comment: Comment = "size \(size), \(steps) steps"
        #expect(harness.sent.isEmpty && harness.reads.isEmpty && harness.buffers.isEmpty, comment)
        #expect(harness.schedule.requests.isEmpty && harness.schedule.memory.buffers.isEmpty, comment)
        #expect(harness.schedule.link.inFlight == 0 && harness.schedule.requests.controlCount == 0, comment)
        #expect(harness.schedule.destination.sessionsToEnd.isEmpty, comment)
        if !wasDelivered {
          #expect(harness.state(file.id) == .cancelled, comment)
          #expect(harness.schedule.resumeSnapshot(of: file.id, since: nil) == nil, comment)
          #expect(opened.isEmpty, "sessions \(opened) were not ended: \(comment)")
          let entry = harness.schedule.catalogEntry(of: file.id)
          let code = steps == 0 ? "cancelled-while-written" : "cancelled"
          #expect(isRemoved ? entry == nil : entry?.failureCode == code, comment)
        }
      }
    }
  }

  private func walk(_ harness: inout ScheduleHarness, _ file: ImaginaryFile, steps: Int, _ opened: inout Set<String>) {
    if steps == 0 {
      harness.handle(file.opened)
      return
    }
    harness.handle(file.opened)
    if steps.isMultiple(of: 2) { harness.advance(by: .milliseconds(20)) }
    harness.handle(file.settled)
    for _ in 1..<steps {
      if !harness.reads.isEmpty {
        let order = harness.reads.removeFirst()
        harness.apply { $0.chunkRead(order.id, result: .success(ScheduleHarness.digest(order)), at: $1) }
      } else if let request = harness.sent.first {
        answer(&harness, request.order, well: true, &opened)
      }
    }
  }

  private func answer(
    _ harness: inout ScheduleHarness, _ order: SendOrder, well: Bool, _ opened: inout Set<String>
  ) {
    if case .openSession = order, well { opened.insert("s") }
    if case .abort(let session) = order { opened.remove(session.id) }
    if case .commit = order, well { opened.remove("s") }
    harness.answer(well ? ScheduleHarness.success(of: order) : StepFailure.connection(.cancelled)) { $0 == order }
  }

  private func answerAll(_ harness: inout ScheduleHarness, well: Bool, _ opened: inout Set<String>) {
    for _ in 0..<100 {
      harness.answerReads()
      guard let request = harness.sent.first else {
        harness.advance(by: .seconds(5))
        if harness.sent.isEmpty { return }
        continue
      }
      let isEnding = request.order.isAbort || request.order.isPrewarm || request.order.isOpenSession
      answer(&harness, request.order, well: well || isEnding, &opened)
    }
  }

  @Test func cancelledFile_staysCancelledOverARestart_andIsDeliveredWhenAUserAsks() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    harness.apply { $0.cancel(file.id, at: $1) }
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    var restarted = ScheduleHarness(catalog: [entry])
    restarted.handle(file.found)
    restarted.handle(.scanEnded)
    restarted.succeed()
    #expect(restarted.state(file.id) == .cancelled)
    #expect(restarted.schedule.isIdle)
    restarted.apply { $0.retryAll(at: $1) }
    #expect(restarted.state(file.id) == .cancelled, "what was cancelled is not what has failed")
    restarted.apply { $0.retry(file.id, at: $1) }
    restarted.succeed()
    #expect(restarted.state(file.id) == .complete)
  }

  @Test func cancelledFile_thatChanges_isANewCapture() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    harness.apply { $0.cancel(file.id, at: $1) }
    file.snapshot.epoch = 2
    harness.handle(file.opened)
    harness.handle(file.changed)
    harness.handle(file.settled)
    while harness.answer(StepFailure.connection(.cancelled), where: { $0.isChunk }) != nil {}
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func unneededSessions_areEndedAlsoWhileThereIsMuchToDo() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let huge = ImaginaryFile(1, "huge", size: 1_000_000)
    harness.beginSending(huge)
    let other = ImaginaryFile(2, "other", size: 5000)
    harness.write(other)
    harness.answer(.sessionOpened(id: "t", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.apply { $0.cancel(other.id, at: $1) }
    #expect(!harness.sent.contains { $0.order.isAbort })
    harness.advance(by: .seconds(5))
    #expect(harness.sent.contains { $0.order.isAbort })
    // One that could not be ended is tried again.
    harness.answer(.refused(StepFailure(.unexpectedAnswer, "?"))) { $0.isAbort }
    #expect(!harness.sent.contains { $0.order.isAbort })
    harness.advance(by: .seconds(15))
    #expect(harness.sent.contains { $0.order.isAbort })
  }
}

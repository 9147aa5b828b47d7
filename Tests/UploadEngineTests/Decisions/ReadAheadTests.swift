import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// Reading ahead of the network, and what short memory does to it (docs/design/reading.md#memory).
@Suite struct ReadAheadTests {
  private let file = ImaginaryFile(1, "a.mov", size: 100_000)

  /// A large file whose session is open.
  private func harness(parallel: Int = 12) -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.parallelChunks = parallel
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    harness.write(file)
    while let request = harness.sent.first(where: { !$0.order.isChunk }) {
      harness.answer(ScheduleHarness.success(of: request.order)) { $0 == request.order }
    }
    return harness
  }

  /// One chunk read for each that is acknowledged: the disk is just as fast as the network.
  @Test(arguments: [12, 4, 1])
  func theNetworkNeverWaitsForADiskThatIsFastEnough(parallel: Int) throws {
    var harness = harness(parallel: parallel)
    harness.answerReads()
    var done = harness.chunkRequests.count
    #expect(done == parallel, "as many as may be are in flight at once")
    while done < 100 {
      harness.answer(.chunkStored) { $0.isChunk }
      done += 1
      #expect(harness.chunkRequests.count == parallel, "after \(done) of 100 chunks a request had to wait for the disk")
      if let order = harness.reads.first {
        harness.reads.removeFirst()
        harness.apply { $0.chunkRead(order.id, result: .success(ScheduleHarness.digest(order)), at: $1) }
      }
    }
  }

  @Test(arguments: [(12, 15), (4, 7), (1, 4)])
  func readingIsThreeAheadAndNoMore(parallel: Int, buffers: Int) {
    var harness = harness(parallel: parallel)
    harness.answerReads()
    #expect(harness.buffers.count == buffers)
    #expect(harness.chunkRequests.count == parallel)
    harness.succeed()
    #expect(harness.buffersMax == buffers)
    #expect(harness.state(file.id) == .complete)
  }

  @Test func shortMemory_makesItSmallAndNeverStopsIt() {
    var harness = harness()
    harness.answerReads()
    #expect(harness.buffers.count == 15)
    harness.apply { $0.memoryChanged(to: MemoryBudget(availableBytes: 0), at: $1) }
    #expect(harness.others.contains(.resizeBuffers(3)))
    // What is in flight ends; nothing follows until only what the budget allows is left.
    for left in stride(from: 14, through: 3, by: -1) {
      harness.answer(.chunkStored) { $0.isChunk }
      #expect(harness.buffers.count == max(left, 3))
    }
    harness.buffersMax = 0
    harness.chunkRequestsMax = 0
    harness.succeed()
    #expect(harness.buffersMax <= 3)
    #expect(harness.chunkRequestsMax <= 2)
    #expect(harness.state(file.id) == .complete)
  }

  @Test func whenMemoryIsBack_soIsTheSpeed() {
    var harness = harness()
    harness.apply { $0.memoryChanged(to: MemoryBudget(availableBytes: 0), at: $1) }
    harness.apply { $0.memoryChanged(to: .full, at: $1) }
    #expect(harness.others.contains(.resizeBuffers(15)))
    harness.answerReads()
    #expect(harness.chunkRequests.count == 12)
    harness.others.removeAll()
    harness.apply { $0.memoryChanged(to: .full, at: $1) }
    #expect(harness.others == [], "nothing has changed")
  }
}

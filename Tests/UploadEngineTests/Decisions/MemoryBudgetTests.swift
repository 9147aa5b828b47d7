import Testing
import TransferModel

@testable import UploadEngine

@Suite struct MemoryBudgetTests {
  /// 12, 8, 4 or 2 chunks in flight by what is available: never a pause, never fewer than two.
  @Test(arguments: [
    (UInt64.max, 12, 3, false), (200_000_001, 12, 3, false), (200_000_000, 8, 3, false), (100_000_001, 8, 3, false),
    (100_000_000, 4, 2, false), (50_000_001, 4, 2, false), (50_000_000, 2, 1, true), (0, 2, 1, true),
  ])
  func table(available: UInt64, inFlight: Int, ahead: Int, plainly: Bool) {
    let budget = MemoryBudget(availableBytes: available)
    #expect(budget.chunksInFlight == inFlight)
    #expect(budget.chunksReadAhead == ahead)
    #expect(budget.buffers == inFlight + ahead)
    #expect(budget.readsPlainly == plainly)
  }

  @Test func unknownMemoryIsEnough() {
    #expect(MemoryBudget(availableBytes: nil) == .full)
    #expect(MemoryBudget(availableBytes: 0).next(availableBytes: nil, bufferBytes: 4 << 20) == .full)
  }

  @Test func itShrinksAtOnce() {
    #expect(MemoryBudget.full.next(availableBytes: 40_000_000, bufferBytes: 4 << 20).chunksInFlight == 2)
    #expect(MemoryBudget.full.next(availableBytes: 150_000_000, bufferBytes: 4 << 20).chunksInFlight == 8)
  }

  @Test func itGrowsOnlyByWhatIsThereAfterwards() {
    let small = MemoryBudget(availableBytes: 0)
    // 210 MB allow 12, but not after twelve more buffers of 4 MiB have been taken from them.
    #expect(small.next(availableBytes: 210_000_000, bufferBytes: 4 << 20).chunksInFlight == 8)
    #expect(small.next(availableBytes: 260_000_000, bufferBytes: 4 << 20) == .full)
    #expect(small.next(availableBytes: 52_000_000, bufferBytes: 4 << 20) == small)
    #expect(small.next(availableBytes: 52_000_000, bufferBytes: .max) == small)
    #expect(small.next(availableBytes: .max, bufferBytes: .max) == small)
  }

  /// Whatever memory the pool gives back by shrinking does not make it grow again.
  @Test(arguments: [UInt64(20), 60, 90, 130, 190, 230, 300, 1000], [1 << 20, 4 << 20, 32 << 20])
  func underSteadyPressure_itComesToRest(freeMegabytes: UInt64, bufferBytes: Int) {
    var budget = MemoryBudget.full
    var seen: [Int] = []
    for _ in 0..<12 {
      let taken = UInt64(budget.buffers * bufferBytes)
      let free = freeMegabytes * 1_000_000
      budget = budget.next(availableBytes: free - min(free, taken), bufferBytes: bufferBytes)
      seen.append(budget.chunksInFlight)
    }
    #expect(Set(seen.suffix(6)).count == 1, "\(seen)")
    #expect(seen.allSatisfy { $0 >= 2 })
  }
}

@Suite struct PrefetchPipelineTests {
  private static let requestBytes = UploadConstants.chunkBytesDefault

  private func pipeline(destination: Int = 12, tier: Int = 12, memory: MemoryBudget = .full) -> PrefetchPipeline {
    PrefetchPipeline(
      limits: UploadLimits(), destinationParallelism: destination, tierParallelism: tier, memory: memory)
  }

  @Test func threeAheadOfWhatIsAllowedInFlight() {
    #expect(pipeline() == pipeline(destination: 100))
    #expect(pipeline().bufferBytes == 15 * Self.requestBytes)
    #expect(pipeline(tier: 4).parallelism == 4)
    #expect(pipeline(tier: 4).bufferBytes == 7 * Self.requestBytes)
    #expect(pipeline(destination: 1).bufferBytes == 4 * Self.requestBytes)
    #expect(pipeline(memory: MemoryBudget(availableBytes: 0)).parallelism == 2)
    #expect(pipeline(memory: MemoryBudget(availableBytes: 0)).bufferBytes == 3 * Self.requestBytes)
    #expect(pipeline(destination: 0).parallelism == 1)
  }

  @Test func theBoundsAreBounds() {
    let slow = pipeline(tier: 4)
    #expect(slow.maySend(inFlight: 3) && !slow.maySend(inFlight: 4))
    #expect(slow.mayRead(Self.requestBytes, inUse: 6 * Self.requestBytes))
    #expect(!slow.mayRead(Self.requestBytes, inUse: 6 * Self.requestBytes + 1))
    #expect(slow.mayRead(1, inUse: 7 * Self.requestBytes - 1) && !slow.mayRead(1, inUse: 7 * Self.requestBytes))
    #expect(slow.mayRead(100 * Self.requestBytes, inUse: 0), "one is always read")
  }
}

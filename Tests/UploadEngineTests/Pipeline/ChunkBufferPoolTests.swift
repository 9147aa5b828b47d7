import Glibc
import Synchronization
import Testing
import Threads

@testable import UploadEngine

@Suite struct ChunkBufferPoolTests {
  @Test func buffersArePageAlignedAndWholePages() throws {
    let pool = ChunkBufferPool(capacity: 2, bufferBytes: 5000)
    let buffer = try #require(pool.tryAcquire())
    #expect(buffer.capacity == 8192)
    #expect(buffer.count == 0 && buffer.bytes.isEmpty)
    let bytes = buffer.mutableBytes(count: 5000)
    #expect(bytes.count == 5000)
    #expect(Int(bitPattern: bytes.baseAddress) % 4096 == 0)
    #expect(
      UnsafeRawPointer(bytes.baseAddress) == buffer.mutableBytes(count: 1).baseAddress.map { UnsafeRawPointer($0) })
  }

  @Test func aBufferShowsWhatItsOwnerFilledIn() throws {
    let pool = ChunkBufferPool(capacity: 1, bufferBytes: 4096)
    let buffer = pool.acquire()
    buffer.mutableBytes(count: 3).copyBytes(from: [1, 2, 3])
    buffer.count = 3
    #expect(Array(buffer.bytes) == [1, 2, 3])
    buffer.count = 100_000
    #expect(buffer.count == 4096)
    buffer.count = -1
    #expect(buffer.count == 0)
    #expect(buffer.mutableBytes(count: 100_000).count == 4096)
  }

  @Test func nothingIsHandedOutBeyondTheCapacity() {
    let pool = ChunkBufferPool(capacity: 3, bufferBytes: 1)
    var held = (0..<3).compactMap { _ in pool.tryAcquire() }
    #expect(held.count == 3 && pool.freeCount == 0)
    #expect(pool.tryAcquire() == nil)
    held.removeLast().release()
    #expect(pool.freeCount == 1)
    #expect(pool.tryAcquire() != nil)
    // That one was dropped at once, which gives it back as well.
    #expect(pool.freeCount == 1)
    held.removeAll()
    #expect(pool.freeCount == 3)
  }

  @Test func givingBackTwiceCountsOnce() {
    let pool = ChunkBufferPool(capacity: 2, bufferBytes: 1)
    do {
      let buffer = pool.acquire()
      buffer.release()
      buffer.release()
      #expect(pool.freeCount == 2)
      #expect(buffer.bytes.isEmpty && buffer.mutableBytes(count: 1).isEmpty)
    }
    #expect(pool.freeCount == 2)
  }

  @Test(arguments: [true, false])
  func theNextOwnerFindsZeros(explicitly: Bool) {
    let pool = ChunkBufferPool(capacity: 1, bufferBytes: 8192)
    do {
      let buffer = pool.acquire()
      // Filled to the end while only a part was declared, as after a read that failed.
      for index in buffer.mutableBytes(count: 8192).indices { buffer.mutableBytes(count: 8192)[index] = 0xaa }
      buffer.count = 10
      if explicitly { buffer.release() }
    }
    let next = pool.acquire()
    #expect(next.count == 0)
    #expect(next.mutableBytes(count: 8192).allSatisfy { $0 == 0 })
  }

  @Test func aBufferOutlivesItsPool() {
    var pool: ChunkBufferPool? = ChunkBufferPool(capacity: 2, bufferBytes: 4096)
    let other = pool?.acquire()
    let buffer = pool?.acquire()
    other?.release()
    weak let observed = pool
    pool = nil
    buffer?.mutableBytes(count: 4096).copyBytes(from: [UInt8](repeating: 7, count: 4096))
    buffer?.count = 4096
    #expect(buffer?.bytes.allSatisfy { $0 == 7 } == true)
    buffer?.release()
    withExtendedLifetime(buffer) { #expect(observed != nil) }
  }

  @Test func aWaitingThreadGetsTheBufferThatIsGivenBack() {
    let pool = ChunkBufferPool(capacity: 1, bufferBytes: 1)
    let buffer = pool.acquire()
    let events = Collector<String>()
    let thread = WorkerThread("test", .answering) {
      events.append("waiting")
      pool.acquire().release()
      events.append("got it")
    }
    #expect(events.wait(for: 1) == ["waiting"])
    buffer.release()
    #expect(events.wait(for: 2) == ["waiting", "got it"])
    thread.join()
  }

  @Test func everyGiveBackIsTold() {
    let pool = ChunkBufferPool(capacity: 2, bufferBytes: 1)
    let calls = Collector<Int>()
    pool.onRelease { [weak pool] in calls.append(pool?.freeCount ?? -1) }
    let first = pool.acquire()
    pool.acquire().release()
    first.release()
    #expect(calls.all == [1, 2])
  }

  @Test func aSmallerPool_givesMemoryBackAtOnceAndAsBuffersReturn() {
    let pool = ChunkBufferPool(capacity: 5, bufferBytes: 4096)
    var held = (0..<5).map { _ in pool.acquire() }
    held.removeLast().release()
    pool.resize(to: 2)
    #expect(pool.mappedCount == 4 && pool.freeCount == 0)
    #expect(pool.tryAcquire() == nil)
    held.removeLast().release()
    held.removeLast().release()
    #expect(pool.mappedCount == 2 && pool.freeCount == 0)
    held.removeLast().release()
    #expect(pool.mappedCount == 2 && pool.freeCount == 1)
    pool.resize(to: 0)
    #expect(pool.mappedCount == 1, "there is always one")
    pool.resize(to: 100)
    #expect(pool.freeCount == 4)
  }

  @Test func aLargerPool_wakesWhoWaits() {
    let pool = ChunkBufferPool(capacity: 2, bufferBytes: 1)
    pool.resize(to: 1)
    let buffer = pool.acquire()
    let events = Collector<String>()
    let thread = WorkerThread("test", .answering) {
      events.append("waiting")
      pool.acquire().release()
      events.append("got it")
    }
    #expect(events.wait(for: 1) == ["waiting"])
    pool.resize(to: 2)
    #expect(events.wait(for: 2) == ["waiting", "got it"])
    thread.join()
    withExtendedLifetime(buffer) {}
  }

  /// Buffers come and go on many threads while memory comes and goes.
  @Test func underLoad_itGrowsAndShrinksAndNothingIsLost() {
    let counters = PipelineCounters()
    let pool = ChunkBufferPool(capacity: 8, bufferBytes: 4096, counters: counters)
    let threads = (0..<4).map { _ in
      WorkerThread("test", .answering) {
        for _ in 0..<2000 {
          let buffer = pool.acquire()
          for index in buffer.mutableBytes(count: 16).indices { buffer.mutableBytes(count: 16)[index] = 1 }
          buffer.release()
        }
      }
    }
    for round in 0..<500 {
      pool.resize(to: [1, 8, 3, 2][round % 4])
      sched_yield()
    }
    for thread in threads { thread.join() }
    pool.resize(to: 2)
    #expect(pool.mappedCount <= 2 && pool.freeCount == 2)
    #expect(counters.snapshot.blocksMapped >= pool.mappedCount)
  }

  @Test func manyThreadsNeverShareABuffer() {
    let pool = ChunkBufferPool(capacity: 3, bufferBytes: 4096)
    let failures = Collector<String>()
    let inUse = Atomic<Int>(0)
    let threads = (1...8).map { number in
      WorkerThread("test", .answering) {
        for round in 0..<2000 {
          let buffer = pool.acquire()
          if inUse.add(1, ordering: .sequentiallyConsistent).newValue > 3 { failures.append("more than 3 in use") }
          let bytes = buffer.mutableBytes(count: 64)
          if !bytes.allSatisfy({ $0 == 0 }) { failures.append("not wiped in round \(round)") }
          for index in bytes.indices { bytes[index] = UInt8(number) }
          buffer.count = 64
          if round % 16 == 0 { sched_yield() }
          if !buffer.bytes.allSatisfy({ $0 == UInt8(number) }) { failures.append("shared in round \(round)") }
          inUse.subtract(1, ordering: .sequentiallyConsistent)
          if round.isMultiple(of: 2) { buffer.release() }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(failures.all.prefix(5) == [])
    #expect(pool.freeCount == 3)
  }
}

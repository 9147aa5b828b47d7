import FileModel
import Glibc
import Integrity
import Synchronization
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct ReadWorkersTests {
  private let contents = FakeContents(bytes: [UInt8](count: 700_000) { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
  private let pool = ChunkBufferPool(capacity: 4, bufferBytes: 1 << 20)
  private let results = Collector<(job: ReadJob, result: ReadResult)>()

  private func workers(threads: Int = 2, queue: Int = 16) -> ReadWorkers {
    let results = results
    let counters = PipelineCounters()
    let io = HybridIOEngine(contents: contents, method: .plain, counters: counters)
    return ReadWorkers(
      contents: contents, io: io, counters: counters, threadCount: threads, queueCapacity: queue
    ) { results.append(($0, $1)) }
  }

  private func job(_ id: UInt64, offset: UInt64 = 0, count: Int, epoch: UInt64 = 5, buffered: Bool = true) -> ReadJob {
    ReadJob(
      id: id, file: FakeContents.id, epoch: epoch, offset: offset, byteCount: count,
      buffer: buffered ? pool.acquire() : nil)
  }

  private func digest(_ range: Range<Int>) -> ChunkDigest {
    contents.bytes[range].withUnsafeBytes { ChunkDigest(sha256: sha256($0), crc32c: CRC32C.checksum($0)) }
  }

  private func run(_ job: ReadJob) throws -> ReadResult {
    let workers = workers()
    defer { workers.stop() }
    #expect(workers.submit(job))
    return try #require(results.wait(for: 1).first).result
  }

  private func expectChanged(_ result: ReadResult) {
    guard case .changed = result else {
      Issue.record("expected a change to be seen, got \(result)")
      return
    }
  }

  @Test(arguments: [0, 1, 131_071, 131_072, 131_073, 600_000])
  func aChunkIsReadAndHashed(count: Int) throws {
    guard case .success(let chunk) = try run(job(1, offset: 1000, count: count)) else {
      Issue.record("no success")
      return
    }
    #expect(chunk.byteCount == count)
    #expect(chunk.digest == digest(1000..<(1000 + count)))
    #expect(try Array(#require(chunk.buffer).bytes) == Array(contents.bytes[1000..<(1000 + count)]))
    #expect(contents.readCount == (count + 131_071) / 131_072)
  }

  @Test func withoutABufferOnlyTheDigestIsComputed() throws {
    guard case .success(let chunk) = try run(job(1, offset: 7, count: 500_000, buffered: false)) else {
      Issue.record("no success")
      return
    }
    #expect(chunk.buffer == nil)
    #expect(chunk.digest == digest(7..<500_007))
  }

  @Test func anotherEpochIsAChangeAndNothingIsRead() throws {
    expectChanged(try run(job(1, count: 1000, epoch: 4)))
    #expect(contents.readCount == 0)
  }

  @Test func aMutationInFlightIsAChange() throws {
    contents.set { $0.mutationsInFlight = 1 }
    expectChanged(try run(job(1, count: 1000)))
  }

  @Test func aChangeBetweenTwoReadsIsSeen() throws {
    contents.duringRead(2) { $0.epoch += 1 }
    let job = job(1, count: 400_000)
    expectChanged(try run(job))
    #expect(job.buffer?.count == 0)
  }

  @Test func aMutationThatBeganDuringTheReadIsSeen() throws {
    contents.duringRead(3) { $0.mutationsInFlight = 1 }
    expectChanged(try run(job(1, count: 400_000)))
  }

  @Test func fewerBytesThanAskedForAreAChange() throws {
    expectChanged(try run(job(1, offset: 690_000, count: 20_000)))
  }

  @Test func anOffsetBeyondAllNumbersIsNoTrap() throws {
    expectChanged(try run(job(1, offset: .max - 10, count: 200_000)))
  }

  @Test func aFileThatIsGoneIsSaid() throws {
    contents.duringRead(1) { $0.exists = false }
    guard case .failed(.gone) = try run(job(1, count: 1000)) else {
      Issue.record("not gone")
      return
    }
  }

  @Test func aFailingReadIsSaid() throws {
    contents.set { $0.failure = .system(errno: EIO) }
    guard case .failed(.system(errno: EIO)) = try run(job(1, count: 1000)) else {
      Issue.record("no failure")
      return
    }
  }

  @Test func aChunkLargerThanItsBufferIsRefused() throws {
    guard case .failed(.system(errno: EINVAL)) = try run(job(1, count: (1 << 20) + 1)) else {
      Issue.record("not refused")
      return
    }
  }

  @Test func everyJobIsAnsweredOnceByManyThreads() {
    let workers = workers(threads: 4, queue: 64)
    var submitted = 0
    for id in UInt64(0)..<300 {
      while !workers.submit(job(id, offset: id, count: 3000, buffered: false)) {
        _ = results.wait(for: submitted)
      }
      submitted += 1
    }
    let answers = results.wait(for: 300)
    workers.stop()
    #expect(answers.map(\.job.id).sorted() == Array(0..<300))
    for answer in answers {
      guard case .success(let chunk) = answer.result else {
        Issue.record("job \(answer.job.id) gave \(answer.result)")
        continue
      }
      let start = Int(answer.job.offset)
      #expect(chunk.digest == digest(start..<(start + 3000)))
    }
  }

  @Test func aFullQueueRefusesAndStoppingGivesTheBuffersBack() {
    let gate = Gate()
    contents.set { $0.gate = gate }
    let workers = workers(threads: 1, queue: 2)
    #expect(workers.submit(job(1, count: 10)))
    gate.waitForArrival()
    #expect(workers.submit(job(2, count: 10)) && workers.submit(job(3, count: 10)))
    #expect(!workers.submit(job(4, count: 10)))
    #expect(pool.freeCount == 1)
    let stopping = WorkerThread("test", .answering) { workers.stop() }
    // The dropped jobs' buffers come back while the first read is still under way.
    let returned = Collector<Int>()
    pool.onRelease { [weak pool] in returned.append(pool?.freeCount ?? -1) }
    if pool.freeCount < 3 { _ = returned.wait(for: 1) }
    gate.open()
    stopping.join()
    #expect(!workers.submit(job(5, count: 10)))
    #expect(results.all.map(\.job.id) == [1])
    #expect(pool.freeCount == 3)
  }

  /// A chunk is left to the thread at work only for as long as its read should take.
  @Test func aReadThatHangsHoldsUpNoOtherChunk() {
    let gate = Gate()
    contents.set { $0.gate = gate }
    let workers = workers(threads: 2)
    #expect(workers.submit(job(1, count: 10)))
    gate.waitForArrival()
    contents.set { $0.gate = nil }
    #expect(workers.submit(job(2, count: 10)))
    #expect(results.wait(for: 1).map(\.job.id) == [2])
    gate.open()
    #expect(results.wait(for: 2).map(\.job.id) == [2, 1])
    workers.stop()
  }

  /// Regression: workers that never had nothing to read left a recording in the page cache.
  @Test func muchThatWasAcknowledgedComesBeforeTheNextChunk() {
    let gate = Gate()
    contents.set { $0.gate = gate }
    let workers = workers(threads: 1)
    #expect(workers.submit(job(1, count: 10)))
    gate.waitForArrival()
    let acknowledged = FileID(high: 1, low: 2)
    workers.release(CacheTrace(file: acknowledged, range: 0..<WaitingTraces.dueBytes))
    #expect(workers.submit(job(2, count: 10)) && workers.submit(job(3, count: 10)))
    gate.open()
    _ = results.wait(for: 3)
    workers.stop()
    #expect(contents.readCountAtOpening(of: acknowledged) == 1)
  }

  @Test func threadsFollowTheCoresWithinBounds() {
    #expect([1, 2, 3, 4, 64].map { ReadWorkers.defaultThreadCount(cores: $0) } == [2, 2, 3, 4, 4])
  }
}

/// One file in memory whose state changes at a chosen read.
final class FakeContents: FileContents {
  static let id = FileID(high: 1, low: 1)

  struct State {
    var epoch: UInt64 = 5
    var mutationsInFlight = 0
    var exists = true
    var failure: FileContentsError?
    var gate: Gate?
    var readCount = 0
    /// How much had been read when a file was opened last.
    var readCountsAtOpening: [FileID: Int] = [:]
    var duringRead: (number: Int, change: @Sendable (inout State) -> Void)?
  }

  let bytes: [UInt8]
  private let state = Mutex(State())

  init(bytes: [UInt8]) { self.bytes = bytes }

  func set(_ change: @Sendable (inout State) -> Void) { state.withLock { change(&$0) } }

  func duringRead(_ number: Int, _ change: @escaping @Sendable (inout State) -> Void) {
    state.withLock { $0.duringRead = (number, change) }
  }

  var readCount: Int { state.withLock { $0.readCount } }

  func readCountAtOpening(of id: FileID) -> Int? { state.withLock { $0.readCountsAtOpening[id] } }

  func snapshot(of id: FileID) -> FileSnapshot? {
    state.withLock { state in
      guard id == Self.id, state.exists else { return nil }
      return FileSnapshot(
        id: id, epoch: state.epoch, sizeBytes: UInt64(bytes.count), modifiedNanoseconds: 0, mode: 0o644, inode: 1,
        names: [RelativePath("a")], writableOpens: 0, mutationsInFlight: state.mutationsInFlight)
    }
  }

  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? { nil }
  func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64? { nil }
  func isChangedOutsideMount(_ id: FileID) -> Bool { false }
  func sizeBytesSoon(of id: FileID) -> UInt64? { snapshot(of: id)?.sizeBytes }
  func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool { false }

  func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile {
    state.withLock { $0.readCountsAtOpening[id] = $0.readCount }
    return FakeFile { [self] in
      snapshot(of: Self.id)
    } bytes: { [self] () throws(FileContentsError) in
      let (failure, gate) = state.withLock { state in
        state.readCount += 1
        if let (number, change) = state.duringRead, number == state.readCount { change(&state) }
        return (state.failure, state.gate)
      }
      gate?.pass()
      if let failure { throw failure }
      return bytes
    }
  }

  func evict(_ candidate: EvictionCandidate) -> Bool { false }
  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {}
}

/// Holds a reader until the test opens it.
final class Gate: Sendable {
  private let state = Monitor((hasArrived: false, isOpen: false))

  func pass() {
    state.withLock { state, signal in
      state.hasArrived = true
      signal.broadcast()
    }
    state.wait { $0.isOpen ? .done(()) : .again }
  }

  func waitForArrival() {
    state.wait { $0.hasArrived ? .done(()) : .again }
  }

  func open() {
    state.withLock { state, signal in
      state.isOpen = true
      signal.broadcast()
    }
  }
}

import FileModel
import Integrity
import Promises
import ProtocolReference
import Synchronization
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct StreamWindowTests {
  private func window(_ count: Int, depth: Int = 3) -> StreamWindow {
    StreamWindow(plan: ChunkPlan(sizeBytes: UInt64(count) * 10, chunkBytes: 10), depth: depth)
  }

  @Test(.promises("DE75")) func noMorePiecesAreInMemoryThanItsDepth() {
    var window = window(5)
    #expect([window.takeRead(), window.takeRead(), window.takeRead(), window.takeRead()] == [0, 1, 2, nil])
    window.becameReady(0)
    #expect(window.takeReady() == 0)
    // It is still being sent.
    #expect(window.takeRead() == nil)
    window.sent()
    #expect(window.takeRead() == 3)
    #expect(window.takeRead() == nil)
  }

  @Test func piecesAreSentInTheirOrder() {
    var window = window(3)
    for _ in 0..<3 { _ = window.takeRead() }
    window.becameReady(2)
    window.becameReady(1)
    #expect(window.takeReady() == nil)
    window.becameReady(0)
    #expect([window.takeReady(), window.takeReady(), window.takeReady(), window.takeReady()] == [0, 1, 2, nil])
    #expect(window.isDone)
  }

  @Test func whatWasNotAskedFor_isNotReady() {
    var window = window(3)
    window.becameReady(0)
    window.becameReady(7)
    #expect(window.takeReady() == nil && window.isEmptyHanded)
  }
}

@Suite struct FileStreamTests {
  private let contents = FakeContents(
    bytes: [UInt8](count: 5 * FileStream.pieceBytes + 17) { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
  private let pool = ChunkBufferPool(capacity: 2 * FileStream.depth, bufferBytes: FileStream.pieceBytes)

  /// Takes everything from a stream as a transport would, and waits where it has nothing; the bytes, or why there are none.
  private func drain(_ stream: FileStream, after: (Int) -> Void = { _ in }) -> Result<[UInt8], DrainFailure> {
    let ready = Monitor(false)
    stream.begin {
      ready.withLock { isReady, signal in
        isReady = true
        signal.broadcast()
      }
    }
    defer { stream.end() }
    var bytes: [UInt8] = []
    while bytes.count < stream.byteCount {
      switch stream.next() {
      case .bytes(let piece):
        bytes += Array(piece.bytes)
        after(bytes.count)
      case .failed(let reason): return .failure(DrainFailure(reason: reason))
      case .later:
        ready.wait { isReady -> Monitor<Bool>.WaitDecision<Void> in
          guard isReady else { return .again }
          isReady = false
          return .done(())
        }
      }
    }
    return .success(bytes)
  }

  private struct DrainFailure: Error { var reason: String }

  private func withStream(epoch: UInt64 = 5, _ body: (FileStream) throws -> Void) throws {
    let counters = PipelineCounters()
    let io = HybridIOEngine(contents: contents, method: .plain, counters: counters)
    let workers = ReadWorkers(
      contents: contents, io: io, counters: counters, threadCount: 2, queueCapacity: 16
    ) { job, result in job.stream?.readEnded(job, result) }
    defer { workers.stop() }
    let pool = pool
    try body(
      FileStream(
        file: FakeContents.id, epoch: epoch, sizeBytes: UInt64(contents.bytes.count), nonce: [1, 2],
        source: FileStream.Source(
          acquire: { pool.tryAcquire() }, submit: { workers.submit($0) }, letGo: { _ in })))
  }

  @Test func allBytesComeInOrder_withTheirProof() throws {
    try withStream { stream in
      #expect(stream.proof == nil)
      let bytes = try drain(stream).get()
      #expect(bytes == contents.bytes)
      let digests = stride(from: 0, to: contents.bytes.count, by: FileStream.pieceBytes).map { start in
        ProtocolReference.sha256(Array(contents.bytes[start...].prefix(FileStream.pieceBytes)))
      }
      #expect(stream.proof?.merkleRoot.bytes == ProtocolReference.merkleRoot(digests))
      #expect(stream.proof?.chainTip.bytes == ProtocolReference.chainTip(sessionID: "0102", digests))
    }
    #expect(pool.freeCount == pool.capacity)
  }

  @Test func anotherRequest_beginsAnew() throws {
    try withStream { stream in
      let ready = Mutex(0)
      stream.begin { ready.withLock { $0 += 1 } }
      _ = stream.next()
      let bytes = try drain(stream).get()
      #expect(bytes == contents.bytes)
      #expect(stream.proof != nil)
    }
  }

  @Test func anotherEpoch_isNeverSentToItsEnd() throws {
    try withStream(epoch: 4) { stream in
      guard case .failure(let failure) = drain(stream) else {
        Issue.record("bytes of another epoch were sent")
        return
      }
      #expect(failure.reason.contains("changed"))
      #expect(stream.proof == nil)
    }
    #expect(pool.freeCount == pool.capacity)
  }

  @Test func withoutMemory_itFailsInsteadOfWaitingForEver() throws {
    let taken = (0..<pool.capacity).map { _ in pool.acquire() }
    try withStream { stream in
      guard case .failure(let failure) = drain(stream) else {
        Issue.record("there was no memory for it")
        return
      }
      #expect(failure.reason.contains("memory"))
    }
    withExtendedLifetime(taken) {}
  }
}

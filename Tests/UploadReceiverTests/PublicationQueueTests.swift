import ChunkProtocol
import Glibc
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ReceiverCore
@testable import UploadReceiver

@Suite struct PublicationQueueTests {
  /// A store that publishes nothing, keeps its callers until it is opened, and notes who came together.
  private final class GatedStore: UploadStore {
    struct State {
      var isOpen = false
      var batches: [[String]] = []
    }
    let state = Mutex(State())

    func publish(_ files: [WholeFilePublication]) -> [Result<PublicationResult, StoreFailure>] {
      state.withLock { $0.batches.append(files.map(\.publication.receipt.name)) }
      let deadline = ContinuousClock.now + .seconds(60)
      while !state.withLock({ $0.isOpen }), ContinuousClock.now < deadline { sched_yield() }
      return files.map { _ in .success(PublicationResult()) }
    }

    var freeBytes: UInt64 { 0 }
    func create(_ facts: SessionFacts) throws(StoreFailure) -> SpaceReservation { .none }
    func write(
      _ body: any BodyBytes, to session: SessionID, index: UInt32, offset: UInt64, facts: ChunkFacts
    ) throws(StoreFailure) {}
    func syncWritten() throws(StoreFailure) {}
    func verify(_ session: SessionID) throws(StoreFailure) -> [UInt32: ChunkFacts] { [:] }
    func publish(_ session: SessionID, _ publication: Publication) throws(StoreFailure) -> PublicationResult {
      PublicationResult()
    }
    func remove(_ session: SessionID) {}
    func forgetReceipts(before: Milliseconds) {}
    func usedBytes(of credential: CredentialID) throws(StoreFailure) -> UInt64 { 0 }
  }

  private let store = GatedStore()
  private let pool = NIOThreadPool(numberOfThreads: 8)

  private func item(_ number: Int, bytes: Int = 1) -> PublicationQueue.Item {
    PublicationQueue.Item(
      request: RequestID(UInt64(number)),
      file: WholeFilePublication(
        body: [UInt8](repeating: 0, count: bytes),
        record: WholeFileRecord(credential: "c", idempotencyKey: "k", fingerprint: []),
        publication: Publication(
          receipt: ReceiptFacts(
            id: "r", name: "\(number)", sizeBytes: 1, merkleRoot: [], chainTip: [], publishedAt: 0),
          credential: CredentialID("c"), modifiedNanoseconds: 0, mode: 0, ifExists: .replace)))
  }

  private func waitUntil(_ what: String, _ happened: () -> Bool) async {
    let deadline = ContinuousClock.now + .seconds(60)
    while !happened() {
      guard ContinuousClock.now < deadline else { return #expect(Bool(false), "\(what) did not happen in time") }
      await Task.yield()
    }
  }

  @Test func files_gatherWhileTheDiskIsBusy_butLargeOnesGoAtOnce() async throws {
    pool.start()
    let queue = PublicationQueue(pool, store, Logger(label: "test"))
    let count = Counter()
    for number in 0..<2 {
      queue.add([item(number)]) { count.add($0.count) }
      await waitUntil("job \(number)") { store.state.withLock { $0.batches.count } == number + 1 }
    }
    for number in 2..<150 { queue.add([item(number)]) { count.add($0.count) } }
    queue.add([item(1000, bytes: (1 << 20) + 1)]) { count.add($0.count) }
    await waitUntil("the large one") { store.state.withLock { $0.batches.count } == 3 }
    store.state.withLock { $0.isOpen = true }
    await waitUntil("all of them") { count.value == 151 }
    let batches = store.state.withLock { $0.batches }
    #expect(Array(batches[..<3]) == [["0"], ["1"], ["1000"]])
    #expect(Set(batches[3...].map(\.count)) == [128, 20])
    #expect(Set(batches[3...].flatMap(\.self)) == Set((2..<150).map(String.init)))
    try await pool.shutdownGracefully()
  }

  @Test func files_thatComeTooLate_fail() async throws {
    pool.start()
    try await pool.shutdownGracefully()
    let failed = Counter()
    PublicationQueue(pool, store, Logger(label: "test")).add([item(1), item(2), item(3, bytes: 2 << 20)]) { events in
      for case .wholeFilePublished(_, .failure) in events { failed.add(1) }
    }
    await waitUntil("the refusals") { failed.value == 3 }
    #expect(store.state.withLock { $0.batches.isEmpty })
  }
}

/// Counts on any thread.
private final class Counter: Sendable {
  private let count = Atomic(0)
  var value: Int { count.load(ordering: .acquiring) }
  func add(_ number: Int) { count.wrappingAdd(number, ordering: .acquiringAndReleasing) }
}

import ChunkProtocol
import Dispatch
import Integrity
import Logging
import Lookup
import NIOPosix
import Synchronization
import Testing

@testable import ReceiverCore
@testable import UploadReceiver

@Suite struct PublicationQueueTests {
  /// A store that publishes nothing, keeps its callers until it is opened, and notes who came together.
  private final class GatedStore: UploadStore {
    let batches = Mutex<[[String]]>([])
    /// One for each batch that has come.
    let arrivals = AsyncStream<Void>.makeStream()
    private let gate = DispatchSemaphore(value: 0)

    func publish(_ files: [WholeFilePublication]) -> [Result<PublicationResult, StoreFailure>] {
      batches.withLock { $0.append(files.map(\.publication.receipt.name)) }
      arrivals.continuation.yield()
      gate.wait()
      gate.signal()
      return files.map { _ in .success(PublicationResult()) }
    }

    /// Every thread may go on, also those still to come.
    func open() { gate.signal() }

    func freeBytes() throws(StoreFailure) -> UInt64 { 0 }
    func create(_ facts: SessionRecord) throws(StoreFailure) -> SpaceReservation { .none }
    func write(
      _ body: any BodyBytes, to session: SessionID, index: UInt32, offset: UInt64, facts: ChunkChecksums
    ) throws(StoreFailure) {}
    func writeZeros(to session: SessionID, _ chunks: IndexRanges, chunkBytes: UInt64) throws(StoreFailure) {}
    func syncWritten() throws(StoreFailure) {}
    func secure(_ session: SessionID) throws(StoreFailure) {}
    func verify(_ session: SessionID, takesBase: Bool) throws(StoreFailure) -> ChunkTable { [:] }
    func publish(_ session: SessionID, _ publication: Publication) throws(StoreFailure) -> PublicationResult {
      PublicationResult()
    }
    func recover(_ ids: [SessionID]) throws(StoreFailure) -> RecoveredState { RecoveredState() }
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
        record: WholeFileRecord(credential: "c", idempotencyKey: "k", fingerprint: sha256([])),
        publication: Publication(
          receipt: PublicationReceipt(
            id: "r", name: "\(number)", sizeBytes: 1, merkleRoot: sha256([]), chainTip: sha256([]),
            publishedAt: 0),
          credential: CredentialID("c"), modifiedNanoseconds: 0, mode: 0, ifExists: .replace)))
  }

  @Test(.timeLimit(.minutes(5))) func files_gatherWhileTheDiskIsBusy_butLargeOnesGoAtOnce() async throws {
    pool.start()
    let queue = PublicationQueue(pool, store, Logger(label: "test"), batchFilesMax: 128)
    let (answers, answered) = AsyncStream<Int>.makeStream()
    var arrivals = store.arrivals.stream.makeAsyncIterator()
    for number in 0..<2 {
      queue.add([item(number)]) { answered.yield($0.count) }
      await arrivals.next()
    }
    for number in 2..<150 { queue.add([item(number)]) { answered.yield($0.count) } }
    queue.add([item(1000, bytes: (1 << 20) + 1)]) { answered.yield($0.count) }
    await arrivals.next()
    store.open()
    await Self.count(answers, upTo: 151)
    let batches = store.batches.withLock { $0 }
    let gathered = batches.dropFirst(3)
    #expect(batches.prefix(3) == [["0"], ["1"], ["1000"]])
    #expect(gathered.map(\.count).sorted() == [20, 128])
    let expected: Set<String> = Set((2..<150).map { "\($0)" })
    #expect(Set(gathered.joined()) == expected)
    try await pool.shutdownGracefully()
  }

  private static func count(_ answers: AsyncStream<Int>, upTo wanted: Int) async {
    var count = 0
    for await number in answers {
      count += number
      if count >= wanted { return }
    }
  }

  @Test(.timeLimit(.minutes(5))) func files_thatComeTooLate_fail() async throws {
    pool.start()
    try await pool.shutdownGracefully()
    let (failures, failed) = AsyncStream<Int>.makeStream()
    PublicationQueue(pool, store, Logger(label: "test"), batchFilesMax: 128).add([
      item(1), item(2), item(3, bytes: 2 << 20),
    ]) { events in
      for case .wholeFilePublished(_, .failure) in events { failed.yield(1) }
    }
    await Self.count(failures, upTo: 3)
    #expect(store.batches.withLock { $0.isEmpty })
  }
}

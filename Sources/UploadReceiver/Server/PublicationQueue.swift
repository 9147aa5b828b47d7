import Logging
import NIOPosix
import ReceiverCore
import Synchronization

/// Publishes whole files, together what is there together: while the disk is busy with some, those that come meanwhile gather,
/// and then share its next syncs.
///
/// Bound: each file waits with its request, whose body has its share of the byte budget.
final class PublicationQueue: Sendable {
  /// A file, and whose request it is.
  struct Item: Sendable {
    var request: RequestID
    var file: WholeFilePublication
  }

  private struct State {
    var waiting: [Item] = []
    var jobs = 0
  }

  /// One writes while the other waits for the disk; more would leave each with less to share.
  static let jobsMax = 2
  static let batchFilesMax = 128
  private static let batchBytesMax = 8 << 20
  /// A larger one is published by itself: no other one is to wait while it is written.
  private static let gatheredBytesMax = 1 << 20

  private let state = Mutex(State())
  private let pool: NIOThreadPool
  private let store: any UploadStore
  private let logger: Logger
  private let users: UserNumbers
  private let batchFilesMax: Int
  let numbered: NumberedNames

  init(
    _ pool: NIOThreadPool, _ store: any UploadStore, _ logger: Logger, _ users: UserNumbers = UserNumbers(),
    batchFilesMax: Int = DescriptorShares(limit: DescriptorShares.limit).publications
  ) {
    self.batchFilesMax = batchFilesMax
    self.pool = pool
    self.store = store
    self.logger = logger
    self.users = users
    numbered = NumberedNames(logger, users)
  }

  /// Publishes the files; `done` is told what came of them, in one or several parts, and of those of other callers that
  /// were published with them.
  func add(_ items: [Item], done: @escaping @Sendable ([CoreEvent]) -> Void) {
    let large = items.filter { $0.file.body.byteCount > PublicationQueue.gatheredBytesMax }
    for item in large { pool.submit { [self] in done(publish([item], $0)) } }
    guard large.count < items.count else { return }
    let mayBegin = state.withLock { state in
      state.waiting += items.lazy.filter { $0.file.body.byteCount <= PublicationQueue.gatheredBytesMax }
      guard state.jobs < PublicationQueue.jobsMax else { return false }
      state.jobs += 1
      return true
    }
    guard mayBegin else { return }
    pool.submit { [self] activity in
      while let batch = next() { done(publish(batch, activity)) }
    }
  }

  /// The files for the next batch; nil ends the job.
  private func next() -> [Item]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.jobs -= 1
        return nil
      }
      var bytes = 0
      let batch = state.waiting.prefix(batchFilesMax).prefix { item in
        bytes += item.file.body.byteCount
        return bytes <= PublicationQueue.batchBytesMax
      }
      state.waiting.removeFirst(batch.count)
      return Array(batch)
    }
  }

  private func publish(_ batch: [Item], _ activity: NIOThreadPool.WorkItemState) -> [CoreEvent] {
    let results: [Result<PublicationResult, StoreFailure>] =
      if case .active = activity {
        store.publish(batch.map(\.file))
      } else {
        batch.map { _ in .failure(.shuttingDown) }
      }
    for (item, result) in zip(batch, results) {
      let publication = item.file.publication
      if case .success(let outcome) = result { numbered.note(outcome, of: publication) }
      guard case .failure(let failure) = result, !failure.isSaidOnce else { continue }
      var metadata = users.metadata(of: publication.credential) ?? [:]
      metadata["reason"] = "\(failure.words)"
      logger.error("cannot publish \(publication.receipt.name.debugDescription)", metadata: metadata)
    }
    return zip(batch, results).map { .wholeFilePublished($0.request, $1) }
  }
}

import FileModel
import Logging
import Synchronization

/// Writes what must outlive the process, on one thread: catalog entries and resume records.
///
/// Work is named by file and the content is fetched when it is written, so that a burst of changes of one file is
/// written once, always the latest, and the amount of waiting work is bounded by the number of files.
final class EngineJournal: Sendable {
  /// What the journal asks of its owner. Called on the journal's thread.
  struct Source: Sendable {
    var catalogEntry: @Sendable (FileID) -> CatalogEntry?
    /// The state of an upload, or what has changed since the mark.
    var resumeSnapshot: @Sendable (FileID, ResumeSnapshot.Mark?) -> ResumeSnapshot?
    /// Receipts that are durable now.
    var recorded: @Sendable ([(id: FileID, receipt: Receipt)]) -> Void
    /// Looks at open files; done here because it must not happen on a filesystem thread.
    var measure: @Sendable (FileID) -> Void
    /// Once a second, whatever happens.
    var tick: @Sendable () -> Void
  }

  private enum CatalogWork { case record, forget }
  private enum ResumeWork { case save, remove }

  private struct Work {
    var catalog: [FileID: CatalogWork] = [:]
    var resume: [FileID: ResumeWork] = [:]
    var measures: Set<FileID> = []
    var isStopping = false
    var isEmpty: Bool { catalog.isEmpty && resume.isEmpty && measures.isEmpty }
  }

  private static let tickNanoseconds: Int64 = 1_000_000_000

  private let work: Monitor<Work>
  /// Held from reading an entry to its commit: without it, an entry that was read before a file changed could be written
  /// after ``markChanged(_:)`` and bring a receipt back for bytes that it does not cover.
  private let catalogLock: Monitor<Void>
  private let catalog: Catalog
  private let resumeStore: ResumeStore
  private let logger: Logger
  private let thread: Monitor<WorkerThread?>

  init(catalog: Catalog, resumeStore: ResumeStore, logger: Logger) {
    self.catalog = catalog
    self.resumeStore = resumeStore
    self.logger = logger
    work = Monitor(Work())
    catalogLock = Monitor(())
    thread = Monitor(nil)
  }

  func start(source: Source) {
    let started = WorkerThread { [self] in run(source) }
    thread.withLock { thread, _ in thread = started }
  }

  /// Writes what is waiting and ends the thread.
  func stop() {
    work.withLock { work, signal in
      work.isStopping = true
      signal.broadcast()
    }
    thread.withLock { thread, _ in thread.take() }?.join()
  }

  func record(_ id: FileID) { add { $0.catalog[id] = .record } }
  func forget(_ id: FileID) { add { $0.catalog[id] = .forget } }
  func saveResume(_ id: FileID) { add { $0.resume[id] = .save } }
  func removeResume(_ id: FileID) { add { $0.resume[id] = .remove } }
  func measure(_ id: FileID) { add { $0.measures.insert(id) } }

  /// Durable on return: no receipt covers the file's content any more. Called before the content changes.
  func markChanged(_ id: FileID) {
    catalogLock.withLock { _, _ in
      do throws(StorageError) {
        try catalog.markChanged(id)
      } catch {
        logger.error("cannot record that a delivered file changes", metadata: ["error": "\(error)"])
      }
    }
  }

  private func add(_ change: (inout Work) -> Void) {
    work.withLock { work, signal in
      change(&work)
      signal.signal()
    }
  }

  private func run(_ source: Source) {
    var nextTick = monotonicNanoseconds() + Self.tickNanoseconds
    while true {
      let (batch, isLast) = work.wait { work -> Monitor<Work>.Look<(Work, Bool)> in
        if work.isEmpty, !work.isStopping, monotonicNanoseconds() < nextTick {
          return .againBy(nanoseconds: nextTick)
        }
        defer {
          work.catalog = [:]
          work.resume = [:]
          work.measures = []
        }
        return .done((work, work.isStopping && work.isEmpty))
      }
      if isLast { return }
      write(batch, source)
      if monotonicNanoseconds() >= nextTick {
        nextTick = monotonicNanoseconds() + Self.tickNanoseconds
        source.tick()
      }
    }
  }

  private func write(_ batch: Work, _ source: Source) {
    for id in batch.measures { source.measure(id) }
    // The catalog first: deliveries do not wait for the records of large files, and the record of a delivered one is not
    // dropped before its receipt is durable.
    let recorded =
      batch.catalog.isEmpty ? [] : catalogLock.withLock { _, _ in writeCatalog(batch.catalog, source) }
    var postponed: [FileID: ResumeWork] = [:]
    for (id, work) in batch.resume {
      if recorded == nil, work == .remove, batch.catalog[id] == .record {
        postponed[id] = work
      } else {
        write(work, id, source)
      }
    }
    guard let recorded else {
      // The disk refuses. Nothing is lost: the spool holds the captures, and delivery is only believed once it is
      // recorded. Try again with whatever is new by then.
      retry(batch.catalog, postponed)
      return
    }
    if !recorded.isEmpty { source.recorded(recorded) }
  }

  private func write(_ work: ResumeWork, _ id: FileID, _ source: Source) {
    switch work {
    case .remove:
      resumeStore.remove(id)
    case .save:
      guard let snapshot = source.resumeSnapshot(id, resumeStore.mark(of: id)) else { return }
      do throws(StorageError) {
        try resumeStore.save(snapshot)
      } catch {
        // The upload goes on; after a crash the server would be asked anyway. The next record is a whole one.
        logger.warning("cannot save a resume record", metadata: ["error": "\(error)"])
      }
    }
  }

  private func writeCatalog(
    _ batch: [FileID: CatalogWork], _ source: Source
  ) -> [(id: FileID, receipt: Receipt)]? {
    var entries: [CatalogEntry] = []
    var forgotten: [FileID] = []
    for (id, work) in batch {
      if work == .record, let entry = source.catalogEntry(id) {
        entries.append(entry)
      } else if work == .forget {
        forgotten.append(id)
      }
    }
    do throws(StorageError) {
      try catalog.write(entries, removing: forgotten)
      return entries.compactMap { entry in entry.receipt.map { (entry.id, $0) } }
    } catch {
      logger.error("cannot write the catalog; trying again", metadata: ["error": "\(error)"])
      return nil
    }
  }

  private func retry(_ catalogBatch: [FileID: CatalogWork], _ resumeBatch: [FileID: ResumeWork]) {
    // Not at once: the disk may be full for a while. At the end it is not tried again: what is not recorded is delivered
    // again after the next start.
    let deadline = monotonicNanoseconds() + Self.tickNanoseconds
    work.wait { work in
      if work.isStopping {
        work.catalog = [:]
        return .done(())
      }
      if monotonicNanoseconds() < deadline { return .againBy(nanoseconds: deadline) }
      work.catalog.merge(catalogBatch) { newer, _ in newer }
      work.resume.merge(resumeBatch) { newer, _ in newer }
      return .done(())
    }
  }
}

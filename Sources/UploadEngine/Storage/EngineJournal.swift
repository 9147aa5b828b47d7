import FileModel
import Logging
import Lookup
import OrderedCollections
import Synchronization
import Threads
import TransferModel

/// Writes what must outlive the process, on one thread: catalog entries and resume records.
///
/// Work is named by file, and the content is fetched when it is written. So of a burst of changes of one file only the latest
/// is written, and the number of files bounds the work that waits.
///
/// A transaction costs far more than a row in it, so the catalog's entries gather: those that a delivery waits for (they have
/// a receipt) for as long as the last transaction is fresh, all others longer. Most small files are delivered by then, and
/// are written once, not twice.
final class EngineJournal: Sendable {
  /// What the journal asks of its owner. Called on the journal's thread.
  struct Source: Sendable {
    /// Of each of these files what the catalog is to hold, if anything.
    var catalogEntries: @Sendable ([FileID]) -> [CatalogEntry]
    /// The state of an upload, or what has changed since the mark.
    var resumeSnapshot: @Sendable (FileID, ResumeSnapshot.Mark?) -> ResumeSnapshot?
    /// A resume record is durable as it was at this mark, and so is the entry that says whose it is.
    var resumeSaved: @Sendable (FileID, ResumeSnapshot.Mark) -> Void
    /// The catalog does not take what it is to hold, for this reason; it is tried again.
    var recordingFails: @Sendable (StorageError) -> Void = { _ in }
    /// What was published under which names, for the catalog to hold.
    var publications: @Sendable () -> PublicationNotes = { PublicationNotes() }
    /// The catalog holds these.
    var publicationsSaved: @Sendable (PublicationNotes) -> Void = { _ in }
    /// Entries that are durable now, perhaps none, with their receipts; the catalog takes what it is to hold.
    var recorded: @Sendable ([(id: FileID, receipt: Receipt?)]) -> Void
    /// What is to be done about the catalog's round (``DiskRounds``), asked once a second.
    var diskRound: @Sendable () -> DiskRounds.Step? = { nil }
    /// The catalog has begun one.
    var diskRoundBegan: @Sendable (CatalogRound) -> Void = { _ in }
    /// At the end, when everything is written: the spool's disk is known to have all of it.
    var isEverythingOnDisk: @Sendable () -> Bool = { false }
    /// Entries that are durable as they were, of files that are to be unloaded; fewer than those, where some have gone.
    var unloaded: @Sendable ([CatalogEntry]) -> Void = { _ in }
    /// Loads files again; done here because it waits for the disk.
    var load: @Sendable ([FileID]) -> Void = { _ in }
    /// Checks open files; done here because it must not happen on a filesystem thread.
    var measure: @Sendable (FileID) -> Void
    /// Once a second, whatever happens: what is no work of the journal, and may wait for the disk.
    var housekeeping: @Sendable () -> Void
  }

  private enum CatalogWork { case record, forget }
  private enum ResumeWork { case save, remove }

  /// Files that are to go from memory, or to come back. What is asked for next waits for its answer, so that there is never more of it.
  private struct MemoryWork {
    var unloads: [FileID] = []
    var loads: [FileID] = []

    var isEmpty: Bool { unloads.isEmpty && loads.isEmpty }
  }

  private struct Work {
    /// Entries that a delivery waits for.
    var awaited: OrderedDictionary<FileID, CatalogWork> = [:]
    /// Entries that no delivery waits for.
    var patient: OrderedDictionary<FileID, CatalogWork> = [:]
    /// When the patient ones should be written at last; nil when there is none.
    var patientDue: Int64?
    /// No transaction begins before this.
    var catalogRests: Int64 = 0
    var resume: OrderedDictionary<FileID, ResumeWork> = [:]
    var measures: OrderedSet<FileID> = []
    var memory = MemoryWork()
    /// Sessions with the time when they began; nil when they have ended.
    var sessions: LookupTable<String, Int64?> = [:]
    /// When they should be written at last; nil when there is none.
    var sessionsDue: Int64?
    /// Sessions that are to be ended; nil those that are so no longer.
    var discarded: LookupTable<String, DiscardedSession?> = [:]
    /// When they should be written at last; nil when there is none.
    var discardedDue: Int64?
    /// Why the catalog did not take the last transaction; nil where it did.
    var refusal: StorageError?
    var isStopping = false
    var isEmpty: Bool {
      awaited.isEmpty && patient.isEmpty && resume.isEmpty && measures.isEmpty && memory.isEmpty && sessions.isEmpty
        && discarded.isEmpty
    }

    /// When there is something to write; nil when nothing waits.
    var due: Int64? {
      guard resume.isEmpty, measures.isEmpty, memory.isEmpty else { return 0 }
      let entriesDue = (awaited.isEmpty ? patientDue : 0).map { max($0, catalogRests) }
      return [entriesDue, sessionsDue, discardedDue].compactMap { $0 }.min()
    }

    mutating func add(_ work: CatalogWork, of id: FileID, isAwaited: Bool) {
      if isAwaited || awaited[id] != nil {
        patient.takeOut(id)
        awaited[id] = work
      } else {
        patient[id] = work
        patientDue = patientDue ?? monotonicNanoseconds() + EngineJournal.patienceNanoseconds
      }
    }

    mutating func note(_ id: String, _ session: DiscardedSession?) {
      discarded[id] = .some(session)
      discardedDue = discardedDue ?? monotonicNanoseconds() + EngineJournal.patienceNanoseconds
    }

    /// Takes what is due, or all there is.
    mutating func take(at now: Int64, takesAll: Bool = false) -> Batch {
      let takesAll = takesAll || isStopping
      var batch = Batch(resume: resume, measures: measures, memory: memory)
      resume = [:]
      measures = []
      memory = MemoryWork()
      if takesAll || sessionsDue.map({ $0 <= now }) ?? false {
        batch.sessions = sessions
        sessions = [:]
        sessionsDue = nil
      }
      // What is removed of records may be all that says of a session that it is to be ended.
      if takesAll || !batch.resume.isEmpty || discardedDue.map({ $0 <= now }) ?? false {
        batch.discarded = discarded
        discarded = [:]
        discardedDue = nil
      }
      // A resume record is of no use without the entry that says whose it is.
      let takesPatient = takesAll || !batch.resume.isEmpty || patientDue.map { $0 <= now } ?? false
      guard takesAll || catalogRests <= now || !batch.resume.isEmpty, !awaited.isEmpty || takesPatient else {
        return batch
      }
      batch.catalog = awaited
      awaited = [:]
      catalogRests = now + EngineJournal.gatherNanoseconds
      guard takesPatient else { return batch }
      batch.catalog.merge(patient) { newer, _ in newer }
      patient = [:]
      patientDue = nil
      return batch
    }
  }

  private struct Batch {
    var catalog: OrderedDictionary<FileID, CatalogWork> = [:]
    var resume: OrderedDictionary<FileID, ResumeWork> = [:]
    var measures: OrderedSet<FileID> = []
    var memory = MemoryWork()
    var sessions: LookupTable<String, Int64?> = [:]
    var discarded: LookupTable<String, DiscardedSession?> = [:]

    var isForCatalog: Bool { !catalog.isEmpty || !discarded.isEmpty }
  }

  private static let tickNanoseconds: Int64 = 1_000_000_000
  /// From one transaction to the next.
  private static let gatherNanoseconds: Int64 = 10_000_000
  /// How long an entry waits that no delivery waits for. What a crash takes of these is known again from the spool.
  private static let patienceNanoseconds: Int64 = 500_000_000

  private let work: Monitor<Work>
  /// Held from reading an entry to its commit: without it, an entry that was read before a file changed could be written
  /// after ``markChanged(_:)`` and bring a receipt back for bytes that it does not cover.
  private let catalogLock: Monitor<Void>
  private let catalog: Catalog
  private let resumeStore: ResumeStore
  private let room: StateRoom?
  private let logger: Logger
  private let thread: Monitor<WorkerThread?>
  /// Rows were written since a round began.
  private let hasNewRows = Atomic<Bool>(true)

  init(catalog: Catalog, resumeStore: ResumeStore, room: StateRoom? = nil, logger: Logger) {
    self.catalog = catalog
    self.resumeStore = resumeStore
    self.room = room
    self.logger = logger
    work = Monitor(Work())
    catalogLock = Monitor(())
    thread = Monitor(nil)
  }

  func start(source: Source) {
    let started = WorkerThread("journal", .answering) { [self] in run(source) }
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

  /// A delivery waits for an entry with a receipt: ``Source/recorded`` is what makes a delivery believed.
  func record(_ id: FileID, isAwaited: Bool) { add { $0.add(.record, of: id, isAwaited: isAwaited) } }
  func forget(_ id: FileID) { add { $0.add(.forget, of: id, isAwaited: false) } }
  func saveResume(_ id: FileID) { add { $0.resume[id] = .save } }
  func removeResume(_ id: FileID) { add { $0.resume[id] = .remove } }
  func measure(_ id: FileID) { add { $0.measures.append(id) } }
  func unload(_ ids: [FileID]) { add { $0.memory.unloads += ids } }
  func load(_ ids: [FileID]) { add { $0.memory.loads += ids } }

  /// A session has begun, at this time (seconds since 1970), or has ended. One that begins and ends before it is written is
  /// forgotten all the same: it may have been written before.
  func note(session: String, begunAtSeconds: Int64?) {
    add {
      $0.sessions[session] = .some(begunAtSeconds)
      $0.sessionsDue = $0.sessionsDue ?? monotonicNanoseconds() + Self.patienceNanoseconds
    }
  }

  /// A session is to be ended, also by the next run.
  func note(discarded session: DiscardedSession) { add { $0.note(session.id, session) } }
  /// The server has been told.
  func forget(discarded id: String) { add { $0.note(id, nil) } }

  /// Durable on return: no receipt covers the file's content any more. Called before the content changes. False when it
  /// could not be written.
  func markChanged(_ id: FileID) -> Bool {
    catalogLock.withLock { _, _ in
      do throws(StorageError) {
        try catalog.markChanged(id)
        return true
      } catch {
        logger.error(
          "cannot record that a delivered file changes; the change is refused", metadata: ["error": "\(error)"])
        return false
      }
    }
  }

  /// Durable on return: the entries as they are now. Blocks.
  func recordNow(_ entries: () -> [CatalogEntry]) throws(StorageError) {
    try record(entries) { (entries) throws(StorageError) in entries }
  }

  /// Likewise; what the catalog has is not written again. A start meets all that was ever delivered, and most of it has not changed.
  private func recordUnlessKnown(_ entries: () -> [CatalogEntry]) throws(StorageError) {
    try record(entries) { (entries) throws(StorageError) in
      var unknown: [CatalogEntry] = []
      for entry in entries {
        if try catalog.entry(entry.id) != entry { unknown.append(entry) }
      }
      return unknown
    }
  }

  private func record(
    _ entries: () -> [CatalogEntry], only choose: ([CatalogEntry]) throws(StorageError) -> [CatalogEntry]
  ) throws(StorageError) {
    let failure = catalogLock.withLock { _, _ -> StorageError? in
      do throws(StorageError) {
        let rows = try choose(entries())
        guard !rows.isEmpty else { return nil }
        try catalog.write(rows, removing: [])
        hasNewRows.store(true, ordering: .sequentiallyConsistent)
        return nil
      } catch {
        return error
      }
    }
    if let failure { throw failure }
  }

  private func add(_ change: (inout Work) -> Void) {
    work.withLock { work, signal in
      let before = work.due
      change(&work)
      // The thread sleeps until what it knows of is due.
      if let due = work.due, due < before ?? .max { signal.signal() }
    }
  }

  private func run(_ source: Source) {
    var nextTick = monotonicNanoseconds() + Self.tickNanoseconds
    var round: Int64?
    while true {
      let (batch, isLast) = work.wait { work -> Monitor<Work>.WaitDecision<(Batch, Bool)> in
        let now = monotonicNanoseconds()
        let next = min(nextTick, work.due ?? nextTick)
        if !work.isStopping, now < next { return .againBy(nanoseconds: next) }
        let isLast = work.isStopping && work.isEmpty
        return .done((work.take(at: now), isLast))
      }
      if isLast {
        endDiskRounds(source)
        return
      }
      carryOut(batch, source)
      if let damage = catalog.takeDamage() { logger.error("\(damage)") }
      if monotonicNanoseconds() >= nextTick {
        nextTick = monotonicNanoseconds() + Self.tickNanoseconds
        source.housekeeping()
        if let step = source.diskRound() { beginDiskRound(step, &round, source) }
      }
    }
  }

  /// What was taken is here alone.
  private func carryOut(_ batch: Batch, _ source: Source) {
    write(batch, source)
    fitMemory(batch.memory, source)
  }

  private func fitMemory(_ work: MemoryWork, _ source: Source) {
    if !work.unloads.isEmpty { source.unloaded(recordUnloading(work.unloads, source)) }
    if !work.loads.isEmpty { source.load(work.loads) }
  }

  /// The entries are durable. Those that wait to be written are of no later state than these.
  private func recordUnloading(_ ids: [FileID], _ source: Source) -> [CatalogEntry] {
    var entries: [CatalogEntry] = []
    do throws(StorageError) {
      try recordUnlessKnown {
        entries = source.catalogEntries(ids)
        return entries
      }
      return entries
    } catch {
      // They stay in memory, and it is tried again.
      logger.warning("cannot record files that memory is to hold no longer", metadata: ["error": "\(error)"])
      return []
    }
  }

  /// Rows that wait to be written again may say of a file that it is being changed.
  private var isRefused: Bool { work.withLock { work, _ in work.refusal != nil } }

  private func beginDiskRound(_ step: DiskRounds.Step, _ round: inout Int64?, _ source: Source) {
    // A row of the round that is over may describe a content that was changed meanwhile. What was reported of that waits here, however
    // long the disk took for what was written before it.
    if step == .next {
      carryOut(work.withLock { work, _ in work.take(at: monotonicNanoseconds(), takesAll: true) }, source)
    }
    guard !isRefused else { return }
    // Before the rows are counted: those that are written meanwhile are of the next round.
    guard hasNewRows.exchange(false, ordering: .sequentiallyConsistent) || step == .next else { return }
    guard let begun = beginDiskRound(endingThat: step == .next ? round : nil) else {
      return hasNewRows.store(true, ordering: .sequentiallyConsistent)
    }
    round = begun.number
    source.diskRoundBegan(begun)
  }

  /// What is written is all that there will be, and where the disk has all of it, no round has to be waited for.
  private func endDiskRounds(_ source: Source) {
    guard source.isEverythingOnDisk(), !isRefused, let last = beginDiskRound(endingThat: nil) else { return }
    _ = beginDiskRound(endingThat: last.number)
  }

  private func beginDiskRound(endingThat number: Int64?) -> CatalogRound? {
    do throws(StorageError) {
      return try catalog.beginDiskRound(endingThat: number)
    } catch {
      // It is tried again each second. Until then more is doubted in a copy without attributes.
      logger.debug("cannot record what the spool's disk has", metadata: ["error": "\(error)"])
      return nil
    }
  }

  private func write(_ batch: Batch, _ source: Source) {
    for id in batch.measures { source.measure(id) }
    writeSessions(batch.sessions)
    // The catalog first: deliveries do not wait for the records of large files, and the record of a delivered one is not
    // dropped before its receipt is durable.
    let recorded =
      batch.isForCatalog ? catalogLock.withLock { _, _ in writeCatalog(batch, source) } : []
    var postponed: OrderedDictionary<FileID, ResumeWork> = [:]
    for (id, work) in batch.resume {
      if recorded == nil, work == .remove, batch.catalog[id] == .record || !batch.discarded.isEmpty {
        postponed[id] = work
      } else {
        write(work, id, source, isKnown: recorded != nil)
      }
    }
    guard let recorded else {
      // The disk refuses. Nothing is lost: the spool holds the captures, and delivery is only believed once it is
      // recorded. Try again with whatever is new by then.
      if let refusal = work.withLock({ work, _ in work.refusal }) { source.recordingFails(refusal) }
      retry(batch, postponed)
      return
    }
    let wasRefused =
      batch.isForCatalog
      && work.withLock { work, _ in
        defer { work.refusal = nil }
        return work.refusal != nil
      }
    if !recorded.isEmpty || wasRefused { source.recorded(recorded) }
  }

  private func writeSessions(_ sessions: LookupTable<String, Int64?>) {
    guard !sessions.isEmpty else { return }
    do throws(StorageError) {
      try catalog.note(sessions: sessions)
    } catch {
      // Not tried again: at worst an orphaned session is left to the server.
      logger.warning("cannot record which sessions are under way", metadata: ["error": "\(error)"])
    }
  }

  /// `isKnown` says that the catalog has everything that it was to have: without its entry it is unknown whose a record is.
  private func write(_ work: ResumeWork, _ id: FileID, _ source: Source, isKnown: Bool) {
    switch work {
    case .remove:
      resumeStore.remove(id)
    case .save:
      do throws(StorageError) {
        let mark: ResumeSnapshot.Mark?
        do throws(StorageError) {
          mark = try saveResume(id, source)
        } catch {
          guard error.kind == .full, let room, room.giveBack() else { throw error }
          mark = try saveResume(id, source)
        }
        if isKnown, let mark { source.resumeSaved(id, mark) }
      } catch {
        // The upload goes on; after a crash the server would be asked anyway. The next record is a whole one.
        logger.warning("cannot save a resume record", metadata: ["error": "\(error)"])
      }
    }
  }

  /// The state that is on the disk then; nil where there is nothing to save any more.
  private func saveResume(_ id: FileID, _ source: Source) throws(StorageError) -> ResumeSnapshot.Mark? {
    guard let snapshot = source.resumeSnapshot(id, resumeStore.mark(of: id)) else { return nil }
    try resumeStore.save(snapshot)
    return snapshot.mark
  }

  /// The entries that are durable now; nil when the catalog could not be written.
  private func writeCatalog(_ batch: Batch, _ source: Source) -> [(id: FileID, receipt: Receipt?)]? {
    let entries = source.catalogEntries(batch.catalog.compactMap { $0.value == .record ? $0.key : nil })
    let forgotten = batch.catalog.compactMap { $0.value == .forget ? $0.key : nil }
    let publications = source.publications()
    do throws(StorageError) {
      try catalog.write(entries, removing: forgotten, publications: publications, discarded: batch.discarded)
      source.publicationsSaved(publications)
      if !entries.isEmpty { hasNewRows.store(true, ordering: .sequentiallyConsistent) }
      return entries.map { ($0.id, $0.receipt) }
    } catch {
      logger.error("cannot write the catalog; trying again", metadata: ["error": "\(error)"])
      work.withLock { work, _ in work.refusal = error }
      return nil
    }
  }

  private func retry(_ batch: Batch, _ resumeBatch: OrderedDictionary<FileID, ResumeWork>) {
    // Not at once: the disk may be full for a while. At the end it is not tried again: what is not recorded is delivered
    // again after the next start.
    let deadline = monotonicNanoseconds() + Self.tickNanoseconds
    work.wait { work in
      if work.isStopping {
        work.awaited = [:]
        work.patient = [:]
        work.discarded = [:]
        return .done(())
      }
      if monotonicNanoseconds() < deadline { return .againBy(nanoseconds: deadline) }
      for (id, session) in batch.discarded.sorted() where work.discarded[id] == nil { work.note(id, session) }
      work.awaited.merge(batch.catalog.filter { work.patient[$0.key] == nil }) { newer, _ in newer }
      work.resume.merge(resumeBatch) { newer, _ in newer }
      return .done(())
    }
  }
}

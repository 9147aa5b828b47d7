import FileModel
import Glibc
import Logging
import Promises
import Synchronization
import Testing

@testable import UploadEngine

@Suite struct EngineJournalTests {
  private let folder: ScratchFolder
  private let catalog: Catalog
  private let store: ResumeStore
  private let journal: EngineJournal
  private let saved: Saved

  /// The changes up to which records were said to go.
  private final class Saved: Sendable {
    private let changes = Mutex<[UInt64]>([])
    func withLock(_ body: (inout sending [UInt64]) -> Void) { changes.withLock { body(&$0) } }
    var all: [UInt64] { changes.withLock { $0 } }
  }

  init() throws {
    folder = try ScratchFolder()
    mkdir(folder("resume"), 0o700)
    catalog = try Catalog(path: folder("catalog.sqlite"))
    store = try ResumeStore(directory: folder("resume"), masterKeyFile: folder("master.key"))
    saved = Saved()
    journal = EngineJournal(catalog: catalog, resumeStore: store, logger: Logger(label: "test"))
  }

  private func start() {
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { ids in
          ids.map { id in
            CatalogEntry(
              id: id, path: RelativePath("a"), inode: 1, sizeBytes: 1, modifiedNanoseconds: 1, revision: 1,
              state: .pending)
          }
        },
        resumeSnapshot: { _, mark in
          let record = ResumeFixture.record(chunks: 1)
          guard let mark else {
            return ResumeSnapshot(record: record, changes: nil, mark: .init(sessionID: "s-1", changeCount: 1))
          }
          let change = ResumeSnapshot.Change(index: 1, digest: ResumeFixture.digest(1))
          return ResumeFixture.snapshot(record, changes: [change], changeCount: mark.changeCount + 1)
        },
        // What was said to be on the disk is there.
        resumeSaved: { [saved, store] id, mark in
          if case .record = store.load(id) { saved.withLock { $0.append(mark.changeCount) } }
        }, recorded: { _ in }, measure: { _ in }, housekeeping: {}))
  }

  /// Else a crash would leave neither a receipt nor anything to go on with.
  @Test func theRecordOfADeliveredFile_isKeptUntilTheCatalogHasItsEntry() throws {
    try store.save(ResumeFixture.record())
    // A catalog that refuses every write.
    catalog.close()
    journal.record(ResumeFixture.id, isAwaited: true)
    journal.removeResume(ResumeFixture.id)
    start()
    journal.stop()
    #expect(store.load(ResumeFixture.id) == .record(ResumeFixture.record()))
  }

  @Test func aDeliveredFile_hasAnEntryAndNoRecord() throws {
    try store.save(ResumeFixture.record())
    journal.record(ResumeFixture.id, isAwaited: true)
    journal.removeResume(ResumeFixture.id)
    start()
    journal.stop()
    #expect(store.load(ResumeFixture.id) == .none)
    #expect(try catalog.loadAll().map(\.id) == [ResumeFixture.id])
  }

  /// Else it would be unknown after a crash that the session is to be ended.
  @Test(arguments: [true, false]) func theRecordOfADiscardedSession_isKeptUntilTheCatalogHasIt(isRefused: Bool) throws {
    try store.save(ResumeFixture.record())
    let session = DiscardedSession(id: "s-1", sinceSeconds: 1)
    if isRefused { catalog.close() }
    journal.note(discarded: session)
    journal.removeResume(ResumeFixture.id)
    start()
    journal.stop()
    #expect(store.load(ResumeFixture.id) == (isRefused ? .record(ResumeFixture.record()) : .none))
    if !isRefused { #expect(try catalog.discardedSessions() == [session]) }
  }

  @Test func aSessionThatWasEnded_isForgotten_alsoBeforeItWasWritten() throws {
    journal.note(discarded: DiscardedSession(id: "a", sinceSeconds: 1))
    journal.note(discarded: DiscardedSession(id: "b", sinceSeconds: 1))
    journal.forget(discarded: "a")
    start()
    journal.stop()
    #expect(try catalog.discardedSessions().map(\.id) == ["b"])
  }

  @Test func saves_continueTheRecordThatIsOnDisk() throws {
    try store.save(ResumeFixture.record(chunks: 1))
    journal.saveResume(ResumeFixture.id)
    start()
    journal.stop()
    #expect(store.mark(of: ResumeFixture.id)?.changeCount == 1)
    #expect(saved.all == [1])
    guard case .record(let record) = store.load(ResumeFixture.id) else {
      Issue.record("there is no record")
      return
    }
    #expect(record.acknowledged.map(\.index) == [0, 1])
  }

  /// Regression: rows got the time from one look to the next to be written, less than the disk takes for a single slow write. A round ended
  /// with rows in it that the content of their files had left behind, and the catalog said that the disk had these.
  @Test(.promises("S79j")) func aRoundEnds_whenTheRowsOfWhatHasChangedMeanwhileAreWritten() async throws {
    let ended = AsyncStream<[UInt64]>.makeStream()
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { ids in
          ids.map { id in
            CatalogEntry(
              id: id, path: RelativePath("a"), inode: 1, sizeBytes: 7, modifiedNanoseconds: 1, revision: 1,
              state: .pending)
          }
        },
        resumeSnapshot: { _, _ in nil }, resumeSaved: { _, _ in }, recorded: { _ in }, diskRound: { .next },
        diskRoundBegan: { [catalog] _ in
          do {
            ended.continuation.yield(try catalog.loadAll().map(\.sizeBytes))
          } catch {
            Issue.record(error)
          }
        }, measure: { _ in },
        // What the journal's thread was busy with until then has held it up.
        housekeeping: { [journal] in journal.record(ResumeFixture.id, isAwaited: false) }))
    let sizes = await ended.stream.first { _ in true }
    journal.stop()
    #expect(sizes == [7])
  }

  /// Regression: a round took all that there was to do, and what it did not write was never done: nothing was loaded or unloaded any more, and files
  /// beyond memory waited for the next start.
  @Test(.promises("S45j")) func whatIsToBeLoadedWhenARoundBegins_isLoaded() async throws {
    let loaded = AsyncStream<[FileID]>.makeStream()
    let rounds = Atomic<Int>(0)
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { _ in [] }, resumeSnapshot: { _, _ in nil }, resumeSaved: { _, _ in }, recorded: { _ in },
        diskRound: { .next },
        diskRoundBegan: { _ in if rounds.add(1, ordering: .relaxed).newValue == 2 { loaded.continuation.finish() } },
        load: { loaded.continuation.yield($0) }, measure: { _ in },
        housekeeping: { [journal] in journal.load([ResumeFixture.id]) }))
    #expect(await loaded.stream.first { _ in true } == [ResumeFixture.id])
    journal.stop()
  }

  /// Regression: it was said at the start alone, so that files were uploaded again without a word after damage of a running mount.
  @Test(.promises("S45i")) func damageThatIsFoundWhileItRuns_isLoggedOnce() throws {
    // More than SQLite keeps in memory.
    try catalog.upsert(
      (0..<20_000).map {
        CatalogEntry(
          id: FileID(high: 0, low: $0), path: RelativePath(String(repeating: "a", count: 200)), inode: $0,
          sizeBytes: 1, modifiedNanoseconds: 1, revision: 1, state: .pending)
      })
    for name in ["catalog.sqlite", "catalog.sqlite-wal"] {
      try folder.write(Array(repeating: 0x55, count: try folder.read(name).count), to: name)
    }
    let log = KeptLines()
    let journal = EngineJournal(
      catalog: catalog, resumeStore: store, logger: Logger(label: "test") { _ in LineHandler(kept: log) })
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { ids in
          ids.map { id in
            CatalogEntry(
              id: id, path: RelativePath("a"), inode: 1, sizeBytes: 1, modifiedNanoseconds: 1, revision: 1,
              state: .pending)
          }
        },
        resumeSnapshot: { _, _ in nil }, resumeSaved: { _, _ in }, recorded: { _ in }, measure: { _ in },
        housekeeping: {}))
    for number in UInt64(0)..<5 { journal.record(FileID(high: 0, low: number * 4000), isAwaited: true) }
    journal.stop()
    let said = log.lines.withLock { $0.filter { $0.contains("damaged-1") } }
    #expect(said.count == 1, "\(log.lines.withLock { $0 })")
  }

  /// What goes out waits until its entry says that nothing of it is delivered.
  @Test(.promises("S80e")) func entriesWithoutReceipts_areSaidToBeDurable() throws {
    let said = Mutex<[FileID]>([])
    journal.record(ResumeFixture.id, isAwaited: true)
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { ids in
          ids.map { id in
            CatalogEntry(
              id: id, path: RelativePath("a"), inode: 1, sizeBytes: 1, modifiedNanoseconds: 1, revision: 1,
              state: .pending)
          }
        },
        resumeSnapshot: { _, _ in nil }, resumeSaved: { _, _ in },
        recorded: { [catalog] entries in
          #expect(entries.allSatisfy { $0.receipt == nil } && (try? catalog.loadAll().map(\.id)) == entries.map(\.id))
          said.withLock { $0 += entries.map(\.id) }
        }, measure: { _ in }, housekeeping: {}))
    journal.stop()
    #expect(said.withLock { $0 } == [ResumeFixture.id])
  }

  /// As the simulation's journal does: an order that came from hashing would differ from run to run.
  @Test func work_isDone_inTheOrderInWhichItWasAskedFor() {
    let ids = (1...64).map { FileID(high: $0 &* 0x9e37_79b9_7f4a_7c15, low: $0) }
    let measured = Mutex<[FileID]>([])
    let written = Mutex<[FileID]>([])
    let saves = Mutex<[FileID]>([])
    for id in ids {
      journal.measure(id)
      journal.record(id, isAwaited: false)
      journal.saveResume(id)
    }
    // What a caller waits for comes first.
    journal.record(ids[9], isAwaited: true)
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { ids in
          written.withLock { $0 = ids }
          return []
        },
        resumeSnapshot: { id, _ in
          saves.withLock { $0.append(id) }
          return nil
        }, resumeSaved: { _, _ in }, recorded: { _ in },
        measure: { id in measured.withLock { $0.append(id) } }, housekeeping: {}))
    journal.stop()
    #expect(measured.withLock { $0 } == ids)
    #expect(saves.withLock { $0 } == ids)
    let rest = ids.dropLast().filter { $0 != ids[9] }
    #expect(written.withLock { $0 } == [ids[9]] + rest.prefix(9) + [ids[63]] + rest.dropFirst(9))
  }
}

private final class KeptLines: Sendable {
  let lines = Mutex<[String]>([])
}

private struct LineHandler: LogHandler {
  let kept: KeptLines
  var logLevel = Logger.Level.trace
  var metadata: Logger.Metadata = [:]
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { kept.lines.withLock { $0.append("\(event.message)") } }
}

import FileModel
import Logging
import Synchronization
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct CatalogGatheringTests {
  /// What the journal asked for, and a way to wait for it.
  private final class Asked: Sendable {
    private let events = Monitor<[String]>([])

    func note(_ event: String) {
      events.withLock { events, signal in
        events.append(event)
        signal.broadcast()
      }
    }

    func wait(for event: String) {
      let deadline = monotonicNanoseconds() + 20_000_000_000
      let isThere = events.wait { events in
        if events.contains(event) { return .done(true) }
        return monotonicNanoseconds() < deadline ? .againBy(nanoseconds: deadline) : .done(false)
      }
      #expect(isThere, "the journal did not ask for \(event)")
    }

    func count(of event: String) -> Int { events.withLock { events, _ in events.count { $0 == event } } }
  }

  private let folder: ScratchFolder
  private let asked = Asked()
  private let file = FileID(high: 1, low: 2)

  init() throws { folder = try ScratchFolder() }

  private func start(_ catalog: Catalog) throws -> EngineJournal {
    let journal = EngineJournal(
      catalog: catalog, resumeStore: try ResumeStore(directory: folder("resume"), masterKeyFile: folder("key")),
      logger: Logger(label: "test"))
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { [asked] ids in
          ids.map { id in
            asked.note("entry")
            return CatalogEntry(
              id: id, path: RelativePath("a"), inode: 1, sizeBytes: 1, modifiedNanoseconds: 1, revision: 1,
              state: .complete,
              receipt: Receipt(
                id: "r", name: "a", sizeBytes: 1, merkleRoot: "aa", chainTip: "bb", publishedAtMilliseconds: 1))
          }
        },
        resumeSnapshot: { [asked] _, _ in
          let known = (try? catalog.loadAll().count) ?? 0
          asked.note("resume record after \(known) entries")
          return nil
        },
        resumeSaved: { _, _ in },
        recorded: { [asked] _ in asked.note("recorded") }, measure: { [asked] _ in asked.note("measured") },
        housekeeping: {}))
    return journal
  }

  @Test func aFileThatIsDeliveredSoonIsWrittenOnce() throws {
    let journal = try start(Catalog(path: folder("catalog.sqlite")))
    journal.record(file, isAwaited: false)
    // The journal has looked at its work since, and has left the entry alone.
    journal.measure(file)
    asked.wait(for: "measured")
    journal.record(file, isAwaited: true)
    asked.wait(for: "recorded")
    journal.stop()
    #expect(asked.count(of: "entry") == 1)
  }

  @Test func anEntryThatNoCallWaitsForIsWrittenAtTheLatestAtTheEnd() throws {
    let catalog = try Catalog(path: folder("catalog.sqlite"))
    let journal = try start(catalog)
    journal.record(file, isAwaited: false)
    journal.stop()
    #expect(try catalog.loadAll().map(\.id) == [file])
  }

  @Test func aResumeRecordIsWrittenAfterTheEntryThatSaysWhoseItIs() throws {
    let journal = try start(Catalog(path: folder("catalog.sqlite")))
    journal.record(file, isAwaited: false)
    journal.saveResume(file)
    asked.wait(for: "resume record after 1 entries")
    journal.stop()
  }
}

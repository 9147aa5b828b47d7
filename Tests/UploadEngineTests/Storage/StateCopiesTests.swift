import FileModel
import GRDB
import Glibc
import Logging
import Testing
import Threads

@testable import UploadEngine

@Suite struct StateCopiesTests {
  private let folder: ScratchFolder
  private var copy: String { folder("catalog.backup.sqlite") }

  init() throws { folder = try ScratchFolder() }

  private func entry(_ number: UInt64) -> CatalogEntry {
    CatalogEntry(
      id: FileID(high: 7, low: number), path: RelativePath("scan\(number).mov"), inode: number, sizeBytes: 10,
      modifiedNanoseconds: 5, revision: 1, state: .pending)
  }

  private func copies(reserveBytes: UInt64 = 0, pauseSeconds: Int64 = 3600) -> StateCopies {
    StateCopies(reserveBytes: reserveBytes, pauseSeconds: pauseSeconds, logger: Logger(label: "test"))
  }

  private func countInCopy() throws -> Int? {
    // As a program would that may only read.
    var configuration = Configuration()
    configuration.readonly = true
    let queue = try DatabaseQueue(path: copy, configuration: configuration)
    return try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM file") }
  }

  @Test func atTheEndThereIsACopy_whichIsAPlainFileAndOpensAsTheCatalog() throws {
    let catalog = try Catalog(path: folder("catalog.sqlite"))
    let copies = copies()
    copies.add(catalog)
    try catalog.upsert((1...3000).map { entry($0) })
    copies.stop()
    #expect(folder.names() == ["catalog.backup.sqlite", "catalog.sqlite", "catalog.sqlite-open", "catalog.sqlite-wal"])
    #expect(try countInCopy() == 3000)
    #expect(folder.names() == ["catalog.backup.sqlite", "catalog.sqlite", "catalog.sqlite-open", "catalog.sqlite-wal"])
    // The original is used on, and alone.
    try catalog.upsert([entry(3001)])
    #expect(try catalog.setting("locking_mode") == "exclusive")
    #expect(try Catalog(path: copy).loadAll().count == 3000)
  }

  @Test func aChangeIsCopiedWhenItsTimeHasCome_andOnlyAChange() throws {
    let catalog = try Catalog(path: folder("catalog.sqlite"))
    try catalog.upsert([entry(1)])
    let copies = copies(pauseSeconds: 0)
    copies.add(catalog)
    defer { copies.stop() }
    #expect(waits { try countInCopy() == 1 })
    try catalog.upsert([entry(2)])
    #expect(waits { try countInCopy() == 2 })
    let made = inode(of: copy)
    #expect(!waits(nanoseconds: 50_000_000) { inode(of: copy) != made })
    // One that has gone is made again.
    unlink(copy)
    #expect(waits { try countInCopy() == 2 })
  }

  @Test func whereSpaceIsShortThereIsNone() throws {
    let catalog = try Catalog(path: folder("catalog.sqlite"))
    try catalog.upsert([entry(1)])
    let copies = copies(reserveBytes: .max / 2)
    copies.add(catalog)
    copies.stop()
    #expect(folder.names() == ["catalog.sqlite", "catalog.sqlite-open", "catalog.sqlite-wal"])
  }

  @Test func aCopyThatCannotBeMadeLeavesTheOneBeforeIt_andTheOriginalAsItIs() throws {
    try folder.write(Array("before".utf8), to: "catalog.backup.sqlite")
    mkdir(folder("catalog.backup.sqlite.tmp"), 0o700)
    let catalog = try Catalog(path: folder("catalog.sqlite"))
    try catalog.upsert([entry(1)])
    let copies = copies()
    copies.add(catalog)
    copies.stop()
    #expect(try folder.read("catalog.backup.sqlite") == Array("before".utf8))
    try catalog.upsert([entry(2)])
    #expect(try catalog.loadAll().count == 2)
  }

  @Test func namesAreCopiedAsWell() throws {
    let ledger = try NameLedger(path: folder("names.sqlite"))
    let file = FileID(high: 0, low: 1)
    let facts = NameTemplate.Values(
      path: RelativePath("a"), id: file, date: "2026-11-24", time: "120000", host: "h", sequence: nil)
    _ = try ledger.names(for: [.init(file: file, path: RelativePath("a"), template: nil, facts: facts)])
    let copies = copies()
    copies.add(ledger)
    copies.stop()
    #expect(try NameLedger(path: folder("names.backup.sqlite")).known([file])[file]?.count == 1)
  }

  private func inode(of path: String) -> ino_t? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_ino : nil
  }

  /// Asks again and again; the deadline only ends a test that has failed.
  private func waits(nanoseconds: Int64 = 20_000_000_000, until isTrue: () throws -> Bool) -> Bool {
    let deadline = monotonicNanoseconds() + nanoseconds
    while monotonicNanoseconds() < deadline {
      if (try? isTrue()) == true { return true }
      sched_yield()
    }
    return false
  }
}

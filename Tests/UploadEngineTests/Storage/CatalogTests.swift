import FileModel
import GRDB
import Glibc
import Integrity
import Lookup
import Promises
import SeededRandom
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct CatalogTests {
  private let folder: ScratchFolder
  private var path: String { folder("catalog.sqlite") }

  init() throws { folder = try ScratchFolder() }

  private func entry(_ number: UInt64, _ state: CatalogState = .pending) -> CatalogEntry {
    CatalogEntry(
      id: FileID(high: 7, low: number), path: RelativePath("captures/scan\(number).mov"), inode: number, sizeBytes: 10,
      modifiedNanoseconds: 5, revision: 1, state: state)
  }

  private func delivered(_ number: UInt64) -> CatalogEntry {
    var entry = entry(number, .complete)
    entry.publishedPaths = [RelativePath("b"), RelativePath("a")]
    entry.receipt = Receipt(
      id: "r\(number)", name: "scän.mov", sizeBytes: .max, merkleRoot: "aa", chainTip: "bb",
      publishedAtMilliseconds: 1_700_000_000_123, fileID: entry.id, chunkBytes: 4,
      durationMilliseconds: 17)
    entry.completedAtMilliseconds = 1_700_000_000_456
    return entry
  }

  private func sorted(_ entries: [CatalogEntry]) -> [CatalogEntry] { entries.sorted { $0.id.low < $1.id.low } }

  @Test func everyFieldComesBackAfterReopening() throws {
    var extreme = delivered(1)
    extreme.path = RelativePath(bytes: [0xff, 0x0a, 0x22, 0x27])
    extreme.inode = .max
    extreme.sizeBytes = .max
    extreme.revision = .max
    extreme.modifiedNanoseconds = .min
    extreme.failureCode = "unauthorized"
    extreme.failureMessage = "it's refused; \"DROP TABLE file\""
    extreme.openedAtMilliseconds = 1
    extreme.closedAtMilliseconds = -1
    extreme.doubt = .lostInWriteBack(errno: 5, 10..<20)
    extreme.pointer = SessionPointer(
      chunkBytes: 1, sessionID: "a; b%", nonce: [0, 255], address: "https://vault/ä", credentialMark: "")
    extreme.session = "a; b%"
    var empty = entry(2, .evicted)
    empty.session = ""
    empty.path = .root
    let catalog = try Catalog(path: path)
    #expect(catalog.openedDamaged == nil)
    try catalog.upsert([extreme, empty])
    catalog.close()

    let reopened = try Catalog(path: path)
    #expect(reopened.openedDamaged == nil)
    #expect(try sorted(reopened.loadAll()) == [extreme, empty])
  }

  @Test func discardedSessions_areKnownUntilTheyAreForgotten() throws {
    let catalog = try Catalog(path: path)
    let owner = SessionOwner(address: "https://vault:8443", credentialMark: nil)
    let (one, other) = (
      DiscardedSession(id: "one", sinceSeconds: 5, owner: owner), DiscardedSession(id: "other", sinceSeconds: -1)
    )
    try catalog.write([], removing: [], publications: PublicationNotes(), discarded: ["one": one, "other": other])
    // Since when it is so is said the first time.
    try catalog.write(
      [], removing: [], publications: PublicationNotes(),
      discarded: ["one": DiscardedSession(id: "one", sinceSeconds: 9), "never": nil])
    #expect(try catalog.discardedSessions() == [one, other])
    try catalog.write([], removing: [], publications: PublicationNotes(), discarded: ["one": nil])
    catalog.close()
    #expect(try Catalog(path: path).discardedSessions() == [other])
  }

  @Test func sessionsAreKnownFromTheirBeginningToTheirEnd() throws {
    let catalog = try Catalog(path: path)
    try catalog.note(sessions: ["old": 10, "new": 20, "oldest": 5])
    // The time when it was first heard of counts.
    try catalog.note(sessions: ["old": 30])
    #expect(try catalog.sessions(begunBefore: 20, countMax: 9) == ["oldest", "old"])
    #expect(try catalog.sessions(begunBefore: 21, countMax: 1) == ["oldest"])
    try catalog.note(sessions: ["oldest": nil, "never": nil])
    catalog.close()
    #expect(try Catalog(path: path).sessions(begunBefore: .max, countMax: 9) == ["old", "new"])
  }

  @Test func anEntryIsReplacedAsAWhole() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1), entry(2)])
    try catalog.upsert([entry(1, .failed)])
    #expect(try sorted(catalog.loadAll()) == [entry(1, .failed), entry(2)])
  }

  @Test func removedEntriesAreGoneWithTheirReceipts() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1), delivered(2)])
    try catalog.remove([delivered(1).id, FileID(high: 0, low: 0)])
    #expect(try catalog.loadAll() == [delivered(2)])
    try catalog.upsert([entry(1)])
    #expect(try sorted(catalog.loadAll()).first == entry(1))
  }

  @Test func aChangedFileHasNoReceiptEvenIfTheProcessDiesAtOnce() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1), delivered(2), entry(3, .failed)])
    try catalog.markChanged(delivered(1).id)
    try catalog.markChanged(entry(3).id)
    try catalog.markChanged(FileID(high: 0, low: 0))

    // Not closed: a restarted process would find the files as they are now.
    for suffix in ["", "-wal"] {
      try folder.write(try folder.read("catalog.sqlite\(suffix)"), to: "left.sqlite\(suffix)")
    }
    let restarted = try Catalog(path: folder("left.sqlite"))
    let entries = try sorted(restarted.loadAll())
    #expect(entries.map(\.state) == [.pending, .complete, .pending])
    #expect(entries[0].receipt == nil)
    #expect(entries[0].publishedPaths.isEmpty)
    #expect(entries[0].completedAtMilliseconds == nil)
    #expect(entries[1] == delivered(2))
  }

  @Test func whatWasKnownOfAContentIsTakenBackWithItsChange() throws {
    let catalog = try Catalog(path: path)
    var known = entry(1)
    known.failureCode = ContentSeal.code
    known.failureMessage = ContentSeal(root: sha256([1]), chunkBytes: 4096).text
    try catalog.upsert([known, entry(2, .failed)])
    #expect(try sorted(catalog.loadAll()).first?.seal != nil)
    try catalog.markChanged(known.id)
    #expect(try sorted(catalog.loadAll()).first?.failureCode == nil)
  }

  @Test func changesAreOnTheDiskWhenTheCallReturns() throws {
    let catalog = try Catalog(path: path)
    // 2 is FULL. GRDB's own choice for WAL is 1, which a power cut can outrun.
    #expect(try catalog.setting("synchronous") == "2")
    #expect(try catalog.setting("journal_mode") == "wal")
  }

  /// Regression: SQLite mapped the index of its log, and a page of it that the disk had no place for, or that was cut off,
  /// ended the process.
  @Test func nothingOfItIsMapped() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    #expect(folder.names() == ["catalog.sqlite", "catalog.sqlite-open", "catalog.sqlite-wal"])
    #expect(try catalog.setting("locking_mode") == "exclusive")
    // Nil where SQLite is built without mappings.
    #expect(["0", nil].contains(try catalog.setting("mmap_size")))
  }

  /// As a version that shared the index left it, when it was killed or when the disk had eaten the index.
  @Test(arguments: SharedIndex.allCases)
  func theIndexOfAnEarlierVersionDoesNoHarm_andIsGone(_ index: SharedIndex) throws {
    let catalog = try Catalog(path: folder("before.sqlite"))
    try catalog.upsert([delivered(1), entry(2)])
    for suffix in ["", "-wal"] {
      try folder.write(try folder.read("before.sqlite\(suffix)"), to: "catalog.sqlite\(suffix)")
    }
    switch index {
    case .empty: try folder.write([], to: "catalog.sqlite-shm")
    case .cut: try folder.write(Array(repeating: 7, count: 100), to: "catalog.sqlite-shm")
    case .ofOtherContent: try folder.write(Array(repeating: 0x55, count: 32768), to: "catalog.sqlite-shm")
    case .unreadable:
      try folder.write([], to: "catalog.sqlite-shm")
      chmod(folder("catalog.sqlite-shm"), 0)
    case .folder: mkdir(folder("catalog.sqlite-shm"), 0o700)
    case .linkToNowhere: symlink("nowhere", folder("catalog.sqlite-shm"))
    }
    let reopened = try Catalog(path: path)
    #expect(reopened.openedDamaged == nil)
    #expect(try sorted(reopened.loadAll()) == [delivered(1), entry(2)])
    try reopened.upsert([delivered(3)])
    #expect(!folder.names().contains("catalog.sqlite-shm"))
  }

  enum SharedIndex: CaseIterable { case empty, cut, ofOtherContent, unreadable, folder, linkToNowhere }

  @Test func completeWithoutReceiptCountsAsPending() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([entry(1, .complete)])
    #expect(try catalog.loadAll().map(\.state) == [.pending])
  }

  @Test func theOldestHistoryIsDroppedAndNothingElse() throws {
    let catalog = try Catalog(path: path)
    let limit = UInt64(Catalog.historyMax)
    try catalog.upsert([entry(0), delivered(1)])
    try catalog.upsert((2..<(limit + 12)).map { entry($0, $0.isMultiple(of: 2) ? .removed : .evicted) })
    let kept = try sorted(catalog.loadAll()).map(\.id.low)
    #expect(kept == [0, 1] + Array(12..<(limit + 12)))
    // An old entry that is touched becomes a young one.
    try catalog.upsert([entry(12, .removed)])
    try catalog.upsert([entry(limit + 12, .evicted)])
    let later = try Set(catalog.loadAll().map(\.id.low))
    #expect(later.contains(12) && !later.contains(13) && later.count == Int(limit) + 2)
  }

  @Test func afterClosingEveryCallSaysSo() throws {
    let catalog = try Catalog(path: path)
    catalog.close()
    catalog.close()
    let error = #expect(throws: StorageError.self) { try catalog.markChanged(FileID(high: 1, low: 1)) }
    #expect(error?.kind == .closed)
    #expect(throws: StorageError.self) { _ = try catalog.loadAll() }
    #expect(throws: StorageError.self) { try catalog.upsert([entry(1)]) }
  }

  @Test func threadsMayMarkWhileAnotherWrites() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert((0..<200).map { delivered($0) })
    let failures = Collector<String>()
    let threads = (0..<4).map { part in
      WorkerThread("test", .answering) {
        for number in UInt64(0)..<200 where number % 4 == part {
          do {
            try catalog.markChanged(FileID(high: 7, low: number))
            try catalog.upsert([CatalogTests.other(number)])
          } catch {
            failures.append("\(error)")
          }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(failures.all.isEmpty)
    let entries = try catalog.loadAll()
    #expect(entries.count == 400)
    #expect(entries.allSatisfy { $0.state == .pending && $0.receipt == nil })
  }

  private static func other(_ number: UInt64) -> CatalogEntry {
    CatalogEntry(
      id: FileID(high: 8, low: number), path: RelativePath("x"), inode: 0, sizeBytes: 0, modifiedNanoseconds: 0,
      revision: 0, state: .pending)
  }

  // MARK: - Damage

  @Test(arguments: [
    Array("this is no database, and it is long enough to be taken for one by its size".utf8)
      + Array(repeating: 7, count: 9000),
    Array("SQLite format 3\u{0}".utf8), Array("SQLite format 3\u{0}".utf8) + Array(repeating: 0xff, count: 8176),
  ])
  func aFileThatIsNoDatabaseIsMovedAside(content: [UInt8]) throws {
    for number in 1...2 {
      try folder.write(content, to: "catalog.sqlite")
      let catalog = try Catalog(path: path)
      let warning = try #require(catalog.openedDamaged)
      #expect(warning.contains("catalog.sqlite.damaged-\(number)") && !warning.contains("\n"))
      #expect(try catalog.loadAll().isEmpty)
      try catalog.upsert([delivered(1)])
      #expect(try catalog.loadAll() == [delivered(1)])
      #expect(try folder.read("catalog.sqlite.damaged-\(number)") == content)
      catalog.close()
    }
    let last = try Catalog(path: path)
    #expect(last.openedDamaged == nil)
    #expect(try last.loadAll() == [delivered(1)])
  }

  /// A head without tables, which a start that was killed leaves: the first page as SQLite 3 writes it in WAL mode.
  private static let bareDatabase: [UInt8] = {
    var page = Array("SQLite format 3\u{0}".utf8) + [UInt8](repeating: 0, count: 4080)
    // Page size 4096, WAL, the fixed payload fractions, one change, one page, its validity, an empty leaf.
    for (offset, value) in [
      (16, 0x10), (18, 2), (19, 2), (21, 64), (22, 32), (23, 32), (27, 1), (31, 1), (95, 1), (97, 0x2e), (98, 0x4b),
      (99, 0x90),
      (100, 0x0d), (105, 0x10),
    ] as [(Int, UInt8)] { page[offset] = value }
    return page
  }()

  /// Regression: everything that had been delivered was sent again, with the copy beside it.
  @Test(.promises("S45f"), arguments: [nil, [], Array(repeating: UInt8(7), count: 5000), bareDatabase])
  func theCopyStandsIn_andWhatItSaysWasDeliveredIsToBeCompared(damage: [UInt8]?) throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    try catalog.copy(to: StateCopies.path(of: path))
    try catalog.upsert([delivered(2)])
    catalog.close()
    for name in folder.names() where name.hasPrefix("catalog.sqlite") { unlink(path + name.dropFirst(14)) }
    if let damage { try folder.write(damage, to: "catalog.sqlite") }
    let restored = try Catalog(path: path)
    #expect(restored.openedDamaged?.contains("stands in for it") == true && restored.isAnew)
    var known = delivered(1)
    // Regression: the time was lost, and an older content that was put back from a backup passed for a later one.
    known.modifiedNanoseconds -= 1
    #expect(try restored.loadAll() == [known])
    try restored.upsert([delivered(1)])
    restored.close()
    let reopened = try Catalog(path: path)
    #expect(try reopened.loadAll() == [delivered(1)] && reopened.openedDamaged == nil)
  }

  /// Regression: a catalog whose log was deleted after a kill counted as all that had been known, and what it said of contents of before was
  /// believed.
  @Test(.promises("S45f"), arguments: [false, true])
  func aLogThatWasDeletedAfterAKill_isSaid_andTheLaterOneOfCatalogAndCopyStandsIn(isCopied: Bool) throws {
    try Catalog(path: path).close()
    let ended = try folder.read("catalog.sqlite")
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    if isCopied { try catalog.copy(to: StateCopies.path(of: path)) }
    try catalog.upsert([delivered(2)])
    let (killed, log) = try (folder.read("catalog.sqlite"), folder.read("catalog.sqlite-wal"))
    catalog.close()

    func open(_ file: [UInt8], _ log: [UInt8]?) throws -> Catalog {
      for name in folder.names() where name.hasPrefix("catalog.sqlite") { unlink(folder(name)) }
      if file == killed { try folder.write([], to: "catalog.sqlite-open") }
      try folder.write(file, to: "catalog.sqlite")
      if let log { try folder.write(log, to: "catalog.sqlite-wal") }
      // The copy was made after the file was written to last.
      var times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
      #expect(utimensat(AT_FDCWD, path, &times, 0) == 0)
      return try Catalog(path: path)
    }
    let whole = try open(killed, log)
    #expect(try whole.openedDamaged == nil && sorted(whole.loadAll()) == [delivered(1), delivered(2)])
    whole.close()
    let atRest = try open(ended, nil)
    #expect(!atRest.isAnew)
    atRest.close()
    let older = try open(killed, nil)
    let said = try #require(older.openedDamaged)
    #expect(said.contains("has lost its log") && said.contains("stands in for it") == isCopied && older.isAnew)
    var known = delivered(1)
    known.modifiedNanoseconds -= 1
    #expect(try older.loadAll() == (isCopied ? [known] : []))
    older.close()
    let next = try Catalog(path: path)
    #expect(!next.isAnew)
    next.close()
    #expect(try Catalog(path: path, wasAnew: true).isAnew)
  }

  /// What the file of a killed mount says was delivered is compared, too.
  @Test(.promises("S45f")) func whatACatalogWithoutItsLogSaysWasDelivered_isToBeCompared() throws {
    let first = try Catalog(path: path)
    try first.upsert([delivered(1)])
    first.close()
    let catalog = try Catalog(path: path)
    try catalog.markChanged(delivered(1).id)
    let killed = try folder.read("catalog.sqlite")
    #expect(folder.names().contains("catalog.sqlite-open"))
    catalog.close()
    #expect(!folder.names().contains("catalog.sqlite-open"))
    try folder.write(killed, to: "catalog.sqlite")
    try folder.write([], to: "catalog.sqlite-open")
    var known = delivered(1)
    known.modifiedNanoseconds -= 1
    #expect(try Catalog(path: path).loadAll() == [known])
  }

  /// A start that is killed before it has gone through a catalog without its log has made a new one; and what fails has removed that.
  @Test(.promises("S45f")) func aLossThatWasFound_isKnownUntilAStartHasDealtWithIt() throws {
    try Catalog(path: path).close()
    try folder.write([], to: "catalog.sqlite-open")
    #expect(LogMarker.findsLoss(of: path))
    try folder.write([], to: "catalog.sqlite-wal")
    let next = try Catalog(path: path)
    #expect(next.openedDamaged?.contains("has lost its log") == true)
    next.close()
    #expect(try !Catalog(path: path).isAnew)
  }

  /// A copy that is damaged takes the place of no catalog that is only older; and stands in for one that is damaged as well.
  @Test(.promises("S45f"), arguments: [false, true])
  func ofAnOlderCatalogAndADamagedCopy_theWholeOneCounts(isCopyWhole: Bool) throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    try catalog.copy(to: StateCopies.path(of: path))
    catalog.close()
    let damaged = isCopyWhole ? "catalog.sqlite" : "catalog.backup.sqlite"
    try folder.write(Array(repeating: 7, count: 5000), to: damaged)
    try folder.write([], to: "catalog.sqlite-open")
    var times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
    #expect(utimensat(AT_FDCWD, isCopyWhole ? StateCopies.path(of: path) : path, &times, 0) == 0)
    #expect(try Catalog(path: path).loadAll().map(\.id) == [delivered(1).id])
  }

  /// Regression: SQLite applied to the copy what the journal of the lost catalog held.
  @Test(.promises("S45f")) func theJournalOfALostCatalog_isNotAppliedToItsCopy() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    try catalog.copy(to: StateCopies.path(of: path))
    try catalog.upsert([delivered(2)])
    let journal = try folder.read("catalog.sqlite-wal")
    catalog.close()
    unlink(path)
    try folder.write(journal, to: "catalog.sqlite-wal")
    #expect(try !journal.isEmpty && Catalog(path: path).loadAll().map(\.id) == [delivered(1).id])
  }

  @Test(.promises("S45f")) func aCopyThatIsDamagedToo_standsInForNothing() throws {
    try folder.write(Array(repeating: 7, count: 5000), to: "catalog.backup.sqlite")
    #expect(try Catalog(path: path).loadAll().isEmpty)
    unlink(path)
    unlink(StateCopies.path(of: path))
    #expect(mkfifo(StateCopies.path(of: path), 0o600) == 0)
    #expect(try Catalog(path: path).loadAll().isEmpty)
  }

  @Test func damagedDatabasesThatAreKeptAreFew() throws {
    for _ in 1...12 {
      try folder.write(Array(repeating: 7, count: 5000), to: "catalog.sqlite")
      try Catalog(path: path).close()
    }
    #expect(folder.names().filter { $0.contains(".damaged-") }.count == 10)
  }

  @Test func missingTablesAreDamage() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    catalog.close()
    try sql("DROP TABLE file")
    let reopened = try Catalog(path: path)
    #expect(reopened.openedDamaged != nil)
    try reopened.upsert([delivered(1)])
  }

  @Test func moreEntriesThanAPageAreAllRead_alsoPastIdentitiesThatAreNone() throws {
    let catalog = try Catalog(path: path)
    let entries = (UInt64(1)...5000).map { entry($0) }
    try catalog.upsert(entries)
    catalog.close()
    try sql("UPDATE file SET id = substr(id, 1, 15) || x'00' || substr(id, 16) WHERE inode BETWEEN 1 AND 3000")
    try sql("UPDATE file SET id = 'a text' WHERE inode = 4000")
    let reopened = try Catalog(path: path)
    #expect(try sorted(reopened.loadAll()) == entries.filter { $0.inode > 3000 && $0.inode != 4000 })
  }

  @Test func identitiesAreOfTheFilesInTheSpool_andOfTheYoungestThatHasANumber() throws {
    let catalog = try Catalog(path: path)
    var older = entry(6)
    older.inode = 7
    try catalog.upsert([delivered(1), entry(2, .failed), entry(3, .evicted), entry(4, .removed), older, entry(7)])
    let expected = Dictionary(uniqueKeysWithValues: [1, 2, 7].map { ($0, FileID(high: 7, low: $0)) })
    let recorded = try catalog.recordedFiles()
    #expect(recorded.byNumber == KnownIdentities(expected))
    #expect(recorded.files == [1, 2, 6, 7].map { FileID(high: 7, low: $0) } && recorded.damage == nil)
  }

  @Test func whatIsNoIdentityOrNumber_isLeftOut_whenTheyAreRead() throws {
    try Catalog(path: path).upsert([delivered(1), entry(2), entry(3), entry(4)])
    try sql("UPDATE file SET id = 'a text, 16 bytes' WHERE inode = 1")
    try sql("UPDATE file SET id = x'00' WHERE inode = 2")
    try sql("UPDATE file SET inode = 'three' WHERE inode = 3")
    let recorded = try Catalog(path: path).recordedFiles()
    #expect(recorded.files == [3, 4].map { FileID(high: 7, low: $0) })
    #expect(recorded.byNumber == KnownIdentities([4: FileID(high: 7, low: 4)]))
  }

  @Test func rowsAreListedInTheOrderOfTheirIdentities() throws {
    let catalog = try Catalog(path: path)
    let entries = [delivered(1), entry(2, .failed), entry(3, .evicted), entry(4)]
    try catalog.upsert(entries.reversed())
    let rows = entries.map { ListedRow(id: $0.id, path: $0.path, sizeBytes: $0.sizeBytes, state: $0.state) }
    let first = try catalog.listed(after: StatusPage.first, countMax: 3)
    #expect(first.rows == Array(rows[..<3]) && first.last == rows[2].id)
    let second = try catalog.listed(after: rows[2].id, countMax: 3)
    #expect(second.rows == [rows[3]] && second.last == nil)
    #expect(try catalog.listed(after: rows[3].id, countMax: 3) == ListedRows())
  }

  /// Regression: the list ended with the rows among which one could not be understood.
  @Test func rowThatCannotBeUnderstood_endsNoList() throws {
    try Catalog(path: path).upsert([entry(1), entry(2), entry(3), entry(4), entry(5), entry(6)])
    try sql("UPDATE file SET state = 'unheard of' WHERE inode IN (2, 3)")
    try sql("UPDATE file SET id = substr(id, 1, 15) || x'0000' WHERE inode = 4")
    let catalog = try Catalog(path: path)
    let first = try catalog.listed(after: StatusPage.first, countMax: 3)
    #expect(first.rows.map(\.id) == [FileID(high: 7, low: 1)] && first.last == FileID(high: 7, low: 3))
    let second = try catalog.listed(after: FileID(high: 7, low: 3), countMax: 3)
    #expect(second.rows.map(\.id) == [5, 6].map { FileID(high: 7, low: $0) } && second.last == nil)
  }

  /// A start reads of the others what they are once they are met.
  @Test func filesOfWhichAServerHasParts_areReadAtOnce_andOfTheOthersTheirIdentities() throws {
    var parts = entry(2, .failed)
    parts.failureCode = FileUpload.partsAtServerCode
    var pointing = entry(3)
    pointing.pointer = SessionPointer(
      chunkBytes: 1, sessionID: "s", nonce: [1], address: "https://vault", credentialMark: "")
    var doubtful = entry(4)
    doubtful.doubt = .lostInWriteBack(errno: 5, 10..<20)
    let catalog = try Catalog(path: path)
    #expect(try catalog.entriesWithPartsElsewhere().hasDeliveries == false)
    try catalog.upsert([delivered(1), parts, pointing, doubtful, entry(5, .removed), entry(6, .evicted)])
    let known = try catalog.entriesWithPartsElsewhere()
    #expect(sorted(known.entries) == [parts, pointing] && known.hasDeliveries)
    #expect(known.former.sorted() == [5, 6].map { FileID(high: 7, low: $0) })
  }

  @Test(.promises("S79c")) func whatIsDoubtfulIsKnownByItsName() throws {
    let catalog = try Catalog(path: path)
    #expect(catalog.isAnew)
    var (doubtful, pointing) = (entry(2), entry(3))
    doubtful.doubt = .mountDied
    pointing.pointer = SessionPointer(chunkBytes: 1, sessionID: "s", nonce: [], address: "", credentialMark: nil)
    // Of two that had a name, one of which is gone by now, the doubtful one counts.
    var namesake = entry(4)
    namesake.path = doubtful.path
    try catalog.upsert([delivered(1), doubtful, pointing, namesake, entry(5, .removed)])
    #expect(try Set(catalog.known(onlyDoubtful: true).keys) == [doubtful.path, pointing.path])
    let all = try catalog.known(onlyDoubtful: false)
    #expect(all.count == 3 && all[doubtful.path]?.doubt == .mountDied)
    #expect(try catalog.known(pointing.id)?.pointer == pointing.pointer)
    #expect(try catalog.known(FileID(high: 7, low: 5)) == nil, "it is gone")
    catalog.close()
    // What a later version doubts for another reason is doubtful.
    try sql("UPDATE file SET doubt = 'for another reason' WHERE inode = 2")
    let reopened = try Catalog(path: path)
    #expect(try reopened.known(doubtful.id)?.doubt == .unproven && !reopened.isAnew)
  }

  /// From the moment before a delivered file changes.
  @Test(.promises("S79c")) func aFileThatChangesIsDoubtful() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    try catalog.markChanged(delivered(1).id)
    #expect(try catalog.known(delivered(1).id)?.doubt == .mountDied)
  }

  @Test(.promises("S79j")) func rowsAreOfWhatTheDiskHas_upToTheRoundThatHasEnded() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    let first = try #require(try catalog.beginDiskRound(endingThat: nil))
    #expect(try first.isOfNewRows && catalog.known(delivered(1).id)?.isOnDisk == false)
    // No later row gets the number of one that is gone.
    try catalog.remove([delivered(1).id])
    try catalog.upsert([entry(2)])
    let second = try #require(try catalog.beginDiskRound(endingThat: first.number))
    #expect(try second.isOfNewRows && catalog.known(entry(2).id)?.isOnDisk == false)
    #expect(try catalog.beginDiskRound(endingThat: second.number)?.isOfNewRows == false)
    catalog.close()
    let reopened = try Catalog(path: path)
    #expect(try reopened.known(onlyDoubtful: false)[entry(2).path]?.isOnDisk == true)
    try reopened.upsert([entry(2)])
    #expect(try reopened.known(entry(2).id)?.isOnDisk == false)
  }

  @Test(.promises("S79j")) func rowsSayInWhichInstanceOfTheFilesystemTheyWereRecorded_ofTheLastOneAlone() throws {
    var catalog = try Catalog(path: path)
    try catalog.upsert([entry(1)])
    try catalog.begin(in: "boot.s1")
    try catalog.upsert([entry(2)])
    func instances() throws -> [String?] { try (1...3).map { try catalog.known(entry($0).id)?.recordedIn } }
    #expect(try instances() == [nil, "boot.s1", nil])
    catalog.close()
    catalog = try Catalog(path: path)
    #expect(try instances() == [nil, "boot.s1", nil], "a start that looks finds it")
    try catalog.begin(in: "boot.s1")
    try catalog.upsert([entry(3)])
    #expect(try instances() == [nil, "boot.s1", "boot.s1"])
    try catalog.begin(in: "boot.s2")
    #expect(try instances() == [nil, nil, nil], "what was recorded before is not of this one")
    try catalog.upsert([entry(3)])
    #expect(
      try instances() == [nil, nil, "boot.s2"]
        && catalog.known(onlyDoubtful: false)[entry(3).path]?.recordedIn == "boot.s2")
    // Another database may have taken its place.
    catalog.close()
    try sql("UPDATE disk SET instance = 'boot.s1'")
    catalog = try Catalog(path: path)
    #expect(try instances() == [nil, nil, "boot.s1"])
    _ = try catalog.beginDiskRound(endingThat: nil)
    #expect(try instances() == [nil, nil, nil])
  }

  /// Regression (lives, 806854960): a capture that had come back from a backup to the place of a younger one was taken for that one in a copy
  /// without attributes.
  @Test(.promises("S79c")) func ofSeveralUnderOneName_theOneThatWasRecordedLastCounts() throws {
    let catalog = try Catalog(path: path)
    var first = delivered(1)
    let second = delivered(2)
    first.path = second.path
    try catalog.upsert([first, second])
    #expect(try catalog.known(onlyDoubtful: false)[second.path]?.id == second.id)
    try catalog.upsert([first])
    #expect(try catalog.known(onlyDoubtful: false)[second.path]?.id == first.id)
  }

  /// Regression, found by the simulation (bare-copies, seed 49000006504): a copy of a spool took what a power cut had left for what had been
  /// delivered, because the row of that was written after the cut.
  @Test(.promises("S79j")) func aRowOfADeliveryOfWhichTheDiskMayHaveLess_provesNothing() throws {
    let catalog = try Catalog(path: path)
    try catalog.begin(in: "boot.s1")
    var remains = delivered(1)
    remains.failureCode = FileUpload.remainsCode
    for (entry, isProven) in [(remains, false), (delivered(1), true)] {
      try catalog.upsert([entry])
      #expect(try (catalog.known(entry.id)?.recordedIn == "boot.s1") == isProven)
      let round = try #require(try catalog.beginDiskRound(endingThat: nil))
      _ = try catalog.beginDiskRound(endingThat: round.number)
      #expect(try catalog.known(entry.id)?.isOnDisk == isProven)
    }
  }

  @Test(.promises("S79f")) func theRowsOfAnEarlierVersion_areOfWhatTheDiskHas() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    catalog.close()
    try sql("DROP TABLE disk; DELETE FROM grdb_migrations WHERE identifier = '12'")
    #expect(try Catalog(path: path).known(delivered(1).id)?.isOnDisk == true)
  }

  @Test func rowsThatMakeNoSenseAreSkipped() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1), delivered(2), delivered(3), delivered(4)])
    catalog.close()
    try sql("UPDATE file SET state = 'nonsense' WHERE inode = 1")
    try sql("UPDATE file SET size = 'much' WHERE inode = 2")
    try sql("UPDATE file SET receipt_name = x'ff00' WHERE receipt_id = 'r3'")
    let reopened = try Catalog(path: path)
    let entries = try sorted(reopened.loadAll())
    #expect(entries.map(\.id.low) == [3, 4])
    #expect(entries.map(\.state) == [.pending, .complete])
  }

  @Test func theCatalogOfTheFirstVersion_isTakenOver() throws {
    let database = try DatabaseQueue(path: path)
    try CatalogSchema.migrator.migrate(database, upTo: "1")
    let id = "x'00000000000000070000000000000001'"
    try database.write {
      try $0.execute(
        sql: """
          INSERT INTO file VALUES (\(id), x'ff0a22', 1, 10, 5, 1, 'complete', NULL, NULL, 1700000000456, NULL, NULL, 1);
          INSERT INTO file VALUES (x'00000000000000070000000000000002', x'62', 2, 10, 5, 1, 'pending', NULL, NULL, NULL,
            NULL, NULL, 2);
          INSERT INTO published VALUES (\(id), 1, x'ff61');
          INSERT INTO published VALUES (\(id), 0, x'62fe63');
          INSERT INTO receipt VALUES (\(id), 'r1', 'scän.mov', -1, 'aa', 'bb', 1700000000123);
          """)
    }
    try database.close()
    let catalog = try Catalog(path: path)
    #expect(catalog.openedDamaged == nil)
    let entries = try sorted(catalog.loadAll())
    var expected = delivered(1)
    expected.path = RelativePath(bytes: [0xff, 0x0a, 0x22])
    expected.publishedPaths = [RelativePath(bytes: [0x62, 0xfe, 0x63]), RelativePath(bytes: [0xff, 0x61])]
    expected.receipt?.fileID = nil
    expected.receipt?.chunkBytes = nil
    expected.receipt?.durationMilliseconds = nil
    #expect(entries.first == expected)
    #expect(entries.map(\.state) == [.complete, .pending])
    #expect(try catalog.publications(named: "scän.mov").last?.receiptID == "r1")
  }

  /// Versions up to 10 did not record it; rows of captures say it where they have one path.
  @Test(.promises("DE138a")) func forWhichPathSomethingWasPublished_isTakenOver() throws {
    let catalog = try Catalog(path: path)
    let files: [(path: String, name: String, called: String?)] = [
      ("x", "x", "x"), ("d/y", "all/y-2", nil), ("é", "prefix/é", nil), ("root/z", "cap/z", nil), ("two", "two", nil),
      ("gone", "gone", nil),
    ]
    for (number, (path, name, _)) in files.enumerated() {
      var entry = delivered(UInt64(number) + 1)
      (entry.path, entry.publishedPaths) = (RelativePath(path), [RelativePath(path)])
      if path == "two" { entry.publishedPaths.append(RelativePath("link")) }
      entry.receipt?.name = name
      let publication = EarlierPublication(fileID: entry.id, merkleRoot: "aa", sizeBytes: .max, chunkBytes: 8)
      try catalog.write(
        path == "gone" ? [] : [entry], removing: [],
        publications: .init(published: [.init(name: name, publication: publication)]))
    }
    catalog.close()
    try sql("DROP INDEX publication_path; DROP TABLE names_mark")
    for column in ["path", "called", "modified_ns"] {
      try sql("ALTER TABLE publication DROP COLUMN \(column); ALTER TABLE intent DROP COLUMN \(column)")
    }
    try sql("ALTER TABLE publication DROP COLUMN published_ms; ALTER TABLE publication DROP COLUMN receipt_id")
    try sql("DELETE FROM grdb_migrations WHERE identifier = '11'")
    let later = try Catalog(path: path)
    for (path, name, called) in files {
      let origin = try later.publications(named: name).last?.origin
      let isKnown = path != "two" && path != "gone"
      #expect(origin?.path.displayText == (isKnown ? path : nil) && origin?.name?.displayText == called, "\(name)")
    }
    #expect(try later.former(at: RelativePath("d/y"), named: nil)?.name == "all/y-2")
    #expect(try later.former(at: RelativePath("é"), named: "prefix/é")?.name == "prefix/é")
    #expect(try later.former(at: RelativePath("x"), named: "x")?.publishedAtMilliseconds == 1_700_000_000_123)
    // Of the others the name says it where no template has ever given names. Nothing is known to be newer than them.
    let gone = RelativePath("gone")
    #expect(try later.former(at: gone, named: "gone") == nil)
    let former = try #require(try later.former(at: gone, named: "gone", areNamesPaths: true))
    #expect(former.origin == PublicationOrigin(path: gone, name: gone, modifiedNanoseconds: .max))
  }

  enum Forgetting: CaseIterable { case removal, newContent, eviction }

  /// Regression: the time that was set after a delivery was forgotten with the capture, and an older content that was put back, of a time
  /// between the two, replaced it.
  @Test(.promises("S80f"), arguments: Forgetting.allCases)
  func theTimeThatWasSetAfterADelivery_outlivesTheCapture(forgetting: Forgetting) throws {
    let catalog = try Catalog(path: path)
    var entry = delivered(1)
    let path = RelativePath("a")
    (entry.path, entry.publishedPaths, entry.modifiedNanoseconds) = (path, [path], 5)
    entry.receipt?.name = "a"
    let origin = PublicationOrigin(path: path, name: path, modifiedNanoseconds: 2)
    let publication = EarlierPublication(
      fileID: entry.id, merkleRoot: "aa", sizeBytes: .max, chunkBytes: 8, origin: origin)
    try catalog.write(
      [entry], removing: [], publications: .init(published: [.init(name: "a", publication: publication)]))
    switch forgetting {
    case .removal: try catalog.remove([entry.id])
    case .newContent: try catalog.markChanged(entry.id)
    case .eviction:
      entry.state = .evicted
      try catalog.upsert([entry])
    }
    #expect(try catalog.former(at: path, named: "a")?.origin.modifiedNanoseconds == 5)
  }

  /// Found by a life (661654413): a capture that was saved in the place of one of which a server alone had told, and whose mount was killed
  /// before that was recorded, was held as older.
  @Test(.promises("S80f")) func ofWhatAServerAloneHasToldOf_theCaptureSaysTheTime_asLongAsItIsDelivered() throws {
    let catalog = try Catalog(path: path)
    var entry = delivered(1)
    let path = RelativePath("a")
    (entry.path, entry.publishedPaths, entry.modifiedNanoseconds) = (path, [path], 5)
    entry.receipt?.name = "a"
    let publication = EarlierPublication(fileID: entry.id, merkleRoot: "aa", sizeBytes: .max, chunkBytes: 8)
    try catalog.write(
      [entry], removing: [], publications: .init(published: [.init(name: "a", publication: publication)]))
    func time() throws -> Int64? {
      try catalog.former(at: path, named: "a", areNamesPaths: true)?.origin.modifiedNanoseconds
    }
    #expect(try time() == 5)
    // What a copy of the catalog says may have been changed since.
    entry.modifiedNanoseconds = .min
    try catalog.upsert([entry])
    #expect(try time() == .max)
    entry.modifiedNanoseconds = 5
    try catalog.upsert([entry])
    try catalog.markChanged(entry.id)
    #expect(try time() == .max)
  }

  /// Version 9 knew the length of the chunks from the publication alone.
  @Test func theLengthOfTheChunks_isTakenOver() throws {
    let catalog = try Catalog(path: path)
    var publication = EarlierPublication(
      fileID: delivered(1).id, merkleRoot: "aa", sizeBytes: .max, chunkBytes: 8)
    let notes = PublicationNotes(published: [.init(name: "scän.mov", publication: publication)])
    try catalog.write([delivered(1)], removing: [], publications: notes)
    publication.merkleRoot = "other"
    var other = delivered(2)
    other.receipt?.name = "other"
    try catalog.write(
      [other], removing: [], publications: .init(published: [.init(name: "other", publication: publication)]))
    catalog.close()
    try sql("ALTER TABLE file DROP COLUMN receipt_chunk; ALTER TABLE file DROP COLUMN upload_ms")
    try sql("DELETE FROM grdb_migrations WHERE identifier = '10'")
    let entries = try sorted(Catalog(path: path).loadAll())
    #expect(entries.map { $0.receipt?.chunkBytes } == [8, nil])
  }

  /// A file of which one name is delivered and another is still to be.
  @Test func markChanged_takesTheReceiptOfAPendingEntry() throws {
    var entry = delivered(1)
    entry.state = .pending
    let catalog = try Catalog(path: path)
    try catalog.upsert([entry])
    try catalog.markChanged(entry.id)
    #expect(try catalog.loadAll().first?.receipt == nil)
    #expect(try catalog.loadAll().first?.publishedPaths == [])
  }

  /// Also of a file that is on its way, and where an earlier version did not say which session it has.
  @Test(.promises("S40n"), arguments: ["s", nil, ""])
  func aFileThatChanges_hasNoSessionThatCounts(session: String?) throws {
    var entry = entry(1)
    entry.session = session
    let catalog = try Catalog(path: path)
    try catalog.upsert([entry])
    try catalog.markChanged(entry.id)
    let changed = try #require(catalog.loadAll().first)
    #expect(changed.session == "" && changed.doubt == (session == "" ? nil : .mountDied))
  }

  @Test func aNewerVersionsCatalogIsLeftAlone() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([delivered(1)])
    catalog.close()
    try sql("INSERT INTO grdb_migrations (identifier) VALUES ('99')")
    let error = #expect(throws: StorageError.self) { _ = try Catalog(path: path) }
    #expect(error?.kind == .newerVersion)
    #expect(folder.names().contains("catalog.sqlite") && !folder.names().contains { $0.contains("damaged") })
  }

  @Test func aVersionThatIsNoneIsDamage() throws {
    try Catalog(path: path).close()
    try sql("INSERT INTO grdb_migrations (identifier) VALUES ('q')")
    let reopened = try Catalog(path: path)
    #expect(reopened.openedDamaged != nil)
    try reopened.upsert([delivered(1)])
  }

  @Test func anotherProgramsDatabaseIsMovedAside() throws {
    try sql("CREATE TABLE file (name TEXT); INSERT INTO file VALUES ('mine')")
    let catalog = try Catalog(path: path)
    #expect(catalog.openedDamaged?.contains("damaged-1") == true)
    try catalog.upsert([delivered(1)])
    #expect(try catalog.loadAll() == [delivered(1)])
  }

  @Test func entriesAndRemovalsAreOneTransaction() throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert([entry(1), entry(2)])
    try catalog.write([delivered(3)], removing: [entry(1).id])
    #expect(try sorted(catalog.loadAll()) == [entry(2), delivered(3)])
    try catalog.write([], removing: [])
  }

  @Test func damageWhileInUseCostsTheCatalogAndNotItsUse() throws {
    let catalog = try Catalog(path: path)
    // More than SQLite keeps in memory.
    try catalog.upsert((0..<20_000).map { delivered($0) })
    for name in ["catalog.sqlite", "catalog.sqlite-open", "catalog.sqlite-wal"] {
      let size = try folder.read(name).count
      try folder.write(Array(repeating: 0x55, count: size), to: name)
    }
    try catalog.upsert((0..<5).map { entry($0 * 4000, .failed) })
    let entries = try catalog.loadAll()
    let failed: [UInt64] = entries.filter { $0.state == .failed }.map(\.id.low).sorted()
    #expect(failed == [0, 4000, 8000, 12000, 16000])
    let warning = try #require(catalog.openedDamaged)
    #expect(warning.contains("damaged-1"))
    #expect(catalog.takeDamage() == warning && catalog.takeDamage() == nil)
    catalog.close()
    let reopened = try Catalog(path: path)
    #expect(reopened.openedDamaged == nil)
    #expect(try reopened.loadAll().count == entries.count)
  }

  @Test func aMissingFolderIsAnErrorAndNotDamage() throws {
    let error = #expect(throws: StorageError.self) { _ = try Catalog(path: folder("none/catalog.sqlite")) }
    #expect(error?.kind != .damaged)
  }

  @Test(arguments: 0..<40)
  func aCatalogWithFlippedBytesStillOpensAndWorks(seed: UInt64) throws {
    let catalog = try Catalog(path: path)
    try catalog.upsert((0..<200).map { delivered($0) })
    catalog.close()
    var generator = SplitMix(seed: seed)
    var bytes = try folder.read("catalog.sqlite")
    for _ in 0..<Int.random(in: 1...40, using: &generator) {
      let position = Int.random(in: 0..<bytes.count, using: &generator)
      bytes[position] = UInt8.random(in: 0...255, using: &generator)
    }
    if seed.isMultiple(of: 5) { bytes.removeLast(Int.random(in: 1..<bytes.count, using: &generator)) }
    try folder.write(bytes, to: "catalog.sqlite")
    do {
      let reopened = try Catalog(path: path)
      let entries = try reopened.loadAll()
      #expect(entries.count <= 201, "seed \(seed)")
      #expect(entries.allSatisfy { $0.state != .complete || $0.receipt != nil }, "seed \(seed)")
      try reopened.upsert([delivered(1000)])
    } catch {
      // A flipped byte may turn the version of the schema into another one; anything else must not stop a mount.
      #expect(error.kind == .newerVersion, "seed \(seed): \(error)")
    }
  }

  private func sql(_ statement: String) throws {
    let queue = try DatabaseQueue(path: path)
    try queue.write { try $0.execute(sql: statement) }
    try queue.close()
  }
}

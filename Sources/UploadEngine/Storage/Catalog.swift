public import FileModel
import Foundation
import GRDB
import Lookup
import Synchronization
package import TransferModel

/// What is known of every file beyond the spool itself: which content was delivered under which name, with which
/// receipt. SQLite; every change is durable when the call returns.
///
/// Blocking; calls from several threads queue up behind one connection. It can be rebuilt: without it every file in the
/// spool counts as not delivered yet.
public final class Catalog: Sendable {
  /// Entries of files that are gone from the spool which are kept as history.
  static let historyMax = 10_000

  private struct State {
    /// Used under the lock only.
    var connection: StateConnection
    var damage: String?
    /// Its copy stood in for it, or could not.
    var hasTriedCopy = false
    var isClosed = false
    /// That of the spool's filesystem.
    var instance: String?
  }

  private let state: Mutex<State>
  private let changes = Atomic<UInt64>(0)
  /// Damage that was not reported yet. Behind a lock of its own: the other one is held while the disk is asked.
  private let unsaidDamage: Mutex<String?>
  let path: String
  /// There was none at the start.
  private let wasMissing: Bool
  private let wasAnew: Bool

  /// Opens the database or makes one. A damaged one is moved aside, to `PATH.damaged-N`. What may pass, as a disk that refuses
  /// something, is tried for so long before it is an error.
  /// Where the disk is full, the room is given to it.
  ///
  /// `wasAnew`: an earlier opening of this start found that what was known is lost, or never was.
  public init(
    path: String, room: StateRoom? = nil, patience: StartupTimeout = .none, wasAnew: Bool = false
  ) throws(StorageError) {
    self.path = path
    self.wasAnew = wasAnew
    wasMissing = access(path, F_OK) != 0 && errno == ENOENT
    let isOlder = LogMarker.findsLoss(of: path)
    let laterCopy = isOlder && Self.isCopyLater(of: path) ? Self.restoredCopy(of: path) : nil
    var state = State(
      connection: StateConnection(path: path, room: room) { database, opening in
        try Self.prepare(database, opening, path)
        if isOlder, laterCopy == nil, opening == .first { try Self.doubtDeliveries(database) }
      })
    if isOlder {
      state.damage =
        "the catalog \(quoted(path)) has lost its log, \(quoted(path + "-wal")), in which stood what was recorded last: "
      if let laterCopy {
        let aside = try StateDatabase.moveAside(path)
        state.hasTriedCopy = true
        let standsIn = Self.adopt(laterCopy, as: path)
        state.damage? += "it is kept as \(quoted(aside)), and " + (standsIn ? Self.standInWords : Self.newOneWords)
      } else {
        state.damage? += Self.olderWords
      }
    } else if wasMissing {
      // The journal of the one that is gone would be applied to what takes its place.
      if access(path + "-wal", F_OK) == 0 { _ = try StateDatabase.moveAside(path) }
      state.hasTriedCopy = true
      if Self.standIn(for: path) { state.damage = "the catalog \(quoted(path)) was missing; \(Self.standInWords)" }
    } else if StateDatabase.isBare(path) {
      // To SQLite it is a new one.
      let aside = try StateDatabase.moveAside(path)
      state.hasTriedCopy = true
      state.damage =
        "the catalog \(quoted(path)) was empty; it is kept as \(quoted(aside)), and "
        + (Self.standIn(for: path) ? Self.standInWords : Self.newOneWords)
    }
    try Self.withUsableFile(&state, path, isInUse: false) { try $0.open(patience: patience) }
    if isOlder { LogMarker.settle(path) }
    unsaidDamage = Mutex(state.damage)
    self.state = Mutex(state)
  }

  /// One that is on no disk, for a simulation of disks.
  package static func inMemory() throws(StorageError) -> Catalog { try Catalog(path: StateDatabase.inMemory) }

  /// A sentence for people when the database was damaged, or was missing beside its copy, and another one is in its place, since the
  /// start or later; nil when all is well.
  public var openedDamaged: String? { state.withLock { $0.damage } }

  /// The same, on demand, once for each time that it was found. Waits for no disk.
  func takeDamage() -> String? { unsaidDamage.withLock { $0.take() } }

  /// Every entry, in no order. Others may use the catalog meanwhile: it is read page by page.
  public func loadAll() throws(StorageError) -> [CatalogEntry] {
    var entries: [CatalogEntry] = []
    var next: CatalogRows.PageStart? = .first
    while let start = next {
      let page = try page(from: start)
      entries += page.entries
      next = page.next
    }
    return entries
  }

  /// Likewise, without having all of them in memory.
  func forEachPage(_ body: ([CatalogEntry]) throws -> Void) throws {
    var next: CatalogRows.PageStart? = .first
    while let start = next {
      let page = try page(from: start)
      try body(page.entries)
      next = page.next
    }
  }

  private func page(
    from start: CatalogRows.PageStart
  ) throws(StorageError) -> (entries: [CatalogEntry], next: CatalogRows.PageStart?) {
    try use { try $0.read { try CatalogRows.page(from: start, $0) } }
  }

  /// Entries of files of which a server has parts, and the files that are gone from the spool; of these and of all others it is read what
  /// they are once they are met.
  func entriesWithPartsElsewhere() throws(StorageError) -> (
    entries: [CatalogEntry], former: [FileID], hasDeliveries: Bool
  ) {
    try use { try $0.read { try CatalogRows.withPartsElsewhere($0) } }
  }

  /// The files that were in the spool: all that has to be known of them before the mount is there.
  func recordedFiles() throws(StorageError) -> RecordedFiles {
    var recorded = try use { try $0.unsafeRead { try CatalogRows.recordedFiles($0) } }
    recorded.damage = openedDamaged
    return recorded
  }

  /// What was known is lost, or never was.
  public var isAnew: Bool { wasAnew || wasMissing || openedDamaged != nil }

  /// What is known of files that may be in the spool, by their names: of all, or of those that were not whole.
  public func known(onlyDoubtful: Bool) throws(StorageError) -> [RelativePath: KnownCapture] {
    try use { try $0.read { try CatalogRows.known(onlyDoubtful: onlyDoubtful, $0) } }
  }

  /// What is known of one file that may be in the spool.
  public func known(_ id: FileID) throws(StorageError) -> KnownCapture? {
    try use { try $0.read { try CatalogRows.known(id, $0) } }
  }

  /// What is known of one file; nil where nothing is.
  func entry(_ id: FileID) throws(StorageError) -> CatalogEntry? {
    try use { try $0.unsafeRead { try CatalogRows.entry(id, $0) } }
  }

  /// The first rows after an identity, in the order of these, without what only the whole row says.
  func listed(after id: FileID, countMax: Int) throws(StorageError) -> ListedRows {
    try use { try $0.unsafeRead { try CatalogRows.listed(after: id, countMax: countMax, $0) } }
  }

  /// Inserts or replaces entries, all of them or none. The oldest history beyond 10,000 files is dropped.
  public func upsert(_ entries: [CatalogEntry]) throws(StorageError) {
    try write(entries, removing: [])
  }

  /// Inserts or replaces entries and forgets files, all or none, with one sync of the disk.
  public func write(_ entries: [CatalogEntry], removing ids: [FileID]) throws(StorageError) {
    try write(entries, removing: ids, publications: PublicationNotes())
  }

  /// Likewise, and notes what was published under which names, and which sessions are to be ended, or no longer (nil).
  func write(
    _ entries: [CatalogEntry], removing ids: [FileID], publications: PublicationNotes,
    discarded: LookupTable<String, DiscardedSession?> = [:]
  ) throws(StorageError) {
    guard !entries.isEmpty || !ids.isEmpty || !publications.isEmpty || !discarded.isEmpty else { return }
    try write { database in
      try CatalogRows.note(discarded, database)
      try CatalogRows.note(publications, database)
      for entry in entries { try CatalogRows.upsert(entry, database) }
      for id in ids { try CatalogRows.remove(id, database) }
      if entries.contains(where: { $0.state.isHistory }) {
        try CatalogRows.pruneHistory(database, keeping: Self.historyMax)
      }
    }
  }

  /// What this spool has published under a name, and what it may have.
  func publications(named name: String) throws(StorageError) -> RecordedPublications {
    // Asked for each capture, and always behind the one connection: a transaction would cost more than the question.
    try use { try $0.unsafeRead { try CatalogRows.publications(named: name, $0) } }
  }

  /// The names of which anything is known, some more than once; nil where there are more than so many.
  func publishedNames(countMax: Int) throws(StorageError) -> [[UInt8]]? {
    try use { try $0.read { try CatalogRows.publishedNames(countMax: countMax, $0) } }
  }

  /// Calls back with the names under which something was published, some at a time.
  func forEachGivenName(_ body: ([GivenName]) throws -> Void) throws {
    var next: String? = ""
    while let last = next {
      let page = try use { try $0.read { try CatalogRows.givenNames(after: last, $0) } }
      try body(page.names)
      next = page.next
    }
  }

  /// What was published last at a path, under this name or under one that a template gave; nil where nothing was.
  func former(
    at path: RelativePath, named name: String?, areNamesPaths: Bool = false
  ) throws(StorageError) -> FormerPublication? {
    try use { try $0.read { try CatalogRows.former(at: path, named: name, areNamesPaths: areNamesPaths, $0) } }
  }

  /// For which captures something was published, or may have been, from where, and what they were called there.
  package func givenNames() throws -> [(file: FileID, origin: PublicationOrigin)] {
    var given: [(file: FileID, origin: PublicationOrigin)] = []
    try forEachGivenName { names in
      given += names.compactMap { name in name.origin.map { (name.file, $0) } }
    }
    return given
  }

  /// The start of the names' record that knew all names of this catalog; nil where none did.
  func namesMark() throws(StorageError) -> Data? { try use { try $0.read { try CatalogRows.namesMark($0) } } }

  /// The names' record knows all names of this catalog from this start on. For which paths some were given it had to say.
  func setNamesMark(_ mark: Data, paths: [(name: String, path: RelativePath)]) throws(StorageError) {
    try write { database in
      try CatalogRows.setPaths(paths, database)
      try CatalogRows.setNamesMark(mark, database)
    }
  }

  /// Notes what is about to be published, under numbers beyond `last`. Outlives the process, and a power cut only once something else
  /// has been written: requests wait for it, so it waits for no sync.
  func begin(_ intents: [PublicationIntent], after last: Int64) throws(StorageError) -> [RecordedIntent] {
    changes.add(1, ordering: .relaxed)
    return try withConnection { connection in
      try connection.writeUnsynced { try CatalogRows.begin(intents, after: last, $0) }
    }
  }

  /// What is recorded from now on is of contents that the spool's filesystem has in this instance, if its disk does not have them yet. That
  /// a round has not said so doubts more.
  func begin(in instance: String?) throws(StorageError) {
    state.withLock { $0.instance = instance }
    try withConnection { connection in
      try connection.writeUnsynced { try CatalogRows.noteInstance(instance, $0) }
    }
  }

  /// Begins a round of the rows that there are now (``DiskRounds``); the rows of the one that has ended are of contents that the spool's
  /// disk has. Outlives the process, and a power cut only once something else has been written: what is lost of it doubts more.
  func beginDiskRound(endingThat number: Int64?) throws(StorageError) -> CatalogRound? {
    changes.add(1, ordering: .relaxed)
    let instance = state.withLock { $0.instance }
    return try withConnection { connection in
      try connection.writeUnsynced { database in
        // Another database may have taken the place of a damaged one.
        try CatalogRows.noteInstance(instance, database)
        return try CatalogRows.beginDiskRound(endingThat: number, database)
      }
    }
  }

  /// States that the delivered content is no longer the file's: the state becomes pending, receipt and published names
  /// are gone. A file that is not known, or is pending already, costs no write.
  ///
  /// Called on a filesystem thread before the file is changed.
  public func markChanged(_ id: FileID) throws(StorageError) {
    try write { try CatalogRows.markChanged(id, $0) }
  }

  /// Forgets files.
  public func remove(_ ids: [FileID]) throws(StorageError) {
    try write([], removing: ids)
  }

  /// Notes sessions that began at a time (seconds since 1970), and forgets those without one: they have ended.
  func note(sessions: LookupTable<String, Int64?>) throws(StorageError) {
    try write { try CatalogRows.note(sessions, $0) }
  }

  /// Sessions that began before a time (seconds since 1970) and of which no end is known, the oldest first.
  func sessions(begunBefore seconds: Int64, countMax: Int) throws(StorageError) -> [String] {
    try use { try $0.read { try CatalogRows.sessions(begunBefore: seconds, countMax: countMax, $0) } }
  }

  /// Sessions that are to be ended at the server.
  func discardedSessions() throws(StorageError) -> [DiscardedSession] {
    try use { try $0.read { try CatalogRows.discardedSessions($0) } }
  }

  /// A setting of the connection, in SQLite's own words.
  func setting(_ name: String) throws(StorageError) -> String? {
    try use { try $0.read { try String.fetchOne($0, sql: "PRAGMA \(name)") } }
  }

  /// Closes the database; every later call throws ``StorageError/Kind/closed``. Everything in it is durable already.
  public func close() {
    state.withLock { state in
      state.connection.drop()
      state.isClosed = true
    }
  }

  private func write(_ body: (Database) throws -> Void) throws(StorageError) {
    // Counted in any case: a change may be there although it was said to have failed.
    changes.add(1, ordering: .relaxed)
    try use { try $0.write(body) }
  }

  private func use<Result: Sendable>(_ body: (DatabaseQueue) throws -> Result) throws(StorageError) -> Result {
    try withConnection { try $0.use(body) }
  }

  private func withConnection<Result: Sendable>(
    _ body: (inout StateConnection) throws -> Result
  ) throws(StorageError) -> Result {
    try state.withLock { state throws(StorageError) in
      guard !state.isClosed else { throw StorageError(.closed, "the catalog \(quoted(path)) has been closed") }
      let known = state.damage
      defer { if state.damage != known { unsaidDamage.withLock { $0 = state.damage } } }
      return try Self.withUsableFile(&state, path, isInUse: true, body)
    }
  }
}

/// The files of the spool of which there were rows at the start.
struct RecordedFiles: Sendable {
  /// In order.
  var files: [FileID] = []
  /// Those of which the inode numbers are known.
  var byNumber = KnownIdentities()
  /// What was wrong with the catalog by then (``Catalog/openedDamaged``).
  var damage: String?
}

/// Some rows of a list of all files.
struct ListedRows: Hashable, Sendable {
  /// Those that can be understood, in the order of their identities.
  var rows: [ListedRow] = []
  /// The identity up to which they go; nil where they go to the end.
  var last: FileID?
}

/// What a list of all files takes from a file's row.
struct ListedRow: Hashable, Sendable {
  var id: FileID
  var path: RelativePath
  var sizeBytes: UInt64
  var state: CatalogState
}

/// The rows of the catalog up to some change.
struct CatalogRound: Hashable, Sendable {
  var number: Int64
  /// There are some of which the disk is not known to have the contents.
  var isOfNewRows: Bool
}

extension Catalog: CopiedDatabase {
  var changeCount: UInt64 { changes.load(ordering: .relaxed) }

  func copy(to target: String) throws(StorageError) {
    let failure = try use { database in StateDatabase.failure { try StateDatabase.copy(database, to: target) } }
    if let failure { throw StateDatabase.copyError(failure, path) }
  }
}

// MARK: - Opening

extension Catalog {
  /// A catalog that refuses every write would keep every delivery from being believed. So a damaged one is moved aside; the new one
  /// knows nothing, which costs uploads that were not needed and never a capture.
  private static func withUsableFile<Result>(
    _ state: inout State, _ path: String, isInUse: Bool, _ body: (inout StateConnection) throws -> Result
  ) throws(StorageError) -> Result {
    do {
      return try body(&state.connection)
    } catch {
      guard isInUse ? isDamagedFile(error) : isDamage(error) else { throw storageError(error, path) }
      state.connection.drop()
      let aside = try StateDatabase.moveAside(path)
      // The same copy would be damaged in the same way.
      let standsIn = !isInUse && !state.hasTriedCopy && standIn(for: path)
      state.hasTriedCopy = true
      state.damage =
        "the catalog \(quoted(path)) was damaged (\(StateDatabase.describe(error))); it is kept as \(quoted(aside)), and "
        + (standsIn ? standInWords : newOneWords)
    }
    do {
      return try body(&state.connection)
    } catch {
      throw storageError(error, path)
    }
  }

  private static func prepare(
    _ database: DatabaseQueue, _ opening: StateConnection.Opening, _ path: String
  ) throws {
    // What a process has opened before it has read, and written, before.
    if opening == .first { try check(database) }
    let migrator = CatalogSchema.migrator
    guard try !database.read({ try migrator.isOlder(than: $0) }) else {
      throw StorageError(
        .newerVersion,
        "the catalog \(quoted(path)) was written by a newer version: use that version, or move the file away (files "
          + "that are still in the spool are then uploaded again)")
    }
    try migrator.migrate(database)
    // Finds a table that is not as it should be now rather than in the middle of an upload.
    try database.read { try CatalogRows.prepareAll($0) }
  }

  private static let newOneWords = "a new one was made: files that are still in the spool are uploaded again"
  private static let standInWords =
    "its copy for backups stands in for it: what that says was delivered is read and compared, and what was delivered later "
    + "is uploaded again"
  private static let olderWords =
    "what it says was delivered is read and compared, and what was delivered later is uploaded again"

  static func check(_ database: DatabaseQueue) throws {
    if let finding = try StateDatabase.finding(in: database) { throw StorageError(.damaged, finding) }
  }

  /// True for what another attempt would meet again, and a new database would not.
  private static func isDamage(_ error: any Error) -> Bool {
    switch error {
    case let error as StorageError: error.kind == .damaged
    case let error as DatabaseError:
      switch error.resultCode {
      case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_FORMAT, .SQLITE_ERROR, .SQLITE_SCHEMA, .SQLITE_MISMATCH,
        .SQLITE_CONSTRAINT, .SQLITE_TOOBIG, .SQLITE_RANGE:
        true
      default: false
      }
    default: false
    }
  }

  /// The narrower question while the database is in use, where a mistake in a statement must not throw the catalog away.
  private static func isDamagedFile(_ error: any Error) -> Bool {
    guard let error = error as? DatabaseError else { return false }
    switch (error.resultCode, error.extendedResultCode) {
    case (.SQLITE_CORRUPT, _), (.SQLITE_NOTADB, _), (_, .SQLITE_IOERR_SHORT_READ): return true
    default: return false
    }
  }

  private static func storageError(_ error: any Error, _ path: String) -> StorageError {
    if let error = error as? StorageError { return error }
    let kind = StateDatabase.kind(of: error) ?? (isDamage(error) ? .damaged : .system(errno: EIO))
    return StorageError(kind, "the catalog \(quoted(path)) cannot be used: \(StateDatabase.describe(error))")
  }
}

extension CatalogState {
  /// The file is gone from the spool; the entry is there to be looked up.
  package var isHistory: Bool { self == .evicted || self == .removed }
}

package import FileModel
import Foundation
import GRDB
import Glibc
import Lookup
import OrderedCollections
import Synchronization
import TransferModel

/// Which file was given which name by a template, and which number. SQLite; what it has said once it says again, also after a
/// crash, and no two captures get the same name because of a template.
///
/// Of a file that is gone only its names stay, each with the path that it was for: they are taken for good, and no engine asks
/// again what the file is called.
///
/// One for all engines of a process. Blocking; calls from several threads queue up behind one connection.
public final class NameLedger: Sendable {
  /// A file that is to be published, under one of its paths.
  struct NameRequest: Sendable {
    var file: FileID
    var path: RelativePath
    /// Nil for the path itself.
    var template: NameTemplate?
    /// Everything but the number.
    var facts: NameTemplate.Values
  }

  /// What a file is called, and whose name that was until now.
  struct Choice: Sendable {
    var name: RelativePath
    var formerOwner: FileID?
  }

  private struct State {
    /// Used under the lock only.
    var connection: StateConnection
    var isClosed = false
    /// Of this start, and of the one before; nil before the first catalog was asked.
    var marks: (before: Data?, now: Data)?
    /// It says of itself that it has given no name.
    var saysNew = false
  }

  private let state: Mutex<State>
  private let changes = Atomic<UInt64>(0)
  let path: String
  /// A sentence for people where the record is new although names were given before; nil where nothing was lost.
  let lostPast: String?
  /// It had given no name at the start: what it knows it has learned, perhaps in part. A start that was killed meanwhile changes nothing of
  /// that.
  private let isNew: Bool

  /// What was published before there was a ledger, a few at a time: as long as no rule had a template, nothing was recorded, and
  /// everything was called as its path.
  package typealias EarlierRuns = @Sendable (_ take: ([CatalogEntry]) throws -> Void) throws -> Void

  /// The ledger of a spool; nil where no rule has a template and none ever had. Once there is one, names are taken for good, also
  /// where templates are left out. What may pass, as a disk that refuses something, is tried for so long before it is an error.
  package static func open(
    at path: String, for rules: FileRules, room: StateRoom? = nil, patience: StartupTimeout = .none,
    after earlier: @escaping EarlierRuns = { _ in }
  ) throws(StorageError) -> NameLedger? {
    guard rules.haveNames || isThere(path) else { return nil }
    return try NameLedger(path: path, room: room, patience: patience, after: earlier)
  }

  /// Opens the database or makes one.
  package init(
    path: String, room: StateRoom? = nil, patience: StartupTimeout = .none,
    after earlier: @escaping EarlierRuns = { _ in }
  ) throws(StorageError) {
    self.path = path
    // The log of one that was moved away, or lost, would be applied to the new one.
    if !Self.isThere(path), Self.isThere(path + "-wal") { _ = try StateDatabase.moveAside(path) }
    let isOlder = LogMarker.findsLoss(of: path)
    lostPast = isOlder ? Self.olderWords(path) : try Self.lostPast(of: path, earlier)
    var connection = StateConnection(path: path, room: room) { database, opening in
      // The log beside a record that was cut gives it its length back, and what is lost shows when a name is wanted.
      if opening == .first { try Self.check(database) }
      try Self.noteBeginning(database)
      let migrator = Self.migrator(after: earlier)
      guard try !database.read({ try migrator.isOlder(than: $0) }) else {
        throw StorageError(.newerVersion, Self.newerWords(path))
      }
      try migrator.migrate(database)
      // What catalogs know is learned.
      if isOlder, opening == .first { try database.write { try $0.execute(sql: "DELETE FROM mark") } }
    }
    do {
      try connection.open(patience: patience)
      isNew = try connection.use(Self.saysNew)
      if isOlder { LogMarker.settle(path) }
    } catch {
      throw Self.failure(error, path)
    }
    state = Mutex(State(connection: connection, saysNew: isNew))
  }

  /// A file that is being made a database says that it is new, until it gives a name.
  private static func noteBeginning(_ database: DatabaseQueue) throws {
    guard try database.read({ try Row.fetchOne($0, sql: "SELECT 1 FROM sqlite_master") == nil }) else { return }
    try database.write { try note(isNew: true, $0) }
  }

  private static func note(isNew: Bool, _ database: Database) throws {
    try database.execute(sql: "PRAGMA user_version = \(isNew ? 1 : 0)")
  }

  private static func saysNew(_ database: DatabaseQueue) throws -> Bool {
    try database.read { try Int.fetchOne($0, sql: "PRAGMA user_version") == 1 }
  }

  /// Learns the names that a catalog knows and this record does not: where it is new, or older than the catalog, as one that comes from a
  /// backup is, they are taken all the same. Of what lies in the spool it knows again what it is called. Before the first name is given,
  /// once for each catalog. A sentence for people where names that a template had given were not known.
  ///
  /// A start leaves its mark here and in each catalog; where they agree, nothing is read. The paths under which a capture that lies in the spool
  /// was published, and its receipt, say the catalog's rows, or `present`; it is nil for others.
  @discardableResult
  package func learn(
    from catalog: Catalog, present: (@Sendable (FileID) -> PresentCapture?)? = nil
  ) throws(StorageError) -> String? {
    let marks = try renewedMarks()
    if let before = marks.before, try catalog.namesMark() == before {
      try catalog.setNamesMark(marks.now, paths: [])
      return nil
    }
    var count = 0
    var paths: [(name: String, path: RelativePath)] = []
    var shared = SharedNames()
    let failure = StateDatabase.failure {
      try catalog.forEachGivenName { names in
        var names = names
        if let present {
          for position in names.indices { names[position].take(present(names[position].file)) }
        }
        for name in names { shared.add(name) }
        let learned = try use { [isNew, names] database in
          try database.write { try Self.learn(names, isNew: isNew, $0) }
        }
        count += learned.count
        paths += learned.paths
      }
      try use { [isNew, shared] database in
        try database.write { database in
          for (file, path, name) in shared.asked {
            try Self.choose(name, for: path, of: file, mayPass: true, isNew: isNew, database)
          }
          for (file, path, name) in shared.choices {
            try Self.choose(name, for: path, of: file, mayPass: false, isNew: isNew, database)
          }
        }
      }
    }
    if let failure { throw Self.failure(failure, path) }
    changes.add(1, ordering: .relaxed)
    try catalog.setNamesMark(marks.now, paths: paths)
    guard count > 0 else { return nil }
    if isNew { return lostPast == nil ? Self.missingWords(path) : nil }
    return
      "the names' record \(quoted(path)) was older than what was published: it has learned \(count) names that it did not know"
  }

  private func renewedMarks() throws(StorageError) -> (before: Data?, now: Data) {
    if let known = state.withLock({ $0.marks }) { return known }
    let now = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) })
    let before = try use { database in
      try database.write { database in
        let before = try Data.fetchOne(database, sql: "SELECT value FROM mark")
        try database.execute(sql: "DELETE FROM mark")
        try database.execute(sql: "INSERT INTO mark (value) VALUES (?)", arguments: [now])
        return before
      }
    }
    state.withLock { $0.marks = (before, now) }
    return (before, now)
  }

  /// A ledger in memory, for a simulation of disks.
  package convenience init(after entries: [CatalogEntry] = []) throws(StorageError) {
    try self.init(path: StateDatabase.inMemory) { take in try take(entries) }
  }

  /// An earlier run has recorded names here. What the disk cannot say shows when it is opened.
  private static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 || errno != ENOENT }

  /// SQLite makes a new database of an empty file. Where names were given before, an empty record is a damaged one, and a missing one was
  /// moved away or lost.
  private static func lostPast(of path: String, _ earlier: EarlierRuns) throws(StorageError) -> String? {
    guard path != StateDatabase.inMemory else { return nil }
    let isMissing = !isThere(path)
    guard isMissing || sizeBytes(path) == 0 else { return nil }
    do {
      guard try sizeBytes(StateCopies.path(of: path)) ?? 0 > 0 || haveNames(earlier) else { return nil }
      guard isMissing else { throw DatabaseError(resultCode: .SQLITE_NOTADB, message: "it is empty") }
    } catch {
      throw failure(error, path)
    }
    return missingWords(path)
  }

  private static func newerWords(_ path: String) -> String {
    "the names' record \(quoted(path)) was written by a newer version: use that version, or move the file away to begin a new one, "
      + "which knows of the names of earlier captures those under which something was published"
  }

  private static func missingWords(_ path: String) -> String {
    "the names' record \(quoted(path)) is missing: a new one was begun, which knows of the names of earlier captures those under which "
      + "something was published; where another one is wanted again, --if-exists says what happens"
  }

  private static func olderWords(_ path: String) -> String {
    "the names' record \(quoted(path)) has lost its log, \(quoted(path + "-wal")), in which stood the names that were given last: it knows "
      + "those under which something was published; where another one is wanted again, --if-exists says what happens"
  }

  /// Nil where the disk cannot say it, which shows when the record is opened.
  private static func sizeBytes(_ path: String) -> Int64? {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : nil
  }

  /// A capture was published under another name than its path.
  private static func haveNames(_ earlier: EarlierRuns) throws -> Bool {
    var haveNames = false
    try earlier { entries in
      haveNames = haveNames || entries.contains { !$0.publishedPaths.isEmpty && !isCalledAsItsPath($0) }
    }
    return haveNames
  }

  private static func migrator(after earlier: @escaping EarlierRuns) -> DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("1") { database in
      try database.execute(
        sql: """
          -- What a file is called when it is published under a path.
          CREATE TABLE choice (
            file BLOB NOT NULL,
            path BLOB NOT NULL,
            name BLOB NOT NULL,
            PRIMARY KEY (file, path)
          ) WITHOUT ROWID;
          -- Whose a name is; others get another one. The file is empty once it is gone.
          CREATE TABLE owner (
            name BLOB PRIMARY KEY NOT NULL,
            file BLOB NOT NULL,
            path BLOB NOT NULL
          ) WITHOUT ROWID;
          CREATE TABLE sequence (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            file BLOB NOT NULL UNIQUE
          );
          """)
    }
    // Once, and before the first name is given.
    migrator.registerMigration("2") { database in
      // When what is called so was published.
      try database.execute(sql: "CREATE TABLE kept (name BLOB PRIMARY KEY NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID")
      let isNew = try Row.fetchOne(database, sql: "SELECT 1 FROM owner") == nil
      try database.execute(sql: "CREATE TABLE given (name BLOB PRIMARY KEY NOT NULL) WITHOUT ROWID")
      try earlier { entries in
        for entry in entries where isCalledAsItsPath(entry) {
          for path in entry.publishedPaths { try keep(path, of: entry, database) }
        }
        for case let receipt? in entries.lazy.map(\.receipt) { try note(receipt, database) }
      }
      // A ledger that was lost had given names: no capture gets these again, not even those that had them.
      if isNew {
        try database.execute(sql: "INSERT OR IGNORE INTO owner (name, file, path) SELECT name, x'', x'' FROM given")
      }
      try database.execute(sql: "DROP TABLE given; DROP TABLE kept")
    }
    migrator.registerMigration("3") { database in
      try database.execute(
        sql: """
          -- The number from which on one is looked for that makes a name free: all below are taken.
          CREATE TABLE next_number (
            name BLOB PRIMARY KEY NOT NULL,
            number INTEGER NOT NULL
          ) WITHOUT ROWID;
          -- Numbers that were given instead of a name, by the path that they were for: some may be given there again.
          CREATE TABLE given_number (
            name BLOB NOT NULL,
            path BLOB NOT NULL,
            number INTEGER NOT NULL,
            PRIMARY KEY (name, path, number)
          ) WITHOUT ROWID;
          """)
      let owners = try Row.fetchCursor(database, sql: "SELECT name, path FROM owner")
      while let row = try owners.next() {
        guard let (name, number) = NameTemplate.number(in: RelativePath(bytes: Array(row["name"] as Data))) else {
          continue
        }
        try noteGiven(number, insteadOf: Data(name.bytes), for: row["path"], database)
      }
    }
    migrator.registerMigration("4") { database in
      try database.execute(
        sql: """
          -- The last start, which all catalogs know that have no other names than these.
          CREATE TABLE mark (value BLOB NOT NULL);
          """)
    }
    return migrator
  }

  /// What captures are called where nothing that was delivered for that path says it. The catalog keeps one path of a name, and a capture
  /// may have been published under it from several; it may also have been asked for under names that are not its receipt's.
  private struct SharedNames {
    private var captures: OrderedDictionary<FileID, (name: RelativePath, paths: [RelativePath])> = [:]
    private(set) var asked: [(file: FileID, path: RelativePath, name: RelativePath)] = []
    private var askedPaths: LookupTable<FileID, [RelativePath]> = [:]

    /// What was asked for is for these very paths.
    var choices: [(file: FileID, path: RelativePath, name: RelativePath)] {
      captures.flatMap { file, shared in
        shared.paths.filter { askedPaths[file]?.contains($0) != true }.map { (file, $0, shared.name) }
      }
    }

    mutating func add(_ given: GivenName) {
      guard let origin = given.origin, let name = origin.name, let paths = given.publishedPaths else { return }
      guard !given.isOnlyAsked else {
        guard !given.isDeliveredAsItsPath else { return }
        asked.append((given.file, origin.path, name))
        return askedPaths[given.file, default: []].append(origin.path)
      }
      guard paths.count > 1 else { return }
      captures[given.file, default: (name, paths)].paths.removeAll { $0 == origin.path }
    }
  }

  /// How many of the names were given by a template and are new here, and for which paths those were given of which the catalog does not
  /// know it.
  private static func learn(
    _ names: [GivenName], isNew: Bool, _ database: Database
  ) throws -> (count: Int, paths: [(name: String, path: RelativePath)]) {
    var count = 0
    var paths: [(name: String, path: RelativePath)] = []
    for given in names {
      if let origin = given.origin, let known = origin.name {
        let file = given.publishedPaths == nil ? nil : given.file
        let isOnlyAsked = given.isOnlyAsked
        guard try learn(known, for: origin.path, of: file, isOnlyAsked: isOnlyAsked, isNew: isNew, database) else {
          continue
        }
        count += known == origin.path ? 0 : 1
      } else {
        let name = Data(given.published.utf8)
        try database.cachedStatement(sql: "INSERT OR IGNORE INTO owner (name, file, path) VALUES (?, x'', x'')")
          .execute(arguments: [name])
        let known = try database.cachedStatement(
          sql: "SELECT path FROM owner WHERE name = ? AND path NOT IN (x'', ?)")
        if let path = try Data.fetchOne(known, arguments: [name, ownerlessPath]) {
          paths.append((given.published, RelativePath(bytes: Array(path))))
        }
      }
    }
    return (count, paths)
  }

  /// That of a name which is known not to pass to any path; no path has a NUL. (An empty one says that it is not known, and may be learned.)
  private static let ownerlessPath = Data([0])

  /// False where it is known whose the name is. A record that has just begun knows it at most from receipts, which say no path.
  private static func learn(
    _ given: RelativePath, for wanted: RelativePath, of file: FileID?, isOnlyAsked: Bool, isNew: Bool,
    _ database: Database
  ) throws -> Bool {
    let (name, path, file) = (Data(given.bytes), Data(wanted.bytes), file?.blob ?? Data())
    try database.cachedStatement(
      sql: """
        INSERT INTO owner (name, file, path) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE
          SET file = excluded.file, path = excluded.path
          WHERE owner.file = x'' AND (owner.path = excluded.path AND ?2 <> x'' OR owner.path = x'' AND ?4)
        """
    ).execute(arguments: [name, file, path, isNew])
    let isLearned = database.changesCount > 0
    // The catalog knows it under another path as well: which one was its last is not known, and it passes to no path.
    if !isLearned {
      try database.cachedStatement(
        sql: "UPDATE owner SET path = ?4 WHERE name = ?1 AND file IN (?2, x'') AND path NOT IN (?3, x'')"
      ).execute(arguments: [name, file, path, ownerlessPath])
    }
    if !file.isEmpty, !isOnlyAsked {
      try choose(name, for: path, of: file, mayPass: true, isNew: isNew, database)
    }
    guard isLearned else { return false }
    if let (unnumbered, number) = NameTemplate.number(in: given) {
      try noteGiven(number, insteadOf: Data(unnumbered.bytes), for: path, database)
    }
    return true
  }

  private static func choose(
    _ name: RelativePath, for path: RelativePath, of file: FileID, mayPass: Bool, isNew: Bool, _ database: Database
  ) throws {
    try choose(
      Data(name.bytes), for: Data(path.bytes), of: file.blob, mayPass: mayPass, isNew: isNew, database)
  }

  /// A capture has one name under all of its paths, if the name is its own. Of several that came under a path one after the other it passes to
  /// the one that asks for it next. Of a capture without a receipt a new record takes it that it is called as its path: what was sent says
  /// it better.
  private static func choose(
    _ name: Data, for path: Data, of file: Data, mayPass: Bool, isNew: Bool, _ database: Database
  ) throws {
    guard let owner = try owner(of: name, for: path, database), mayPass && owner.passes || owner.file == file else {
      return
    }
    try database.cachedStatement(
      sql: """
        INSERT INTO choice (file, path, name) VALUES (?1, ?2, ?3) ON CONFLICT (file, path) DO UPDATE
          SET name = excluded.name WHERE choice.name = choice.path AND ?4
        """
    ).execute(arguments: [file, path, name, isNew])
  }

  /// A ledger that was lost had given other names: which path is called how is not known then, but for what receipts say was given. (A
  /// name that could not be sent as it is says nothing.)
  private static func isCalledAsItsPath(_ entry: CatalogEntry) -> Bool {
    guard let name = entry.receipt?.name.utf8, !name.contains(UInt8(ascii: "%")) else { return true }
    return entry.publishedPaths.contains { $0.bytes.elementsEqual(name) }
  }

  private static func note(_ receipt: Receipt, _ database: Database) throws {
    for name in [receipt.name, receipt.publishedAs ?? receipt.name] {
      try database.cachedStatement(sql: "INSERT OR IGNORE INTO given (name) VALUES (?)")
        .execute(arguments: [Data(name.utf8)])
    }
  }

  /// A capture is published under a path, and was before anything was recorded. Of one that is gone only the name stays.
  private static func keep(_ path: RelativePath, of entry: CatalogEntry, _ database: Database) throws {
    let (file, name) = (entry.id.blob, Data(path.bytes))
    if entry.state.isHistory {
      return try database.cachedStatement(sql: "INSERT OR IGNORE INTO owner (name, file, path) VALUES (?1, x'', ?1)")
        .execute(arguments: [name])
    }
    let known = try database.cachedStatement(sql: "SELECT name FROM choice WHERE file = ? AND path = ?")
    guard try Data.fetchOne(known, arguments: [file, name]) == nil else { return }
    try database.cachedStatement(sql: "INSERT INTO choice (file, path, name) VALUES (?1, ?2, ?2)")
      .execute(arguments: [file, name])
    // What is there replaced what is gone from there. After a crash, or what was done by hand, the catalog may not know that it
    // is gone: what was published last is there.
    let at = entry.receipt?.publishedAtMilliseconds ?? 0
    try database.cachedStatement(
      sql: """
        INSERT INTO owner (name, file, path) VALUES (?1, ?2, ?1)
        ON CONFLICT (name) DO UPDATE SET file = excluded.file WHERE owner.path = excluded.path
          AND (owner.file = x'' OR EXISTS (SELECT 1 FROM kept WHERE kept.name = excluded.name AND kept.at <= ?3))
        """
    ).execute(arguments: [name, file, at])
    guard database.changesCount > 0 else { return }
    try database.cachedStatement(sql: "INSERT OR REPLACE INTO kept (name, at) VALUES (?, ?)")
      .execute(arguments: [name, at])
  }

  /// The names of files, in order; those that have none yet get one. Files that are gone are forgotten but for their names'
  /// being taken. All is durable when this returns, with one sync of the disk.
  func names(for requests: [NameRequest], forgetting gone: [FileID] = []) throws(StorageError) -> [Choice] {
    guard !requests.isEmpty || !gone.isEmpty else { return [] }
    changes.add(1, ordering: .relaxed)
    let saysNew = state.withLock { $0.saysNew }
    let choices = try use { database in
      try database.write { database in
        if saysNew { try Self.note(isNew: false, database) }
        for file in gone { try Self.forget(file.blob, database) }
        return try requests.map { try Self.name(for: $0, database) }
      }
    }
    state.withLock { $0.saysNew = false }
    return choices
  }

  /// The names that files were given earlier and that are still theirs, by the path.
  func known(_ files: [FileID]) throws(StorageError) -> [FileID: [RelativePath: RelativePath]] {
    try use { database in
      try database.read { database in
        var known: [FileID: [RelativePath: RelativePath]] = [:]
        let choices = try database.cachedStatement(
          sql: "SELECT choice.path, choice.name FROM choice JOIN owner USING (name, file) WHERE file = ?")
        for file in files {
          for row in try Row.fetchAll(choices, arguments: [file.blob]) {
            known[file, default: [:]][RelativePath(bytes: Array(row["path"] as Data))] = RelativePath(
              bytes: Array(row["name"] as Data))
          }
        }
        return known
      }
    }
  }

  private static func name(for request: NameRequest, _ database: Database) throws -> Choice {
    let (file, path) = (request.file.blob, Data(request.path.bytes))
    let choice = try database.cachedStatement(sql: "SELECT name FROM choice WHERE file = ? AND path = ?")
    if let known = try Data.fetchOne(choice, arguments: [file, path]) {
      let owner = try Self.owner(of: known, for: path, database)
      if owner?.file == file { return Choice(name: RelativePath(bytes: Array(known))) }
      // It came back where another one had come after it. The name that was chosen for a path stays, whatever the template
      // says by now.
      if let owner, owner.passes { return try give(known, of: owner.file, to: file, path, database) }
    }
    var facts = request.facts
    if let template = request.template, template.usesSequence {
      facts.sequence = try number(of: file, database) { number in
        facts.sequence = number
        // Also one of the path's own: each capture has another number, and none replaces one of before.
        let owner = try Self.owner(of: Data(template.name(of: facts).bytes), for: path, database)
        return owner.map { $0.file != file } ?? false
      }
    }
    let (name, owner) = try free(request.template?.name(of: facts) ?? request.path, file, path, database)
    return try give(Data(name.bytes), of: owner, to: file, path, database)
  }

  private static func give(
    _ name: Data, of owner: Data?, to file: Data, _ path: Data, _ database: Database
  ) throws -> Choice {
    // Its name of before may have passed to another file.
    try database.cachedStatement(sql: "INSERT OR REPLACE INTO choice (file, path, name) VALUES (?, ?, ?)")
      .execute(arguments: [file, path, name])
    try database.cachedStatement(sql: "INSERT OR REPLACE INTO owner (name, file, path) VALUES (?, ?, ?)")
      .execute(arguments: [name, file, path])
    return Choice(
      name: RelativePath(bytes: Array(name)), formerOwner: owner.flatMap { $0 == file ? nil : FileID(blob: $0) })
  }

  /// The number stays given as well: SQLite remembers the highest one by itself (AUTOINCREMENT).
  private static func forget(_ file: Data, _ database: Database) throws {
    // A name may have passed to another file that came under its path. One that the file had under several paths passes to
    // no file: which of them was the last, and where its only copy is looked for, is not known here.
    try database.cachedStatement(
      sql: """
        UPDATE owner SET file = x'', path = CASE
          WHEN (SELECT count(*) FROM choice WHERE file = ?1 AND name = owner.name) > 1 THEN x'' ELSE path
        END WHERE file = ?1 AND name IN (SELECT name FROM choice WHERE file = ?1)
        """
    ).execute(arguments: [file])
    try database.cachedStatement(sql: "DELETE FROM choice WHERE file = ?").execute(arguments: [file])
    try database.cachedStatement(sql: "DELETE FROM sequence WHERE file = ?").execute(arguments: [file])
  }

  /// The name itself, or with the first number that makes it free, and whose it was. A name is shared by the names of one file,
  /// and by the captures that came under one path one after the other: these replace each other without a template, too. A file
  /// that has the name under another path as well may be there now, and keeps it.
  ///
  /// Of thousands of captures of one name each tries no numbers of those before it, but those that may be its own.
  private static func free(
    _ name: RelativePath, _ file: Data, _ path: Data, _ database: Database
  ) throws -> (RelativePath, owner: Data?) {
    let wanted = Data(name.bytes)
    guard let owner = try owner(of: wanted, for: path, database) else { return (name, nil) }
    if owner.file == file || owner.passes { return (name, owner.file) }
    for number in try givenNumbers(insteadOf: wanted, file, path, database) {
      let candidate = NameTemplate.distinguished(name, by: number)
      guard let owner = try Self.owner(of: Data(candidate.bytes), for: path, database) else { continue }
      guard owner.file == file || owner.passes else { continue }
      try noteGiven(number, insteadOf: wanted, for: path, database)
      return (candidate, owner.file)
    }
    let next = try database.cachedStatement(sql: "SELECT number FROM next_number WHERE name = ?")
    var number = max(2, try Int.fetchOne(next, arguments: [wanted]) ?? 2)
    while try Self.owner(of: Data(NameTemplate.distinguished(name, by: number).bytes), for: path, database) != nil {
      number += 1
    }
    try database.cachedStatement(sql: "INSERT OR REPLACE INTO next_number (name, number) VALUES (?, ?)")
      .execute(arguments: [wanted, number + 1])
    try noteGiven(number, insteadOf: wanted, for: path, database)
    return (NameTemplate.distinguished(name, by: number), nil)
  }

  /// The numbers that were given instead of a name for a path, or for another one of the file, in order.
  private static func givenNumbers(
    insteadOf name: Data, _ file: Data, _ path: Data, _ database: Database
  ) throws -> [Int] {
    let given = try database.cachedStatement(
      sql: """
        SELECT number FROM given_number WHERE name = ?1 AND path = ?3
        UNION SELECT number FROM choice JOIN given_number USING (path) WHERE file = ?2 AND given_number.name = ?1
        ORDER BY number
        """)
    return try Int.fetchAll(given, arguments: [name, file, path])
  }

  private static func noteGiven(
    _ number: Int, insteadOf name: Data, for path: Data, _ database: Database
  ) throws {
    try database.cachedStatement(sql: "INSERT OR IGNORE INTO given_number (name, path, number) VALUES (?, ?, ?)")
      .execute(arguments: [name, path, number])
  }

  /// Whose a name is, and whether it passes to what comes under a path.
  private static func owner(
    of name: Data, for path: Data, _ database: Database
  ) throws -> (file: Data, passes: Bool)? {
    let owners = try database.cachedStatement(
      sql: """
        SELECT file, path = ?2 AND NOT EXISTS (
          SELECT 1 FROM choice WHERE choice.file = owner.file AND choice.name = owner.name AND choice.path <> ?2
        ) AS passes FROM owner WHERE name = ?1
        """)
    return try Row.fetchOne(owners, arguments: [name, path]).map { ($0["file"], $0["passes"]) }
  }

  /// A file keeps its number; numbers are never given twice. After a ledger was lost some were whose names are taken: these are leapt over.
  private static func number(
    of file: Data, _ database: Database, isTaken: (Int64) throws -> Bool
  ) throws -> Int64 {
    let numbers = try database.cachedStatement(sql: "SELECT number FROM sequence WHERE file = ?")
    if let known = try Int64.fetchOne(numbers, arguments: [file]) { return known }
    try database.cachedStatement(sql: "INSERT INTO sequence (file) VALUES (?)").execute(arguments: [file])
    let next = database.lastInsertedRowID
    guard try isTaken(next), let free = try firstFree(after: next, isTaken) else { return next }
    try database.cachedStatement(sql: "INSERT OR REPLACE INTO sequence (number, file) VALUES (?, ?)")
      .execute(arguments: [free, file])
    return free
  }

  /// The first one behind those that follow each other, in few questions. Where others are taken behind that, it may be another one.
  private static func firstFree(after taken: Int64, _ isTaken: (Int64) throws -> Bool) rethrows -> Int64? {
    var (taken, free, step) = (taken, taken + 1, Int64(1))
    while try isTaken(free) {
      guard step < leapMax else { return nil }
      step *= 2
      (taken, free) = (free, free + step)
    }
    while free - taken > 1 {
      let middle = taken + (free - taken) / 2
      if try isTaken(middle) { taken = middle } else { free = middle }
    }
    return free
  }

  /// No spool has given as many numbers.
  private static let leapMax: Int64 = 1 << 40

  /// Closes the database; every later call throws ``StorageError/Kind/closed``. Everything in it is durable already.
  public func close() {
    state.withLock { state in
      state.connection.drop()
      state.isClosed = true
    }
  }

  private func use<Result: Sendable>(_ body: (DatabaseQueue) throws -> Result) throws(StorageError) -> Result {
    try state.withLock { state throws(StorageError) in
      guard !state.isClosed else { throw StorageError(.closed, "the names' record \(quoted(path)) has been closed") }
      do {
        return try state.connection.use(body)
      } catch {
        throw Self.failure(error, path)
      }
    }
  }

  private static func check(_ database: DatabaseQueue) throws {
    guard let finding = try StateDatabase.finding(in: database) else { return }
    throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: finding)
  }

  private static func failure(_ error: any Error, _ path: String) -> StorageError {
    // Of a catalog that cannot be read.
    if let error = error as? StorageError { return error }
    let isDamaged = [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains((error as? DatabaseError)?.resultCode)
    let kind = StateDatabase.kind(of: error) ?? (isDamaged ? .damaged : .system(errno: EIO))
    let advice =
      isDamaged
      ? "; move it away to begin a new one, which knows of the names of earlier captures those under which something was published"
      : ""
    return StorageError(
      kind, "the names' record \(quoted(path)) cannot be used: \(StateDatabase.describe(error))\(advice)")
  }
}

extension NameLedger: CopiedDatabase {
  var changeCount: UInt64 { changes.load(ordering: .relaxed) }

  func copy(to target: String) throws(StorageError) {
    // Where the copy takes the place of the record, that is older than what was published since, and is not new.
    let failure = try use { database in
      StateDatabase.failure {
        try StateDatabase.copy(database, to: target) { database in
          try database.execute(sql: "DELETE FROM mark")
          try Self.note(isNew: false, database)
        }
      }
    }
    if let failure { throw StateDatabase.copyError(failure, path) }
  }
}

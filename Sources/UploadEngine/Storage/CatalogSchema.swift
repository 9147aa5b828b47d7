import FileModel
import Foundation
import GRDB
import Lookup
import TransferModel

/// The catalog's tables. A released migration is never changed; a new one is added.
enum CatalogSchema {
  static var migrator: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("1") { database in
      try database.execute(
        sql: """
          CREATE TABLE file (
            id BLOB PRIMARY KEY NOT NULL,
            path BLOB NOT NULL,
            inode INTEGER NOT NULL,
            size INTEGER NOT NULL,
            modified_ns INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            state TEXT NOT NULL,
            failure_code TEXT,
            failure_message TEXT,
            completed_ms INTEGER,
            opened_ms INTEGER,
            closed_ms INTEGER,
            -- Rises with every change of any row: the order of the history.
            changed INTEGER NOT NULL
          ) WITHOUT ROWID;
          CREATE INDEX file_changed ON file(changed);
          CREATE INDEX file_history ON file(changed) WHERE state IN ('evicted', 'removed');
          CREATE TABLE published (
            file BLOB NOT NULL REFERENCES file(id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            path BLOB NOT NULL,
            PRIMARY KEY (file, position)
          ) WITHOUT ROWID;
          CREATE TABLE receipt (
            file BLOB PRIMARY KEY NOT NULL REFERENCES file(id) ON DELETE CASCADE,
            id TEXT NOT NULL,
            name TEXT NOT NULL,
            size INTEGER NOT NULL,
            merkle_root TEXT NOT NULL,
            chain_tip TEXT NOT NULL,
            published_ms INTEGER NOT NULL
          ) WITHOUT ROWID;
          """)
    }
    // One row for a file: a small file is written as often as it is delivered, and each table cost two statements more.
    migrator.registerMigration("2") { database in
      try database.execute(
        sql: """
          ALTER TABLE file ADD COLUMN published BLOB;
          ALTER TABLE file ADD COLUMN receipt_id TEXT;
          ALTER TABLE file ADD COLUMN receipt_name TEXT;
          ALTER TABLE file ADD COLUMN receipt_size INTEGER;
          ALTER TABLE file ADD COLUMN merkle_root TEXT;
          ALTER TABLE file ADD COLUMN chain_tip TEXT;
          ALTER TABLE file ADD COLUMN published_ms INTEGER;
          UPDATE file SET published = (
            SELECT CAST(group_concat(CAST(path AS TEXT), char(0)) AS BLOB)
            FROM (SELECT path FROM published WHERE published.file = file.id ORDER BY position));
          UPDATE file SET (receipt_id, receipt_name, receipt_size, merkle_root, chain_tip, published_ms) =
            (SELECT id, name, size, merkle_root, chain_tip, published_ms FROM receipt WHERE receipt.file = file.id);
          DROP TABLE published;
          DROP TABLE receipt;
          """)
    }
    // What a server said that says things of its own.
    migrator.registerMigration("3") { database in
      try database.execute(sql: "ALTER TABLE file ADD COLUMN receipt_answer TEXT")
    }
    // Sessions that no other client would end.
    migrator.registerMigration("4") { database in
      try database.execute(
        sql: """
          CREATE TABLE session (
            id TEXT PRIMARY KEY NOT NULL,
            begun_s INTEGER NOT NULL
          ) WITHOUT ROWID;
          """)
    }
    // What the spool's file says as well: a copy of the spool may come without it.
    migrator.registerMigration("5") { database in
      try database.execute(
        sql: """
          ALTER TABLE file ADD COLUMN doubt TEXT;
          ALTER TABLE file ADD COLUMN pointer TEXT;
          ALTER TABLE file ADD COLUMN receipt_file BLOB;
          """)
    }
    // Of several sessions that a file has had, the one whose publication counts; empty where none does.
    migrator.registerMigration("6") { database in
      try database.execute(sql: "ALTER TABLE file ADD COLUMN session TEXT")
    }
    // Whose a published name is: it outlives the capture, so that the next one of its path may have the name.
    migrator.registerMigration("7") { database in
      try database.execute(
        sql: """
          ALTER TABLE file ADD COLUMN published_as TEXT;
          UPDATE file SET published_as = json_extract(receipt_answer, '$.published_as')
            WHERE json_valid(receipt_answer) AND json_type(receipt_answer, '$.published_as') = 'text';
          CREATE TABLE publication (
            name TEXT PRIMARY KEY NOT NULL,
            file BLOB NOT NULL,
            merkle_root TEXT NOT NULL,
            size INTEGER NOT NULL,
            chunk INTEGER,
            published_as TEXT
          ) WITHOUT ROWID;
          INSERT OR REPLACE INTO publication (name, file, merkle_root, size, published_as)
            SELECT receipt_name, COALESCE(receipt_file, id), merkle_root, receipt_size, published_as FROM file
            WHERE receipt_name IS NOT NULL AND merkle_root IS NOT NULL AND receipt_size IS NOT NULL
            ORDER BY published_ms;
          """)
    }
    // What was about to be published under a name, and may have been.
    migrator.registerMigration("8") { database in
      try database.execute(
        sql: """
          CREATE TABLE intent (
            -- Rises: of a name's intents the higher one was sent later.
            number INTEGER PRIMARY KEY NOT NULL,
            name TEXT NOT NULL,
            file BLOB NOT NULL,
            merkle_root TEXT NOT NULL,
            size INTEGER NOT NULL,
            chunk INTEGER,
            nonce BLOB
          );
          CREATE INDEX intent_name ON intent(name);
          """)
    }
    // What tells a published object apart from others that have its name. Of what was published before, the receipt's id is known.
    migrator.registerMigration("9") { database in
      try database.execute(
        sql: """
          ALTER TABLE publication ADD COLUMN nonce BLOB;
          ALTER TABLE publication ADD COLUMN receipt TEXT;
          UPDATE publication SET receipt = file.receipt_id FROM file
            WHERE publication.name = file.receipt_name AND publication.merkle_root = file.merkle_root
              AND publication.file = COALESCE(file.receipt_file, file.id);
          """)
    }
    // Of how long chunks a receipt's root is, also where an earlier run's session was published; and how long the upload took.
    migrator.registerMigration("10") { database in
      try database.execute(
        sql: """
          ALTER TABLE file ADD COLUMN receipt_chunk INTEGER;
          ALTER TABLE file ADD COLUMN upload_ms INTEGER;
          UPDATE file SET receipt_chunk = publication.chunk FROM publication
            WHERE publication.name = file.receipt_name AND publication.merkle_root = file.merkle_root;
          """)
    }
    // For which path something was published, and what it was called there, where that is known and not the path: its name belongs to the
    // capture and to that path. Of what was published before, the rows of captures say it.
    migrator.registerMigration("11") { database in
      try database.execute(
        sql: """
          ALTER TABLE publication ADD COLUMN path BLOB;
          ALTER TABLE publication ADD COLUMN called BLOB;
          ALTER TABLE publication ADD COLUMN modified_ns INTEGER;
          ALTER TABLE publication ADD COLUMN published_ms INTEGER;
          -- Where the other one tells objects apart it is not there twice.
          ALTER TABLE publication ADD COLUMN receipt_id TEXT;
          ALTER TABLE intent ADD COLUMN path BLOB;
          ALTER TABLE intent ADD COLUMN called BLOB;
          ALTER TABLE intent ADD COLUMN modified_ns INTEGER;
          UPDATE publication SET path = file.path, modified_ns = file.modified_ns, published_ms = file.published_ms,
            called = CASE
              WHEN CAST(publication.name AS BLOB) = file.path THEN NULL
              -- Not known: a bucket's prefix, or a folder of a template, may come before it, and it may not have been sent as it is.
              ELSE x''
            END
            FROM file WHERE publication.name = file.receipt_name AND publication.merkle_root = file.merkle_root
              AND publication.file = COALESCE(file.receipt_file, file.id) AND file.published = file.path;
          CREATE INDEX publication_path ON publication(path) WHERE called IS NOT NULL;
          -- The start of the names' record that knows all names of this catalog.
          CREATE TABLE names_mark (value BLOB NOT NULL);
          """)
    }
    // Up to which change of any row the spool's disk is known to have what the rows describe. Of what was recorded before this is not known.
    migrator.registerMigration("12") { database in
      try database.execute(
        sql: """
          CREATE TABLE disk (
            -- Rows that were changed up to then are of contents on the disk.
            through INTEGER NOT NULL,
            -- No row that is changed from now on gets a number up to this one, whatever became of those that had it.
            round INTEGER NOT NULL,
            -- The instance of the spool's filesystem in which rows were changed after the second number.
            instance TEXT,
            since INTEGER NOT NULL
          );
          INSERT INTO disk (through, round, since)
            SELECT COALESCE(MAX(changed), 0), COALESCE(MAX(changed), 0), COALESCE(MAX(changed), 0) FROM file;
          """)
    }
    // Sessions that the server has still to be told are not needed, and whose they are.
    migrator.registerMigration("13") { database in
      try database.execute(
        sql: """
          CREATE TABLE discarded (
            id TEXT PRIMARY KEY NOT NULL,
            since_s INTEGER NOT NULL,
            address TEXT,
            credential_mark TEXT
          ) WITHOUT ROWID;
          """)
    }
    // What a start asks, without going over the rows of all that was ever delivered.
    migrator.registerMigration("14") { database in
      try database.execute(
        sql: """
          CREATE INDEX file_identity ON file(id, inode) WHERE state NOT IN ('evicted', 'removed');
          CREATE INDEX file_doubtful ON file(changed, id) WHERE doubt IS NOT NULL OR pointer IS NOT NULL;
          CREATE INDEX file_failed ON file(failure_code) WHERE failure_code IS NOT NULL;
          """)
    }
    return migrator
  }
}

extension DatabaseMigrator {
  /// True when a newer version has been at the tables. Its migrations are numbers, too: any other word is damage, which
  /// is no newer version.
  func isOlder(than database: Database) throws -> Bool {
    guard try hasBeenSuperseded(database) else { return false }
    let applied = try String.fetchAll(database, sql: "SELECT CAST(identifier AS TEXT) FROM grdb_migrations")
    guard applied.allSatisfy({ UInt16($0) != nil }) else {
      throw DatabaseError(
        resultCode: .SQLITE_CORRUPT, message: "the list of its versions holds something that is none")
    }
    return true
  }
}

/// Entries as rows. Unsigned numbers are stored as the signed ones with the same bits: they are compared for equality
/// only, and SQLite knows no others.
enum CatalogRows {
  /// Rows that are read at once: some ten milliseconds.
  private static let pageRowsMax = 2048
  private static let selectFiles = """
    SELECT id, path, inode, size, modified_ns, revision, state, failure_code, failure_message, completed_ms, opened_ms,
    closed_ms, published, receipt_id, receipt_name, receipt_size, merkle_root, chain_tip, published_ms, receipt_answer,
    doubt, pointer, receipt_file, session, published_as, receipt_chunk,
    upload_ms
    FROM file
    """
  private static let selectPage = "\(selectFiles) WHERE id > ? ORDER BY id LIMIT ?"
  private static let selectEntry = "\(selectFiles) WHERE id = ?"
  /// What has another length is no identity, at which the next list could begin.
  private static let selectListed = """
    SELECT id, path, size, state FROM file WHERE id > ? AND length(id) = 16 ORDER BY id LIMIT ?
    """
  /// What is not of these types is no identity, or no number.
  private static let selectRecorded = """
    SELECT id, CASE WHEN typeof(inode) = 'integer' THEN inode END FROM file
    WHERE state NOT IN ('evicted', 'removed') AND typeof(id) = 'blob' AND length(id) = 16 ORDER BY id
    """
  private static let selectHistoryIDs = "SELECT id FROM file WHERE state IN ('evicted', 'removed')"
  private static let selectWithPointers = """
    \(selectFiles) WHERE (doubt IS NOT NULL OR pointer IS NOT NULL) AND pointer IS NOT NULL
    """
  private static let selectWithParts = "\(selectFiles) WHERE failure_code = '\(FileUpload.partsAtServerCode)'"
  private static let selectDeliveries = "SELECT EXISTS(SELECT 1 FROM file WHERE receipt_id IS NOT NULL)"
  private static let isOfWhatIsThere =
    "COALESCE(failure_code, '') NOT IN ('\(FileUpload.remainsCode)', '\(FileUpload.diskRemainsCode)', '\(FileUpload.remainsToResendCode)')"
  private static let selectKnownFiles = """
    SELECT id, path, size, modified_ns, doubt, pointer, state,
    \(isOfWhatIsThere) AND changed <= (SELECT through FROM disk),
    (SELECT instance FROM disk WHERE \(isOfWhatIsThere) AND file.changed > since)
    FROM file
    """
  private static let selectKnown = """
    \(selectKnownFiles) WHERE state NOT IN ('evicted', 'removed')
    """
  private static let selectKnownByID = "\(selectKnown) AND id = ?"
  private static let selectDoubtful = """
    \(selectKnown) AND (doubt IS NOT NULL OR pointer IS NOT NULL) ORDER BY changed, id
    """
  /// What was evicted may be put back; a capture that may be there under that name counts before it.
  private static let selectAllKnown = """
    \(selectKnownFiles) WHERE state <> 'removed' ORDER BY state <> 'evicted', changed, id
    """
  private static let upsertFile = """
    INSERT INTO file (id, path, inode, size, modified_ns, revision, state, failure_code, failure_message, completed_ms,
    opened_ms, closed_ms, published, receipt_id, receipt_name, receipt_size, merkle_root, chain_tip, published_ms,
    receipt_answer, doubt, pointer, receipt_file, session, published_as, receipt_chunk, upload_ms, changed)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    (SELECT MAX(COALESCE(MAX(changed), 0), COALESCE((SELECT round FROM disk), 0)) + 1 FROM file))
    ON CONFLICT (id) DO UPDATE SET path = excluded.path, inode = excluded.inode, size = excluded.size,
    modified_ns = excluded.modified_ns, revision = excluded.revision, state = excluded.state,
    failure_code = excluded.failure_code, failure_message = excluded.failure_message,
    completed_ms = excluded.completed_ms, opened_ms = excluded.opened_ms, closed_ms = excluded.closed_ms,
    published = excluded.published, receipt_id = excluded.receipt_id, receipt_name = excluded.receipt_name,
    receipt_size = excluded.receipt_size, merkle_root = excluded.merkle_root, chain_tip = excluded.chain_tip,
    published_ms = excluded.published_ms, receipt_answer = excluded.receipt_answer, doubt = excluded.doubt,
    pointer = excluded.pointer, receipt_file = excluded.receipt_file, session = excluded.session,
    published_as = excluded.published_as, receipt_chunk = excluded.receipt_chunk, upload_ms = excluded.upload_ms,
    changed = excluded.changed
    """
  private static let clearDelivery = """
    UPDATE file SET state = 'pending', completed_ms = NULL, published = NULL, receipt_id = NULL, receipt_name = NULL,
    receipt_size = NULL, merkle_root = NULL, chain_tip = NULL, published_ms = NULL, receipt_answer = NULL,
    receipt_file = NULL, published_as = NULL, receipt_chunk = NULL, upload_ms = NULL, doubt = 'mount-died', session = '',
    failure_code = nullif(failure_code, '\(ContentSeal.code)')
    WHERE id = ? AND (state <> 'pending' OR receipt_id IS NOT NULL OR published IS NOT NULL OR session IS NOT ''
    OR failure_code = '\(ContentSeal.code)')
    """

  private static let keepTime = """
    UPDATE publication SET modified_ns = MAX(publication.modified_ns, file.modified_ns) FROM file
    WHERE file.id = ? AND publication.name = file.receipt_name AND publication.merkle_root = file.merkle_root
      AND publication.file = COALESCE(file.receipt_file, file.id)
    """

  private static let selectSessions = "SELECT id FROM session WHERE begun_s < ? ORDER BY begun_s LIMIT ?"

  /// Sessions that began before then, the oldest first.
  static func sessions(begunBefore seconds: Int64, countMax: Int, _ database: Database) throws -> [String] {
    try String.fetchAll(database, sql: selectSessions, arguments: [seconds, countMax])
  }

  /// Notes sessions that began, and forgets those that have ended: these have no time.
  static func note(_ sessions: LookupTable<String, Int64?>, _ database: Database) throws {
    for (id, begunAtSeconds) in sessions.sorted() {
      if let begunAtSeconds {
        try database.execute(
          sql: "INSERT OR IGNORE INTO session (id, begun_s) VALUES (?, ?)", arguments: [id, begunAtSeconds])
      } else {
        try database.execute(sql: "DELETE FROM session WHERE id = ?", arguments: [id])
      }
    }
  }

  private static let selectDiscarded = "SELECT id, since_s, address, credential_mark FROM discarded ORDER BY id"
  private static let insertDiscarded = """
    INSERT OR IGNORE INTO discarded (id, since_s, address, credential_mark) VALUES (?, ?, ?, ?)
    """

  static func discardedSessions(_ database: Database) throws -> [DiscardedSession] {
    try Row.fetchAll(database, sql: selectDiscarded).compactMap { row in
      let columns = Columns(row)
      guard let id = columns.text(0), let since = columns.integer(1) else { return nil }
      return DiscardedSession(
        id: id, sinceSeconds: since,
        owner: columns.text(2).map { SessionOwner(address: $0, credentialMark: columns.text(3)) })
    }
  }

  /// Notes sessions that are to be ended, and forgets those that are so no longer.
  static func note(_ discarded: LookupTable<String, DiscardedSession?>, _ database: Database) throws {
    for (id, session) in discarded.sorted() {
      if let session {
        try database.cachedStatement(sql: insertDiscarded)
          .execute(arguments: [id, session.sinceSeconds, session.owner?.address, session.owner?.credentialMark])
      } else {
        try database.execute(sql: "DELETE FROM discarded WHERE id = ?", arguments: [id])
      }
    }
  }

  private static let selectDiskRound = "SELECT through, round FROM disk"
  private static let updateDiskRound = """
    UPDATE disk SET through = MAX(through, ?), round = MAX(round, (SELECT COALESCE(MAX(changed), 0) FROM file))
    """

  private static let selectInstance = "SELECT instance FROM disk"
  private static let updateInstance = """
    UPDATE disk SET instance = ?, since = MAX(round, (SELECT COALESCE(MAX(changed), 0) FROM file))
    """

  /// What is there was recorded in an earlier instance of the spool's filesystem, if it has another name.
  static func noteInstance(_ instance: String?, _ database: Database) throws {
    let known = try Row.fetchOne(database.cachedStatement(sql: selectInstance)).flatMap { Columns($0).text(0) }
    guard known != instance else { return }
    try database.cachedStatement(sql: updateInstance).execute(arguments: [instance])
  }

  /// Begins a round: the rows that there are now. Those of the one that has ended are of contents that the disk has.
  static func beginDiskRound(endingThat number: Int64?, _ database: Database) throws -> CatalogRound? {
    try database.cachedStatement(sql: updateDiskRound).execute(arguments: [number ?? 0])
    return try Row.fetchOne(database.cachedStatement(sql: selectDiskRound)).flatMap { row in
      let columns = Columns(row)
      guard let through = columns.integer(0), let round = columns.integer(1) else { return nil }
      return CatalogRound(number: round, isOfNewRows: round > through)
    }
  }

  /// Compiles every statement, which fails when the tables are not as they should be.
  static func prepareAll(_ database: Database) throws {
    for sql in [
      selectPage, selectListed, selectEntry, selectRecorded, selectHistoryIDs, selectWithPointers,
      selectWithParts, selectDeliveries, selectKnownByID, selectDoubtful, selectAllKnown,
      upsertFile, clearDelivery,
      keepTime, selectSessions, selectDiskRound, updateDiskRound, selectInstance, updateInstance,
    ] + publicationStatements {
      _ = try database.cachedStatement(sql: sql)
    }
  }

  /// Where a page begins: after this identity, which may be none.
  struct PageStart: Sendable {
    let lastID: Data

    /// Every blob comes after the empty one, and what is no blob is no identity.
    static let first = PageStart(lastID: Data())
  }

  /// Entries in the order of their identities, and where the next page begins; nil after the last.
  static func page(
    from start: PageStart, _ database: Database
  ) throws -> (entries: [CatalogEntry], next: PageStart?) {
    var entries: [CatalogEntry] = []
    var count = 0
    var last = start
    let rows = try Row.fetchCursor(
      database.cachedStatement(sql: selectPage), arguments: [start.lastID, pageRowsMax])
    while let row = try rows.next() {
      let columns = Columns(row)
      count += 1
      last = columns.data(0).map { PageStart(lastID: $0) } ?? last
      // A row that cannot be understood counts as not there: the file is found in the spool, and uploaded again.
      if let entry = wholeEntry(columns) { entries.append(entry) }
    }
    return (entries, count < pageRowsMax ? nil : last)
  }

  /// Entries of files of which a server has parts, and the files that are gone.
  static func withPartsElsewhere(
    _ database: Database
  ) throws -> (entries: [CatalogEntry], former: [FileID], hasDeliveries: Bool) {
    var entries: [CatalogEntry] = []
    var seen: LookupSet<FileID> = []
    for sql in [selectWithPointers, selectWithParts] {
      let rows = try Row.fetchCursor(database.cachedStatement(sql: sql))
      while let row = try rows.next() {
        guard let entry = wholeEntry(Columns(row)), seen.insert(entry.id).inserted else { continue }
        entries.append(entry)
      }
    }
    var former: [FileID] = []
    let rows = try Row.fetchCursor(database.cachedStatement(sql: selectHistoryIDs))
    while let row = try rows.next() {
      if let id = Columns(row).fileID(0) { former.append(id) }
    }
    let hasDeliveries = try Bool.fetchOne(database.cachedStatement(sql: selectDeliveries)) ?? false
    return (entries, former, hasDeliveries)
  }

  static func entry(_ file: FileID, _ database: Database) throws -> CatalogEntry? {
    try Row.fetchOne(database.cachedStatement(sql: selectEntry), arguments: [file.blob])
      .flatMap { wholeEntry(Columns($0)) }
  }

  /// What cannot be understood counts as not there, and ends no list.
  static func listed(after id: FileID, countMax: Int, _ database: Database) throws -> ListedRows {
    var listed = ListedRows()
    var count = 0
    let rows = try Row.fetchCursor(database.cachedStatement(sql: selectListed), arguments: [id.blob, countMax])
    while let row = try rows.next() {
      let columns = Columns(row)
      count += 1
      guard let id = columns.fileID(0) else { continue }
      listed.last = id
      guard let path = columns.path(1), let size = columns.integer(2),
        let state = columns.text(3).flatMap(CatalogState.init(rawValue:))
      else { continue }
      listed.rows.append(ListedRow(id: id, path: path, sizeBytes: UInt64(bitPattern: size), state: state))
    }
    if count < countMax { listed.last = nil }
    return listed
  }

  private static func wholeEntry(_ columns: Columns) -> CatalogEntry? {
    guard var entry = entry(columns) else { return nil }
    entry.publishedPaths = columns.paths(12)
    entry.receipt = receipt(columns)
    // No proof, no delivery.
    if entry.state == .complete, entry.receipt == nil { entry.state = .pending }
    return entry
  }

  /// Read before the mount is there, of all that was ever delivered: without a value of its own for each column.
  static func recordedFiles(_ database: Database) throws -> RecordedFiles {
    var recorded = RecordedFiles()
    var numbers: [(inode: UInt64, id: FileID)] = []
    let rows = try Row.fetchCursor(database.cachedStatement(sql: selectRecorded))
    while let row = try rows.next() {
      // The statement sees to it that they are of these types, without which GRDB traps.
      let bytes: UUID = row[0]
      let inode: Int64? = row[1]
      let id = FileID(bytes)
      recorded.files.append(id)
      if let inode { numbers.append((UInt64(bitPattern: inode), id)) }
    }
    recorded.byNumber = KnownIdentities(numbers)
    return recorded
  }

  /// What is known of files that may be in the spool, by their names: of all, or of the doubtful ones. Of several under one name the
  /// one that was recorded last counts, and a doubtful one before all others.
  static func known(onlyDoubtful: Bool, _ database: Database) throws -> [RelativePath: KnownCapture] {
    var known: [RelativePath: KnownCapture] = [:]
    let rows = try Row.fetchCursor(
      database.cachedStatement(sql: onlyDoubtful ? selectDoubtful : selectAllKnown))
    while let row = try rows.next() {
      guard let capture = capture(Columns(row)) else { continue }
      if let other = known[capture.path], other.isDoubtful, !capture.isDoubtful { continue }
      known[capture.path] = capture
    }
    return known
  }

  /// What is known of one file that may be in the spool.
  static func known(_ file: FileID, _ database: Database) throws -> KnownCapture? {
    try Row.fetchOne(database.cachedStatement(sql: selectKnownByID), arguments: [file.blob])
      .flatMap { capture(Columns($0)) }
  }

  private static func capture(_ columns: Columns) -> KnownCapture? {
    guard let id = columns.fileID(0), let path = columns.path(1), let size = columns.integer(2),
      let modified = columns.integer(3)
    else { return nil }
    var known = KnownCapture(
      id: id, path: path, sizeBytes: UInt64(bitPattern: size), modifiedNanoseconds: modified,
      doubt: doubt(columns.text(4)), pointer: columns.text(5).flatMap { SessionPointer($0) })
    known.isEvicted = columns.text(6) == CatalogState.evicted.rawValue
    known.isOnDisk = columns.integer(7) == 1
    known.recordedIn = columns.text(8)
    return known
  }

  /// What is not understood doubts all the same.
  private static func doubt(_ text: String?) -> Interruption? { text.map { Interruption($0) ?? .unproven } }

  static func upsert(_ entry: CatalogEntry, _ database: Database) throws {
    let receipt = entry.receipt
    try database.cachedStatement(sql: upsertFile).execute(arguments: [
      entry.id.blob, Data(entry.path.bytes), Int64(bitPattern: entry.inode), Int64(bitPattern: entry.sizeBytes),
      entry.modifiedNanoseconds, Int64(bitPattern: entry.revision), entry.state.rawValue, entry.failureCode,
      entry.failureMessage, entry.completedAtMilliseconds, entry.openedAtMilliseconds, entry.closedAtMilliseconds,
      // No path holds a zero byte.
      entry.publishedPaths.isEmpty ? nil : Data(entry.publishedPaths.map(\.bytes).joined(separator: [0])),
      receipt?.id, receipt?.name, receipt.map { Int64(bitPattern: $0.sizeBytes) }, receipt?.merkleRoot,
      receipt?.chainTip, receipt?.publishedAtMilliseconds, receipt?.answer, entry.doubt?.text, entry.pointer?.text,
      receipt?.fileID?.blob, entry.session, receipt?.publishedAs, receipt?.chunkBytes, receipt?.durationMilliseconds,
    ])
    if entry.state.isHistory { try keepTime(of: entry.id, database) }
  }

  /// The time of a capture may have been set after it was sent. What is put back in its place, once the row does not say that any more, is
  /// compared with the later one.
  private static func keepTime(of file: FileID, _ database: Database) throws {
    try database.cachedStatement(sql: keepTime).execute(arguments: [file.blob])
  }

  static func markChanged(_ file: FileID, _ database: Database) throws {
    try keepTime(of: file, database)
    try database.cachedStatement(sql: clearDelivery).execute(arguments: [file.blob])
  }

  static func remove(_ file: FileID, _ database: Database) throws {
    try keepTime(of: file, database)
    try database.cachedStatement(sql: "DELETE FROM file WHERE id = ?").execute(arguments: [file.blob])
  }

  static func pruneHistory(_ database: Database, keeping count: Int) throws {
    try database.cachedStatement(
      sql: """
        DELETE FROM file WHERE id IN (SELECT id FROM file WHERE state IN ('evicted', 'removed')
        ORDER BY changed DESC LIMIT -1 OFFSET ?)
        """
    ).execute(arguments: [count])
  }

  private static func entry(_ columns: Columns) -> CatalogEntry? {
    guard let id = columns.fileID(0), let path = columns.path(1), let inode = columns.integer(2),
      let size = columns.integer(3), let modified = columns.integer(4), let revision = columns.integer(5),
      let state = columns.text(6).flatMap(CatalogState.init(rawValue:))
    else { return nil }
    return CatalogEntry(
      id: id, path: path, inode: UInt64(bitPattern: inode), sizeBytes: UInt64(bitPattern: size),
      modifiedNanoseconds: modified, revision: UInt64(bitPattern: revision), state: state,
      failureCode: columns.text(7), failureMessage: columns.text(8), completedAtMilliseconds: columns.integer(9),
      openedAtMilliseconds: columns.integer(10), closedAtMilliseconds: columns.integer(11),
      doubt: doubt(columns.text(20)), pointer: columns.text(21).flatMap { SessionPointer($0) },
      session: columns.text(23))
  }

  private static func receipt(_ columns: Columns) -> Receipt? {
    guard let id = columns.text(13), let name = columns.text(14), let size = columns.integer(15),
      let merkleRoot = columns.text(16), let chainTip = columns.text(17), let published = columns.integer(18)
    else { return nil }
    return Receipt(
      id: id, name: name, sizeBytes: UInt64(bitPattern: size), merkleRoot: merkleRoot, chainTip: chainTip,
      publishedAtMilliseconds: published, answer: columns.text(19),
      publishedAs: columns.text(24), fileID: columns.fileID(22),
      chunkBytes: columns.integer(25).map { Int(clamping: $0) },
      durationMilliseconds: columns.integer(26))
  }
}

/// A row's columns as what they should be, or nil: GRDB's own conversions trap on a value of another type, which a
/// damaged database can hold.
struct Columns {
  private let row: Row

  init(_ row: Row) {
    self.row = row
  }

  func integer(_ index: Int) -> Int64? {
    guard case .int64(let number) = storage(index) else { return nil }
    return number
  }

  func data(_ index: Int) -> Data? {
    guard case .blob(let data) = storage(index) else { return nil }
    return data
  }

  func text(_ index: Int) -> String? {
    guard case .string(let text) = storage(index) else { return nil }
    return text
  }

  func path(_ index: Int) -> RelativePath? {
    guard case .blob(let data) = storage(index) else { return nil }
    return RelativePath(bytes: Array(data))
  }

  /// Paths, each ended by a zero byte or by the end.
  func paths(_ index: Int) -> [RelativePath] {
    guard case .blob(let data) = storage(index) else { return [] }
    return data.split(separator: 0).compactMap { RelativePath(bytes: Array($0)) }
  }

  func fileID(_ index: Int) -> FileID? {
    guard case .blob(let data) = storage(index) else { return nil }
    return FileID(blob: data)
  }

  private func storage(_ index: Int) -> DatabaseValue.Storage {
    let value: DatabaseValue = row[index]
    return value.storage
  }
}

extension FileID {
  /// Big-endian, so that SQLite's order of bytes is the order of identities, which is that of time.
  var blob: Data {
    var writer = ByteWriter(capacity: 16)
    writer.append(high.byteSwapped)
    writer.append(low.byteSwapped)
    return Data(writer.bytes)
  }

  /// Nil for what is no identity.
  init?(blob: Data) {
    // A start reads one for each file that was ever delivered: without copies.
    guard blob.count == 16 else { return nil }
    self = blob.withUnsafeBytes { FileID(bigEndian: $0) }
  }

  /// The same of 16 bytes that GRDB takes from the database without a copy of their own.
  fileprivate init(_ bytes: UUID) { self = withUnsafeBytes(of: bytes.uuid) { FileID(bigEndian: $0) } }

  private init(bigEndian bytes: UnsafeRawBufferPointer) {
    self.init(
      high: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self)),
      low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
  }
}

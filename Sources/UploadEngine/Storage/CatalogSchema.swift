import FileModel
import Foundation
import GRDB

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
    return migrator
  }

  /// True when a newer version has been at the tables. Its migrations are numbers, too: any other word is damage, which
  /// must not keep a mount from starting.
  static func isNewer(_ database: Database) throws -> Bool {
    guard try migrator.hasBeenSuperseded(database) else { return false }
    let applied = try String.fetchAll(database, sql: "SELECT CAST(identifier AS TEXT) FROM grdb_migrations")
    guard applied.allSatisfy({ UInt16($0) != nil }) else {
      throw StorageError(.damaged, "the list of its versions holds something that is none")
    }
    return true
  }
}

/// Entries as rows. Unsigned numbers are stored as the signed ones with the same bits: they are compared for equality
/// only, and SQLite knows no others.
enum CatalogRows {
  private static let selectFiles = """
    SELECT id, path, inode, size, modified_ns, revision, state, failure_code, failure_message, completed_ms, opened_ms,
    closed_ms FROM file
    """
  private static let selectPublished = "SELECT file, path FROM published ORDER BY file, position"
  private static let selectReceipts =
    "SELECT file, id, name, size, merkle_root, chain_tip, published_ms FROM receipt"
  private static let upsertFile = """
    INSERT INTO file (id, path, inode, size, modified_ns, revision, state, failure_code, failure_message, completed_ms,
    opened_ms, closed_ms, changed)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT COALESCE(MAX(changed), 0) + 1 FROM file))
    ON CONFLICT (id) DO UPDATE SET path = excluded.path, inode = excluded.inode, size = excluded.size,
    modified_ns = excluded.modified_ns, revision = excluded.revision, state = excluded.state,
    failure_code = excluded.failure_code, failure_message = excluded.failure_message,
    completed_ms = excluded.completed_ms, opened_ms = excluded.opened_ms, closed_ms = excluded.closed_ms,
    changed = excluded.changed
    """
  private static let insertPublished = "INSERT INTO published (file, position, path) VALUES (?, ?, ?)"
  private static let insertReceipt = """
    INSERT INTO receipt (file, id, name, size, merkle_root, chain_tip, published_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
    """

  /// Compiles every statement, which fails when the tables are not as they should be.
  static func prepareAll(_ database: Database) throws {
    for sql in [selectFiles, selectPublished, selectReceipts, upsertFile, insertPublished, insertReceipt] {
      _ = try database.cachedStatement(sql: sql)
    }
  }

  static func all(_ database: Database) throws -> [CatalogEntry] {
    var published: [FileID: [RelativePath]] = [:]
    let publishedRows = try Row.fetchCursor(database, sql: selectPublished)
    while let row = try publishedRows.next() {
      let columns = Columns(row)
      if let id = columns.fileID(0), let path = columns.path(1) { published[id, default: []].append(path) }
    }
    var receipts: [FileID: Receipt] = [:]
    let receiptRows = try Row.fetchCursor(database, sql: selectReceipts)
    while let row = try receiptRows.next() {
      let columns = Columns(row)
      if let id = columns.fileID(0) { receipts[id] = receipt(columns) }
    }
    var entries: [CatalogEntry] = []
    let fileRows = try Row.fetchCursor(database, sql: selectFiles)
    while let row = try fileRows.next() {
      // A row that cannot be understood counts as not there: the file is found in the spool, and uploaded again.
      guard var entry = entry(Columns(row)) else { continue }
      entry.publishedPaths = published[entry.id] ?? []
      entry.receipt = receipts[entry.id]
      // No proof, no delivery.
      if entry.state == .complete, entry.receipt == nil { entry.state = .pending }
      entries.append(entry)
    }
    return entries
  }

  static func upsert(_ entry: CatalogEntry, _ database: Database) throws {
    let id = entry.id.blob
    try database.cachedStatement(sql: upsertFile).execute(arguments: [
      id, Data(entry.path.bytes), Int64(bitPattern: entry.inode), Int64(bitPattern: entry.sizeBytes),
      entry.modifiedNanoseconds, Int64(bitPattern: entry.revision), entry.state.rawValue, entry.failureCode,
      entry.failureMessage, entry.completedAtMilliseconds, entry.openedAtMilliseconds, entry.closedAtMilliseconds,
    ])
    try clearDelivery(id, database)
    let publish = try database.cachedStatement(sql: insertPublished)
    for (position, path) in entry.publishedPaths.enumerated() {
      try publish.execute(arguments: [id, position, Data(path.bytes)])
    }
    if let receipt = entry.receipt {
      try database.cachedStatement(sql: insertReceipt).execute(arguments: [
        id, receipt.id, receipt.name, Int64(bitPattern: receipt.sizeBytes), receipt.merkleRoot, receipt.chainTip,
        receipt.publishedAtMilliseconds,
      ])
    }
  }

  static func markChanged(_ file: FileID, _ database: Database) throws {
    let id = file.blob
    try database.cachedStatement(
      sql: "UPDATE file SET state = 'pending', completed_ms = NULL WHERE id = ? AND state <> 'pending'"
    ).execute(arguments: [id])
    try clearDelivery(id, database)
  }

  static func remove(_ file: FileID, _ database: Database) throws {
    // The other tables follow.
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

  private static func clearDelivery(_ id: Data, _ database: Database) throws {
    try database.cachedStatement(sql: "DELETE FROM published WHERE file = ?").execute(arguments: [id])
    try database.cachedStatement(sql: "DELETE FROM receipt WHERE file = ?").execute(arguments: [id])
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
      openedAtMilliseconds: columns.integer(10), closedAtMilliseconds: columns.integer(11))
  }

  private static func receipt(_ columns: Columns) -> Receipt? {
    guard let id = columns.text(1), let name = columns.text(2), let size = columns.integer(3),
      let merkleRoot = columns.text(4), let chainTip = columns.text(5), let published = columns.integer(6)
    else { return nil }
    return Receipt(
      id: id, name: name, sizeBytes: UInt64(bitPattern: size), merkleRoot: merkleRoot, chainTip: chainTip,
      publishedAtMilliseconds: published)
  }
}

/// A row's columns as what they should be, or nil: GRDB's own conversions trap on a value of another type, which a
/// damaged database can hold.
private struct Columns {
  private let row: Row

  init(_ row: Row) {
    self.row = row
  }

  func integer(_ index: Int) -> Int64? {
    guard case .int64(let number) = storage(index) else { return nil }
    return number
  }

  func text(_ index: Int) -> String? {
    guard case .string(let text) = storage(index) else { return nil }
    return text
  }

  func path(_ index: Int) -> RelativePath? {
    guard case .blob(let data) = storage(index) else { return nil }
    return RelativePath(bytes: Array(data))
  }

  func fileID(_ index: Int) -> FileID? {
    guard case .blob(let data) = storage(index) else { return nil }
    var reader = ByteReader(Array(data))
    guard let high = reader.take(UInt64.self), let low = reader.take(UInt64.self), reader.remaining == 0 else {
      return nil
    }
    return FileID(high: high.byteSwapped, low: low.byteSwapped)
  }

  private func storage(_ index: Int) -> DatabaseValue.Storage {
    let value: DatabaseValue = row[index]
    return value.storage
  }
}

extension FileID {
  /// Big-endian, so that SQLite's order of bytes is the order of identities, which is that of time.
  fileprivate var blob: Data {
    var writer = ByteWriter(capacity: 16)
    writer.append(high.byteSwapped)
    writer.append(low.byteSwapped)
    return Data(writer.bytes)
  }
}

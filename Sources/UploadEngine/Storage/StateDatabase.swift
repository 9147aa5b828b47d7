import CLinux
import GRDB
import Glibc

/// How the databases of the spool's state are opened, and what their errors mean.
enum StateDatabase {
  /// The path of a database that is on no disk.
  static let inMemory = ":memory:"
  /// How long a database is waited for that another program has open.
  private static let patienceSeconds = 5.0

  /// Opens a database, or makes one, and keeps every other program out of it until it is closed.
  ///
  /// Alone with its database SQLite keeps the index of the write-ahead log in memory. Shared, that is a mapped file (`-shm`): a page
  /// of it for which the disk has no place, or that was cut off, ends the process by SIGBUS in the middle of a recording.
  static func open(_ path: String) throws -> DatabaseQueue {
    guard path != inMemory else { return try DatabaseQueue() }
    for file in [path, path + "-wal"] { try requireFile(file) }
    let opened = try connect(path)
    do {
      // GRDB lowers this to NORMAL in WAL mode, which can lose the last transactions in a power cut. A receipt lets the
      // local copy be evicted, and a name is heard by a server: they have to be on the disk first.
      try opened.writeWithoutTransaction { database in
        try database.execute(sql: "PRAGMA synchronous = FULL")
        // A file that cannot be opened for writing SQLite opens for reading, without a word: here it says so.
        try database.inTransaction(.immediate) { .rollback }
      }
      removeSharedIndex(of: path)
      return opened
    } catch {
      try? opened.close()
      throw error
    }
  }

  /// SQLite says of what is no file that it cannot be opened, and of a pipe nothing.
  private static func requireFile(_ path: String) throws(StorageError) {
    var status = stat()
    // What cannot be examined shows when it is opened.
    guard stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { return }
    throw StorageError(.system(errno: EINVAL), "\(quoted(path)) is no file: move it away")
  }

  private static func connect(_ path: String) throws -> DatabaseQueue {
    var configuration = Configuration()
    configuration.journalMode = .wal
    configuration.foreignKeysEnabled = true
    configuration.busyMode = .timeout(patienceSeconds)
    // GRDB does this before it looks at the file for the first time, and only what is set by then keeps the index unshared.
    configuration.prepareDatabase { database in
      try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
      try database.execute(sql: "PRAGMA mmap_size = 0")
    }
    return try DatabaseQueue(path: path, configuration: configuration)
  }

  /// Copies what a connection sees to a path where there is nothing: one plain file, which can be read without writing beside it. It
  /// is not durable yet. What tells it from the original is changed in it.
  static func copy(
    _ database: DatabaseQueue, to path: String, changing change: (Database) throws -> Void = { _ in }
  ) throws {
    var configuration = Configuration()
    configuration.prepareDatabase { database in
      for setting in ["locking_mode = EXCLUSIVE", "mmap_size = 0", "journal_mode = OFF", "synchronous = OFF"] {
        try database.execute(sql: "PRAGMA \(setting)")
      }
    }
    let copy = try DatabaseQueue(path: path, configuration: configuration)
    do {
      try database.backup(to: copy)
      // Of a copy of a database with a log SQLite says that it has one, too.
      try copy.writeWithoutTransaction { database in
        try database.execute(sql: "PRAGMA journal_mode = DELETE")
        try change(database)
      }
    } catch {
      try? copy.close()
      throw error
    }
    try copy.close()
  }

  /// What a copy fails with is no failure of the original, which need not be opened anew nor be given room.
  static func failure(_ body: () throws -> Void) -> (any Error)? {
    do {
      try body()
      return nil
    } catch {
      return error
    }
  }

  static func copyError(_ error: any Error, _ path: String) -> StorageError {
    StorageError(kind(of: error) ?? .system(errno: EIO), "\(quoted(path)) cannot be copied: \(describe(error))")
  }

  /// The index that an earlier version or another program has left. Whatever is in its place is not looked at any more.
  private static func removeSharedIndex(of path: String) {
    if unlink(path + "-shm") != 0, errno == EISDIR { rmdir(path + "-shm") }
  }

  /// Whether there is a file of 0 bytes, or a head without a table, as a start that was killed leaves behind and some damage does: SQLite
  /// takes both for a new database. What cannot be examined is not bare; opening it says why.
  static func isBare(_ path: String) -> Bool {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return false }
    return status.st_size == 0 || hasNoSchema(path)
  }

  /// SQLite's file format, section 1.3: a magic string, and at byte 40 how often the schema has changed. What is still in the log is not in the
  /// file.
  private static func hasNoSchema(_ path: String) -> Bool {
    var log = stat()
    guard stat(path + "-wal", &log) == 0 ? log.st_size == 0 : errno == ENOENT else { return false }
    let descriptor = Glibc.open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    let head = [UInt8](unsafeUninitializedCapacity: 44) { buffer, count in
      count = max(0, pread(descriptor, buffer.baseAddress, buffer.count, 0))
    }
    return head.count == 44 && head.starts(with: "SQLite format 3\0".utf8) && head[40...].allSatisfy { $0 == 0 }
  }

  /// Without the statement and its values, which hold the names of captures; with what to do about it, where that is known.
  static func describe(_ error: any Error) -> String {
    switch error {
    case let error as StorageError: error.message
    case let error as DatabaseError:
      (error.message ?? "SQLite reports \(error.resultCode.rawValue)") + (advice(on: error).map { "; \($0)" } ?? "")
    default: "\(error)"
    }
  }

  private static func advice(on error: DatabaseError) -> String? {
    switch error.resultCode {
    case .SQLITE_BUSY, .SQLITE_LOCKED: "another program has it open, and has to let go of it"
    case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM:
      "its folder, the file and those beside it whose names begin with its own have to be the daemon's to read and write"
    case .SQLITE_IOERR: "the disk fails: the kernel's log (dmesg) says how"
    case .SQLITE_FULL: "the spool's disk needs free space"
    default: nil
    }
  }

  /// What went wrong, for decisions; nil where only the content can be to blame.
  static func kind(of error: any Error) -> StorageError.Kind? {
    guard let error = error as? DatabaseError else { return nil }
    return switch error.resultCode {
    case .SQLITE_FULL: .full
    case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM: .system(errno: EACCES)
    case .SQLITE_BUSY, .SQLITE_LOCKED: .system(errno: EBUSY)
    default: nil
    }
  }

  /// True where it can be the disk's or a quota's lack of space.
  static func wantsRoom(_ error: any Error) -> Bool {
    guard let error = error as? DatabaseError else { return false }
    switch (error.resultCode, error.extendedResultCode) {
    case (.SQLITE_FULL, _), (.SQLITE_CANTOPEN, _), (_, .SQLITE_IOERR_WRITE), (_, .SQLITE_IOERR_FSYNC),
      (_, .SQLITE_IOERR_TRUNCATE), (_, .SQLITE_IOERR_DIR_FSYNC):
      return true
    default: return false
    }
  }

  /// True where the content is said to be to blame.
  static func saysDamaged(_ error: any Error) -> Bool {
    switch error {
    case let error as StorageError: error.kind == .damaged
    case let error as DatabaseError: [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode)
    default: false
    }
  }

  /// Moves a database with its log, which would otherwise be applied to the one that takes its place; each may be missing. Says where the
  /// database is.
  static func moveAside(_ path: String) throws(StorageError) -> String {
    // The first damage says most about its cause, so the early ones are kept and the last place is used again.
    let numbers = 1...10
    let number = numbers.first { access("\(path).damaged-\($0)", F_OK) != 0 } ?? numbers.upperBound
    let aside = "\(path).damaged-\(number)"
    for suffix in ["-wal", "-shm"] {
      unlink(aside + suffix)
      if rename(path + suffix, aside + suffix) != 0, errno != ENOENT {
        throw .system(errno, cannot: "move \(quoted(path + suffix)) away")
      }
    }
    if rename(path, aside) != 0, errno != ENOENT { throw .system(errno, cannot: "move \(quoted(path)) away") }
    return aside
  }

  /// What SQLite finds wrong in a database, in one line; nil where that is nothing.
  static func finding(in database: DatabaseQueue) throws -> String? {
    let findings = try database.read { try String.fetchAll($0, sql: "PRAGMA quick_check(1)") }
    guard findings != ["ok"] else { return nil }
    // A heading comes before the first one.
    return findings.first?.split(separator: "\n").last.map(String.init) ?? "the database cannot be checked"
  }

  /// Whether the disk gives every byte of a database and its log, whatever they say.
  static func canBeRead(_ path: String) -> Bool {
    guard path != inMemory else { return true }
    return [path, path + "-wal"].allSatisfy { canBeReadAlone($0) }
  }

  private static func canBeReadAlone(_ path: String) -> Bool {
    let descriptor = Glibc.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return errno == ENOENT || errno == ELOOP }
    defer { close(descriptor) }
    let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 1)
    defer { block.deallocate() }
    guard let base = block.baseAddress else { return true }
    var offset: off_t = 0
    while true {
      let count = uploadfs_pread_all(descriptor, base, block.count, offset)
      // A folder in its place says nothing of the disk.
      guard count == block.count else { return errno == 0 || errno == EISDIR }
      offset += off_t(count)
    }
  }

  /// True for what the system has refused: another connection may get it, now or later.
  static func mayPass(_ error: any Error) -> Bool {
    guard let error = error as? DatabaseError else { return false }
    switch error.resultCode {
    case .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_NOMEM, .SQLITE_PROTOCOL: return true
    default: return false
    }
  }
}

import Glibc

/// Says of a database of the state that it is in use: an empty file beside it, from its opening to its end. As long as it is there what was
/// recorded last stands in the database's log (`-wal`); where that is not there, it is lost (docs/semantics.md, S45f).
///
/// Nothing depends on a marker that the disk does not take: then a lost log is not noticed.
enum LogMarker {
  /// Whether the log was lost while the database was in use. Stays so, whatever becomes of this start, until ``settle(_:)``.
  static func findsLoss(of path: String) -> Bool {
    guard path != StateDatabase.inMemory else { return false }
    guard isThere(path) else {
      end(path)
      settle(path)
      return false
    }
    if isFile(lost(path)) { return true }
    guard isFile(inUse(path)) else { return false }
    guard !isThere(path + "-wal") else {
      // A start that fails lets SQLite empty the log and remove it.
      end(path)
      return false
    }
    // Where the disk refuses that, this start deals with the loss, or none does.
    rename(inUse(path), lost(path))
    return true
  }

  /// What was lost is known, and durable.
  static func settle(_ path: String) { unlink(lost(path)) }

  /// From now on what is recorded stands in the log.
  static func begin(_ path: String) {
    guard path != StateDatabase.inMemory else { return }
    let descriptor = open(inUse(path), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
    if descriptor >= 0 { close(descriptor) }
  }

  /// Before SQLite empties the log and removes it.
  static func end(_ path: String) { unlink(inUse(path)) }

  private static func inUse(_ path: String) -> String { path + "-open" }
  private static func lost(_ path: String) -> String { path + "-lost" }

  /// What cannot be examined may be there.
  private static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 || errno != ENOENT }

  private static func isFile(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }
}

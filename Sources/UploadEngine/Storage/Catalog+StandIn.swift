import CLinux
import GRDB
import Glibc

/// The copy that is made for backups (``StateCopies``) in the place of a catalog that is missing or damaged.
extension Catalog {
  /// Puts it there; false where there is none that is whole. What it says was delivered is to be compared with what lies in the spool:
  /// a program that sets times can have changed that since, with the same size and time.
  static func standIn(for path: String) -> Bool { restoredCopy(of: path).map { adopt($0, as: path) } ?? false }

  /// The path of what takes the place of a catalog; nil where there is no copy that is whole.
  static func restoredCopy(of path: String) -> String? {
    let copy = StateCopies.path(of: path)
    var status = stat()
    guard path != StateDatabase.inMemory, lstat(copy, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      return nil
    }
    let temporary = path + AtomicFile.temporarySuffix
    do {
      unlink(temporary)
      try restore(copy, to: temporary)
      return temporary
    } catch {
      // Without it more is delivered again, and nothing is lost.
      unlink(temporary)
      return nil
    }
  }

  /// False where the disk does not take it.
  static func adopt(_ copy: String, as path: String) -> Bool {
    do {
      try AtomicFile.adopt(copy, as: path, effects: .system)
      return true
    } catch {
      unlink(copy)
      return false
    }
  }

  private static func restore(_ copy: String, to path: String) throws {
    var configuration = Configuration()
    configuration.readonly = true
    let original = try DatabaseQueue(path: copy, configuration: configuration)
    try check(original)
    try StateDatabase.copy(original, to: path)
    try original.close()
    let restored = try DatabaseQueue(path: path)
    try doubtDeliveries(restored)
    try restored.close()
  }

  /// What is older than what was delivered is read before it is believed.
  static func doubtDeliveries(_ database: DatabaseQueue) throws {
    try database.write { try CatalogRows.doubtDeliveries($0) }
  }

  /// Whether a copy was made after the database was written to last, whose log is not counted.
  static func isCopyLater(of path: String) -> Bool {
    var (original, copy) = (stat(), stat())
    guard stat(path, &original) == 0, lstat(StateCopies.path(of: path), &copy) == 0, copy.st_size > 0 else {
      return false
    }
    let (before, after) = (original.st_mtim, copy.st_mtim)
    return (after.tv_sec, after.tv_nsec) > (before.tv_sec, before.tv_nsec)
  }
}

extension CatalogRows {
  /// A nanosecond earlier no file was changed, so that each is read before it counts as what was delivered; and one that is put back from a
  /// backup, with its own time, is still older than that.
  fileprivate static func doubtDeliveries(_ database: Database) throws {
    try database.execute(
      sql: "UPDATE file SET modified_ns = modified_ns - 1 WHERE state = ? AND modified_ns > ?",
      arguments: [CatalogState.complete.rawValue, Int64.min])
  }
}

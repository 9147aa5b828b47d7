import Glibc
import Logging
import Synchronization
import Threads

/// A database of which copies are made.
protocol CopiedDatabase: Sendable {
  var path: String { get }
  /// Rises with each change of its content.
  var changeCount: UInt64 { get }
  /// Writes a consistent copy to a path where there is nothing, not durable yet. Users of the database wait meanwhile: about
  /// two milliseconds for each megabyte.
  func copy(to path: String) throws(StorageError)
}

/// Copies of the state's databases, beside them, for programs that make backups: as long as a mount is there, the databases
/// themselves are the daemon's alone.
///
/// A copy is made a minute after a change and when the mount ends, on a thread of its own, and replaces the one before it. Large ones
/// are made more seldom, and none is made where it would take space that is to stay free.
final class StateCopies: Sendable {
  /// The least time between two copies of one database.
  static let pauseSeconds: Int64 = 60
  /// Bytes that copies add to the disk's work, on average: a database of 40 MB is copied every ten minutes.
  static let bytesPerSecond: Int64 = 64 << 10

  private struct Original {
    let database: any CopiedDatabase
    /// What was copied last; nil before the first copy.
    var copiedCount: UInt64?
    /// No copy is made before this.
    var notBefore: Int64
  }

  private let reserveBytes: UInt64
  private let pauseNanoseconds: Int64
  private let logger: Logger
  private let originals = Mutex<[Original]>([])
  private let isStopping = Monitor(false)
  private let thread = Mutex<WorkerThread?>(nil)

  /// `reserveBytes` of the disk stay free. `pauseSeconds` is another one in tests.
  init(reserveBytes: UInt64, pauseSeconds: Int64 = StateCopies.pauseSeconds, logger: Logger) {
    self.reserveBytes = reserveBytes
    pauseNanoseconds = pauseSeconds * 1_000_000_000
    self.logger = logger
  }

  /// The copy of a database: `catalog.sqlite` becomes `catalog.backup.sqlite`.
  static func path(of original: String) -> String {
    let suffix = ".sqlite"
    return (original.hasSuffix(suffix) ? String(original.dropLast(suffix.count)) : original) + ".backup" + suffix
  }

  /// Copies this one as well from now on.
  func add(_ database: any CopiedDatabase) {
    let notBefore = monotonicNanoseconds() + pauseNanoseconds
    originals.withLock { $0.append(Original(database: database, notBefore: notBefore)) }
    thread.withLock { thread in
      thread = thread ?? WorkerThread("copies", .answering) { [self] in run() }
    }
  }

  /// Copies what has changed, and ends.
  func stop() {
    isStopping.withLock { isStopping, signal in
      isStopping = true
      signal.broadcast()
    }
    thread.withLock { $0.take() }?.join()
    copyWhatHasChanged(at: .max)
  }

  private func run() {
    while true {
      let next = monotonicNanoseconds() + pauseNanoseconds
      let isOver = isStopping.wait { isStopping in
        isStopping ? .done(true) : monotonicNanoseconds() >= next ? .done(false) : .againBy(nanoseconds: next)
      }
      if isOver { return }
      copyWhatHasChanged(at: monotonicNanoseconds())
    }
  }

  private func copyWhatHasChanged(at now: Int64) {
    for index in originals.withLock({ $0.indices }) {
      let original = originals.withLock { $0[index] }
      let count = original.database.changeCount
      let target = Self.path(of: original.database.path)
      guard now >= original.notBefore, count != original.copiedCount || access(target, F_OK) != 0 else { continue }
      let isCopied = copy(original.database, to: target)
      let notBefore = monotonicNanoseconds() + pauseAfterCopying(target)
      originals.withLock { originals in
        originals[index].notBefore = notBefore
        if isCopied { originals[index].copiedCount = count }
      }
    }
  }

  private func pauseAfterCopying(_ copy: String) -> Int64 {
    var status = stat()
    guard stat(copy, &status) == 0 else { return pauseNanoseconds }
    return max(pauseNanoseconds, Int64(status.st_size) / Self.bytesPerSecond * 1_000_000_000)
  }

  private func copy(_ database: any CopiedDatabase, to target: String) -> Bool {
    let temporary = target + AtomicFile.temporarySuffix
    do throws(StorageError) {
      guard try hasSpace(for: database) else { return false }
      unlink(temporary)
      try database.copy(to: temporary)
      try AtomicFile.adopt(temporary, as: target, effects: .system)
      return true
    } catch {
      unlink(temporary)
      logger.warning(
        "cannot copy a database of the spool's state for backups; the copy before it stays, if there is one",
        metadata: ["error": "\(error)"])
      return false
    }
  }

  private func hasSpace(for database: any CopiedDatabase) throws(StorageError) -> Bool {
    let path = database.path
    let folder = path.unicodeScalars.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    var numbers = statvfs()
    guard statvfs(folder, &numbers) == 0 else { throw .system(errno, cannot: "examine \(quoted(folder))") }
    var neededBytes = reserveBytes
    for suffix in ["", "-wal"] {
      var status = stat()
      if stat(path + suffix, &status) == 0 {
        neededBytes += UInt64(clamping: status.st_size)
      } else if errno != ENOENT {
        throw .system(errno, cannot: "examine \(quoted(path + suffix))")
      }
    }
    let (freeBytes, isOver) = UInt64(numbers.f_bavail).multipliedReportingOverflow(by: UInt64(numbers.f_frsize))
    return isOver || freeBytes >= neededBytes
  }
}

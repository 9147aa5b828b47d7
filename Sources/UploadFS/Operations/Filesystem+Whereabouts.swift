import CLinux
import Glibc
import Synchronization

/// Why the folders of the spool are not where they were when the mount began.
public struct SpoolFault: Hashable, Sendable {
  /// The word for programs.
  public var code: String
  /// What is wrong and what to do, for people.
  public var message: String
}

/// The spool's folders are kept open, and found by their path by all others: the engine's records and the next start. The
/// two part when a folder is moved or removed, or another filesystem is mounted over it. Captures still go where the
/// descriptors lead, and no other program may find them there.
extension Filesystem {
  /// Looks at the spool's folders each second until ``stopFlushing()``, and says each change; nil when all is well again. For a
  /// thread of its own: a disk that hangs holds it up.
  public func watchSpool(whenChanged: (SpoolFault?) -> Void) {
    repeat {
      if let news = spool.watch.look() { whenChanged(news.found) }
    } while flushes.waitUnlessClosed(seconds: 1)
  }

  /// What the last look found; nil when all is well.
  public var spoolTrouble: SpoolFault? { spool.watch.lastFound }
}

/// What the checks of the spool's folders have found. The thread that watches them looks; others ask for the last answer.
final class SpoolWatch: Sendable {
  private let folders: SpoolFolders
  private let known = Mutex<SpoolFault?>(nil)

  /// An answer that is another one than the last; nil when all is well again.
  struct News: Hashable, Sendable {
    var found: SpoolFault?
  }

  init(of folders: SpoolFolders) {
    self.folders = folders
  }

  /// What is found now, where that is another answer than the last. A disk that hangs holds this up, and no lock meanwhile.
  func look() -> News? {
    let found = folders.trouble()
    let isNews = known.withLock { known in
      defer { known = found }
      return known != found
    }
    return isNews ? News(found: found) : nil
  }

  /// What the last look found; nil when all is well.
  var lastFound: SpoolFault? { known.withLock { $0 } }
}

/// The spool's folders as they were at the start.
struct SpoolFolders: Sendable {
  private let captures: FileDescriptor
  /// Each folder of the spool, with the inode that stood there.
  private var known: [(path: String, key: SpoolKey)] = []

  init(of spool: String, captures: FileDescriptor) {
    self.captures = captures
    for path in [spool, spool + "/captures", spool + "/.state"] {
      var status = stat()
      if stat(path, &status) == 0 { known.append((path, status.key)) }
    }
  }

  func trouble() -> SpoolFault? {
    do throws(SystemError) {
      _ = try captures.status()
      for (path, key) in known {
        var status = stat()
        try check(stat(path, &status))
        if status.key != key { return exchanged(path) }
      }
      return nil
    } catch  where error.isAbsence {
      return missing
    } catch {
      return SpoolFault(
        code: "spool-unreadable",
        message:
          "The spool's folder cannot be looked at (\(String(cString: strerror(error.code)))). Look after its disk.")
    }
  }

  private var missing: SpoolFault {
    SpoolFault(
      code: "spool-missing",
      message:
        "A folder of the spool \(known.first?.path ?? "") was moved or removed. What is written meanwhile goes where it "
        + "is now, if anywhere, and is not found at the next start: put it back.")
  }

  private func exchanged(_ path: String) -> SpoolFault {
    SpoolFault(
      code: "spool-exchanged",
      message:
        "Another folder stands at \(path) than when the mount began, or another filesystem was mounted there. What is "
        + "written meanwhile goes into the one before, and is not found at the next start: put that back.")
  }
}

import FileModel
import Synchronization

/// Where the spool lay before, and what earlier runs knew of its captures, until the spool has been searched.
final class SpoolHistory: Sendable {
  /// What earlier runs knew of all captures, by name.
  private enum KnownNames {
    /// Read when a file needs it; in a spool that was moved at once, where that can be read then.
    case unread
    case all([RelativePath: KnownCapture])
    case over

    static func read(from known: KnownCaptures) -> Self {
      do throws(KnownCapturesUnreadable) {
        return .all(try known.all())
      } catch {
        return .unread
      }
    }

    subscript(path: RelativePath) -> KnownCapture? {
      if case .all(let captures) = self { captures[path] } else { nil }
    }
  }

  /// Where the spool lay before.
  let stamp: SpoolStamp
  private let captures: KnownCaptures
  private let folder: FileDescriptor
  /// Taken below the namespace lock; the catalog is read under it once.
  private let byName: Mutex<KnownNames>
  /// Files of which nothing said who they are, at the first start of a version that lets files say it.
  private let unlabelledFiles = Atomic(0)

  /// Of the spool in this folder.
  init(stamp: SpoolStamp, in folder: FileDescriptor, captures: KnownCaptures) {
    self.stamp = stamp
    self.folder = folder
    self.captures = captures
    byName = Mutex(stamp.isMoved ? .read(from: captures) : .unread)
  }

  /// What earlier runs knew at a path. The catalog is read where it has not been.
  func known(at path: RelativePath) throws(KnownCapturesUnreadable) -> KnownCapture? {
    try byName.withLock { names throws(KnownCapturesUnreadable) in
      if case .unread = names { names = .all(try captures.all()) }
      return names[path]
    }
  }

  /// The same where the catalog was read already.
  func knownIfRead(at path: RelativePath) -> KnownCapture? { byName.withLock { $0[path] } }

  /// A file is met that does not say who it is.
  func metUnlabelled() { unlabelledFiles.add(1, ordering: .relaxed) }

  /// How many were met so far.
  var unlabelledCount: Int { unlabelledFiles.load(ordering: .relaxed) }

  /// Every file that lies here has been met, and says who it is.
  func end(captures root: FileDescriptor) {
    byName.withLock { $0 = .over }
    guard !stamp.isThere || stamp.isMoved else { return }
    do throws(SystemError) {
      try SpoolStamp.put(in: folder, captures: root)
    } catch {
      // The next start finds the spool as this one did.
    }
  }
}

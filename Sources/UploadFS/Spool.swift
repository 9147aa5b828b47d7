import Glibc
import Synchronization

/// The spool that a mount stands on: its folder of captures, what a power cut ends there, and what is known of where it lies. What changes
/// of it is behind locks of its own, under which none of the filesystem is taken.
final class Spool: Sendable {
  /// `captures/`.
  let captures: FileDescriptor
  let instance: SpoolInstance
  let shownInodes: ShownInodes
  /// The times of a file without a writer stay as they are. Those of network filesystems are the server's, which may say them
  /// some time after the change.
  let hasSteadyTimes: Bool
  /// Where the spool lay before, and what was known of it.
  let history: SpoolHistory
  /// Whether its folders are where they were.
  let watch: SpoolWatch
  /// What the folder of captures was like when the disk could say it last.
  private let lastStatus: Mutex<stat>

  /// `instance` stands in for the one that is found in tests.
  init(_ opened: SpoolDirectory, of configuration: FilesystemConfiguration, instance: SpoolInstance?) {
    captures = opened.captures
    lastStatus = Mutex(opened.status)
    watch = SpoolWatch(of: SpoolFolders(of: configuration.spoolDirectory, captures: opened.captures))
    history = SpoolHistory(stamp: opened.stamp, in: opened.folder, captures: configuration.knownCaptures)
    self.instance = instance ?? SpoolInstance(of: opened.captures)
    shownInodes = ShownInodes(device: opened.key.device)
    hasSteadyTimes = !RemoteFilesystem.holds(opened.captures)
  }

  /// What the folder of captures is like, or was when the disk said it last: what is said of the files stands below it, and is wanted most
  /// when the disk says nothing any more.
  func status() -> stat {
    do throws(SystemError) {
      let status = try captures.status()
      lastStatus.withLock { $0 = status }
      return status
    } catch {
      return lastStatus.withLock { $0 }
    }
  }
}

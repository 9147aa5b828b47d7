import FoundationEssentials
import Glibc
import MountConfiguration

/// How a daemon has ended, for `unmount`, which is not its parent and cannot ask the kernel: a file in the spool's state, that the
/// daemon writes last and takes away when it starts.
struct LastEnd: Codable, Hashable {
  var pid: Int32
  /// An ``ExitStatus``.
  var exitStatus: Int32
  /// What there is to say of it; nothing where all is well.
  var message: String?

  /// Below the spool.
  private static func path(in spool: String) -> String { "\(spool)/.state/last-end.json" }

  /// A daemon begins: nothing is known yet of its end.
  static func forget(in spool: String) { unlink(path(in: spool)) }

  /// A disk that does not take it leaves `unmount` without an answer, which is what it says then.
  func write(in spool: String) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys]
    guard let text = try? encoder.encode(self) else { return }
    let path = Self.path(in: spool)
    let temporary = "\(path).tmp"
    // What lies there is of a daemon that died while it wrote it, or a link or a pipe.
    unlink(temporary)
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return }
    let isWritten = [UInt8](text).withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) } == text.count
    // It is read on this run of the machine or never.
    guard Glibc.close(descriptor) == 0, isWritten else { return }
    Glibc.rename(temporary, path)
  }

  /// Nil where nothing is known, as after a crash.
  static func read(in spool: String, of pid: Int32) -> LastEnd? {
    guard let text = try? WholeFile.readSettings(path(in: spool), bytesMax: 1 << 20),
      let end = try? JSONDecoder().decode(LastEnd.self, from: Data(text)), end.pid == pid
    else { return nil }
    return end
  }
}

public import ReceiverCore
import CLinux
import Glibc

/// What an operator ends: also what is no file of the receiver's in a session's folder.
extension FileStore {
  private static let depthMax = 64

  /// Deletes all that lies in a session's folder. What a link leads to, and what is mounted there, is not in it.
  public func clear(_ session: SessionID) throws(StoreFailure) {
    remove(session)
    try FileStore.clear(EntryName(session.text), in: sessions, device: try sessions.status().st_dev, depth: 0)
  }

  private static func clear(
    _ name: EntryName, in parent: FileDescriptor, device: dev_t, depth: Int
  ) throws(StoreFailure) {
    guard let status = try FileDescriptor.statusIfPresent(name, in: parent) else { return }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      guard unlinkat(parent.raw, name.characters, 0) == 0 || errno == ENOENT else { throw .last("unlink \(name.text)") }
      return
    }
    guard status.st_dev == device else { throw .io("another filesystem is mounted at \(name.text)") }
    guard depth < depthMax else { throw .io("there are too many folders in one another") }
    guard let directory = try FileDescriptor.openIfPresent(name, in: parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) else {
      return
    }
    for entry in try DirectoryListing.entries(in: directory) {
      try clear(entry, in: directory, device: device, depth: depth + 1)
    }
    guard unlinkat(parent.raw, name.characters, AT_REMOVEDIR) == 0 || errno == ENOENT else {
      throw .last("rmdir \(name.text)")
    }
  }
}

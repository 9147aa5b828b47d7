public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Lookup
import Synchronization

/// Sessions that are over.
extension FileStore {
  /// What is left of a session that is removed when the receiver is killed after each step, a start sweeps away, or finds as it was: never
  /// data without a journal that a client may rely upon, nor a journal that says so without its data.
  enum Removal: CaseIterable {
    case reliance, journal, data, folder
  }

  /// Deletes what there is of a session.
  public func remove(_ session: SessionID) { remove(session, Removal.allCases) }

  func remove(_ session: SessionID, _ steps: [Removal]) {
    close(session)
    openFiles.withLock { open in
      open.failed.remove(session)
      open.renamed[session] = nil
      open.stamps[session] = nil
    }
    do throws(StoreFailure) {
      let directory = try FileDescriptor.open(session.text, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      for step in steps { try perform(step, in: directory, of: session) }
    } catch {
      // What is left of it is found again at the next start, and expires.
    }
  }

  private func perform(
    _ step: Removal, in directory: FileDescriptor, of session: SessionID
  ) throws(StoreFailure) {
    switch step {
    case .reliance:
      guard let data = try FileDescriptor.statusIfPresent("data", in: directory) else { return }
      guard data.st_mode & S_IFMT == S_IFREG else { return try Self.delete("data", in: directory) }
      // Under its other name it may be published, and keeps its mode.
      guard data.st_nlink == 1 else { return try replaceData(in: directory, of: session) }
      guard fchmodat(directory.raw, "data", FileStore.untoldMode, 0) == 0 else { throw .last("fchmodat") }
    // A folder in its place is not the receiver's.
    case .journal: try Self.delete("journal", in: directory, or: EISDIR)
    case .data: try Self.delete("data", in: directory)
    // Fails as long as anything is left in it.
    case .folder: unlinkat(sessions.raw, session.text, AT_REMOVEDIR)
    }
  }

  /// By an empty file that says of nothing that it is on the disk. At no moment is there none: a journal that a client relies upon would say
  /// that it was taken away.
  private func replaceData(in directory: FileDescriptor, of session: SessionID) throws(StoreFailure) {
    try Self.delete(session.text, in: incoming)
    _ = try FileDescriptor.open(
      session.text, in: incoming, O_WRONLY | O_CREAT | O_EXCL, mode: FileStore.untoldMode)
    guard renameat(incoming.raw, session.text, directory.raw, "data") == 0 else { throw .last("rename") }
  }

  static func delete(
    _ name: String, in directory: FileDescriptor, or tolerated: Int32 = ENOENT
  ) throws(StoreFailure) {
    guard unlinkat(directory.raw, name, 0) == 0 || [ENOENT, tolerated].contains(errno) else { throw .last("unlinkat") }
  }
}

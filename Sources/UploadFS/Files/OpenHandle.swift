import FileModel
import Synchronization

/// What a handle number of the kernel stands for.
enum OpenHandle: Sendable {
  case file(FileHandle)
  case directory(DirectoryHandle)
  case virtual(VirtualHandle)
}

/// One open of a regular file.
final class FileHandle: Sendable {
  let file: CapturedFile
  let descriptor: FileDescriptor
  let writes: Bool
  let isDirect: Bool
  /// A descriptor of it was closed and nothing was written since: it no longer counts as a direct writer.
  let isResting = Atomic<Bool>(false)

  init(file: CapturedFile, descriptor: FileDescriptor, writes: Bool, isDirect: Bool) {
    self.file = file
    self.descriptor = descriptor
    self.writes = writes
    self.isDirect = isDirect
  }
}

/// One open of a directory, with the listing that its cookies count in.
final class DirectoryHandle: Sendable {
  let node: NodeID
  /// Nil for virtual directories.
  let descriptor: FileDescriptor?
  let listing = Mutex<DirectoryListing?>(nil)

  init(node: NodeID, descriptor: FileDescriptor?) {
    self.node = node
    self.descriptor = descriptor
  }
}

/// One open of a virtual file: the bytes as they were at one moment.
final class VirtualHandle: Sendable {
  struct Snapshot {
    var bytes: [UInt8]
    var version: UInt64
  }

  let path: RelativePath
  let snapshot: Mutex<Snapshot>

  init(path: RelativePath, snapshot: Snapshot) {
    self.path = path
    self.snapshot = Mutex(snapshot)
  }
}

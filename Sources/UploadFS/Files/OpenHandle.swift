import FileModel
import Glibc
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
  let choice: CachingPolicy.Choice
  /// The thread that opened it; 0 when it cannot be seen from here.
  let opener: pid_t
  /// The epoch at which it was opened, if the content was whole then although the release of its writers was still to come.
  let wholeEpoch: UInt64?
  /// Of the thread that closed a descriptor of it last; 0 when that one was not killed.
  let killingSignal = Atomic<Int32>(0)
  /// Something was written through it, or its size or space changed.
  let hasChanged = Atomic<Bool>(false)
  /// A call has asked that what was written by then be on the disk.
  let hasSynchronized = Atomic<Bool>(false)
  /// A descriptor of it was closed and nothing was written since: it no longer counts as a writer.
  let isResting = Atomic<Bool>(false)
  /// Where the limit of a process that closed a descriptor of it had perhaps cut the file off, of one that writes past the daemon: its
  /// release decides. UInt64.max where none had.
  let cutBytes = Atomic<UInt64>(.max)
  /// It writes past pages that others have.
  let writesBehindPages = Atomic<Bool>(false)

  var writes: Bool { choice.opening.writes }

  init(file: CapturedFile, descriptor: FileDescriptor, choice: CachingPolicy.Choice, opener: pid_t, wholeEpoch: UInt64?)
  {
    self.file = file
    self.descriptor = descriptor
    self.choice = choice
    self.opener = opener
    self.wholeEpoch = wholeEpoch
  }
}

/// One open of a directory, with the listing that its cookies count in.
final class DirectoryHandle: Sendable {
  let node: NodeID
  /// Nil for virtual directories.
  let descriptor: FileDescriptor?
  let shown = Mutex<Shown?>(nil)
  private let copies: ListingCopies

  /// A listing, and what tells whether another one is the same.
  struct Shown {
    var copy: ListingCopies.ID
    var digest: Int
  }

  init(node: NodeID, descriptor: FileDescriptor?, in copies: ListingCopies) {
    self.node = node
    self.descriptor = descriptor
    self.copies = copies
  }

  deinit { if let shown = shown.withLock({ $0 }) { copies.remove(shown.copy) } }
}

/// One open of a virtual file: the bytes as they were at one moment.
final class VirtualHandle: Sendable {
  struct Snapshot {
    var copy: VirtualCopies.ID
    var byteCount: Int
    var version: UInt64
  }

  let path: RelativePath
  let snapshot: Mutex<Snapshot>
  private let copies: VirtualCopies

  init(path: RelativePath, snapshot: Snapshot, in copies: VirtualCopies) {
    self.path = path
    self.copies = copies
    self.snapshot = Mutex(snapshot)
  }

  deinit { copies.remove(snapshot.withLock { $0.copy }) }
}

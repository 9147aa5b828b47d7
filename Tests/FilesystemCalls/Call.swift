/// One system call, or a few that only make sense together. Cases have the names of the manual's section 2.
package enum Call: Hashable, Sendable, Codable {
  // Names.
  case mkdir(Path, mode: UInt32 = 0o777)
  case rmdir(Path)
  case unlink(Path)
  case rename(Path, Path, RenameFlags = [])
  case link(Path, Path, follows: Bool = false)
  /// linkat(2) of a descriptor itself, with AT_EMPTY_PATH.
  case linkDescriptor(Slot, Path)
  case symlink(Bytes, Path)
  case readlink(Path)
  case mknod(Path, NodeKind, mode: UInt32 = 0o666)
  case chdir(Path)
  case fchdir(Slot)

  // Descriptors.
  case open(Path, OpenFlags, mode: UInt32 = 0o666, as: Slot)
  /// Opens and closes: only whether it succeeds is of interest.
  case tryOpen(Path, OpenFlags, mode: UInt32 = 0o666)
  case close(Slot)
  case dup(Slot, as: Slot)

  // Content.
  case read(Slot, Int)
  case pread(Slot, Int, at: Int64 = 0)
  case write(Slot, Payload)
  case pwrite(Slot, Payload, at: Int64)
  case writev(Slot, [Payload])
  case lseek(Slot, Int64, Whence)
  case truncate(Path, Int64)
  case ftruncate(Slot, Int64)
  case fallocate(Slot, AllocationMode = [], at: Int64, count: Int64)
  case fsync(Slot)
  case fdatasync(Slot)
  case syncfs(Slot)
  /// Opens for writing, creating or emptying; writes everything; closes.
  case put(Path, Payload)
  /// Opens, reads to the end and closes.
  case get(Path)
  /// Reads, and counts the bytes that are zero.
  case countZeros(Slot, Int)

  // Copies by the kernel. Without an offset a descriptor's own is used, and moved.
  case copyFileRange(from: Slot, to: Slot, Int, readingAt: Int64? = nil, writingAt: Int64? = nil)
  case sendfile(from: Slot, to: Slot, at: Int64, Int)
  case pipe(reading: Slot, writing: Slot)
  case splice(from: Slot, to: Slot, Int)
  case clone(from: Slot, to: Slot)

  // Mappings.
  case mmap(Slot, Int, MappingKind, as: Slot)
  case load(Slot, at: Int = 0, Int)
  case store(Slot, at: Int = 0, Payload)
  /// Stores in one mapping what is loaded from another.
  case transfer(from: Slot, loadingAt: Int, to: Slot, storingAt: Int, Int)
  /// All of it, or so many bytes from an offset on.
  case msync(Slot, at: Int = 0, Int? = nil)
  case munmap(Slot)

  // Attributes.
  case stat(Path)
  case lstat(Path)
  case fstat(Slot)
  case statvfs(Path)
  case chmod(Path, UInt32)
  case fchmod(Slot, UInt32)
  /// A missing number stays as it is.
  case chown(Path, user: UInt32? = nil, group: UInt32? = nil, follows: Bool = true)
  case utimens(Path, access: TimeChange, modification: TimeChange, follows: Bool = true)
  case futimens(Slot, access: TimeChange, modification: TimeChange)
  case umask(UInt32)
  case getxattr(Path, String)
  case setxattr(Path, String, Bytes)
  case listxattr(Path)
  case removexattr(Path, String)

  // Listings.
  /// The names in a directory but for "." and "..", in the order of their bytes.
  case list(Path)
  case opendir(Path, as: Slot)
  /// The next names, as many as asked for or as are left.
  case readdir(Slot, Int = .max)
  case telldir(Slot)
  case seekdir(Slot, Int)
  case rewinddir(Slot)
  case closedir(Slot)
  /// Everything that can be seen of the tree below a directory.
  case tree(Path)

  // Locks and waiting.
  case flock(Slot, LockKind, waits: Bool = false)
  case fcntlLock(Slot, LockKind, start: Int64, count: Int64, ofOpenFile: Bool = false, waits: Bool = false)
  /// The events that are there within so many milliseconds, as the bits of poll(2).
  case poll(Slot, Int16, milliseconds: Int32)

  // Sockets.
  case bind(Path, as: Slot)
  case connect(Path, as: Slot)

  // The actor itself.
  /// A program, found through PATH; its output, and how it ended.
  case run([String])
  /// RLIMIT_FSIZE and the like, by their numbers.
  case setrlimit(Int32, UInt64)
  /// One after the other, whether they succeed or not.
  case sequence([Call])
  /// Again and again until stopped (and once at least); says which answers there were. For a thread of its own.
  case untilStopped([Call])
  /// A copy of the process, with its descriptors, mappings and locks of open files. Its socket follows the answer.
  case fork
  /// Ends the process at once; no answer comes.
  case exit(Int32)
  /// Waits for a signal.
  case pause
  /// A handler that does nothing, so that the signal interrupts a call that waits.
  case handle(signal: Int32)

  /// A step of the random model.
  case drawn(DrawnCall)
}

/// What renameat2(2) is asked for, by its bits.
package struct RenameFlags: OptionSet, Hashable, Sendable, Codable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }
  package static let noReplace = RenameFlags(rawValue: 1)
  package static let exchange = RenameFlags(rawValue: 2)
  package static let whiteout = RenameFlags(rawValue: 4)
}

/// How a file is opened.
package struct OpenFlags: OptionSet, Hashable, Sendable, Codable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }
  /// For reading, unless one of the next two is there.
  package static let readOnly: OpenFlags = []
  package static let writeOnly = OpenFlags(rawValue: 1 << 0)
  package static let readWrite = OpenFlags(rawValue: 1 << 1)
  package static let create = OpenFlags(rawValue: 1 << 2)
  package static let exclusive = OpenFlags(rawValue: 1 << 3)
  package static let truncate = OpenFlags(rawValue: 1 << 4)
  package static let append = OpenFlags(rawValue: 1 << 5)
  package static let directory = OpenFlags(rawValue: 1 << 6)
  package static let noFollow = OpenFlags(rawValue: 1 << 7)
  package static let direct = OpenFlags(rawValue: 1 << 8)
  package static let sync = OpenFlags(rawValue: 1 << 9)
  package static let dataSync = OpenFlags(rawValue: 1 << 10)
  package static let nameless = OpenFlags(rawValue: 1 << 11)
  package static let path = OpenFlags(rawValue: 1 << 12)
  package static let nonBlocking = OpenFlags(rawValue: 1 << 13)
}

/// What fallocate(2) is asked for, by its bits.
package struct AllocationMode: OptionSet, Hashable, Sendable, Codable {
  package let rawValue: Int32
  package init(rawValue: Int32) { self.rawValue = rawValue }
  package static let keepSize = AllocationMode(rawValue: 0x01)
  package static let punchHole = AllocationMode(rawValue: 0x02)
  package static let collapse = AllocationMode(rawValue: 0x08)
  package static let zero = AllocationMode(rawValue: 0x10)
  package static let insert = AllocationMode(rawValue: 0x20)
}

/// What mknod(2) makes.
package enum NodeKind: Hashable, Sendable, Codable {
  case file, fifo
  case characterDevice(major: UInt32, minor: UInt32)
}

/// Where lseek(2) counts from; the numbers are the kernel's.
package enum Whence: Int32, Hashable, Sendable, Codable {
  case start, current, end, data, hole
}

/// What can be done with a mapping, and who sees it.
package enum MappingKind: Hashable, Sendable, Codable {
  case sharedReadOnly, sharedReadWrite, privateReadOnly, privateReadWrite
}

/// A lock that is asked for.
package enum LockKind: Hashable, Sendable, Codable {
  case shared, exclusive, unlocked
}

/// What becomes of one time of a file.
package enum TimeChange: Hashable, Sendable, Codable {
  case now, omit
  case nanoseconds(Int64)
}

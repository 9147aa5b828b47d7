import CFilesystemCalls
import FilesystemCalls
import Glibc

extension Resources {
  /// Makes a system call.
  func make(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .mkdir(let path, let mode): try at(path) { mkdirat($0, $1, mode) }
    case .rmdir(let path): try at(path) { unlinkat($0, $1, AT_REMOVEDIR) }
    case .unlink(let path): try at(path) { unlinkat($0, $1, 0) }
    case .rename(let old, let new, let flags):
      try at(old, new) { calls_renameat2($0, $1, $2, $3, flags.rawValue) }
    case .link(let old, let new, let follows):
      try at(old, new) { linkat($0, $1, $2, $3, follows ? AT_SYMLINK_FOLLOW : 0) }
    case .linkDescriptor(let slot, let path):
      let number = try descriptor(slot)
      try at(path) { calls_link_descriptor(number, $0, $1) }
    case .symlink(let target, let path):
      try at(path) { directory, name in (target.bytes + [0]).withText { symlinkat($0, directory, name) } }
    case .readlink(let path): return .content(Content(try target(path)))
    case .mknod(let path, let kind, let mode): try makeNode(path, kind, mode)
    case .chdir(let path): try at(path) { _, name in Glibc.chdir(name) }
    case .fchdir(let slot): try checked(Glibc.fchdir(descriptor(slot)))
    case .open(let path, let flags, let mode, let slot): keep(try opened(path, flags, mode), as: slot)
    case .tryOpen(let path, let flags, let mode): Glibc.close(try opened(path, flags, mode))
    case .close(let slot): try checked(Glibc.close(take(slot)))
    case .dup(let slot, let copy): keep(try checked(Glibc.dup(descriptor(slot))), as: copy)
    case .read, .pread, .write, .pwrite, .writev, .lseek, .truncate, .ftruncate, .fallocate, .fsync, .fdatasync,
      .syncfs, .put, .get, .countZeros:
      return try makeContentCall(call)
    case .copyFileRange, .sendfile, .pipe, .splice, .clone: return try makeCopyCall(call)
    case .mmap, .load, .store, .transfer, .msync, .munmap: return try makeMappingCall(call)
    case .stat, .lstat, .fstat, .statvfs, .chmod, .fchmod, .chown, .utimens, .futimens, .umask, .getxattr, .setxattr,
      .listxattr, .removexattr:
      return try makeAttributeCall(call)
    case .list, .opendir, .readdir, .telldir, .seekdir, .rewinddir, .closedir, .tree: return try makeListingCall(call)
    case .flock, .fcntlLock, .poll, .bind, .connect, .run, .setrlimit: return try makeProcessCall(call)
    case .exit, .pause, .handle: return try makeSignalCall(call)
    case .drawn(let call): return try make(call)
    case .sequence, .untilStopped, .fork: throw Errno(ENOSYS)
    }
    return .done
  }

  /// Calls something with a directory's descriptor and a path below it.
  @discardableResult
  func at(_ path: Path, _ call: (Int32, UnsafePointer<CChar>) -> Int32) throws(Errno) -> Int32 {
    let (directory, name) = try resolved(path)
    return try checked(name.withText { call(directory, $0) })
  }

  func at(
    _ old: Path, _ new: Path, _ call: (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>) -> Int32
  ) throws(Errno) {
    let (from, to) = (try resolved(old), try resolved(new))
    try checked(from.name.withText { old in to.name.withText { new in call(from.directory, old, to.directory, new) } })
  }

  private func resolved(_ path: Path) throws(Errno) -> (directory: Int32, name: [UInt8]) {
    if let slot = path.descriptor { return (AT_FDCWD, Array("/proc/self/fd/\(try descriptor(slot))\0".utf8)) }
    let directory = if let slot = path.directory { try descriptor(slot) } else { Int32(AT_FDCWD) }
    return (directory, path.bytes.bytes + [0])
  }

  func opened(_ path: Path, _ flags: OpenFlags, _ mode: UInt32 = 0) throws(Errno) -> Int32 {
    try at(path) { calls_openat($0, $1, flags.bits, mode) }
  }

  func target(_ path: Path) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 8192)
    let count = try at(path) { directory, name in
      bytes.withUnsafeMutableBytes { buffer -> Int32 in
        guard let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self) else { return -1 }
        return Int32(readlinkat(directory, name, start, buffer.count))
      }
    }
    return Array(bytes.prefix(Int(count)))
  }

  private func makeNode(_ path: Path, _ kind: NodeKind, _ mode: UInt32) throws(Errno) {
    let (bits, device): (mode_t, dev_t) =
      switch kind {
      case .file: (S_IFREG, 0)
      case .fifo: (S_IFIFO, 0)
      case .characterDevice(let major, let minor): (S_IFCHR, calls_device(major, minor))
      }
    try at(path) { mknodat($0, $1, bits | mode, device) }
  }
}

extension OpenFlags {
  var bits: Int32 {
    var bits = O_CLOEXEC
    let pairs: [(OpenFlags, Int32)] = [
      (.writeOnly, O_WRONLY), (.readWrite, O_RDWR), (.create, O_CREAT), (.exclusive, O_EXCL), (.truncate, O_TRUNC),
      (.append, O_APPEND), (.directory, O_DIRECTORY), (.noFollow, O_NOFOLLOW), (.direct, calls_o_direct),
      (.sync, O_SYNC), (.dataSync, O_DSYNC), (.nameless, calls_o_tmpfile), (.path, calls_o_path),
      (.nonBlocking, O_NONBLOCK),
    ]
    for (flag, bit) in pairs where contains(flag) { bits |= bit }
    return bits
  }
}

extension [UInt8] {
  /// Bytes that end with NUL, as C wants them.
  func withText<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
    map { CChar(bitPattern: $0) }.withUnsafeBufferPointer { buffer in
      guard let start = buffer.baseAddress else { fatalError("a C string has its NUL at least") }
      return body(start)
    }
  }
}

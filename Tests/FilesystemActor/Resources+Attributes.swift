import CFilesystemCalls
import FilesystemCalls
import Glibc

extension Resources {
  func makeAttributeCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .stat(let path): return .status(try status(path, follows: true))
    case .lstat(let path): return .status(try status(path, follows: false))
    case .fstat(let slot):
      var facts = Glibc.stat()
      try checked(Glibc.fstat(descriptor(slot), &facts))
      return .status(Status(facts))
    case .statvfs(let path):
      var facts = Glibc.statvfs()
      try at(path) { _, name in calls_statvfs(name, &facts) }
      return .space(Space(facts))
    case .chmod(let path, let mode): try at(path) { fchmodat($0, $1, mode, 0) }
    case .fchmod(let slot, let mode): try checked(Glibc.fchmod(descriptor(slot), mode))
    case .chown(let path, let user, let group, let follows):
      try at(path) { fchownat($0, $1, user ?? .max, group ?? .max, follows ? 0 : AT_SYMLINK_NOFOLLOW) }
    case .utimens(let path, let access, let modification, let follows):
      let times = [access.value, modification.value]
      try at(path) { utimensat($0, $1, times, follows ? 0 : AT_SYMLINK_NOFOLLOW) }
    case .futimens(let slot, let access, let modification):
      try checked(Glibc.futimens(descriptor(slot), [access.value, modification.value]))
    case .umask(let mode): return .number(Int64(Glibc.umask(mode)))
    case .getxattr(let path, let name):
      return .number(Int64(try at(path) { _, path in Int32(calls_getxattr(path, name, nil, 0)) }))
    case .setxattr(let path, let name, let value):
      try at(path) { _, path in
        (value.bytes + [0]).withText { calls_setxattr(path, name, $0, value.bytes.count) }
      }
    case .listxattr(let path): return .number(Int64(try at(path) { _, path in Int32(calls_listxattr(path, nil, 0)) }))
    case .removexattr(let path, let name): try at(path) { _, path in calls_removexattr(path, name) }
    default: throw Errno(ENOSYS)
    }
    return .done
  }

  func status(_ path: Path, follows: Bool) throws(Errno) -> Status {
    var facts = Glibc.stat()
    try at(path) { fstatat($0, $1, &facts, follows ? 0 : AT_SYMLINK_NOFOLLOW) }
    return Status(facts)
  }
}

extension TimeChange {
  var value: timespec {
    let billion: Int64 = 1_000_000_000
    switch self {
    case .now: return timespec(tv_sec: 0, tv_nsec: (1 << 30) - 1)
    case .omit: return timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)
    case .nanoseconds(let time):
      let part = ((time % billion) + billion) % billion
      return timespec(tv_sec: Int((time - part) / billion), tv_nsec: Int(part))
    }
  }
}

extension Status {
  init(_ facts: stat) {
    func nanoseconds(_ time: timespec) -> Int64 { Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec) }
    self.init(
      kind: facts.st_mode & S_IFMT, mode: facts.st_mode & 0o7777, user: facts.st_uid, group: facts.st_gid,
      links: UInt64(facts.st_nlink), size: Int64(facts.st_size), accessed: nanoseconds(facts.st_atim),
      modified: nanoseconds(facts.st_mtim), changed: nanoseconds(facts.st_ctim), inode: UInt64(facts.st_ino),
      device: UInt64(facts.st_dev), blockSize: Int64(facts.st_blksize), blocks: Int64(facts.st_blocks))
  }
}

extension Space {
  init(_ facts: statvfs) {
    self.init(
      blockSize: UInt64(facts.f_frsize), blocks: UInt64(facts.f_blocks), free: UInt64(facts.f_bfree),
      available: UInt64(facts.f_bavail), nameMax: UInt64(facts.f_namemax),
      // ST_NODEV and ST_NOSUID.
      isNoDevice: facts.f_flag & 4 != 0, isNoSetID: facts.f_flag & 2 != 0)
  }
}

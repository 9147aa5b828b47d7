import CFilesystemCalls
import FilesystemCalls
import Glibc

extension Resources {
  func makeProcessCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .flock(let slot, let kind, let waits):
      let operation =
        switch kind {
        case .shared: LOCK_SH
        case .exclusive: LOCK_EX
        case .unlocked: LOCK_UN
        }
      try checked(calls_flock(descriptor(slot), operation | (waits ? 0 : LOCK_NB)))
    case .fcntlLock(let slot, let kind, let start, let count, let ofOpenFile, let waits):
      let type =
        switch kind {
        case .shared: F_RDLCK
        case .exclusive: F_WRLCK
        case .unlocked: F_UNLCK
        }
      try checked(
        calls_lock(descriptor(slot), ofOpenFile ? 1 : 0, waits ? 1 : 0, Int16(type), off_t(start), off_t(count)))
    case .poll(let slot, let events, let milliseconds):
      var entry = pollfd(fd: try descriptor(slot), events: events, revents: 0)
      try checked(Glibc.poll(&entry, 1, milliseconds))
      return .number(Int64(entry.revents))
    case .bind(let path, let slot): keep(try at(path) { _, name in calls_bind(name) }, as: slot)
    case .connect(let path, let slot): keep(try at(path) { _, name in calls_connect(name) }, as: slot)
    case .run(let arguments): return try run(arguments)
    case .setrlimit(let resource, let value):
      var limit = rlimit(rlim_cur: rlim_t(value), rlim_max: rlim_t(value))
      try checked(Glibc.setrlimit(__rlimit_resource_t(UInt32(resource)), &limit))
    default: throw Errno(ENOSYS)
    }
    return .done
  }

  /// The output goes through a file without a name, so that a program that says much does not wait for its reader.
  private func run(_ arguments: [String]) throws(Errno) -> Answer {
    let output = try checked(calls_openat(AT_FDCWD, "/tmp", calls_o_tmpfile | O_RDWR | O_CLOEXEC, 0o600))
    defer { Glibc.close(output) }
    let texts = arguments.map { strdup($0) }
    defer { for text in texts { free(text) } }
    let status = try checked(calls_run(texts + [nil], output))
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = bytes.withUnsafeMutableBytes { Glibc.pread(output, $0.baseAddress, $0.count, 0) }
    return .ended(status: status, output: Bytes(bytes.prefix(max(0, count))))
  }
}

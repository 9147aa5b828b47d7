import Glibc

/// One of the descriptors that a program is started with, written to without waiting for its reader.
///
/// Others hold the same open file (the shell, the programs beside this one in a pipe), so it does not become one that does not
/// block: what can be opened anew is, and a socket is told with each message.
struct StandardDescriptor: OutputTarget {
  private enum Kind {
    /// It takes everything at once, or waits for a disk.
    case file
    case socket
    /// An open file of its own.
    case nonblocking(Int32)
    /// It can only be asked before whether it takes something.
    case asked
  }

  private let number: Int32
  private let kind: Kind

  init(_ number: Int32) {
    self.number = number
    var facts = stat()
    guard fstat(number, &facts) == 0 else {
      kind = .asked
      return
    }
    switch facts.st_mode & S_IFMT {
    case S_IFREG: kind = .file
    case S_IFSOCK: kind = .socket
    default:
      let own = open("/proc/self/fd/\(number)", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
      kind = own >= 0 ? .nonblocking(own) : .asked
    }
  }

  func write(_ bytes: ArraySlice<UInt8>) -> OutputStep {
    while true {
      let count = writeOnce(bytes)
      if count > 0 { return .wrote(count) }
      if count < 0, errno == EINTR { continue }
      // A terminal that takes nothing more returns 0.
      return count == 0 || errno == EAGAIN ? .blocked : .failed
    }
  }

  private func writeOnce(_ bytes: ArraySlice<UInt8>) -> Int {
    bytes.withUnsafeBytes { bytes in
      switch kind {
      case .file: return Glibc.write(number, bytes.baseAddress, bytes.count)
      case .nonblocking(let own): return Glibc.write(own, bytes.baseAddress, bytes.count)
      case .socket:
        return send(number, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
      case .asked:
        var wanted = pollfd(fd: number, events: Int16(POLLOUT), revents: 0)
        guard poll(&wanted, 1, 0) > 0 else { return 0 }
        // What a pipe takes whole when it takes something at all (PIPE_BUF).
        return Glibc.write(number, bytes.baseAddress, min(bytes.count, 512))
      }
    }
  }
}

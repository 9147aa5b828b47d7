import Glibc

/// The socket that a service manager has named (sd_notify(3)): one datagram for each text. Without such a socket, or when it is gone,
/// nothing happens.
struct NotificationSocket: OutputTarget {
  private let path: [UInt8]

  /// The one at a path; a leading @ stands for the abstract namespace.
  init(_ path: String?) { self.path = Array((path ?? "").utf8) }

  func write(_ bytes: ArraySlice<UInt8>) -> OutputStep {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    guard path.count > 1, path.count < MemoryLayout.size(ofValue: address.sun_path) else { return .failed }
    let isAbstract = path[0] == UInt8(ascii: "@")
    withUnsafeMutableBytes(of: &address.sun_path) { room in
      room.copyBytes(from: path)
      // Names of the abstract namespace start with NUL.
      if isAbstract { room[0] = 0 }
    }
    let length = (MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2) + path.count + (isAbstract ? 0 : 1)
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return .failed }
    defer { close(descriptor) }
    let flags = Int32(MSG_DONTWAIT | MSG_NOSIGNAL)
    let sent = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bytes.withUnsafeBytes { sendto(descriptor, $0.baseAddress, $0.count, flags, address, socklen_t(length)) }
      }
    }
    guard sent < 0 else { return .wrote(bytes.count) }
    return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? .blocked : .failed
  }
}

import Glibc

/// Tells the service manager how the daemon is doing (sd_notify(3)): one datagram to the socket that it named. Without
/// such a socket, or when it is gone, nothing happens.
enum ServiceNotification {
  static func ready(status: String) { send("READY=1\nSTATUS=\(status)\n") }
  static func stopping(status: String) { send("STOPPING=1\nSTATUS=\(status)\n") }
  static func status(_ status: String) { send("STATUS=\(status)\n") }

  private static func send(_ text: String) {
    guard let path = getenv("NOTIFY_SOCKET").map({ Array(String(cString: $0).utf8) }), path.count > 1 else { return }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    guard path.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
    withUnsafeMutableBytes(of: &address.sun_path) { room in
      room.copyBytes(from: path)
      // A leading @ stands for the abstract namespace, whose names start with NUL.
      if path[0] == UInt8(ascii: "@") { room[0] = 0 }
    }
    let isAbstract = path[0] == UInt8(ascii: "@")
    let length = (MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2) + path.count + (isAbstract ? 0 : 1)
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        _ = sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, socklen_t(length))
      }
    }
  }
}

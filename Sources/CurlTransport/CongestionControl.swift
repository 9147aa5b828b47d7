import CCurl
import Glibc

/// What decides how fast a connection sends into the network (TCP_CONGESTION).
///
/// Under `cubic`, Debian's default, a lost packet counts as a full queue: a line of 100 ms that loses one packet of a hundred
/// carries an eighth of what it could. `bbr` measures rate and delay instead. In a queue that is shared with others it takes
/// more than its part, so `automatic` asks for it only where packets are lost although the queue is empty.
public enum CongestionControl: String, CaseIterable, Sendable {
  /// What the system gives: net.ipv4.tcp_congestion_control.
  case system
  case bbr
  case cubic
  /// The system's, and `bbr` to a server to which packets are lost; see ``PathLoss``.
  case automatic = "auto"

  /// Why the kernel gives no socket one of a name.
  public enum Refusal: Hashable, Sendable {
    /// The kernel has no such module.
    case unknown
    /// A process without CAP_NET_ADMIN may not choose it.
    case forbidden
    case other(errno: Int32)

    /// What is wrong and what to do, as the end of a sentence.
    public func words(for name: String) -> String {
      switch self {
      case .unknown: "the kernel does not have it loaded; as root: modprobe tcp_\(name)"
      case .forbidden:
        "users may not choose it; as root: sysctl -w net.ipv4.tcp_allowed_congestion_control="
          + "\"$(sysctl -n net.ipv4.tcp_allowed_congestion_control) \(name)\""
      case .other(let errno): String(cString: strerror(errno))
      }
    }
  }

  /// The one of all connections; nil where that is left to the system.
  var fixedName: String? {
    switch self {
    case .bbr, .cubic: rawValue
    case .system, .automatic: nil
    }
  }

  /// What a new connection has if nothing is set; nil where that cannot be found out.
  public static var systemName: String? {
    withSocket { socket in
      withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(UPLOADFS_CONGESTION_BYTES)) { name in
        guard let start = name.baseAddress, uploadfs_congestion_control(socket, start) == 0 else { return nil }
        return String(cString: start)
      }
    }
  }

  /// Why a socket of this process cannot have it; nil when it can, or when there is no socket to try it with.
  public static func refusal(of name: String) -> Refusal? {
    withSocket { socket in
      switch uploadfs_set_congestion_control(socket, name) {
      case 0: nil
      case ENOENT: .unknown
      case EPERM: .forbidden
      case let code: .other(errno: code)
      }
    }
  }

  private static func withSocket<Value>(_ body: (Int32) -> Value?) -> Value? {
    for family in [AF_INET, AF_INET6] {
      let socket = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
      guard socket >= 0 else { continue }
      defer { close(socket) }
      return body(socket)
    }
    return nil
  }
}

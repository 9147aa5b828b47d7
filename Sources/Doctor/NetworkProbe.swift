import Glibc
import TransferModel

/// What the resolver and single TCP connections say about a server. Blocks.
struct NetworkProbe: Sendable {
  /// How a connection to one address went.
  enum Attempt: Hashable, Sendable {
    case connected(Duration)
    case failed(errno: Int32)
    case timedOut
  }

  /// An address of the host, and how a connection to it went.
  struct Address: Hashable, Sendable {
    var text: String
    var attempt: Attempt
  }

  /// What the resolver said.
  enum Resolution: Hashable, Sendable {
    case found(count: Int, Duration)
    /// A code of getaddrinfo(3).
    case failed(code: Int32)
  }

  var resolution: Resolution
  /// At most ``addressesMax``, each once.
  var addresses: [Address] = []

  static let addressesMax = 8
  static let timeoutMilliseconds: Int32 = 5_000

  /// Asks the resolver, then every address.
  static func at(_ server: ServerAddress) -> NetworkProbe {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICSERV
    var list: UnsafeMutablePointer<addrinfo>?
    let begin = ContinuousClock.now
    // As libcurl, which takes a name below it (a bucket's) for the same.
    let host = HostName.isLocalhost(server.host) ? "localhost" : server.host
    let code = getaddrinfo(host, "\(server.port)", &hints, &list)
    let time = ContinuousClock.now - begin
    guard code == 0 else { return NetworkProbe(resolution: .failed(code: code)) }
    defer { freeaddrinfo(list) }
    var probe = NetworkProbe(resolution: .found(count: 0, time))
    var entry = list
    while let info = entry?.pointee, probe.addresses.count < addressesMax {
      let text = numericText(info)
      if !probe.addresses.contains(where: { $0.text == text }) {
        probe.addresses.append(Address(text: text, attempt: connect(info)))
      }
      entry = info.ai_next
    }
    probe.resolution = .found(count: probe.addresses.count, time)
    return probe
  }

  private static func numericText(_ info: addrinfo) -> String {
    var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    guard
      getnameinfo(info.ai_addr, info.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
    else { return "?" }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func connect(_ info: addrinfo) -> Attempt {
    let descriptor = socket(
      info.ai_family, info.ai_socktype | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return .failed(errno: errno) }
    defer { close(descriptor) }
    let begin = ContinuousClock.now
    guard Glibc.connect(descriptor, info.ai_addr, info.ai_addrlen) != 0 else { return .connected(.now - begin) }
    guard errno == EINPROGRESS else { return .failed(errno: errno) }
    var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    guard poll(&waiting, 1, timeoutMilliseconds) > 0 else { return .timedOut }
    var code: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0 else { return .failed(errno: errno) }
    return code == 0 ? .connected(.now - begin) : .failed(errno: code)
  }
}

extension ContinuousClock.Instant {
  fileprivate static func - (left: ContinuousClock.Instant, right: ContinuousClock.Instant) -> Duration {
    right.duration(to: left)
  }
}

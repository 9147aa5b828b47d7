/// HOST:PORT, with brackets around an IPv6 address.
public struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
  /// A name or an address, without brackets.
  public var host: String
  /// 0 for any.
  public var port: Int
  /// A machine may be without it.
  var isOptional = false

  /// An address of which the parts are known.
  public init(host: String, port: Int) {
    self.host = host
    self.port = port
  }

  /// Reads it; nil where it is none.
  public init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty else { return nil }
    self.init(host: String(host), port: Int(port))
  }

  /// As it is written.
  public var description: String { "\(isIPv6 ? "[\(host)]" : host):\(port)" }

  /// Whether only this machine can connect.
  public var isLoopback: Bool {
    host == "localhost" || host == "::1" || isLoopbackIPv4
  }

  /// The addresses that it stands for. A client may reach this machine by either of the two of `localhost`; with any port they would
  /// get two, so that is one address.
  public var places: [ListenAddress] {
    guard host == "localhost" else { return [self] }
    let first = ListenAddress(host: "127.0.0.1", port: port)
    var second = ListenAddress(host: "::1", port: port)
    second.isOptional = true
    return port == 0 ? [first] : [first, second]
  }

  private var isIPv6: Bool { host.utf8.contains(UInt8(ascii: ":")) }

  private var isLoopbackIPv4: Bool {
    let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
    return numbers.count == 4 && numbers.allSatisfy { UInt8($0) != nil } && numbers[0] == "127"
  }
}

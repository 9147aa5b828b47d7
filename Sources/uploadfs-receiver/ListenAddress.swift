/// HOST:PORT, with brackets around an IPv6 address.
struct ListenAddress: Equatable {
  var host: String
  var port: Int

  init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty else { return nil }
    self.host = String(host)
    self.port = Int(port)
  }

  /// Whether only this machine can connect.
  var isLoopback: Bool {
    host == "localhost" || host == "::1" || isLoopbackIPv4
  }

  private var isLoopbackIPv4: Bool {
    let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
    return numbers.count == 4 && numbers.allSatisfy { UInt8($0) != nil } && numbers[0] == "127"
  }
}

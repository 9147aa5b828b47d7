import TransferModel

/// Host and port of a server, from the URL of a request to it: whatever the destination is, its requests say where they go.
struct ServerAddress: Hashable, Sendable {
  /// In lower case, without the brackets of an IPv6 address.
  let host: String
  let port: UInt16
  let isEncrypted: Bool

  /// Nil when the text is no `http` or `https` URL.
  init?(url: String) {
    guard let mark = url.utf8.firstRange(of: "://".utf8) else { return nil }
    switch url[..<mark.lowerBound].lowercased() {
    case "https": isEncrypted = true
    case "http": isEncrypted = false
    default: return nil
    }
    let authority = url[mark.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let isBracketed = authority.first == "["
    let end = authority.firstIndex(of: isBracketed ? "]" : ":") ?? authority.endIndex
    host = authority[..<end].drop { $0 == "[" }.lowercased()
    let rest = authority[end...].drop { $0 == "]" }
    guard !host.isEmpty else { return nil }
    if rest.isEmpty {
      port = isEncrypted ? 443 : 80
    } else {
      guard let number = UInt16(rest.dropFirst()) else { return nil }
      port = number
    }
  }

  /// Host and port as they stand in a URL.
  var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }

  /// The machine itself, by its usual names.
  var isLoopback: Bool { HostName.isLoopback(host) }
}

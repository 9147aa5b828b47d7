import TransferModel

/// Scheme and host of a request's URL: what policy and error messages need. libcurl parses the URL for itself.
struct RequestTarget: Hashable {
  /// In lower case, without the colon.
  let scheme: String
  /// Without user, port and brackets; in lower case.
  let host: String
  /// Scheme, host and port as they are written; in lower case.
  let origin: String

  /// Nil when the text is not `scheme://host…`.
  init?(url: String) {
    guard let mark = url.utf8.firstRange(of: "://".utf8) else { return nil }
    let authority = url[mark.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let hostAndPort = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? authority
    let host =
      if hostAndPort.first == "[" {
        hostAndPort.dropFirst().prefix { $0 != "]" }
      } else {
        hostAndPort.prefix { $0 != ":" }
      }
    guard !host.isEmpty, mark.lowerBound > url.startIndex else { return nil }
    scheme = url[..<mark.lowerBound].lowercased()
    self.host = host.lowercased()
    origin = "\(url[..<mark.lowerBound])://\(hostAndPort)".lowercased()
  }

  /// The server, where it is called by a name that the resolver is asked for; nil for addresses and this machine.
  var namedServer: NamedServer? {
    guard !HostName.isAddress(host), !HostName.isLocalhost(host) else { return nil }
    let port = origin.utf8.count > scheme.utf8.count + 3 + host.utf8.count ? origin.split(separator: ":").last : nil
    guard let number = port.map({ Int($0) }) ?? (scheme == "http" ? 80 : 443) else { return nil }
    return NamedServer(host: host, port: number)
  }

  /// The machine itself, by its usual names.
  var isLoopback: Bool { HostName.isLoopback(host) }
}

import TransferModel

/// An `https://host[:port][/prefix]` address, checked.
public struct EndpointURL: Hashable, Sendable {
  /// The address without a slash at the end, as `https://host:8443/uploads`; holds no credentials.
  public let text: String
  /// False for `http`.
  public let isEncrypted: Bool
  /// The host in lower case, without the brackets of an IPv6 address.
  public let host: String

  /// Checks an address. `http` is accepted for this machine, and for others when `allowPlainHTTP` says so.
  public init(_ address: String, allowPlainHTTP: Bool) throws(DestinationError) {
    guard address.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      // The address is shown with what stands out replaced, so that no control character reaches a terminal.
      throw DestinationError(
        .invalidURL,
        "The address \(EndpointURL.printable(address)) holds blanks, control characters or letters that a URL has "
          + "only in percent-encoding.")
    }
    guard let mark = address.firstRange(of: "://") else {
      throw DestinationError(.invalidURL, "The address \(address) is no URL; it should begin with https://.")
    }
    let scheme = address[..<mark.lowerBound].lowercased()
    guard scheme == "https" || scheme == "http" else {
      let meant =
        DestinationSettings.schemes.first { $0.schemesElsewhere.contains(scheme) }?.spelling
        ?? "It should begin with https://, not \(scheme)://."
      throw DestinationError(.invalidURL, "The address \(address) is none for uploads. \(meant)")
    }
    let rest = address[mark.upperBound...]
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let tail = rest[authority.endIndex...]
    guard !authority.contains("@") else {
      throw DestinationError(
        .invalidURL, "The address holds a user name or password, which would be seen in logs; use --token-file.")
    }
    guard !tail.contains("?"), !tail.contains("#") else {
      throw DestinationError(.invalidURL, "The address \(address) has a query or fragment; leave it out.")
    }
    guard let (host, port) = EndpointURL.split(authority) else {
      throw DestinationError(.invalidURL, "The address \(address) has no valid host and port.")
    }
    guard EndpointURL.isPath(tail) else {
      throw DestinationError(
        .invalidURL, "The path of the address \(address) holds . or .. or characters that must be percent-encoded.")
    }
    isEncrypted = scheme == "https"
    guard isEncrypted || allowPlainHTTP || HostName.isLoopback(host) else {
      throw DestinationError(
        .plainHTTP,
        "The address \(address) is plain http, so that others on the way could read the files and the token; use "
          + "https, or allow plain HTTP explicitly.")
    }
    self.host = host
    let shownHost = host.contains(":") ? "[\(host)]" : host
    let path = tail.split(separator: "/").map { "/" + $0 }.joined()
    text = "\(scheme)://\(shownHost)\(port.map { ":\($0)" } ?? "")\(path)"
  }

  private static func split(_ authority: Substring) -> (host: String, port: UInt16?)? {
    let host: Substring
    let portText: Substring
    if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
      host = authority[authority.index(after: authority.startIndex)..<end]
      portText = authority[authority.index(after: end)...]
      guard host.contains(":"), host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }) else { return nil }
    } else {
      host = authority.prefix { $0 != ":" }
      portText = authority[host.endIndex...]
      let isName = host.utf8.allSatisfy {
        switch $0 {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
        default: false
        }
      }
      guard !host.isEmpty, isName else { return nil }
    }
    guard !portText.isEmpty else { return (host.lowercased(), nil) }
    let digits = portText.dropFirst()
    guard portText.hasPrefix(":"), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
      let port = UInt16(digits), port > 0
    else { return nil }
    return (host.lowercased(), port)
  }

  private static func isPath(_ path: Substring) -> Bool {
    path.split(separator: "/").allSatisfy { $0 != "." && $0 != ".." }
      && path.utf8.allSatisfy {
        switch $0 {
        case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "^"),
          UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
          false
        default: true
        }
      }
  }

  private static func printable(_ text: String) -> String {
    String(text.unicodeScalars.map { (0x21...0x7e).contains($0.value) ? Character($0) : "?" })
  }
}

/// Where captures go, as the user gave it: `https://host[:port][/path]`, or `http://` where that is allowed.
public struct DestinationAddress: Hashable, Sendable, CustomStringConvertible {
  /// False for plain http.
  public let isEncrypted: Bool
  /// A name or an address; an IPv6 address without its brackets.
  public let host: String
  /// The port, nil for the scheme's own.
  public let port: Int?
  /// What stands in front of `/v1/`, without a slash at the end; empty for none.
  public let path: String

  /// The address as a URL without a slash at the end. It never holds credentials.
  public var description: String {
    let host = host.contains(":") ? "[\(host)]" : host
    let port = port.map { ":\($0)" } ?? ""
    return "\(isEncrypted ? "https" : "http")://\(host)\(port)\(path)"
  }

  /// True for names and addresses that never leave this machine.
  public var isLoopback: Bool {
    if host == "localhost" || host.hasSuffix(".localhost") || host == "::1" { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }

  /// Reads a URL; the error is a sentence that starts with a lower-case letter and is meant to stand behind the
  /// setting's name.
  public init(_ text: String) throws(ConfigurationError) {
    guard let separator = text.firstRange(of: "://") else {
      throw ConfigurationError("is no URL: \(text); give an address such as https://upload.example.org")
    }
    let scheme = text[..<separator.lowerBound].lowercased()
    switch scheme {
    case "https": isEncrypted = true
    case "http": isEncrypted = false
    case "tus+https", "tus+http", "s3+https", "s3+http", "form+https", "form+http":
      throw ConfigurationError(
        "uses \(scheme)://, which this version cannot upload to yet; use the https:// address of an uploadfs-receiver")
    default:
      throw ConfigurationError("uses the unknown scheme \(scheme)://; use https://")
    }
    let rest = text[separator.upperBound...]
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let tail = rest.dropFirst(authority.count)
    guard !authority.contains("@") else {
      throw ConfigurationError(
        "holds credentials, which would show up in logs; put the token into a file (--token-file)")
    }
    guard !tail.contains("?"), !tail.contains("#") else {
      throw ConfigurationError("holds a query or a fragment; give only https://host[:port][/path]")
    }
    guard tail.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw ConfigurationError("holds blanks or letters that must be percent-encoded in a URL")
    }
    (host, port) = try DestinationAddress.split(authority)
    path = String(tail.reversed().drop { $0 == "/" }.reversed())
  }

  private static func split(_ authority: Substring) throws(ConfigurationError) -> (host: String, port: Int?) {
    let host: Substring
    let portText: Substring?
    if authority.hasPrefix("["), let bracket = authority.firstIndex(of: "]") {
      host = authority[authority.index(after: authority.startIndex)..<bracket]
      let behind = authority[authority.index(after: bracket)...]
      portText = behind.isEmpty ? nil : behind.hasPrefix(":") ? behind.dropFirst() : ""
    } else {
      let parts = authority.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      host = parts.first ?? ""
      portText = parts.count == 2 ? parts[1] : nil
    }
    let allowed = host.utf8.allSatisfy {
      (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0)
        || [0x2d, 0x2e, 0x3a, 0x5f].contains($0)
    }
    guard !host.isEmpty, allowed else {
      throw ConfigurationError("names no valid host: “\(host)”; give an address such as https://upload.example.org")
    }
    guard let portText else { return (host.lowercased(), nil) }
    guard let port = Int(portText), (1...65535).contains(port), portText.first != "+" else {
      throw ConfigurationError("holds the port “\(portText)”; ports are 1 to 65535")
    }
    return (host.lowercased(), port)
  }
}

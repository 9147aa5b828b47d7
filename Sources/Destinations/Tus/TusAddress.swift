import TransferModel

/// A `tus+https://host[:port]/path/` address, checked: where uploads are created.
public struct TusAddress: Hashable, Sendable {
  /// As it was given; for people.
  public let text: String
  /// The same without what makes it one of tus.
  public let endpoint: EndpointURL
  /// Scheme, host and port, as `https://host:8443`.
  let origin: String
  /// Behind the origin, percent-encoded; with a slash at its end where one was given.
  let path: String

  /// The scheme's twins, by which such an address is known.
  public static let schemes = ["tus+https", "tus+http"]

  /// Whether this looks like an address of tus.
  public static func isOne(_ address: String) -> Bool {
    schemes.contains { address.lowercased().hasPrefix("\($0)://") }
  }

  /// Checks an address. Plain http is accepted for this machine, and for others when `allowPlainHTTP` says so.
  public init(_ address: String, allowPlainHTTP: Bool) throws(DestinationError) {
    guard Self.isOne(address) else {
      throw DestinationError(.invalidURL, "The address \(address) should begin with tus+https://.")
    }
    endpoint = try EndpointURL(String(address.drop { $0 != "+" }.dropFirst()), allowPlainHTTP: allowPlainHTTP)
    let schemeEnd = endpoint.text.firstRange(of: "://")?.upperBound ?? endpoint.text.startIndex
    let pathStart = endpoint.text[schemeEnd...].firstIndex(of: "/") ?? endpoint.text.endIndex
    origin = String(endpoint.text[..<pathStart])
    let given = endpoint.text[pathStart...]
    // Servers tell /files from /files/; the endpoint is without.
    path = given.isEmpty || address.hasSuffix("/") ? given + "/" : String(given)
    text = "tus+\(origin)\(path)"
  }

  /// What a `Location` field means here: a path for what is below the same origin, else the whole address. Nil for what
  /// no request may go to.
  func resolve(_ location: String) -> String? {
    let location = String(location.prefix { $0 != "#" })
    guard !location.isEmpty, location.utf8.count <= TusLimits.locationBytesMax,
      location.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
    else { return nil }
    if location.hasPrefix("//") { return resolve("\(endpoint.isEncrypted ? "https" : "http"):\(location)") }
    if location.hasPrefix("/") { return location }
    guard let mark = location.firstRange(of: "://"), !location[..<mark.lowerBound].contains("/") else {
      return path[...(path.lastIndex(of: "/") ?? path.startIndex)] + location
    }
    let scheme = location[..<mark.lowerBound].lowercased()
    let rest = location[mark.upperBound...]
    let authority = rest.prefix { $0 != "/" && $0 != "?" }
    guard let other = try? EndpointURL("\(scheme)://\(authority)", allowPlainHTTP: true) else { return nil }
    let tail = String(rest[authority.endIndex...])
    // A server behind a front that does TLS may call itself by plain http, and by its own port.
    let isBehindFront = endpoint.isEncrypted && !other.isEncrypted && other.host == endpoint.host
    if other.text == origin || isBehindFront || other.text == origin + (endpoint.isEncrypted ? ":443" : ":80") {
      return tail.hasPrefix("/") ? tail : "/" + tail
    }
    return other.isEncrypted || !endpoint.isEncrypted && HostName.isLoopback(other.host) ? other.text + tail : nil
  }

  /// The address of an upload, and whether this destination's credentials are for it: another host's are its own business, most often a part
  /// of the address.
  func url(of upload: String) -> (url: String, isOurs: Bool) {
    upload.hasPrefix("/") ? (origin + upload, true) : (upload, false)
  }
}

/// Bounds of what is taken from a tus server, and of what is sent to one.
enum TusLimits {
  static let locationBytesMax = 2048
  /// Partial uploads have at least this length, so that the list of a large file's stays short.
  static let partialBytesMin = 2 << 20
}

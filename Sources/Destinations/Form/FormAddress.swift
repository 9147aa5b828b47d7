/// A `form+https://host[:port]/path[?query]` address, checked.
public struct FormAddress: Hashable, Sendable {
  /// For people and logs: without the query, which may hold a key.
  public let text: String
  /// The server, with the path and without the query.
  public let endpoint: EndpointURL
  /// What requests are sent to, to the letter: a slash at the end of a path matters to some servers.
  let url: String
  /// The server's front page, for requests that are only there to open a connection.
  let frontURL: String

  /// The scheme's twins, by which such an address is known.
  public static let schemes = ["form+https", "form+http"]

  /// Whether this looks like the address of a form.
  public static func isOne(_ address: String) -> Bool {
    schemes.contains { address.lowercased().hasPrefix("\($0)://") }
  }

  /// Checks an address. Plain http is accepted for this machine, and for others when `allowPlainHTTP` says so.
  public init(_ address: String, allowPlainHTTP: Bool) throws(DestinationError) {
    let target = String(address.drop { $0 != "+" }.dropFirst())
    let page = String(target.prefix { $0 != "?" })
    let query = target[page.endIndex...]
    endpoint = try EndpointURL(page, allowPlainHTTP: allowPlainHTTP)
    guard Self.isOne(address), let mark = endpoint.text.firstRange(of: "://") else {
      throw DestinationError(.invalidURL, "The address should begin with form+https://.")
    }
    guard query.utf8.allSatisfy({ (0x21...0x7e).contains($0) && !Self.isUnsafe($0) }) else {
      throw DestinationError(
        .invalidURL, "The query of the address \(page) holds characters that must be percent-encoded.")
    }
    let server = endpoint.text[..<(endpoint.text[mark.upperBound...].firstIndex(of: "/") ?? endpoint.text.endIndex)]
    let path = page[(page.firstRange(of: "://")?.upperBound ?? page.startIndex)...].drop { $0 != "/" }
    frontURL = "\(server)/"
    url = "\(server)\(path.isEmpty ? "/" : path)\(query)"
    text = "form+\(server)\(path.isEmpty ? "/" : path)"
  }

  private static func isUnsafe(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "#"), UInt8(ascii: "\\"),
      UInt8(ascii: "^"), UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
      true
    default: false
    }
  }
}

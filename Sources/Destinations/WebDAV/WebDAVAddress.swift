import ChunkProtocol

/// A `webdav+https://host[:port][/folder]` address, checked.
public struct WebDAVAddress: Hashable, Sendable {
  /// For people and logs.
  public let text: String
  /// The server with the folder, without a slash at the end.
  public let endpoint: EndpointURL
  /// In front of a path: `https://host:port`.
  let origin: String
  /// The folder's path, percent-encoded as it was given; empty for the server's root.
  let folder: String

  /// The scheme's twins, by which such an address is known.
  public static let schemes = ["webdav+https", "webdav+http"]

  /// Whether this looks like the address of a WebDAV server.
  public static func isOne(_ address: String) -> Bool {
    schemes.contains { address.lowercased().hasPrefix("\($0)://") }
  }

  /// Checks an address. Plain http is accepted for this machine, and for others when `allowPlainHTTP` says so.
  public init(_ address: String, allowPlainHTTP: Bool) throws(DestinationError) {
    endpoint = try EndpointURL(String(address.drop { $0 != "+" }.dropFirst()), allowPlainHTTP: allowPlainHTTP)
    guard Self.isOne(address), let mark = endpoint.text.firstRange(of: "://") else {
      throw DestinationError(.invalidURL, "The address should begin with webdav+https://.")
    }
    text = "webdav+\(endpoint.text)"
    let pathStart = endpoint.text[mark.upperBound...].firstIndex(of: "/") ?? endpoint.text.endIndex
    origin = String(endpoint.text[..<pathStart])
    folder = String(endpoint.text[pathStart...])
  }

  /// The path of a resource below the folder, as it stands in a request.
  func path(of name: String) -> String { "\(folder)/\(PercentCoding.encode(name, keepsSlashes: true))" }

  /// The path of a folder below the address's; of that itself, where the name is empty. Some servers make folders only where a slash
  /// ends their path (nginx).
  func path(ofFolder name: String) -> String { name.isEmpty ? "\(folder)/" : "\(path(of: name))/" }
}

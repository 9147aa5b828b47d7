public import TransferModel

/// How requests reach their servers where they are not to go there directly.
public struct CurlProxy: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
  /// `http://`, `https://`, `socks4://`, `socks4a://`, `socks5://` or `socks5h://host[:port]`; nil for what the environment
  /// says (`https_proxy`, `all_proxy`, as curl reads them).
  public var url: String?
  /// Hosts that are reached directly, with commas between them; nil for what the environment says (`no_proxy`).
  public var exceptions: String?
  /// Who uses the proxy; nil when it does not ask, or `url` of the environment says it.
  public var user: String?
  /// The password; a secret.
  public var password: String?
  /// The oldest version of TLS that an `https://` proxy is spoken to with.
  public var oldestTLS = TLSVersion.tls13

  /// The environment's.
  public init(url: String? = nil, exceptions: String? = nil, user: String? = nil, password: String? = nil) {
    self.url = url
    self.exceptions = exceptions
    self.user = user
    self.password = password
  }

  /// Without the secret.
  public var description: String { url ?? "the environment's proxy" }
  /// Nothing to look into, for the same reason.
  public var customMirror: Mirror { Mirror(self, children: []) }

  private static let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]

  /// Refuses what libcurl would take for something else.
  func validate() throws(TransportConfigurationError) {
    guard let url else { return }
    guard let target = RequestTarget(url: url), Self.schemes.contains(target.scheme), url.isSafeHeaderText else {
      throw .invalidValue(
        name: "the proxy", requirement: "an address such as http://host:3128 or socks5h://host:1080")
    }
    guard !url.contains("@") else {
      throw .invalidValue(name: "the proxy", requirement: "given without user name and password")
    }
  }

  /// The proxy itself is reached over TLS.
  var isEncrypted: Bool { url?.lowercased().hasPrefix("https://") ?? false }
}

/// What proves to a server, in the TLS handshake, who connects.
public struct ClientCertificate: Hashable, Sendable {
  /// PEM file with the certificate, and those that lead to its authority.
  public var certificateFile: String
  /// PEM file with its key, without a passphrase; nil when it lies with the certificate.
  public var keyFile: String?

  /// A certificate and its key.
  public init(certificateFile: String, keyFile: String? = nil) {
    self.certificateFile = certificateFile
    self.keyFile = keyFile
  }
}

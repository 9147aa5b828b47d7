import Integrity

/// The public key of a certificate, as pins name it: the SHA-256 of its SubjectPublicKeyInfo.
public struct PublicKeyPin: Hashable, Sendable, CustomStringConvertible {
  /// 32 bytes.
  public let digest: [UInt8]

  private static let prefix = "sha256//"

  /// A pin of a digest; nil when that does not have 32 bytes.
  public init?(digest: [UInt8]) {
    guard digest.count == Digest32.byteCount else { return nil }
    self.digest = digest
  }

  /// A pin as curl writes it, `sha256//` and base64; nil when the text is none.
  public init?(_ text: String) {
    guard text.hasPrefix(Self.prefix), let digest = Base64.decode(String(text.dropFirst(Self.prefix.count))) else {
      return nil
    }
    self.init(digest: digest)
  }

  /// As curl writes it.
  public var description: String { Self.prefix + Base64.encode(digest) }
}

/// For which certificates logs must have vouched.
public enum TransparencyPolicy: String, Hashable, Sendable, CaseIterable {
  /// Those of authorities that came with the system. What the user has added is nothing that public logs take.
  case publicOnly = "public-only"
  /// All.
  case always
  /// None.
  case off
}

/// What a server's certificate must show beyond a chain to an authority that is trusted.
public struct ServerTrust: Hashable, Sendable {
  /// The chain must have one of these keys; none for any.
  public var pins: [PublicKeyPin] = []
  /// Which certificates need timestamps of two logs.
  public var transparency = TransparencyPolicy.publicOnly
  /// A JSON file with the logs that count; nil where there is none.
  public var logListFile: String?

  /// Nothing that needs a file.
  public init() {}
}

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

/// What a server's certificate must show beyond a chain to an authority that is trusted.
public struct ServerTrust: Hashable, Sendable {
  /// The chain must have one of these keys; none for any.
  public var pins: [PublicKeyPin] = []

  /// Nothing.
  public init() {}
}

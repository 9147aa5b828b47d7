/// What proves to an S3 server who is uploading. A secret: its descriptions do not show it.
public struct S3Credentials: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// Names the key.
  public var accessKeyID: String
  /// The key itself.
  public var secretAccessKey: String
  /// Goes with keys that are valid for a while only.
  public var sessionToken: String?
  /// When they end to be valid, seconds since 1970; nil when they do not, or it is unknown.
  public var expiresAtSeconds: Int64?

  /// Credentials; refused when they hold what could not stand in a header field.
  public init(
    accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil, expiresAtSeconds: Int64? = nil
  ) throws(DestinationError) {
    // A slash would end the key's name in the scope of a signature.
    let isClean = [accessKeyID, secretAccessKey, sessionToken ?? "-"].allSatisfy { text in
      !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    }
    guard isClean, !accessKeyID.contains("/"), !accessKeyID.contains(",") else {
      throw DestinationError(
        .invalidCredential, "The S3 access key, its secret or its session token is empty or holds blanks or line ends.")
    }
    self.accessKeyID = accessKeyID
    self.secretAccessKey = secretAccessKey
    self.sessionToken = sessionToken
    self.expiresAtSeconds = expiresAtSeconds
  }

  /// What kind of thing it is.
  public var description: String { "S3 credentials" }

  /// As ``description``: what is shown by a debugger or in a log must not hold the secret.
  public var debugDescription: String { description }

  /// Nothing to look into, for the same reason.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension CredentialMask {
  /// Knows these as well: a server has no other one in its words.
  func learn(_ credentials: S3Credentials) {
    learn([credentials.secretAccessKey] + [credentials.sessionToken].compactMap(\.self))
  }
}

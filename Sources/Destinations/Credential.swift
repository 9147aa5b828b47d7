import Integrity

/// What proves to a server who is uploading. A secret: its descriptions do not show it.
public enum Credential: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  case bearer(String)
  /// A user name and a password.
  case basic(user: String, password: String)

  /// Which kind it is.
  public var description: String {
    switch self {
    case .bearer: "bearer token"
    case .basic: "user name and password"
    }
  }

  /// As ``description``: what is shown by a debugger or in a log must not hold the secret.
  public var debugDescription: String { description }

  /// Nothing to look into, for the same reason.
  public var customMirror: Mirror { Mirror(self, children: []) }

  /// The value of the `Authorization` field.
  var authorization: String {
    switch self {
    case .bearer(let token): "Bearer \(token)"
    case .basic(let user, let password): "Basic \(Base64.encode(Array("\(user):\(password)".utf8)))"
    }
  }

  /// What both sides derive the MACs' keys from (docs/protocol.md, "Tags").
  var secret: [UInt8] {
    switch self {
    case .bearer(let token): Array(token.utf8)
    case .basic(let user, let password): Array("\(user):\(password)".utf8)
    }
  }

  /// Refuses what would break the header section, or be read by the server as something else.
  func check() throws(DestinationError) {
    switch self {
    case .bearer(let token):
      guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
        throw DestinationError(
          .invalidCredential, "The token is empty or holds blanks, line ends or other characters; check --token-file.")
      }
    case .basic(let user, let password):
      let isClean = (user + password).unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f }
      guard !user.isEmpty, !user.contains(":"), isClean else {
        throw DestinationError(
          .invalidCredential, "The user name is empty or has a colon, or name or password hold control characters.")
      }
    }
  }
}

import Logging
import ReceiverCore

/// Whose something is, for the log: the user's place in the token file, which says nothing of the token.
struct UserNumbers: Sendable {
  private let numbers: [CredentialID: Int]

  /// Counted from 1, in the order of the file. What was begun under a former token is still its user's.
  init(_ credentials: [Credential] = []) {
    numbers = Dictionary(
      credentials.enumerated().flatMap { position, credential in credential.ids.map { ($0, position + 1) } },
      uniquingKeysWith: { first, _ in first })
  }

  /// What stands with a line about something of this user; nil where it is not known whose it is.
  func metadata(of credential: CredentialID?) -> Logger.Metadata? {
    credential.flatMap { numbers[$0] }.map { ["user": "\($0)"] }
  }
}

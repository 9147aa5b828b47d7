import Logging
import ReceiverCore
import Synchronization

/// Whose something is, for the log: the user's place in the token file, which says nothing of the token.
final class UserNumbers: Sendable {
  private let numbers: Mutex<[CredentialID: Int]>

  /// Counted from 1, in the order of the file; the user of `--development` comes behind those.
  init(_ credentials: [Credential] = []) { numbers = Mutex(UserNumbers.numbers(of: credentials)) }

  /// The file was read anew.
  func renew(_ credentials: [Credential]) {
    let renewed = UserNumbers.numbers(of: credentials)
    numbers.withLock { $0 = renewed }
  }

  /// What stands with a line about something of this user; nil where it is not known whose it is.
  func metadata(of credential: CredentialID?) -> Logger.Metadata? {
    guard let credential else { return nil }
    return numbers.withLock { $0[credential] }.map { ["user": "\($0)"] }
  }

  /// What was begun under a former token is still its user's.
  private static func numbers(of credentials: [Credential]) -> [CredentialID: Int] {
    Dictionary(
      credentials.enumerated().flatMap { position, credential in credential.ids.map { ($0, position + 1) } },
      uniquingKeysWith: { first, _ in first })
  }
}

import Integrity
import Synchronization

/// Knows the credentials that are used, and takes them out of what a server says: some repeat what they were sent, and messages,
/// receipts and the log are read by others.
public final class CredentialMask: Sendable {
  /// What stands in the place of one.
  public static let replacement = "[credential]"
  /// Shorter ones are no secrets, and would be found in any text.
  private static let bytesMin = 6
  /// Credentials that are renewed are forgotten, oldest first.
  private static let textsMax = 32

  private let texts = Mutex<[String]>([])

  /// Knows none.
  public init() {}

  /// Knows this one as well, in each form in which it is sent.
  public func learn(_ credential: Credential) {
    let forms: [String] =
      switch credential {
      case .bearer(let token): [token]
      case .basic(let user, let password): [Base64.encode(Array("\(user):\(password)".utf8)), password]
      }
    texts.withLock { texts in
      for form in forms where form.utf8.count >= Self.bytesMin && !texts.contains(form) { texts.append(form) }
      // A longer one may hold a shorter one.
      texts.sort { $0.utf8.count > $1.utf8.count }
      if texts.count > Self.textsMax { texts.removeFirst(texts.count - Self.textsMax) }
    }
  }

  /// The text without them.
  public func hide(in text: String) -> String {
    texts.withLock { $0 }.reduce(text) { text, secret in
      text.contains(secret) ? text.replacing(secret, with: Self.replacement) : text
    }
  }
}

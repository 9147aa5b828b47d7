import Integrity
import Synchronization

/// Knows the credentials that are used, and takes them out of what a server says: some repeat what they were sent, and messages,
/// receipts and the log are read by others.
public final class CredentialMask: Sendable {
  /// What stands in the place of one.
  public static let replacement = "[credential]"
  /// Shorter ones are no secrets, and would be found in any text.
  private static let bytesMin = 6
  /// A beginning that is shorter could be any text's end.
  private static let beginningBytesMin = 4
  /// Credentials that are renewed are forgotten, oldest first.
  private static let textsMax = 32

  /// The one that was learnt first is the first.
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
      for form in forms where form.utf8.count >= Self.bytesMin {
        // One that is used again is as new.
        texts.removeAll { $0 == form }
        texts.append(form)
      }
      if texts.count > Self.textsMax { texts.removeFirst(texts.count - Self.textsMax) }
    }
  }

  /// The text without them.
  public func hide(in text: String) -> String {
    // A longer one may hold a shorter one.
    let known = texts.withLock { $0 }.sorted { $0.utf8.count > $1.utf8.count }
    let hidden = known.reduce(text) { text, secret in
      text.contains(secret) ? text.replacing(secret, with: Self.replacement) : text
    }
    // Messages hold what a server said only to a certain length, which may end within one.
    let parts = hidden.split(separator: PrintableText.cutMark, omittingEmptySubsequences: false)
    let whole =
      parts.dropLast().map { Self.withoutBeginning(of: known, atEndOf: $0) } + parts.suffix(1).map(String.init)
    return whole.joined(separator: String(PrintableText.cutMark))
  }

  /// What was cut within a credential ends with the beginning of it.
  private static func withoutBeginning(of secrets: [String], atEndOf text: Substring) -> String {
    for secret in secrets {
      var beginning = secret.dropLast()
      while beginning.utf8.count >= beginningBytesMin {
        if text.hasSuffix(beginning) { return String(text.dropLast(beginning.count)) + replacement }
        beginning.removeLast()
      }
    }
    return String(text)
  }
}

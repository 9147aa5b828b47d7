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
  private static let textsMax = 96

  /// The one that was learnt first is the first.
  private let texts = Mutex<[[UInt8]]>([])

  /// Knows none.
  public init() {}

  /// Knows this one as well, in each form in which it is sent.
  public func learn(_ credential: Credential) {
    switch credential {
    case .bearer(let token): learn([token])
    case .basic(let user, let password): learn([Base64.encode(Array("\(user):\(password)".utf8)), password])
    }
  }

  /// Knows these texts as well.
  func learn(_ secrets: [String]) {
    texts.withLock { texts in
      for form in secrets.flatMap(TextMask.forms).map({ Array($0.utf8) }) where form.count >= Self.bytesMin {
        // One that is used again is as new.
        texts.removeAll { $0 == form }
        texts.append(form)
      }
      if texts.count > Self.textsMax { texts.removeFirst(texts.count - Self.textsMax) }
    }
  }

  /// The text without them.
  public func hide(in text: String) -> String {
    let known = texts.withLock { $0 }.map { TextMask.Secret(bytes: $0, beginningBytesMin: Self.beginningBytesMin) }
    return TextMask(known, replacement: Self.replacement).hide(in: text)
  }
}

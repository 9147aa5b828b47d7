import Integrity
import Synchronization
import UploadEngine

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

  /// Knows these as well: a server has no other one in its words.
  public func learn(_ credentials: S3Credentials) {
    learn([credentials.secretAccessKey] + [credentials.sessionToken].compactMap(\.self))
  }

  private func learn(_ secrets: [String]) {
    texts.withLock { texts in
      for form in secrets.flatMap(Self.forms).map({ Array($0.utf8) }) where form.count >= Self.bytesMin {
        // One that is used again is as new.
        texts.removeAll { $0 == form }
        texts.append(form)
      }
      if texts.count > Self.textsMax { texts.removeFirst(texts.count - Self.textsMax) }
    }
  }

  /// As it is, and as it stands in an address, in JSON and in a page.
  private static func forms(of secret: String) -> [String] {
    let isPlain = { (character: Character) in character.isASCII && (character.isLetter || character.isNumber) }
    let isUsual = { (character: Character) in isPlain(character) || "-._~".contains(character) }
    let escaped = { (escape: (UInt8) -> String) in
      secret.map { isUsual($0) ? String($0) : $0.utf8.map(escape).joined() }.joined()
    }
    let percent = escaped { "%" + Hex.encode([$0]).uppercased() }
    let forms = [
      secret, percent, escaped { "%" + Hex.encode([$0]) }, secret.replacing("/", with: "\\/"),
      escaped { "&#\($0);" }, escaped { "&#x" + Hex.encode([$0]) + ";" },
      escaped { "&#x" + Hex.encode([$0]).uppercased() + ";" },
    ]
    var distinct: [String] = []
    for form in forms where !distinct.contains(where: { $0.utf8.elementsEqual(form.utf8) }) { distinct.append(form) }
    return distinct
  }

  /// The text without them. Bytes are compared: what a server puts behind a credential can make its last character another one.
  public func hide(in text: String) -> String {
    let known = texts.withLock { $0 }
    let bytes = Array(text.utf8)
    let mark = Array(String(PrintableText.cutMark).utf8)
    // It is asked for each delivery, and next to no answer has any of it.
    guard ([mark] + known).contains(where: { bytes.firstOccurrence(of: $0) != nil }) else { return text }
    // A longer one may hold a shorter one.
    let secrets = known.sorted { $0.count > $1.count }
    let hidden = secrets.reduce(bytes) { Array($0.parts(between: $1).joined(separator: Self.replacement.utf8)) }
    // Messages hold what a server said only to a certain length, which may end within one.
    let parts = hidden.parts(between: mark)
    let whole =
      parts.dropLast().map { Self.withoutBeginning(of: secrets, atEndOf: $0) } + parts.suffix(1).map { Array($0) }
    return String(decoding: Array(whole.joined(separator: mark)), as: UTF8.self)
  }

  /// What was cut within a credential ends with the beginning of it.
  private static func withoutBeginning(of secrets: [[UInt8]], atEndOf text: ArraySlice<UInt8>) -> [UInt8] {
    for secret in secrets {
      for count in stride(from: secret.count - 1, through: beginningBytesMin, by: -1)
      where text.suffix(count).elementsEqual(secret.prefix(count)) {
        return Array(text.dropLast(count)) + replacement.utf8
      }
    }
    return Array(text)
  }
}

extension [UInt8] {
  /// Where some bytes begin in these, from an offset on.
  fileprivate func firstOccurrence(of part: [UInt8], from start: Int = 0) -> Int? {
    self[start...].indices.first { self[$0] == part.first && self[$0...].starts(with: part) }
  }

  /// What stands before, between and behind the places where `mark` is; at least one.
  fileprivate func parts(between mark: [UInt8]) -> [ArraySlice<UInt8>] {
    var (parts, start) = ([ArraySlice<UInt8>](), 0)
    while let end = firstOccurrence(of: mark, from: start) {
      parts.append(self[start..<end])
      start = end + mark.count
    }
    return parts + [self[start...]]
  }
}

import ChunkProtocol
import Lookup
import Quantities

/// A token file that cannot be used.
public struct TokenFileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The line, from 1; 0 for the file as a whole.
  public var line: Int
  /// What is wrong with it; holds no token.
  public var reason: String

  /// Line and reason, for people.
  public var description: String { line > 0 ? "line \(line): \(reason)" : reason }
}

/// The file of tokens: one `ROOT TOKEN [also=TOKEN]… [was=TOKEN]… [quota=BYTES]` a line; `#` at the beginning of a word begins a comment.
public enum TokenFile {
  /// No valid token is shorter: what is left of one in a file that was cut would be guessed.
  public static let tokenBytesMin = 8
  /// Shorter ones are warned of.
  public static let safeTokenBytesMin = 32
  private static let advice = "make one with: openssl rand -hex 32"

  /// Reads a token file. A line that is no UTF-8 would name another folder, with U+FFFD in its name, and is refused.
  public static func parse(_ bytes: [UInt8], base: String) throws(TokenFileError) -> [Credential] {
    let content = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? bytes[3...] : bytes[...]
    guard let text = String(validating: content, as: UTF8.self) else {
      let lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
      let place = lines.firstIndex { String(validating: $0, as: UTF8.self) == nil } ?? 0
      throw TokenFileError(line: place + 1, reason: "the line is no UTF-8; use a root whose path is")
    }
    return try parse(text, base: base)
  }

  /// Reads the text of a token file; relative roots are below `base`.
  public static func parse(_ text: String, base: String) throws(TokenFileError) -> [Credential] {
    var credentials: [Credential] = []
    var tokens: LookupSet<String> = []
    for (position, line) in lines(of: text).enumerated() {
      let words = words(of: line)
      guard !words.isEmpty else { continue }
      let credential = try credential(words, base: base, line: position + 1)
      for token in credential.allTokens {
        guard tokens.insert(token).inserted else {
          throw TokenFileError(line: position + 1, reason: "a token of this line stands in the file twice")
        }
      }
      credentials.append(credential)
    }
    guard !credentials.isEmpty else { throw TokenFileError(line: 0, reason: "the file holds no credential") }
    return credentials
  }

  /// Whether a token may be valid.
  public static func isLongEnough(_ token: String) -> Bool { token.utf8.count >= tokenBytesMin }

  /// What its operator should look at in a file that is used; holds no token.
  public static func warnings(of text: String, _ credentials: [Credential]) -> [String] {
    let tokens = credentials.map { [$0.token ?? ""] + $0.otherTokens }
    var warnings: [String] = []
    let numbered = linesReadDifferently(text)
    if !numbered.isEmpty {
      let shown = numbered.prefix(10).map(String.init).joined(separator: ", ") + (numbered.count > 10 ? " …" : "")
      warnings.append(
        "\(numbered.count) lines have a # in a token, or in a root a blank beyond ASCII or a combining mark as its first character, "
          + "where earlier versions cut them: line \(shown)")
    }
    let short = tokens.count { $0.contains { $0.utf8.count < safeTokenBytesMin } }
    if short > 0 {
      warnings.append(
        "the tokens of \(short) lines have fewer than \(safeTokenBytesMin) characters and may be guessed; \(advice)")
    }
    if text.utf8.last != newline && text.utf8.last != carriageReturn {
      warnings.append(
        "the last line has no end: if the file was cut off there, in the middle of a token, what is left of that lets in; "
          + "compare it, and end the line")
    }
    return warnings
  }

  /// Counted from 1: a `#` within a word began a comment once, a blank beyond ASCII ended the word, and a mark counted to the blank before it.
  private static func linesReadDifferently(_ text: String) -> [Int] {
    lines(of: text).enumerated().compactMap { position, line in
      words(of: line).contains { word in
        word.utf8.contains(comment) || word.unicodeScalars.first?.properties.isGraphemeExtend == true
          || word.unicodeScalars.contains { !$0.isASCII && $0.properties.isWhitespace }
      } ? position + 1 : nil
    }
  }

  private static let comment = UInt8(ascii: "#")
  private static let newline = UInt8(ascii: "\n")
  private static let carriageReturn = UInt8(ascii: "\r")

  /// They end with LF, CR LF or CR.
  private static func lines(of text: String) -> [Substring.UTF8View] {
    text.utf8.split(separator: newline, omittingEmptySubsequences: false).flatMap { line in
      (line.last == carriageReturn ? line.dropLast() : line)
        .split(separator: carriageReturn, omittingEmptySubsequences: false)
    }
  }

  /// Those before a comment. They are cut at bytes: to Swift a space and a combining mark behind it are one character. A `#` within a word
  /// belongs to it: a token that was cut there would let in what is shorter.
  private static func words(of line: Substring.UTF8View) -> [String] {
    line.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }.prefix { $0.first != comment }
      .map { String(Substring($0)) }
  }

  private static func credential(_ words: [String], base: String, line: Int) throws(TokenFileError) -> Credential {
    guard words.count >= 2 else {
      throw TokenFileError(line: line, reason: "expected: ROOT TOKEN [also=TOKEN]… [was=TOKEN]… [quota=BYTES]")
    }
    let root = words[0]
    guard !PublishedName.components(of: root).contains("..") else {
      throw TokenFileError(line: line, reason: "the root must not contain “..”")
    }
    // A zero byte would end it for the kernel, and show another folder than it names.
    guard root.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
      throw TokenFileError(line: line, reason: "the root must not contain control characters")
    }
    let place = root.utf8.first == UInt8(ascii: "/") ? root : "\(base)/\(root)"
    // As it is spelt, with the number of its line. Another path that leads there is refused when the folder is opened.
    let folders = { (path: String) in PublishedName.components(of: path).filter { $0 != "." } }
    guard !folders(place).starts(with: folders(base) + [".development"]) else {
      throw TokenFileError(line: line, reason: "the root must not be .development, which holds the receiver's own key")
    }
    var others: [String] = []
    var former: [String] = []
    var quota: UInt64?
    for word in words[2...] {
      if let token = value(of: word, "also") {
        others.append(token)
      } else if let token = value(of: word, "was") {
        former.append(token)
      } else if quota == nil, let bytes = value(of: word, "quota").flatMap(Units.bytes) {
        quota = bytes
      } else {
        throw TokenFileError(
          line: line,
          reason:
            "expected also=TOKEN, was=TOKEN, or once quota=BYTES, a number with or without a unit (500000000, 500MB, 2GiB)"
        )
      }
    }
    guard ([words[1]] + others + former).allSatisfy({ $0.utf8.allSatisfy { (0x21...0x7e).contains($0) } }) else {
      throw TokenFileError(line: line, reason: "a token is printable ASCII")
    }
    // One of `was=` opens nothing, so a short one of before can be exchanged.
    guard ([words[1]] + others).allSatisfy({ isLongEnough($0) }) else {
      throw TokenFileError(
        line: line,
        reason:
          "a token of fewer than \(tokenBytesMin) characters: it may have been cut off, and would be guessed; \(advice)"
      )
    }
    return Credential(
      token: words[1], otherTokens: others, formerTokens: former,
      root: place, quotaBytes: quota)
  }

  /// What follows `NAME=`.
  private static func value(of word: String, _ name: String) -> String? {
    let start = "\(name)=".utf8
    guard word.utf8.starts(with: start), word.utf8.count > start.count else { return nil }
    return String(word.utf8.dropFirst(start.count))
  }
}

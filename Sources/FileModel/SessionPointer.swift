/// Where a server keeps what is no longer in the spool: enough to ask for it when everything else that named it is gone.
public struct SessionPointer: Hashable, Sendable {
  /// The length of a chunk, fixed for the session.
  public var chunkBytes: Int
  /// The server's id of the session.
  public var sessionID: String
  /// The session's nonce.
  public var nonce: [UInt8]
  /// The destination's address, without credentials.
  public var address: String
  /// Tells one credential from another and says nothing else about it; nil without one.
  public var credentialMark: String?

  /// A session at an address.
  public init(chunkBytes: Int, sessionID: String, nonce: [UInt8], address: String, credentialMark: String?) {
    self.chunkBytes = chunkBytes
    self.sessionID = sessionID
    self.nonce = nonce
    self.address = address
    self.credentialMark = credentialMark
  }

  // MARK: - As text

  private static let noNonce = "-"

  /// Words that hold neither blanks nor semicolons: chunk size, session, nonce, address, and the credential's mark where there is one.
  public var text: String {
    let words = [String(chunkBytes), Self.escaped(sessionID), Self.text(ofNonce: nonce), Self.escaped(address)]
    return (words + (credentialMark.map { [Self.escaped($0)] } ?? [])).joined(separator: " ")
  }

  /// What ``text`` says; further words are ignored. Nil for anything else.
  public init?(_ text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    guard words.count >= 4, let chunkBytes = Int(words[0]), chunkBytes > 0,
      let sessionID = Self.unescaped(words[1]), !sessionID.isEmpty, let nonce = Self.nonce(words[2]),
      let address = Self.unescaped(words[3])
    else { return nil }
    var mark: String?
    if words.count > 4 {
      guard let known = Self.unescaped(words[4]) else { return nil }
      mark = known
    }
    self.init(chunkBytes: chunkBytes, sessionID: sessionID, nonce: nonce, address: address, credentialMark: mark)
  }

  private static func text(ofNonce nonce: [UInt8]) -> String {
    guard !nonce.isEmpty else { return noNonce }
    return String(decoding: HexDigits.of(nonce), as: UTF8.self)
  }

  private static func nonce(_ text: String) -> [UInt8]? {
    if text == noNonce { return [] }
    return HexDigits.bytes(text.utf8)
  }

  /// Blanks, semicolons, percent signs and what is not printable stand as `%` and two digits.
  private static func escaped(_ text: String) -> String {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      if byte > 0x20, byte < 0x7f, byte != UInt8(ascii: "%"), byte != UInt8(ascii: ";") {
        bytes.append(byte)
      } else {
        bytes += [UInt8(ascii: "%")] + HexDigits.of([byte])
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func unescaped(_ text: String) -> String? {
    var result: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        result.append(byte)
        continue
      }
      guard rest.count >= 2, let known = HexDigits.bytes(rest.prefix(2)) else { return nil }
      result += known
      rest = rest.dropFirst(2)
    }
    return String(validating: result, as: UTF8.self)
  }
}

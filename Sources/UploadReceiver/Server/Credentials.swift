import Integrity

/// Who may use the receiver: a token, where its files go, and how much.
public struct Credential: Hashable, Sendable {
  /// The bearer token. A secret. Nil for the credential of a receiver that is open on loopback.
  public var token: String?
  /// The folder that its files are published in.
  public var root: String
  /// The most that may lie there; nil for no limit.
  public var quotaBytes: UInt64?

  /// A credential as configured.
  public init(token: String?, root: String, quotaBytes: UInt64? = nil) {
    self.token = token
    self.root = root
    self.quotaBytes = quotaBytes
  }

  /// Names the credential in journals; says nothing about the token.
  public var id: CredentialID {
    CredentialID(Hex.encode(Array(Credential.digest(token ?? "").prefix(16))))
  }

  var core: CoreCredential {
    CoreCredential(
      id: id, tagMasterKey: ChunkTag.masterKey(credentialSecret: Array((token ?? "").utf8)), quotaBytes: quotaBytes)
  }

  static func digest(_ token: String) -> [UInt8] {
    sha256(Array("uploadfs-receiver-token\u{0}\(token)".utf8))
  }
}

/// Recognises tokens. Compares digests, all of them and in constant time, so that the time tells nothing.
struct CredentialTable: Sendable {
  private let entries: [(digest: [UInt8], id: CredentialID)]
  private let open: CredentialID?

  init(_ credentials: [Credential]) {
    entries = credentials.compactMap { credential in
      credential.token.map { (Credential.digest($0), credential.id) }
    }
    open = credentials.first { $0.token == nil }?.id
  }

  /// The credential of an `Authorization` field; nil when there is none.
  func credential(authorization: String?) -> CredentialID? {
    if let open { return open }
    guard let authorization, let space = authorization.firstIndex(of: " "),
      authorization[..<space].lowercased() == "bearer"
    else { return nil }
    let token = authorization[space...].drop { $0 == " " }
    let digest = Credential.digest(String(token))
    var found: CredentialID?
    for entry in entries where HMACSHA256.isEqual(entry.digest, digest) { found = entry.id }
    return found
  }
}

/// A token file that cannot be used.
public struct TokenFileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The line, from 1; 0 for the file as a whole.
  public var line: Int
  /// What is wrong with it; holds no token.
  public var reason: String

  /// Line and reason, for people.
  public var description: String { line > 0 ? "line \(line): \(reason)" : reason }
}

/// The file of tokens: one `ROOT TOKEN [quota=BYTES]` a line, `#` begins a comment.
public enum TokenFile {
  /// Reads the text of a token file; relative roots are below `base`.
  public static func parse(_ text: String, base: String) throws(TokenFileError) -> [Credential] {
    var credentials: [Credential] = []
    var tokens: Set<String> = []
    for (position, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
      .enumerated()
    {
      let content = line.prefix { $0 != "#" }
      let words = content.split(whereSeparator: \.isWhitespace).map(String.init)
      guard !words.isEmpty else { continue }
      let credential = try credential(words, base: base, line: position + 1)
      guard tokens.insert(credential.token ?? "").inserted else {
        throw TokenFileError(line: position + 1, reason: "this token stands in the file twice")
      }
      credentials.append(credential)
    }
    guard !credentials.isEmpty else { throw TokenFileError(line: 0, reason: "the file holds no credential") }
    return credentials
  }

  private static func credential(_ words: [String], base: String, line: Int) throws(TokenFileError) -> Credential {
    guard words.count >= 2, words.count <= 3 else {
      throw TokenFileError(line: line, reason: "expected: ROOT TOKEN [quota=BYTES]")
    }
    let root = words[0]
    guard !root.split(separator: "/").contains("..") else {
      throw TokenFileError(line: line, reason: "the root must not contain ..")
    }
    guard words[1].utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw TokenFileError(line: line, reason: "a token is printable ASCII")
    }
    var quota: UInt64?
    if words.count == 3 {
      guard words[2].hasPrefix("quota="), let bytes = UInt64(words[2].dropFirst("quota=".count)) else {
        throw TokenFileError(line: line, reason: "expected quota=BYTES, a number of bytes")
      }
      quota = bytes
    }
    return Credential(token: words[1], root: root.hasPrefix("/") ? root : "\(base)/\(root)", quotaBytes: quota)
  }
}

import Integrity

/// Who may use the receiver: a token, where its files go, and how much.
public struct Credential: Hashable, Sendable {
  /// The bearer token. A secret. Nil for the credential of a receiver that is open on loopback.
  public var token: String?
  /// More bearer tokens of the same user, so that one can be exchanged for another. Secrets.
  public var otherTokens: [String]
  /// Tokens that the user had. They are no longer valid; its sessions and MACs of then are still its own. Secrets.
  public var formerTokens: [String]
  /// The folder that its files are published in.
  public var root: String
  /// The most that may lie there; nil for no limit.
  public var quotaBytes: UInt64?
  /// The name that its user has had since the receiver was started, where its tokens were exchanged after that
  /// (``CredentialRoster``).
  var knownAs: CredentialID?

  /// A credential as configured.
  public init(
    token: String?, otherTokens: [String] = [], formerTokens: [String] = [], root: String, quotaBytes: UInt64? = nil
  ) {
    self.token = token
    self.otherTokens = otherTokens
    self.formerTokens = formerTokens
    self.root = root
    self.quotaBytes = quotaBytes
  }

  /// Names the credential while the receiver runs; says nothing about the token.
  public var id: CredentialID { knownAs ?? recordedID }

  /// Names it in journals from now on. A receiver that is started later knows its tokens of then and no others.
  var recordedID: CredentialID { Credential.id(of: token ?? "") }

  /// The names that it may have: of any of its tokens, which may have been the first one, and the one that it has here.
  public var ids: [CredentialID] {
    let names = allTokens.map { Credential.id(of: $0) }
    guard let knownAs, !names.contains(knownAs) else { return names }
    return names + [knownAs]
  }

  /// The first one, the others, and those that were.
  var allTokens: [String] { [token ?? ""] + otherTokens + formerTokens }

  private static func id(of token: String) -> CredentialID {
    CredentialID(Hex.encode(Array(digest(token).bytes.prefix(16))))
  }

  /// What the core knows of it.
  public var core: CoreCredential {
    CoreCredential(
      id: id, formerIDs: ids.filter { $0 != id }, recordedID: recordedID,
      macMasterKeys: allTokens.map { ChunkMAC.masterKey(credentialSecret: Array($0.utf8)) },
      quotaBytes: quotaBytes)
  }

  /// The digest of the token in an `Authorization` field; nil when there is none.
  static func digest(authorization: String?) -> Digest32? {
    guard let authorization, let space = authorization.firstIndex(of: " "),
      authorization[..<space].lowercased() == "bearer"
    else { return nil }
    return digest(String(authorization[space...].drop { $0 == " " }))
  }

  static func digest(_ token: String) -> Digest32 {
    sha256(Array("uploadfs-receiver-token\u{0}\(token)".utf8))
  }
}

/// Recognises tokens. Compares digests, all of them and in constant time, so that the time tells nothing.
public struct CredentialTable: Sendable {
  private let entries: [(digest: Digest32, id: CredentialID)]
  private let open: CredentialID?

  /// Knows these credentials and no other.
  public init(_ credentials: [Credential]) {
    entries = credentials.flatMap { credential in
      (credential.token.map { [$0] + credential.otherTokens } ?? []).map { (Credential.digest($0), credential.id) }
    }
    open = credentials.first { $0.token == nil }?.id
  }

  /// The credential of an `Authorization` field; nil when there is none.
  public func credential(authorization: String?) -> CredentialID? {
    if let open { return open }
    guard let digest = Credential.digest(authorization: authorization) else { return nil }
    var found: CredentialID?
    for entry in entries where HMACSHA256.isEqual(entry.digest, digest) { found = entry.id }
    return found
  }
}

/// The token of who runs the receiver: it asks for the counts of all, and for nothing else.
struct OperatorToken: Sendable {
  private let digest: Digest32

  init(_ token: String) { digest = Credential.digest(token) }

  /// Whether an `Authorization` field holds it.
  func isIn(authorization: String?) -> Bool {
    Credential.digest(authorization: authorization).map { HMACSHA256.isEqual(digest, $0) } ?? false
  }
}

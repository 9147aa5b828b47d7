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

  /// What the core knows of it.
  public var core: CoreCredential {
    CoreCredential(
      id: id, tagMasterKey: ChunkTag.masterKey(credentialSecret: Array((token ?? "").utf8)), quotaBytes: quotaBytes)
  }

  static func digest(_ token: String) -> [UInt8] {
    sha256(Array("uploadfs-receiver-token\u{0}\(token)".utf8))
  }
}

/// Recognises tokens. Compares digests, all of them and in constant time, so that the time tells nothing.
public struct CredentialTable: Sendable {
  private let entries: [(digest: [UInt8], id: CredentialID)]
  private let open: CredentialID?

  /// Knows these credentials and no other.
  public init(_ credentials: [Credential]) {
    entries = credentials.compactMap { credential in
      credential.token.map { (Credential.digest($0), credential.id) }
    }
    open = credentials.first { $0.token == nil }?.id
  }

  /// The credential of an `Authorization` field; nil when there is none.
  public func credential(authorization: String?) -> CredentialID? {
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

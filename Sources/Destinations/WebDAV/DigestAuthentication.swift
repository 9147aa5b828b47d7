import ChunkProtocol
import Integrity
import TransferModel

/// Digest authentication (RFC 7616): shows that one knows a password, and not the password.
struct DigestAuthentication: Hashable {
  private enum Hash: Hashable {
    case md5
    case sha256

    func callAsFunction(_ text: String) -> String {
      switch self {
      case .md5: Hex.encode(MD5.digest(of: Array(text.utf8)))
      case .sha256: Hex.encode(Integrity.sha256(Array(text.utf8)))
      }
    }
  }

  /// The server's, which it counts uses of.
  let nonce: String
  /// The password was right and the nonce too old.
  let isStale: Bool
  private let realm: String
  private let opaque: String?
  /// As the server wrote it; nil where it did not.
  private let algorithm: String?
  private let hash: Hash
  private let isOfSession: Bool
  private let hasQuality: Bool
  private let hidesUser: Bool

  /// The strongest that an answer asks for; nil where it asks for none that is known.
  init?(_ response: HTTPResponse) {
    let known = AuthenticationChallenge.all(in: response).compactMap { Self($0) }
    guard let best = known.first(where: { $0.hash == .sha256 }) ?? known.first else { return nil }
    self = best
  }

  init?(_ challenge: AuthenticationChallenge) {
    guard challenge.scheme == "digest", let realm = challenge["realm"], let nonce = challenge["nonce"] else {
      return nil
    }
    switch (challenge["algorithm"] ?? "MD5").lowercased() {
    case "md5": (hash, isOfSession) = (.md5, false)
    case "md5-sess": (hash, isOfSession) = (.md5, true)
    case "sha-256": (hash, isOfSession) = (.sha256, false)
    case "sha-256-sess": (hash, isOfSession) = (.sha256, true)
    default: return nil
    }
    let qualities = (challenge["qop"] ?? "").lowercased().utf8
      .split { $0 == UInt8(ascii: ",") || $0 <= UInt8(ascii: " ") }.map { String(Substring($0)) }
    // That of bodies is not known here; without any it is RFC 2069's.
    guard qualities.isEmpty || qualities.contains("auth") else { return nil }
    hasQuality = !qualities.isEmpty
    (self.realm, self.nonce, opaque, algorithm) = (realm, nonce, challenge["opaque"], challenge["algorithm"])
    isStale = challenge["stale"]?.lowercased() == "true"
    hidesUser = challenge["userhash"]?.lowercased() == "true"
  }

  /// The value of a request's `Authorization`. `count` is how often the nonce was used, this time included; `clientNonce` is fresh.
  func authorization(
    user: String, password: String, method: String, target: String, count: UInt32, clientNonce: String
  ) -> String {
    let count = Hex.encode(count)
    var secret = hash("\(user):\(realm):\(password)")
    if isOfSession { secret = hash("\(secret):\(nonce):\(clientNonce)") }
    let asked = hash("\(method):\(target)")
    let response = hash(
      hasQuality ? "\(secret):\(nonce):\(count):\(clientNonce):auth:\(asked)" : "\(secret):\(nonce):\(asked)")
    var fields = [name(user), ("realm", quoted(realm)), ("nonce", quoted(nonce)), ("uri", quoted(target))]
    fields.append(("response", quoted(response)))
    if let algorithm { fields.append(("algorithm", algorithm)) }
    if let opaque { fields.append(("opaque", quoted(opaque))) }
    if hasQuality { fields += [("qop", "auth"), ("nc", count)] }
    if hasQuality || isOfSession { fields.append(("cnonce", quoted(clientNonce))) }
    if hidesUser { fields.append(("userhash", "true")) }
    return "Digest " + fields.map { "\($0)=\($1)" }.joined(separator: ", ")
  }

  private func name(_ user: String) -> (String, String) {
    if hidesUser { return ("username", quoted(hash("\(user):\(realm)"))) }
    let isPlain = user.utf8.allSatisfy { (0x20...0x7e).contains($0) }
    return isPlain ? ("username", quoted(user)) : ("username*", "UTF-8''\(PercentCoding.encode(user))")
  }

  private func quoted(_ text: String) -> String {
    "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
  }
}

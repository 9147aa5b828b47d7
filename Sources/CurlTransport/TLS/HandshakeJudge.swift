public import TransferModel

/// What was seen in a handshake that came to an end, for people who examine a server.
public struct HandshakeReport: Hashable, Sendable {
  /// The public keys of the server's certificate and of its authorities, the server's own first.
  public var keys: [PublicKeyPin] = []
  /// How many of them are pinned; nil where nothing is.
  public var pinned: Int?
  /// What the timestamps of logs are worth.
  public var transparency: TransparencyVerdict?
  /// What the OCSP response is worth that came with the certificate.
  public var staple: StapleVerdict?
  /// The certificate is only to be believed with one.
  public var requiresStaple = false

  /// Nothing seen.
  public init() {}
}

/// Decides about one handshake. Pure: facts in, in the order in which OpenSSL finds them.
struct HandshakeJudge {
  private let host: String
  private let trust: ServerTrust
  private let standing: TransparencyStanding
  private let list: TransparencyLogList?
  /// All authorities that are trusted are the user's own choice.
  private let hasOwnAuthorities: Bool
  private var endSeconds: Int64?
  private var needsTimestamps = false
  private(set) var report = HandshakeReport()
  /// Why the handshake is ended; nil while it goes on.
  private(set) var refusal: TransportError?

  init(
    host: String, _ trust: ServerTrust, _ standing: TransparencyStanding, _ list: TransparencyLogList?,
    hasOwnAuthorities: Bool
  ) {
    self.host = host
    self.trust = trust
    self.standing = standing
    self.list = list
    self.hasOwnAuthorities = hasOwnAuthorities
  }

  /// Timestamps are needed, and OpenSSL has not asked for a verdict.
  var lacksVerdict: Bool { needsTimestamps && report.transparency == nil }

  /// The chain of certificates. True to go on.
  mutating func see(_ chain: ChainFacts) -> Bool {
    guard chain.error == 0 else {
      let detail = chain.errorText
      return refuse(
        .certificateRefused,
        "\(ChainVerdict.words(chain, host: host)) (\(detail))\(CurlFailure.doubtOfClock(detail))")
    }
    endSeconds = chain.validUntilSeconds
    report.keys = chain.keys
    report.requiresStaple = chain.requiresStaple
    return seePins(chain) && seeAuthority(chain)
  }

  private mutating func seePins(_ chain: ChainFacts) -> Bool {
    guard !trust.pins.isEmpty else { return true }
    let matching = chain.keys.count { trust.pins.contains($0) }
    report.pinned = matching
    guard matching == 0 else { return true }
    let keys = chain.keys.map(\.description).joined(separator: ", ")
    return refuse(
      .pinMismatch,
      "no certificate of \(host), or of the authorities behind it, has a public key that is pinned; theirs are \(keys). "
        + "If they were changed on purpose, give the new ones with --pin")
  }

  private mutating func seeAuthority(_ chain: ChainFacts) -> Bool {
    guard case .enforced = standing else {
      report.transparency = .notNeeded(standing)
      return true
    }
    if trust.transparency == .publicOnly, hasOwnAuthorities || chain.isAddedAuthority {
      report.transparency = .exempt
      return true
    }
    needsTimestamps = true
    // OpenSSL asks about none of a certificate that is its own authority.
    guard chain.keys.count > 1 else { return refuseTimestamps("it is its own authority, for which no log can vouch") }
    return true
  }

  /// The OCSP response. True to go on.
  mutating func see(_ staple: StapleFacts, nowSeconds: Int64) -> Bool {
    let verdict = StapleVerdict.of(staple, nowSeconds: nowSeconds)
    report.staple = verdict
    switch verdict {
    case .good: return true
    case .revoked(let seconds):
      return refuse(
        .certificateRevoked,
        "the certificate of \(host) was revoked\(ChainVerdict.day(seconds)), says the OCSP response that came with it; have a "
          + "new one made")
    case .none:
      guard report.requiresStaple else { return true }
      return refuse(
        .stapleMissing,
        "the certificate of \(host) is only to be believed with an OCSP response (must-staple), and none came with it; turn "
          + "OCSP stapling on at the server")
    case .unusable(let reason):
      guard report.requiresStaple else { return true }
      return refuse(
        .stapleMissing,
        "the certificate of \(host) is only to be believed with an OCSP response (must-staple), and the one that came with it "
          + "\(reason)")
    }
  }

  /// The timestamps of certificate logs. True to go on.
  mutating func see(_ timestamps: [TimestampFacts]) -> Bool {
    guard needsTimestamps, let list else { return true }
    let verdict = TransparencyVerdict.of(timestamps, list, endSeconds: endSeconds)
    if case .refused(let reason) = verdict { return refuseTimestamps(reason) }
    report.transparency = verdict
    return true
  }

  private mutating func refuseTimestamps(_ reason: String) -> Bool {
    report.transparency = .refused(reason)
    return refuse(
      .transparencyRefused,
      "the certificate of \(host) lacks timestamps of two certificate logs of different operators: \(reason)")
  }

  private mutating func refuse(_ kind: TransportError.Kind, _ message: String) -> Bool {
    refusal = TransportError(kind, message)
    return false
  }
}

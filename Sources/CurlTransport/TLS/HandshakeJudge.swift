public import TransferModel

/// What was seen in a handshake that came to an end, for people who examine a server.
public struct HandshakeReport: Hashable, Sendable {
  /// The public keys of the server's certificate and of its authorities, the server's own first.
  public var keys: [PublicKeyPin] = []
  /// How many of them are pinned; nil where nothing is.
  public var pinned: Int?

  /// Nothing seen.
  public init() {}
}

/// Decides about one handshake. Pure.
struct HandshakeJudge {
  private let host: String
  private let trust: ServerTrust
  private(set) var report = HandshakeReport()
  /// Why the handshake is ended; nil while it goes on.
  private(set) var refusal: TransportError?

  init(host: String, _ trust: ServerTrust) {
    self.host = host
    self.trust = trust
  }

  /// The chain of certificates. True to go on.
  mutating func see(_ chain: ChainFacts) -> Bool {
    guard chain.error == 0 else {
      let detail = chain.errorText
      return refuse(
        .certificateRefused,
        "\(ChainVerdict.words(chain, host: host)) (\(detail))\(CurlFailure.doubtOfClock(detail))")
    }
    report.keys = chain.keys
    return seePins(chain)
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

  private mutating func refuse(_ kind: TransportError.Kind, _ message: String) -> Bool {
    refusal = TransportError(kind, message)
    return false
  }
}

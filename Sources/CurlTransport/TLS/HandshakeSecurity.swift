import CCurl
import Glibc
import TransferModel

/// How the handshakes of one transport are judged.
struct HandshakeSecurity: Sendable {
  let trust: ServerTrust
  /// All authorities that are trusted are the user's own choice.
  let hasOwnAuthorities: Bool
  /// Nil where there is no list, or none is needed.
  let source: TransparencySource?

  /// Where update-ca-certificates(8) finds what a user has added to the system's authorities.
  static let addedAuthorities = "/usr/local/share/ca-certificates"

  /// Nil where the installed libcurl gives no access to its handshakes.
  init?(_ configuration: CurlTransportConfiguration) throws(TransportConfigurationError) {
    guard uploadfs_curl_shares_openssl() == 1 else { return nil }
    trust = configuration.trust
    hasOwnAuthorities = configuration.caFile != nil
    guard trust.transparency != .off, let path = trust.logListFile else {
      source = nil
      return
    }
    source = try TransparencySource(path: path)
  }

  /// Whether certificates need timestamps at present.
  var standing: TransparencyStanding { standing(with: source?.current.list) }

  /// Something is set without which a connection would be weaker than its user wants it.
  var asksForLook: Bool {
    if case .enforced = standing { return true }
    return !trust.pins.isEmpty
  }

  /// The same with a list that was taken from the source.
  func standing(with list: TransparencyLogList?) -> TransparencyStanding {
    TransparencyStanding(
      trust.transparency, listMadeAtSeconds: list?.madeAtSeconds, nowSeconds: Int64(time(nil)))
  }
}

import CCurl
import TransferModel

/// How the handshakes of one transport are judged.
struct HandshakeSecurity: Sendable {
  let trust: ServerTrust

  /// Nil where the installed libcurl lets nobody look into a handshake.
  init?(_ configuration: CurlTransportConfiguration) {
    guard uploadfs_curl_shares_openssl() == 1 else { return nil }
    trust = configuration.trust
  }
}

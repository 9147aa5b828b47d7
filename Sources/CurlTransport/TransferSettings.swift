import TransferModel

/// What all requests of one transport have in common.
struct TransferSettings {
  let configuration: CurlTransportConfiguration
  let proxyUse: ProxyUse
  /// Nil where the installed libcurl gives no access to its handshakes.
  let security: HandshakeSecurity?
  /// What bounds the rate of all transports together; nil where nothing does.
  let rate: SendRate?

  /// What libcurl reads of a body at a time. It sends records of 16 KiB anyway; a larger buffer only leaves the cache:
  /// 64 and 128 KiB cost the least processor time (7.88, twelve connections), 2 MiB a third to a half more.
  static let uploadBufferBytes = 128 << 10

  /// How long a request may take in all; zero for no limit. Under a bound its body has the time that this gives it: the limit was set for
  /// what the line carries.
  func totalLimit(of request: HTTPRequest) -> Duration {
    guard request.limits.total > .zero, let rate else { return request.limits.total }
    return request.limits.total
      + rate.longestTime(ofBody: request.body.byteCount, among: configuration.maxConnections)
  }

  func allows(_ scheme: String) -> Bool {
    scheme == "https" || (scheme == "http" && configuration.allowPlainHTTP)
  }

  /// The server whose name this program asks for; nil where there is none to ask for, or a proxy does.
  func resolvedServer(of target: RequestTarget) -> NamedServer? {
    let proxy = proxyUse.address(forHost: target.host, isEncrypted: target.scheme == "https")
    return proxy == nil ? target.namedServer : nil
  }

  /// The watch over the handshakes of a request; nil where it has none, or libcurl gives no access to them.
  func handshake(with target: RequestTarget, through proxy: String?) throws(TransportError) -> Handshake? {
    guard target.scheme == "https", let security else { return nil }
    let isBehindEncryptedProxy = proxy?.lowercased().hasPrefix("https://") ?? false
    guard let handshake = Handshake(with: target.host, security, isBehindEncryptedProxy: isBehindEncryptedProxy) else {
      throw TransportError(.other, "there is no memory for a connection to \(target.host)")
    }
    return handshake
  }

  func refusal(ofURL url: String) -> String {
    guard let target = RequestTarget(url: url) else { return "a request's URL has no scheme and host" }
    return target.scheme == "http"
      ? "plain http to \(target.host) is not allowed" : "the scheme \(target.scheme) (\(target.host)) is not supported"
  }
}

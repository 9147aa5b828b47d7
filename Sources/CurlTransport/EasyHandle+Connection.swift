import CCurl
import TransferModel

/// How a server is reached, and who connects: the same for transfers, which verify its certificate, and for probes, which do not.
extension EasyHandle {
  /// Sets the proxy and the client's certificate.
  func setProxyAndClientCertificate(to target: RequestTarget, _ configuration: CurlTransportConfiguration)
    throws(TransportError)
  {
    try setProxy(to: target, configuration)
    guard let client = configuration.clientCertificate else { return }
    try set(CURLOPT_SSLCERT, client.certificateFile)
    try set(CURLOPT_SSLKEY, client.keyFile ?? client.certificateFile)
  }

  private func setProxy(
    to target: RequestTarget, _ configuration: CurlTransportConfiguration
  ) throws(TransportError) {
    let proxy = configuration.proxy
    try set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
    if let exceptions = proxy.exceptions { try set(CURLOPT_NOPROXY, exceptions) }
    if let url = proxy.url {
      try set(CURLOPT_PROXY, url)
    } else if target.isLoopback {
      // A proxy of the environment cannot reach what listens on this machine's own loopback.
      return try set(CURLOPT_PROXY, "")
    }
    if let user = proxy.user {
      try set(CURLOPT_PROXYUSERNAME, user)
      try set(CURLOPT_PROXYPASSWORD, proxy.password ?? "")
    }
    // Also for a proxy of the environment.
    try set(
      CURLOPT_PROXY_SSLVERSION,
      Int(proxy.oldestTLS == .tls12 ? CURL_SSLVERSION_TLSv1_2 : CURL_SSLVERSION_TLSv1_3))
    guard proxy.isEncrypted, let caFile = configuration.caFile else { return }
    try set(CURLOPT_PROXY_CAINFO, caFile)
    try unset(CURLOPT_PROXY_CAPATH)
  }
}

import CCurl
import TransferModel

/// Options that follow from a request and from what all requests have in common.
extension EasyHandle {
  /// How the server is reached, how old a connection may be that is taken again, and how it is verified.
  func setConnection(
    of request: HTTPRequest, to target: RequestTarget, with settings: TransferSettings,
    reusing reuse: ConnectionAges.Reuse, connecting connectLimit: Duration
  ) throws(TransportError) {
    let configuration = settings.configuration
    try set(CURLOPT_NOSIGNAL, true)
    if request.opensConnection || reuse == .none { try set(CURLOPT_FRESH_CONNECT, true) }
    if case .youngerThan(let seconds) = reuse { try set(CURLOPT_MAXLIFETIME_CONN, seconds) }
    // What was resolved before the connections were renewed may be another network's.
    if reuse != .any { try set(CURLOPT_DNS_CACHE_TIMEOUT, reuse.ageSecondsMax) }
    try set(CURLOPT_URL, request.url)
    try set(CURLOPT_PROTOCOLS_STR, configuration.allowPlainHTTP ? "https,http" : "https")
    try set(CURLOPT_DISALLOW_USERNAME_IN_URL, true)
    try set(CURLOPT_FOLLOWLOCATION, false)
    try set(CURLOPT_USERAGENT, configuration.userAgent)
    try setProxyAndClientCertificate(to: target, configuration)
    try setVerification(configuration)

    try set(CURLOPT_TCP_NODELAY, true)
    try set(CURLOPT_TCP_KEEPALIVE, true)
    try set(CURLOPT_TCP_KEEPIDLE, seconds: UploadConstants.keepAliveInterval)
    try set(CURLOPT_TCP_KEEPINTVL, seconds: UploadConstants.keepAliveInterval)
    // A body that the kernel holds is sent for libcurl, whether the network is there or not: only the kernel can tell.
    try setAcknowledgementTimeout(max(UploadConstants.stallDetection, request.limits.stall))
    try set(CURLOPT_UPLOAD_BUFFERSIZE, TransferSettings.uploadBufferBytes)

    try set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds: connectLimit)
    try set(CURLOPT_TIMEOUT_MS, milliseconds: settings.totalLimit(of: request))
  }

  private func setVerification(_ configuration: CurlTransportConfiguration) throws(TransportError) {
    try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_3))
    try set(CURLOPT_SSL_VERIFYPEER, 1)
    try set(CURLOPT_SSL_VERIFYHOST, 2)
    guard let caFile = configuration.caFile else { return }
    try set(CURLOPT_CAINFO, caFile)
    // Only these: the library's default folder of authorities would be asked as well.
    try unset(CURLOPT_CAPATH)
  }

  /// What the server is offered, and whether the request waits for a connection that another one makes.
  func setVersion(_ choice: VersionChoice, sharesConnection: Bool) throws(TransportError) {
    try set(CURLOPT_HTTP_VERSION, Int(choice.offersHTTP2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1))
    // libcurl takes any connection for a request that may go over HTTP/2, also one of HTTP/1.1 that rests. It keeps connections apart by
    // this option, which only Windows' TLS looks at.
    if choice == .tried(.http2) { try set(CURLOPT_SSL_OPTIONS, Int(CURLSSLOPT_REVOKE_BEST_EFFORT)) }
    try set(CURLOPT_PIPEWAIT, sharesConnection)
  }

  /// The fields that follow the request's line, as they are sent.
  func setHeader(of request: HTTPRequest, to target: RequestTarget) throws(TransportError) {
    // Without this line libcurl would ask for permission to send any large body and wait a second for the answer.
    var lines = [request.asksBeforeBody ? "Expect: 100-continue" : "Expect:"]
    for header in request.headers {
      guard header.name.isSafeHeaderText, header.value.isSafeHeaderText, !header.name.isEmpty,
        !header.name.utf8.contains(where: { $0 == 0x3a || $0 == 0x3b })
      else { throw TransportError(.other, "a header field of a request to \(target.host) is malformed") }
      // libcurl takes "Name:" for the wish to remove the field, and "Name;" for an empty one.
      lines.append(header.value.isEmpty ? "\(header.name);" : "\(header.name): \(header.value)")
    }
    try setHeaderLines(lines)
  }
}

import CCurl
public import TransferModel

/// What a probe of a server shows. The probe tells the server nothing: no credentials are sent. Unless it is to connect as uploads do, it
/// refuses no certificate either: it explains why a connection that verifies fails.
public struct ServerProbe: Sendable {
  /// Which connections are tried.
  public enum Security: Sendable {
    /// As uploads do, with all that they verify.
    case verified
    /// As uploads do, but believing everything.
    case tls13
    /// TLS of versions that are too old for uploads.
    case olderTLS
    /// None.
    case plain
  }

  /// Why there is no answer; nil when there is one.
  public var failure: TransportError?
  /// Of the answer.
  public var status = 0
  /// The server's clock, as it says; nil when it does not.
  public var date: String?
  /// The server's own certificate first.
  public var certificates: [PeerCertificate] = []
  /// What the handshake has shown; nil for connections that verify nothing, and where libcurl gives no access to it.
  public var handshake: HandshakeReport?
  /// From the beginning to the end of the handshakes.
  public var handshakes: Duration = .zero

  /// Nothing seen yet.
  public init() {}

  /// Asks for the root of the server with `HEAD`. Blocks until there is an answer or the time is over.
  ///
  /// - Parameter authority: host and port, as they stand in a URL.
  public static func at(
    _ authority: String, _ security: Security, configuration: CurlTransportConfiguration
  ) -> ServerProbe {
    var probe = ServerProbe()
    // Counted, and never undone: a transport may live beside this.
    guard curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK, let handle = EasyHandle() else {
      probe.failure = TransportError(.other, "libcurl cannot be set up: out of memory?")
      return probe
    }
    let url = "\(security == .plain ? "http" : "https")://\(authority)/"
    let handshake: Handshake?
    do throws(TransportError) {
      handshake = security == .verified ? try Self.handshake(url, configuration) : nil
      try probe.configure(handle, url, security, configuration)
      if let handshake { try handle.setHandshake(handshake) }
    } catch {
      probe.failure = error
      return probe
    }
    // libcurl holds its address.
    withExtendedLifetime(handshake) { probe.take(handle, host: RequestTarget(url: url)?.host ?? authority) }
    probe.handshake = handshake?.report
    probe.failure = handshake?.refusal ?? probe.failure
    return probe
  }

  private static func handshake(
    _ url: String, _ configuration: CurlTransportConfiguration
  ) throws(TransportError) -> Handshake? {
    guard let target = RequestTarget(url: url) else { return nil }
    let security: HandshakeSecurity?
    do throws(TransportConfigurationError) {
      security = try HandshakeSecurity(configuration)
    } catch {
      throw TransportError(.other, error.description)
    }
    let proxyUse = ProxyUse(configuration.proxy)
    let settings = TransferSettings(configuration: configuration, proxyUse: proxyUse, security: security, rate: nil)
    return try settings.handshake(with: target, through: proxyUse.address(forHost: target.host, isEncrypted: true))
  }

  private func configure(
    _ handle: EasyHandle, _ url: String, _ security: Security, _ configuration: CurlTransportConfiguration
  ) throws(TransportError) {
    try handle.setErrorBuffer()
    try handle.set(CURLOPT_NOSIGNAL, true)
    try handle.set(CURLOPT_URL, url)
    try handle.set(CURLOPT_PROTOCOLS_STR, "https,http")
    try handle.set(CURLOPT_USERAGENT, configuration.userAgent)
    try handle.set(CURLOPT_NOBODY, true)
    try handle.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
    try handle.set(CURLOPT_SSL_VERIFYPEER, security == .verified ? 1 : 0)
    try handle.set(CURLOPT_SSL_VERIFYHOST, security == .verified ? 2 : 0)
    if security == .verified, let caFile = configuration.caFile {
      try handle.set(CURLOPT_CAINFO, caFile)
      try handle.unset(CURLOPT_CAPATH)
    }
    try handle.set(CURLOPT_CERTINFO, true)
    try handle.set(
      CURLOPT_SSLVERSION,
      security == .olderTLS
        ? Int(CURL_SSLVERSION_TLSv1_0) | Int(CURL_SSLVERSION_MAX_TLSv1_2) : Int(CURL_SSLVERSION_TLSv1_3))
    try handle.set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds: UploadConstants.connectionTimeout)
    try handle.set(CURLOPT_TIMEOUT_MS, milliseconds: UploadConstants.connectionTimeout * 2)
    if let target = RequestTarget(url: url) { try handle.setProxyAndClientCertificate(to: target, configuration) }
  }

  private mutating func take(_ handle: EasyHandle, host: String) {
    let lines = HeaderLines()
    let code = withExtendedLifetime(lines) {
      _ = try? handle.set(CURLOPT_HEADERFUNCTION, onProbedHeaderLine)
      _ = try? handle.set(CURLOPT_HEADERDATA, Unmanaged.passUnretained(lines).toOpaque())
      return curl_easy_perform(handle.pointer)
    }
    handshakes = max(handle.time(CURLINFO_APPCONNECT_TIME_T), handle.time(CURLINFO_CONNECT_TIME_T))
    certificates = Self.certificates(of: handle)
    status = lines.head.status
    date = lines.head.headers.first { $0.name == "date" }?.value
    // A server that answers and then closes is there.
    guard code != CURLE_OK, status == 0 else { return }
    failure = CurlFailure.error(for: code, text: handle.failureText, host: host)
  }

  private static func certificates(of handle: EasyHandle) -> [PeerCertificate] {
    var found: UnsafeMutablePointer<curl_certinfo>?
    guard uploadfs_curl_get_certificates(handle.pointer, &found) == CURLE_OK, let found else { return [] }
    return (0..<Int(found.pointee.num_of_certs)).map { index in
      var lines: [String] = []
      var entry = found.pointee.certinfo[index]
      while let line = entry {
        if let text = line.pointee.data { lines.append(String(cString: text)) }
        entry = line.pointee.next
      }
      return PeerCertificate(lines: lines)
    }
  }
}

/// Where the header's lines go while libcurl runs on the caller's own thread.
private final class HeaderLines {
  var head = ResponseHead()
}

/// Global, so that it carries no isolation to C. Returning fewer bytes than were offered ends the transfer.
private func onProbedHeaderLine(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let context else { return 0 }
  let total = size &* count
  // Unretained: the caller keeps it until the transfer has ended.
  let lines = Unmanaged<HeaderLines>.fromOpaque(context).takeUnretainedValue()
  return lines.head.consume(UnsafeRawBufferPointer(start: bytes, count: total)) ? total : 0
}

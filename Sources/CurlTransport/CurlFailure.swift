import CCurl
import Glibc
import Quantities
import TransferModel

/// Turns libcurl's result codes into ``TransportError``s: once, here.
enum CurlFailure {
  /// What went wrong, for decisions.
  static func kind(of code: CURLcode) -> TransportError.Kind {
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
      .unknownHost
    case CURLE_COULDNT_CONNECT, CURLE_PROXY:
      .connectFailed
    case CURLE_OPERATION_TIMEDOUT:
      .timedOut
    case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH,
      CURLE_SSL_INVALIDCERTSTATUS:
      .certificateRefused
    case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
      CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED, CURLE_SSL_SHUTDOWN_FAILED,
      CURLE_SSL_CRL_BADFILE, CURLE_SSL_CLIENTCERT:
      .tlsFailed
    case CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE, CURLE_SEND_FAIL_REWIND,
      CURLE_HTTP2, CURLE_HTTP2_STREAM:
      .connectionLost
    // CURLE_UNSUPPORTED_PROTOCOL is HTTP/0.9 here: a URL of a foreign scheme is refused before libcurl sees it.
    case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING, CURLE_WRITE_ERROR:
      .protocolViolation
    default:
      .other
    }
  }

  /// It is what comes of a connection, an address or a certification authority for which there is no descriptor.
  static func mayLackDescriptors(_ code: CURLcode) -> Bool {
    switch kind(of: code) {
    case .unknownHost, .connectFailed, .tlsFailed, .certificateRefused, .other: true
    default: false
    }
  }

  /// The error for a transfer to `host` that ended with `code`. `text` is what libcurl wrote into the error buffer.
  static func error(for code: CURLcode, text: String, host: String) -> TransportError {
    let kind = kind(of: code)
    return TransportError(
      kind, message(for: kind, text.isEmpty ? String(cString: curl_easy_strerror(code)) : text, host: host))
  }

  /// What went wrong, for people; `detail` is what libcurl says of it.
  static func message(for kind: TransportError.Kind, _ detail: String, host: String) -> String {
    let what =
      if kind == .tlsFailed, wasEnded(detail) {
        "\(host) ended the connection before it was secure; it may have too many, or take no TLS at this port"
      } else if kind == .tlsFailed, speaksOlderTLS(detail) {
        "\(host) does not speak TLS 1.3, and older versions are not used for uploads; have it turned on there"
      } else if kind == .certificateRefused, isOfAnotherName(detail) {
        "the certificate of \(host) is for another name"
      } else {
        sentence(for: kind, host: host)
      }
    return "\(what) (\(detail))\(doubtOfClock(detail))"
  }

  /// A handshake that was broken off says nothing of what the server speaks. In OpenSSL's words, and in libcurl's for what the system says.
  private static func wasEnded(_ detail: String) -> Bool {
    ["SSL_ERROR_SYSCALL", "Connection reset by peer", "unexpected eof"].contains { detail.contains($0) }
  }

  /// In OpenSSL's words: the server says that it takes no such version, or answers with an older one.
  private static func speaksOlderTLS(_ detail: String) -> Bool {
    ["alert protocol version", "unsupported protocol"].contains { detail.contains($0) }
  }

  /// In libcurl's words, which compares names itself.
  private static func isOfAnotherName(_ detail: String) -> Bool {
    ["subject name", "subject alternative name", "subjectAltName"].contains { detail.contains($0) }
  }

  /// A certificate that is not valid yet, or no more, may be so by this machine's clock alone.
  static func doubtOfClock(_ detail: String) -> String {
    guard detail.contains("not yet valid") || detail.contains("has expired") else { return "" }
    let today = CivilTime(secondsSince1970: Int64(time(nil))).date
    return "; or this machine's clock is wrong: it says \(Timestamp.text(today))"
  }

  /// The error of a transfer that got no further than to the proxy at `proxy`, or as far as its answer, which is no way on.
  static func atProxy(_ proxy: String, code: CURLcode, text: String) -> TransportError {
    let detail = text.isEmpty ? String(cString: curl_easy_strerror(code)) : text
    let what =
      switch kind(of: code) {
      case .unknownHost: "no address is known for the proxy \(proxy)"
      case .connectFailed: "no connection to the proxy \(proxy): refused or unreachable"
      case .timedOut: "the proxy \(proxy) did not answer in time"
      case .tlsFailed: "no secure connection to the proxy \(proxy); one without TLS 1.3 needs --expert proxy-tls=1.2"
      case .certificateRefused: "no secure connection to the proxy \(proxy)"
      default: "the proxy \(proxy) ended the connection before it had opened a way"
      }
    return TransportError(.proxyFailed, "\(what) (\(detail))")
  }

  /// The error of a transfer for which a proxy would not open a way.
  static func ofProxy(status: Int, host: String) -> TransportError {
    let why =
      switch status {
      case 407: "it asks for a user name and a password (407); see --proxy-auth-file"
      case 403: "it does not allow this (403)"
      default: "it answered \(status)"
      }
    return TransportError(.proxyFailed, "the proxy opens no way to \(host): \(why)")
  }

  private static func sentence(for kind: TransportError.Kind, host: String) -> String {
    switch kind {
    case .unknownHost: "no address is known for the host \(host)"
    case .connectFailed, .proxyFailed: "no connection to \(host): refused or unreachable"
    case .tlsFailed: "no secure connection to \(host): the TLS 1.3 handshake failed"
    case .certificateRefused, .pinMismatch, .transparencyRefused, .certificateRevoked, .stapleMissing:
      "the certificate of \(host) was refused"
    case .timedOut: "\(host) did not answer in time"
    case .stalled: "the transfer to \(host) has stalled"
    case .connectionLost: "the connection to \(host) was lost in mid-request"
    case .pathLost: "the network has changed, and the way to \(host) that the request took is gone"
    case .answeredEarly: "\(host) reported success before it had been sent everything"
    case .protocolViolation: "\(host) answered with something that is not valid HTTP"
    case .bodyUnavailable: "what was to be sent to \(host) could not be read"
    case .cancelled: "the request to \(host) was cancelled"
    case .overloaded, .stopped, .other: "the request to \(host) failed"
    }
  }
}

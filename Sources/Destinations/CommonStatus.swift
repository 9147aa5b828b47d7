import TransferModel

/// The statuses that mean the same of every destination: what a gateway, a proxy or any server of HTTP may say. What is a protocol's
/// own is checked before; the words are the protocol's, and what follows is not.
enum CommonStatus: Hashable, CaseIterable {
  case leadsElsewhere, unauthorized, forbidden, proxyWantsPassword, timedOut, tooEarly, busy, full
  /// A gateway answers, and what is behind it does not.
  case gateway
  /// A network on the way wants a login first.
  case networkWantsLogin

  init?(_ status: Int) {
    switch status {
    case 300..<400: self = .leadsElsewhere
    case 401: self = .unauthorized
    case 403: self = .forbidden
    case 407: self = .proxyWantsPassword
    case 408: self = .timedOut
    case 425: self = .tooEarly
    case 429, 503: self = .busy
    case 507: self = .full
    // Those beyond 511 are a content delivery network's.
    case 502, 504, 520..<528, 530: self = .gateway
    case 511: self = .networkWantsLogin
    default: return nil
    }
  }

  var kind: StepFailure.Kind {
    switch self {
    case .leadsElsewhere: .misdirected
    case .unauthorized, .proxyWantsPassword: .unauthorized
    case .forbidden: .forbidden
    case .timedOut: .transport(.timedOut)
    case .tooEarly: .tooEarly
    case .busy: .busy
    case .full: .insufficientStorage
    case .gateway, .networkWantsLogin: .serverError
    }
  }

  /// What follows, with a protocol's own words where it has any. `said` is who answered what, without an end.
  func failure(_ response: HTTPResponse, _ said: String, own: String? = nil) -> StepFailure {
    StepFailure(kind, own ?? words(response, said), retryAfter: RetryAfter.duration(of: response))
  }

  private func words(_ response: HTTPResponse, _ said: String) -> String {
    switch self {
    case .leadsElsewhere:
      "\(said), which leads elsewhere\(Self.place(of: response)): check --to, and what lies between."
    case .unauthorized: "\(said): check the token."
    case .forbidden: "\(said): the token may not do this."
    case .proxyWantsPassword: "\(said): a proxy on the way asks for a password; see --proxy-auth-file."
    case .timedOut: "\(said): it waited in vain for the rest of the request."
    case .tooEarly: "\(said): it wants the request again."
    case .busy: "\(said): it asks for a pause."
    case .full: "\(said): its storage or the quota is full."
    case .gateway: "\(said): what is behind it does not answer."
    case .networkWantsLogin: "\(said): a network on the way wants a login first."
    }
  }

  /// Where a redirect leads, as “ to …”; empty where it does not say. What stands behind the first folder, and behind “?”, can be all that
  /// one needs to add to an upload, and is left out.
  static func place(of response: HTTPResponse) -> String {
    guard let location = response.header("location")?.unicodeScalars else { return "" }
    let address = location.prefix { $0 != "?" && $0 != "#" }
    let hostStart = address.firstRange(of: "//".unicodeScalars)?.upperBound ?? address.startIndex
    let slashes = address[hostStart...].indices.filter { address[$0] == "/" }
    let isAbsolute = hostStart != address.startIndex
    let hasFirst = isAbsolute || slashes.first == address.startIndex
    let end = slashes.dropFirst(hasFirst ? 1 : 0).first
    let shown = end.map { address[...$0] } ?? address[...]
    return " to \(PrintableText.beginning(of: String(shown)))\(shown.endIndex == location.endIndex ? "" : "…")"
  }
}

import Dispatch
import Integrity
import Lookup
import Synchronization
import TransferModel

/// Sends requests to a WebDAV server: with Digest authentication where the server asks for it. After an upload that the engine
/// cancelled, a further request removes what the server may have kept of it.
///
/// Requests come with a user's name and password as Basic authentication has them. Before the first one the server is asked without
/// either, so that a server with Digest authentication is never shown the password.
final class WebDAVTransport: HTTPTransport {
  private enum Scheme {
    case unknown
    case asked
    case basic
    case digest(DigestAuthentication, uses: UInt32)
  }

  private struct State {
    var scheme = Scheme.unknown
    /// Wait for the scheme.
    var waiting: [PendingHTTPRequest] = []
    /// Addresses of uploads that were broken off, until the last removal or a later try.
    var discarded: LookupSet<String> = []
    /// Names of this transport's own requests, counted down from the largest.
    var nextID = UInt64.max
  }

  private let transport: any HTTPTransport
  private let address: WebDAVAddress
  private let clientNonce: @Sendable () -> String
  private let later: @Sendable (_ seconds: Int, _ work: @escaping @Sendable () -> Void) -> Void
  private let state = Mutex(State())

  /// A server may hear only in a while that an upload was broken off, and keep what it has of it then (rclone, behind a proxy).
  private static let removalSeconds = [0, 1, 10]

  /// `clientNonce` is another one with each call; `later` does some work in so many seconds.
  init(
    _ transport: any HTTPTransport, address: WebDAVAddress,
    clientNonce: @escaping @Sendable () -> String = { WebDAVTransport.randomNonce() },
    later: @escaping @Sendable (_ seconds: Int, _ work: @escaping @Sendable () -> Void) -> Void = { seconds, work in
      DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(seconds), execute: work)
    }
  ) {
    self.transport = transport
    self.address = address
    self.clientNonce = clientNonce
    self.later = later
  }

  func start(_ requests: [PendingHTTPRequest]) {
    let requests = requests.map(discarding)
    let others = requests.filter { $0.request.password == nil }
    if !others.isEmpty { transport.start(others) }
    let own = requests.filter { $0.request.password != nil }
    guard !own.isEmpty else { return }
    let (isKnown, asks) = state.withLock { state -> (Bool, Bool) in
      switch state.scheme {
      case .basic, .digest: return (true, false)
      case .asked, .unknown:
        state.waiting += own
        guard case .unknown = state.scheme else { return (false, false) }
        state.scheme = .asked
        return (false, true)
      }
    }
    if isKnown { send(own) }
    if asks { ask() }
  }

  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {
    let withdrawn = state.withLock { state -> [PendingHTTPRequest] in
      let withdrawn = state.waiting.filter { $0.id == id }
      state.waiting.removeAll { $0.id == id }
      return withdrawn
    }
    guard withdrawn.isEmpty else {
      let error = TransportError(.cancelled, "the request was cancelled before it was sent")
      for request in withdrawn { request.onCompletion(.failure(error)) }
      return
    }
    transport.cancel(id, unsentBelow: unsentBelow)
  }

  func renewConnections() { transport.renewConnections() }

  func networkChanged() { transport.networkChanged() }

  func warmName(ofURL url: String) { transport.warmName(ofURL: url) }

  // MARK: - Authentication

  /// Without credentials, so that the server says what it wants.
  private func ask() {
    let question = HTTPRequest(
      .propfind, address.origin + address.path(ofFolder: ""),
      headers: [HTTPHeader("Depth", "0"), HTTPHeader("Content-Type", "application/xml; charset=utf-8")],
      body: .bytes(WebDAVMark.question))
    transport.start(question, id: nextID()) { [self] result in
      var scheme = Scheme.unknown
      if case .success(let response) = result { scheme = Self.scheme(wantedBy: response) }
      let waiting = state.withLock { state -> [PendingHTTPRequest] in
        state.scheme = scheme
        defer { state.waiting = [] }
        return state.waiting
      }
      guard case .unknown = scheme else { return send(waiting) }
      for request in waiting { request.onCompletion(result) }
    }
  }

  /// Basic authentication where that is asked for, or nothing at all. Unknown where the answer is not the server's own, or names only what is
  /// not known here: what waits gets that answer then, and no password goes out.
  private static func scheme(wantedBy response: HTTPResponse) -> Scheme {
    switch response.status {
    case 401:
      if let digest = DigestAuthentication(response) { return .digest(digest, uses: 0) }
      let named = AuthenticationChallenge.all(in: response).map(\.scheme)
      return named.isEmpty || named.contains("basic") ? .basic : .unknown
    case 300..<400, 407, 408, 425, 429, 500...: return .unknown
    default: return .basic
    }
  }

  private func send(_ requests: [PendingHTTPRequest]) {
    transport.start(
      requests.map { request in
        let (sent, nonce) = authenticated(request.request)
        return PendingHTTPRequest(id: request.id, request: sent) { [self] result in
          answered(request, with: nonce, result)
        }
      })
  }

  /// The request as the server wants it, and the nonce that it was made with.
  private func authenticated(_ request: HTTPRequest) -> (HTTPRequest, nonce: String?) {
    let use = state.withLock { state -> (DigestAuthentication, UInt32)? in
      guard case .digest(let digest, let uses) = state.scheme else { return nil }
      state.scheme = .digest(digest, uses: uses &+ 1)
      return (digest, uses &+ 1)
    }
    guard let (digest, count) = use, let index = request.passwordIndex, let (user, password) = request.password else {
      return (request, nil)
    }
    var sent = request
    sent.headers[index].value = digest.authorization(
      user: user, password: password, method: request.method.rawValue,
      target: String(request.url.dropFirst(address.origin.count)), count: count, clientNonce: clientNonce())
    return (sent, digest.nonce)
  }

  /// A nonce that has become too old, or another scheme than before, costs one more request. What was refused for its password with the
  /// server's present nonce stays refused.
  private func answered(
    _ request: PendingHTTPRequest, with nonce: String?, _ result: Result<HTTPResponse, TransportError>
  ) {
    guard case .success(let response) = result, response.status == 401, let digest = DigestAuthentication(response),
      nonce == nil || digest.isStale || nonce != currentNonce
    else { return request.onCompletion(result) }
    learn(digest, insteadOf: nonce)
    let (again, _) = authenticated(request.request)
    transport.start([PendingHTTPRequest(id: request.id, request: again, onCompletion: request.onCompletion)])
  }

  private var currentNonce: String? {
    state.withLock {
      guard case .digest(let digest, _) = $0.scheme else { return nil }
      return digest.nonce
    }
  }

  private func learn(_ digest: DigestAuthentication, insteadOf nonce: String?) {
    state.withLock { state in
      // Another request has learned a newer one.
      if case .digest(let known, _) = state.scheme, known.nonce != nonce { return }
      state.scheme = .digest(digest, uses: 0)
    }
  }

  // MARK: - What is left behind

  /// Of an upload that is broken off some servers keep the beginning (WsgiDAV, rclone).
  private func discarding(_ request: PendingHTTPRequest) -> PendingHTTPRequest {
    let url = request.request.url
    // What only asks leaves nothing, and a published name is never taken away.
    guard [.put, .proppatch, .move].contains(request.request.method), WebDAVTemporaryName.isOf(url) else {
      return request
    }
    // It is continued after all, as where a watchdog broke it off.
    state.withLock { _ = $0.discarded.remove(url) }
    var heard = request
    let credential = request.request.headers.filter { $0.name == "Authorization" }
    heard.onCompletion = { [self] result in
      if case .failure(let error) = result, error.kind == .cancelled || error.kind == .bodyUnavailable {
        discard(HTTPRequest(.delete, url, headers: credential), after: Self.removalSeconds[...])
      }
      request.onCompletion(result)
    }
    return heard
  }

  /// What comes of it changes nothing: the name is never published.
  private func discard(_ removal: HTTPRequest, after seconds: ArraySlice<Int>) {
    guard let delay = seconds.first else { return state.withLock { _ = $0.discarded.remove(removal.url) } }
    if delay == 0 {
      state.withLock { _ = $0.discarded.insert(removal.url) }
      start([PendingHTTPRequest(id: nextID(), request: removal) { _ in }])
      return discard(removal, after: seconds.dropFirst())
    }
    later(delay) { [weak self] in
      guard let self, state.withLock({ $0.discarded.contains(removal.url) }) else { return }
      start([PendingHTTPRequest(id: nextID(), request: removal) { _ in }])
      discard(removal, after: seconds.dropFirst())
    }
  }

  private func nextID() -> HTTPRequestID {
    state.withLock { state in
      defer { state.nextID -= 1 }
      return HTTPRequestID(state.nextID)
    }
  }

  private static func randomNonce() -> String {
    var generator = SystemRandomNumberGenerator()
    return (0..<2).map { _ in String(generator.next(), radix: 16) }.joined()
  }
}

extension HTTPRequest {
  fileprivate var passwordIndex: Int? {
    headers.firstIndex { $0.name == "Authorization" && $0.value.hasPrefix("Basic ") }
  }

  /// What Basic authentication shows; nil without it.
  fileprivate var password: (user: String, password: String)? {
    guard let index = passwordIndex, let bytes = Base64.decode(String(headers[index].value.dropFirst("Basic ".count))),
      let text = String(validating: bytes, as: UTF8.self), let colon = text.utf8.firstIndex(of: UInt8(ascii: ":"))
    else { return nil }
    return (String(text[..<colon]), String(text.utf8[colon...].dropFirst()) ?? "")
  }
}

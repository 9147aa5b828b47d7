import Synchronization
public import TransferModel

/// Sends requests with the present credential in the place of the one that they have, and asks for another one when the server
/// refuses it (401). A request without one goes elsewhere, and gets none.
///
/// Requests that the server refuses for their credential wait for the next one and are sent again, and so do those that come
/// meanwhile: their senders do not notice, and nothing that was acknowledged is lost. One renewal is in progress at a time.
/// A credential that was fetched a moment ago and has never been accepted is not replaced: the refusal is passed on, and so is
/// a request's second one.
public final class RenewingTransport: HTTPTransport {
  /// Why there is no credential, for people; holds nothing of it.
  public struct Failure: Error, Hashable, Sendable {
    /// One sentence.
    public var message: String

    /// A failure for this reason.
    public init(_ message: String) { self.message = message }
  }

  private struct Waiting: Sendable {
    var request: PendingHTTPRequest
    /// It was refused once.
    var isRepeated: Bool
    /// By this answer, and waits for another credential.
    var refusal: HTTPResponse?
  }

  private struct State {
    var credential: Credential
    /// Counts the credentials.
    var generation = 0
    var wasAccepted = false
    /// One of them was accepted.
    var wasAnyAccepted = false
    /// What requests are made with, by the signer.
    var signing: Credential
    var obtainedAt: Int64
    var isRenewing = false
    var waiting: [Waiting] = []
  }

  private let transport: any HTTPTransport
  private let restSeconds: Int64
  private let seconds: @Sendable () -> Int64
  private let renew: @Sendable (RenewingTransport) -> Void
  private let signer: ChunkSigner?
  private let state: Mutex<State>

  /// - Parameters:
  ///   - credential: The first one.
  ///   - restSeconds: After so long one that was never accepted may have ended unused.
  ///   - seconds: A clock that never goes back.
  ///   - signer: What requests say follows from the first credential that is accepted, and not their `Authorization` alone: those
  ///     that were made with one that never was are to be made anew.
  ///   - renew: Begins to fetch another one, and returns at once; ``renewed(_:)`` says how it ended.
  public init(
    _ transport: any HTTPTransport, credential: Credential, restSeconds: Int64 = 60,
    seconds: @escaping @Sendable () -> Int64, signer: ChunkSigner? = nil,
    renew: @escaping @Sendable (RenewingTransport) -> Void
  ) {
    self.transport = transport
    self.restSeconds = restSeconds
    self.seconds = seconds
    self.renew = renew
    self.signer = signer
    state = Mutex(State(credential: credential, signing: credential, obtainedAt: seconds()))
  }

  /// Queues requests; see ``HTTPTransport/start(_:)``.
  public func start(_ requests: [PendingHTTPRequest]) {
    let others = requests.filter { $0.request.authorizationIndex == nil }
    if !others.isEmpty { transport.start(others) }
    begin(requests.filter { $0.request.authorizationIndex != nil }.map { Waiting(request: $0, isRepeated: false) })
  }

  /// Ends a request early; see ``HTTPTransport/cancel(_:unsentBelow:)``.
  public func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {
    let withdrawn = state.withLock { state -> [Waiting] in
      let withdrawn = state.waiting.filter { $0.request.id == id }
      state.waiting.removeAll { $0.request.id == id }
      return withdrawn
    }
    guard withdrawn.isEmpty else {
      return fail(withdrawn, TransportError(.cancelled, "the request was cancelled before it was sent"))
    }
    transport.cancel(id, unsentBelow: unsentBelow)
  }

  /// Uses none of the connections again that there are; see ``HTTPTransport/renewConnections()``.
  public func renewConnections() { transport.renewConnections() }

  /// The network has changed; see ``HTTPTransport/networkChanged()``.
  public func networkChanged() { transport.networkChanged() }

  /// Has a name asked for; see ``HTTPTransport/warmName(ofURL:)``.
  public func warmName(ofURL url: String) { transport.warmName(ofURL: url) }

  /// A renewal has ended. Without a credential the requests that wait have failed as those do that reach no server: they are tried
  /// again in a while, and it is asked for again.
  public func renewed(_ result: Result<Credential, Failure>) {
    let (waiting, failure, isSame) = state.withLock { state -> ([Waiting], Failure?, Bool) in
      state.isRenewing = false
      var failure: Failure?
      var isSame = false
      switch result {
      case .success(let credential):
        isSame = credential == state.credential
        state.credential = credential
        if !state.wasAnyAccepted, let signer {
          signer.replace(by: credential)
          state.signing = credential
        }
        state.generation += 1
        state.wasAccepted = false
        state.obtainedAt = seconds()
      case .failure(let reason): failure = reason
      }
      defer { state.waiting = [] }
      return (state.waiting, failure, isSame)
    }
    if let failure { return fail(waiting, TransportError(.connectFailed, failure.message)) }
    // What was refused with this very credential is refused again, at the price of its body.
    for request in waiting where isSame {
      if let refusal = request.refusal { request.request.onCompletion(.success(refusal)) }
    }
    begin(waiting.filter { !isSame || $0.refusal == nil })
  }

  private func begin(_ requests: [Waiting]) {
    let (authorization, generation, signing) = state.withLock { state -> (String?, Int, String) in
      let signing = state.signing.authorization
      guard state.isRenewing else { return (state.credential.authorization, state.generation, signing) }
      state.waiting += requests
      return (nil, 0, signing)
    }
    guard let authorization, !requests.isEmpty else { return }
    let outdated = signer == nil ? [] : requests.filter { $0.request.request.authorization != signing }
    fail(outdated, TransportError(.connectionLost, "the credential was put right; the request is made anew with it"))
    let current = signer == nil ? requests : requests.filter { $0.request.request.authorization == signing }
    guard !current.isEmpty else { return }
    transport.start(
      current.map { waiting in
        var sent = waiting.request
        if let index = sent.request.authorizationIndex { sent.request.headers[index].value = authorization }
        sent.onCompletion = { [self] result in answered(waiting, generation, result) }
        return sent
      })
  }

  private enum Reaction { case passOn, sendAgain, wait, renew }

  private func answered(_ waiting: Waiting, _ generation: Int, _ result: Result<HTTPResponse, TransportError>) {
    let reaction = state.withLock { state -> Reaction in
      guard case .success(let response) = result else { return .passOn }
      // Some servers forbid what others call unauthorized. A file costs nothing to look at.
      let isForbidden = response.status == 403 && restSeconds == 0
      guard response.status == 401 || isForbidden else {
        // What only opens a connection may not have needed it.
        if generation == state.generation, waiting.request.request.method != .head {
          state.wasAccepted = true
          state.wasAnyAccepted = true
        }
        return .passOn
      }
      guard !waiting.isRepeated else { return .passOn }
      var again = waiting
      again.isRepeated = true
      again.refusal = response
      if state.isRenewing {
        state.waiting.append(again)
        return .wait
      }
      if generation != state.generation { return .sendAgain }
      guard state.wasAccepted || seconds() - state.obtainedAt >= restSeconds else { return .passOn }
      state.isRenewing = true
      state.waiting.append(again)
      return .renew
    }
    switch reaction {
    case .passOn: waiting.request.onCompletion(result)
    case .sendAgain: begin([Waiting(request: waiting.request, isRepeated: true)])
    case .wait: break
    case .renew: renew(self)
    }
  }

  private func fail(_ requests: [Waiting], _ error: TransportError) {
    for waiting in requests { waiting.request.onCompletion(.failure(error)) }
  }
}

extension HTTPRequest {
  fileprivate var authorization: String? { authorizationIndex.map { headers[$0].value } }
  fileprivate var authorizationIndex: Int? { headers.firstIndex { $0.name.lowercased() == "authorization" } }
}

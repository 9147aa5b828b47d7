import ChunkProtocol
public import TransferModel

/// Says with each request to a receiver which spool it comes from, but for those of chunks, of which there are many; and hears when the
/// receiver knows a later start of it.
public final class SpoolTransport: HTTPTransport {
  private let transport: any HTTPTransport
  private let identity: any SpoolPresence
  private let server: String

  /// Requests to a receiver, which people know as `server`.
  public init(_ transport: any HTTPTransport, identity: any SpoolPresence, server: String) {
    self.transport = transport
    self.identity = identity
    self.server = server
  }

  /// Queues requests; see ``HTTPTransport/start(_:)``.
  public func start(_ requests: [PendingHTTPRequest]) {
    guard let start = identity.start else { return transport.start(requests) }
    let field = HTTPHeader(
      HeaderName.spool, SpoolStart(spool: start.spool, count: start.count, mark: start.mark).headerValue)
    transport.start(
      requests.map { request in
        guard !request.request.isOfChunk else { return request }
        var sent = request
        sent.request.headers.append(field)
        sent.onCompletion = { [self] result in
          if case .success(let response) = result { hear(response) }
          request.onCompletion(result)
        }
        return sent
      })
  }

  private func hear(_ response: HTTPResponse) {
    guard let text = response.header(HeaderName.spoolKnown.lowercased()),
      let known = KnownSpoolStart(headerValue: text)
    else { return }
    identity.told(ofSpool: known.spool, knownCount: known.count, by: server)
  }

  /// Ends a request early; see ``HTTPTransport/cancel(_:unsentBelow:)``.
  public func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) { transport.cancel(id, unsentBelow: unsentBelow) }

  /// Uses none of the connections again that there are.
  public func renewConnections() { transport.renewConnections() }

  /// The network has changed; see ``HTTPTransport/networkChanged()``.
  public func networkChanged() { transport.networkChanged() }

  /// Has a name asked for; see ``HTTPTransport/warmName(ofURL:)``.
  public func warmName(ofURL url: String) { transport.warmName(ofURL: url) }
}

extension HTTPRequest {
  /// It puts a chunk into a session, or several.
  fileprivate var isOfChunk: Bool {
    url.contains("/v1/uploads/") && (method == .put || (method == .post && url.hasSuffix("/chunks")))
  }
}

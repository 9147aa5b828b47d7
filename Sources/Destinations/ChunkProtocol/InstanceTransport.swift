import ChunkProtocol
import Synchronization
public import TransferModel

/// Hears whether several receivers answer at one address, and says so once.
public final class InstanceTransport: HTTPTransport {
  private let transport: any HTTPTransport
  private let instances = Mutex(ReceiverInstances())
  private let server: String
  private let say: @Sendable (String) -> Void

  /// Requests to a receiver, which people know as `server`.
  public init(_ transport: any HTTPTransport, server: String, say: @escaping @Sendable (String) -> Void) {
    self.transport = transport
    self.server = server
    self.say = say
  }

  /// Queues requests; see ``HTTPTransport/start(_:)``.
  public func start(_ requests: [PendingHTTPRequest]) {
    transport.start(
      requests.map { request in
        var heard = request
        heard.onCompletion = { [self] result in
          if case .success(let response) = result { hear(response) }
          request.onCompletion(result)
        }
        return heard
      })
  }

  private func hear(_ response: HTTPResponse) {
    guard let name = response.header(HeaderName.instance.lowercased()).flatMap(ReceiverInstances.name(in:)),
      instances.withLock({ $0.hear(name) })
    else { return }
    say(
      "several receivers answer at \(server), and none of them knows the uploads of the others: files are sent again, or never "
        + "arrive. Give the address of one of them, or have what stands before them lead each client to one and the same"
    )
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

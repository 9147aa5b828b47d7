/// How long requests may take.
public struct RequestTiming: Hashable, Sendable {
  /// From the start to an established TLS connection.
  public var connect = UploadConstants.connectionTimeout
  /// From the start to the last byte of the response, of a request that says nothing else and carries no content.
  public var request = UploadConstants.chunkTimeoutBase
  /// A body that moves slower than ``UploadConstants/stallBytesPerSecond`` for so long has stalled.
  public var stall = UploadConstants.stallDetection
  /// How long a server may be silent once it has everything.
  public var answer = UploadConstants.requestIdleTimeout

  /// The specification's values.
  public init() {}

  /// The same limits, with these values where they have the specification's: a request that needs other ones has set them.
  public func applied(to limits: HTTPRequestLimits) -> HTTPRequestLimits {
    let standard = RequestTiming()
    var limits = limits
    if limits.connect == standard.connect { limits.connect = connect }
    if limits.total == standard.request {
      limits.total = limits.stall > .zero ? max(standard.request, request) : request
    }
    if limits.stall == standard.stall { limits.stall = stall }
    limits.answer = limits.answer == standard.answer ? answer : max(limits.answer, answer)
    return limits
  }
}

/// Sends requests with a mount's own time-outs.
public struct TimedTransport: HTTPTransport {
  private let transport: any HTTPTransport
  private let timing: RequestTiming

  /// Sends through `transport`.
  public init(_ transport: any HTTPTransport, _ timing: RequestTiming) {
    self.transport = transport
    self.timing = timing
  }

  /// Queues requests, as ``HTTPTransport/start(_:)-(_)`` does.
  public func start(_ requests: [PendingHTTPRequest]) {
    transport.start(
      requests.map { pending in
        var pending = pending
        pending.request.limits = timing.applied(to: pending.request.limits)
        return pending
      })
  }

  /// Ends a request early.
  public func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) { transport.cancel(id, unsentBelow: unsentBelow) }

  /// Uses none of the connections again that there are.
  public func renewConnections() { transport.renewConnections() }

  /// The network has changed; see ``HTTPTransport/networkChanged()``.
  public func networkChanged() { transport.networkChanged() }

  /// Has a name asked for; see ``HTTPTransport/warmName(ofURL:)``.
  public func warmName(ofURL url: String) { transport.warmName(ofURL: url) }
}

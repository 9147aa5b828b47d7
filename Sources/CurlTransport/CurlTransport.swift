import CCurl
import Glibc
import Synchronization
import Threads
public import TransferModel

/// Sends HTTP requests with libcurl. One thread of its own owns every curl handle; callers only touch a bounded inbox.
///
/// A request's limits count from the moment when the transport takes it up: with HTTP/1.1, at most
/// ``CurlTransportConfiguration/maxConnections`` are in flight, and further ones wait in the inbox. A limit of zero is no
/// limit.
public final class CurlTransport: HTTPTransport {
  private let inbox: RequestInbox
  private let settings: TransferSettings
  /// Nil once the thread is being joined, or has been.
  private let thread: Mutex<NamedThread?>
  private let security: HandshakeSecurity?
  /// Nil where the version of HTTP is settled.
  private let protocolReport: ProtocolReport?

  /// Checks the configuration and starts the thread. `rate` bounds what this transport and others that are given it send together. What
  /// is found out of the version of HTTP that a server is to be sent is said to
  /// `whenDecided`, on the transport's thread.
  public init(
    configuration: CurlTransportConfiguration = CurlTransportConfiguration(), within rate: SendRate? = nil,
    whenDecided: @escaping @Sendable (ServerProtocol) -> Void = { _ in }
  ) throws(TransportConfigurationError) {
    // Thread-safe since libcurl 7.84, and counted: called once for each transport, never undone.
    guard curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK else { throw .callFailed("curl_global_init") }
    try configuration.validate()
    let security = try HandshakeSecurity(configuration)
    settings = TransferSettings(
      configuration: configuration, proxyUse: ProxyUse(configuration.proxy), security: security, rate: rate)
    self.security = security
    let multi = try Self.makeMulti(settings)
    inbox = RequestInbox(capacity: configuration.inboxCapacity, waker: LoopWaker(multi: multi))
    protocolReport = configuration.triesHTTP2 ? ProtocolReport(whenDecided: whenDecided) : nil
    let loop = CurlLoop(inbox: inbox, multi: multi, settings: settings, reportingTo: protocolReport)
    do throws(TransportConfigurationError) {
      thread = Mutex(try Self.startThread(loop, configuration.priority))
    } catch {
      curl_multi_cleanup(multi)
      throw error
    }
  }

  deinit { stop() }

  /// Queues requests; see ``HTTPTransport/start(_:)``.
  public func start(_ requests: [PendingHTTPRequest]) {
    for (request, refusal) in inbox.put(requests) { request.onCompletion(.failure(refusal)) }
  }

  /// Ends a request early; see ``HTTPTransport/cancel(_:unsentBelow:)``.
  public func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) { inbox.cancel(id, unsentBelow: unsentBelow) }

  /// Uses none of the connections again that there are; see ``HTTPTransport/renewConnections()``.
  public func renewConnections() { inbox.renewConnections() }

  /// Gives up connections whose way has gone; see ``HTTPTransport/networkChanged()``.
  public func networkChanged() { inbox.networkChanged() }

  /// Asks for a name before there is a request; see ``HTTPTransport/warmName(ofURL:)``. A proxy asks for itself.
  public func warmName(ofURL url: String) {
    guard let target = RequestTarget(url: url), settings.allows(target.scheme),
      let server = settings.resolvedServer(of: target)
    else { return }
    inbox.warmName(of: server)
  }

  /// Fails everything in flight and waiting as stopped, closes all connections and joins the thread: no completion is
  /// called after this has returned. Further calls do nothing; a call from a completion only asks for the end, since a
  /// thread cannot wait for itself.
  public func stop() {
    inbox.stop()
    thread.withLock { $0.take() }?.join()
  }

  /// Whether certificates need timestamps of logs at present; nil where the installed libcurl gives no access to its handshakes.
  public var transparency: TransparencyStanding? { security?.standing }

  /// What is known of HTTP/2 on the way to each server; empty where the version of HTTP is settled.
  public var protocols: [ServerProtocol] { protocolReport?.servers ?? [] }

  /// Why HTTP/2 is not tried with the installed libcurl; nil where it may be.
  public var hindranceOfHTTP2: HTTP2Hindrance? { settings.configuration.hindranceOfHTTP2 }

  private static func makeMulti(
    _ settings: TransferSettings
  ) throws(TransportConfigurationError) -> UnsafeMutableRawPointer {
    guard let multi = curl_multi_init() else { throw .callFailed("curl_multi_init") }
    let connections = settings.configuration.maxConnections
    let mayShare = settings.configuration.multiplexes || settings.configuration.triesHTTP2
    let options: [(CURLMoption, Int, name: String)] = [
      (
        CURLMOPT_PIPELINING, Int(mayShare ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING),
        "CURLMOPT_PIPELINING"
      ),
      (CURLMOPT_MAX_HOST_CONNECTIONS, connections, "CURLMOPT_MAX_HOST_CONNECTIONS"),
      (CURLMOPT_MAXCONNECTS, connections, "CURLMOPT_MAXCONNECTS"),
    ]
    for (option, value, name) in options {
      guard uploadfs_curl_multi_set_long(multi, option, value) == CURLM_OK else {
        curl_multi_cleanup(multi)
        throw .callFailed("curl_multi_setopt(\(name))")
      }
    }
    return multi
  }

  private static func startThread(
    _ loop: CurlLoop, _ priority: UploadPriority
  ) throws(TransportConfigurationError) -> NamedThread {
    // Sound because no other thread touches the loop from here on.
    struct HandedOver: @unchecked Sendable { let loop: CurlLoop }
    let handedOver = HandedOver(loop: loop)
    // Signals are the main thread's business, and libcurl's threads must not die of SIGPIPE: everything is blocked while
    // the thread is created, which inherits the mask and passes it on to libcurl's resolver threads. So it does with its priority.
    var all = sigset_t()
    var before = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    let thread = NamedThread("curl", .behind(priority)) { handedOver.loop.run() }
    pthread_sigmask(SIG_SETMASK, &before, nil)
    guard let thread else { throw .callFailed("pthread_create") }
    return thread
  }
}

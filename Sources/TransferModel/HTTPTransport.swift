/// Sends HTTP requests. The engine and the destinations know this protocol and these values; sockets live behind it.
///
/// Threading: every method may be called from any thread and returns at once. `onCompletion` is called exactly once for
/// each request of ``start(_:)``, on the transport's own thread (or on the caller's, when the transport refuses the
/// request); it must be quick and must not block.
public protocol HTTPTransport: Sendable {
  /// Queues requests. Those of one call are begun together, before any of them can have ended: over HTTP/1.1 each gets a
  /// connection of its own, as far as the transport's limit allows. A full inbox or a stopped transport is reported
  /// through the completions as ``TransportError/Kind/overloaded`` or ``TransportError/Kind/stopped``.
  func start(_ requests: [PendingHTTPRequest])

  /// Ends a request early, if fewer bytes of its body have been handed to the network than `unsentBelow` by the time at which that
  /// would be done; its completion then reports ``TransportError/Kind/cancelled``. Unknown ids are ignored: the completion may
  /// already be on its way.
  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64)

  /// What is started from now on uses none of the connections that there are: it is not known what has become of them.
  func renewConnections()

  /// Addresses, links or routes of this machine have changed. Connections whose way has gone are given up, those that still move
  /// go on, and names are resolved anew.
  func networkChanged()

  /// Has the name of this URL's server asked for, so that the next request to it finds addresses. Nothing is sent to the server.
  func warmName(ofURL url: String)
}

extension HTTPTransport {
  /// Nothing, where there are no connections.
  public func renewConnections() {}

  /// Nothing, where there are no connections.
  public func networkChanged() {}

  /// Nothing, where no names are asked for.
  public func warmName(ofURL url: String) {}

  /// Ends a request early, however much of it is out.
  public func cancel(_ id: HTTPRequestID) { cancel(id, unsentBelow: .max) }

  /// Queues one request.
  public func start(
    _ request: HTTPRequest, id: HTTPRequestID,
    onCompletion: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void
  ) {
    start([PendingHTTPRequest(id: id, request: request, onCompletion: onCompletion)])
  }
}

/// A request with the place where its answer goes.
public struct PendingHTTPRequest: Sendable {
  /// Names the request.
  public var id: HTTPRequestID
  /// What is sent.
  public var request: HTTPRequest
  /// Called once with the answer, on the transport's thread; must be quick and must not block.
  public var onCompletion: @Sendable (Result<HTTPResponse, TransportError>) -> Void

  /// A request whose answer goes to `onCompletion`.
  public init(
    id: HTTPRequestID, request: HTTPRequest,
    onCompletion: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void
  ) {
    self.id = id
    self.request = request
    self.onCompletion = onCompletion
  }
}

/// Names one request of one transport; never reused within a process.
public struct HTTPRequestID: Hashable, Sendable {
  /// The number, unique within the process.
  public let value: UInt64

  /// Names the request with this number.
  public init(_ value: UInt64) { self.value = value }
}

/// Bytes whose address and content stay the same for as long as the object lives: request bodies are sent from them
/// without a copy, and may be sent again from the start when a kept-alive connection turns out to be dead.
public protocol PinnedBytes: AnyObject, Sendable {
  /// The bytes. Valid while the object is referenced.
  var bytes: UnsafeRawBufferPointer { get }
}

/// Bytes of a request's body that come while it is sent: a file that is larger than memory. The transport asks for them on
/// its own thread, so no call may wait.
public protocol StreamedBytes: AnyObject, Sendable {
  /// How many there are in all.
  var byteCount: Int { get }
  /// A request begins to send them, from the first on; perhaps not for the first time. `whenReady` is called, on any thread,
  /// when there are bytes after ``next()`` had none, or none will come any more.
  func begin(whenReady: @escaping @Sendable () -> Void)
  /// What follows. The bytes that it gave before are no longer used.
  func next() -> StreamedBytesSupply
  /// The request has ended.
  func end()
}

/// What ``StreamedBytes`` have at a moment.
public enum StreamedBytesSupply: Sendable {
  /// At least one byte, and no more than are left.
  case bytes(any PinnedBytes)
  /// None yet.
  case later
  /// None any more: the request is to be broken off, for this reason.
  case failed(String)
}

/// One HTTP header field.
public struct HTTPHeader: Hashable, Sendable {
  /// The field's name; compared without regard to case.
  public var name: String
  /// The field's value.
  public var value: String

  /// A field of the given name and value.
  public init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}

/// A request, complete but for what the transport adds (Host, Content-Length, connection reuse).
public struct HTTPRequest: Sendable {
  /// The request's method.
  public enum Method: String, Sendable {
    case head = "HEAD"
    case get = "GET"
    case post = "POST"
    case put = "PUT"
    case patch = "PATCH"
    case options = "OPTIONS"
    case delete = "DELETE"
    case propfind = "PROPFIND"
    case proppatch = "PROPPATCH"
    case mkcol = "MKCOL"
    case move = "MOVE"
  }

  /// What is sent after the header.
  public enum Body: Sendable {
    case none
    /// A small body, owned by the request.
    case bytes([UInt8])
    /// A body sent from memory that the object keeps alive and unchanged until the request has completed.
    case pinned(any PinnedBytes)
    /// Several of these, one after another.
    case pieces([Piece])

    /// A part of a body.
    public enum Piece: Sendable {
      /// A few bytes, owned by the request.
      case bytes([UInt8])
      /// Bytes sent from memory that the object keeps alive and unchanged until the request has completed.
      case pinned(any PinnedBytes)
      /// Bytes that come while the request is sent; at most one such part.
      case streamed(any StreamedBytes)

      /// Its length.
      public var byteCount: Int {
        switch self {
        case .bytes(let bytes): bytes.count
        case .pinned(let pinned): pinned.bytes.count
        case .streamed(let stream): stream.byteCount
        }
      }
    }

    /// What of it comes while it is sent.
    public var stream: (any StreamedBytes)? {
      for case .streamed(let stream) in pieces { return stream }
      return nil
    }

    /// Its length.
    public var byteCount: Int { pieces.reduce(0) { $0 + $1.byteCount } }

    /// A copy of all of it but what is streamed; for those that send nothing over a network.
    public var content: [UInt8] {
      pieces.flatMap { piece -> [UInt8] in
        switch piece {
        case .bytes(let bytes): bytes
        case .pinned(let pinned): Array(pinned.bytes)
        case .streamed: []
        }
      }
    }

    /// Its parts in order; none when there is no body.
    public var pieces: [Piece] {
      switch self {
      case .none: []
      case .bytes(let bytes): [.bytes(bytes)]
      case .pinned(let pinned): [.pinned(pinned)]
      case .pieces(let pieces): pieces
      }
    }
  }

  /// The request's method.
  public var method: Method
  /// The absolute URL, already percent-encoded.
  public var url: String
  /// The header fields, credentials included. Never log them.
  public var headers: [HTTPHeader]
  /// What is sent.
  public var body: Body
  /// When to give up.
  public var limits: HTTPRequestLimits
  /// It must not go over a connection that exists: those have been found not to move.
  public var opensConnection = false
  /// When a connection turns out to be dead before there is an answer, the request has failed: whether it is sent again is not
  /// for the transport to decide.
  public var isSentOnce = false
  /// Over HTTP/1.1 the server is asked before the body goes out (RFC 9110, 10.1.1): a refusal costs its head alone. One that does not
  /// know the question costs a second.
  public var asksBeforeBody = false
  /// What came of compressing the files that it carries together; nil where that was not tried.
  public var sharedFrame: SharedFrame?
  /// Counts the body's bytes as the network takes them; nil where they are not counted.
  public var sentBytes: SentByteCounter?

  /// A request with the default limits.
  public init(
    _ method: Method, _ url: String, headers: [HTTPHeader] = [], body: Body = .none,
    limits: HTTPRequestLimits = HTTPRequestLimits(), sentBytes: SentByteCounter? = nil
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
    self.limits = limits
    self.sentBytes = sentBytes
  }
}

/// When a request is given up (docs/design/constants.md).
public struct HTTPRequestLimits: Hashable, Sendable {
  /// From the start to an established TLS connection.
  public var connect: Duration
  /// From the start to the last byte of the response.
  public var total: Duration
  /// Below ``stallBytesPerSecond`` for this long, the request has failed. Zero: no such check.
  public var stall: Duration
  /// The speed under which the request counts as stalled.
  public var stallBytesPerSecond: Int
  /// How long the server may be silent once it has everything, where a stall is looked for.
  public var answer = UploadConstants.requestIdleTimeout

  /// Limits from the specification's table.
  public init(
    connect: Duration = UploadConstants.connectionTimeout, total: Duration = UploadConstants.chunkTimeoutBase,
    stall: Duration = .zero, stallBytesPerSecond: Int = UploadConstants.stallBytesPerSecond
  ) {
    self.connect = connect
    self.total = total
    self.stall = stall
    self.stallBytesPerSecond = stallBytesPerSecond
  }
}

extension HTTPRequestLimits {
  /// How long a server may take over a whole file once it has it: one in front of the application first stores all of it, and
  /// hands it on then.
  public static func answerTime(forBodyOf byteCount: Int) -> Duration {
    min(.seconds(120) + .seconds(Int64(max(0, byteCount) / 10_000_000)), UploadConstants.resourceTimeout)
  }
}

/// The answer to a request: any status, also 4xx and 5xx.
public struct HTTPResponse: Sendable {
  /// The status code.
  public var status: Int
  /// What stands behind the status in HTTP/1.1; empty elsewhere.
  public var reasonPhrase: String
  /// The header fields in the order received; names in lower case.
  public var headers: [HTTPHeader]
  /// The body, at most ``UploadConstants/responseBytesMax``.
  public var body: [UInt8]
  /// How it travelled.
  public var connection: HTTPConnectionMetrics
  /// Seconds since 1970 by this machine's clock, when the answer came; nil where the transport does not note it.
  public var receivedAtSeconds: Int64?

  /// An answer as received.
  public init(
    status: Int, reasonPhrase: String = "", headers: [HTTPHeader] = [], body: [UInt8] = [],
    connection: HTTPConnectionMetrics = HTTPConnectionMetrics(), receivedAtSeconds: Int64? = nil
  ) {
    self.status = status
    self.reasonPhrase = reasonPhrase
    self.headers = headers
    self.body = body
    self.connection = connection
    self.receivedAtSeconds = receivedAtSeconds
  }

  /// The value of the first field with this name, which is given in lower case.
  public func header(_ lowercasedName: String) -> String? {
    headers.first { $0.name == lowercasedName }?.value
  }
}

/// What is known of the connection that carried a request; for status and for tests of prewarming.
public struct HTTPConnectionMetrics: Hashable, Sendable {
  /// `HTTP/1.1`, `HTTP/2` or `HTTP/3`; empty when no response was received.
  public var protocolName: String
  /// True when the request had to open a connection, false when it found a warm one.
  public var isNewConnection: Bool
  /// From the start to the first byte of the response.
  public var timeToFirstByte: Duration
  /// From the start to the end of the response.
  public var totalTime: Duration
  /// How long the stages of a connection took that was opened for the request; nil where there was one, or it is not known.
  public var stages: ConnectionStages?
  /// The other services that the server offers in its answer; nil where it says nothing of them.
  public var alternatives: [AlternativeService]?

  /// Facts as measured; the defaults say that nothing is known.
  public init(
    protocolName: String = "", isNewConnection: Bool = false, timeToFirstByte: Duration = .zero,
    totalTime: Duration = .zero
  ) {
    self.protocolName = protocolName
    self.isNewConnection = isNewConnection
    self.timeToFirstByte = timeToFirstByte
    self.totalTime = totalTime
  }
}

/// Why there is no response. Whether to retry is `RetryPolicy`'s business.
public struct TransportError: Error, Hashable, Sendable {
  /// What went wrong.
  public enum Kind: Hashable, Sendable {
    /// The host's name has no address.
    case unknownHost
    /// No TCP connection: refused, unreachable.
    case connectFailed
    /// A proxy cannot be reached, or opens no way to the host.
    case proxyFailed
    /// The TLS handshake failed for another reason than the certificate.
    case tlsFailed
    /// The server's certificate is not acceptable: expired, foreign, for another name.
    case certificateRefused
    /// No certificate of the server's chain has a public key that is pinned.
    case pinMismatch
    /// Too few logs have vouched for the server's certificate.
    case transparencyRefused
    /// The server's certificate was revoked, says the OCSP response that came with it.
    case certificateRevoked
    /// The server's certificate is only to be believed with an OCSP response, and none came that counts.
    case stapleMissing
    /// The connection was not established, or the request not answered, in time.
    case timedOut
    /// Slower than the stall limit.
    case stalled
    /// The connection broke in mid-request.
    case connectionLost
    /// The network has changed, and the request's connection did not move any more: the way that it took is gone.
    case pathLost
    /// The server reported success before all of the body was handed to the connection.
    case answeredEarly
    /// The server's answer is no valid HTTP, or larger than allowed.
    case protocolViolation
    /// ``HTTPTransport/cancel(_:)`` was called.
    case cancelled
    /// What was to be sent could not be read; the request was broken off.
    case bodyUnavailable
    /// The transport's inbox is full.
    case overloaded
    /// The transport has been stopped.
    case stopped
    /// Anything else; the message says what.
    case other
  }

  /// What went wrong, for decisions.
  public var kind: Kind
  /// What went wrong, for people: one sentence that names the host and holds no secret.
  public var message: String
  /// All of the body was on its way: the server may have done what it was asked to.
  public var mayHaveArrived = false
  /// A page for people was answered, as by a captive portal: nothing that knows of the upload.
  public var answerIsHTML = false

  /// An error of this kind.
  public init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }
}

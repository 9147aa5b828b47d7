import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP2
import NIOHTTPTypes
import NIOHTTPTypesHTTP2
import NIOSSL

/// What bounds connections.
struct ConnectionLimits: Sendable {
  /// Between two requests; prewarmed connections must outlive this.
  var idle: TimeAmount = .seconds(300)
  /// Without a byte of a body.
  var bodyIdle: TimeAmount = .seconds(30)
  /// For a request's body in all.
  var bodyTotal: TimeAmount = .hours(1)
  /// Beyond the first minute a body arrives at least so fast on average, or is ended.
  var bodyStart: TimeAmount = .seconds(60)
  var bodyBytesPerSecond = 512
  /// For what is left of a body whose request is answered.
  var bodyRest: TimeAmount = .seconds(30)
  /// For an answer to be read, beside the time that its bytes take.
  var answer: TimeAmount = .seconds(30)
  /// The same where more answers than these wait on one connection.
  var crowdedAnswer: TimeAmount = .seconds(5)
  var unreadAnswersMax = 16
  var answerBytesPerSecond = 16 << 10
  /// Of several answers that wait on one connection.
  var answerBytesMax = 16 << 20
  /// For running requests, when the receiver stops.
  var grace: TimeAmount = .seconds(10)
}

/// A connection's pipeline: TLS, then HTTP/1.1 or HTTP/2 as negotiated, both served by one responder.
///
/// Hummingbird's own HTTP/2 channel keeps the windows of 64 KiB that HTTP/2 starts with, for the whole connection; an
/// upload over 50 ms would then crawl at 1.3 MB/s. So the streams are set up here, with its HTTP handling.
struct ReceiverChannel: HTTPChannelHandler {
  typealias Stream = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>
  typealias Streams = NIOHTTP2Handler.AsyncStreamMultiplexer<Stream>

  struct Value: ServerChildChannelValue {
    let negotiated: EventLoopFuture<NIONegotiatedHTTPVersion<Stream, Streams>>
    let channel: any Channel
  }

  /// How much a stream and a connection may send ahead: 16 MiB within 50 ms are 320 MB/s.
  private static let streamWindow = 2 << 20
  private static let connectionWindow = 16 << 20
  /// TLS is decrypted, and digests are computed, in pieces of up to this size.
  private static let readBytesMax = 256 << 10

  let responder: Responder
  /// That of the present certificate.
  private let tls: @Sendable () -> NIOSSLContext
  private let limits: ConnectionLimits
  private let peers: PeerConnections
  private let statistics: ReceiverStatistics
  private let http1: HTTP1Channel

  init(
    tls: @escaping @Sendable () -> NIOSSLContext, limits: ConnectionLimits, peers: PeerConnections,
    statistics: ReceiverStatistics,
    responder: @escaping Responder
  ) {
    self.tls = tls
    self.limits = limits
    self.peers = peers
    self.statistics = statistics
    self.responder = responder
    var configuration = HTTP1Channel.Configuration(
      additionalChannelHandlers: [
        ConnectionCloseHandler(), RunningRequestHandler(), BodyTimeoutHandler(limits),
        MalformedRequestHandler(isHTTP1: true),
      ],
      idleTimeout: limits.idle)
    configuration.httpDecoder = .init(
      maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 32 << 10, maxHeaderFieldCount: 100)
    http1 = HTTP1Channel(responder: responder, configuration: configuration)
  }

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    let life = ConnectionLifeHandler(limits: limits, peers: peers)
    do {
      try channel.syncOptions?.setOption(
        .recvAllocator,
        value: AdaptiveRecvByteBufferAllocator(
          minimum: 4 << 10, initial: 64 << 10, maximum: ReceiverChannel.readBytesMax))
      try channel.pipeline.syncOperations.addHandler(life)
      try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls()))
      try channel.pipeline.syncOperations.addHandler(ConnectionCountingHandler(statistics, life))
    } catch {
      return channel.eventLoop.makeFailedFuture(error)
    }
    return channel.configureHTTP2AsyncSecureUpgrade { channel in
      http1.setup(channel: channel, logger: logger)
    } http2ConnectionInitializer: { channel in
      setUpHTTP2(channel)
    }.map { Value(negotiated: $0, channel: channel) }
  }

  private func setUpHTTP2(_ channel: any Channel) -> EventLoopFuture<Streams> {
    channel.eventLoop.makeCompletedFuture {
      var configuration = NIOHTTP2Handler.Configuration()
      configuration.connection.targetWindowSize = ReceiverChannel.connectionWindow
      configuration.connection.initialSettings = [
        HTTP2Setting(parameter: .maxConcurrentStreams, value: 100),
        HTTP2Setting(parameter: .maxHeaderListSize, value: 32 << 10),
        HTTP2Setting(parameter: .initialWindowSize, value: ReceiverChannel.streamWindow),
      ]
      // Answers to PING and SETTINGS, for a client that does not read them.
      configuration.connection.maximumBufferedControlFrames = 1000
      configuration.stream.targetWindowSize = ReceiverChannel.streamWindow
      let life = try channel.pipeline.syncOperations.handler(type: ConnectionLifeHandler.self)
      let streams = try channel.pipeline.syncOperations.configureAsyncHTTP2Pipeline(
        mode: .server,
        connectionManagerConfiguration: .init(
          maxIdleTime: limits.idle, maxAge: nil, maxGraceTime: limits.grace, keepalive: nil),
        http2HandlerConfiguration: configuration
      ) { stream in
        stream.eventLoop.makeCompletedFuture {
          try stream.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTPServerCodec())
          try stream.pipeline.syncOperations.addHandler(RunningRequestHandler())
          try stream.pipeline.syncOperations.addHandler(BodyTimeoutHandler(limits))
          try stream.pipeline.syncOperations.addHandler(MalformedRequestHandler(isHTTP1: false))
          return try Stream(
            wrappingChannelSynchronously: stream, configuration: .init(isOutboundHalfClosureEnabled: true))
        }
      }
      try channel.pipeline.syncOperations.addHandler(HTTP2EndHandler(life))
      return streams
    }
  }

  func handle(value: Value, logger: Logger) async {
    await withTaskExecutorPreference(EventLoopTaskExecutor(value.channel.eventLoop)) {
      do {
        switch try await value.negotiated.get() {
        case .http1_1(let channel): await handleHTTP(asyncChannel: channel, logger: logger)
        case .http2(let streams):
          try await withThrowingDiscardingTaskGroup { group in
            for try await stream in streams.inbound {
              group.addTask { await handleHTTP(asyncChannel: stream, logger: logger) }
            }
          }
        }
      } catch {
        logger.debug("connection ended: \(error)")
      }
    }
  }
}

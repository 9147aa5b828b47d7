import NIOCore
import NIOHTTPTypes

/// Ends a connection when the receiver stops, whatever its client does. Stands between the socket and TLS.
///
/// The handlers above say goodbye in their protocols' words when they are told to quiesce, and then wait for the client:
/// TLS 5 seconds for its close_notify, HTTP/2 for the answer to a PING, and a handshake for its end. A client does not read from
/// a connection that it merely keeps for later, so each of them would hold up the receiver's end for all of its grace.
/// So a connection without a running request is closed after a moment in which a client that listens can hear the goodbye.
final class QuiescingHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  /// A connection is closed that had nothing to do at two looks in a row.
  private static let lookInterval: TimeAmount = .milliseconds(250)

  private let grace: TimeAmount
  private var runningRequests = 0
  private var wasIdle = false
  private var deadline: NIODeadline?
  private var timer: Scheduled<Void>?

  /// Running requests are given this long.
  init(grace: TimeAmount) {
    self.grace = grace
  }

  /// Counts a request, until ``requestEnded()``. Both are for the connection's event loop.
  func requestBegan() { runningRequests += 1 }

  func requestEnded() { runningRequests -= 1 }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ChannelShouldQuiesceEvent, deadline == nil {
      deadline = .now() + grace
      wasIdle = runningRequests == 0
      scheduleLook(context)
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    timer?.cancel()
  }

  private func scheduleLook(_ context: ChannelHandlerContext) {
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: QuiescingHandler.lookInterval) { self.look(context) }
  }

  private func look(_ context: ChannelHandlerContext) {
    let isIdle = runningRequests == 0
    let isLate = deadline.map { $0 <= .now() } ?? false
    // From here it goes to the socket, past TLS.
    if (isIdle && wasIdle) || isLate { return context.close(promise: nil) }
    wasIdle = isIdle
    scheduleLook(context)
  }
}

/// Tells the connection's ``QuiescingHandler`` of the requests of HTTP/1.1, or of one stream of HTTP/2. A request runs from
/// its head until its answer has been written to the socket.
final class RunningRequestHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private var connection: QuiescingHandler?
  private var running = 0

  func handlerAdded(context: ChannelHandlerContext) {
    // A stream's parent is its connection, on the same event loop; a connection's parent is the listening socket.
    connection =
      (try? context.pipeline.syncOperations.handler(type: QuiescingHandler.self))
      ?? (try? context.channel.parent?.pipeline.syncOperations.handler(type: QuiescingHandler.self))
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .head = unwrapInboundIn(data) {
      running += 1
      connection?.requestBegan()
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard case .end = unwrapOutboundIn(data) else { return context.write(data, promise: promise) }
    let written = promise ?? context.eventLoop.makePromise()
    written.futureResult.assumeIsolated().whenComplete { _ in self.requestEnded() }
    context.write(data, promise: written)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    while running > 0 { requestEnded() }
    connection = nil
  }

  private func requestEnded() {
    // The write of a connection that broke off fails after the handler has gone.
    guard running > 0 else { return }
    running -= 1
    connection?.requestEnded()
  }
}

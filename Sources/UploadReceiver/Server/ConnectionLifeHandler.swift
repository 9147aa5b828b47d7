import HTTPTypes
import NIOCore
import NIOHTTP2
import NIOHTTPTypes

/// Ends a connection whose time is over, whatever its client does. Stands between the socket and TLS.
///
/// The handlers above say goodbye in their protocols' words, and then wait for the client: TLS 5 seconds for its
/// close_notify, HTTP/2 for the answer to a PING, and a handshake for its end. A client need not answer, and one that
/// merely keeps a connection for later does not even read from it. So a connection that is to end, and runs no request,
/// is closed after a moment in which a client that listens can hear the goodbye.
///
/// It ends when the receiver stops, after too long an idle time, when the client says that nothing more comes (FIN,
/// close_notify, GOAWAY), after a breach of the protocol, and when answers are not read.
final class ConnectionLifeHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  /// A connection is closed that had nothing to do at two looks in a row.
  private static let lookInterval: TimeAmount = .milliseconds(250)
  /// For the goodbye of an idle connection.
  private static let goodbye: TimeAmount = .seconds(1)

  private let limits: ConnectionLimits
  private let peers: PeerConnections
  private var peer: PeerConnections.Peer?
  private var answers: UnreadAnswers
  private var runningRequests = 0
  private var idleSince = NIODeadline.now()
  /// From here on it is to end; the second says when at the latest.
  private(set) var isEnding = false
  private var deadline = NIODeadline.distantFuture
  private var wasIdle = false
  private var context: ChannelHandlerContext?
  private var look: Scheduled<Void>?
  private var idleTimer: Scheduled<Void>?
  private var answerTimer: (deadline: NIODeadline, timer: Scheduled<Void>)?

  init(limits: ConnectionLimits, peers: PeerConnections) {
    self.limits = limits
    self.peers = peers
    answers = UnreadAnswers(limits)
  }

  /// Counts a request, until ``requestEnded()``. These are for the connection's event loop.
  func requestBegan() { runningRequests += 1 }

  func requestEnded() {
    runningRequests -= 1
    if runningRequests == 0 { idleSince = .now() }
  }

  /// Counts an answer that begins to be sent, until ``answerEnded(_:)``.
  func answerBegan(_ answer: UnreadAnswers.ID) {
    answers.begin(answer, at: .now())
    scheduleAnswerCheck()
  }

  func answerGrows(_ answer: UnreadAnswers.ID, by bytes: Int) {
    answers.grow(answer, by: bytes)
    if answers.isTooMuch { close() }
  }

  func answerEnded(_ answer: UnreadAnswers.ID) { answers.end(answer) }

  /// Ends the connection when its requests are answered, and after `time` in any case.
  func end(within time: TimeAmount? = nil) {
    guard let context else { return }
    if let time { deadline = min(deadline, .now() + time) }
    guard !isEnding else { return }
    isEnding = true
    wasIdle = runningRequests == 0
    scheduleLook(context)
  }

  /// The client sends nothing more. What it has asked for is answered.
  func inputEnded() { end(within: limits.bodyIdle + limits.grace) }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    scheduleIdleCheck(context)
  }

  func channelActive(context: ChannelHandlerContext) {
    peer = peers.enter(context.remoteAddress)
    // Of one address too many: closed before a byte is read from it, so that it costs no handshake.
    guard peer != nil else { return context.close(promise: nil) }
    context.fireChannelActive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case is ChannelShouldQuiesceEvent: end(within: limits.grace)
    case ChannelEvent.inputClosed: inputEnded()
    default: break
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    leave()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    leave()
    self.context = nil
  }

  private func leave() {
    for timer in [look, idleTimer, answerTimer?.timer] { timer?.cancel() }
    if let peer { peers.leave(peer) }
    peer = nil
  }

  /// From here it goes to the socket, past TLS.
  private func close() { context?.close(promise: nil) }

  private func scheduleLook(_ context: ChannelHandlerContext) {
    look = context.eventLoop.assumeIsolated().scheduleTask(in: ConnectionLifeHandler.lookInterval) {
      let isIdle = self.runningRequests == 0
      if (isIdle && self.wasIdle) || self.deadline <= .now() { return self.close() }
      self.wasIdle = isIdle
      self.scheduleLook(context)
    }
  }

  private func scheduleIdleCheck(_ context: ChannelHandlerContext) {
    let last = idleSince + limits.idle + ConnectionLifeHandler.goodbye
    let delay = runningRequests > 0 ? limits.idle : max(.milliseconds(10), last - .now())
    idleTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
      let last = self.idleSince + self.limits.idle + ConnectionLifeHandler.goodbye
      if self.runningRequests == 0, last <= .now() { return self.close() }
      self.scheduleIdleCheck(context)
    }
  }

  private func scheduleAnswerCheck() {
    guard let context, let deadline = answers.deadline else { return }
    if let answerTimer, answerTimer.deadline <= deadline { return }
    answerTimer?.timer.cancel()
    let timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
      self.answerTimer = nil
      if let deadline = self.answers.deadline, deadline <= .now() { return self.close() }
      self.scheduleAnswerCheck()
    }
    answerTimer = (deadline, timer)
  }
}

/// Tells the connection's ``ConnectionLifeHandler`` of the requests of HTTP/1.1, or of one stream of HTTP/2. A request
/// runs from its head until its answer has been written to the socket.
final class RunningRequestHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private var connection: ConnectionLifeHandler?
  private var running = 0

  func handlerAdded(context: ChannelHandlerContext) {
    // A stream's parent is its connection, on the same event loop; a connection's parent is the listening socket.
    connection =
      (try? context.pipeline.syncOperations.handler(type: ConnectionLifeHandler.self))
      ?? (try? context.channel.parent?.pipeline.syncOperations.handler(type: ConnectionLifeHandler.self))
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .head = unwrapInboundIn(data) {
      running += 1
      connection?.requestBegan()
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let answer = ObjectIdentifier(self)
    switch unwrapOutboundIn(data) {
    case .head(let head):
      if head.status.kind != .informational { connection?.answerBegan(answer) }
      context.write(data, promise: promise)
    case .body(let bytes):
      connection?.answerGrows(answer, by: bytes.readableBytes)
      context.write(data, promise: promise)
    case .end:
      let written = promise ?? context.eventLoop.makePromise()
      written.futureResult.assumeIsolated().whenComplete { _ in
        self.connection?.answerEnded(answer)
        self.requestEnded()
      }
      context.write(data, promise: written)
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    connection?.answerEnded(ObjectIdentifier(self))
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

/// Tells the connection's ``ConnectionLifeHandler`` what HTTP/2 has to say of the connection as a whole: an error, after
/// which the connection takes no frames any more, and the client's GOAWAY.
final class HTTP2EndHandler: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias InboundOut = HTTP2Frame

  private let connection: ConnectionLifeHandler

  init(_ connection: ConnectionLifeHandler) {
    self.connection = connection
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .goAway = unwrapInboundIn(data).payload { connection.end() }
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    connection.inputEnded()
    context.fireErrorCaught(error)
  }
}

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Ends a connection of HTTP/1.1 when the receiver stops, so that everything is answered that was taken: the answer to a request
/// says that it is the last one, and what comes after it, or after the goodbye of an idle connection, is not read. A client that
/// had sent it before it heard of that asks again elsewhere.
///
/// TLS reads on after its goodbye until the client has answered that. A request that came then was taken whole, and its answer could
/// not be sent any more.
final class ConnectionCloseHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// An idle connection's next request may be on its way. Shorter than the interval of ``ConnectionLifeHandler``, which ends what is idle.
  static let pause: TimeAmount = .milliseconds(100)

  /// Requests whose head was read and that are not answered.
  private var running = 0
  private var isEnding = false
  /// The answer that is written now is the last one.
  private var isLast = false
  /// Nothing is read any more.
  private var isDeaf = false
  private var isClosing = false
  private var goodbye: Scheduled<Void>?

  func handlerAdded(context: ChannelHandlerContext) {
    // The receiver may have begun to stop during the handshake.
    let life = try? context.pipeline.syncOperations.handler(type: ConnectionLifeHandler.self)
    if life?.isEnding == true { end(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { goodbye?.cancel() }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    // Those behind would close the connection at once.
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    end(context)
  }

  private func end(_ context: ChannelHandlerContext) {
    guard !isEnding else { return }
    isEnding = true
    guard running == 0 else { return }
    goodbye = context.eventLoop.assumeIsolated().scheduleTask(in: ConnectionCloseHandler.pause) {
      if self.running == 0 { self.close(context) }
    }
  }

  private func close(_ context: ChannelHandlerContext) {
    guard !isClosing else { return }
    (isClosing, isDeaf) = (true, true)
    context.close(promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .head = unwrapInboundIn(data) {
      if isLast { isDeaf = true }
      if !isDeaf { running += 1 }
    }
    if !isDeaf { context.fireChannelRead(data) }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var head) where isEnding && running == 1 && head.status.kind != .informational:
      isLast = true
      head.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .end:
      running -= 1
      context.write(data, promise: promise)
      guard isEnding, running == 0 else { return }
      context.flush()
      close(context)
    case .head, .body: context.write(data, promise: promise)
    }
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { (isClosing, isDeaf) = (true, true) }
    context.close(mode: mode, promise: promise)
  }
}

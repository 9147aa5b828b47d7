import NIOCore
import NIOHTTPTypes
import NIOTLS

/// A body that was too slow.
struct BodyTimeout: Error {}

/// Counts a connection and its handshake, and gives up on one that never completes it.
final class ConnectionCountingHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let statistics: ReceiverStatistics
  private let handshakeTimeout: TimeAmount
  private var timer: Scheduled<Void>?

  init(_ statistics: ReceiverStatistics, handshakeTimeout: TimeAmount = .seconds(10)) {
    self.statistics = statistics
    self.handshakeTimeout = handshakeTimeout
  }

  func handlerAdded(context: ChannelHandlerContext) {
    statistics.connectionOpened(ObjectIdentifier(context.channel))
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: handshakeTimeout) { context.close(promise: nil) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .handshakeCompleted? = event as? TLSUserEvent {
      timer?.cancel()
      statistics.handshakeCompleted()
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    statistics.connectionClosed(ObjectIdentifier(context.channel))
    context.fireChannelInactive()
  }
}

/// Watches a request's body: one that stands still for too long, or takes too long in all, ends with an error, which the
/// request answers with 408; the connection is closed after that. Time in which nobody reads, because the receiver is
/// busy, is not held against the client.
final class BodyTimeoutHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private let idleMax: TimeAmount
  private let totalMax: TimeAmount
  private var isInBody = false
  private var isReading = false
  private var began = NIODeadline.now()
  private var lastProgress = NIODeadline.now()
  private var timer: Scheduled<Void>?

  init(idleMax: TimeAmount, totalMax: TimeAmount) {
    self.idleMax = idleMax
    self.totalMax = totalMax
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    lastProgress = .now()
    switch unwrapInboundIn(data) {
    case .head:
      isInBody = true
      began = lastProgress
      if timer == nil { schedule(context, in: min(idleMax, totalMax)) }
    case .body: break
    case .end: isInBody = false
    }
    context.fireChannelRead(data)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    isReading = false
    context.fireChannelReadComplete()
  }

  func read(context: ChannelHandlerContext) {
    if !isReading {
      isReading = true
      lastProgress = .now()
    }
    context.read()
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    timer?.cancel()
  }

  private func schedule(_ context: ChannelHandlerContext, in delay: TimeAmount) {
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.check(context) }
  }

  private func check(_ context: ChannelHandlerContext) {
    timer = nil
    guard isInBody else { return }
    let now = NIODeadline.now()
    let idleDeadline = lastProgress + idleMax
    let totalDeadline = began + totalMax
    guard (isReading && now >= idleDeadline) || now >= totalDeadline else {
      return schedule(context, in: max(.milliseconds(10), min(idleDeadline, totalDeadline) - now))
    }
    isInBody = false
    context.fireErrorCaught(BodyTimeout())
    // Time enough to send the answer.
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(2)) { context.close(promise: nil) }
  }
}

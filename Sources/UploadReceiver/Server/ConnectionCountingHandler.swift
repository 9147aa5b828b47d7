import NIOCore
import NIOTLS

/// Counts a connection and its handshake, and gives up on one that never completes it. Stands above TLS.
final class ConnectionCountingHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let statistics: ReceiverStatistics
  private let life: ConnectionLifeHandler
  private let handshakeTimeout: TimeAmount
  private var timer: Scheduled<Void>?

  init(_ statistics: ReceiverStatistics, _ life: ConnectionLifeHandler, handshakeTimeout: TimeAmount = .seconds(10)) {
    self.statistics = statistics
    self.life = life
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
    // TLS says so for a close_notify, which the socket does not know.
    if case .inputClosed? = event as? ChannelEvent { life.inputEnded() }
    context.fireUserInboundEventTriggered(event)
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.cancel()
    statistics.connectionClosed(ObjectIdentifier(context.channel))
    context.fireChannelInactive()
  }
}

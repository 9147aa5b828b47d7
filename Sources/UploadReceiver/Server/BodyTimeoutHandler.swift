import NIOCore
import NIOHTTPTypes

/// A body that was too slow.
struct BodyTimeout: Error {}

/// A body whose memory others need.
struct BodyRevoked: Error {}

/// Watches a request's body. One that stands still for too long, that is too slow on average, or that takes too long in
/// all, ends with an error, which the request answers with 408; one whose memory is revoked likewise, with 503. The
/// connection is closed after that. Time in which nothing is read, because the receiver is busy, is not counted against the
/// client. What is left of a body whose request was answered has little time.
final class BodyTimeoutHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private let limits: ConnectionLimits
  private var isInBody = false
  private var isReading = false
  private var began = NIODeadline.now()
  private var lastProgress = NIODeadline.now()
  /// Since the body began, without what was not read because the receiver was busy.
  private var waited: TimeAmount = .zero
  private var arrivedBytes = 0
  private var restDeadline = NIODeadline.distantFuture
  private var timer: Scheduled<Void>?

  init(_ limits: ConnectionLimits) {
    self.limits = limits
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let now = NIODeadline.now()
    if isReading { waited = waited + (now - lastProgress) }
    lastProgress = now
    switch unwrapInboundIn(data) {
    case .head:
      isInBody = true
      began = now
      (waited, arrivedBytes, restDeadline) = (.zero, 0, .distantFuture)
      if timer == nil { schedule(context, in: min(limits.bodyIdle, limits.bodyTotal, limits.bodyStart)) }
    case .body(let bytes): arrivedBytes += bytes.readableBytes
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

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data), isInBody {
      restDeadline = .now() + limits.bodyRest
      timer?.cancel()
      schedule(context, in: min(limits.bodyIdle, limits.bodyRest))
    }
    context.write(data, promise: promise)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard event is BodyRevoked else { return context.fireUserInboundEventTriggered(event) }
    if isInBody { end(context, BodyRevoked()) }
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
    let latest = min(began + limits.bodyTotal, restDeadline)
    var next = min(lastProgress + limits.bodyIdle, latest)
    if isReading { next = min(next, averageDeadline) }
    guard now >= latest || (isReading && now >= next) else {
      return schedule(context, in: max(.milliseconds(10), next - now))
    }
    end(context, BodyTimeout())
  }

  /// When the body is too slow on average, if nothing more of it arrives.
  private var averageDeadline: NIODeadline {
    let granted = Int64(arrivedBytes) * 1000 / Int64(limits.bodyBytesPerSecond)
    return lastProgress + limits.bodyStart + .milliseconds(granted) - waited
  }

  private func end(_ context: ChannelHandlerContext, _ error: any Error) {
    isInBody = false
    timer?.cancel()
    context.fireErrorCaught(error)
    // Time enough to send the answer, also where the processors have too much to do.
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(8)) { context.close(promise: nil) }
  }
}

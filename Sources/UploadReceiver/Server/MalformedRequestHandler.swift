import ChunkProtocol
import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import ReceiverCore

/// Answers what is no request: HTTP/1.1 that cannot be parsed, and a Host that is missing or not one (RFC 9112, section
/// 3.2). The answer is a problem as every other; the connection, or the stream of HTTP/2, ends after it.
final class MalformedRequestHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private static let host = HTTPField.Name("Host")

  private let isHTTP1: Bool
  private var running = 0
  private var isAnswered = false

  init(isHTTP1: Bool) {
    self.isHTTP1 = isHTTP1
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isAnswered else { return }
    if case .head(let head) = unwrapInboundIn(data) {
      guard hasOneHost(head) else {
        return answer(context, Refusal(.badRequest(field: "Host"), "a request has one Host, and no more"))
      }
      running += 1
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data) { running -= 1 }
    context.write(data, promise: promise)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // In the middle of a request it is the body that cannot be read, and the request is answered.
    guard isHTTP1, running == 0, !isAnswered, error is HTTPParserError else { return context.fireErrorCaught(error) }
    answer(context, Refusal(.badRequest(field: "request"), "this is no request of HTTP/1.1, or its head is too long"))
  }

  /// The codec has made the first Host of HTTP/1.1 the authority, which HTTP/2 has by itself.
  private func hasOneHost(_ head: HTTPRequest) -> Bool {
    let others = MalformedRequestHandler.host.map { head.headerFields[values: $0] } ?? []
    let hosts = (head.authority.map { [$0] } ?? []) + others
    return isHTTP1 ? hosts.count == 1 : Set(hosts).count == 1
  }

  private func answer(_ context: ChannelHandlerContext, _ refusal: Refusal) {
    isAnswered = true
    let answer = Answer.refused(refusal)
    var head = answer.head
    if isHTTP1 { head.headerFields[.connection] = "close" }
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(ByteBuffer(bytes: answer.body))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { _ in
      context.close(promise: nil)
    }
  }
}

import Glibc
import Logging
import NIOCore

/// Looks away from the socket that listens for a moment where the system has no descriptor, or no memory, for one more connection. Clients
/// wait in the backlog meanwhile.
///
/// NIO's own back-off delays the next read; but one that has failed is still expected, so that the socket stays registered, is ready, and
/// its event loop turns without end. Stands next to the socket.
final class AcceptPauseHandler: ChannelDuplexHandler {
  typealias InboundIn = any Channel
  typealias InboundOut = any Channel
  typealias OutboundIn = Never
  typealias OutboundOut = Never

  static let pause: TimeAmount = .seconds(1)
  /// Between two lines of the log about the same.
  private static let silence: TimeAmount = .minutes(1)

  private let logger: Logger
  private let descriptorsMax: Int
  private var end: Scheduled<Void>?
  private var saidAt: NIODeadline?

  init(_ logger: Logger, descriptorsMax: Int = DescriptorShares.limit) {
    self.logger = logger
    self.descriptorsMax = descriptorsMax
  }

  /// For a socket that listens; its channel may be gone by then.
  static func add(to channel: any Channel, _ logger: Logger) async {
    let added = channel.eventLoop.submit {
      try channel.pipeline.syncOperations.addHandler(AcceptPauseHandler(logger), position: .first)
    }
    do {
      try await added.get()
    } catch {
      logger.debug("the socket that listens was closed at once: \(error)")
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? IOError, let shortage = shortage(error.errnoCode), end == nil {
      say(shortage)
      setsReading(context, false)
      end = context.eventLoop.assumeIsolated().scheduleTask(in: AcceptPauseHandler.pause) {
        self.end = nil
        self.setsReading(context, true)
      }
    }
    context.fireErrorCaught(error)
  }

  func read(context: ChannelHandlerContext) {
    // The end of the pause reads.
    if end == nil { context.read() }
  }

  func channelInactive(context: ChannelHandlerContext) {
    end?.cancel()
    context.fireChannelInactive()
  }

  /// To the channel, this registers its socket and takes it out again.
  private func setsReading(_ context: ChannelHandlerContext, _ reads: Bool) {
    do {
      try context.channel.syncOptions?.setOption(.autoRead, value: reads)
    } catch {
      logger.debug("the socket that listens is closed: \(error)")
    }
  }

  private func say(_ shortage: String) {
    let now = NIODeadline.now()
    if let saidAt, now - saidAt < AcceptPauseHandler.silence { return }
    saidAt = now
    logger.warning("no more connections can be taken for now, and clients wait: \(shortage)")
  }

  /// What there is too little of; nil for errors that are a client's own.
  private func shortage(_ code: CInt) -> String? {
    switch code {
    case EMFILE: "this process has as many files open as it may (\(descriptorsMax); ulimit -Hn, LimitNOFILE=)"
    case ENFILE: "this machine has as many files open as it may (fs.file-max)"
    case ENOMEM, ENOBUFS: "the system has no memory for them"
    default: nil
    }
  }
}

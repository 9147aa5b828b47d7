import Glibc
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// The sockets that a receiver listens on: a server for each address, which begin and end together.
struct Listeners: Sendable {
  private let servers: [(address: ListenAddress, server: Server<ReceiverChannel>)]
  private let readiness: Readiness
  private let logger: Logger

  init(
    _ addresses: [ListenAddress], channel: ReceiverChannel, connectionsMax: Int,
    group: MultiThreadedEventLoopGroup, logger: Logger, onReady: @escaping @Sendable ([ListenAddress]) -> Void
  ) {
    let readiness = Readiness(addresses, onReady)
    self.readiness = readiness
    self.logger = logger
    servers = addresses.enumerated().map { position, address in
      let server = Server(
        childChannelSetup: channel,
        configuration: ServerConfiguration(
          address: .hostname(address.host, port: address.port), backlog: 1024,
          availableConnectionsDelegate: MaximumAvailableConnections(max(1, connectionsMax / addresses.count))),
        onServerRunning: { channel in
          await AcceptPauseHandler.add(to: channel, logger)
          readiness.decide(position, port: channel.localAddress?.port ?? 0)
        }, eventLoopGroup: group, logger: Listeners.quiet(logger))
      return (address, server)
    }
  }

  private enum Milestone: Sendable {
    case serverEnded(failure: String?)
    case serverAbsent
    case stopRequested
    case graceEnded
  }

  /// Serves until asked to stop, then until the running requests are answered or their grace has passed. Returns why it could not
  /// listen.
  func serve(until stop: @escaping @Sendable () async -> Void, grace: TimeAmount) async -> String? {
    await withTaskGroup(of: Milestone.self) { tasks in
      for (position, (address, server)) in servers.enumerated() {
        tasks.addTask { await run(server, at: address, position) }
      }
      tasks.addTask {
        await stop()
        return .stopRequested
      }
      defer { tasks.cancelAll() }
      // The end of all servers, and that of their connections.
      var running = servers.count + 1
      waiting: while let milestone = await tasks.next() {
        switch milestone {
        case .serverEnded(let failure): return failure
        case .serverAbsent: running -= 1
        case .stopRequested, .graceEnded: break waiting
        }
      }
      tasks.addTask {
        await withTaskGroup(of: Void.self) { ends in
          for (_, server) in servers { ends.addTask { try? await server.shutdownGracefully() } }
        }
        return .serverEnded(failure: nil)
      }
      tasks.addTask {
        try? await Task.sleep(for: .nanoseconds(grace.nanoseconds))
        return .graceEnded
      }
      while running > 0, let milestone = await tasks.next() {
        if case .graceEnded = milestone { break }
        running -= 1
      }
      return nil
    }
  }

  private func run(_ server: Server<ReceiverChannel>, at address: ListenAddress, _ position: Int) async -> Milestone {
    do {
      try await server.run()
      return .serverEnded(failure: nil)
    } catch {
      let words = "\(address): \(Listeners.words(of: error))"
      guard address.isOptional else { return .serverEnded(failure: words) }
      logger.notice("not listening at \(words)")
      readiness.decide(position, port: nil)
      return .serverAbsent
    }
  }

  /// Of a socket that could not be opened, in the system's words.
  private static func words(of error: any Error) -> String {
    switch error {
    case let error as IOError: String(cString: strerror(error.errnoCode))
    case SocketAddressError.unknown(let host, _): "there is no address of the name \(host)"
    default: "\(error)"
    }
  }

  /// Hummingbird's word of where it listens is said better on stdout.
  private static func quiet(_ logger: Logger) -> Logger {
    var logger = logger
    logger.logLevel = max(logger.logLevel, .notice)
    return logger
  }
}

/// Which addresses are listened at. Says so once, when that is known of all.
private final class Readiness: Sendable {
  private struct State {
    var addresses: [ListenAddress?]
    var undecided: Int
  }

  private let state: Mutex<State>
  private let onReady: @Sendable ([ListenAddress]) -> Void

  init(_ addresses: [ListenAddress], _ onReady: @escaping @Sendable ([ListenAddress]) -> Void) {
    state = Mutex(State(addresses: addresses, undecided: addresses.count))
    self.onReady = onReady
  }

  /// The port that an address has got; nil where there is no such address on this machine.
  func decide(_ position: Int, port: Int?) {
    let known = state.withLock { state -> [ListenAddress]? in
      if let port { state.addresses[position]?.port = port } else { state.addresses[position] = nil }
      state.undecided -= 1
      return state.undecided == 0 ? state.addresses.compactMap(\.self) : nil
    }
    if let known { onReady(known) }
  }
}

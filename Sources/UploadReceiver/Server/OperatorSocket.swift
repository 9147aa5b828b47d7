import ChunkProtocol
import Glibc
import Logging
import NIOCore
import NIOPosix
import ReceiverCore

/// An upload that is not published, as `uploadfs-receiver sessions` shows it.
public struct OperatorListing: Hashable, Sendable, Codable {
  /// The session's name.
  public var id: String
  /// Where its token publishes; nil where that is not known, or the token is not in use any more.
  public var root: String?
  /// Which user of the token file it is of, counted from 1; nil likewise. Two may publish in one place.
  public var user: Int?
  /// The name of its file at its opening.
  public var name: String?
  /// The stated size; nil for a file that is still written.
  public var size: UInt64?
  /// What it holds.
  public var heldBytes: UInt64
  /// Since its last change.
  public var idleSeconds: Int64
  /// Its client may have given up its own copy: it never ends by itself.
  public var mayHoldOnlyCopy: Bool
  /// Why it cannot be continued.
  public var trouble: String?

  enum CodingKeys: String, CodingKey {
    case id, root, user, name, size
    case heldBytes = "held_bytes"
    case idleSeconds = "idle_seconds"
    case mayHoldOnlyCopy = "relied_upon"
    case trouble
  }

  fileprivate init(_ session: SessionListing, of user: OperatorSocket.User?) {
    id = session.id.text
    root = user?.root
    self.user = user?.number
    name = session.name
    size = session.sizeBytes
    heldBytes = session.heldBytes
    idleSeconds = session.age / 1000
    mayHoldOnlyCopy = session.mayHoldOnlyCopy
    trouble = session.trouble
  }
}

/// What `uploadfs-receiver end` did.
public struct OperatorEnding: Hashable, Sendable, Codable {
  /// The session's name.
  public var id: String
  /// Why it goes on; nil where it is ended.
  public var refusal: String?
}

/// A running receiver, as its operator asks it: through a socket in the folder of its state, which no other user can reach.
///
/// A request is one line: `sessions`, or `end` and the names of sessions. The answer is JSON, and the end of the connection.
enum OperatorSocket {
  static let name = "operator"
  static let lineBytesMax = 1 << 20

  /// A user of the token file.
  struct User: Sendable {
    /// Where it stands there, from 1.
    var number: Int
    /// Where it publishes.
    var root: String
  }

  /// Those of the present token file.
  typealias Users = @Sendable () -> [CredentialID: User]

  /// Listens in the folder of the state; the path is that of an open folder, because those of sockets are short.
  static func listen(
    in state: FileDescriptor, _ driver: ReceiverDriver, users: @escaping Users, _ logger: Logger
  ) async -> (any Channel)? {
    // Left by a receiver that was killed; the lock says that none runs.
    unlinkat(state.raw, name, 0)
    do {
      return try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .childChannelOption(.maxMessagesPerRead, value: 1)
        .childChannelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(OperatorHandler(driver, users))
          }
        }
        .bind(unixDomainSocketPath: "/proc/self/fd/\(state.raw)/\(name)").get()
    } catch {
      logger.error("uploadfs-receiver sessions and end cannot be used: no socket in the folder of the state (\(error))")
      return nil
    }
  }

  /// Takes the socket away. Its path is that of the open folder: it has to be gone before the process ends, or it stays there and
  /// a copy of the folder with tools that take no sockets fails.
  static func close(_ listener: (any Channel)?, _ logger: Logger) async {
    do {
      try await listener?.close()
    } catch {
      logger.warning("the socket in the folder of the state may have stayed there: \(error)")
    }
  }

  fileprivate static func answer(_ line: String, _ driver: ReceiverDriver, _ users: Users) async -> [UInt8] {
    let words = line.split(separator: " ").map(String.init)
    switch words.first {
    case "sessions":
      let users = users()
      return WireJSON.encode(
        driver.listing.map { session in OperatorListing(session, of: session.credential.flatMap { users[$0] }) })
    case "end":
      var endings: [OperatorEnding] = []
      for id in words.dropFirst() {
        let reply = await driver.ask(driver.makeRequestID(), { .endByOperator($0, SessionID(id)) })
        let refusal: String? = if case .refused(let refusal) = reply { refusal.detail } else { nil }
        endings.append(OperatorEnding(id: id, refusal: refusal))
      }
      return WireJSON.encode(endings)
    default: return []
    }
  }
}

private final class OperatorHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let driver: ReceiverDriver
  private let users: OperatorSocket.Users
  private var line: [UInt8] = []
  private var isAnswered = false

  init(_ driver: ReceiverDriver, _ users: @escaping OperatorSocket.Users) {
    self.driver = driver
    self.users = users
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isAnswered else { return }
    line.append(contentsOf: unwrapInboundIn(data).readableBytesView)
    guard let end = line.firstIndex(of: UInt8(ascii: "\n")) else {
      if line.count > OperatorSocket.lineBytesMax { context.close(promise: nil) }
      return
    }
    isAnswered = true
    let (driver, users, channel) = (driver, users, context.channel)
    let text = String(decoding: line[..<end], as: UTF8.self)
    context.eventLoop.makeFutureWithTask { await OperatorSocket.answer(text, driver, users) }
      .flatMap { bytes in channel.writeAndFlush(ByteBuffer(bytes: bytes)) }
      .whenComplete { _ in channel.close(promise: nil) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Why a running receiver could not be asked.
public enum OperatorError: Error, Hashable, Sendable {
  /// None runs.
  case noReceiver
  /// The system's words.
  case failed(String)
}

/// Asks a running receiver.
public struct OperatorClient: Sendable {
  private static let answerBytesMax = 64 << 20

  private let root: String

  /// Asks the receiver of this root.
  public init(root: String) { self.root = root }

  /// The uploads that are not published, those first that were left alone for longest.
  public func sessions() throws(OperatorError) -> [OperatorListing] { try ask("sessions") }

  /// Likewise, as JSON.
  public func sessionsAsJSON() throws(OperatorError) -> String {
    String(decoding: WireJSON.encode(try sessions()), as: UTF8.self)
  }

  /// Ends sessions, also those that a client relies upon.
  public func end(_ ids: [String]) throws(OperatorError) -> [OperatorEnding] {
    try ask("end \(ids.joined(separator: " "))")
  }

  private func ask<Answer: Decodable>(_ line: String) throws(OperatorError) -> Answer {
    let bytes: [UInt8]
    do throws(StoreFailure) {
      bytes = try exchange(Array("\(line)\n".utf8))
    } catch .sessionGone {
      throw .noReceiver
    } catch {
      throw .failed(error.words)
    }
    do {
      return try WireJSON.decode(Answer.self, from: bytes)
    } catch {
      throw .failed("the receiver's answer cannot be read; it may be of another version")
    }
  }

  private func exchange(_ request: [UInt8]) throws(StoreFailure) -> [UInt8] {
    let state = try FileDescriptor.open("\(root)/.uploads", O_RDONLY | O_DIRECTORY)
    let socket = try FileDescriptor.connect("/proc/self/fd/\(state.raw)/\(OperatorSocket.name)")
    var sent = 0
    while sent < request.count {
      let count = request.withUnsafeBytes {
        send(socket.raw, $0.baseAddress?.advanced(by: sent), $0.count - sent, Int32(truncatingIfNeeded: MSG_NOSIGNAL))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw .last("send") }
      sent += count
    }
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while answer.count < OperatorClient.answerBytesMax {
      let count = recv(socket.raw, &buffer, buffer.count, 0)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw .last("recv") }
      if count == 0 { break }
      answer.append(contentsOf: buffer[..<count])
    }
    return answer
  }
}

extension FileDescriptor {
  /// Connects to a socket of this machine; ``StoreFailure/sessionGone(_:)`` where no receiver listens there.
  fileprivate static func connect(_ path: String) throws(StoreFailure) -> FileDescriptor {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { throw .io("connect: the path is too long") }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let file = try FileDescriptor.socket()
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(file.raw, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else {
      if errno == ENOENT || errno == ECONNREFUSED { throw .sessionGone("no receiver listens") }
      throw .last("connect")
    }
    return file
  }
}

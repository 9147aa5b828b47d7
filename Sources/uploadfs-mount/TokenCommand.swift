import Destinations
import Glibc
import Logging
import MountConfiguration
import UploadEngine

/// A command that prints the bearer token, which may end to be valid while files are uploaded.
struct TokenCommand: Sendable {
  private let command: String
  private let logger: Logger
  private let first: String

  /// Runs it for the first time.
  init(_ command: String, logger: Logger) throws(ToolFailure) {
    self.command = command
    self.logger = logger
    first = try Self.token(of: command)
  }

  /// Sends requests with the token, and with the next one when the server refuses it.
  func transport(over transport: any HTTPTransport) -> RenewingTransport {
    RenewingTransport(transport, token: first, seconds: { Self.seconds }) { [self] transport in
      // Commands take their time, and the transport's thread has none.
      let hasThread = DedicatedThread.start { renew(transport) }
      if !hasThread { transport.renewed(.failure(.init("the system has no thread left for the token command"))) }
    }
  }

  private func renew(_ transport: RenewingTransport) {
    do throws(ToolFailure) {
      let token = try Self.token(of: command)
      logger.info("the token was renewed")
      transport.renewed(.success(token))
    } catch {
      logger.warning("the token cannot be renewed", metadata: ["reason": "\(error.message)"])
      transport.renewed(.failure(.init(error.message)))
    }
  }

  /// The first line of what it prints.
  private static func token(of command: String) throws(ToolFailure) -> String {
    let output = try CommandOutput.of(command, called: "token command")
    let line = output.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
    guard !line.isEmpty, line.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw ToolFailure(
        .destinationUnusable, "the token command must print the token alone on its first line, in ASCII")
    }
    return String(decoding: line, as: UTF8.self)
  }

  private static var seconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec)
  }
}

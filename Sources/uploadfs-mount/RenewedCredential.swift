import Destinations
import Glibc
import Logging
import MountConfiguration
import TransferModel

/// A credential that may end to be valid while files are uploaded, and where the next one comes from: a command that prints the
/// token, or a file that another program replaces.
struct RenewedCredential: Sendable {
  private enum Origin {
    case command(String)
    case tokenFile(String)
    case passwordFile(String)

    /// A file costs nothing to look at; a command is not run again and again for a server that refuses everything.
    var restSeconds: Int64 {
      if case .command = self { 60 } else { 0 }
    }
  }

  private let origin: Origin
  private let logger: Logger
  /// The one that there was at the start.
  let first: Credential
  /// Knows this one and those that follow.
  let mask = CredentialMask()

  /// Fetches it for the first time. Nil where no setting names one.
  init?(_ configuration: MountConfiguration, logger: Logger) throws(ToolFailure) {
    if let command = configuration.tokenCommand {
      origin = .command(command)
    } else if let path = configuration.tokenFile {
      origin = .tokenFile(path)
    } else if let path = configuration.basicAuthFile {
      origin = .passwordFile(path)
    } else {
      return nil
    }
    self.logger = logger
    first = try Self.fetch(origin)
    mask.learn(first)
  }

  /// Sends requests with it, and with the next one when the server refuses it.
  func transport(over transport: any HTTPTransport, to destination: any Destination) -> RenewingTransport {
    RenewingTransport(
      transport, credential: first, restSeconds: origin.restSeconds, seconds: { Self.seconds },
      signer: .of(destination),
      renew: { [self] transport in
        // Commands and disks take their time, and the transport's thread has none.
        let hasThread = DedicatedThread.start("credentials") { renew(transport) }
        if !hasThread { transport.renewed(.failure(.init("the system has no thread left to renew the credential"))) }
      })
  }

  private func renew(_ transport: RenewingTransport) {
    do throws(ToolFailure) {
      let credential = try Self.fetch(origin)
      mask.learn(credential)
      logger.info("the credential was fetched again")
      transport.renewed(.success(credential))
    } catch {
      logger.warning("the credential cannot be renewed", metadata: ["reason": "\(error.message)"])
      transport.renewed(.failure(.init(error.message)))
    }
  }

  private static func fetch(_ origin: Origin) throws(ToolFailure) -> Credential {
    switch origin {
    case .command(let command): .bearer(try token(of: command))
    case .tokenFile(let path): try SecretFile.token(path)
    case .passwordFile(let path): try SecretFile.basic(path)
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

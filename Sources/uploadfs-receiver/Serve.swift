import ReceiverCore
import ArgumentParser
import CLinux
import Glibc
import LogText
import Logging
import Quantities
import Threads
import UploadReceiver

/// `uploadfs-receiver serve`.
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Serve the chunk protocol over TLS 1.3 until SIGTERM or SIGINT.",
    discussion: """
      Prints a line "listening https://HOST:PORT" for each address when it is ready. SIGHUP has a service, which has no \
      terminal, read its certificate, key and tokens anew; what cannot be used leaves that of before.
      Exit codes: 0 ended in order, 1 anything else, 20 cannot listen, 21 certificate or key unusable, \
      22 root unusable, 23 token file unusable, 24 no receiver to ask, 64 usage.
      """)

  @Option(help: ArgumentHelp("The folder of the receiver's state.", valueName: "DIR"))
  var root: String

  @Option(
    help: ArgumentHelp(
      "Where to listen; port 0 takes any free one. Can be given more than once.", valueName: "HOST:PORT"))
  var listen: [String]

  @Option(help: ArgumentHelp("PEM file: the server's certificate and the chain above it.", valueName: "FILE"))
  var certificate: String?

  @Option(help: ArgumentHelp("PEM file: the certificate's private key.", valueName: "FILE"))
  var key: String?

  @Flag(help: "Make a certificate for this machine and a token in ROOT/.development, and say how to use them.")
  var development = false

  @Option(
    help: ArgumentHelp(
      "One \"ROOT TOKEN [also=TOKEN]… [was=TOKEN]… [quota=BYTES]\" a line; mode 0600.", valueName: "FILE"))
  var tokenFile: String?

  @Option(
    help: ArgumentHelp(
      "One token, that of who runs the receiver: it asks for /metrics and for all of /v1/stats. Mode 0600.",
      valueName: "FILE"))
  var operatorTokenFile: String?

  @Option(help: ArgumentHelp("Where the development token publishes. Default: ROOT/files.", valueName: "DIR"))
  var filesRoot: String?

  @Flag(help: "Without a token file: take uploads of anyone on this machine.")
  var openOnLoopback = false

  @Option(
    help: ArgumentHelp(
      "What stays free on the disk beside a file's own size: a number, or one with a unit.", valueName: "BYTES"),
    transform: bytes)
  var headroom: UInt64 = CoreLimits().headroomBytes

  @Option(help: ArgumentHelp("The largest file, likewise.", valueName: "BYTES"), transform: bytes)
  var maxFileSize: UInt64 = CoreLimits().fileBytesMax

  @Option(
    help: ArgumentHelp(
      "How long an upload that stands still can be resumed: a number, or one with a unit.", valueName: "SECONDS"),
    transform: seconds)
  var sessionMaxAge: Int64 = CoreLimits().sessionMaxAge / 1000

  @Option(
    help: ArgumentHelp(
      "What uploads of a token without quota may hold that are kept until they are delivered, because their client may have given up its own copy.",
      valueName: "BYTES"), transform: bytes)
  var durableMax: UInt64 = CoreLimits().durableBytesMax

  @Option(
    help: ArgumentHelp(
      "The most connections of one address, or of one /64 of IPv6; behind a proxy, all come from one. Default: 1024.",
      valueName: "COUNT"))
  var connectionsPerPeer: Int?

  @Option(
    help: ArgumentHelp("trace, debug, info, notice, warning, error or critical.", valueName: "LEVEL"),
    transform: { text in
      guard let level = Logger.Level(rawValue: text) else { throw ValidationError("There is no such level.") }
      return level
    })
  var logLevel = Logger.Level.info

  func validate() throws {
    try RawArguments.check()
    guard !listen.isEmpty else {
      throw ValidationError("Give --listen HOST:PORT, for example 127.0.0.1:8443.")
    }
    for address in listen where ListenAddress(address) == nil {
      throw ValidationError("--listen needs HOST:PORT, for example 127.0.0.1:8443 or [::1]:0, not \"\(address)\".")
    }
    let places = addresses.flatMap(\.places).filter { $0.port != 0 }
    guard Set(places.map(\.description)).count == places.count else {
      throw ValidationError("--listen names one address twice.")
    }
    guard development != (certificate != nil || key != nil) else {
      throw ValidationError("Give either --certificate and --key, or --development.")
    }
    guard (certificate == nil) == (key == nil) else {
      throw ValidationError("--certificate and --key go together.")
    }
    guard sessionMaxAge > 0, sessionMaxAge <= 100 * 365 * 86_400 else {
      throw ValidationError("--session-max-age must be 1 second to 100 years.")
    }
    guard connectionsPerPeer ?? 1 > 0 else { throw ValidationError("--connections-per-peer must be positive.") }
    guard maxFileSize > 0 else { throw ValidationError("--max-file-size must be positive.") }
    guard filesRoot == nil || development || openOnLoopback else {
      throw ValidationError("--files-root goes with --development or --open-on-loopback.")
    }
    try validateAccess()
  }

  /// As they were given.
  var addresses: [ListenAddress] { listen.compactMap { ListenAddress($0) } }

  private func validateAccess() throws {
    let isLoopback = addresses.allSatisfy(\.isLoopback)
    guard !development || isLoopback else {
      throw ValidationError("--development is for this machine only: listen on 127.0.0.1, [::1] or localhost.")
    }
    guard !openOnLoopback || isLoopback else {
      throw ValidationError("--open-on-loopback needs a loopback address: 127.0.0.1, [::1] or localhost.")
    }
    guard !openOnLoopback || (tokenFile == nil && !development) else {
      throw ValidationError("--open-on-loopback takes no tokens; leave out --token-file and --development.")
    }
    guard tokenFile != nil || development || openOnLoopback else {
      throw ValidationError("Nobody could upload: give --token-file, --development, or --open-on-loopback.")
    }
  }

  func run() async throws {
    signal(SIGPIPE, SIG_IGN)
    // A file that grows beyond the limit of the process is refused, which one client is told; the others go on.
    signal(SIGXFSZ, SIG_IGN)
    raiseFileLimit()
    forbidCoreDumps()
    uploadfs_end_on_faults()
    if let shortage = ThreadRoom.shortageMessage(of: 12, perProcessor: 4) {
      throw StartFailure(.other, "\(shortage).").exit()
    }
    // What the receiver writes is its account's business; what it publishes gets the mode that the client states.
    umask(0o022)
    let signals = await StopSignals()
    var logger = Logger(label: "uploadfs-receiver") { Output.logHandler(label: $0) }
    logger.logLevel = logLevel
    defer { Output.flush() }
    let startup = Startup(command: self, logger: logger)
    do {
      let (configuration, hints) = try startup.configuration()
      let server = try ReceiverServer(configuration, logger: logger)
      try await run(server, signals, startup, hints)
    } catch let failure as StartFailure {
      throw failure.exit()
    } catch let error as ReceiverStartError {
      throw StartFailure(error).exit()
    }
  }

  private func run(
    _ server: ReceiverServer, _ signals: StopSignals, _ startup: Startup, _ hints: [String]
  ) async throws(ReceiverStartError) {
    let failure = await withTaskGroup(of: Void.self) { tasks -> ReceiverStartError? in
      tasks.addTask {
        for await _ in signals.hangUps { await startup.renew(server) }
      }
      defer { tasks.cancelAll() }
      do throws(ReceiverStartError) {
        try await server.run(
          onReady: { places in
            for hint in hints {
              Output.standardOutput.put(hint.replacing("PORT", with: "\(places.first?.port ?? 0)") + "\n")
            }
            for place in places { Output.standardOutput.put("listening https://\(place)\n") }
            ServiceNotification.ready(status: "listening on \(places.map(\.description).joined(separator: ", "))")
          },
          until: {
            await signals.wait()
            ServiceNotification.stopping(status: "letting requests finish")
          },
          answering: ServiceNotification.watchdogPause.map { (every: $0, { ServiceNotification.alive() }) })
        return nil
      } catch {
        return error
      }
    }
    if let failure { throw failure }
  }

  /// A core dump would hold tokens, keys and files. To the kernel a limit of 1 byte also forbids those that go through a
  /// pipe to a program, for which a limit of 0 would count as none.
  private func forbidCoreDumps() {
    var limit = rlimit(rlim_cur: 1, rlim_max: 1)
    setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  }

  /// Every connection and every open upload takes descriptors.
  private func raiseFileLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

/// One line on stdout, at once.
func say(_ line: String) {
  print(line)
  fflush(nil)
}

private func bytes(_ text: String) throws -> UInt64 {
  guard let bytes = Units.bytes(text) else {
    throw ValidationError("Give a number of bytes, or one with a unit, for example 200MB or 4GiB.")
  }
  return bytes
}

private func seconds(_ text: String) throws -> Int64 {
  guard let time = Units.duration(text) else {
    throw ValidationError("Give a number of seconds, or one with a unit, for example 90s, 12h or 7d.")
  }
  return time.components.seconds
}

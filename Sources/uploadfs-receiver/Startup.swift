import Dispatch
import ReceiverCore
import Glibc
import Logging
import SystemMemory
import UploadReceiver

/// Turns the command line into a configuration: reads the files that it names.
struct Startup {
  private static let fileBytesMax = 1 << 20
  /// What the program has by itself when it looks at the memory.
  private static let memoryTaken: UInt64 = 12 << 20

  var command: Serve
  var logger: Logger

  /// Who may use the receiver.
  private struct Users {
    var credentials: [Credential]
    var operatorToken: String?
  }

  /// A certificate and its key.
  private struct Identity {
    var chainPEM: [UInt8] = []
    var keyPEM: [UInt8] = []
  }

  /// The configuration, and lines that say how to use a development receiver.
  func configuration() throws(StartFailure) -> (ReceiverConfiguration, hints: [String]) {
    let setup = command.development ? try development() : nil
    let (identity, users) = (try identity(setup), try users(setup))
    var hints: [String] = []
    if let setup, let address = command.addresses.first {
      hints.append("files arrive in \(filesRoot)")
      let place = "\(address)".dropLast("\(address.port)".count) + "PORT"
      hints.append(
        "try: uploadfs-mount mount MOUNTPOINT --to https://\(place) --ca \(setup.authorityPath) --token-file \(setup.tokenPath) --spool SPOOL"
      )
    }
    var configuration = ReceiverConfiguration(
      root: command.root, addresses: command.addresses.flatMap(\.places), certificateChainPEM: identity.chainPEM,
      privateKeyPEM: identity.keyPEM, credentials: users.credentials)
    configuration.operatorToken = users.operatorToken
    configuration.connectionsPerPeer = command.connectionsPerPeer
    configuration.limits.headroomBytes = command.headroom
    configuration.limits.fileBytesMax = fileBytesMax
    configuration.limits.durableBytesMax = command.durableMax
    configuration.limits.sessionMaxAge = command.sessionMaxAge * 1000
    configuration.bodyMemoryBytes = bodyMemoryBytes(largestBody: configuration.limits.chunkBytesMax)
    return (configuration, hints)
  }

  /// Reads the files anew for a receiver that runs. What cannot be used leaves that of before, and is said.
  func renew(_ server: ReceiverServer) async {
    // The files may lie on a disk that takes its time.
    await withCheckedContinuation { done in
      DispatchQueue.global().async {
        renewNow(server)
        done.resume()
      }
    }
  }

  private func renewNow(_ server: ReceiverServer) {
    do throws(StartFailure) {
      let setup = command.development ? try development() : nil
      renewIdentity(setup, server)
      renewUsers(setup, server)
    } catch {
      logger.error("SIGHUP: \(error.line) The certificate and the tokens of before stay in use.")
    }
  }

  private func renewIdentity(_ setup: DevelopmentSetup?, _ server: ReceiverServer) {
    do {
      let identity = try identity(setup)
      try server.renewCertificate(chainPEM: identity.chainPEM, keyPEM: identity.keyPEM)
      logger.notice("SIGHUP: the certificate was read anew, for connections from now on")
    } catch let failure as StartFailure {
      logger.error("SIGHUP: \(failure.line) The certificate of before stays in use.")
    } catch {
      logger.error("SIGHUP: \(error). The certificate of before stays in use.")
    }
  }

  private func renewUsers(_ setup: DevelopmentSetup?, _ server: ReceiverServer) {
    do {
      let users = try users(setup)
      try server.renewCredentials(users.credentials, operatorToken: users.operatorToken)
      logger.notice("SIGHUP: the tokens were read anew: \(users.credentials.count) users")
    } catch let failure as StartFailure {
      logger.error("SIGHUP: \(failure.line) The tokens of before stay in use.")
    } catch {
      logger.error("SIGHUP: \(error). The tokens of before stay in use.")
    }
  }

  private func identity(_ setup: DevelopmentSetup?) throws(StartFailure) -> Identity {
    if let setup { return Identity(chainPEM: setup.certificateChainPEM, keyPEM: setup.privateKeyPEM) }
    guard let certificate = command.certificate, let key = command.key else { return Identity() }
    return Identity(
      chainPEM: try read(certificate, .certificateUnusable, "certificate"),
      keyPEM: try read(key, .certificateUnusable, "key"))
  }

  private func users(_ setup: DevelopmentSetup?) throws(StartFailure) -> Users {
    var users = Users(credentials: [])
    if let file = command.tokenFile { users.credentials = try tokens(file) }
    if let setup { users.credentials = setup.users(after: users.credentials, publishing: filesRoot) }
    if command.openOnLoopback { users.credentials.append(Credential(token: nil, root: filesRoot)) }
    if let file = command.operatorTokenFile {
      users.operatorToken = try operatorToken(file, besides: users.credentials)
    }
    return users
  }

  /// What this machine, and the control groups of this process, leave for bodies.
  private func bodyMemoryBytes(largestBody: Int) -> Int {
    let available = MemoryPressure().availableBytes()
    let bytes = BodyMemory.bytes(of: available, largestBody: largestBody)
    guard let available, bytes < BodyMemory.most else { return bytes }
    logger.notice("request bodies have at most \(bytes >> 20) MiB of memory: \(available >> 20) MiB are available")
    if let shortage = BodyMemory.shortageMessage(
      of: available, takenBytes: Startup.memoryTaken, largestBody: largestBody)
    {
      logger.warning("\(shortage)")
    }
    return bytes
  }

  /// No larger than the system lets this process make a file: then it is refused before it is sent.
  private var fileBytesMax: UInt64 {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0,
      UInt64(limit.rlim_cur) < command.maxFileSize
    else { return command.maxFileSize }
    logger.warning("files have at most \(limit.rlim_cur) bytes: that is this process's limit (ulimit -f, LimitFSIZE=)")
    return UInt64(limit.rlim_cur)
  }

  private var filesRoot: String { command.filesRoot ?? "\(command.root)/files" }

  private func development() throws(StartFailure) -> DevelopmentSetup {
    do throws(ReceiverStartError) {
      let setup = try DevelopmentSetup.prepare(root: command.root)
      for words in setup.replaced { logger.warning("\(command.root)/.development: \(words)") }
      return setup
    } catch {
      throw StartFailure(error)
    }
  }

  private func tokens(_ file: String) throws(StartFailure) -> [Credential] {
    warnIfReadable(file)
    let bytes = try read(file, .tokenFileUnusable, "token file")
    do throws(TokenFileError) {
      let credentials = try TokenFile.parse(bytes, base: command.root)
      // It is UTF-8, or it would have been refused.
      for warning in TokenFile.warnings(of: String(decoding: bytes, as: UTF8.self), credentials) {
        logger.warning("\(file): \(warning)")
      }
      return credentials
    } catch {
      throw StartFailure(.tokenFileUnusable, "\(file): \(error).")
    }
  }

  private func operatorToken(_ file: String, besides credentials: [Credential]) throws(StartFailure) -> String {
    warnIfReadable(file)
    let words = String(decoding: try read(file, .tokenFileUnusable, "operator's token file"), as: UTF8.self)
      .split(whereSeparator: \.isWhitespace)
    guard words.count == 1, words[0].utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw StartFailure(.tokenFileUnusable, "\(file): expected one token, of printable ASCII.")
    }
    let token = String(words[0])
    guard TokenFile.isLongEnough(token) else {
      throw StartFailure(
        .tokenFileUnusable,
        "\(file): a token of fewer than \(TokenFile.tokenBytesMin) characters: it may have been cut off, and would be "
          + "guessed; make one with: openssl rand -hex 32.")
    }
    guard !credentials.contains(where: { ([$0.token] + $0.otherTokens + $0.formerTokens).contains(token) }) else {
      throw StartFailure(.tokenFileUnusable, "\(file): this token may upload; the operator's is one of its own.")
    }
    return token
  }

  private func warnIfReadable(_ file: String) {
    var status = stat()
    if stat(file, &status) == 0, status.st_mode & 0o077 != 0 {
      logger.warning("\(file) can be read by others; chmod 600 it")
    }
  }

  private func read(_ path: String, _ code: StartFailure.Code, _ what: String) throws(StartFailure) -> [UInt8] {
    // A pipe would keep the receiver until something is written into it.
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0, let file = fdopen(descriptor, "r") else {
      throw StartFailure(code, "the \(what) \(path) cannot be read: \(String(cString: strerror(errno))).")
    }
    defer { fclose(file) }
    var kind = stat()
    guard fstat(descriptor, &kind) == 0, kind.st_mode & S_IFMT == S_IFREG else {
      throw StartFailure(code, "the \(what) \(path) is no file. Put it there, or name another one.")
    }
    // One more than is taken, to see whether there is more.
    var bytes = [UInt8](repeating: 0, count: Startup.fileBytesMax + 1)
    let count = fread(&bytes, 1, bytes.count, file)
    guard ferror(file) == 0 else {
      throw StartFailure(code, "the \(what) \(path) cannot be read.")
    }
    guard count <= Startup.fileBytesMax else {
      var status = stat()
      let size = fstat(fileno(file), &status) == 0 && status.st_size > 0 ? "\(status.st_size)" : "more"
      throw StartFailure(
        code, "the \(what) \(path) has \(size) bytes; at most \(Startup.fileBytesMax) are read, so it would be cut.")
    }
    return Array(bytes[..<count])
  }
}

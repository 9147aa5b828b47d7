import Destinations
import Dispatch
import Glibc
import Logging
import MountConfiguration
import Synchronization

/// Where the credentials for S3 come from: the environment, the shared files, or a command that they name. Keys that end to
/// be valid, or that another program replaces in a file, are renewed while files are being uploaded.
final class S3CredentialSource: Sendable {
  /// Keys are renewed so long before their end.
  private static let margin: Int64 = 300
  /// How often the files are checked, and a command that failed is tried again.
  private static let interval: Int64 = 30

  private let profile: String?
  private let environment: [String: String]
  private let logger: Logger
  private let current: Mutex<S3Credentials>
  private let isStopping = Mutex(false)
  /// The server says that the present ones have ended, which only it knows for certain.
  private let areRefused = Mutex(false)
  private let wakeUp = DispatchSemaphore(value: 0)
  /// They may be others one day.
  let renews: Bool
  /// Knows those that there were.
  let mask = CredentialMask()

  /// Takes the credentials that there are now; a profile that is named wins over the environment's keys.
  init(profile: String?, environment: [String: String], logger: Logger) throws(ToolFailure) {
    self.profile = profile
    self.environment = environment
    self.logger = logger
    let own = profile == nil ? try Self.ofEnvironment(environment) : nil
    renews = own == nil
    if let own {
      current = Mutex(own)
    } else {
      try Self.checkPlaces(profile)
      current = Mutex(try Self.ofFiles(profile, environment, logger))
    }
    mask.learn(credentials)
  }

  /// For the next request.
  var credentials: S3Credentials { current.withLock { $0 } }

  /// Begins to renew them. False when the system has no thread left.
  func start() -> Bool {
    !renews || DedicatedThread.start("credentials") { [self] in renewUntilStopped() }
  }

  func stop() {
    isStopping.withLock { $0 = true }
    wakeUp.signal()
  }

  /// The server has refused them as expired: others are fetched at once. May be called from any thread, as often as requests
  /// are refused.
  func refused() {
    let isNew = areRefused.withLock { areRefused in
      defer { areRefused = true }
      return !areRefused
    }
    if isNew { wakeUp.signal() }
  }

  private func renewUntilStopped() {
    // A command is not run again and again for keys that are refused as soon as they come.
    var lastRun = Self.monotonicSeconds - Self.interval
    while true {
      _ = wakeUp.wait(timeout: .now() + .seconds(Int(Self.interval)))
      if isStopping.withLock({ $0 }) { return }
      let areRefused = areRefused.withLock { areRefused in
        defer { areRefused = false }
        return areRefused
      }
      // Without an end they can only change in the files, which costs nothing to read; a command is run when it has to be.
      let expiry = credentials.expiresAtSeconds
      let mayRun = areRefused && Self.monotonicSeconds - lastRun >= Self.interval
      guard mayRun || expiry.map({ $0 - Self.margin <= Int64(time(nil)) }) ?? true else { continue }
      do throws(ToolFailure) {
        let renewed = try Self.ofFiles(profile, environment, logger, runsCommands: mayRun || expiry != nil)
        if mayRun || expiry != nil { lastRun = Self.monotonicSeconds }
        if let renewed { mask.learn(renewed) }
        current.withLock { $0 = renewed ?? $0 }
      } catch {
        logger.warning("the S3 credentials cannot be renewed", metadata: ["reason": "\(error.message)"])
      }
    }
  }

  private static var monotonicSeconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec)
  }

  private static func ofEnvironment(_ environment: [String: String]) throws(ToolFailure) -> S3Credentials? {
    guard let id = environment["AWS_ACCESS_KEY_ID"], let secret = environment["AWS_SECRET_ACCESS_KEY"] else {
      return nil
    }
    do {
      return try S3Credentials(
        accessKeyID: id, secretAccessKey: secret, sessionToken: environment["AWS_SESSION_TOKEN"])
    } catch {
      throw ToolFailure(.destinationUnusable, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: \(error.message)")
    }
  }

  /// The texts of the environment have U+FFFD where it is no UTF-8, and would lead to other files.
  private static func checkPlaces(_ profile: String?) throws(ToolFailure) {
    do {
      try SettingBytes.check(environmentOfAWSFiles: RawArguments.variable, profile: profile)
    } catch {
      throw ToolFailure(.configurationInvalid, error.message)
    }
  }

  private static func ofFiles(
    _ profile: String?, _ environment: [String: String], _ logger: Logger
  ) throws(ToolFailure) -> S3Credentials {
    let found = try ofFiles(profile, environment, logger, runsCommands: true)
    guard let found else {
      throw ToolFailure(
        .destinationUnusable,
        "there are no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to "
          + "~/.aws/credentials (docs/destinations.md)")
    }
    return found
  }

  /// Nil for what only a command would tell that is not to be run, and for files that say nothing.
  private static func ofFiles(
    _ profile: String?, _ environment: [String: String], _ logger: Logger, runsCommands: Bool
  ) throws(ToolFailure) -> S3Credentials? {
    let name = profile ?? environment["AWS_PROFILE"] ?? "default"
    let folder = (environment["HOME"] ?? "") + "/.aws"
    let credentials = try text(environment["AWS_SHARED_CREDENTIALS_FILE"] ?? folder + "/credentials") { _ in true }
    // Most hold no secret, and are readable by everyone.
    let configuration = try text(environment["AWS_CONFIG_FILE"] ?? folder + "/config") {
      $0.contains("aws_secret_access_key")
    }
    do throws(DestinationError) {
      let found = try S3Profile(name, credentialsFile: credentials, configurationFile: configuration)
      guard let found else {
        guard profile ?? environment["AWS_PROFILE"] == nil else {
          throw DestinationError(.invalidCredential, "The AWS files know no profile “\(name)”.")
        }
        return nil
      }
      if let known = found.credentials { return known }
      guard runsCommands, let command = found.credentialProcess else { return nil }
      let output: [UInt8]
      do throws(ToolFailure) {
        output = try CommandOutput.of(command, called: "credential_process")
      } catch {
        throw DestinationError(.invalidCredential, error.message)
      }
      return try S3Credentials(processOutput: output)
    } catch {
      throw ToolFailure(.destinationUnusable, error.message)
    }
  }

  /// A file's text; empty when there is none. One that holds a secret must be private.
  private static func text(_ path: String, isSecret: (String) -> Bool) throws(ToolFailure) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    let text: String
    do throws(SystemError) {
      guard descriptor >= 0 else { throw SystemError.last }
      text = String(decoding: try WholeFile.read(descriptor, bytesMax: 1 << 20), as: UTF8.self)
    } catch {
      if descriptor >= 0 { close(descriptor) }
      guard error.code != ENOENT, error.code != ENOTDIR else { return "" }
      throw ToolFailure(.destinationUnusable, "the file \(path) cannot be read: \(systemMessage(error.code))")
    }
    defer { close(descriptor) }
    if isSecret(text) { try SecretFile.check(descriptor, path, what: "AWS credentials") }
    return text
  }
}

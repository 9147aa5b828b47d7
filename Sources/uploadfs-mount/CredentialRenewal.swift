import Destinations
import Dispatch
import Glibc
import Logging
import Synchronization

/// Renews the credentials that a destination has found by itself while files are uploaded: those that end to be valid, and those
/// that are replaced in a file.
final class CredentialRenewal: Sendable {
  /// Credentials are renewed so long before their end.
  private static let margin: Int64 = 300
  /// How often the files are looked at, and a command that failed is tried again.
  private static let interval: Int64 = 30

  let source: any CredentialSource
  private let logger: Logger
  private let isStopping = Mutex(false)
  /// The server says that the present ones have ended, which only it knows for certain.
  private let areRefused = Mutex(false)
  private let wakeUp = DispatchSemaphore(value: 0)

  init(of source: any CredentialSource, logger: Logger) {
    self.source = source
    self.logger = logger
  }

  /// Begins to renew them. False when the system has no thread left.
  func start() -> Bool {
    !source.renews || DedicatedThread.start("credentials") { [self] in renewUntilStopped() }
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
    // A command is not run again and again for credentials that are refused as soon as they come.
    var lastRun = Self.monotonicSeconds - Self.interval
    while true {
      _ = wakeUp.wait(timeout: .now() + .seconds(Int(Self.interval)))
      if isStopping.withLock({ $0 }) { return }
      let areRefused = areRefused.withLock { areRefused in
        defer { areRefused = false }
        return areRefused
      }
      // Without an end they can only change in the files, which costs nothing to read; a command is run when it has to be.
      let expiry = source.expiresAtSeconds
      let mayRun = areRefused && Self.monotonicSeconds - lastRun >= Self.interval
      guard mayRun || expiry.map({ $0 - Self.margin <= Int64(time(nil)) }) ?? true else { continue }
      let runsCommands = mayRun || expiry != nil
      do throws(DestinationError) {
        try source.renew(runsCommands: runsCommands)
        if runsCommands { lastRun = Self.monotonicSeconds }
      } catch {
        logger.warning(
          "the \(source.name) cannot be renewed", metadata: ["reason": "\(ToolFailure(error).message)"])
      }
    }
  }

  private static var monotonicSeconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec)
  }
}

import ArgumentParser
import Glibc
import MountConfiguration

/// Asks the daemon to deliver what is left and to unmount, and waits for it.
struct UnmountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unmount", abstract: "Deliver what is left, then unmount.")

  @Argument(help: "A mounted uploadfs.")
  var mountPoint: String

  @Option(help: ArgumentHelp("Stop waiting after this long; the daemon goes on.", valueName: "seconds"))
  var timeout: TimeLimit?

  func run() throws {
    try reportingFailures {
      let mount = try MountView(mountPoint)
      var summary = try mount.summary()
      guard let daemon = RunningProcess(summary.process.pid) else {
        throw ToolFailure(
          .notAMount, "the daemon of \(mountPoint) is not visible from here (process \(summary.process.pid))")
      }
      guard kill(daemon.pid, SIGTERM) == 0 else {
        throw ToolFailure(
          .notAMount,
          "the daemon of \(mountPoint) cannot be asked to stop (process \(daemon.pid)): "
            + systemMessage(errno))
      }
      let deadline = timeout.map { ContinuousClock.now + $0.duration }
      var progress = ProgressLine()
      // The process outlives the mount: until it has ended, the spool is still in use.
      while daemon.isRunning {
        if let deadline, ContinuousClock.now >= deadline {
          progress.finish()
          throw ToolFailure(.timedOut, "timed out; the daemon goes on delivering \(summary.remainder)")
        }
        // No poll(2) here: an open file would keep busy what is to be unmounted.
        if let now = try? mount.summary() {
          summary = now
          progress.show { "delivering \(summary.remainder)" }
        }
        usleep(50_000)
      }
      progress.finish()
      return try outcome(summary)
    }
  }

  private func outcome(_ summary: SummaryReading) throws(ToolFailure) -> ExitStatus {
    if let mount = try? MountView(mountPoint), (try? mount.summary().process.pid) == summary.process.pid {
      throw ToolFailure(.internalError, "the daemon has ended, but \(mountPoint) is still mounted")
    }
    guard summary.count("failed") == 0 else { throw ToolFailure(.filesFailed, summary.failureSentence) }
    return .success
  }
}

extension SummaryReading {
  /// What is left to deliver, for people.
  var remainder: String {
    let rate = rateBytesPerSecond > 0 ? " at \(Readable.rate(rateBytesPerSecond))" : ""
    let why = lastError.map { "; \(Readable.line($0.message))" } ?? ""
    return "\(Readable.count(unfinished, "file")), \(Readable.bytes(bytes.pending))\(rate)\(why)"
  }
}

/// Another process, told apart from a later one with the same number by its start time.
private struct RunningProcess {
  let pid: Int32
  private let startTime: String

  /// Nil when there is no such process.
  init?(_ pid: Int32) {
    guard pid > 0, let startTime = RunningProcess.startTime(of: pid) else { return nil }
    self.pid = pid
    self.startTime = startTime
  }

  var isRunning: Bool { RunningProcess.startTime(of: pid) == startTime }

  /// Field 22 of /proc/PID/stat; nil for a process that is gone or a zombie. The name in parentheses may hold anything,
  /// so fields are counted from its end.
  private static func startTime(of pid: Int32) -> String? {
    guard let bytes = try? WholeFile.read("/proc/\(pid)/stat", bytesMax: 1 << 16) else { return nil }
    let fields = String(decoding: bytes, as: UTF8.self).split(separator: ")").last?.split(separator: " ") ?? []
    guard fields.count > 19, fields[0] != "Z", fields[0] != "X" else { return nil }
    return String(fields[19])
  }
}

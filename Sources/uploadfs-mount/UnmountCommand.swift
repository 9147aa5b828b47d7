import ArgumentParser
import CLinux
import Glibc
import MountConfiguration
import UploadEngine
import UploadFS

/// Asks the daemon to deliver what is left and to unmount, and waits for it.
struct UnmountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unmount", abstract: "Deliver what is left, then unmount.",
    discussion: """
      Ends as the daemon does: with \(ExitStatus.filesFailed.rawValue) if files have failed or are held back, and with \
      \(ExitStatus.daemonDied.rawValue) if the daemon was killed or crashed before it was done.
      """)

  @Argument(help: "A mounted uploadfs.")
  var mountPoint: String

  @Option(help: ArgumentHelp("Stop waiting after this long; the daemon goes on.", valueName: "seconds"))
  var timeout: TimeLimit?

  func run() throws {
    try reportingFailures {
      try SettingBytes.check(arguments: RawArguments.all, ofMountAt: mountPoint, flags: ["--timeout"])
      let limit = CommandLimit(timeout, of: mountPoint)
      let mount = try MountView(mountPoint)
      // Where the system shows no mounts at all, nothing says that this is one.
      guard UploadMounts.current.isMounted(at: mountPoint) else { throw mount.isNoMount }
      var summary = try mount.summary()
      // Read twice: before the second time, another process could have got the number of a daemon that has just ended.
      guard let daemon = RunningProcess(summary.process.pid), try mount.summary().process.pid == summary.process.pid
      else {
        throw ToolFailure(
          .notAMount, "the daemon of \(mountPoint) is not visible from here (process \(summary.process.pid))")
      }
      guard daemon.isMeant(by: summary.process) else {
        throw ToolFailure(
          .notAMount,
          "process \(summary.process.pid) is another one here than the daemon of \(mountPoint), as where that runs in a container; "
            + "stop it there, or run: fusermount3 -u \(mountPoint)")
      }
      guard daemon.send(SIGTERM) else {
        throw ToolFailure(
          .notAMount,
          "the daemon of \(mountPoint) cannot be asked to stop (process \(summary.process.pid)): "
            + systemMessage(errno))
      }
      var progress = ProgressLine()
      // The process outlives the mount: until it has ended, the spool is still in use.
      while !daemon.hasEnded(within: min(Self.progressInterval, limit.left ?? Self.progressInterval)) {
        if let left = limit.left, left <= .zero {
          progress.finish()
          throw ToolFailure(.timedOut, "timed out; the daemon goes on delivering \(summary.remainder)")
        }
        // No poll(2) of the mount's own files: an open file would keep busy what is to be unmounted.
        if let now = try? mount.summary() {
          summary = now
          progress.show { "delivering \(summary.remainder)" }
        }
      }
      progress.finish()
      return try outcome(summary)
    }
  }

  /// How long the progress line may stay as it is.
  private static let progressInterval = Duration.milliseconds(200)

  private func outcome(_ summary: SummaryReading) throws(ToolFailure) -> ExitStatus {
    if let mount = try? MountView(mountPoint), (try? mount.summary().process.pid) == summary.process.pid {
      throw ToolFailure(.internalError, "the daemon has ended, but \(mountPoint) is still mounted")
    }
    guard let spool = summary.spool?.path, access("\(spool)/.state", R_OK | X_OK) == 0 else {
      // The daemon is of an earlier version, or its spool is not ours to read.
      guard summary.failedCount == 0 else { throw ToolFailure(.filesFailed, summary.failureSentence) }
      return .success
    }
    guard let end = LastEnd.read(in: spool, of: summary.process.pid) else {
      throw ToolFailure(
        .daemonDied,
        "the daemon of \(mountPoint) has ended without a word: it was killed, or it crashed. What was pending is kept in the spool; "
          + "start it again to deliver it, or release the mount point with: fusermount3 -u \(mountPoint)")
    }
    guard let status = ExitStatus(rawValue: end.exitStatus) else {
      throw ToolFailure(.internalError, "the daemon has ended with \(end.exitStatus)")
    }
    guard status != .success else { return .success }
    // Its status has gone with the mount.
    let next =
      status == .filesFailed
      ? "; a mount with the same spool tries again what has failed, and says why. What was not finished waits for `uploadfs-mount publish MOUNTPOINT PATH`"
      : ""
    throw ToolFailure(status, (end.message ?? "the daemon has ended with \(status.rawValue)") + next)
  }
}

extension SummaryReading {
  /// What is left to deliver, for people.
  var remainder: String {
    let rate = rateBytesPerSecond > 0 && unfinished > 0 ? " at \(Readable.rate(rateBytesPerSecond))" : ""
    let why = lastError.map { "; \(Readable.line($0.message))" } ?? ""
    return "\(Readable.count(unfinished, "file")), \(Readable.bytes(bytes.pending))\(rate)\(why)"
  }
}

/// Another process, never mistaken for a later one of the same number.
private struct RunningProcess: ~Copyable {
  private let descriptor: Int32
  private let pid: Int32

  /// Nil when there is no such process.
  init?(_ pid: Int32) {
    let opened = pid > 0 ? uploadfs_pidfd_open(pid) : -1
    guard opened >= 0 else { return nil }
    descriptor = opened
    self.pid = pid
  }

  /// Whether a summary that was read after this was opened means this process. In another pid namespace than the daemon's its number is that
  /// of any other process, also of one that serves another mount. What the system does not say counts as no.
  func isMeant(by word: SummaryReading.Process) -> Bool {
    guard let namespace = word.pidNamespace else { return isProgram("uploadfs-mount") }
    return namespace == PIDNamespace.own
  }

  /// Of a daemon that does not know its namespace: whether the process runs a program of this name, or of the caller's.
  private func isProgram(_ name: String) -> Bool {
    guard let text = try? WholeFile.read("/proc/\(pid)/comm", bytesMax: 64) else { return false }
    let own = try? WholeFile.read("/proc/self/comm", bytesMax: 64)
    return text == Array("\(name)\n".utf8) || text == own
  }

  deinit { close(descriptor) }

  /// False, with errno set, when the signal may not be sent.
  func send(_ signal: Int32) -> Bool { uploadfs_pidfd_send_signal(descriptor, signal) == 0 }

  /// Whether the process has ended, after waiting for that at most so long.
  func hasEnded(within limit: Duration) -> Bool {
    var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    let milliseconds = max(0, limit / .milliseconds(1)).rounded(.up)
    return poll(&waited, 1, Int32(clamping: Int64(min(milliseconds, 60_000)))) > 0
  }
}

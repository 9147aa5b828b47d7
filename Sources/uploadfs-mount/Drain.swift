import Dispatch
import Glibc
import MountConfiguration
import Synchronization
import UploadEngine
import UploadFS

/// Ends a mount in order: no new writers, deliver what is left, unmount.
final class Drain: Sendable {
  private let filesystem: Filesystem
  private let engine: UploadEngine
  private let mount: FuseMount
  private let timeout: Duration?
  private let asked = DispatchSemaphore(value: 0)
  private let reason = Mutex<String?>(nil)

  init(filesystem: Filesystem, engine: UploadEngine, mount: FuseMount, timeout: Duration?) {
    self.filesystem = filesystem
    self.engine = engine
    self.mount = mount
    self.timeout = timeout
  }

  /// Asks for the end; the first reason counts.
  func ask(reason text: String) {
    let isFirst = reason.withLock { reason in
      guard reason == nil else { return false }
      reason = text
      return true
    }
    if isFirst { asked.signal() }
  }

  /// Waits until asked, then delivers and unmounts. Blocks; runs on a thread of its own.
  func runWhenAsked() -> ExitStatus {
    asked.wait()
    let reason = reason.withLock { $0 } ?? ""
    ServiceNotification.stopping(status: "delivering what is left")
    filesystem.stopAcceptingWriters()
    engine.beginDraining()
    let isDelivered = deliver(reason)
    unmount()
    return outcome(isDelivered)
  }

  /// The way out for whoever cannot wait: nothing stays mounted, and everything pending lies in the spool with its resume
  /// records, which are durable before they count.
  func leaveAtOnce() {
    let isDelivered = isDelivered
    StandardError.write("\nuploadfs-mount: left at once; what is pending is kept in the spool\n")
    mount.unmountLazily()
    _exit(isDelivered ? ExitStatus.success.rawValue : ExitStatus.leftWithPending.rawValue)
  }

  private var isDelivered: Bool { filesystem.writableOpenCount == 0 && engine.isDrained }

  /// True when everything was delivered, false when the time was over.
  private func deliver(_ reason: String) -> Bool {
    let deadline = timeout.map { ContinuousClock.now + $0 }
    var progress = ProgressLine()
    defer { progress.finish() }
    while !isDelivered {
      if let deadline, ContinuousClock.now >= deadline { return false }
      progress.show { "\(reason): delivering \(remainder); again to leave at once, nothing is lost" }
      usleep(50_000)
    }
    return true
  }

  private var remainder: String {
    let summary = engine.summary()
    let files = [FileStatus.State.writing, .queued, .uploading, .waiting].reduce(0) {
      $0 + (summary.filesByState[$1] ?? 0)
    }
    let rate = summary.bytesPerSecond > 0 ? " at \(Readable.rate(summary.bytesPerSecond))" : ""
    let writers = filesystem.writableOpenCount
    let open = writers > 0 ? ", \(Readable.count(writers, "file")) still open" : ""
    let why = summary.lastFailure.map { "; \(Readable.line($0.message))" } ?? ""
    return "\(Readable.count(files, "file")), \(Readable.bytes(summary.pendingBytes))\(rate)\(open)\(why)"
  }

  /// Somebody may still stand in the mount: a moment is granted, then the mount is taken out of the tree and goes when
  /// its last user does.
  private func unmount() {
    let deadline = ContinuousClock.now + .seconds(5)
    while !mount.unmount() {
      guard ContinuousClock.now < deadline else {
        mount.unmountLazily()
        return
      }
      usleep(100_000)
    }
  }

  private func outcome(_ isDelivered: Bool) -> ExitStatus {
    let summary = engine.summary()
    let failed = summary.filesByState[.failed] ?? 0
    if failed > 0 {
      let names = summary.failedPaths.prefix(10).map { Readable.line($0.displayText) }.joined(separator: ", ")
      StandardError.write("uploadfs-mount: \(Readable.count(failed, "file")) failed, kept in the spool: \(names)\n")
    }
    guard isDelivered else {
      StandardError.write("uploadfs-mount: timed out with \(remainder); all kept in the spool\n")
      return .timedOut
    }
    return failed > 0 ? .filesFailed : .success
  }
}

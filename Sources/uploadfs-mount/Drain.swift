import Dispatch
import FileModel
import Glibc
import LogText
import MountConfiguration
import Synchronization
import UploadEngine
import UploadFS

/// Ends a mount in order: no new writers, deliver what is left, unmount.
final class Drain: Sendable {
  private let filesystem: Filesystem
  private let engines: EngineGroup
  private let mount: FuseMount
  private let timeout: Duration?
  private let spool: String
  private let asked = DispatchSemaphore(value: 0)
  private let unmounted = DispatchSemaphore(value: 0)
  /// A writer or a delivery was the last one for the moment.
  private let news = DispatchSemaphore(value: 0)
  private let progress = Mutex(Progress())

  private struct Progress {
    var isAsked = false
    /// False once the kernel has let go of the mount.
    var isMounted = true
  }

  init(filesystem: Filesystem, engines: EngineGroup, mount: FuseMount, timeout: Duration?, spool: String) {
    self.filesystem = filesystem
    self.engines = engines
    self.mount = mount
    self.timeout = timeout
    self.spool = spool
  }

  /// Asks for the end. Once is enough.
  func ask() {
    let isFirst = progress.withLock { progress in
      defer { progress.isAsked = true }
      return !progress.isAsked
    }
    if isFirst { asked.signal() }
  }

  /// The kernel has let go of the mount, because the daemon wanted it or another program did.
  func noteUnmounted() {
    progress.withLock { $0.isMounted = false }
    unmounted.signal()
    ask()
  }

  /// Waits for ``noteUnmounted()``, once; false when the time is over.
  func waitUntilUnmounted(within limit: DispatchTimeInterval) -> Bool {
    unmounted.wait(timeout: .now() + limit) == .success
  }

  /// Waits until asked, then delivers and unmounts. Blocks; runs on a thread of its own.
  func runWhenAsked() -> ExitStatus {
    asked.wait()
    ServiceNotification.stopping(status: "delivering what is left")
    filesystem.stopAcceptingWriters { [news] in news.signal() }
    engines.beginDraining { [news] in news.signal() }
    let isDelivered = deliver()
    mount.endWaitingCalls()
    if isMounted { unmount() }
    return outcome(isDelivered)
  }

  /// The way out for a caller that cannot wait: nothing stays mounted, and everything pending lies in the spool, on its disk, with its
  /// resume records, which are durable before they count.
  func leaveAtOnce() {
    let status = isDelivered ? ExitStatus.success : .leftWithPending
    Output.standardError.endShowing()
    note(status, "left at once; what is pending is kept in the spool")
    mount.endWaitingCalls()
    if isMounted { mount.unmountLazily() }
    filesystem.endFlushing(within: 5)
    CommandOutput.endAll()
    Output.flush()
    _exit(status.rawValue)
  }

  private var isMounted: Bool { progress.withLock { $0.isMounted } }

  private var isDelivered: Bool { filesystem.writableOpenCount == 0 && engines.isDrained }

  /// True when everything was delivered, false when the time was over.
  private func deliver() -> Bool {
    let deadline = timeout.map { ContinuousClock.now + $0 }
    var line = ProgressLine()
    defer { line.finish() }
    while !isDelivered {
      let left = deadline.map { $0 - ContinuousClock.now } ?? .seconds(60)
      guard left > .zero else { return false }
      line.show { "delivering \(remainder); a second signal leaves at once and loses nothing" }
      let pause = min(left, line.pause).components
      _ = news.wait(timeout: .now() + Double(pause.seconds) + Double(pause.attoseconds) / 1e18)
    }
    return true
  }

  private var remainder: String {
    let summary = engines.summary()
    let files = [FileStatus.State.writing, .queued, .uploading, .waiting].reduce(0) {
      $0 + (summary.filesByState[$1] ?? 0)
    }
    let rate = summary.bytesPerSecond > 0 ? " at \(Readable.rate(summary.bytesPerSecond))" : ""
    let writers = filesystem.writableOpenCount
    let open = writers > 0 ? ", \(Readable.count(writers, "file")) still open" : ""
    let why = summary.shownFailure.map { "; \(Readable.line($0.message))" } ?? ""
    return "\(Readable.count(files, "file")), \(Readable.bytes(summary.pendingBytes))\(rate)\(open)\(why)"
  }

  /// A process may still use the mount. It gets a moment; then the mount is taken out of the tree, and goes with its last
  /// user. The kernel does not say when that is, so it is tried again and again.
  private func unmount() {
    let deadline = ContinuousClock.now + .seconds(5)
    while isMounted, !mount.unmount() {
      guard ContinuousClock.now < deadline else {
        mount.unmountLazily()
        return
      }
      usleep(100_000)
    }
  }

  private func outcome(_ isDelivered: Bool) -> ExitStatus {
    let summary = engines.summary()
    let failed = summary.undeliveredCount
    var status = ExitStatus.success
    var messages: [String] = []
    if failed > 0 {
      let names = summary.failedPaths.prefix(10).map { Readable.line($0.displayText) }.joined(separator: ", ")
      messages.append("\(Readable.count(failed, "file")) failed or held back, kept in the spool: \(names)")
      status = .filesFailed
    }
    if !isDelivered {
      messages.append("timed out with \(remainder); all kept in the spool")
      status = .timedOut
    }
    note(status, messages.isEmpty ? nil : messages.joined(separator: "; "))
    return status
  }

  /// Says how the daemon ends: here, and to `unmount`.
  private func note(_ status: ExitStatus, _ message: String?) {
    if let message { Output.standardError.put("uploadfs-mount: \(message)\n") }
    LastEnd(pid: getpid(), exitStatus: status.rawValue, message: message).write(in: spool)
  }
}

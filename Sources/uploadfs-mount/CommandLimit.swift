import Glibc
import LogText
import MountConfiguration
import Synchronization
import Threads

/// How long a command may take, whatever the daemon does: one that is stopped, or hangs, answers no call into its mount, and such a
/// call does not return.
final class CommandLimit: Sendable {
  /// When the command gives up by itself, and says how far things are; nil for never.
  let deadline: ContinuousClock.Instant?

  /// The daemon has answered all that it was asked.
  private let isOver = Atomic<Bool>(false)

  /// For a call that does not return: by then the command has given up by itself.
  private static let grace: Duration = .milliseconds(500)

  /// Begins now.
  init(_ limit: TimeLimit?, of mountPoint: String) {
    deadline = limit.map { ContinuousClock.now + $0.duration }
    guard let deadline else { return }
    // Without a thread a limit that is not kept is better than a command that does nothing.
    _ = DedicatedThread.start("limit") { [self] in end(at: deadline + Self.grace, mountPoint) }
  }

  /// What is left to do does not concern the daemon.
  func finish() { isOver.store(true, ordering: .relaxed) }

  /// How much is left of it; negative when it is over, nil where there is none.
  var left: Duration? { deadline.map { $0 - ContinuousClock.now } }

  private func end(at deadline: ContinuousClock.Instant, _ mountPoint: String) {
    while true {
      let left = deadline - .now
      guard left > .zero else { break }
      let pause = min(left, .seconds(3600)).components
      var time = timespec(tv_sec: Int(pause.seconds), tv_nsec: Int(pause.attoseconds / 1_000_000_000))
      nanosleep(&time, nil)
    }
    guard !isOver.load(ordering: .relaxed) else { return }
    Output.standardError.put(
      "uploadfs-mount: timed out: the daemon of \(mountPoint) does not answer; is it stopped (“T” in ps), or does its disk hang?\n"
    )
    Output.flush()
    _exit(ExitStatus.timedOut.rawValue)
  }
}

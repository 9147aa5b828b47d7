import Dispatch
import LogText
import Threads

/// Has a service manager that asks for it know that the daemon answers (`WatchdogSec=`): what the engine and the filesystem hold is asked for
/// first, so that a lock that is never released again ends the process, and the next one goes on from the spool. The disk is not asked: one
/// that hangs is no reason to end the daemon, which would hang at it again.
final class Watchdog: Sendable {
  private let pause: Duration
  private let end = DispatchSemaphore(value: 0)

  /// Nil where no service manager waits for it.
  init?() {
    guard let pause = ServiceNotification.watchdogPause else { return nil }
    self.pause = pause
  }

  /// Asks `answers` again and again, on a thread of its own. False where the system has no thread left.
  func start(_ answers: @escaping @Sendable () -> Void) -> Bool {
    let (seconds, attoseconds) = pause.components
    let interval = DispatchTimeInterval.microseconds(Int(seconds) * 1_000_000 + Int(attoseconds / 1_000_000_000_000))
    return DedicatedThread.start("watchdog") { [end] in
      while end.wait(timeout: .now() + interval) == .timedOut {
        answers()
        ServiceNotification.alive()
      }
    }
  }

  /// Ends the thread.
  func stop() { end.signal() }
}

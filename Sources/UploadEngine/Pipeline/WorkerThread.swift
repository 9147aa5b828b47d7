import Glibc
import Synchronization

/// A thread of its own for blocking work, which must never run on Swift's cooperative pool.
final class WorkerThread: Sendable {
  private let thread: pthread_t
  private let isJoined = Atomic<Bool>(false)

  /// Starts the thread. It inherits the signal mask, so signals are blocked before the first one is started.
  init(_ run: @escaping @Sendable () -> Void) {
    var thread = pthread_t()
    // The new thread takes this reference over.
    let body = Unmanaged.passRetained(ThreadBody(run))
    let error = pthread_create(&thread, nil, runThreadBody, body.toOpaque())
    // Threads are started once, with the daemon; without them it could only pretend to work.
    precondition(error == 0, "cannot start a thread (errno \(error)): raise the limit on processes")
    self.thread = thread
  }

  /// Waits for the thread's end. Called by the thread itself (it dropped the last reference to its owner) it cannot
  /// wait: the thread then ends by itself.
  func join() {
    guard !isJoined.exchange(true, ordering: .acquiringAndReleasing) else { return }
    if pthread_equal(pthread_self(), thread) != 0 {
      pthread_detach(thread)
    } else {
      pthread_join(thread, nil)
    }
  }
}

private final class ThreadBody: Sendable {
  let run: @Sendable () -> Void
  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// A global function, so that C gets a closure formed outside of any isolation.
private func runThreadBody(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument else { return nil }
  Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run()
  return nil
}

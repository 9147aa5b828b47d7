import CLinux
import Glibc
import Synchronization

/// A thread of its own, for blocking work, which must never run on Swift's cooperative pool. Its name and role are stated where it
/// is started, and can be seen in `/proc/PID/task`.
public final class NamedThread: Sendable {
  private let thread: pthread_t
  private let isJoined = Atomic<Bool>(false)

  /// Starts the thread; nil where the system has none left. It inherits the signal mask, so signals are blocked before the first one
  /// is started. Linux keeps 15 bytes of the name.
  public init?(_ name: String, _ role: ThreadRole, _ run: @escaping @Sendable () -> Void) {
    var thread = pthread_t()
    // The new thread takes this reference over, or it comes back here when there is no thread.
    let body = Unmanaged.passRetained(ThreadBody(name, role, run))
    guard pthread_create(&thread, nil, runThreadBody, body.toOpaque()) == 0 else {
      body.release()
      return nil
    }
    self.thread = thread
  }

  /// Waits for the thread's end. Called by the thread itself (it dropped the last reference to its owner) it cannot
  /// wait: the thread then ends by itself.
  public func join() {
    guard !isJoined.exchange(true, ordering: .acquiringAndReleasing) else { return }
    if pthread_equal(pthread_self(), thread) != 0 {
      pthread_detach(thread)
    } else {
      pthread_join(thread, nil)
    }
  }

  /// Lets the thread end by itself: no ``join()`` follows.
  public func detach() {
    guard !isJoined.exchange(true, ordering: .acquiringAndReleasing) else { return }
    pthread_detach(thread)
  }
}

private final class ThreadBody: Sendable {
  private let name: String
  private let role: ThreadRole
  private let body: @Sendable () -> Void

  init(_ name: String, _ role: ThreadRole, _ body: @escaping @Sendable () -> Void) {
    self.name = name
    self.role = role
    self.body = body
  }

  func run() {
    uploadfs_name_thread(name)
    // Where it is refused the thread works all the same, and its writers have the processor less for themselves.
    if let steps = role.steps { uploadfs_lower_thread(steps) }
    body()
  }
}

/// A global function, so that C gets a closure formed outside of any isolation.
private func runThreadBody(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument else { return nil }
  Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run()
  return nil
}

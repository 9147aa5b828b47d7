import Threads

/// A thread that the engine cannot be without.
final class WorkerThread: Sendable {
  private let thread: NamedThread

  /// Starts the thread. Threads are started once, with the daemon; without them it could only pretend to work.
  init(_ name: String, _ role: ThreadRole, _ run: @escaping @Sendable () -> Void) {
    guard let thread = NamedThread(name, role, run) else {
      preconditionFailure("cannot start a thread : raise the limit on processes")
    }
    self.thread = thread
  }

  /// Waits for the thread's end, unless it is this one.
  func join() { thread.join() }
}

/// Starts a thread; nil where the system has none left, as in the middle of a run, when other programs have used them up. Tests have one of
/// their own.
public typealias ThreadStart =
  @Sendable (_ name: String, _ role: ThreadRole, _ run: @escaping @Sendable () -> Void) -> NamedThread?

/// A thread that a program cannot be without.
public final class WorkerThread: Sendable {
  private let thread: NamedThread

  /// Starts the thread. Only for those that are started with the daemon, which could only pretend to work without them; what is started
  /// later does without (``ThreadStart``).
  public init(_ name: String, _ role: ThreadRole, _ run: @escaping @Sendable () -> Void) {
    guard let thread = NamedThread(name, role, run) else {
      preconditionFailure("cannot start a thread : raise the limit on processes")
    }
    self.thread = thread
  }

  /// Waits for the thread's end, unless it is this one.
  public func join() { thread.join() }
}

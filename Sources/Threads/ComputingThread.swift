/// A lowered thread that computes for an answering one, which waits. So what takes locks and what takes the processor are two
/// threads, of which only the second is lowered.
public final class ComputingThread: Sendable {
  private let desk: Desk
  private let thread: NamedThread

  /// Starts the thread; nil where the system has none left.
  public init?(_ name: String, _ role: ThreadRole) {
    let desk = Desk()
    guard let thread = NamedThread(name, role, { desk.serve() }) else { return nil }
    self.desk = desk
    self.thread = thread
  }

  deinit {
    desk.end()
    thread.join()
  }

  /// Has it done there, and waits. Only one thread calls this.
  public func run<Result>(_ body: () -> Result) -> Result {
    var result: Result?
    desk.hand { result = body() }
    guard let result else { preconditionFailure("the work was handed over and has not run") }
    return result
  }

  /// Where the two meet. Bells order their turns: while one works the other one sleeps.
  ///
  /// - Note: `@unchecked Sendable` is sound for that reason.
  private final class Desk: @unchecked Sendable {
    private let arrival = ThreadWaker()
    private let answer = ThreadWaker()
    private var work: (() -> Void)?
    private var isOver = false

    func hand(_ body: () -> Void) {
      withoutActuallyEscaping(body) { body in
        work = body
        arrival.ring()
        answer.wait()
      }
    }

    func serve() {
      while true {
        arrival.wait()
        if isOver { return }
        perform()
        answer.ring()
      }
    }

    /// A function of its own: what holds the closure, whose context belongs to the one that waits, is gone when it returns.
    @inline(never)
    private func perform() {
      work?()
      work = nil
    }

    func end() {
      isOver = true
      arrival.ring()
    }
  }
}

import CLinux
import Glibc
import Synchronization
import Threads

/// Threads of the tool's own, for blocking calls that must not sit on a shared pool.
enum DedicatedThread {
  /// Starts a thread that ends with its body. False when the system has no thread left.
  static func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
    guard let thread = NamedThread(name, .answering, body) else { return false }
    thread.detach()
    return true
  }
}

/// Signals as events on one thread. A handler could hardly call anything; sigwait(3) can.
enum Signals {
  /// The signals that end a mount, but for those that were ignored when the program was started (nohup(1), cron): these stay so. One that
  /// is blocked would be heard of all the same.
  private static let watched = [SIGINT, SIGTERM, SIGHUP].filter { uploadfs_ignores_signal($0) == 0 }

  /// Blocks the watched signals in this thread and in all that it starts from now on, and ignores SIGPIPE: a receiver
  /// or terminal that goes away is an error of one call, not the end of the daemon. So is SIGXFSZ: a write beyond the
  /// daemon's own limit for files (RLIMIT_FSIZE) fails with EFBIG. SIGUSR1, which tried files again in earlier versions, is
  /// ignored: scripts that still send it must not end the mount. Must run before any thread starts.
  static func block() {
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    signal(SIGUSR1, SIG_IGN)
    var set = watchedSet()
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }

  /// Set once a thread takes them.
  private static let isWatched = Atomic(false)

  /// A stopping signal has come before the thread that takes them is there.
  static var isWaiting: Bool {
    guard !isWatched.load(ordering: .acquiring) else { return false }
    var set = sigset_t()
    return sigpending(&set) == 0 && watched.contains { sigismember(&set, $0) == 1 }
  }

  /// Has a stopping signal wait for the end of `body`, as it does all the time in a mount; elsewhere it ends the process then.
  static func holding<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
    var set = watchedSet()
    var before = sigset_t()
    pthread_sigmask(SIG_BLOCK, &set, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    return try body()
  }

  /// Waits that long; false at once when a stopping signal comes or has come, which ``watch(stop:)`` still hears of.
  static func pause(_ duration: Duration) -> Bool {
    var set = watchedSet()
    let (seconds, attoseconds) = duration.components
    var time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
    let number = sigtimedwait(&set, nil, &time)
    guard number > 0 else { return true }
    kill(getpid(), number)
    return false
  }

  /// Calls `stop` on a thread of its own for each stopping signal.
  static func watch(stop: @escaping @Sendable (StopArrivals.Arrival) -> Void) -> Bool {
    isWatched.store(true, ordering: .releasing)
    return DedicatedThread.start("signals") {
      var set = watchedSet()
      var arrivals = StopArrivals()
      while true {
        var number: Int32 = 0
        guard sigwait(&set, &number) == 0 else { continue }
        stop(arrivals.arrived(isHangUp: number == SIGHUP, at: .now))
      }
    }
  }

  private static func watchedSet() -> sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    for number in watched { sigaddset(&set, number) }
    return set
  }
}

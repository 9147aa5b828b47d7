import Dispatch
import Glibc

/// How many threads the system gives this process (ulimit -u, TasksMax=, pids.max). Where one cannot be made later, libraries end the process
/// without a word.
public enum ThreadRoom {
  /// How many more of `wanted` can be made; they have ended when this returns.
  public static func count(upTo wanted: Int) -> Int {
    let gate = DispatchSemaphore(value: 0)
    var threads: [NamedThread] = []
    while threads.count < wanted, let thread = NamedThread("room", .answering, { gate.wait() }) {
      threads.append(thread)
    }
    for _ in threads { gate.signal() }
    for thread in threads { thread.join() }
    return threads.count
  }

  /// What is wrong where there are fewer, with the number that is needed; nil where there are enough.
  /// - Parameter perProcessor: Those of pools that have as many threads as the machine has processors.
  public static func shortageMessage(of fixed: Int, perProcessor: Int) -> String? {
    let needed = fixed + perProcessor * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    let found = count(upTo: needed)
    guard found < needed else { return nil }
    return
      "the system gives this process \(found) more threads, and it needs \(needed) (ulimit -u, TasksMax=, pids.max)"
  }
}

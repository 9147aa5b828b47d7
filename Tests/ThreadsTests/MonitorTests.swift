import Glibc
import Synchronization
import Testing
import Threads

/// Threads that wait for one another; a deadline ends those that are not woken.
@Suite struct MonitorTests {
  private struct Turns {
    var waiting = 0
    var isOver = false
  }

  /// Waits until it is over; false when the deadline had to end it.
  private static func waits(for monitor: Monitor<Turns>, deadline: Int64) -> Bool {
    monitor.wait { turns in
      guard monotonicNanoseconds() < deadline else { return .done(false) }
      if turns.isOver { return .done(true) }
      turns.waiting += 1
      return .againBy(nanoseconds: deadline)
    }
  }

  /// Starts threads that wait, and returns once each has looked: from then on the lock is free only while they wait.
  private static func start(_ count: Int, on monitor: Monitor<Turns>, woken: Atomic<Int>.Shared) -> [WorkerThread] {
    let deadline = monotonicNanoseconds() + 20_000_000_000
    let threads = (0..<count).map { _ in
      WorkerThread("test", .answering) {
        if waits(for: monitor, deadline: deadline) { woken.value.add(1, ordering: .relaxed) }
      }
    }
    while monitor.withLock({ turns, _ in turns.waiting }) < count, monotonicNanoseconds() < deadline { sched_yield() }
    return threads
  }

  @Test func waitingThread_isWokenByASignal_andSeesWhatTheOtherWrote() {
    let monitor = Monitor(Turns())
    let woken = Atomic<Int>.Shared()
    let threads = Self.start(1, on: monitor, woken: woken)
    monitor.withLock { turns, signal in
      turns.isOver = true
      signal.signal()
    }
    for thread in threads { thread.join() }
    #expect(woken.value.load(ordering: .relaxed) == 1)
  }

  @Test func everyWaitingThread_isWokenByABroadcast() {
    let monitor = Monitor(Turns())
    let woken = Atomic<Int>.Shared()
    let threads = Self.start(3, on: monitor, woken: woken)
    monitor.withLock { turns, signal in
      turns.isOver = true
      signal.broadcast()
    }
    for thread in threads { thread.join() }
    #expect(woken.value.load(ordering: .relaxed) == 3)
  }

  @Test func changesByManyThreads_areNotLost() {
    let monitor = Monitor(0)
    let threads = (0..<4).map { _ in
      WorkerThread("test", .answering) { for _ in 0..<100_000 { monitor.withLock { count, _ in count += 1 } } }
    }
    for thread in threads { thread.join() }
    #expect(monitor.withLock { count, _ in count } == 400_000)
  }

  /// It looks before and after, and perhaps for no reason; by a clock that began at another time it looks without end.
  @Test func waitWithADeadline_endsByItself_withoutLookingAllTheTime() {
    let monitor = Monitor(0)
    let deadline = monotonicNanoseconds() + 20_000_000
    let looks = monitor.wait { looks in
      looks += 1
      return monotonicNanoseconds() < deadline ? .againBy(nanoseconds: deadline) : .done(looks)
    }
    #expect(looks >= 1 && looks < 100)
  }
}

extension Atomic<Int> {
  /// A counter that threads share.
  fileprivate final class Shared: Sendable {
    let value = Atomic<Int>(0)
  }
}

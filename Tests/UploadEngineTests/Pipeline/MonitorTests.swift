import Synchronization
import Testing

@testable import UploadEngine

@Suite struct MonitorTests {
  /// Regression: waiting inside an `inout` access let the optimiser keep the state in registers, and a release build
  /// never saw what the other thread had written. It can only fail in a release build.
  @Test func waitingThread_seesWhatOthersWrite() {
    let monitor = Monitor((items: [Int](), isClosed: false))
    let sum = Atomic<Int>(0)
    let reader = WorkerThread {
      while let item = Self.next(of: monitor) { sum.add(item, ordering: .relaxed) }
    }
    for item in 1...1000 {
      monitor.withLock { state, signal in
        state.items.append(item)
        signal.signal()
      }
    }
    monitor.withLock { state, signal in
      state.isClosed = true
      signal.signal()
    }
    reader.join()
    #expect(sum.load(ordering: .relaxed) == 500_500)
  }

  private static func next(of monitor: Monitor<(items: [Int], isClosed: Bool)>) -> Int? {
    monitor.wait { state in
      if let item = state.items.popLast() { return .done(item) }
      return state.isClosed ? .done(nil) : .again
    }
  }

  @Test func waitWithADeadline_endsByItself() {
    let monitor = Monitor(0)
    let deadline = monotonicNanoseconds() + 1_000_000
    let looks = monitor.wait { looks in
      looks += 1
      return monotonicNanoseconds() < deadline ? .againBy(nanoseconds: deadline) : .done(looks)
    }
    #expect(looks >= 2 || monotonicNanoseconds() >= deadline)
  }
}

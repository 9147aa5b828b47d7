import Dispatch
import Foundation
import Synchronization

/// The threads on which tests wait for their actors.
///
/// A test waits for system calls that another process makes. On the cooperative pool, which has one thread for each core, that
/// would keep the tests of every other suite of the bundle from running; and a hung mount would hang them all. As a task
/// executor these threads keep the task's local values, so that an expectation that fails is still attributed to its test.
final class FilesystemThreads: TaskExecutor {
  /// Tests that run at the same time: each has a mount, and two or more processes.
  private static let count = 4
  static let shared = FilesystemThreads()

  private let jobs = Mutex<[UnownedJob]>([])
  private let waiting = DispatchSemaphore(value: 0)

  private init() {
    for _ in 0..<Self.count {
      Thread.detachNewThread { [self] in
        while true {
          waiting.wait()
          let job = jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
          job?.runSynchronously(on: asUnownedTaskExecutor())
        }
      }
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
    waiting.signal()
  }
}

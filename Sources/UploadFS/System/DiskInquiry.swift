import CLinux
import Glibc
import Threads

/// Asks the spool's disk for threads that have to answer whatever becomes of it: what is said of captures is wanted most while a disk
/// hangs. One thread asks, one question after the other; a thread without an answer for a moment uses what was known before, and as
/// long as that question has no answer so does every caller at once.
final class DiskInquiry: Sendable {
  private let queue = Queue()

  deinit { queue.close() }

  /// The answer; nil where the disk gives none within so many milliseconds, or there is no thread.
  func ask<Answer: Sendable>(within milliseconds: Int = 500, _ question: @escaping @Sendable () -> Answer) -> Answer? {
    let asked = Asked(question)
    guard queue.run(asked, milliseconds: milliseconds) else { return nil }
    return asked.answer
  }

  private class Job: @unchecked Sendable {
    // Sound because it is touched with the queue's lock held only, or by the thread that runs it.
    var isDone = false
    var isGivenUp = false
    func run() {}
  }

  private final class Asked<Answer: Sendable>: Job, @unchecked Sendable {
    // Sound because it is written before, and read after the job is said to be done, under the queue's lock.
    private(set) var answer: Answer?
    private let question: @Sendable () -> Answer

    init(_ question: @escaping @Sendable () -> Answer) { self.question = question }

    override func run() { answer = question() }
  }

  private final class Queue: @unchecked Sendable {
    // Sound because everything below the lock is touched only while it is held, and the C objects stay at one address until no thread
    // can reach this object any more.
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let arrival: UnsafeMutablePointer<pthread_cond_t>
    private let answered: UnsafeMutablePointer<pthread_cond_t>
    private var jobs: [Job] = []
    private var hasThread = false
    /// The question that is being asked has been given up.
    private var isStuck = false
    private var isClosed = false

    init() {
      lock = .allocate(capacity: 1)
      arrival = .allocate(capacity: 1)
      answered = .allocate(capacity: 1)
      pthread_mutex_init(lock, nil)
      var attributes = pthread_condattr_t()
      pthread_condattr_init(&attributes)
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
      pthread_cond_init(arrival, nil)
      pthread_cond_init(answered, &attributes)
      pthread_condattr_destroy(&attributes)
    }

    deinit {
      pthread_cond_destroy(answered)
      pthread_cond_destroy(arrival)
      pthread_mutex_destroy(lock)
      answered.deallocate()
      arrival.deallocate()
      lock.deallocate()
    }

    /// False where the job was not done in time; then its answer is dropped.
    func run(_ job: Job, milliseconds: Int) -> Bool {
      var end = timespec()
      clock_gettime(CLOCK_MONOTONIC, &end)
      end.tv_sec += milliseconds / 1000
      end.tv_nsec += milliseconds % 1000 * 1_000_000
      if end.tv_nsec >= 1_000_000_000 { (end.tv_sec, end.tv_nsec) = (end.tv_sec + 1, end.tv_nsec - 1_000_000_000) }
      pthread_mutex_lock(lock)
      defer { pthread_mutex_unlock(lock) }
      guard !isStuck, !isClosed, hasThread || startThread() else { return false }
      jobs.append(job)
      unlocked { pthread_cond_signal(arrival) }
      while !job.isDone {
        guard pthread_cond_timedwait(answered, lock, &end) == ETIMEDOUT, !job.isDone else { continue }
        job.isGivenUp = true
        isStuck = true
        return false
      }
      return true
    }

    func close() {
      pthread_mutex_lock(lock)
      isClosed = true
      pthread_cond_signal(arrival)
      pthread_mutex_unlock(lock)
    }

    private func startThread() -> Bool {
      guard let thread = NamedThread("disk-inquiry", .answering, { [self] in serve() }) else { return false }
      thread.detach()
      hasThread = true
      return true
    }

    private func serve() {
      pthread_mutex_lock(lock)
      defer { pthread_mutex_unlock(lock) }
      while !isClosed {
        guard !jobs.isEmpty else {
          pthread_cond_wait(arrival, lock)
          continue
        }
        let job = jobs.removeFirst()
        guard !job.isGivenUp else { continue }
        unlocked { job.run() }
        job.isDone = true
        isStuck = false
        unlocked { pthread_cond_broadcast(answered) }
      }
    }

    /// Also for signals: a thread that is woken while the lock is held sleeps at once again.
    private func unlocked<Result>(_ body: () -> Result) {
      pthread_mutex_unlock(lock)
      defer { pthread_mutex_lock(lock) }
      _ = body()
    }
  }
}

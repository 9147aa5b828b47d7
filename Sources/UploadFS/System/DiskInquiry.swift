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

  /// Threads that ask wait for the monitor, and the one that answers for the bell, so that a question wakes no other one of them.
  private final class Queue: Sendable {
    private struct State {
      var jobs: [Job] = []
      var hasThread = false
      /// The question that is being asked has been given up.
      var isStuck = false
      var isClosed = false
    }

    private let state = Monitor(State())
    private let arrival = ThreadWaker()

    /// False where the job was not done in time; then its answer is dropped.
    func run(_ job: Job, milliseconds: Int) -> Bool {
      let end = monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
      let isTaken = state.withLock { state, _ in
        guard !state.isStuck, !state.isClosed, state.hasThread || startThread(&state) else { return false }
        state.jobs.append(job)
        return true
      }
      guard isTaken else { return false }
      arrival.ring()
      return state.wait { state in
        if job.isDone { return .done(true) }
        guard monotonicNanoseconds() >= end else { return .againBy(nanoseconds: end) }
        job.isGivenUp = true
        state.isStuck = true
        return .done(false)
      }
    }

    func close() {
      state.withLock { state, _ in state.isClosed = true }
      arrival.ring()
    }

    private func startThread(_ state: inout State) -> Bool {
      guard let thread = NamedThread("disk-inquiry", .answering, { [self] in serve() }) else { return false }
      thread.detach()
      state.hasThread = true
      return true
    }

    private func serve() {
      while !state.withLock({ state, _ in state.isClosed }) {
        guard let job = next() else {
          arrival.wait()
          continue
        }
        job.run()
        state.withLock { state, _ in
          job.isDone = true
          state.isStuck = false
        }
        state.broadcast()
      }
    }

    /// The first job that has not been given up. One that was given up while it waited for this thread says nothing of the disk.
    private func next() -> Job? {
      state.withLock { state, _ in
        state.isStuck = false
        while !state.jobs.isEmpty {
          let job = state.jobs.removeFirst()
          if !job.isGivenUp { return job }
        }
        return nil
      }
    }
  }
}

import Glibc
import Synchronization
import Testing

@testable import Threads

/// What a thread is called, and how the system favours it.
private struct ThreadState: Equatable, Sendable {
  var name = ""
  var niceness: Int32 = -1

  static func ofThisThread() -> ThreadState {
    var bytes = [UInt8](repeating: 0, count: 16)
    let file = open("/proc/thread-self/comm", O_RDONLY)
    let count = read(file, &bytes, bytes.count)
    close(file)
    // On Linux 0 is this thread.
    return ThreadState(
      name: String(decoding: bytes.prefix(max(0, count - 1)), as: UTF8.self),
      niceness: getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0))
  }
}

/// Regression.
@Suite struct StopArrivalsTests {
  @Test(
    "What each signal means, by the milliseconds at which it comes; a hang-up is negative",
    arguments: [
      ([0], [.first]), ([0, 999], [.first, .repeated]), ([0, 1000], [.first, .further]),
      ([0, 100, 1100, 1200], [.first, .repeated, .further, .further]),
      // A window that is closed, and a session that ends.
      ([-1, -100, -5000], [.first, .repeated, .repeated]), ([0, -100, -5000], [.first, .repeated, .repeated]),
      ([-1, 100, 1099, 1100], [.first, .repeated, .repeated, .further]),
      ([-1, 5000, 6000], [.first, .repeated, .further]),
    ] as [([Int], [StopArrivals.Arrival])])
  func signals_meanWhatTheyAre(times: [Int], expected: [StopArrivals.Arrival]) {
    let start = ContinuousClock.now
    var arrivals = StopArrivals()
    #expect(times.map { arrivals.arrived(isHangUp: $0 < 0, at: start + .milliseconds(abs($0))) } == expected)
  }
}

@Suite struct ThreadsTests {
  @Test(arguments: [
    (ThreadRole.answering, Int32(0)), (.behind(.normal), 0), (.behind(.low), 13), (.behind(.lowest), 19),
  ])
  func aThread_hasItsNameAndItsRolesPriority(role: ThreadRole, steps: Int32) throws {
    let own = ThreadState.ofThisThread().niceness
    let seen = Mutex(ThreadState())
    let thread = try #require(
      NamedThread("a-thread", role) { seen.withLock { $0 = .ofThisThread() } })
    thread.join()
    #expect(seen.withLock { $0 } == ThreadState(name: "a-thread", niceness: min(19, own + steps)))
  }

  @Test func whatIsComputed_isDoneByTheLoweredThread_andIsThereOnReturn() throws {
    let computing = try #require(ComputingThread("computing", .behind(.lowest)))
    var sum = 0
    for number in 1...1000 {
      let facts = computing.run {
        sum += number
        return ThreadState.ofThisThread()
      }
      #expect(facts == ThreadState(name: "computing", niceness: 19))
    }
    #expect(sum == 500_500)
  }

  @Test func anInbox_givesWhatEachThreadPut_inItsOrder_andNothingIsLost() throws {
    let inbox = Inbox<(thread: Int, number: Int)>()
    let waker = ThreadWaker()
    let (threadCount, count) = (4, 20_000)
    let threads = (0..<threadCount).compactMap { thread in
      NamedThread("putting", .answering) {
        for number in 0..<count {
          inbox.put((thread, number))
          waker.ring()
        }
      }
    }
    var next = Array(repeating: 0, count: threadCount)
    while next != Array(repeating: count, count: threadCount) {
      waker.wait()
      for (thread, number) in inbox.takeAll() {
        #expect(number == next[thread])
        next[thread] = number + 1
      }
    }
    for thread in threads { thread.join() }
    #expect(inbox.takeAll().isEmpty)
  }

  @Test func aWaker_thatNoThreadRings_endsTheWaitAtItsTime() {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    let due = Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec) + 20_000_000
    ThreadWaker().wait(untilNanoseconds: due)
    clock_gettime(CLOCK_MONOTONIC, &now)
    #expect(Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec) >= due)
  }
}

@Suite struct ThreadRoomTests {
  @Test("Regression: with too few threads a library ended the program without a word")
  func roomForThreads_isFoundBeforeItIsNeeded() throws {
    #expect(ThreadRoom.count(upTo: 5) == 5)
    #expect(ThreadRoom.shortageMessage(of: 2, perProcessor: 1) == nil)
  }
}

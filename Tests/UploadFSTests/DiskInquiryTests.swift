import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// Questions to a disk that may hang.
@Suite struct DiskInquiryTests {
  @Test(.promises("S41i")) func aDiskThatHangs_holdsUpNoCallForLong() {
    let inquiry = DiskInquiry()
    #expect(inquiry.ask { 1 } == 1)
    let hangs = Mutex(true)
    let isAsked = Mutex(false)
    let first = inquiry.ask(within: 50) {
      isAsked.withLock { $0 = true }
      while hangs.withLock({ $0 }) { sched_yield() }
      return 2
    }
    #expect(first == nil && isAsked.withLock { $0 })
    // No call waits for it any more, however long it would.
    #expect(inquiry.ask(within: 1_000_000) { 3 } == nil)
    hangs.withLock { $0 = false }
    var answer: Int?
    while answer == nil { answer = inquiry.ask(within: 10_000) { 4 } }
    #expect(answer == 4)
  }

  /// Regression: as if the disk hung, no question was asked any more.
  @Test(.promises("S41i")) func aQuestionThatIsGivenUp_beforeItIsAsked_holdsUpNoLaterOne() {
    let inquiry = DiskInquiry()
    // The thread that asks has hardly been started by then.
    _ = inquiry.ask(within: 0) { 1 }
    let end = ContinuousClock.now + .seconds(10)
    var answer: Int?
    while answer == nil, ContinuousClock.now < end { answer = inquiry.ask(within: 10_000) { 2 } }
    #expect(answer == 2)
  }
}

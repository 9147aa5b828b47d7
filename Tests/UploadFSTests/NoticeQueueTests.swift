import Promises
import Synchronization
import Testing

@testable import UploadFS

struct NoticeQueueTests {
  /// A clock that a test moves.
  private final class Clock: Sendable {
    private let milliseconds = Mutex(0)

    func advance(by amount: Int) { milliseconds.withLock { $0 += amount } }

    var nanoseconds: Int64 { Int64(milliseconds.withLock { $0 }) * 1_000_000 }
  }

  /// Every look at the queue has another notice beside it, so that it does not wait.
  @Test(.promises("S50f")) func passthroughWritersAreCheckedOnceASecond() throws {
    let clock = Clock()
    let queue = NoticeQueue { clock.nanoseconds }
    func isTimeToCheck(after milliseconds: Int) throws -> Bool {
      clock.advance(by: milliseconds)
      queue.virtualTreeChanged()
      return try #require(queue.next()).isTimeToCheck
    }
    #expect(try !isTimeToCheck(after: 5000), "there is none")
    queue.checkEverySecond(true)
    #expect(try !isTimeToCheck(after: 999))
    queue.checkEverySecond(true)
    #expect(try isTimeToCheck(after: 1), "another writer puts nothing off")
    #expect(try !isTimeToCheck(after: 999))
    #expect(try isTimeToCheck(after: 1))
    queue.checkEverySecond(false)
    #expect(try !isTimeToCheck(after: 5000))
  }

  @Test func thread_isWokenToLook() throws {
    let queue = NoticeQueue()
    queue.checkEverySecond(true)
    let batch = try #require(queue.next())
    #expect(batch.isTimeToCheck && !batch.hasVirtualChange)
  }
}

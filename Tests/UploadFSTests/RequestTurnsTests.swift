import Promises
import Testing

@testable import UploadFS

/// Who answers what while a disk hangs.
struct RequestTurnsTests {
  private struct Arrival: Equatable {
    var startsThread: Bool
    var begins: Bool
  }

  private var turns = RequestTurns<Int>(diskThreadsMax: 2)

  /// A thread receives a request for the disk and goes there, or hands it over.
  private mutating func arrives(_ number: Int, bytes: Int = 100) -> Arrival {
    let startsThread = turns.received()
    let begins = turns.begins(bytes: bytes)
    if !begins {
      turns.waits(number, bytes: bytes)
      turns.receives()
    }
    return Arrival(startsThread: startsThread, begins: begins)
  }

  private mutating func arrive(_ numbers: ClosedRange<Int>, bytes: Int = 100) -> [Bool] {
    numbers.map { arrives($0, bytes: bytes).begins }
  }

  /// What the threads that come back, one after the other, do next.
  private mutating func end(_ times: Int) -> [Int?] { (0..<times).map { _ in turns.ended() } }

  @Test mutating func threadsAreStartedWhenNoneIsLeft_andNoMoreThanThat() {
    #expect(arrives(1) == Arrival(startsThread: true, begins: true))
    #expect(arrives(2) == Arrival(startsThread: true, begins: true))
    // What needs no disk: one of the spare threads is at it, and another one receives.
    #expect(turns.received() == true)
    #expect(turns.received() == false, "there are as many as may be")
    turns.receives()
    turns.receives()
    #expect(turns.received() == false, "the other one receives")
  }

  /// Regression: six calls that hung on a disk left no thread that could have answered status.
  @Test(.promises("S41i")) mutating func aDiskThatHangs_leavesThreadsForTheRest() {
    #expect(arrive(1...2) == [true, true])
    #expect(turns.isHeldUp)
    #expect(arrive(3...99) == [Bool](repeating: false, count: 97))
  }

  @Test mutating func whatWaits_isDoneInItsOrder_byThoseThatComeBack() {
    _ = arrive(1...5)
    #expect(end(3) == [3, 4, 5])
    #expect(turns.isHeldUp, "two are at the disk still")
    #expect(end(1) == [nil])
    #expect(!turns.isHeldUp)
    #expect(end(1) == [nil])
    turns.receives()
    turns.receives()
    #expect(arrive(6...6) == [true])
  }

  /// So that writers of a disk that hangs do not take all memory.
  @Test mutating func whatWaitsIsBounded_andGoesToTheDiskBeyondThat() {
    _ = arrive(1...2)
    // A megabyte each, and what is kept besides.
    #expect(arrive(3...66, bytes: 1 << 20) == [Bool](repeating: false, count: 63) + [true])
    // Three are at the disk; the next one waits for two of them.
    #expect(end(2) == [nil, 3])
  }

  @Test mutating func aThreadThatCannotBeStarted_isTriedAgain() {
    #expect(turns.received() == true)
    turns.hasNotStarted()
    turns.receives()
    #expect(turns.received() == true)
  }
}

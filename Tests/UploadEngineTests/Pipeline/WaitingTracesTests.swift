import FileModel
import Testing

@testable import UploadEngine

@Suite struct WaitingTracesTests {
  private let mib: UInt64 = 1 << 20

  private func trace(_ chunk: UInt64, of file: UInt64 = 1, large: Bool = true) -> CacheTrace {
    CacheTrace(
      file: FileID(high: 0, low: file), range: (chunk * mib)..<((chunk + 1) * mib), isOfLargeFile: large)
  }

  @Test func whatTouchesIsJoined() {
    var waiting = WaitingTraces()
    for chunk: UInt64 in [0, 1, 3, 2] { waiting.insert(trace(chunk)) }
    let ranges = waiting.takeAll().map(\.range)
    #expect(ranges.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } >= 4 * mib)
    #expect(ranges.count <= 2)
    #expect(waiting.isEmpty)
  }

  @Test func filesAndKindsAreNotJoined() {
    var waiting = WaitingTraces()
    waiting.insert(trace(0))
    waiting.insert(trace(1, of: 2))
    waiting.insert(trace(1, large: false))
    #expect(waiting.takeAll() == [trace(0), trace(1, of: 2), trace(1, large: false)])
  }

  @Test func itIsTimeWhenManyBytesWait() {
    var waiting = WaitingTraces()
    for chunk in 0..<63 { waiting.insert(trace(UInt64(chunk))) }
    #expect(!waiting.isDue)
    waiting.insert(trace(63))
    #expect(waiting.isDue)
    #expect(waiting.takeAll().count == 1)
    #expect(!waiting.isDue)
  }

  /// Nothing of the file is left out where there are too many pieces.
  @Test func whereItIsFull_theLatestGrows() {
    var waiting = WaitingTraces()
    for piece in 0..<UInt64(WaitingTraces.tracesMax) { waiting.insert(trace(2 * piece)) }
    #expect(waiting.isDue)
    waiting.insert(trace(1000))
    waiting.insert(trace(0, of: 2))
    let taken = waiting.takeAll()
    #expect(taken.count == WaitingTraces.tracesMax)
    #expect(taken.last?.range == (510 * mib)..<(1001 * mib))
    #expect(taken.allSatisfy { $0.file.low == 1 })
  }
}

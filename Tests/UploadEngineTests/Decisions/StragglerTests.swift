import FileModel
import Lookup
import Testing
import TransferModel

@testable import UploadEngine

/// What hangs on a slow connection at the end of a file goes again over a better one (docs/design/scheduling.md#the-line).
@Suite struct StragglerTests {
  private func request(_ index: Int, in harness: ScheduleHarness) -> HTTPRequestID? {
    harness.sent.first { $0.order.isChunk(index) }?.id
  }

  private func sending(_ file: ImaginaryFile) -> ScheduleHarness {
    var harness = ScheduleHarness()
    // Chunks of a test are too short to measure a line.
    harness.schedule.link.recall(.init(bytesPerSecond: 100_000, variance: 1e8, sampleCount: 5))
    harness.handle(.scanEnded)
    harness.beginSending(file)
    return harness
  }

  /// A file of so many chunks of which all are there but the first, which has not moved, and the last, which has gone out just now.
  private func nearTheEnd(_ file: ImaginaryFile) -> ScheduleHarness {
    var harness = sending(file)
    let last = Int(file.snapshot.sizeBytes) / 1000 - 1
    while let index = harness.chunkRequests.map(\.index).first(where: { $0 != 0 && $0 != last }) {
      harness.advance(by: .milliseconds(40))
      harness.answerChunk(index, .chunkStored)
      harness.answerReads()
    }
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, last] && harness.cancelled.isEmpty)
    return harness
  }

  /// What a look finds out is known a moment later.
  private func look(_ harness: inout ScheduleHarness) {
    harness.advance(by: .milliseconds(500))
    harness.advance(by: .milliseconds(2))
  }

  private func isReported(_ harness: ScheduleHarness) -> Bool {
    harness.others.contains { if case .report(.straggling) = $0 { true } else { false } }
  }

  @Test func whatDoesNotMove_goesAgain_whenNothingElseIsLeft() {
    let file = ImaginaryFile(1, "a.mov", size: 100_000)
    var harness = nearTheEnd(file)
    let straggler = request(0, in: harness)
    look(&harness)
    #expect(harness.cancelled == [straggler].compactMap { $0 } && isReported(harness))
    harness.answerChunk(0, StepFailure.connection(.cancelled))
    harness.answerReads()
    let again = request(0, in: harness)
    #expect(again != nil && again != straggler)
    #expect(harness.status(file.id)?.chunks.retried == 1 && harness.status(file.id)?.lastFailure == nil)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.bufferBytes.isEmpty)
  }

  /// Regression, found by the simulation (slow, seed 8810016089): a last chunk of one byte was ended after two seconds again and again,
  /// behind what other files had on the line, and the file did not end.
  @Test func whatHangsOnceMore_isGivenTwiceAsLong() {
    let file = ImaginaryFile(1, "a.mov", size: 200_000)
    var harness = nearTheEnd(file)
    look(&harness)
    harness.answerChunk(0, StepFailure.connection(.cancelled))
    harness.answerReads()
    let again = request(0, in: harness)
    harness.advance(by: .milliseconds(10))
    harness.answerChunk(199, .chunkStored)
    let ended = harness.cancelled.count
    for _ in 0..<6 { look(&harness) }
    #expect(harness.cancelled.count == ended, "three seconds are too few now")
    for _ in 0..<4 { look(&harness) }
    #expect(harness.cancelled.last == again && harness.cancelled.count == ended + 1)
  }

  /// It moves, and much slower than an equal share of the line.
  @Test func whatIsMuchSlowerThanTheOthers_goesAgain() {
    var harness = nearTheEnd(ImaginaryFile(1, "a.mov", size: 100_000))
    let crawling = LookupTable([request(0, in: harness).map { ($0, SentBody(bytes: 10, of: 1000)) }].compactMap { $0 })
    harness.apply { $0.progressed(crawling, at: $1) }
    look(&harness)
    #expect(harness.cancelled == [request(0, in: harness)].compactMap { $0 })
  }

  @Test func whatIsAnsweredAfterAll_counts() {
    let file = ImaginaryFile(1, "a.mov", size: 100_000)
    var harness = nearTheEnd(file)
    look(&harness)
    #expect(!harness.cancelled.isEmpty)
    harness.answerChunk(0, .chunkStored)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.chunks.retried == 0)
  }

  /// What has arrived waits for the server, which another connection makes no faster.
  @Test func whatHasArrived_isWaitedFor() {
    var harness = nearTheEnd(ImaginaryFile(1, "a.mov", size: 100_000))
    let arrived = LookupTable(
      harness.sent.filter { $0.order.carriesChunk }.map { ($0.id, SentBody(bytes: 1000, of: 1000)) })
    harness.apply { $0.progressed(arrived, at: $1) }
    for _ in 0..<8 { harness.advance(by: .seconds(1)) }
    #expect(harness.cancelled.isEmpty)
  }

  /// When everything stands, no connection is better than another.
  @Test func onALineThatStands_nothingGoesAgain() {
    let file = ImaginaryFile(1, "a.mov", size: 200_000)
    var harness = nearTheEnd(file)
    harness.answerChunk(0, .chunkStored)
    for _ in 0..<8 { harness.advance(by: .seconds(1)) }
    // The last one went out before that answer: it may have hung.
    harness.endCancelled()
    harness.answerReads()
    for _ in 0..<8 { harness.advance(by: .seconds(1)) }
    #expect(harness.cancelled.count == 1)
  }

  /// At most 2 % of a file goes again.
  @Test(arguments: [(49, 0), (60, 1), (150, 2)])
  func noMoreThanTwoPercentOfAFileGoesAgain(chunkCount: Int, ended: Int) {
    var harness = nearTheEnd(ImaginaryFile(1, "a.mov", size: UInt64(chunkCount) * 1000))
    for _ in 0..<4 { harness.advance(by: .milliseconds(900)) }
    #expect(harness.cancelled.count == ended)
  }

  /// While other chunks are to be sent, a slow stream holds nothing up.
  @Test func inTheMiddleOfAFile_itIsLeftAlone() {
    var harness = sending(ImaginaryFile(1, "a.mov", size: 200_000))
    for _ in 0..<14 {
      harness.advance(by: .milliseconds(500))
      guard let index = harness.chunkRequests.map(\.index).first(where: { $0 != 0 }) else { break }
      harness.answerChunk(index, .chunkStored)
      harness.answerReads()
    }
    #expect(harness.cancelled.isEmpty && request(0, in: harness) != nil)
  }
}

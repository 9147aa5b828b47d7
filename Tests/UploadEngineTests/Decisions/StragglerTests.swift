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

  private func sending(
    _ file: ImaginaryFile, bytesPerSecond: Double = 100_000, shortestChunk: Int? = nil
  ) -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.streamBytesLeast = shortestChunk ?? limits.streamBytesLeast
    var harness = ScheduleHarness(limits: limits)
    // Chunks of a test are too short to measure a line.
    harness.schedule.link.recall(.init(bytesPerSecond: bytesPerSecond, variance: 1e8, sampleCount: 5))
    harness.handle(.scanEnded)
    harness.beginSending(file)
    return harness
  }

  /// A file of so many chunks of which all are there but the first, which has not moved, and the last, which has gone out just now.
  private func nearTheEnd(
    _ file: ImaginaryFile, bytesPerSecond: Double = 100_000, shortestChunk: Int? = nil
  ) -> ScheduleHarness {
    var harness = sending(file, bytesPerSecond: bytesPerSecond, shortestChunk: shortestChunk)
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

  /// So many bytes of the first chunk arrive in each half of a second; the number of looks after which it is ended.
  private func looksUntilEnded(_ bytes: UInt64, in harness: inout ScheduleHarness) -> Int? {
    let crawling = request(0, in: harness)
    for index in harness.chunkRequests.map(\.index) where index != 0 { harness.answerChunk(index, .chunkStored) }
    for look in 1...6 {
      let arrived = [crawling.map { ($0, SentBody(bytes: bytes * UInt64(look), of: 1000)) }].compactMap { $0 }
      harness.apply { $0.progressed(LookupTable(arrived), at: $1) }
      self.look(&harness)
      if !harness.cancelled.isEmpty {
        #expect(harness.cancelled == [crawling].compactMap { $0 })
        return look
      }
    }
    return nil
  }

  /// It moves, and much slower than an equal share of a line that has room.
  @Test func whatIsMuchSlowerThanTheOthers_goesAgain() {
    var harness = nearTheEnd(ImaginaryFile(1, "a.mov", size: 100_000))
    #expect(looksUntilEnded(10, in: &harness) == 3, "its pace is that of a second")
  }

  /// 1,000 bytes a second among four streams: a third of an equal share, and three fifths.
  ///
  /// Regression, over a line that loses 3 of 100 packets: with a third of an equal share each, three streams were waited for during eight
  /// of 22 seconds. And on a full line (line, seed 53300018852) all that was left was ended, and went again: each stream gets more as
  /// others end.
  @Test(arguments: [(42, true), (75, false)])
  func whatHasAThirdOfAnEqualShare_goesAgain_whereTheLineHasRoom(bytes: UInt64, isEnded: Bool) {
    var harness = nearTheEnd(ImaginaryFile(1, "a.mov", size: 100_000), bytesPerSecond: 1000)
    // The line was full until now.
    let looks = looksUntilEnded(bytes, in: &harness)
    #expect(isEnded ? (4...6).contains(looks ?? 0) : looks == nil, "\(looks ?? 0)")
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

  /// At most a twentieth of a file goes again, and of a short one 16 of the shortest chunks.
  @Test(arguments: [(19, 62, 0), (30, 62, 1), (60, 62, 2), (19, 63, 1), (19, 125, 2)])
  func noMoreThanATwentiethOfAFileGoesAgain(chunkCount: Int, shortest: Int, ended: Int) {
    var harness = nearTheEnd(ImaginaryFile(1, "a.mov", size: UInt64(chunkCount) * 1000), shortestChunk: shortest)
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

import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// What a proxy refuses for its length goes out in shorter requests.
@Suite struct RequestSizesTests {
  private static let size: UInt64 = 40_000
  private let file = ImaginaryFile(1, "a.mov", size: size)

  /// What a run has sent.
  private struct Sent {
    var refused: [Int] = []
    var taken: [Int] = []
    var bytes: Int { (refused + taken).reduce(0, +) }
  }

  private func harness(wholeFileBytesMax: Int, least: Int = 1000) -> ScheduleHarness {
    var limits = UploadLimits()
    (limits.chunkBytes, limits.bufferBytes, limits.requestBytesLeast) = (8000, 8000, least)
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: wholeFileBytesMax)
    harness.handle(.scanEnded)
    return harness
  }

  /// A proxy that takes bodies of at most `limit` bytes, before a server that takes all.
  private func play(_ harness: inout ScheduleHarness, limit: Int) -> Sent {
    var lengths: [ReadID: Int] = [:]
    var sent = Sent()
    for _ in 0..<1000 where !harness.schedule.isIdle {
      while let order = harness.reads.first {
        lengths[order.id] = order.byteCount
        harness.reads.removeFirst()
        harness.apply { $0.chunkRead(order.id, result: .success(ScheduleHarness.digest(order)), at: $1) }
      }
      harness.record()
      guard let order = harness.sent.first?.order else {
        guard let next = harness.schedule.nextDeadline else { break }
        harness.advance(by: max(.milliseconds(1), next - harness.now.monotonic))
        continue
      }
      let byteCount =
        switch order {
        case .chunk(let one): lengths[one.chunk.read] ?? 0
        case .wholeFile(let whole): whole.read.flatMap { lengths[$0] } ?? 0
        default: 0
        }
      guard byteCount > limit else {
        if byteCount > 0 { sent.taken.append(byteCount) }
        harness.answer(ScheduleHarness.success(of: order)) { _ in true }
        continue
      }
      sent.refused.append(byteCount)
      harness.answer(.refused(StepFailure(.requestTooLarge, "413"))) { _ in true }
    }
    return sent
  }

  private func shortened(_ harness: ScheduleHarness) -> [Int] {
    harness.others.compactMap { if case .report(.requestsShortened(let bytes, _)) = $0 { bytes } else { nil } }
  }

  /// Regression: a file behind a proxy's limit had failed for good.
  @Test(arguments: [0, 8000]) func whatIsTooLongForAProxy_goesInShorterRequests(wholeFileBytesMax: Int) {
    var harness = harness(wholeFileBytesMax: wholeFileBytesMax)
    let size = wholeFileBytesMax == 0 ? Self.size : UInt64(wholeFileBytesMax)
    harness.write(ImaginaryFile(1, "a.mov", size: size))
    let sent = play(&harness, limit: 2500)
    #expect(harness.state(file.id) == .complete, "\(harness.status(file.id)?.lastFailure?.message ?? "")")
    #expect(sent.taken.reduce(0, +) == Int(size) && sent.taken.allSatisfy { $0 <= 2500 })
    #expect(shortened(harness) == [4000, 2000])
    // The next one begins with what is known.
    let next = ImaginaryFile(2, "b.mov", size: Self.size)
    harness.write(next)
    #expect(play(&harness, limit: 2500).refused.isEmpty)
    #expect(harness.state(next.id) == .complete && harness.buffers.isEmpty)
  }

  private func refuseWholeFile(_ harness: inout ScheduleHarness, limit: UInt64?) {
    harness.answerReads()
    harness.answer(.refused(StepFailure(.tooLarge(limitBytes: limit), "413"))) { $0.isWholeFile }
  }

  /// Regression: a receiver may take less in one request than a chunk is long here. Files between the two failed for good.
  @Test(arguments: [3000, nil] as [UInt64?]) func whatTheServerDoesNotTakeInOneRequest_goesInASession(limit: UInt64?) {
    var harness = harness(wholeFileBytesMax: 8000)
    harness.write(ImaginaryFile(1, "a.mov", size: 5000))
    refuseWholeFile(&harness, limit: limit)
    #expect(harness.sent.contains { $0.order.isOpenSession })
    let sent = play(&harness, limit: .max)
    #expect(harness.state(file.id) == .complete && sent.taken.reduce(0, +) == 5000)
    // The next one begins with what is known.
    harness.write(ImaginaryFile(2, "b.mov", size: 5000))
    harness.answerReads()
    #expect(!harness.sent.contains { $0.order.isWholeFile })
    _ = play(&harness, limit: .max)
    harness.write(ImaginaryFile(3, "c.mov", size: 2000))
    harness.answerReads()
    #expect(harness.sent.contains { $0.order.isWholeFile })
    _ = play(&harness, limit: .max)
    #expect(harness.schedule.isIdle && harness.buffers.isEmpty)
  }

  @Test func whatTheServerSaysThatItTakesInOneRequest_isKept() {
    var harness = harness(wholeFileBytesMax: 8000)
    harness.apply { $0.learn(DestinationLimits(wholeFileBytesMax: 4000), at: $1) }
    harness.write(ImaginaryFile(1, "a.mov", size: 5000))
    harness.answerReads()
    #expect(!harness.sent.contains { $0.order.isWholeFile } && harness.sent.contains { $0.order.isOpenSession })
    _ = play(&harness, limit: .max)
    #expect(harness.state(file.id) == .complete)
  }

  /// It means the file: its session is refused as well, which ends it.
  @Test func aFileThatIsTooLargeForTheServer_failsAsBefore() {
    var harness = harness(wholeFileBytesMax: 8000)
    harness.write(ImaginaryFile(1, "a.mov", size: 5000))
    refuseWholeFile(&harness, limit: 1000)
    harness.answer(.refused(StepFailure(.tooLarge(limitBytes: 1000), "413"))) { $0.isOpenSession }
    #expect(harness.state(file.id) == .failed && harness.schedule.isIdle)
    // A word that contradicts itself is not tried.
    harness.write(ImaginaryFile(2, "b.mov", size: 500))
    refuseWholeFile(&harness, limit: 1000)
    #expect(harness.state(ImaginaryFile(2, "b.mov", size: 500).id) == .failed && harness.buffers.isEmpty)
  }

  @Test func aProxyThatTakesNothing_endsTheFile_afterAFewRequests() {
    var harness = harness(wholeFileBytesMax: 0)
    harness.write(file)
    let sent = play(&harness, limit: 0)
    #expect(harness.state(file.id) == .failed && sent.taken.isEmpty)
    #expect(shortened(harness) == [4000, 2000, 1000])
    #expect(harness.status(file.id)?.lastFailure?.code == "too-large")
    #expect(harness.status(file.id)?.lastFailure?.message.contains("1000 bytes is the shortest") == true)
  }

  /// Once a person has looked at it, the limit may have been raised.
  @Test func aRetry_triesLongRequestsAgain() {
    var harness = harness(wholeFileBytesMax: 0)
    harness.write(file)
    _ = play(&harness, limit: 0)
    harness.apply { $0.retry(file.id, at: $1) }
    #expect(play(&harness, limit: 8000).taken == Array(repeating: 8000, count: 5))
    #expect(harness.state(file.id) == .complete)
  }

  /// S3 has a shortest part, and a session a largest number of chunks.
  @Test func chunksThatTheDestinationNeedsLonger_areNotMadeShorter() {
    var harness = ScheduleHarness(wholeFileBytesMax: 0) { $0.chunkBytesMin = 1000 }
    harness.handle(.scanEnded)
    harness.write(file)
    let sent = play(&harness, limit: 500)
    #expect(harness.state(file.id) == .failed && shortened(harness).isEmpty && sent.taken.isEmpty)
  }
}

import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Chunks that lie in holes of the spool's file (docs/semantics.md, S62c): neither read nor sent.
@Suite struct ZerosTests {
  private static let zero = ChunkDigest(ofZeros: ScheduleHarness.chunkBytes)
  private let file = ImaginaryFile(1, "a.mov", size: 100_500)

  private func makeHarness(ranges: Int? = 1000, records: [ResumeRecord] = []) -> ScheduleHarness {
    var harness = ScheduleHarness(records: records) { $0.takesZeros = true }
    harness.offers = DestinationOffers(encodings: [.identity], zeroRangesMax: ranges)
    harness.handle(.scanEnded)
    return harness
  }

  /// A file that waits to be looked through.
  private func written(_ file: ImaginaryFile, ranges: Int? = 1000) -> ScheduleHarness {
    var harness = makeHarness(ranges: ranges)
    harness.write(file)
    harness.answer(.warmed) { $0.isPrewarm }
    return harness
  }

  private func look(_ harness: inout ScheduleHarness, finds chunks: [Range<Int>]) {
    let orders = harness.others.compactMap { if case .findHoles(let order) = $0 { order } else { nil } }
    harness.others.removeAll { if case .findHoles = $0 { true } else { false } }
    for order in orders { harness.apply { $0.holesFound(order, chunks, Self.zero, at: $1) } }
  }

  private func zeros(_ harness: ScheduleHarness) -> [ZerosSending] {
    harness.sent.compactMap { if case .zeros(let zeros) = $0.order { zeros } else { nil } }
  }

  private func isLooking(_ harness: ScheduleHarness) -> Bool {
    harness.others.contains { if case .findHoles = $0 { true } else { false } }
  }

  private func answerZeros(_ harness: inout ScheduleHarness, _ outcome: StepOutcome) {
    harness.answer(outcome) { if case .zeros = $0 { true } else { false } }
  }

  @Test(.promises("S62c")) func chunksInHoles_areNeitherReadNorSent() {
    var harness = written(file)
    // Nothing is read, and nothing said of its size, before it was looked through.
    #expect(harness.reads.isEmpty && !harness.sent.contains { $0.order.isOpenSession })
    look(&harness, finds: [1..<50, 60..<100])
    guard case .openSession(let opening)? = harness.sent.first(where: { $0.order.isOpenSession })?.order else {
      Issue.record("no session is opened")
      return
    }
    #expect(opening.sizeBytes == nil)
    harness.openSession()
    #expect(zeros(harness).map(\.ranges) == [[1..<50, 60..<100]])
    #expect(zeros(harness).first?.digest == Self.zero && zeros(harness).first?.chunkBytes == 1000)
    var readOffsets: [UInt64] = []
    while !harness.schedule.isIdle {
      readOffsets += harness.reads.map(\.offset)
      harness.answerReads()
      guard let order = harness.sent.first?.order else { break }
      harness.answer(ScheduleHarness.success(of: order)) { _ in true }
      harness.record()
    }
    #expect(readOffsets.sorted() == [0] + (50..<60).map { $0 * 1000 } + [100_000])
    #expect(harness.state(file.id) == .complete)
  }

  @Test func fileWithoutHoles_saysItsSize() {
    var harness = written(file)
    look(&harness, finds: [])
    guard case .openSession(let opening)? = harness.sent.first(where: { $0.order.isOpenSession })?.order else {
      Issue.record("no session is opened")
      return
    }
    #expect(opening.sizeBytes == 100_500)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func acknowledgedHoles_countAsAcknowledged_andNotAsSent() {
    var harness = written(file)
    look(&harness, finds: [0..<100])
    harness.openSession()
    answerZeros(&harness, .chunkStored)
    #expect(harness.status(file.id)?.chunks.done == 100)
    #expect(harness.schedule.totals.acknowledgedBytes == 0)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.totals.acknowledgedBytes == 500)
  }

  @Test(.promises("S62e")) func serverThatDoesNotOfferIt_getsTheZeros() {
    for (ranges, mention) in [(nil, "older"), (0, "declines")] as [(Int?, Comment)] {
      var harness = written(file, ranges: ranges)
      look(&harness, finds: [0..<100])
      harness.succeed()
      #expect(harness.state(file.id) == .complete, mention)
      #expect(harness.schedule.totals.acknowledgedBytes == 100_500, mention)
    }
  }

  /// One that says nothing of what it takes at all.
  @Test func serverThatSaysNothing_getsTheZeros() {
    var harness = ScheduleHarness { $0.takesZeros = true }
    harness.handle(.scanEnded)
    harness.write(file)
    look(&harness, finds: [0..<100])
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.totals.acknowledgedBytes == 100_500)
  }

  @Test func manyHoles_goInSeveralRequests() {
    let large = ImaginaryFile(2, "b.mov", size: 12_000_000)
    var harness = written(large, ranges: 3)
    look(&harness, finds: [0..<1, 2..<3, 4..<5, 6..<7, 8..<12_000])
    harness.openSession()
    #expect(zeros(harness).map(\.ranges) == [[0..<1, 2..<3, 4..<5]])
    answerZeros(&harness, .chunkStored)
    #expect(zeros(harness).map(\.ranges) == [[6..<7, 8..<1031]])
    answerZeros(&harness, .chunkStored)
    #expect(zeros(harness).map(\.ranges) == [[1031..<2055]])
    harness.succeed()
    #expect(harness.state(large.id) == .complete)
  }

  @Test func brokenConnection_repeatsTheRequest() {
    var harness = written(file)
    look(&harness, finds: [0..<100])
    harness.openSession()
    answerZeros(&harness, StepFailure.connection(.connectionLost))
    #expect(zeros(harness).isEmpty)
    for _ in 0..<100 where zeros(harness).isEmpty { harness.advance(by: .seconds(1)) }
    #expect(zeros(harness).map(\.ranges) == [[0..<100]])
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.totals.acknowledgedBytes == 500)
  }

  @Test func refusedZeros_areSent() {
    for kind in [StepFailure.Kind.badRequest, .tagMismatch] {
      var harness = written(file)
      look(&harness, finds: [0..<100])
      harness.openSession()
      answerZeros(&harness, .refused(StepFailure(kind, "no")))
      harness.succeed()
      #expect(harness.state(file.id) == .complete && harness.schedule.totals.acknowledgedBytes == 100_500)
    }
  }

  @Test func fileThatChangesMeanwhile_isLookedThroughAnew() {
    var harness = written(file)
    let orders = harness.others
    #expect(isLooking(harness))
    harness.others = []
    var changed = file
    changed.snapshot.epoch = 2
    harness.handle(changed.changed)
    harness.handle(changed.settled)
    // What was found of the earlier content counts for nothing.
    for case .findHoles(let order) in orders {
      harness.apply { $0.holesFound(order, [0..<100], Self.zero, at: $1) }
    }
    look(&harness, finds: [5..<6])
    harness.openSession()
    #expect(zeros(harness).map(\.ranges) == [[5..<6]])
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// The server has it under way while the content is another one.
  @Test func writeBehindTheRequest_sendsTheChunkAnew() {
    var harness = written(file)
    look(&harness, finds: [0..<100])
    harness.openSession()
    var changed = file
    changed.snapshot.epoch = 2
    harness.handle(changed.changed)
    answerZeros(&harness, .chunkStored)
    harness.handle(changed.settled)
    look(&harness, finds: [0..<7, 8..<100])
    // What is still zeros is there, and what was written is read and sent.
    #expect(zeros(harness).isEmpty && harness.status(file.id)?.chunks.done == 99)
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index) == [100, 7], "what the server lacks comes first")
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S62d")) func partsThatWereGivenUp_areNeverTakenForZeros() {
    var released = file
    released.snapshot.isPartlyReleased = true
    released.snapshot.pointer = SessionPointer(
      chunkBytes: 1000, sessionID: "s", nonce: [UInt8](repeating: 1, count: 32), address: "", credentialMark: nil)
    var lost = file
    lost.snapshot.missing = MissingBytes([0..<50_000])
    var notOnDisk = file
    notOnDisk.snapshot.interruption = .notOnDisk
    for (file, mention) in [(released, "released"), (lost, "lost"), (notOnDisk, "not on the disk")]
      as [(ImaginaryFile, Comment)]
    {
      var harness = makeHarness()
      harness.write(file)
      harness.apply { $0.publish(file.id, at: $1) }
      #expect(!isLooking(harness), mention)
    }
    // They become known while it is looked through.
    var harness = written(file)
    #expect(isLooking(harness))
    harness.schedule.files[file.id]?.copy.partsMayGo()
    look(&harness, finds: [0..<100])
    harness.openSession()
    #expect(zeros(harness).isEmpty && harness.schedule.files[file.id]?.transfer?.holes.isEmpty == true)
  }

  @Test func chunksThatTheServerLost_areNamedOnceMore() {
    var harness = written(file)
    look(&harness, finds: [0..<100])
    harness.openSession()
    answerZeros(&harness, .chunkStored)
    harness.answerReads()
    harness.answer(.chunkStored) { $0.isChunk }
    harness.answer(.incomplete(missing: [3, 4])) { $0.isCommit }
    harness.advance(by: .seconds(30))
    look(&harness, finds: [0..<100])
    #expect(zeros(harness).map(\.ranges) == [[3..<5]])
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.schedule.totals.acknowledgedBytes == 500)
  }
}

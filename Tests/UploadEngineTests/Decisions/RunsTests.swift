import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Requests with several chunks of one session (docs/protocol.md#a-run-of-chunks).
@Suite struct RunsTests {
  private static let size: UInt64 = 100_000
  private let file = ImaginaryFile(1, "a.mov", size: size)

  /// A file of a hundred chunks of which twelve are on their way, each alone, and the next ones are read.
  private func sending(runBytes: Int? = 1 << 25) -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.bufferBytes = 4000
    var harness = ScheduleHarness(limits: limits) { $0.takesRuns = true }
    harness.offers = DestinationOffers(encodings: [.identity], runBytesMax: runBytes)
    harness.handle(.scanEnded)
    harness.beginSending(file)
    return harness
  }

  /// The next request that carries several.
  private func run(_ harness: ScheduleHarness) -> [Int] {
    harness.sent.lazy.compactMap { request -> [Int]? in
      guard case .run(let chunks) = request.order else { return nil }
      return chunks.map(\.chunk.index)
    }.first ?? []
  }

  private func answerRun(_ harness: inout ScheduleHarness, _ outcome: StepOutcome) {
    harness.answer(outcome) { if case .run = $0 { true } else { false } }
  }

  @Test func chunksThatWait_goTogether_asManyAsFitARequest() {
    var harness = sending()
    #expect(harness.chunkRequests.map(\.index) == Array(0..<12) && run(harness).isEmpty)
    harness.answerChunk(0, .chunkStored)
    #expect(run(harness) == [12, 13, 14, 15])
    answerRun(&harness, .each(Array(repeating: .chunkStored, count: 4)))
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.chunks.retried == 0)
    #expect(harness.bufferBytes.isEmpty && harness.schedule.memory.buffers.isEmpty)
  }

  /// What has arrived of a run counts before its answer, and not again with it.
  @Test func bytesOfARun_countOnceInTheRate() {
    var harness = sending()
    harness.answerChunk(0, .chunkStored)
    let request = harness.sent.first { if case .run = $0.order { true } else { false } }?.id
    guard let request else {
      Issue.record("no run goes out")
      return
    }
    harness.apply { $0.progressed([request: SentBody(bytes: 4000, of: 4000)], at: $1) }
    let before = harness.status(file.id)?.bytesPerSecond
    answerRun(&harness, .each(Array(repeating: .chunkStored, count: 4)))
    #expect(before ?? 0 > 0 && harness.status(file.id)?.bytesPerSecond == before)
  }

  /// What is at stake (docs/destinations.md, DE150): of a run the chunk under way, of a request with a single one what
  /// has arrived of that.
  @Test(.promises("DE150")) func whatABreakWouldCost_isTheChunksUnderWay() throws {
    var harness = sending()
    harness.answerChunk(0, .chunkStored)
    #expect(harness.status(file.id)?.atStakeBytes == 0)
    let run = try #require(harness.sent.first { if case .run = $0.order { true } else { false } }).id
    for (arrived, lost) in [(UInt64(300), UInt64(300)), (1000, 0), (2700, 700), (3999, 999), (4000, 1000)] {
      harness.apply { $0.progressed([run: SentBody(bytes: arrived, of: 4000)], at: $1) }
      #expect(harness.status(file.id)?.atStakeBytes == lost, "\(arrived) of four chunks")
    }
    let single = try #require(harness.sent.first { $0.order.chunks?.chunks.count == 1 }).id
    harness.apply { $0.progressed([single: SentBody(bytes: 800, of: 1000)], at: $1) }
    #expect(harness.status(file.id)?.atStakeBytes == 1800)
    answerRun(&harness, .each(Array(repeating: .chunkStored, count: 4)))
    #expect(harness.status(file.id)?.atStakeBytes == 800)
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.status(file.id)?.atStakeBytes == 0)
  }

  @Test func serverThatDoesNotOfferThem_getsChunksOneByOne() {
    for (runBytes, mention) in [(nil, "older"), (0, "declines")] as [(Int?, Comment)] {
      var harness = sending(runBytes: runBytes)
      harness.answerChunk(0, .chunkStored)
      #expect(run(harness).isEmpty && harness.chunkRequests.count == 12, mention)
    }
  }

  /// The last requests are shorter, so that all streams end together.
  @Test func atTheEndOfAFile_eachStreamHasItsShare() {
    var harness = sending()
    var lengths: [Int] = []
    while let order = harness.sent.first?.order, !order.isCommit {
      if let chunks = order.chunks?.chunks { lengths.append(chunks.count) }
      harness.answer(ScheduleHarness.success(of: order)) { _ in true }
      harness.answerReads()
    }
    #expect(lengths.max() == 4 && lengths.suffix(12).allSatisfy { $0 == 1 }, "\(lengths)")
    #expect(lengths.reduce(0, +) == 100)
  }

  /// Requests with chunks of a file on a line of so many bytes a second, where an answer takes so long.
  private func requests(_ bytesPerSecond: Double, answersTake time: Duration) -> [SendOrder] {
    var limits = UploadLimits()
    (limits.followsLine, limits.adaptsChunkBytes) = (true, true)
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 1 << 20) { $0.takesRuns = true }
    harness.offers = DestinationOffers(encodings: [.identity], runBytesMax: 1 << 25)
    harness.know(lineOf: bytesPerSecond)
    harness.handle(.scanEnded)
    harness.write(ImaginaryFile(2, "b.mov", size: 1 << 30))
    for _ in 0..<3 {
      harness.advance(by: time)
      for request in harness.sent where !request.order.carriesChunk {
        harness.answer(ScheduleHarness.success(of: request.order)) { $0 == request.order }
      }
      harness.answerReads()
    }
    for _ in 0..<20 { harness.advance(by: .milliseconds(10)) }
    return harness.sent.map(\.order).filter(\.carriesChunk)
  }

  /// Regression: of two streams both waited for their answers now and then, and a line of 1 Mbit/s was empty.
  @Test func aLineThatIsNotAmongTheSlowest_hasFourStreams() {
    #expect(requests(30_000, answersTake: .milliseconds(20)).count == 2)
    #expect(requests(115_000, answersTake: .milliseconds(20)).count == 4)
  }

  /// Regression: eight streams that waited for their answers for 0.6 s left a line of 20 Mbit/s empty for a fifth of the time.
  @Test func whereAnswersTakeLong_otherRequestsGoOutBesideThoseThatWait() {
    #expect(requests(2_000_000, answersTake: .milliseconds(20)).count == 8)
    #expect(requests(2_000_000, answersTake: .milliseconds(600)).count == 12)
  }

  /// Regression: files of 100 KB used 0.7 of 100 Mbit/s at 50 ms: of twelve requests a third waited for their answers.
  @Test(arguments: [(50, 13...24), (0, 12...12)])
  func onALongLine_moreFilesThatGoWholeAreOnTheirWay(answerMilliseconds: Int, requests: ClosedRange<Int>) {
    var limits = UploadLimits()
    (limits.followsLine, limits.adaptsChunkBytes, limits.rampDelay) = (true, true, .zero)
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 1 << 20) { $0.takesRuns = true }
    harness.offers = DestinationOffers(encodings: [.identity], runBytesMax: 1 << 25)
    harness.know(lineOf: 10_000_000)
    harness.handle(.scanEnded)
    for number in 2..<80 { harness.write(ImaginaryFile(UInt64(number), "\(number).jpg", size: 100_000)) }
    for _ in 0..<3 {
      harness.advance(by: .milliseconds(answerMilliseconds))
      for request in harness.sent where !request.order.carriesChunk && !request.order.isWholeFile {
        harness.answer(ScheduleHarness.success(of: request.order)) { $0 == request.order }
      }
      harness.answerReads()
    }
    #expect(requests.contains(harness.sent.count { $0.order.isWholeFile }))
  }

  @Test func eachChunkIsAnsweredForItself() {
    var harness = sending()
    harness.answerChunk(0, .chunkStored)
    answerRun(
      &harness,
      .each([.chunkStored, .refused(StepFailure(.digestMismatch, "damaged")), .chunkStored, .chunkStored]))
    #expect(harness.status(file.id)?.chunks.done == 4 && harness.status(file.id)?.chunks.retried == 1)
    // It is sent again.
    harness.advance(by: .seconds(20))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test func anAnswerForFewerChunksThanWereSent_isNone() {
    var harness = sending()
    harness.answerChunk(0, .chunkStored)
    answerRun(&harness, .each([.chunkStored, .chunkStored]))
    #expect(harness.status(file.id)?.chunks.done == 1 && harness.status(file.id)?.chunks.retried == 4)
  }

  /// What arrived whole before a connection broke is not sent again.
  @Test func ofARunThatBreaksOff_theServerIsAskedWhatItHas() {
    var harness = sending()
    harness.answerChunk(0, .chunkStored)
    answerRun(&harness, StepFailure.connection(.connectionLost))
    #expect(harness.sent.contains { $0.order.isQuery })
    let offsets: [UInt64] = [0, 12_000, 13_000]
    let digests = LookupTable(
      offsets.map { offset in
        (Int(offset / 1000), ScheduleHarness.digest(file: file.id, epoch: 1, offset: offset).sha256)
      })
    harness.answer(.held(digests: digests)) { $0.isQuery }
    var sentAgain: [Int] = []
    for _ in 0..<40 where !harness.schedule.isIdle {
      harness.advance(by: .seconds(1))
      harness.answerReads()
      while let order = harness.sent.first?.order {
        sentAgain += order.chunks?.chunks.map(\.index).filter { (12...15).contains($0) } ?? []
        harness.answer(ScheduleHarness.success(of: order)) { _ in true }
        harness.answerReads()
        harness.record()
      }
    }
    #expect(sentAgain.sorted() == [14, 15] && harness.state(file.id) == .complete)
  }

  /// What has failed in a run goes alone, and comes with no other.
  @Test func whatHasFailed_goesAlone() {
    var harness = sending()
    for index in 0..<4 { harness.answerChunk(index, StepFailure.connection(.connectionLost)) }
    for _ in 0..<30 {
      harness.advance(by: .seconds(1))
      harness.answerReads()
      while let order = harness.sent.first?.order {
        if let chunks = order.chunks?.chunks, chunks.contains(where: { $0.index < 4 }) { #expect(chunks.count == 1) }
        harness.answer(ScheduleHarness.success(of: order)) { _ in true }
        harness.answerReads()
        harness.record()
      }
    }
    #expect(harness.state(file.id) == .complete)
  }

  /// A server that was exchanged for an older one, or something before it that knows no such request.
  @Test func refusedAsSuch_chunksGoOneByOneForAWhile_andAreNoTries() {
    var harness = sending()
    var index = 0
    func acknowledge() {
      harness.answerChunk(index, .chunkStored)
      index += 1
    }
    for rest in [30, 60] {
      acknowledge()
      #expect(run(harness).count > 1)
      // Several that are refused together are one refusal.
      acknowledge()
      while !run(harness).isEmpty {
        answerRun(&harness, .refused(StepFailure(.sessionGone, "404")))
        harness.answerReads()
      }
      #expect(harness.status(file.id)?.chunks.retried == 0 && harness.sent.allSatisfy { !$0.order.isOpenSession })
      harness.advance(by: .seconds(rest - 1))
      acknowledge()
      #expect(run(harness).isEmpty, "\(rest) s")
      harness.advance(by: .seconds(1))
    }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.destination.forms.mayFormRuns(at: harness.now.monotonic))
  }

  /// Something on the way breaks off each request with several chunks, and takes single ones.
  @Test func brokenOffAgainAndAgain_chunksGoOneByOne() {
    var harness = sending()
    var broken = 0
    for _ in 0..<200 where !harness.schedule.isIdle {
      harness.answerReads()
      guard let request = harness.sent.first else {
        harness.advance(by: .milliseconds(500))
        continue
      }
      harness.advance(by: .milliseconds(1))
      if case .run = request.order {
        broken += 1
        harness.answer(StepFailure.connection(.connectionLost)) { $0 == request.order }
      } else {
        harness.answer(ScheduleHarness.success(of: request.order)) { $0 == request.order }
      }
      harness.record()
    }
    #expect(harness.state(file.id) == .complete && broken <= 24, "\(broken)")
  }

  /// The list that the server makes of what it holds may be older than an acknowledgement that comes before it.
  @Test func whatIsAcknowledgedWhileTheServerIsAsked_isNotLost() {
    var harness = sending()
    for index in 0..<2 { harness.answerChunk(index, .chunkStored) }
    let runs = harness.sent.compactMap { if case .run = $0.order { $0.order } else { nil } }
    #expect(runs.count == 2)
    harness.answer(StepFailure.connection(.connectionLost)) { $0 == runs[0] }
    #expect(harness.sent.contains { $0.order.isQuery })
    let count = runs[1].chunks?.chunks.count ?? 0
    harness.answer(.each(Array(repeating: .chunkStored, count: count))) { $0 == runs[1] }
    let held = LookupTable(
      (0..<2).map { ($0, ScheduleHarness.digest(file: file.id, epoch: 1, offset: UInt64($0) * 1000).sha256) })
    harness.answer(.held(digests: held)) { $0.isQuery }
    #expect(harness.status(file.id)?.chunks.done == 2 + count)
    #expect(harness.schedule.files[file.id]?.progress.setbacks.losses == 0)
  }

  /// A proxy's limit is found without a try, and the session stays.
  @Test func tooLongForSomethingBefore_requestsAreShorter() {
    var limits = ScheduleHarness.standardLimits
    (limits.bufferBytes, limits.requestBytesLeast) = (4000, 500)
    var harness = ScheduleHarness(limits: limits) { $0.takesRuns = true }
    harness.offers = DestinationOffers(encodings: [.identity], runBytesMax: 1 << 25)
    harness.handle(.scanEnded)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStored)
    answerRun(&harness, .refused(StepFailure(.requestTooLarge, "413")))
    harness.answerReads()
    harness.answerChunk(1, .chunkStored)
    #expect(run(harness).count == 2 && harness.status(file.id)?.state == .uploading)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }
}

/// How much is on its way (docs/design/scheduling.md#the-line): small and few, growing within seconds.
@Suite struct FlightWindowTests {
  private static let quarter: Int64 = 250_000_000

  private func time(_ milliseconds: Int64) -> MonotonicTime {
    MonotonicTime(nanoseconds: 1_000_000_000_000 + milliseconds * 1_000_000)
  }

  @Test func itIsTwiceWhatArrivedInTwoSeconds_andNeverLessThanTheLeast() {
    var window = FlightWindow(bytesLeast: 1000)
    #expect(window.bytes(bytesPerSecond: nil, at: time(0)) == 2000)
    #expect(window.bytes(bytesPerSecond: 1, at: time(0)) == 1000)
    for step in 0..<40 { window.arrived(1000, at: time(Int64(step) * 100)) }
    let steady = window.bytes(bytesPerSecond: nil, at: time(3900))
    #expect((34_000...44_000).contains(steady), "\(steady)")
    #expect(window.bytes(bytesPerSecond: nil, at: time(10_000)) == 2000)
    #expect(window.bytes(bytesPerSecond: 50_000, at: time(10_000)) == 100_000)
  }

  /// Regression: on a line of 100 Mbit/s and 200 ms the second four streams began after five round trips. What an answer alone shows may
  /// have arrived for seconds.
  @Test func inTheFirstTwoSeconds_theFastestQuarterThatWasSeenCountsForAllOfThem() {
    var window = FlightWindow(bytesLeast: 1000)
    window.started(at: time(0))
    window.arrived(1000, at: time(300))
    window.arrived(3000, at: time(500))
    #expect(window.bytes(bytesPerSecond: nil, at: time(550)) == 2 * 8 * 3000)
    #expect(window.bytes(bytesPerSecond: 1, at: time(1900)) == 2 * 8 * 3000)
    window.answered(9000, at: time(1950))
    #expect(window.bytes(bytesPerSecond: nil, at: time(1950)) == 2 * 8 * 3000)
    #expect(window.bytes(bytesPerSecond: nil, at: time(2000)) == 2 * 13_000)
    window.ended(inFlight: 0)
    #expect(window.bytes(bytesPerSecond: nil, at: time(2000)) == 2 * 13_000)
  }

  private func harness(_ change: (inout UploadLimits) -> Void = { _ in }) -> ScheduleHarness {
    var limits = UploadLimits()
    limits.adaptsChunkBytes = true
    limits.followsLine = true
    limits.rampDelay = .zero
    change(&limits)
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 4 << 20) { $0.takesRuns = true }
    harness.offers = DestinationOffers(encodings: [.identity], runBytesMax: 32 << 20)
    harness.handle(.scanEnded)
    return harness
  }

  private func open(_ harness: inout ScheduleHarness, _ file: ImaginaryFile) {
    harness.write(file)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.answer(.sessionOpened(id: "s", chunkBytes: 256 << 10, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
  }

  private func bytesInFlight(_ harness: ScheduleHarness) -> Int {
    harness.sent.reduce(0) { $0 + ($1.order.chunks?.chunks.count ?? 0) } * (256 << 10)
  }

  @Test func ofALineThatIsNotKnown_littleIsOnItsWay_andTwiceAsMuchWithEachAnswer() {
    var harness = harness()
    open(&harness, ImaginaryFile(1, "a.mov", size: 600 << 20))
    #expect(harness.sent.count { $0.order.carriesChunk } == 4)
    var rounds: [Int] = []
    for _ in 0..<8 {
      for order in harness.sent.map(\.order) where order.carriesChunk {
        harness.answer(ScheduleHarness.success(of: order)) { $0 == order }
        harness.answerReads()
      }
      rounds.append(bytesInFlight(harness))
    }
    #expect(rounds[0] < 9 << 20 && rounds.max() ?? 0 > 16 << 20, "\(rounds)")
    #expect(harness.sent.count { $0.order.carriesChunk } == 12)
  }

  @Test func whatHasArrivedMakesRoom_beforeItIsAcknowledged() {
    var harness = harness()
    open(&harness, ImaginaryFile(1, "a.mov", size: 60 << 20))
    let requests = harness.sent.filter { $0.order.carriesChunk }.map(\.id)
    #expect(requests.count == 4)
    let arrived = LookupTable(requests.map { ($0, SentBody(bytes: 200 << 10, of: 256 << 10)) })
    harness.apply { $0.progressed(arrived, at: $1) }
    #expect(harness.sent.filter { $0.order.carriesChunk }.count > 4)
  }

  /// On a slow line a break takes at most what two seconds of it carry, or one chunk of each stream
  /// (docs/destinations.md, DE150).
  @Test func aSlowLine_hasShortRequests() {
    var harness = harness()
    open(&harness, ImaginaryFile(1, "a.mov", size: 60 << 20))
    // 1 Mbit/s: 256 KiB in two seconds.
    for round in 0..<40 {
      guard let order = harness.sent.first(where: { $0.order.carriesChunk })?.order else { break }
      harness.advance(by: .seconds(2 * (order.chunks?.chunks.count ?? 1)))
      harness.answer(ScheduleHarness.success(of: order)) { $0 == order }
      harness.answerReads()
      // The first ones go out before anything is known.
      #expect(bytesInFlight(harness) <= (round < 12 ? 4 << 20 : 1 << 20), "\(round)")
      #expect(round < 12 || harness.sent.allSatisfy { $0.order.chunks?.chunks.count ?? 1 == 1 })
    }
  }

  @Test func aFileThatTheLineDoesNotCarryInTwoSeconds_goesInChunks() {
    var harness = harness()
    harness.write(ImaginaryFile(1, "a.jpg", size: 1 << 20))
    harness.answerReads()
    #expect(harness.sent.contains { $0.order.isWholeFile })
    harness.write(ImaginaryFile(2, "b.jpg", size: 3 << 20))
    #expect(harness.sent.contains { $0.order.isOpenSession })
  }

  /// Regression: a file that was closed, begun and then grew kept its chunks, and failed for good at the first that
  /// was one too many; tries and restarts failed again.
  @Test(arguments: [(60 << 20, 256 << 10), (80 << 20, 1 << 20)])
  func aContentThatGrewBeyondTheChunksOfItsUpload_isBegunAnewWithLongerOnes(grownBytes: Int, chunkBytes: Int) throws {
    var harness = harness()
    harness = ScheduleHarness(limits: harness.schedule.limits, wholeFileBytesMax: 4 << 20) {
      $0.takesRuns = true
      $0.chunkCountMax = 300
    }
    harness.offers = DestinationOffers(encodings: [.identity], runBytesMax: 32 << 20)
    harness.handle(.scanEnded)
    open(&harness, ImaginaryFile(1, "a.log", size: 50 << 20))
    harness.answerChunk(0, .chunkStored)
    let grown = ImaginaryFile(1, "a.log", size: UInt64(grownBytes), epoch: 2)
    for event in [grown.opened, grown.changed, grown.settled] { harness.handle(event) }
    var openings: [Int] = []
    for _ in 0..<40 {
      openings += harness.sent.compactMap { request -> Int? in
        if case .openSession(let opening) = request.order { opening.chunkBytes } else { nil }
      }
      guard openings.isEmpty, let order = harness.sent.first?.order else { break }
      harness.answer(ScheduleHarness.success(of: order)) { $0 == order }
      harness.answerReads()
    }
    #expect(openings == (chunkBytes == 256 << 10 ? [] : [chunkBytes]))
  }

  @Test(arguments: [
    (64 << 20, 256 << 10), ((64 << 20) + 1, 1 << 20), (300_000_000_000, 1_507_328),
  ])
  func chunksAreShort_andLongerOnlyWhereTheFileIsTooLongForThem(sizeBytes: Int, chunkBytes: Int) {
    var harness = harness()
    harness = ScheduleHarness(limits: harness.schedule.limits, wholeFileBytesMax: 4 << 20) {
      $0.takesRuns = true
      $0.chunkCountMax = 200_000
    }
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: UInt64(sizeBytes))
    harness.write(file)
    let opening = harness.sent.lazy.compactMap { request -> SessionOpening? in
      if case .openSession(let opening) = request.order { opening } else { nil }
    }.first
    #expect(opening?.chunkBytes == chunkBytes)
  }
}

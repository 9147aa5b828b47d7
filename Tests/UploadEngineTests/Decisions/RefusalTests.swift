import FileModel
import Promises
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// Refusals that may pass: for how long, for whom, and at what cost (docs/destinations.md, DE144).
@Suite struct RefusalTests {
  private let busy = StepOutcome.refused(StepFailure(.busy, "come back"))

  private func harness(files: [ImaginaryFile], _ abilities: (inout DestinationAbilities) -> Void = { _ in })
    -> ScheduleHarness
  {
    var harness = ScheduleHarness(abilities: abilities)
    harness.apply { $0.handle(.scanEnded, at: $1) }
    for file in files { harness.write(file) }
    harness.answerReads()
    return harness
  }

  /// Runs for so long at a server that answers every question and takes no bytes; returns when each body went out.
  private func bodies(
    of harness: inout ScheduleHarness, for time: Duration, bodyTime: Duration = .milliseconds(10),
    by refusal: StepOutcome? = nil, refuses: (SendOrder) -> Bool = { $0.carriesChunk }
  ) -> [MonotonicTime] {
    let end = harness.now.monotonic + time
    var bodies: [MonotonicTime] = []
    while harness.now.monotonic < end {
      harness.answerReads()
      if let request = harness.sent.first {
        guard refuses(request.order) else {
          harness.answer(ScheduleHarness.success(of: request.order)) { _ in true }
          harness.record()
          continue
        }
        bodies.append(harness.now.monotonic)
        harness.advance(by: bodyTime)
        harness.answer(refusal ?? busy) { _ in true }
      } else if let next = harness.schedule.nextDeadline {
        harness.advance(by: max(next - harness.now.monotonic, .milliseconds(1)))
      } else {
        break
      }
    }
    return bodies
  }

  /// Regression: the answered question opened the gate and began the pauses anew, 40 full sends in 20 s.
  @Test func bodiesRefusedWhileQuestionsAreAnswered_pausesGrow() {
    var harness = harness(files: [ImaginaryFile(1, "a", size: 900)])
    harness.handle(ImaginaryFile(2, "open", size: 900).opened)
    #expect(bodies(of: &harness, for: .seconds(120)).count <= 20)
  }

  /// Regression: the same of a large file: all parallel chunks went out for each refusal.
  @Test func chunksRefusedWhileQuestionsAreAnswered_areTriedOneByOne() {
    var harness = harness(files: [ImaginaryFile(1, "a", size: 50_000)])
    let bodies = bodies(of: &harness, for: .seconds(120), refuses: \.isChunk)
    #expect(bodies.count <= 12 + 25)
  }

  /// Regression: a try that takes long is followed by a pause of ten times as long.
  @Test func refusedBodiesThatTakeLong_costATenthOfTheTime() {
    var harness = harness(files: [ImaginaryFile(1, "a", size: 900)])
    let bodies = bodies(of: &harness, for: .seconds(7200), bodyTime: .seconds(20))
    #expect(bodies.count <= 2 + 7200 / 200)
    #expect(bodies.count >= 2, "it is asked for ever")
    let pauses = zip(bodies, bodies.dropFirst()).map { $1 - $0 }
    #expect((pauses.max() ?? .zero) <= .seconds(3700))
  }

  /// Regression: many files at a destination that takes none.
  @Test func manyFilesRefused_oneIsTriedAtATime_theSmallestFirst() {
    var harness = harness(files: (1...40).map { ImaginaryFile($0, "f\($0)", size: 1000 - $0) })
    let bodies = bodies(of: &harness, for: .seconds(60), bodyTime: .milliseconds(100))
    #expect(bodies.count <= 12 + 30)
    #expect(!harness.schedule.destination.gate.isOpen)
    #expect((1...40).allSatisfy { harness.state(ImaginaryFile($0, "", size: 0).id) == .waiting })
    harness.advance(by: .seconds(3600))
    harness.succeed()
    harness.advance(by: .seconds(3600))
    harness.succeed()
    #expect((1...40).allSatisfy { harness.state(ImaginaryFile($0, "", size: 0).id) == .complete })
  }

  /// Regression: what a gateway or a captive portal answers to everything for hours ended every file at S3 and forms.
  @Test(arguments: [StepFailure.Kind.serverError, .misdirected])
  func whatIsSaidOfTheDestination_endsNoFile_andOneIsTriedAtATime(kind: StepFailure.Kind) {
    let files = [900, 700, 800, 600, 500].map { ImaginaryFile($0, "f\($0)", size: $0) }
    var harness = harness(files: files)
    let refusal = StepOutcome.refused(StepFailure(kind, "Bad gateway"))
    let bodyTime: Duration = .seconds(3)
    let bodies = bodies(of: &harness, for: .seconds(6 * 3600), bodyTime: bodyTime, by: refusal)
    #expect(!harness.schedule.destination.gate.isOpen)
    #expect(files.allSatisfy { harness.state($0.id) != .failed })
    let pauses = zip(bodies, bodies.dropFirst()).map { $1 - $0 }
    #expect(pauses.suffix(3).allSatisfy { $0 >= bodyTime * 10 && $0 <= .seconds(3700) }, "\(pauses)")
    for file in files {
      harness.deliver(file.id, for: .seconds(3 * 3600))
      #expect(harness.state(file.id) == .complete)
    }
  }

  /// Regression: 503 with a long Retry-After for one name held up all others.
  @Test func oneRefusedFile_holdsUpNoOther() {
    var harness = harness(files: [ImaginaryFile(1, "refused", size: 900)])
    harness.answer(.refused(StepFailure(.busy, "not this one", retryAfter: .seconds(60)))) { $0.isWholeFile }
    let others = (2...32).map { ImaginaryFile($0, "f\($0)", size: 900) } + [ImaginaryFile(33, "large", size: 50_000)]
    for file in others { harness.write(file) }
    harness.succeed()
    #expect(others.allSatisfy { harness.state($0.id) == .complete })
    #expect(harness.state(ImaginaryFile(1, "", size: 0).id) == .waiting)
    harness.advance(by: .seconds(61))
    harness.succeed()
    #expect(harness.state(ImaginaryFile(1, "", size: 0).id) == .complete)
  }

  /// Regression: several refused names held up a good file for longer than a minute.
  @Test func severalRefusedNames_oneProbeGoesOnWithAnother() {
    let refused = (1...5).map { ImaginaryFile($0, "refused\($0)", size: 900) }
    let good = ImaginaryFile(9, "good", size: 50_000)
    var harness = harness(files: refused + [good])
    let names = Set(refused.map(\.id))
    _ = bodies(of: &harness, for: .seconds(20)) { order in
      guard case .wholeFile(let whole) = order else { return false }
      return names.contains(whole.file)
    }
    #expect(harness.state(good.id) == .complete)
    #expect(refused.allSatisfy { harness.state($0.id) == .waiting })
  }

  /// Three small files that are refused, so that the gate is closed: the last one asks for a minute, the others wait for less.
  private func closedGate(smallFileBytes: Int) -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.smallFileBytes = smallFileBytes
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    for number in 1...3 { harness.write(ImaginaryFile(UInt64(number), "refused-\(number)", size: 400)) }
    while harness.answer(.warmed, where: \.isPrewarm) != nil {}
    harness.answerReads()
    for _ in 1...2 { harness.answer(busy) { $0.isWholeFile } }
    harness.answer(.refused(StepFailure(.busy, "come back", retryAfter: .seconds(60)))) { $0.isWholeFile }
    #expect(!harness.schedule.destination.gate.isOpen)
    harness.advance(by: .seconds(30))
    harness.answerReads()
    #expect(harness.sent.isEmpty)
    return harness
  }

  /// Regression: small files that were refused were tried before a longer one that was not tried at all, each time.
  @Test(.promises("DE144"), arguments: [450, 900, 50_000] as [UInt64])
  func whatWasNeverTried_isTheProbe_beforeWhatWasRefused(size: UInt64) throws {
    var harness = closedGate(smallFileBytes: 500)
    let untried = ImaginaryFile(9, "untried", size: size)
    harness.write(untried)
    harness.answerReads()
    harness.advance(by: .seconds(31))
    while harness.answer(.warmed, where: \.isPrewarm) != nil {}
    #expect(harness.sent.count == 1)
    #expect(harness.sent.first?.order.file == untried.id)
    // Refused as well, it is one of them, and the smallest is tried.
    if harness.sent.first?.order.isOpenSession ?? false { harness.openSession() }
    #expect(harness.answer(busy) { $0.carriesChunk } != nil)
    for _ in 0..<120 where harness.sent.isEmpty {
      harness.advance(by: .seconds(1))
      while harness.answer(.warmed, where: \.isPrewarm) != nil {}
      harness.answerReads()
    }
    let next = try #require(harness.sent.first?.order.file)
    #expect(harness.sent.count == 1 && next != untried.id)
    harness.succeed()
    harness.advance(by: .seconds(60))
    harness.succeed()
    #expect(harness.state(untried.id) == .complete)
  }

  /// Regression: a small file that is written anew all the time, and refused each time, had no attempts whenever one was tried for all.
  @Test(.promises("DE144")) func whatIsRewrittenAndRefused_isTheProbeOnce() {
    var harness = closedGate(smallFileBytes: 500)
    let good = ImaginaryFile(9, "good", size: 900)
    harness.write(good)
    for epoch in 2...10 as ClosedRange<UInt64> where harness.state(good.id) != .complete {
      let rewritten = ImaginaryFile(1, "refused-1", size: 100, epoch: epoch)
      for event in [rewritten.opened, rewritten.changed, rewritten.settled] { harness.handle(event) }
      harness.answerReads()
      harness.advance(by: .seconds(61))
      while harness.answer(.warmed, where: \.isPrewarm) != nil {}
      while let request = harness.sent.first {
        harness.answer(request.order.file == good.id ? ScheduleHarness.success(of: request.order) : busy) { _ in true }
        harness.record()
      }
    }
    #expect(harness.state(good.id) == .complete)
  }

  /// Regression: the session of an open file that was refused is asked for again, and nothing else waits for it.
  @Test func sessionOfAnOpenFileRefused_isOpenedLater() {
    var harness = harness(files: [])
    let file = ImaginaryFile(1, "a", size: 50_000)
    harness.handle(file.opened)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.advance(by: .milliseconds(20))
    #expect(harness.answer(busy) { $0.isOpenSession } != nil)
    #expect(harness.schedule.destination.gate.isOpen)
    harness.advance(by: .milliseconds(100))
    #expect(!harness.sent.contains { $0.order.isOpenSession })
    harness.advance(by: .seconds(1))
    #expect(harness.sent.contains { $0.order.isOpenSession })
  }

  /// Regression (simulation, draft 812353700): the first answer after a start was a 404 of something in between, and the
  /// file failed at an address that had taken uploads a second before.
  @Test(arguments: [true, false])
  func addressThatIsNotThere_failsAFileOnlyWhereItWasNever(isProven: Bool) throws {
    var earlier = harness(files: [])
    let delivered = ImaginaryFile(1, "a.mov", size: 3000)
    earlier.write(delivered)
    if isProven { earlier.deliver(delivered.id) }
    let entry = try #require(earlier.schedule.catalogEntry(of: delivered.id))
    var harness = ScheduleHarness()
    harness.schedule.recover(RecoveredUploads(catalog: [entry], records: []))
    let file = ImaginaryFile(2, "b.mov", size: 50_000)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    let refusal = StepOutcome.refused(StepFailure(.addressRefused, "not here"))
    let end = harness.now.monotonic + .seconds(300)
    while harness.now.monotonic < end {
      if harness.answer(refusal, where: { _ in true }) == nil { harness.advance(by: .milliseconds(500)) }
    }
    #expect((harness.state(file.id) == .failed) == !isProven)
    guard isProven else { return }
    harness.deliver(file.id, for: .seconds(60))
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: Retry-After of nothing does not shorten the own pauses.
  @Test func retryAfterOfZero_doesNotShortenThePauses() {
    var random: any RandomNumberGenerator & Sendable = SplitMix(seed: 1)
    let policy = RetryPolicy()
    #expect(policy.delay(after: nil, retryAfter: .zero, using: &random) >= policy.baseDelay)
    #expect(policy.delay(after: nil, retryAfter: .seconds(1_000_000), using: &random) == .seconds(3600))
  }

  /// Regression: each file that was opened before the first answer brought its own wave of connections.
  @Test(arguments: [
    TransportError.Kind.certificateRefused, .pinMismatch, .transparencyRefused, .certificateRevoked, .stapleMissing,
  ])
  func wrongCertificate_isTriedWithGrowingPauses_alsoByWarming(kind: TransportError.Kind) {
    var harness = harness(files: [])
    for number in 1...6 { harness.handle(ImaginaryFile(UInt64(number), "f\(number)", size: 5000).opened) }
    var tries = 0
    let end = harness.now.monotonic + .seconds(60)
    while harness.now.monotonic < end {
      harness.answerReads()
      if harness.sent.isEmpty {
        guard let next = harness.schedule.nextDeadline else { break }
        harness.advance(by: max(next - harness.now.monotonic, .milliseconds(1)))
      } else {
        tries += 1
        harness.answer(StepFailure.connection(kind)) { _ in true }
      }
    }
    #expect(tries <= 25)
  }

  /// Regression: where every other answer was a failure, each good one brought another wave of connections, hundreds in a
  /// moment.
  @Test func answersThatTakeTurns_doNotBringWavesOfConnections() {
    var harness = harness(files: [])
    var file = ImaginaryFile(1, "a.mov", size: 0)
    harness.handle(file.opened)
    harness.answer(.warmed) { $0.isPrewarm }
    file.snapshot.sizeBytes = 50_000
    let snapshot = file.snapshot
    harness.apply { $0.measured(snapshot, at: $1) }
    var tries = 0
    while tries < 200, harness.sent.contains(where: { $0.order.isPrewarm }) {
      tries += 1
      harness.answer(tries.isMultiple(of: 2) ? .warmed : .refused(StepFailure(.serverError, "Bad gateway"))) {
        $0.isPrewarm
      }
    }
    #expect(tries <= 5 * 12)
    // They are warmed again when they are looked at.
    harness.advance(by: UploadConstants.keepAliveInterval)
    #expect(harness.sent.contains { $0.order.isPrewarm })
  }

  /// Regression: what was read of a file that the server has no room for was kept while it waited, and left no buffer for
  /// any other one.
  @Test func fileThatWaitsForRoom_holdsNoBuffers() {
    let huge = ImaginaryFile(1, "huge", size: 60_000)
    var harness = harness(files: [huge])
    let full = StepOutcome.refused(StepFailure(.insufficientStorage, "full"))
    for _ in 0..<3 {
      harness.answerReads()
      while harness.answer(full, where: { $0.isOpenSession }) != nil {}
      #expect(harness.schedule.memory.buffers.isEmpty)
      harness.advance(by: .seconds(30))
    }
    while harness.answer(full, where: { $0.isOpenSession }) != nil {}
    let other = ImaginaryFile(2, "other", size: 5000)
    harness.write(other)
    harness.answerReads()
    harness.deliver(other.id, for: .seconds(1))
    #expect(harness.state(other.id) == .complete && harness.state(huge.id) == .waiting)
  }

  /// Regression: the summary had no error and no next attempt while files waited each by itself, as for a quota.
  @Test func filesThatWait_areExplainedInTheSummary() {
    let first = ImaginaryFile(1, "first", size: 60_000)
    var harness = harness(files: [first])
    #expect(
      harness.schedule.summary(at: harness.now).shownFailure == nil
        && harness.schedule.summary(at: harness.now).shownAttemptMilliseconds == nil)
    let full = StepOutcome.refused(StepFailure(.insufficientStorage, "full"))
    harness.answerReads()
    while harness.answer(full, where: { $0.isOpenSession }) != nil {}
    let summary = harness.schedule.summary(at: harness.now)
    #expect(harness.state(first.id) == .waiting)
    #expect(summary.shownFailure?.message == "full" && summary.shownAttemptMilliseconds != nil)
    // The destination is well: others go on.
    #expect(summary.lastFailure == nil)
    harness.advance(by: .seconds(30))
    for _ in 0..<600 where harness.state(first.id) != .complete {
      harness.advance(by: .milliseconds(100))
      harness.answerReads()
      harness.succeed()
    }
    #expect(harness.state(first.id) == .complete && harness.schedule.summary(at: harness.now).shownFailure == nil)
  }

  /// Regression (simulation, quota 6800001215): with room for one chunk at a time all chunks of a file went out each half second, and all
  /// but one for nothing.
  @Test func fileWhoseChunksHaveNoRoom_goesOnWithOneChunk() {
    let file = ImaginaryFile(1, "a.mov", size: 20_000)
    var harness = harness(files: [file])
    harness.answerReads()
    harness.openSession()
    harness.answerReads()
    let full = StepOutcome.refused(StepFailure(.insufficientStorage, "full"))
    func chunksInFlight() -> Int { harness.sent.count { $0.order.isChunk } }
    #expect(chunksInFlight() > 2)
    while harness.answer(full, where: { $0.isChunk }) != nil {}
    for _ in 0..<5 {
      for _ in 0..<600 where chunksInFlight() == 0 {
        harness.advance(by: .milliseconds(100))
        harness.answerReads()
      }
      #expect(chunksInFlight() == 1)
      // Room for one, and for none of the two that follow.
      harness.answer(.chunkStored) { $0.isChunk }
      harness.answerReads()
      #expect(chunksInFlight() == 2)
      while harness.answer(full, where: { $0.isChunk }) != nil {}
    }
    for _ in 0..<600 where harness.state(file.id) != .complete {
      harness.advance(by: .milliseconds(100))
      harness.succeed()
    }
    #expect(harness.state(file.id) == .complete)
  }

  /// Regression: “too many open uploads” for large files kept small ones waiting, which need none.
  @Test func refusedOpenings_holdUpNoWholeFiles() {
    let large = (1...6).map { ImaginaryFile(UInt64($0), "large-\($0)", size: 30_000) }
    var harness = harness(files: large)
    let small = (10...14).map { ImaginaryFile(UInt64($0), "small-\($0)", size: 900) }
    var openings = 0
    for second in 0..<60 {
      if second < small.count { harness.write(small[second]) }
      harness.answerReads()
      while let request = harness.sent.first {
        if request.order.isOpenSession {
          openings += 1
          harness.answer(busy) { $0.isOpenSession }
        } else {
          harness.answer(ScheduleHarness.success(of: request.order)) { _ in true }
          harness.record()
        }
        harness.answerReads()
      }
      harness.advance(by: .seconds(1))
    }
    for file in small { #expect(harness.state(file.id) == .complete) }
    #expect((6...25).contains(openings), "\(openings)")
    // Once it begins uploads again, all go on.
    for file in large {
      harness.deliver(file.id, for: .seconds(120))
      #expect(harness.state(file.id) == .complete)
    }
  }
}

extension SendOrder {
  /// The file that it is about, where it is about one.
  fileprivate var file: FileID? {
    switch self {
    case .openSession(let opening): opening.fileID
    case .wholeFile(let whole): whole.file
    default: nil
    }
  }
}

extension ScheduleHarness {
  /// Everything is taken from now on, until the file is delivered or the time is over; but for requests that are to stay.
  fileprivate mutating func deliver(
    _ id: FileID, for time: Duration = .seconds(30), leaving stays: (SendOrder) -> Bool = { _ in false }
  ) {
    let end = now.monotonic + time
    while now.monotonic < end, state(id) != .complete {
      answerReads()
      if let request = sent.first(where: { !stays($0.order) }) {
        answer(ScheduleHarness.success(of: request.order)) { !stays($0) }
        record()
      } else {
        advance(by: .milliseconds(100))
      }
    }
  }
}

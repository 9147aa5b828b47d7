import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// Small files: alone while nothing else is under way, several in one request where they come faster than requests end.
@Suite struct SmallFilesTests {
  private static let size: UInt64 = 40_000

  private func harness(filesPerRequest: Int? = 64, followsLine: Bool = false) -> ScheduleHarness {
    var limits = UploadLimits()
    limits.rampDelay = .zero
    limits.followsLine = followsLine
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 1 << 20)
    harness.handle(.scanEnded)
    guard let filesPerRequest else { return harness }
    harness.offers = DestinationOffers(filesPerRequest: filesPerRequest)
    harness.handle(ImaginaryFile(999, "first", size: 1).opened)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.handle(.removed(ImaginaryFile(999, "first", size: 1).id))
    return harness
  }

  private func close(_ files: [ImaginaryFile], _ harness: inout ScheduleHarness) {
    for file in files {
      harness.handle(file.opened)
      harness.handle(file.settled)
    }
    harness.answerReads()
  }

  private func files(_ numbers: ClosedRange<UInt64>, size: UInt64 = size) -> [ImaginaryFile] {
    numbers.map { ImaginaryFile($0, "f\($0)", size: size) }
  }

  /// The file that went alone has arrived.
  private func answerFirst(_ harness: inout ScheduleHarness) {
    guard let first = harness.sent.first(where: { $0.order.carriesChunk }) else {
      Issue.record("no file is under way")
      return
    }
    harness.answer(ScheduleHarness.success(of: first.order)) { $0 == first.order }
  }

  /// How many files each request carries that is under way.
  private func carried(_ harness: ScheduleHarness) -> [Int] {
    harness.sent.compactMap { request in
      switch request.order {
      case .wholeFile: 1
      case .bundle(let files): files.count
      default: nil
      }
    }
  }

  @Test func withoutAnOffer_eachGoesAlone() {
    var harness = harness(filesPerRequest: nil)
    close(files(1...40), &harness)
    #expect(carried(harness) == Array(repeating: 1, count: 12), "as many as there may be requests")
    harness.succeed()
    #expect(harness.schedule.isIdle)
  }

  @Test func theFirstDoesNotWait_othersGatherBehindIt_andGoTogetherWhenItEnds() {
    var harness = harness()
    close(files(1...11), &harness)
    #expect(carried(harness) == [1])
    answerFirst(&harness)
    #expect(carried(harness) == [10])
    harness.succeed()
    #expect(harness.schedule.isIdle)
    #expect(harness.buffers.isEmpty)
  }

  /// Regression, found by the simulation (black-hole, seed 3100271108): a file that travels with others has no watchdog. It went
  /// over the connections that had swallowed it again and again, for minutes.
  @Test func filesThatHangTogether_goOverNewConnections() {
    var harness = harness()
    close(files(1...3), &harness)
    answerFirst(&harness)
    #expect(carried(harness) == [2])
    harness.advance(by: .seconds(31))
    // After a look at how far they are.
    harness.advance(by: .milliseconds(1))
    harness.endCancelled()
    harness.advance(by: .seconds(1))
    harness.answerReads()
    let again = harness.sent.filter { $0.order.carriesChunk }
    #expect(!again.isEmpty)
    for request in again { #expect(harness.connectingAnew.contains(request.id)) }
  }

  @Test func many_areWorthARequestBesideTheOnesUnderWay_upToABound() {
    var harness = harness()
    close(files(1...60), &harness)
    #expect(carried(harness) == [1, 16, 16, 16])
    #expect(harness.chunkRequestsMax == harness.schedule.limits.parallelSmallRequests)
  }

  /// On a long way a file does not wait for the answer to another one.
  @Test func noFileWaitsLongForABundle() {
    var harness = harness()
    close(files(1...3), &harness)
    #expect(carried(harness) == [1])
    harness.advance(by: UploadConstants.bundlePatience)
    #expect(carried(harness) == [1, 2])
  }

  @Test func aRequestCarriesNoMoreThanOffered() {
    var harness = harness(filesPerRequest: 5)
    close(files(1...20), &harness)
    answerFirst(&harness)
    #expect(carried(harness).max() == 5)
  }

  @Test func onASlowLink_aRequestCarriesNoMoreThanAChunkThere() {
    var harness = harness()
    harness.know(lineOf: 100_000)
    close(files(1...15, size: 65_000), &harness)
    close(files(16...60, size: 65_000), &harness)
    answerFirst(&harness)
    #expect(carried(harness).max() == SpeedTier.slow.chunkBytes / 65_000)
  }

  /// Regression: a request with many files took minutes of a slow line, and all of them were lost when it broke off.
  @Test func aRequestCarriesNoMoreFilesThanTheLineTakesInAMoment() {
    let kilobitsPerSecond: [(Double, Int)] = [(256, 1), (1000, 1), (5000, 3), (20_000, 15), (1_000_000, 16)]
    for (speed, count) in kilobitsPerSecond {
      var harness = harness(followsLine: true)
      harness.schedule.link.recall(.init(bytesPerSecond: speed * 125, variance: 1, sampleCount: 10))
      close(files(1...60), &harness)
      #expect(carried(harness) == [1, count, count, count], "\(speed) kbit/s")
      harness.succeed()
      #expect(harness.schedule.isIdle && harness.buffers.isEmpty)
    }
  }

  @Test func onALineOfWhichNothingIsKnown_requestsAreShort_andFollowWhatArrives() {
    var harness = harness(followsLine: true)
    close(files(1...60), &harness)
    #expect(carried(harness) == [1, 3, 3, 3])
    harness.schedule.link.arrived(20_000_000, at: harness.now.monotonic)
    answerFirst(&harness)
    #expect(carried(harness) == [3, 3, 3, 50])
  }

  /// A line that was fast and has become slow: the estimate is an old one, and requests that are short add nothing to it.
  @Test func whatALineHasJustTaken_countsBeforeWhatItTookOnce() {
    var harness = harness(followsLine: true)
    harness.schedule.link.recall(.init(bytesPerSecond: 10_000_000, variance: 1, sampleCount: 10))
    close(files(1...20), &harness)
    #expect(harness.schedule.bundleBytes(at: harness.now) > 2_000_000)
    harness.advance(by: .seconds(1))
    harness.schedule.link.arrived(400_000, at: harness.now.monotonic)
    harness.advance(by: .seconds(1))
    #expect(harness.schedule.bundleBytes(at: harness.now) == 100_000)
    harness.succeed()
    #expect(harness.schedule.bundleBytes(at: harness.now) > 2_000_000, "it has nothing to carry, and may take more")
  }

  /// It is unknown which one is at fault: each is sent alone, and gets an answer of its own.
  @Test func whenARequestIsRefusedAsAWhole_eachOfItsFilesIsSentAlone() {
    var harness = harness()
    close(files(1...20), &harness)
    answerFirst(&harness)
    #expect(carried(harness).last ?? 0 > 1)
    while harness.sent.first?.order.isWholeFile == true { answerFirst(&harness) }
    harness.answer(.refused(StepFailure(.badRequest, "what is this?"))) { $0.carriesChunk }
    harness.answerReads()
    #expect(carried(harness).filter { $0 > 1 } == [3], "those that were under way beside them")
    harness.succeed()
    #expect(files(1...20).allSatisfy { harness.state($0.id) == .complete })
  }

  @Test func oneOfThemIsRefused_theOthersAreDelivered() {
    var harness = harness()
    close(files(1...8), &harness)
    answerFirst(&harness)
    guard case .bundle(let members)? = harness.sent.first?.order else {
      Issue.record("no request with several files")
      return
    }
    var answers = members.map { ScheduleHarness.success(of: .wholeFile($0)) }
    answers[2] = .refused(StepFailure(.nameRefused, "not this name"))
    harness.answer(.each(answers)) { $0.carriesChunk }
    harness.record()
    for (index, member) in members.enumerated() {
      #expect(harness.state(member.file) == (index == 2 ? .failed : .complete))
    }
  }

  @Test func anAnswerForOtherNumbersOfFiles_isNoneForAny() {
    var harness = harness()
    close(files(1...8), &harness)
    answerFirst(&harness)
    harness.answer(.each([])) { $0.carriesChunk }
    harness.record()
    #expect(files(1...8).filter { harness.state($0.id) == .complete }.count == 1)
  }

  /// What concerns the destination as a whole pauses everything, as it does when a file alone is told.
  @Test func aMemberIsToldThatTheReceiverIsBusy_everythingPauses() {
    var harness = harness()
    close(files(1...8), &harness)
    answerFirst(&harness)
    let failure = StepFailure(.busy, "come back")
    harness.answer(.each(Array(repeating: .refused(failure), count: 7))) { $0.carriesChunk }
    #expect(!harness.schedule.destination.gate.isOpen)
    harness.answerReads()
    #expect(harness.sent.isEmpty)
  }

  @Test func twoFilesOfOneName_doNotTravelTogether() {
    var harness = harness()
    close(files(1...4), &harness)
    close([ImaginaryFile(5, "same", size: 100), ImaginaryFile(6, "same", size: 100)], &harness)
    answerFirst(&harness)
    #expect(carried(harness) == [4])
    harness.succeed()
    #expect(harness.state(ImaginaryFile(6, "same", size: 100).id) == .complete)
  }

  @Test func aFileThatChangesOnTheWay_isSentAgain() {
    var harness = harness()
    close(files(1...8), &harness)
    answerFirst(&harness)
    var changed = ImaginaryFile(7, "f7", size: Self.size)
    changed.snapshot.epoch = 2
    harness.handle(changed.changed)
    harness.handle(changed.settled)
    harness.answerReads()
    #expect(carried(harness) == [7], "not beside the older content")
    harness.succeed()
    #expect(harness.status(changed.id)?.revision == 2)
    #expect(harness.schedule.isIdle)
    #expect(harness.buffers.isEmpty)
  }

  /// A file that is held open must not keep a buffer from all the others.
  @Test func aFileThatIsOpenedAgain_givesItsBufferBack_andComesBackWhenClosed() {
    var harness = harness()
    close(files(1...4), &harness)
    let held = ImaginaryFile(5, "held", size: Self.size)
    close([held], &harness)
    #expect(harness.smallBuffers.count == 5)
    harness.handle(held.opened)
    answerFirst(&harness)
    #expect(harness.smallBuffers.count == 3)
    harness.handle(held.settled)
    harness.answerReads()
    harness.succeed()
    #expect(harness.state(held.id) == .complete)
  }

  @Test func aRemovedMember_leavesTheOthersAlone() {
    var harness = harness()
    close(files(1...8), &harness)
    answerFirst(&harness)
    harness.handle(.removed(files(6...6)[0].id))
    #expect(harness.cancelled.isEmpty)
    harness.succeed()
    #expect(harness.schedule.isIdle)
    #expect(harness.buffers.isEmpty)
  }

  /// Their buffers are their own: a large file whose chunks fill all others does not hold them up.
  @Test func theyAreReadWhileALargeFileHasEveryChunkBuffer() {
    var harness = harness()
    let large = ImaginaryFile(100, "large", size: 400 << 20)
    close([large], &harness)
    harness.answer(.sessionOpened(id: "s", chunkBytes: 4 << 20, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    #expect(harness.buffers.count == harness.schedule.limits.buffers)
    harness.handle(files(1...1)[0].opened)
    harness.handle(files(1...1)[0].settled)
    #expect(harness.reads.contains { $0.isSmall })
  }

  @Test func whenMemoryIsShort_fewerAreRead() {
    var harness = harness()
    harness.apply { $0.memoryChanged(to: MemoryBudget(availableBytes: 60_000_000), at: $1) }
    for file in files(1...60) {
      harness.handle(file.opened)
      harness.handle(file.settled)
    }
    #expect(harness.smallBuffers.count == 64 * 4 / 12)
  }

  /// While the destination is suspect one file is enough to ask with.
  @Test func aProbeCarriesOneFile() {
    var harness = harness()
    close(files(1...8), &harness)
    for _ in 0..<4 { harness.answer(.refused(StepFailure(.transport(.connectFailed), "away"))) { $0.carriesChunk } }
    harness.answerReads()
    harness.apply {
      $0.destination.gate.probeNext(at: $1.monotonic)
      $0.woke(at: $1)
    }
    #expect(carried(harness) == [1])
  }
}

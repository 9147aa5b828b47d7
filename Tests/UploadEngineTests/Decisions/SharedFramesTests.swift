import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Small files that travel together are compressed together, where that gains.
@Suite struct SharedFramesTests {
  private static let offers = DestinationOffers(
    encodings: [.identity, .lz4, .zstd], filesPerRequest: 64, takesSharedFrames: true)

  private func harness(_ setting: FileSettings.Compress, _ offers: DestinationOffers = offers, rule: String? = nil)
    throws
    -> ScheduleHarness
  {
    var limits = UploadLimits()
    limits.rampDelay = .zero
    limits.followsLine = false
    limits.rules.defaults.compress = setting
    if let rule { limits.rules.rules = [try FileRule(rule)] }
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: 1 << 20) { $0.takesSharedFrames = true }
    harness.handle(.scanEnded)
    harness.offers = offers
    harness.handle(ImaginaryFile(999, "first", size: 1).opened)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.handle(.removed(ImaginaryFile(999, "first", size: 1).id))
    return harness
  }

  private func files(_ numbers: ClosedRange<UInt64>, size: UInt64 = 700, _ ending: String = "json") -> [ImaginaryFile] {
    numbers.map { ImaginaryFile($0, "f\($0).\(ending)", size: size) }
  }

  /// Closes them, and answers the one that goes alone: the others are under way together.
  private func sendTogether(_ files: [ImaginaryFile], _ harness: inout ScheduleHarness) -> [WholeFileOrder] {
    for file in files {
      harness.handle(file.opened)
      harness.handle(file.settled)
    }
    harness.answerReads()
    if let first = harness.sent.first(where: { $0.order.isWholeFile }) {
      harness.answer(ScheduleHarness.success(of: first.order)) { $0 == first.order }
    }
    for request in harness.sent { if case .bundle(let members) = request.order { return members } }
    Issue.record("none travel together")
    return []
  }

  private func travelling(_ harness: ScheduleHarness) -> [SendOrder] {
    harness.sent.map(\.order).filter(\.carriesChunk)
  }

  /// The one that goes alone has arrived.
  private func answerWholeFile(_ harness: inout ScheduleHarness) {
    guard let order = travelling(harness).first(where: \.isWholeFile) else {
      Issue.record("none travels alone")
      return
    }
    harness.answer(ScheduleHarness.success(of: order)) { $0 == order }
  }

  private func answerBundle(_ frame: SharedFrame?, _ outcome: StepOutcome? = nil, _ harness: inout ScheduleHarness) {
    guard let index = harness.sent.firstIndex(where: { if case .bundle = $0.order { true } else { false } }) else {
      Issue.record("no request with several files")
      return
    }
    let request = harness.sent.remove(at: index)
    let offers = harness.offers
    harness.apply {
      $0.requestCompleted(
        request.id, outcome: outcome ?? ScheduleHarness.success(of: request.order),
        connection: HTTPConnectionMetrics(), offers: offers, sharedFrame: frame, at: $1)
    }
    harness.record()
  }

  @Test func filesThatTravelTogether_areCompressedTogether_andReadAsTheyAre() throws {
    var harness = try harness(.zstd)
    for file in files(1...9) { harness.write(file) }
    #expect(harness.reads.count == 9 && harness.reads[0].compression.zstd, "of the first no other was known")
    #expect(harness.reads.dropFirst().allSatisfy { !$0.mayCompress })
    let members = sendTogether(files(11...19), &harness)
    #expect(members.count > 1 && members.allSatisfy(\.sharesFrame))
  }

  /// What a filter may shorten is long enough for one of its own.
  @Test func longerFiles_areCompressedForThemselves() throws {
    var harness = try harness(.zstd)
    for file in files(1...3, size: UInt64(UploadConstants.sharedFrameFileBytes + 1)) { harness.write(file) }
    #expect(harness.reads.count == 3 && harness.reads.allSatisfy { $0.compression.zstd })
  }

  @Test func oneFileAlone_isNotInAFrame() throws {
    var harness = try harness(.zstd)
    harness.write(files(1...1)[0])
    harness.answerReads()
    guard case .wholeFile(let whole)? = harness.sent.last?.order else {
      Issue.record("\(harness.sent)")
      return
    }
    #expect(!whole.sharesFrame)
  }

  /// Regression: it went as it is, since others might have come.
  @Test func oneFileAlone_isCompressedForItself() throws {
    var harness = try harness(.zstd)
    harness.write(files(1...1, size: 5000)[0])
    #expect(harness.reads.count == 1 && harness.reads[0].compression.zstd)
    harness.succeed()
    #expect(harness.state(files(1...1)[0].id) == .complete)
  }

  /// Regression: a file that waited behind another one went as it is when no third one came.
  @Test func fileThatWaitedForOthersInVain_isReadOnceMore_andCompressedForItself() throws {
    var harness = try harness(.zstd)
    let pair = files(1...2, size: 5000)
    harness.write(pair[0])
    harness.answerReads()
    harness.write(pair[1])
    #expect(harness.reads.count == 1 && !harness.reads[0].mayCompress)
    harness.answerReads()
    #expect(harness.reads.isEmpty && travelling(harness).count == 1, "it waits for others")
    answerWholeFile(&harness)
    #expect(travelling(harness).isEmpty)
    #expect(harness.reads.map(\.file) == [pair[1].id] && harness.reads.allSatisfy { $0.compression.zstd })
    harness.answerReads()
    #expect(harness.reads.isEmpty && travelling(harness).count == 1, "once is enough")
    harness.succeed()
    #expect(pair.allSatisfy { harness.state($0.id) == .complete })
  }

  /// Regression: the others of a request in which one must not be compressed went as they are.
  @Test func besideAFileThatIsNotToBeCompressed_theOthersAreCompressedForThemselves() throws {
    var harness = try harness(.zstd, rule: "*.jpg compress=off")
    for file in files(1...9, size: 5000) + files(10...10, size: 5000, "jpg") { harness.write(file) }
    harness.answerReads()
    answerWholeFile(&harness)
    #expect(harness.reads.count == 8 && harness.reads.allSatisfy { $0.compression.zstd })
    #expect(travelling(harness).map(\.isWholeFile) == [true], "the one that goes as it is does not wait")
    harness.answerReads()
    #expect(harness.reads.isEmpty)
    harness.succeed()
    #expect(files(1...10).allSatisfy { harness.state($0.id) == .complete })
  }

  /// Regression: while no frame was tried, files went as they are.
  @Test func whileNoFrameIsTried_filesAreCompressedForThemselves() throws {
    var harness = try harness(.zstd)
    _ = sendTogether(files(1...4, size: 5000), &harness)
    for file in files(11...13, size: 5000) { harness.write(file) }
    #expect(harness.reads.count == 3 && harness.reads.allSatisfy { !$0.mayCompress }, "the next one may be a frame")
    harness.answerReads()
    answerBundle(SharedFrame(plainBytes: 15_000, sentBytes: 15_000), nil, &harness)
    #expect(harness.reads.count == 3 && harness.reads.allSatisfy { $0.compression.zstd }, "it is none")
    harness.schedule.destination.forms.sharedFrames.tried(SharedFrame(plainBytes: 15_000, sentBytes: 15_000))
    for file in files(21...23, size: 5000) { harness.write(file) }
    #expect(harness.reads.count == 6 && harness.reads.allSatisfy { $0.compression.zstd })
    harness.succeed()
    #expect((files(1...4) + files(11...13) + files(21...23)).allSatisfy { harness.state($0.id) == .complete })
  }

  @Test(.promises("P118"), arguments: [FileSettings.Compress.off, .lz4, .auto])
  func whereZstandardIsNotChosen_theyGoAsTheyAre(setting: FileSettings.Compress) throws {
    var harness = try harness(setting)
    #expect(sendTogether(files(1...9), &harness).allSatisfy { !$0.sharesFrame }, "of the line nothing is known")
  }

  @Test(.promises("P118")) func olderReceivers_getThemAsTheyAre() throws {
    var older = Self.offers
    older.takesSharedFrames = nil
    var harness = try harness(.zstd, older)
    #expect(sendTogether(files(1...9), &harness).allSatisfy { !$0.sharesFrame })
    harness.answerReads()
  }

  @Test func receiverThatIsPutBackToAnOlderVersion_getsThemAsTheyAre() throws {
    var harness = try harness(.zstd)
    #expect(sendTogether(files(1...9), &harness).allSatisfy { $0.sharesFrame })
    harness.offers.takesSharedFrames = nil
    answerBundle(
      SharedFrame(plainBytes: 9000, sentBytes: 2000), .refused(StepFailure(.badRequest, "what is this?")), &harness)
    harness.answerReads()
    harness.succeed()
    #expect(files(1...9).allSatisfy { harness.state($0.id) == .complete }, "each has gone alone")
    #expect(sendTogether(files(11...19), &harness).allSatisfy { !$0.sharesFrame })
  }

  @Test(.promises("P117")) func frameThatIsRefusedAsSuch_isNotTriedAgain() throws {
    var harness = try harness(.zstd)
    _ = sendTogether(files(1...9), &harness)
    answerBundle(
      SharedFrame(plainBytes: 9000, sentBytes: 2000), .refused(StepFailure(.encodingRefused, "what is zstd?")), &harness
    )
    harness.answerReads()
    harness.succeed()
    #expect(files(1...9).allSatisfy { harness.state($0.id) == .complete })
    #expect(sendTogether(files(11...19), &harness).allSatisfy { !$0.sharesFrame })
  }

  @Test func fileThatIsNotToBeCompressed_isInNoFrame() throws {
    var harness = try harness(.zstd, rule: "*.jpg compress=off")
    let members = sendTogether(files(1...9) + files(10...10, "jpg"), &harness)
    #expect(members.count == 9 && members.allSatisfy { !$0.sharesFrame })
  }

  @Test func whereNothingIsGained_theNextOnesGoWithoutATry() throws {
    var harness = try harness(.zstd)
    var tried: [Int] = []
    for round in 0..<12 {
      let number = UInt64(100 * round)
      if sendTogether(files((number + 1)...(number + 4)), &harness).allSatisfy(\.sharesFrame) {
        tried.append(round)
        answerBundle(SharedFrame(plainBytes: 5000, sentBytes: 5000), nil, &harness)
      } else {
        answerBundle(nil, nil, &harness)
      }
      harness.succeed()
    }
    #expect(tried == [0, 2, 5, 10])
    var frames = harness.schedule.destination.forms.sharedFrames
    frames.tried(SharedFrame(plainBytes: 5000, sentBytes: 4000))
    let isTriedAgain = [frames.isTried(), frames.isTried()]
    #expect(isTriedAgain == [true, true])
  }

  @Test func shortOfMemory_nothingIsCompressedTogether() throws {
    var harness = try harness(.zstd)
    harness.apply { $0.memoryChanged(to: MemoryBudget(availableBytes: 1_000_000), at: $1) }
    for file in files(1...4) {
      harness.handle(file.opened)
      harness.handle(file.settled)
    }
    for _ in 0..<20 {
      harness.answerReads()
      for request in harness.sent {
        if case .bundle(let members) = request.order { #expect(members.allSatisfy { !$0.sharesFrame }) }
      }
      harness.succeed()
    }
    #expect(files(1...4).allSatisfy { harness.state($0.id) == .complete })
  }

  /// Bodies of small files say nothing of the line; what has arrived without a pause does.
  @Test func onASlowLine_thatOnlyCarriesSmallFiles_theyAreCompressedTogether() throws {
    var window = FlightWindow(bytesLeast: 1000)
    func time(_ seconds: Double) -> MonotonicTime { MonotonicTime(nanoseconds: Int64(seconds * 1e9)) }
    window.started(at: time(10))
    for quarter in 0..<9 { window.arrived(100_000, at: time(10 + Double(quarter) / 4)) }
    #expect(window.bytesPerSecond(at: time(11)) == nil)
    #expect(window.bytesPerSecond(at: time(12)) == 400_000)
    window.ended(inFlight: 0)
    #expect(window.bytesPerSecond(at: time(12)) == nil)
  }

  @Test(arguments: [(400_000, true), (6_000_000, true), (20_000_000, false)])
  func whatShortRequestsShowOfALine_countsWhereItIsLittle(bytes: Int, isTogether: Bool) throws {
    var harness = try harness(.auto)
    for file in files(1...2) {
      harness.handle(file.opened)
      harness.handle(file.settled)
    }
    harness.answerReads()
    harness.advance(by: .seconds(2))
    harness.schedule.link.arrived(bytes, at: harness.now.monotonic)
    for file in files(11...40) {
      harness.handle(file.opened)
      harness.handle(file.settled)
    }
    harness.answerReads()
    var together: [WholeFileOrder] = []
    for request in harness.sent { if case .bundle(let members) = request.order { together += members } }
    #expect(!together.isEmpty && together.allSatisfy { $0.sharesFrame == isTogether })
  }

  /// Of a frame each file has its part, and what it was shortened by before.
  @Test func savingOfAFile_isItsPartOfTheFrame() {
    let frame = SharedFrame(plainBytes: 10_000, sentBytes: 2500)
    let plain = CompressionSaving.nothing
    #expect(plain.joined(by: frame, ofBytes: 400) == CompressionSaving(encoding: .zstd(.none), bytes: 300))
    let filtered = CompressionSaving(encoding: .lz4, bytes: 200)
    #expect(filtered.joined(by: frame, ofBytes: 400) == CompressionSaving(encoding: .lz4, bytes: 350))
    #expect(filtered.joined(by: nil, ofBytes: 400) == filtered)
    #expect(plain.joined(by: SharedFrame(plainBytes: 10_000, sentBytes: 10_000), ofBytes: 400) == .nothing)
    #expect(plain.joined(by: frame, ofBytes: 0) == .nothing)
  }

  @Test func status_saysHowAFileHasTravelledInAFrame_andForgetsWhatWasNotDelivered() throws {
    var harness = try harness(.zstd)
    let members = sendTogether(files(1...9), &harness)
    answerBundle(SharedFrame(plainBytes: 10_000, sentBytes: 2500), nil, &harness)
    let status = try #require(harness.status(members[0].file))
    #expect(status.state == .complete && status.encoding == .zstd(.none) && status.savedBytes == 525)
    let others = sendTogether(files(11...19), &harness)
    answerBundle(
      SharedFrame(plainBytes: 10_000, sentBytes: 2500), .refused(StepFailure(.encodingRefused, "what is zstd?")),
      &harness)
    harness.answerReads()
    harness.succeed()
    let alone = try #require(harness.status(others[0].file))
    #expect(alone.state == .complete && alone.encoding == nil && alone.savedBytes == 0)
  }
}

import FileModel
import Integrity
import Lookup
import Promises
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// What may be used on a line, and what is used (docs/design/reading.md#compression).
@Suite struct ChunkCompressionTests {
  private static let all: LookupSet<OfferedEncoding> = [.identity, .lz4, .zstd]

  private static func bytes(megabits: Double) -> Double { megabits * 125_000 }

  @Test(arguments: [0.5, 5, 50, 200, 201, 500, 10_000])
  func lineThatIsKnown_isFollowed_byZstandardUpTo200Megabits(megabits: Double) {
    let line = Self.bytes(megabits: megabits)
    #expect(
      ChunkCompression(.auto, offered: Self.all, lineBytesPerSecond: line)
        == ChunkCompression(lz4: true, zstd: megabits <= 200, lineBytesPerSecond: line))
    #expect(
      ChunkCompression(.auto, offered: [.identity, .lz4], lineBytesPerSecond: line)
        == ChunkCompression(lz4: true, lineBytesPerSecond: line))
  }

  @Test func lineThatIsNotKnown_getsLZ4AsIfThereWereNothingElse() {
    #expect(ChunkCompression(.auto, offered: Self.all, lineBytesPerSecond: nil) == ChunkCompression(lz4: true))
  }

  @Test(arguments: [nil, 5, 500] as [Double?]) func settingFixesIt_whateverTheLine(megabits: Double?) {
    let line = megabits.map(Self.bytes)
    #expect(ChunkCompression(.off, offered: Self.all, lineBytesPerSecond: line) == .none)
    #expect(ChunkCompression(.lz4, offered: Self.all, lineBytesPerSecond: line) == ChunkCompression(lz4: true))
    #expect(
      ChunkCompression(.zstd, offered: Self.all, lineBytesPerSecond: line) == ChunkCompression(lz4: true, zstd: true))
  }

  @Test(.promises("P82"), arguments: FileSettings.Compress.allCases, [nil, 5, 500] as [Double?])
  func whatIsNotOffered_isNotUsed(setting: FileSettings.Compress, megabits: Double?) {
    let line = megabits.map(Self.bytes)
    #expect(!ChunkCompression(setting, offered: [.identity], lineBytesPerSecond: line).isPossible)
    #expect(!ChunkCompression(setting, offered: [.identity, .lz4], lineBytesPerSecond: line).zstd)
    #expect(!ChunkCompression(setting, offered: [.identity, .zstd], lineBytesPerSecond: line).lz4)
  }

  /// A file in chunks, half of whose bytes compression saves, at a receiver that takes a chunk each 300 ms.
  private static func sending(_ rule: String? = nil) throws -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.streamBytesLeast = 1
    if let rule { limits.rules.rules = [try FileRule(rule)] }
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    harness.write(ImaginaryFile(1, "a.mov", size: 100_000))
    harness.answer(.warmed) { $0.isPrewarm }
    harness.answer(.sessionOpened(id: "s", chunkBytes: 1000, expiresAtSeconds: nil, encodings: all)) {
      $0.isOpenSession
    }
    for _ in 0..<40 {
      readAndStore(&harness)
    }
    return harness
  }

  /// Chunks are read, of which half is saved; those that are in flight are stored a moment later.
  private static func readAndStore(_ harness: inout ScheduleHarness) {
    while let order = harness.reads.first {
      harness.reads.removeFirst()
      harness.apply {
        $0.chunkRead(
          order.id, result: .success(ScheduleHarness.digest(order)), savedBytes: 500, encoding: .zstd(.none), at: $1)
      }
    }
    harness.advance(by: .milliseconds(300))
    harness.answer(.chunkStored) { $0.isChunk }
  }

  @Test func lineIsMeasuredInTheBytesThatAreSent() throws {
    let harness = try Self.sending()
    let line = try #require(harness.reads.last?.compression.lineBytesPerSecond)
    #expect(line > 1200 && line < 2200, "500 bytes each 300 ms")
    #expect(harness.reads.last?.compression.zstd == true)
    let files = try #require(harness.schedule.link.bytesPerSecond)
    #expect(files > 1.7 * line, "what people are told is how fast their files go")
    let expected = try #require(harness.schedule.link.expectedBytesPerSecond(at: harness.now.monotonic))
    #expect(expected < 2200, "the next file may gain nothing")
  }

  /// What is shown of a file is what it has cost the line; how far it is, is said of its own bytes.
  @Test func status_countsTheBytesThatAreSent_andPercentThePlainOnes() throws {
    var harness = try Self.sending()
    let id = ImaginaryFile(1, "a.mov", size: 100_000).id
    let onTheWay = try #require(harness.status(id))
    #expect(onTheWay.acknowledgedBytes > 10_000 && onTheWay.encoding == .zstd(.none))
    #expect(onTheWay.savedBytes == onTheWay.acknowledgedBytes / 2)
    let document = try JSONValue.parse(StatusDocument.render(onTheWay))
    #expect(document["percent"] == .number(Double(onTheWay.sentBytes) / 1000), "of 100,000")
    let etaSeconds = try #require(onTheWay.etaSeconds)
    let expectedSeconds = Double(100_000 - onTheWay.sentBytes) / 1000 * 0.3
    #expect(abs(etaSeconds - expectedSeconds) < 0.2 * expectedSeconds, "a chunk of 1,000 bytes each 300 ms")
    // A chunk that the server turns out not to hold has saved nothing.
    let transfer = try #require(harness.schedule.files[id]?.transfer)
    let before = transfer.savedBytes
    #expect(transfer.deny(0) && transfer.savedBytes == before - 500)
    // What is read from here on is sent as it is.
    for _ in 0..<200 where harness.state(id) != .complete {
      harness.succeed()
      harness.advance(by: .seconds(1))
    }
    let delivered = try #require(harness.status(id))
    #expect(delivered.state == .complete && delivered.sentBytes == 100_000)
    #expect(delivered.savedBytes >= before - 500 && delivered.savedBytes < 50_000)
  }

  /// Regression: a publication may be answered before the tail's chunks are, and what was saved of these was not counted.
  @Test func publicationThatIsAnsweredBeforeTheTail_countsWhatThatHasSaved() throws {
    var limits = ScheduleHarness.standardLimits
    limits.streamBytesLeast = 1
    var harness = ScheduleHarness(limits: limits, commitWaitsForChunks: true)
    harness.handle(.scanEnded)
    harness.write(ImaginaryFile(1, "a.mov", size: 3000))
    harness.answer(.warmed) { $0.isPrewarm }
    harness.answer(.sessionOpened(id: "s", chunkBytes: 1000, expiresAtSeconds: nil, encodings: Self.all)) {
      $0.isOpenSession
    }
    Self.readAndStore(&harness)
    let commit = try #require(harness.sent.first { $0.order.isCommit }?.order)
    #expect(harness.sent.contains { $0.order.isChunk })
    harness.answer(ScheduleHarness.success(of: commit)) { $0.isCommit }
    let delivered = try #require(harness.status(ImaginaryFile(1, "a.mov", size: 3000).id))
    #expect(delivered.savedBytes == 1500)
  }

  @Test func rule_switchesItOffForItsFiles() throws {
    let off = try Self.sending("*.mov compress=off")
    #expect(!off.reads.isEmpty && off.reads.allSatisfy { !$0.mayCompress })
    let others = try Self.sending("*.raw compress=off")
    #expect(!others.reads.isEmpty && others.reads.allSatisfy { $0.mayCompress })
  }

  /// A receiver that was put back to an older version, or one of several at an address, takes the file all the same.
  @Test(.promises("P117"), arguments: [1, 6]) func frameThatIsRefusedAsSuch_isSentInAnotherWay(times: Int) throws {
    var harness = try Self.sending("*.mov compress=zstd")
    #expect(harness.reads.contains { $0.compression.zstd })
    for _ in 0..<times { harness.answer(.refused(StepFailure(.encodingRefused, "what is zstd?"))) { $0.isChunk } }
    let id = ImaginaryFile(1, "a.mov", size: 100_000).id
    harness.answerReads()
    for _ in 0..<5 { harness.answer(.chunkStored) { $0.isChunk } }
    #expect(!harness.reads.isEmpty && harness.reads.allSatisfy { !$0.compression.zstd && $0.compression.lz4 })
    for _ in 0..<200 where harness.state(id) != .complete {
      harness.answerReads()
      harness.succeed()
      harness.advance(by: .seconds(1))
    }
    #expect(harness.state(id) == .complete)
  }

  @Test func whatIsSaved_isForgottenWithItsBuffer() throws {
    var harness = try Self.sending()
    for _ in 0..<200 where harness.state(ImaginaryFile(1, "a.mov", size: 100_000).id) != .complete {
      harness.answerReads()
      harness.succeed()
    }
    #expect(harness.schedule.memory.buffers.isEmpty)
  }

  // MARK: The method

  private static func shares(lz4: Double, quick: Double, thorough: Double) -> CompressionShares {
    var shares = CompressionShares.nothing
    shares[.lz4] = lz4
    shares[.zstdQuick] = quick
    shares[.zstdThorough] = thorough
    return shares
  }

  /// Megabytes that a core compresses in a second.
  private static func costs(lz4: Double, quick: Double, thorough: Double) -> CompressionCosts {
    var costs = CompressionCosts()
    for _ in 0..<100 {
      costs.measured(.lz4, bytes: 1_000_000, seconds: 1 / lz4)
      costs.measured(.zstdQuick, bytes: 1_000_000, seconds: 1 / quick)
      costs.measured(.zstdThorough, bytes: 1_000_000, seconds: 1 / thorough)
    }
    return costs
  }

  private static func method(
    _ shares: CompressionShares, _ costs: CompressionCosts, megabits: Double?
  ) -> CompressionMethod {
    ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: megabits.map(bytes)).method(leaving: shares, at: costs)
  }

  private static let idle = costs(lz4: 800, quick: 350, thorough: 200)
  private static let busy = costs(lz4: 80, quick: 30, thorough: 15)

  @Test func pointsOnASlowLine_areCompressedAsHardAsItGains() {
    let points = Self.shares(lz4: 1, quick: 0.6, thorough: 0.5)
    #expect(Self.method(points, Self.idle, megabits: 5) == .zstdThorough)
    #expect(Self.method(points, Self.busy, megabits: 5) == .zstdThorough)
    #expect(Self.method(points, Self.idle, megabits: 200) == .zstdThorough)
  }

  @Test func whatAStrongerMethodHardlyGains_isDoneByTheCheaperOne() {
    #expect(Self.method(Self.shares(lz4: 1, quick: 0.534, thorough: 0.53), Self.idle, megabits: 5) == .zstdQuick)
    #expect(Self.method(Self.shares(lz4: 0.5, quick: 0.5, thorough: 0.5), Self.idle, megabits: 5) == .lz4)
  }

  /// Regression: on loopback what LZ4 shortened came up to 1.7 times as late as plain bytes would have.
  @Test func lineThatIsFasterThanLZ4_getsPlainBytes() {
    func isUsed(_ share: Double, _ costs: CompressionCosts, megabits: Double?) -> Bool {
      ChunkCompression(lz4: true, lineBytesPerSecond: megabits.map(Self.bytes)).usesLZ4(leaving: share, at: costs)
    }
    #expect(isUsed(0.8, Self.idle, megabits: 500))
    #expect(!isUsed(0.8, Self.idle, megabits: 8000), "1 ns for each byte, and LZ4 takes 1.25")
    #expect(isUsed(0.8, Self.idle, megabits: nil))
    #expect(!isUsed(0.8, Self.busy, megabits: 500))
    #expect(!isUsed(0.91, Self.idle, megabits: 5), "less than a tenth")
    #expect(Self.method(Self.shares(lz4: 0.8, quick: 0.6, thorough: 0.5), Self.idle, megabits: 8000) == .identity)
  }

  /// Early sending has time to compress harder, and delays nothing.
  @Test func whileAFileIsWritten_whatLeavesLeastIsUsed_whereItKeepsUp() {
    func early(_ shares: CompressionShares, _ costs: CompressionCosts, megabits: Double) -> CompressionMethod {
      var line = ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: Self.bytes(megabits: megabits))
      line.isEarly = true
      return line.method(leaving: shares, at: costs)
    }
    let points = Self.shares(lz4: 1, quick: 0.534, thorough: 0.53)
    #expect(Self.method(points, Self.idle, megabits: 5) == .zstdQuick)
    #expect(early(points, Self.idle, megabits: 5) == .zstdThorough)
    #expect(early(points, Self.idle, megabits: 200) == .zstdThorough)
    #expect(early(points, Self.busy, megabits: 100) == .zstdQuick, "the other one would come later than plain bytes")
    #expect(early(points, Self.busy, megabits: 200) == .identity)
    #expect(early(Self.shares(lz4: 0.95, quick: 0.95, thorough: 0.94), Self.idle, megabits: 5) == .identity)
    #expect(early(Self.shares(lz4: 0.5, quick: 0.5, thorough: 0.5), Self.idle, megabits: 5) == .lz4)
  }

  @Test func chunksOfAFileThatIsWritten_areReadAsSuch() throws {
    var recording = Recording()
    recording.write(0..<10_000)
    recording.wait()
    #expect(!recording.harness.reads.isEmpty)
    #expect(recording.harness.reads.allSatisfy { $0.isOfGrowingFile && $0.compression.isEarly })
    let complete = try Self.sending()
    #expect(!complete.reads.isEmpty && complete.reads.allSatisfy { !$0.compression.isEarly })
  }

  @Test func busyProcessor_thatWouldNotKeepUp_leavesTheBytesAsTheyAre() {
    let points = Self.shares(lz4: 1, quick: 0.55, thorough: 0.5)
    #expect(Self.method(points, Self.busy, megabits: 200) == .identity)
    #expect(Self.method(points, Self.busy, megabits: 50) == .zstdQuick)
  }

  @Test func lessThanATenth_isNotWorthIt() {
    #expect(Self.method(Self.shares(lz4: 1, quick: 0.91, thorough: 0.9), Self.idle, megabits: 1) == .identity)
    #expect(Self.method(Self.shares(lz4: 1, quick: 0.91, thorough: 0.9), Self.idle, megabits: nil) == .identity)
  }

  @Test func withoutALineToFollow_theStrongestIsUsed() {
    #expect(Self.method(Self.shares(lz4: 0.5, quick: 0.5, thorough: 0.5), Self.busy, megabits: nil) == .zstdThorough)
  }

  /// Compression never makes a chunk later than plain bytes, and a processor that is half as fast as it was measured may be had.
  @Test func whateverIsMeasured_itIsNoSlowerThanPlainBytes() {
    var random = SplitMix(seed: 1)
    for _ in 0..<20_000 {
      func any(_ range: ClosedRange<Double>) -> Double { .random(in: range, using: &random) }
      let shares = Self.shares(lz4: any(0...1), quick: any(0...1), thorough: any(0...1))
      var costs = CompressionCosts()
      for method in CompressionMethod.costly {
        for _ in 0..<20 { costs.measured(method, bytes: 1, seconds: any(1e-10...1e-6)) }
      }
      let line = any(1e4...1e9)
      let method = ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: line).method(leaving: shares, at: costs)
      let seconds = max(shares[method] / line, 2 * costs[method])
      #expect(seconds <= 1.01 / line, "\(shares) \(costs) \(line) \(method)")
    }
  }

  // MARK: Looking at samples

  @Test func look_thatCostsMoreThanAFiftiethOfTheLinesTime_isLeftOut() {
    func isWorthIt(_ bytes: UInt64, _ megabits: Double?, probe: Double) -> Bool {
      var costs = CompressionCosts()
      for _ in 0..<100 { costs.measuredProbe(seconds: probe) }
      return ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: megabits.map(Self.bytes))
        .isWorthAProbe(at: bytes, costs: costs)
    }
    #expect(isWorthIt(64 << 10, 5, probe: 0.001))
    #expect(!isWorthIt(64 << 10, 50, probe: 0.001), "10 ms of the line, and 1 ms to look")
    #expect(isWorthIt(1 << 20, 50, probe: 0.001))
    #expect(isWorthIt(5 << 20, 200, probe: 0.001))
    #expect(!isWorthIt(5 << 20, 200, probe: 0.01), "a busy machine")
    #expect(!isWorthIt(1 << 40, 200, probe: 0.01), "however long the file is")
    #expect(isWorthIt(1, nil, probe: 1), "asked for, whatever it costs")
    #expect(!ChunkCompression(lz4: true).isWorthAProbe(at: 1 << 30, costs: CompressionCosts()))
  }

  /// Regression: looks that were measured while the machine had much else to do were never taken again on a fast line, and so not measured.
  @Test func look_thatWasLeftOutForSomeTime_isTakenAgain() {
    let line = ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: Self.bytes(megabits: 200))
    var costs = CompressionCosts()
    for _ in 0..<100 { costs.measuredProbe(seconds: 0.02) }
    var leftOut = 0
    while !line.isWorthAProbe(at: 1 << 30, costs: costs), leftOut < 1000 {
      costs.skippedProbe()
      leftOut += 1
    }
    #expect(leftOut > 30 && leftOut < 100)
    let faster = ChunkCompression(lz4: true, zstd: true, lineBytesPerSecond: Self.bytes(megabits: 8000))
    for _ in 0..<1000 { costs.skippedProbe() }
    #expect(!faster.isWorthAProbe(at: 1 << 30, costs: costs))
  }

  @Test func costs_followWhatIsMeasured_andNoSingleMeasurement() {
    var costs = Self.idle
    costs.measured(.zstdQuick, bytes: 1_000_000, seconds: 1)
    #expect(costs[.zstdQuick] > 0.2e-6 && costs[.zstdQuick] < 0.3e-6)
    let known = costs
    costs.measured(.zstdQuick, bytes: 0, seconds: 1)
    costs.measured(.zstdQuick, bytes: 1, seconds: 0)
    costs.measured(.identity, bytes: 1, seconds: 1)
    costs.measuredProbe(seconds: -1)
    #expect(costs == known && costs[.identity] == 0)
  }

  // MARK: What is known of files

  private static let points = CompressionMemory.Known(
    filter: .none, shares: shares(lz4: 1, quick: 0.55, thorough: 0.5))
  private static let file = FileID(high: 0, low: 1)

  @Test func looksThatSayTheSame_areFurtherAndFurtherApart_upToTheStride() {
    var memory = CompressionMemory()
    var looks: [Int] = []
    for chunk in 0..<100 {
      if memory.known(of: Self.file)?.isDue != false {
        memory.looked(at: Self.file, 256 << 10, Self.points)
        looks.append(chunk)
      }
      memory.passed(Self.file, 256 << 10, share: 0.55)
    }
    #expect(looks == [0, 1, 3, 7, 15, 31, 51, 71, 91])
  }

  @Test func whereLessIsGained_thereIsAnotherLook() {
    var memory = CompressionMemory()
    memory.looked(at: Self.file, 4 << 20, Self.points)
    memory.passed(Self.file, 1 << 20, share: 0.55)
    memory.passed(Self.file, 1 << 20, share: 0.57)
    #expect(memory.known(of: Self.file)?.isDue == false)
    memory.passed(Self.file, 1 << 20, share: 0.6)
    #expect(memory.known(of: Self.file)?.isDue == true)
    #expect(memory.known(of: Self.file)?.latest == Self.points, "which holds where there is no time to look")
  }

  @Test func whatDoesNotKeepItsPromise_isNotTriedUntilTheNextLook() {
    var memory = CompressionMemory()
    memory.looked(at: Self.file, 1 << 20, Self.points)
    memory.disappointed(by: Self.file, 1 << 20)
    #expect(memory.known(of: Self.file)?.latest.shares == .nothing)
    memory.passed(Self.file, 2 << 20, share: nil)
    #expect(memory.known(of: Self.file)?.isDue == true)
  }

  @Test func onlyAFewFiles_areKnown() {
    var memory = CompressionMemory()
    let files = (1...9).map { FileID(high: 0, low: $0) }
    for file in files { memory.looked(at: file, 1 << 20, Self.points) }
    #expect(memory.known(of: files[0]) == nil && memory.known(of: files[1])?.latest == Self.points)
  }

  // MARK: The line

  private static func time(_ seconds: Double) -> MonotonicTime {
    MonotonicTime(nanoseconds: Int64(seconds * 1e9))
  }

  @Test func whatAnEarlierRunKnew_isNotBelievedBeforeThisOneHasMeasured() throws {
    var line = LineRate(SpeedEstimate.State(bytesPerSecond: 1e6, variance: 1e9, sampleCount: 100))
    var measured = SpeedEstimate(SpeedEstimate.State(bytesPerSecond: 1e6, variance: 1e9, sampleCount: 100))
    for second in 0..<3 {
      #expect(line.bytesPerSecond(at: Self.time(Double(second))) == nil)
      line.add(bytes: 1_200_000, over: .seconds(1), at: Self.time(Double(second)))
      measured.add(bytes: 1_200_000, over: .seconds(1), at: Self.time(Double(second)))
    }
    let known = try #require(line.bytesPerSecond(at: Self.time(3)))
    #expect(known == measured.bytesPerSecond)
  }

  @Test func processorThatDoesNotKeepUp_makesTheLineNoSlowerForAWhile() throws {
    var line = LineRate()
    #expect(line.bytesPerSecond(at: Self.time(0)) == nil)
    for second in 0..<20 { line.add(bytes: 10_000_000, over: .seconds(1), at: Self.time(Double(second))) }
    let before = try #require(line.bytesPerSecond(at: Self.time(20)))
    #expect(before > 9e6 && before < 11e6)
    for second in 20..<30 { line.add(bytes: 1_000_000, over: .seconds(1), at: Self.time(Double(second))) }
    let soon = try #require(line.bytesPerSecond(at: Self.time(30)))
    #expect(soon > 7e6 && soon < before)
    for second in 30..<200 { line.add(bytes: 1_000_000, over: .seconds(1), at: Self.time(Double(second))) }
    let later = try #require(line.bytesPerSecond(at: Self.time(200)))
    #expect(later < 1.3e6)
  }
}

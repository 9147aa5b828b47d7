import FileModel
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// A file that a tool writes piece by piece, and the schedule that follows it. Chunks have 1000 bytes.
struct Recording {
  var harness: ScheduleHarness
  var file: ImaginaryFile
  private var activity: ChunkActivity?

  /// The file is open, and so is its session.
  init(
    named name: String = "take.mov", chunkBytes: Int = ScheduleHarness.chunkBytes,
    limits: UploadLimits = ScheduleHarness.standardLimits, abilities: (inout DestinationAbilities) -> Void = { _ in }
  ) {
    var limits = limits
    limits.sealDelay = .milliseconds(100)
    limits.growthInterval = .milliseconds(50)
    if chunkBytes != ScheduleHarness.chunkBytes { (limits.chunkBytes, limits.bufferBytes) = (chunkBytes, chunkBytes) }
    harness = ScheduleHarness(limits: limits, abilities: abilities)
    file = ImaginaryFile(1, name, size: 0)
    harness.handle(.scanEnded)
    harness.handle(file.opened)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.advance(by: .milliseconds(20))
    harness.openSession(chunkBytes: chunkBytes)
    look()
  }

  mutating func write(_ range: Range<UInt64>) {
    file.snapshot.epoch += 1
    let mutation = ContentMutation(.bytes(range), epoch: file.snapshot.epoch)
    activity?.begin(mutation)
    file.snapshot.sizeBytes = max(file.snapshot.sizeBytes, range.upperBound)
    activity?.end(mutation, writtenBytes: UInt64(range.count))
  }

  mutating func truncate(to sizeBytes: UInt64) {
    file.snapshot.epoch += 1
    let mutation = ContentMutation(.size(sizeBytes), epoch: file.snapshot.epoch)
    activity?.begin(mutation)
    file.snapshot.sizeBytes = sizeBytes
    activity?.end(mutation, writtenBytes: 0)
  }

  /// Answers what the schedule wants to know; true when it wanted anything.
  @discardableResult
  mutating func look(canFollow: Bool = true) -> Bool {
    var looks: [(FileID, Int, Bool)] = []
    harness.others.removeAll { action in
      guard case .checkGrowth(let id, let chunkBytes, let anew) = action else { return false }
      looks.append((id, chunkBytes, anew))
      return true
    }
    for (id, chunkBytes, anew) in looks {
      if anew || activity == nil {
        activity = ChunkActivity(
          chunkBytes: chunkBytes, written: file.snapshot.sizeBytes == 0 ? [] : [0..<file.snapshot.sizeBytes],
          epoch: file.snapshot.epoch, mutationsInFlight: 0)
      }
      let report = canFollow ? activity?.takeReport(of: id, sizeBytes: file.snapshot.sizeBytes) : nil
      harness.apply { $0.grew(id, report, at: $1) }
    }
    return !looks.isEmpty
  }

  /// Long enough for chunks to be sealed.
  mutating func wait() {
    for _ in 0..<40 {
      harness.advance(by: .milliseconds(60))
      look()
    }
  }

  /// Everything that may be sent is read and sent, and the server takes it.
  mutating func send() -> [Int] {
    wait()
    var indices: [Int] = []
    while true {
      harness.answerReads()
      let sent = harness.chunkRequests.map(\.index)
      guard !sent.isEmpty else { return indices.sorted() }
      for index in sent { harness.answerChunk(index, .chunkStoredAs(token: "\(index)")) }
      indices += sent
    }
  }

  mutating func close() {
    if let report = activity?.takeReport(of: file.id, sizeBytes: file.snapshot.sizeBytes) {
      harness.handle(.grown(report))
    }
    activity = nil
    harness.handle(file.settled)
  }

  mutating func rename(to name: String) {
    file.snapshot.names = [RelativePath(name)]
    harness.handle(.namesChanged(file.snapshot))
  }
}

@Suite struct GrowingFileTests {
  @Test(.promises("S60a")) func whatIsFullyWrittenGoesOut_butForTheFirstAndTheLastChunks() {
    var recording = Recording()
    recording.write(0..<5500)
    #expect(recording.send() == [1, 2, 3])
    recording.write(5500..<7000)
    #expect(recording.send() == [4, 5])
    #expect(recording.harness.commits.isEmpty, "a file that is being written is not published")
    #expect(recording.harness.status(recording.file.id)?.acknowledgedBytes == 5000)
  }

  /// Regression: of a recording with a header that never changes, a chunk more was left for the close.
  @Test(.promises("S60a")) func theFirstChunk_goesOnceItHasBeenQuietForLong_andNothingElseIsToBeSent() {
    var recording = Recording()
    recording.write(0..<5500)
    #expect(recording.send() == [1, 2, 3])
    #expect(recording.send() == [])
    #expect(recording.send() == [0], "five seconds after it was written")
    recording.write(5500..<6500)
    recording.close()
    #expect(recording.harness.reads.map(\.offset).sorted() == [4000, 5000, 6000])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  /// It is sent in vain once, and counts for nothing else.
  @Test(.promises("S60a", "S61a")) func aFirstChunkThatIsWrittenAgain_waitsForTheClose() {
    var recording = Recording()
    recording.write(0..<5500)
    for _ in 0..<4 { _ = recording.send() }
    recording.write(0..<10)
    for _ in 0..<4 { #expect(recording.send() == []) }
    recording.write(5500..<7000)
    #expect(recording.send() == [4, 5], "the file is followed as before")
    recording.close()
    #expect(recording.harness.reads.map(\.offset).sorted() == [0, 6000])
  }

  @Test(.promises("S60a")) func aFirstChunkThatKeepsChanging_waitsForTheClose() {
    var recording = Recording()
    recording.write(0..<5500)
    for second in 1...10 as ClosedRange<UInt64> {
      recording.write(second..<second + 4)
      #expect(!recording.send().contains(0))
    }
  }

  @Test(.promises("S60a")) func aChunkGoesOnceALittleOfTheNextOneIsWritten_untilItsWriterComesBack() {
    var recording = Recording(chunkBytes: 1 << 20)
    let mib: UInt64 = 1 << 20
    recording.write(0..<2 * mib + (256 << 10) - 1)
    #expect(recording.send() == [])
    recording.write(2 * mib + (256 << 10) - 1..<2 * mib + (256 << 10))
    #expect(recording.send() == [1])
    recording.write(2 * mib - 4..<2 * mib)
    #expect(recording.send() == [], "it has to be a chunk from now on")
    recording.write(2 * mib + (256 << 10)..<3 * mib)
    #expect(recording.send() == [1])
    recording.write(3 * mib..<4 * mib)
    #expect(recording.send() == [0, 2])
  }

  @Test func afterTheClose_onlyTheRestIsReadAndSent() throws {
    var recording = Recording()
    recording.write(0..<7500)
    _ = recording.send()
    recording.close()
    #expect(recording.harness.reads.map(\.offset).sorted() == [0, 6000, 7000])
    recording.harness.answerReads()
    #expect(recording.harness.chunkRequests.map(\.index).sorted() == [0, 6, 7])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  @Test(.promises("S60a")) func aChunkIsNotSentBeforeItHasBeenQuietForAMoment() {
    var recording = Recording()
    recording.write(0..<5000)
    recording.harness.advance(by: .milliseconds(60))
    recording.look()
    #expect(recording.harness.reads.isEmpty)
    recording.write(1500..<1600)
    recording.harness.advance(by: .milliseconds(60))
    recording.look()
    recording.harness.advance(by: .milliseconds(60))
    recording.look()
    #expect(recording.harness.reads.map(\.offset) == [2000, 3000], "the touched one has to be quiet for as long again")
  }

  /// Regression: a recorder that makes its file longer with each frame had nothing sent before its end.
  @Test(.promises("S60a")) func aFileThatIsMadeLongerAllTheTime_isSentWhileItIsWritten() {
    var recording = Recording()
    recording.write(0..<5500)
    for frame in 1...10 as ClosedRange<UInt64> {
      recording.truncate(to: 5500 + frame * 1000)
      recording.harness.advance(by: .milliseconds(60))
      recording.look()
    }
    #expect(recording.harness.reads.map(\.offset).sorted() == [1000, 2000, 3000])
  }

  @Test func roomThatWasReservedIsNotSent() {
    var recording = Recording()
    recording.truncate(to: 50_000)
    recording.write(0..<3000)
    #expect(recording.send() == [1])
  }

  @Test(.promises("S60b")) func aChunkThatIsRewritten_isSentAgain_andTheOthersAreNot() {
    var recording = Recording()
    recording.write(0..<9000)
    #expect(recording.send() == [1, 2, 3, 4, 5, 6, 7])
    recording.write(3100..<3200)
    #expect(recording.send() == [3])
    recording.write(5100..<5200)
    recording.close()
    #expect(recording.harness.reads.map(\.offset).sorted() == [0, 5000, 8000])
  }

  @Test func aChunkThatIsRewrittenWhileItIsRead_doesNotCount() throws {
    var recording = Recording()
    recording.write(0..<4000)
    recording.wait()
    let read = try #require(recording.harness.reads.first { $0.offset == 1000 })
    #expect(read.isOfGrowingFile)
    recording.harness.reads.removeAll { $0.id == read.id }
    recording.harness.apply { $0.chunkRead(read.id, result: .changed, at: $1) }
    #expect(recording.harness.schedule.files[recording.file.id]?.lastFailure == nil)
    #expect(recording.send() == [1, 2], "it is read once more")
  }

  @Test(.promises("S60b")) func aChunkThatIsRewrittenWhileItIsSent_isSentAgainAfterwards() throws {
    var recording = Recording()
    recording.write(0..<4000)
    recording.wait()
    recording.harness.answerReads()
    recording.write(1500..<1600)
    recording.wait()
    #expect(recording.harness.reads.map(\.offset) == [1000])
    recording.harness.answerReads()
    #expect(
      recording.harness.chunkRequests.map(\.index).sorted() == [1, 2], "two requests for it could overtake each other")
    recording.harness.answerChunk(1, .chunkStored)
    #expect(recording.harness.chunkRequests.map(\.index).sorted() == [1, 2])
  }

  @Test(.promises("S61a")) func aFileThatKeepsRewriting_isLeftAloneUntilItIsComplete() {
    var recording = Recording()
    recording.write(0..<9000)
    _ = recording.send()
    for index: UInt64 in 1...4 { recording.write(index * 1000..<index * 1000 + 10) }
    #expect(recording.send() == [])
    recording.write(9000..<20_000)
    #expect(recording.send() == [])
    recording.close()
    #expect(recording.harness.reads.count == 15)
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  @Test func aFileThatShrinks_dropsWhatLiesBeyond() {
    var recording = Recording()
    recording.write(0..<9000)
    _ = recording.send()
    recording.truncate(to: 2500)
    #expect(recording.send() == [])
    recording.write(2500..<5000)
    #expect(recording.send() == [0, 2, 3])
    recording.close()
    #expect(recording.harness.reads.map(\.offset).sorted() == [4000])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  @Test func withoutALastReport_everyChunkIsReadAgain() {
    var recording = Recording()
    recording.write(0..<6000)
    _ = recording.send()
    recording.write(1000..<1010)
    recording.harness.handle(recording.file.settled)
    #expect(recording.harness.reads.count == 6)
  }

  @Test func aFileThatCannotBeFollowed_isSentAfterTheClose() {
    var recording = Recording()
    recording.write(0..<6000)
    recording.harness.advance(by: .milliseconds(60))
    recording.look(canFollow: false)
    recording.wait()
    #expect(recording.harness.reads.isEmpty)
    recording.close()
    #expect(recording.harness.reads.count == 6)
  }

  @Test func aSmallFileOfWhichNothingWasSent_goesInOneRequest() {
    var recording = Recording()
    recording.write(0..<900)
    recording.wait()
    recording.close()
    recording.harness.answerReads()
    #expect(recording.harness.sent.contains { $0.order.isWholeFile })
  }

  @Test(arguments: ["take.mov", "take.mov.part", ".take.mov.aB3xY9"])
  func whereARuleSaysSo_nothingGoesOutBeforeTheClose(name: String) throws {
    var limits = ScheduleHarness.standardLimits
    limits.rules = FileRules(rules: [try FileRule("*.mov upload=on-close")])
    var recording = Recording(named: name, limits: limits)
    recording.write(0..<9000)
    #expect(recording.send() == [])
    recording.close()
    #expect(recording.harness.reads.count == 9)
  }

  @Test func anotherCompleteFileComesFirst() {
    var recording = Recording()
    recording.write(0..<30_000)
    recording.wait()
    recording.harness.answerReads()
    let other = ImaginaryFile(2, "other.mov", size: 4000)
    recording.harness.write(other)
    recording.harness.openSession()
    recording.harness.answerChunk(1, .chunkStored)
    recording.harness.answerChunk(2, .chunkStored)
    let next: [FileID] = recording.harness.reads.suffix(2).map(\.file)
    #expect(next == [other.id, other.id])
  }

  @Test func aFailureOfAChunkDoesNotHoldUpTheFile() {
    var recording = Recording()
    recording.write(0..<4000)
    recording.wait()
    recording.harness.answerReads()
    recording.harness.answerChunk(1, StepFailure.connection(.connectionLost))
    recording.harness.answerChunk(2, .chunkStored)
    #expect(recording.harness.state(recording.file.id) == .writing)
    recording.harness.advance(by: .seconds(2))
    recording.look()
    recording.harness.answerReads()
    #expect(recording.harness.chunkRequests.map(\.index) == [1])
  }

  @Test func aRefusalEndsTheEarlySending_andTheFileIsTriedOnceItIsComplete() {
    var recording = Recording()
    recording.write(0..<4000)
    recording.wait()
    recording.harness.answerReads()
    recording.harness.answerChunk(1, .refused(StepFailure(.tooLarge(limitBytes: 3000), "too large")))
    recording.harness.answerChunk(2, .refused(StepFailure(.tooLarge(limitBytes: 3000), "too large")))
    recording.write(4000..<9000)
    #expect(recording.send() == [])
    #expect(recording.harness.state(recording.file.id) == .writing)
    recording.close()
    #expect(recording.harness.reads.count == 9)
  }

  @Test(
    "Regression: a recording was sent on to the chunk that its session does not take, and then all of it after its end"
  )
  func aRecordingThatOutgrowsTheChunksOfItsSession_goesOnInLongerOnes() {
    var recording = Recording {
      $0.takesRuns = true
      $0.chunkCountMax = 8
    }
    recording.write(0..<8000)
    #expect(recording.send() == [1, 2, 3, 4, 5, 6])
    recording.write(8000..<8001)
    recording.wait()
    // The length that was given is that of shorter files, and the steps are 64 KiB.
    let openings = recording.harness.sent.compactMap { request -> Int? in
      if case .openSession(let opening) = request.order { opening.chunkBytes } else { nil }
    }
    #expect(openings == [64 << 10])
    recording.harness.answer(.sessionOpened(id: "longer", chunkBytes: 64 << 10, expiresAtSeconds: nil)) {
      $0.isOpenSession
    }
    recording.look()
    recording.write(8001..<300_000)
    #expect(recording.send() == [1, 2])
    #expect(recording.harness.status(recording.file.id)?.lastFailure == nil)
    recording.close()
    #expect(recording.send() == [0, 3, 4])
  }

  @Test("Regression: a file that was opened again kept the parts of its earlier size")
  func aFileThatIsRecordedOn_isBegunAnewBeforeItHasTooManyParts() {
    var limits = ScheduleHarness.standardLimits
    limits.bufferBytes = 1 << 20
    limits.sealDelay = .milliseconds(100)
    limits.growthInterval = .milliseconds(50)
    var harness = ScheduleHarness(limits: limits) {
      $0.chunkCountMax = 10
      $0.fileBytesMax = 5 << 20
    }
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 9000)
    harness.write(file)
    harness.openSession()
    harness.answerReads()
    harness.answerChunk(0, .chunkStoredAs(token: "0"))
    file.snapshot.epoch += 1
    harness.handle(file.opened)
    harness.handle(file.changed)
    harness.advance(by: .milliseconds(100))
    let report = GrowthReport(
      file: file.id, chunkBytes: 1000, epoch: file.snapshot.epoch, sizeBytes: 10_001, writtenEndBytes: 10_001,
      isFirst: true)
    harness.apply { $0.grew(file.id, report, at: $1) }
    harness.advance(by: .milliseconds(100))
    let openings = harness.sent.compactMap { request -> Int? in
      if case .openSession(let opening) = request.order { opening.chunkBytes } else { nil }
    }
    // For the largest file in ten parts.
    #expect(openings == [512 << 10])
  }

  @Test(
    "Regression: a recording that outgrew what the server takes was said to when it was complete",
    .promises("S29d"))
  func aRecordingThatOutgrowsTheLimit_isSaidToAtOnce_andGoesOn() {
    var recording = Recording()
    let id = recording.file.id
    func reports() -> Int {
      recording.harness.others.count { if case .report(.outgrown) = $0 { true } else { false } }
    }
    recording.harness.apply { $0.learn(DestinationLimits(fileBytesMax: 5000), at: $1) }
    recording.write(0..<4500)
    #expect(recording.send() == [1, 2])
    #expect(recording.harness.status(id)?.lastFailure == nil)
    recording.write(4500..<9000)
    #expect(recording.send() == [])
    #expect(recording.harness.state(id) == .writing)
    #expect(recording.harness.status(id)?.lastFailure?.code == "too-large")
    recording.write(9000..<9500)
    _ = recording.send()
    #expect(reports() == 1 && recording.harness.schedule.totals.outgrownFiles == 1)
    #expect(recording.harness.schedule.sizeLimit(of: id) == .bytes(5000))
    recording.close()
    #expect(recording.harness.state(id) == .failed && recording.harness.reads.isEmpty)
    // Regression: it said that nothing had been sent.
    let message = recording.harness.status(id)?.lastFailure?.message ?? ""
    #expect(message.contains("nothing more is sent of it") && !message.contains("nothing was sent"))
    // The server takes more: no setting has to say so.
    recording.harness.apply { $0.learn(DestinationLimits(fileBytesMax: 10_000), at: $1) }
    #expect(!recording.harness.reads.isEmpty && recording.harness.state(id) == .uploading)
  }

  @Test(.promises("S29d")) func aRecordingThatIsCutAgain_isNotTooLargeAnyMore() {
    var recording = Recording()
    recording.harness.apply { $0.learn(DestinationLimits(fileBytesMax: 5000), at: $1) }
    recording.write(0..<9000)
    recording.wait()
    #expect(recording.harness.status(recording.file.id)?.lastFailure?.code == "too-large")
    recording.truncate(to: 4000)
    recording.harness.apply { [snapshot = recording.file.snapshot] in $0.measured(snapshot, at: $1) }
    #expect(recording.harness.status(recording.file.id)?.lastFailure == nil)
    recording.close()
    #expect(!recording.harness.reads.isEmpty)
  }

  @Test(.promises("S29d")) func aRetry_asksWhatTheServerTakes() {
    var limits = ScheduleHarness.standardLimits
    limits.asksForLimits = true
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    func questions() -> Int { harness.others.count { if case .askForLimits = $0 { true } else { false } } }
    harness.apply { $0.learn(DestinationLimits(fileBytesMax: 2000), at: $1) }
    let file = ImaginaryFile(1, "a.mov", size: 2001)
    harness.write(file)
    #expect(harness.state(file.id) == .failed && harness.reads.isEmpty)
    let before = questions()
    harness.apply { $0.retry(file.id, at: $1) }
    #expect(questions() == before + 1 && harness.state(file.id) != .failed)
  }

  @Test func aSessionThatIsGone_isBegunAnewWhileTheFileGrows() {
    var recording = Recording()
    recording.write(0..<4000)
    recording.wait()
    recording.harness.answerReads()
    recording.harness.answerChunk(1, .refused(StepFailure(.sessionGone, "gone")))
    recording.harness.answerChunk(2, .refused(StepFailure(.sessionGone, "gone")))
    recording.harness.advance(by: .milliseconds(30))
    recording.harness.openSession()
    recording.look()
    #expect(recording.send() == [1, 2])
  }
}

@Suite struct HeldFileTests {
  @Test func aTemporaryFileThatWasClosedBeforeItHadASession_getsOne() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "take.mov.part", size: 5500)
    harness.write(file)
    harness.answer(.warmed) { $0.isPrewarm }
    harness.openSession()
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index) == [0, 1, 2, 3, 4, 5])
    #expect(harness.state(file.id) == .held)
  }

  @Test func aSmallTemporaryFile_waitsForItsName() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(ImaginaryFile(1, "take.mov.part", size: 900))
    #expect(!harness.sent.contains { $0.order.isOpenSession } && harness.reads.isEmpty)
  }

  /// Its request failed, its bytes have been read again, and the session that lent the request a nonce must not be opened for
  /// them: its one chunk would be chosen again and again, and never sent.
  @Test func aWholeFileThatIsHeldBackBeforeItsNextTry_isNotChosenAgainAndAgain() {
    var limits = ScheduleHarness.standardLimits
    limits.smallFileBytes = 100
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "take.mov", size: 900)
    harness.write(file)
    harness.answerReads()
    harness.answer(StepFailure.connection(.connectionLost)) { $0.isWholeFile }
    harness.advance(by: .seconds(60))
    #expect(!harness.reads.isEmpty)
    file.snapshot.names = [RelativePath("take.mov.part")]
    harness.handle(.namesChanged(file.snapshot))
    harness.answerReads()
    harness.succeed()
    #expect(!harness.sent.contains { $0.order.carriesChunk } && harness.buffers.isEmpty)
    file.snapshot.names = [RelativePath("take.mov")]
    harness.handle(.namesChanged(file.snapshot))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  @Test(.promises("S62a")) func aTemporaryFileIsSentWhole_andPublishedOnceItIsRenamed() {
    var recording = Recording(named: "take.mov.part")
    recording.write(0..<5500)
    #expect(recording.send() == [1, 2, 3])
    recording.close()
    #expect(recording.harness.state(recording.file.id) == .held)
    #expect(recording.send() == [0, 4, 5])
    #expect(recording.harness.commits.isEmpty)
    recording.rename(to: "take.mov")
    #expect(recording.harness.reads.isEmpty && recording.harness.chunkRequests.isEmpty, "nothing is sent twice")
    #expect(recording.harness.commits.map(\.path) == [RelativePath("take.mov")])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  /// Regression: when the look at a growing file came just after its close, nothing of it was sent before its rename.
  @Test func aTemporaryFileThatCouldNotBeFollowed_isSentOnceItIsComplete() {
    var recording = Recording(named: "take.mov.part")
    recording.write(0..<5500)
    recording.harness.advance(by: .milliseconds(60))
    let wasAsked = recording.look(canFollow: false)
    #expect(wasAsked)
    recording.close()
    #expect(recording.harness.state(recording.file.id) == .held)
    #expect(recording.send() == [0, 1, 2, 3, 4, 5])
    recording.rename(to: "take.mov")
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  @Test(.promises("S62a")) func aTemporaryFileThatIsHeld_isNotWaitedFor() {
    var recording = Recording(named: "take.mov.part")
    recording.write(0..<5500)
    recording.close()
    #expect(recording.harness.schedule.isIdle)
  }

  @Test func aTemporaryFileThatIsWrittenAgain_isNotTakenForWhatItWas() {
    var recording = Recording(named: "take.mov.part")
    recording.write(0..<5500)
    _ = recording.send()
    recording.close()
    _ = recording.send()
    recording.file.snapshot.epoch += 1
    recording.harness.handle(recording.file.changed)
    recording.harness.handle(recording.file.settled)
    recording.rename(to: "take.mov")
    #expect(recording.harness.reads.count == 6, "each chunk is compared with what the server holds")
  }

  @Test func aRenameWhileTheRestIsOnItsWay_sendsTheRestAndCommits() {
    var recording = Recording(named: "take.mov.part")
    recording.write(0..<5500)
    _ = recording.send()
    recording.close()
    recording.harness.answerReads()
    recording.rename(to: "take.mov")
    #expect(recording.harness.chunkRequests.map(\.index).sorted() == [0, 4, 5])
    recording.harness.succeed()
    #expect(recording.harness.state(recording.file.id) == .complete)
  }

  /// Regression: what each of 2,000 files said that were open and rested had all of them looked at, for 30 to 65 % of a core.
  @Test func reportOfAFileThatRests_isNoNews() {
    var recording = Recording()
    let now = recording.harness.now
    var report = GrowthReport(
      file: recording.file.id, chunkBytes: 1000, epoch: 2, sizeBytes: 0, writtenEndBytes: 0, isFirst: false)
    func isNews(after pause: Duration = .zero) -> Bool {
      let time = ClockReading(monotonic: now.monotonic + pause, wallMilliseconds: now.wallMilliseconds)
      return recording.harness.schedule.takeGrowth(report, at: time)
    }
    #expect(!isNews())
    report.sizeBytes = 5000
    report.writtenEndBytes = 5000
    report.changes = (0..<5).map { ChunkChange(index: $0, epoch: 2, isCovered: true, isQuiet: true) }
    #expect(isNews())
    report.changes = []
    #expect(!isNews())
    #expect(isNews(after: .seconds(1)), "they may be sent now")
    #expect(!isNews(after: .seconds(2)))
  }

  /// Regression: the size of each open file was asked for every second, also where its growth says it.
  @Test(arguments: [true, false]) func onlyAFileThatIsNotFollowed_isMeasured(isFollowed: Bool) {
    var recording = Recording()
    recording.write(0..<2500)
    recording.harness.advance(by: .milliseconds(60))
    recording.look(canFollow: isFollowed)
    recording.harness.others = []
    recording.wait()
    #expect(recording.harness.others.contains(.measure(recording.file.id)) == !isFollowed)
  }

  /// Regression: of a file that was opened while as many requests were under way as may be nothing was sent before its close.
  @Test(.promises("S60a")) func whereRequestsAreBusy_sessionsOfOpenFilesWait() {
    var limits = ScheduleHarness.standardLimits
    limits.controlRequests = 2
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    for number in 1...5 { harness.handle(ImaginaryFile(UInt64(number), "\(number).mov", size: 0).opened) }
    harness.answer(.warmed) { $0.isPrewarm }
    harness.advance(by: limits.sessionOpenDelay)
    for left in (1...5).reversed() {
      #expect(harness.sent.count { $0.order.isOpenSession } == min(2, left))
      harness.answer(
        .sessionOpened(id: "s\(left)", chunkBytes: ScheduleHarness.chunkBytes, expiresAtSeconds: nil)
      ) { $0.isOpenSession }
      harness.advance(by: .zero)
    }
    #expect(harness.schedule.files.values.allSatisfy { $0.session?.isOpen == true })
  }
}

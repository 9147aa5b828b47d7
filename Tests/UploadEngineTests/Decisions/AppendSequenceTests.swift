import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Destinations that append: chunks go one after another, all of them or those of a sequence. Chunks have 1000 bytes.
@Suite struct AppendSequenceTests {
  private func harness(_ sequences: AppendSequences) -> ScheduleHarness {
    var harness = ScheduleHarness {
      $0.appendSequences = sequences
      $0.needsChunks = true
      $0.replaceableChunks = sequences == .growing
      $0.unknownLength = sequences == .growing
      $0.bindsNameAtOpening = sequences == .one
      $0.commitListsChunks = sequences == .growing
    }
    harness.handle(.scanEnded)
    return harness
  }

  private func position(_ index: Int, _ harness: ScheduleHarness) -> AppendPosition? {
    harness.sent.lazy.compactMap { request in
      if case .chunk(let one) = request.order, one.chunk.index == index { one.position } else { nil }
    }.first
  }

  @Test(.promises("DE51")) func rows_areFewForFilesOfAnyLength_andFollowEachOther() {
    var index = 0
    var count = 0
    while index < 50_000 {
      let sequence = AppendSequences.growing.sequence(of: index)
      #expect(sequence.lowerBound == index)
      for inside in sequence { #expect(AppendSequences.growing.sequence(of: inside) == sequence) }
      index = sequence.upperBound
      count += 1
    }
    #expect(count < 180)
    #expect(AppendSequences.growing.sequence(of: 47) == 47..<48)
    #expect(AppendSequences.growing.sequence(of: 48) == 48..<52)
    #expect(AppendSequences.growing.sequence(of: 96) == 96..<104)
    #expect(AppendSequences.none.sequence(of: 7) == 7..<8)
    #expect(AppendSequences.one.sequence(of: 7).contains(1_000_000))
  }

  @Test(.promises("DE59")) func chunksOfOneUpload_goOneAfterAnother() {
    var harness = harness(.one)
    harness.beginSending(ImaginaryFile(1, "a.mov", size: 2500))
    for index in 0..<3 {
      #expect(harness.chunkRequests.map(\.index) == [index])
      harness.answerChunk(index, .chunkStoredAs(token: "\(index)"))
      harness.answerReads()
    }
    #expect(harness.commits.count == 1)
  }

  /// As docs/destinations.md says (DE60a, DE73): after an end of the daemon a sequence of which the server kept the
  /// beginning of a chunk goes again.
  @Test(.promises("DE150")) func whatABreakWouldCost_isTheSequence() throws {
    var harness = harness(.one)
    let file = ImaginaryFile(1, "a.mov", size: 2500)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStoredAs(token: "0"))
    harness.answerReads()
    #expect(harness.status(file.id)?.atStakeBytes == 0)
    let second = try #require(harness.sent.first { $0.order.chunks?.chunks.count == 1 }).id
    harness.apply { $0.progressed([second: SentBody(bytes: 300, of: 1000)], at: $1) }
    #expect(harness.status(file.id)?.atStakeBytes == 1300)
  }

  @Test func aChunkThatFails_isSentAgainBeforeTheNext() {
    var harness = harness(.one)
    harness.beginSending(ImaginaryFile(1, "a.mov", size: 2500))
    harness.answerChunk(0, StepFailure.connection(.connectionLost))
    for _ in 0..<20 where harness.chunkRequests.isEmpty {
      harness.advance(by: .seconds(1))
      harness.answerReads()
    }
    #expect(harness.chunkRequests.map(\.index) == [0])
  }

  @Test(.promises("DE4")) func rewrittenBytesOfOneUpload_beginItAnew_andSayWhy() {
    var harness = harness(.one)
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStoredAs(token: "0"))
    harness.answerReads()
    harness.handle(file.changed)
    file.snapshot.epoch = 2
    harness.handle(file.settled)
    harness.answerChunk(1, .chunkStoredAs(token: "1"))
    harness.answerReads()
    #expect(harness.chunkRequests.isEmpty)
    #expect(harness.status(file.id)?.lastFailure?.code == "rewritten")
    harness.answer(.sessionOpened(id: "s2", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index) == [0])
    harness.advance(by: .seconds(6))
    #expect(harness.sent.contains { $0.order.isAbort }, "the first upload is ended")
  }

  private func growing() -> Recording {
    Recording {
      $0.appendSequences = .one
      $0.needsChunks = true
      $0.replaceableChunks = false
      $0.durableChunks = false
    }
  }

  @Test(.promises("DE43")) func oneUpload_growsWithItsFileFromItsBeginning() {
    var recording = growing()
    recording.write(0..<5500)
    #expect(recording.send() == [0, 1, 2, 3])
    recording.write(5500..<7500)
    #expect(recording.send() == [4, 5])
    recording.close()
    for index in [6, 7] {
      recording.harness.answerReads()
      #expect(recording.harness.chunkRequests.map(\.index) == [index])
      recording.harness.answerChunk(index, .chunkStoredAs(token: "\(index)"))
    }
    #expect(recording.harness.commits.map(\.sizeBytes) == [7500])
  }

  @Test(.promises("DE43")) func rewrittenBytesOfAGrowingUpload_beginItAnew_untilItIsLeftForTheEnd() {
    var recording = growing()
    recording.write(0..<5500)
    #expect(recording.send() == [0, 1, 2, 3])
    for round in 1...3 {
      recording.write(1200..<1300)
      recording.wait()
      recording.harness.answerReads()
      #expect(recording.harness.status(recording.file.id)?.lastFailure?.code == "rewritten")
      #expect(recording.harness.chunkRequests.isEmpty)
      recording.wait()
      recording.harness.answer(.sessionOpened(id: "s\(round)", chunkBytes: 1000, expiresAtSeconds: nil)) {
        $0.isOpenSession
      }
      recording.look()
      #expect(recording.send() == (round < 3 ? [0, 1, 2, 3] : []), "round \(round)")
    }
    recording.close()
    for index in 0..<6 {
      recording.harness.answerReads()
      #expect(recording.harness.chunkRequests.map(\.index) == [index])
      recording.harness.answerChunk(index, .chunkStoredAs(token: "\(index)"))
    }
    #expect(recording.harness.commits.count == 1)
  }

  @Test(.promises("DE2", "DE52")) func rowsAreSentAtTheSameTime_andTheirChunksOneAfterAnother() {
    var harness = harness(.growing)
    // 48 chunks of their own, and two sequences of which the second is short.
    let file = ImaginaryFile(1, "a.mov", size: 53_500)
    harness.beginSending(file)
    var sent: [Int] = []
    while let next = harness.chunkRequests.map(\.index).min() {
      sent.append(next)
      let position = self.position(next, harness)
      let sequences = harness.chunkRequests.map { AppendSequences.growing.sequence(of: $0.index) }
      #expect(Set(sequences).count == sequences.count, "two chunks of a row at the same time")
      switch next {
      case ..<48: #expect(position == AppendPosition(sequenceBytes: 1000))
      case 48: #expect(position == AppendPosition(sequenceBytes: 4000))
      case 51: #expect(position == AppendPosition(after: "r48", sequenceOffset: 3000, sequenceBytes: 4000))
      case 52: #expect(position == AppendPosition(sequenceBytes: 1500))
      case 53: #expect(position == AppendPosition(after: "r52", sequenceOffset: 1000, sequenceBytes: 1500))
      default: #expect(position?.after == "r48")
      }
      harness.answerChunk(next, .chunkStoredAs(token: "r\(AppendSequences.growing.sequence(of: next).lowerBound)"))
      harness.answerReads()
    }
    #expect(sent.sorted() == Array(0..<54))
    #expect(harness.commits.first?.chunks[51].token == "r48")
  }

  @Test func aLostRow_beginsAnew_andNothingElse() {
    var harness = harness(.growing)
    harness.beginSending(ImaginaryFile(1, "a.mov", size: 52_000))
    while let next = harness.chunkRequests.map(\.index).min(), next != 50 {
      harness.answerChunk(next, .chunkStoredAs(token: "t\(next / 48)"))
      harness.answerReads()
    }
    harness.answerChunk(50, .refused(StepFailure(.sequenceLost, "gone")))
    for _ in 0..<20 {
      harness.advance(by: .seconds(1))
      harness.answerReads()
    }
    #expect(harness.chunkRequests.map(\.index) == [48])
    #expect(position(48, harness)?.after == nil)
    for index in 48..<52 {
      harness.answerChunk(index, .chunkStoredAs(token: "new"))
      harness.advance(by: .seconds(5))
      harness.answerReads()
    }
    #expect(harness.commits.first?.chunks.suffix(5).map(\.token) == ["t0", "new", "new", "new", "new"])
  }

  @Test(.promises("DE4")) func rewrittenBytesInASequence_restartIt() {
    var harness = harness(.growing)
    var file = ImaginaryFile(1, "a.mov", size: 52_000)
    harness.beginSending(file)
    while let next = harness.chunkRequests.map(\.index).min(), next != 51 {
      harness.answerChunk(next, .chunkStoredAs(token: "t"))
      harness.answerReads()
    }
    harness.handle(file.changed)
    file.snapshot.epoch = 2
    harness.handle(file.settled)
    harness.answerChunk(51, .chunkStoredAs(token: "late"))
    while let next = harness.chunkRequests.map(\.index).min() {
      harness.answerChunk(next, .chunkStoredAs(token: "n"))
      harness.answerReads()
    }
    harness.answerReads()
    while let next = harness.chunkRequests.map(\.index).min() {
      harness.answerChunk(next, .chunkStoredAs(token: "n"))
      harness.answerReads()
    }
    #expect(harness.commits.first?.chunks.map(\.token) == Array(repeating: "n", count: 52))
  }

  @Test(.promises("DE41")) func whatTheServerCanDo_isLearnedFromItsAnswers() {
    var harness = harness(.one)
    var abilities = harness.schedule.destination.abilities
    abilities.appendSequences = .growing
    abilities.replaceableChunks = true
    abilities.unknownLength = true
    abilities.bindsNameAtOpening = false
    abilities.commitListsChunks = true
    harness.offers = DestinationOffers(abilities: abilities)
    harness.beginSending(ImaginaryFile(1, "a.mov", size: 5000))
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, 1, 2, 3, 4])
    // It is no longer bound to its name.
    #expect(harness.schedule.files[FileID(high: 0, low: 1)]?.session?.boundPath == nil)
  }

  /// Regression: only what was open then was looked at again.
  @Test func aFileThatIsHeldUnderATemporaryName_isSentOnceItIsKnownThatItCanBe() {
    var harness = harness(.one)
    harness.write(ImaginaryFile(1, "a.mov.part", size: 5000))
    #expect(!harness.sent.contains { $0.order.isOpenSession })
    var abilities = harness.schedule.destination.abilities
    abilities.appendSequences = .growing
    abilities.replaceableChunks = true
    abilities.unknownLength = true
    abilities.bindsNameAtOpening = false
    harness.offers = DestinationOffers(abilities: abilities)
    harness.answer(.warmed) { $0 == .prewarm }
    harness.answer(.sessionOpened(id: "s", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    #expect(harness.chunkRequests.map(\.index).sorted() == [0, 1, 2, 3, 4])
    #expect(harness.commits.isEmpty)
  }

  /// Regression: only a file that was open asked again what the destination can do.
  @Test func whatADestinationCanDo_isAskedAgainForAFileThatIsHeld_whenNoServerAnswered() {
    var harness = harness(.one)
    harness.write(ImaginaryFile(1, "a.mov.part", size: 5000))
    while harness.answer(StepFailure.connection(.connectFailed), where: { $0 == .prewarm }) != nil {}
    harness.advance(by: .seconds(16))
    var abilities = harness.schedule.destination.abilities
    abilities.appendSequences = .growing
    abilities.replaceableChunks = true
    abilities.unknownLength = true
    abilities.bindsNameAtOpening = false
    harness.offers = DestinationOffers(abilities: abilities)
    #expect(harness.answer(.warmed) { $0 == .prewarm } != nil)
    #expect(harness.sent.contains { $0.order.isOpenSession })
    while harness.answer(.warmed, where: { $0 == .prewarm }) != nil {}
    // Once a server has answered, nothing is kept warm for it.
    harness.advance(by: .seconds(60))
    #expect(!harness.sent.contains { $0.order == .prewarm })
  }

  private func growingOpenings(_ name: String) -> (harness: ScheduleHarness, file: ImaginaryFile) {
    var harness = ScheduleHarness {
      $0.appendSequences = .one
      $0.needsChunks = true
      $0.replaceableChunks = false
      $0.bindsNameAtOpening = true
    }
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, name, size: 5000)
    harness.write(file)
    return (harness, file)
  }

  private func openedLength(_ harness: ScheduleHarness) -> UInt64?? {
    harness.sent.lazy.compactMap { request -> UInt64?? in
      if case .openSession(let opening) = request.order { .some(opening.sizeBytes) } else { nil }
    }.last
  }

  /// Regression: the last byte of the length that was declared published the file under the name that it was to get.
  @Test func oneUploadOfAFileThatIsHeldUnderATemporaryName_hasNoLength() {
    let (held, _) = growingOpenings("a.mov.part")
    #expect(openedLength(held) == .some(nil))
    let (complete, _) = growingOpenings("a.mov")
    #expect(openedLength(complete) == .some(5000))
  }

  @Test func oneUploadWithALength_isNotGoneOnWith_whenItsFileGetsATemporaryName() {
    var (harness, file) = growingOpenings("a.mov")
    harness.answer(.sessionOpened(id: "s", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    harness.answerReads()
    harness.answerChunk(0, .chunkStoredAs(token: "0"))
    file.snapshot.names = [RelativePath("a.mov.part")]
    harness.handle(.namesChanged(file.snapshot))
    #expect(harness.sent.contains { $0.order.isAbort })
    #expect(openedLength(harness) == .some(nil))
  }

  /// Regression: the session of a file that was still empty at its end was committed without a chunk, in vain for ever.
  @Test func aFileThatStaysEmpty_isSentWhole_whereASessionNeedsAChunk() {
    var harness = ScheduleHarness {
      $0.appendSequences = .growing
      $0.needsChunks = true
      $0.commitListsChunks = true
    }
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov.part", size: 5000)
    harness.write(file)
    harness.answer(.sessionOpened(id: "s", chunkBytes: 1000, expiresAtSeconds: nil)) { $0.isOpenSession }
    file.snapshot.sizeBytes = 0
    file.snapshot.epoch += 1
    harness.handle(file.settled)
    file.snapshot.names = [RelativePath("a.mov")]
    harness.handle(.namesChanged(file.snapshot))
    harness.answerReads()
    harness.advance(by: .seconds(1))
    #expect(harness.commits.isEmpty)
    #expect(harness.sent.contains { if case .wholeFile = $0.order { true } else { false } })
  }

  @Test func aSessionThatIsStillThere_goesOnWithWhatWasAcknowledged() {
    var harness = harness(.growing)
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    harness.answerChunk(0, .chunkStoredAs(token: "a"))
    for _ in 0..<60 where !harness.sent.contains(where: { $0.order.isQuery }) {
      harness.answer(StepFailure.connection(.connectionLost)) { $0.isChunk }
      harness.advance(by: .seconds(60))
      harness.answerReads()
    }
    harness.answer(.stillThere) { $0.isQuery }
    harness.advance(by: .seconds(60))
    harness.answerReads()
    #expect(!harness.chunkRequests.contains { $0.index == 0 })
    #expect(!harness.chunkRequests.isEmpty)
  }

  @Test(.promises("DE8")) func aFileLargerThanTheDestinationTakes_failsBeforeItIsSent() {
    var harness = ScheduleHarness { $0.fileBytesMax = 2000 }
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 2001)
    harness.write(file)
    harness.answerReads()
    #expect(harness.state(file.id) == .failed)
    #expect(harness.status(file.id)?.lastFailure?.code == "too-large")
    #expect(harness.chunkRequests.isEmpty)
  }
}

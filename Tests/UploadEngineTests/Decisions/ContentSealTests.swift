import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Files that were on their way when the power went, and of which the spool's disk may have lost anything.
@Suite struct ContentSealTests {
  /// What the next run finds: the file, its entry and its record.
  private struct Remains {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    let entry: CatalogEntry
    let record: ResumeRecord

    /// Everything was acknowledged, and the commit had gone out.
    init(change: (inout UploadSchedule, FileID) -> Void = { _, _ in }) throws {
      var harness = ScheduleHarness()
      harness.handle(.scanEnded)
      harness.beginSending(file)
      while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
      #expect(harness.commits.count == 1)
      change(&harness.schedule, file.id)
      entry = try #require(harness.schedule.catalogEntry(of: file.id))
      record = try #require(harness.schedule.resumeSnapshot(of: file.id, since: nil)?.record)
      // What is read from now on has other digests: as if all of it were zeros.
      file.snapshot.epoch = 0
      file.snapshot.interruption = .notOnDisk
    }

    func found(
      limits: UploadLimits = ScheduleHarness.standardLimits, _ change: (inout ImaginaryFile) -> Void = { _ in }
    ) -> ScheduleHarness {
      var file = file
      change(&file)
      var harness = ScheduleHarness(limits: limits, catalog: [entry], records: [record])
      harness.handle(file.found)
      harness.handle(.scanEnded)
      return harness
    }

    /// The digests of these chunks as they were.
    func digests(_ indices: [Int]) -> LookupTable<Int, Digest32> {
      var digests: LookupTable<Int, Digest32> = [:]
      for index in indices { digests[index] = digest(index).sha256 }
      return digests
    }

    func digest(_ index: Int) -> ChunkDigest {
      ScheduleHarness.digest(file: file.id, epoch: 1, offset: UInt64(index) * 1000)
    }
  }

  private static func expectHeld(_ harness: ScheduleHarness, _ id: FileID) {
    #expect(harness.state(id) == .interrupted && harness.status(id)?.lastFailure?.code == "not-on-disk")
    #expect(harness.commits.isEmpty && !harness.sent.contains { $0.order.isWholeFile || $0.order.isOpenSession })
    #expect(harness.schedule.isIdle && harness.reads.isEmpty && harness.buffers.isEmpty)
  }

  @Test(.promises("S40l", "S40q")) func whatTheServerHolds_isDelivered_andNotReadFromTheDisk() throws {
    let remains = try Remains()
    var harness = remains.found()
    #expect(harness.reads.isEmpty)
    harness.answer(.held(digests: remains.digests([0, 1, 2]))) { $0.isQuery }
    #expect(harness.reads.isEmpty && harness.commits.count == 1)
    harness.succeed()
    #expect(harness.state(remains.file.id) == .complete && harness.schedule.isIdle)
    var renamed = remains.file.snapshot
    renamed.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(renamed))
    harness.advance(by: .seconds(10))
    #expect(harness.state(renamed.id) == .interrupted && harness.reads.isEmpty && harness.sent.isEmpty)
  }

  @Test(.promises("S40c", "S40q"), arguments: [true, false])
  func whatTheServerLacks_isReadFromTheDisk_andCountsOnlyIfAllTogetherIsWhatWasClosed(isOnDisk: Bool) throws {
    let remains = try Remains()
    var harness = remains.found()
    harness.answer(.held(digests: remains.digests([0, 2]))) { $0.isQuery }
    #expect(harness.reads.map(\.offset) == [1000])
    if isOnDisk, let read = harness.reads.popLast() {
      harness.apply { $0.chunkRead(read.id, result: .success(remains.digest(1)), at: $1) }
    }
    harness.answerReads()
    harness.answer(.chunkStored) { $0.isChunk }
    guard isOnDisk else { return Self.expectHeld(harness, remains.file.id) }
    harness.succeed()
    #expect(harness.state(remains.file.id) == .complete)
  }

  /// Regression, found by the simulation (bare-copies, seed 37000005732): the server still held what a chunk had been before it was
  /// changed, and the only copy of what it had become was given up for that.
  @Test(.promises("S40q", "S70b")) func whatIsStillToBeProven_isNotGivenUp() throws {
    let remains = try Remains()
    var limits = ScheduleHarness.standardLimits
    limits.rules.defaults.whenFull = .release
    var harness = remains.found(limits: limits)
    harness.answer(.held(digests: remains.digests([0, 1]))) { $0.isQuery }
    #expect(harness.reads.map(\.offset) == [2000])
    var candidates: [ReleaseCandidate] = []
    harness.apply { candidates = $0.releaseCandidates(bytesMax: .max, at: $1) }
    #expect(candidates.isEmpty && !harness.sent.contains { $0.order.isSecuring })
  }

  @Test(.promises("S40c", "S40q"), arguments: [StepFailure.Kind.sessionGone, .sessionDamaged])
  func withoutItsSession_itIsHeld_andSentInNoOtherWay(kind: StepFailure.Kind) throws {
    let remains = try Remains()
    var harness = remains.found()
    harness.answer(.refused(StepFailure(kind, "gone"))) { $0.isQuery }
    harness.advance(by: .seconds(60))
    Self.expectHeld(harness, remains.file.id)
  }

  /// Found by reading: a change that a disk refused took it, and after a power cut the file was held.
  @Test(.promises("S40q")) func aChangeThatIsRefused_leavesWhatProvesTheContent() throws {
    let now = ScheduleHarness().now
    let remains = try Remains { schedule, id in
      #expect(schedule.contentWillChange(id) && schedule.catalogEntry(of: id)?.seal == nil)
      schedule.contentStays(id, at: now)
    }
    #expect(remains.entry.seal != nil)
  }

  @Test(.promises("S40q"), arguments: [true, false])
  func whatTheServerHasPublished_isDelivered_ifItIsWhatWasClosed(isSame: Bool) throws {
    let remains = try Remains()
    let seal = try #require(remains.entry.seal)
    var harness = remains.found()
    let root = isSame ? Hex.encode(seal.root) : String(repeating: "00", count: 32)
    let tip = String(repeating: "11", count: 32)
    harness.answer(.published(ScheduleHarness.receipt(RelativePath("a.mov"), 3000, root: root, tip: tip))) {
      $0.isQuery
    }
    #expect(harness.reads.isEmpty == isSame)
    harness.answerReads()
    harness.record()
    harness.endCancelled()
    guard isSame else { return Self.expectHeld(harness, remains.file.id) }
    #expect(harness.state(remains.file.id) == .complete)
  }

  @Test(.promises("S40c", "S40q")) func whatWasKnown_isTakenBackBeforeTheContentChanges() throws {
    let remains = try Remains { schedule, id in
      let mustRecord = schedule.contentWillChange(id)
      #expect(mustRecord)
    }
    #expect(remains.entry.seal == nil)
    Self.expectHeld(remains.found(), remains.file.id)
    var entry = try Remains().entry
    entry.contentChanges()
    #expect(entry.seal == nil && entry.failureCode == nil)
  }

  /// A try of the commit that comes between the catalog's forgetting and the change.
  @Test(.promises("S40q")) func nothingIsKnownAgain_beforeTheChange() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    let file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.beginSending(file)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    harness.answer(.refused(StepFailure(.busy, "busy"))) { $0.isCommit }
    harness.apply { schedule, _ in _ = schedule.contentWillChange(file.id) }
    for _ in 0..<5 where harness.commits.isEmpty { harness.advance(by: .seconds(20)) }
    #expect(harness.commits.count == 1 && harness.schedule.catalogEntry(of: file.id)?.seal == nil)
  }

  @Test(.promises("S40c", "S40q"), arguments: [true, false])
  func whatLooksOtherwiseThanWhatWasClosed_isHeld(isShorter: Bool) throws {
    let remains = try Remains()
    let harness = remains.found { file in
      if isShorter { file.snapshot.sizeBytes = 2000 } else { file.snapshot.modifiedNanoseconds += 1 }
    }
    Self.expectHeld(harness, remains.file.id)
  }

  @Test func whatTheDiskHas_needsNoSeal() throws {
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    file.snapshot.isOnDisk = true
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    while harness.answer(.chunkStored, where: { $0.isChunk }) != nil {}
    #expect(harness.commits.count == 1 && harness.schedule.catalogEntry(of: file.id)?.seal == nil)
  }

  @Test func sealsAreReadAsTheyWereWritten() {
    let seal = ContentSeal(root: sha256([1]), chunkBytes: 4096)
    #expect(ContentSeal(seal.text) == seal)
    for text in ["", "4096", "0 \(Hex.encode(seal.root))", "4096 abab", "4096 \(Hex.encode(seal.root)) 1"] {
      #expect(ContentSeal(text) == nil)
    }
  }
}

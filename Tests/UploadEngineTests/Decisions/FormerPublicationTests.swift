import FileModel
import Integrity
import Promises
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// What a start finds where something was published of which the catalog knows no capture any more, or a later content.
@Suite struct FormerPublicationTests {
  private let file = ImaginaryFile(1, "a.mov", size: 3000)
  private let former: FormerPublication
  private let time: Int64

  init() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(file)
    harness.succeed()
    let entry = try #require(harness.schedule.catalogEntry(of: file.id))
    let receipt = try #require(entry.receipt)
    time = entry.modifiedNanoseconds
    let origin = PublicationOrigin(path: entry.path, name: entry.path, modifiedNanoseconds: time)
    let publication = EarlierPublication(
      fileID: FileID(high: 0, low: 77), merkleRoot: receipt.merkleRoot, sizeBytes: receipt.sizeBytes,
      chunkBytes: receipt.chunkBytes, receiptID: "r77", origin: origin)
    former = FormerPublication(publication: publication, origin: origin, name: "a.mov", publishedAtMilliseconds: 5)
  }

  private func found(
    _ catalog: [CatalogEntry] = [], _ change: (inout FileSnapshot) -> Void = { _ in }
  ) -> ScheduleHarness {
    var file = file
    change(&file.snapshot)
    var harness = ScheduleHarness(catalog: catalog)
    harness.apply { schedule, now in
      let former = schedule.mayComeAfterPublication(file.snapshot) ? former : nil
      schedule.handle(.found(file.snapshot), after: former, at: now)
    }
    harness.handle(.scanEnded)
    return harness
  }

  private func expectHeld(_ harness: ScheduleHarness) {
    #expect(harness.state(file.id) == .interrupted)
    #expect(harness.status(file.id)?.lastFailure?.code == "older-than-delivered")
    #expect(harness.sent.isEmpty && harness.reads.isEmpty && harness.buffers.isEmpty && harness.schedule.isIdle)
  }

  /// A later content than the one that was published, which was still to go.
  private func later(_ state: CatalogState, _ code: String?) -> CatalogEntry {
    CatalogEntry(
      id: file.id, path: RelativePath("a.mov"), inode: file.snapshot.inode, sizeBytes: 5000,
      modifiedNanoseconds: time + 10, revision: 2, state: state, failureCode: code, session: "")
  }

  /// Regression: what was removed in the mount and put back was sent again.
  @Test(.promises("S80b", "S80f"), arguments: [-1, 0, 1] as [Int64])
  func theSameContent_isNotSentAgain(timeDifference: Int64) {
    var harness = found { $0.modifiedNanoseconds = time + timeDifference }
    #expect(harness.state(file.id) != .complete, "it counts once it is recorded")
    #expect(harness.reads.isEmpty == (timeDifference == 0), "size and time say it, or its bytes")
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.buffers.isEmpty)
    let receipt = harness.schedule.catalogEntry(of: file.id)?.receipt
    #expect(receipt?.id == "r77" && receipt?.publishedAtMilliseconds == 5 && receipt?.fileID?.low == 77)
    #expect(harness.schedule.isIdle)
  }

  /// Regression, found by random lives: an evicted capture that was put back over a later one counted as delivered, which it was, while the
  /// destination had the later one.
  @Test(.promises("S80b"), arguments: [-1, 0] as [Int64], [0, 1, 2])
  func whatWasEvictedAndIsPutBack_isHeldBesideSomethingNewer(timeDifference: Int64, way: Int) {
    let isItsOwn = way == 1
    // A mount that was killed has not recorded that it is gone.
    var evicted = later(way == 2 ? .complete : .evicted, nil)
    if way == 2 { evicted.inode += 1 }
    evicted.modifiedNanoseconds = time + timeDifference
    evicted.sizeBytes = 3000
    evicted.publishedPaths = [RelativePath("a.mov")]
    evicted.receipt = Receipt(
      id: "r1", name: "a.mov", sizeBytes: 3000, merkleRoot: "", chainTip: "", publishedAtMilliseconds: 1)
    var file = file
    (file.snapshot.sizeBytes, file.snapshot.modifiedNanoseconds) = (3000, time + timeDifference)
    var publication = former.publication
    if isItsOwn { publication.fileID = file.id }
    let former = FormerPublication(
      publication: publication, origin: former.origin, name: former.name, publishedAtMilliseconds: 5)
    var harness = ScheduleHarness(catalog: [evicted])
    #expect(harness.schedule.mayComeAfterPublication(file.snapshot))
    harness.apply { $0.handle(.found(file.snapshot), after: former, at: $1) }
    harness.handle(.scanEnded)
    let isHeld = timeDifference < 0 && !isItsOwn
    #expect((harness.status(file.id)?.lastFailure?.code == "older-than-delivered") == isHeld)
    #expect((harness.state(file.id) == .complete) == !isHeld && harness.sent.isEmpty)
  }

  /// Regression, found by the simulation (templates, seed 20505): a capture that came to the path, and had got another name from another template,
  /// counted as delivered, under a name that the server did not have, and was evicted.
  @Test(.promises("S80f"), arguments: [nil, "a.mov", "other.mov"], [-1, 0] as [Int64])
  func aCaptureThatHasAnotherNameByNow_isNotWhatWasPublished(name: String?, timeDifference: Int64) {
    var file = file
    file.snapshot.modifiedNanoseconds = time + timeDifference
    var harness = ScheduleHarness()
    harness.schedule = UploadSchedule(
      limits: ScheduleHarness.standardLimits, abilities: harness.schedule.destination.abilities,
      publishedName: { _, _ in name },
      random: SplitMix(seed: 7))
    harness.apply { $0.handle(.found(file.snapshot), after: former, at: $1) }
    harness.handle(.scanEnded)
    harness.answerReads()
    harness.record()
    #expect((harness.state(file.id) == .complete) == (name != "other.mov"))
    #expect(harness.sent.isEmpty == (name != "other.mov"))
  }

  /// Found by reading: a recording that was closed just before a kill was held, because it is unknown when an earlier version had published
  /// there.
  @Test(.promises("S80f"), arguments: [(-1, false), (0, true), (1, true)] as [(Int64, Bool)])
  func whereTheTimeIsNotKnown_theCapturesOwnRowSaysWhatIsOlder(timeDifference: Int64, isSent: Bool) {
    var origin = former.origin
    origin.modifiedNanoseconds = .max
    let unknown = FormerPublication(
      publication: former.publication, origin: origin, name: former.name, publishedAtMilliseconds: 5)
    var known = later(.pending, nil)
    known.modifiedNanoseconds = time
    var file = file
    (file.snapshot.sizeBytes, file.snapshot.modifiedNanoseconds) = (2000, time + timeDifference)
    var harness = ScheduleHarness(catalog: [known])
    harness.apply { $0.handle(.found(file.snapshot), after: unknown, at: $1) }
    harness.handle(.scanEnded)
    #expect((harness.status(file.id)?.lastFailure?.code == "older-than-delivered") == !isSent)
  }

  /// Regression: it replaced what had been delivered since, whose capture was removed, or had a later content.
  @Test(
    .promises("S80f"), arguments: [3000, 2000] as [UInt64],
    [nil, ("pending", nil), ("failed", "mount-died"), ("failed", "cancelled")] as [(String, String?)?])
  func anOlderContent_isHeld(sizeBytes: UInt64, later known: (String, String?)?) throws {
    let catalog = try known.map { later(try #require(CatalogState(rawValue: $0.0)), $0.1) }
    // What is read has other digests.
    let change = { (snapshot: inout FileSnapshot) in
      (snapshot.sizeBytes, snapshot.modifiedNanoseconds, snapshot.epoch) = (sizeBytes, time - 1, 0)
    }
    var harness = found(catalog.map { [$0] } ?? [], change)
    harness.answerReads()
    expectHeld(harness)
    harness.record()
    let recorded = try #require(harness.schedule.catalogEntry(of: file.id))
    #expect(recorded.receipt?.id == (known == nil ? "r77" : nil), "put right, it counts as delivered at the next start")
    var next = found([recorded], change)
    next.answerReads()
    expectHeld(next)
    next.apply { _ = $0.publish(file.id, at: $1) }
    next.succeed()
    #expect(next.state(file.id) == .complete)
  }

  /// Found by reading: a part that a power cut had left of a delivered capture was another capture in a copy of the spool without attributes,
  /// because it had another length, and `publish` put it in the place of the whole.
  @Test(.promises("S80g"), arguments: [3000, 2000] as [UInt64])
  func whatNothingProvesWhereSomethingWasPublished_takesItsPlaceByNoWord(sizeBytes: UInt64) throws {
    // What is read has other digests.
    let change = { (snapshot: inout FileSnapshot) in
      (snapshot.sizeBytes, snapshot.modifiedNanoseconds, snapshot.epoch) = (sizeBytes, time + 1, 0)
      snapshot.interruption = .unproven
    }
    var catalog: [CatalogEntry] = []
    for _ in 0..<2 {
      var harness = found(catalog, change)
      for word in [nil, .publish, .cancel, .retry, .publish] as [FileCommand?] {
        var outcome = FileCommandOutcome.doesNotApply
        if let word { harness.apply { outcome = $0.execute(word, file.id, at: $1) } }
        harness.answerReads()
        harness.succeed()
        #expect(outcome == .doesNotApply && harness.state(file.id) == .interrupted && harness.sent.isEmpty)
      }
      #expect(harness.status(file.id)?.lastFailure?.code == "unproven" && harness.schedule.isIdle)
      let known = try #require(harness.schedule.catalogEntry(of: file.id))
      #expect(known.receipt?.id == "r77", "what was published stays known")
      catalog = [known]
    }
  }

  @Test(.promises("S80b")) func whatNothingProves_andIsWhatWasPublished_isDelivered() {
    var harness = found { ($0.modifiedNanoseconds, $0.interruption) = (time + 1, .unproven) }
    harness.answerReads()
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.sent.isEmpty && harness.schedule.isIdle)
  }

  /// What its user wants of a later content is not known to be anything else.
  @Test(.promises("S77g"), arguments: [true, false])
  func whatNothingProves_andIsNotOfWhatWasPublishedLast_isPublishedByItsWord(isLater: Bool) {
    var former = former
    former.isLast = isLater
    var file = file
    (file.snapshot.sizeBytes, file.snapshot.interruption) = (2000, .unproven)
    var harness = ScheduleHarness(catalog: isLater ? [later(.pending, nil)] : [])
    harness.apply { [former] in $0.handle(.found(file.snapshot), after: former, at: $1) }
    harness.handle(.scanEnded)
    #expect(harness.status(file.id)?.lastFailure?.code == "unproven")
    var outcome = FileCommandOutcome.unknownFile
    harness.apply { outcome = $0.publish(file.id, at: $1) }
    harness.succeed()
    #expect(outcome == .obeyed && harness.state(file.id) == .complete)
  }

  /// Found by the simulation (templates, seed 3242): an earlier content that was put back counted as delivered, where another one had been
  /// published since, which nothing but its intent said, or nothing at all.
  @Test(.promises("S80f"), arguments: [false, true])
  func whereAnotherContentMayHaveBeenPublishedSince_nothingCountsAsDelivered(isKnown: Bool) {
    var former = former
    former.isLast = isKnown
    var harness = ScheduleHarness(catalog: isKnown ? [later(.pending, nil)] : [])
    harness.apply { $0.handle(.found(file.snapshot), after: former, at: $1) }
    harness.handle(.scanEnded)
    #expect(harness.state(file.id) != .complete)
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt?.id != "r77")
  }

  /// A camera counts from 1 again, and its mount dies; or a later content was put there by hand.
  @Test(.promises("S80f"), arguments: [3000, 2000] as [UInt64], [false, true])
  func aNewerContent_isSent(sizeBytes: UInt64, isKnown: Bool) {
    var harness = found(isKnown ? [later(.pending, nil)] : []) {
      ($0.sizeBytes, $0.modifiedNanoseconds, $0.epoch) = (sizeBytes, time + 1, 0)
    }
    harness.succeed()
    #expect(harness.state(file.id) == .complete && harness.buffers.isEmpty)
    #expect(harness.schedule.catalogEntry(of: file.id)?.receipt?.id != "r77")
  }

  /// Regression: what a program opened before the search had met it, or what the spool's disk could not say anything of then,
  /// replaced what was newer.
  @Test(
    .promises("S80f"),
    arguments: ["opened", "settled", "unreadable", "unreadable, pending", "opened unasked"])
  func howeverAFileIsMet_anOlderContentIsHeld(_ way: String) {
    var snapshot = file.snapshot
    (snapshot.sizeBytes, snapshot.modifiedNanoseconds, snapshot.epoch, snapshot.wasFound) = (2000, time - 1, 0, true)
    var harness = ScheduleHarness(catalog: way == "unreadable, pending" ? [later(.pending, nil)] : [])
    func report(_ event: FileEvent) {
      harness.apply { schedule, now in
        let isFormer = event.found.map { schedule.mayComeAfterPublication($0) } ?? false
        schedule.handle(event, after: isFormer ? former : nil, at: now)
      }
    }
    var other = snapshot
    switch way {
    case "opened":
      other.writableOpens = 1
      report(.opened(other))
    case "opened unasked":
      // The catalog could not say what was published.
      other.writableOpens = 1
      harness.handle(FileEvent.opened(other).unread)
    case "unreadable", "unreadable, pending":
      other.interruption = .spoolUnreadable(errno: 5)
      report(.found(other))
    default: break
    }
    report(.settled(snapshot))
    harness.handle(.scanEnded)
    harness.answerReads()
    #expect(harness.state(file.id) == .interrupted)
    #expect(harness.status(file.id)?.lastFailure?.code == "older-than-delivered")
    #expect(harness.chunkRequests.isEmpty && !harness.sent.contains { $0.order.isCommit })
    // A content that the mount itself has made since is as good as any.
    snapshot.epoch = 1
    _ = harness.schedule.contentWillChange(snapshot.id)
    report(.changed(snapshot))
    report(.settled(snapshot))
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }

  /// What a writer has closed may have any time, as rsync gives it one.
  @Test(.promises("S80f")) func whatTheCatalogKnowsToBeSent_isSent() {
    var known = later(.pending, nil)
    (known.sizeBytes, known.modifiedNanoseconds) = (2000, time - 1)
    var harness = found([known]) { ($0.sizeBytes, $0.modifiedNanoseconds) = (2000, time - 1) }
    harness.succeed()
    #expect(harness.state(file.id) == .complete)
  }
}

import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Which files are held in memory (`UploadSchedule+Memory`). What becomes of captures meanwhile the simulation says (scenario `unloading`).
@Suite struct UnloadingTests {
  private static let look: Duration = .milliseconds(100)

  /// So many files, of which memory holds two.
  private static func harness(
    waiting count: UInt64, filesMax: Int = 2, named namedCount: UInt64 = 0
  ) -> (ScheduleHarness, [ImaginaryFile]) {
    var limits = ScheduleHarness.standardLimits
    limits.filesInMemory = filesMax
    // All but the first one wait.
    limits.activeLargeFiles = 1
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    let files = (1...max(count, namedCount)).map { ImaginaryFile($0, "\($0)", size: 3500) }
    // Its sums are those of files in memory.
    harness.checksSums = false
    for file in files.prefix(Int(count)) { harness.write(file) }
    return (harness, files)
  }

  private static func takeUnloads(_ harness: inout ScheduleHarness) -> [FileID] {
    defer { harness.others.removeAll { if case .unload = $0 { true } else { false } } }
    return harness.others.flatMap { action -> [FileID] in if case .unload(let ids) = action { ids } else { [] } }
  }

  private static func takeLoads(_ harness: inout ScheduleHarness) -> [FileID] {
    defer { harness.others.removeAll { if case .load = $0 { true } else { false } } }
    return harness.others.flatMap { action -> [FileID] in if case .load(let ids) = action { ids } else { [] } }
  }

  /// As the journal does it. What is let go of.
  @discardableResult
  private static func unload(_ harness: inout ScheduleHarness) -> [FileID] {
    harness.advance(by: look)
    let entries = takeUnloads(&harness).compactMap { harness.schedule.catalogEntry(of: $0) }
    var gone: [FileID] = []
    harness.apply { gone = $0.unloaded(entries, at: $1) }
    return gone
  }

  @Test(.promises("S45j")) func theFilesThatCameLast_areUnloaded_andCountAsBefore() {
    var (harness, files) = Self.harness(waiting: 5)
    let before = harness.schedule.summary(at: harness.now)
    #expect(Self.unload(&harness) == files[2...].map(\.id))
    let after = harness.schedule.summary(at: harness.now)
    #expect(after.filesByState == before.filesByState && after.pendingBytes == before.pendingBytes)
    #expect(after.oldestPendingSequence == before.oldestPendingSequence && after.unloadedFiles == 3)
    #expect(!harness.schedule.isIdle, "they are waited for")
    #expect(files.allSatisfy { harness.schedule.deliveryOutcome(of: $0.id) == nil })
    #expect(harness.schedule.isUnloaded(files[4].id) && harness.status(files[4].id) == nil)
  }

  @Test func whatHasChangedSinceItsRowWasRead_stays() throws {
    var (harness, files) = Self.harness(waiting: 3)
    harness.advance(by: Self.look)
    #expect(Self.takeUnloads(&harness) == [files[2].id])
    let entry = try #require(harness.schedule.catalogEntry(of: files[2].id))
    files[2].snapshot.names = [RelativePath("renamed")]
    harness.handle(.namesChanged(files[2].snapshot))
    var gone: [FileID] = []
    harness.apply { gone = $0.unloaded([entry], at: $1) }
    #expect(gone.isEmpty && harness.status(files[2].id)?.path.displayText == "renamed")
    harness.advance(by: Self.look)
    #expect(Self.takeUnloads(&harness) == [files[2].id], "and goes at the next look")
  }

  @Test func whatHappensToAnUnloadedFile_loadsIt_asTheCatalogKnowsIt() throws {
    var (harness, files) = Self.harness(waiting: 3)
    let entry = try #require(harness.schedule.catalogEntry(of: files[2].id))
    let sequence = harness.schedule.files[files[2].id]?.changeSequence
    #expect(Self.unload(&harness) == [files[2].id])
    harness.apply { schedule, _ in schedule.recall(entry) }
    files[2].snapshot.names = [RelativePath("renamed")]
    harness.handle(.namesChanged(files[2].snapshot))
    #expect(harness.status(files[2].id)?.path.displayText == "renamed" && !harness.schedule.isUnloaded(files[2].id))
    #expect(harness.schedule.files[files[2].id]?.changeSequence == sequence, "its place in the order of changes")
    #expect(harness.schedule.summary(at: harness.now).unloadedFiles == 0)
  }

  /// Regression: where the catalog could not be read, the receipt of an unloaded file stayed while its content changed.
  @Test func unloadedFileWhoseRowCannotBeRead_mayBeDelivered_andItsChangeIsRecordedFirst() {
    var (harness, files) = Self.harness(waiting: 3)
    #expect(Self.unload(&harness) == [files[2].id])
    var mustRecord = false
    harness.apply { schedule, _ in mustRecord = schedule.contentWillChange(files[2].id) }
    #expect(mustRecord)
    let other = ImaginaryFile(9, "other", size: 1)
    harness.apply { schedule, _ in mustRecord = schedule.contentWillChange(other.id) }
    #expect(!mustRecord, "the catalog has no row of a file that was never recorded")
  }

  /// Regression: the row stayed, and the next start reported that another program had taken the file out of the spool.
  @Test func unloadedFileWhoseRowCannotBeRead_isForgotten_whenItIsRemoved() {
    var (harness, files) = Self.harness(waiting: 3)
    #expect(Self.unload(&harness) == [files[2].id])
    harness.handle(.removed(files[2].id))
    #expect(harness.others.contains(.forget(files[2].id)) && !harness.schedule.isUnloaded(files[2].id))
  }

  @Test(.promises("S45j")) func theEarliestChange_comesBackFirst_whereThereIsRoom() throws {
    var (harness, files) = Self.harness(waiting: 5)
    Self.unload(&harness)
    for file in files[..<2] { harness.handle(.removed(file.id)) }
    // What was removed stays shown for a while.
    harness.advance(by: .seconds(10))
    let loads = Self.takeLoads(&harness)
    #expect(loads.first == files[2].id)
    harness.apply { $0.loadEnded(files[2].id, .unreadable, at: $1) }
    #expect(harness.schedule.isUnloaded(files[2].id), "what the disk does not say is not gone")
  }

  /// A folder may have been renamed, or be away for a moment: it counts as taken out of the spool past the mount once a search has not found it.
  @Test func whatDoesNotStandWhereItStood_isSoughtBeforeItIsMissing() throws {
    var (harness, files) = Self.harness(waiting: 3)
    let entry = try #require(harness.schedule.catalogEntry(of: files[2].id))
    Self.unload(&harness)
    harness.apply { $0.loadEnded(files[2].id, .missing, at: $1) }
    #expect(harness.schedule.isUnloaded(files[2].id) && !harness.schedule.isIdle)
    harness.advance(by: .seconds(3))
    #expect(harness.others.contains(.seek) && harness.schedule.soughtFiles == [files[2].id])
    #expect(Self.takeLoads(&harness).isEmpty, "it is not asked for there again")
    harness.apply { schedule, now in
      schedule.recall(entry)
      schedule.soughtInVain([files[2].id], at: now)
    }
    #expect(harness.others.contains { if case .report(.missingFromSpool) = $0 { true } else { false } })
    #expect(!harness.schedule.isUnloaded(files[2].id))
  }

  /// The drain does not wait for ever for what the disk does not say, which is not gone.
  @Test func whatCannotBeLookedAt_isAskedForAgain_andHoldsUpNoDrain() throws {
    var (harness, files) = Self.harness(waiting: 4)
    #expect(Self.unload(&harness) == files[2...].map(\.id))
    for file in files[..<2] { harness.handle(.removed(file.id)) }
    harness.advance(by: .seconds(1))
    #expect(Self.takeLoads(&harness) == files[2...].map(\.id))
    for file in files[2...] { harness.apply { $0.loadEnded(file.id, .unreadable, at: $1) } }
    harness.advance(by: .milliseconds(200))
    #expect(Self.takeLoads(&harness).isEmpty && !harness.schedule.isIdle, "not at once")
    for _ in 0..<12 {
      harness.advance(by: .seconds(1))
      for id in Self.takeLoads(&harness) { harness.apply { $0.loadEnded(id, .unreadable, at: $1) } }
    }
    #expect(harness.schedule.isIdle && files[2...].allSatisfy { harness.schedule.isUnloaded($0.id) })
  }

  /// Regression: `wait` ended for files of a renamed folder that a search was still to come to, where that took longer than ten seconds.
  @Test(.promises("S45j")) func whatIsSought_isWaitedFor_howeverLongTheSearchTakes() throws {
    var (harness, files) = Self.harness(waiting: 3)
    #expect(Self.unload(&harness) == [files[2].id])
    for file in files[..<2] { harness.handle(.removed(file.id)) }
    harness.apply { $0.loadEnded(files[2].id, .missing, at: $1) }
    for _ in 0..<60 { harness.advance(by: .seconds(1)) }
    #expect(harness.others.contains(.seek) && !harness.schedule.isIdle)
    // Of a folder the disk does not say what stands in it.
    harness.apply { $0.soughtInVain([], at: $1) }
    harness.advance(by: .seconds(1))
    #expect(harness.schedule.isIdle && harness.schedule.isUnloaded(files[2].id))
  }

  /// Entries of an earlier run that are read when their files are met.
  @Test(.promises("S45k")) func unreadEntries_countFromTheSearchOn_andAreMissedAtItsEnd() throws {
    var (earlier, files) = Self.harness(waiting: 2, filesMax: .max)
    let entries = files.compactMap { earlier.schedule.catalogEntry(of: $0.id) }
    earlier.others = []
    var harness = ScheduleHarness(limits: ScheduleHarness.standardLimits)
    harness.checksSums = false
    harness.apply { schedule, _ in
      schedule.recover(RecoveredUploads(catalog: [], unread: entries.map(\.id), records: []))
    }
    #expect(harness.schedule.summary(at: harness.now).filesByState[.queued] == 0 && !harness.schedule.isIdle)
    harness.apply { schedule, _ in schedule.recall(entries[0]) }
    files[0].snapshot.wasFound = true
    harness.handle(files[0].found)
    #expect(harness.state(files[0].id) == .uploading || harness.state(files[0].id) == .queued)
    #expect(harness.schedule.unmetFiles == [files[1].id])
    harness.apply { schedule, _ in schedule.recall(entries[1]) }
    harness.handle(.scanEnded)
    #expect(harness.others.contains(.report(.missingFromSpool(files[1].id, RelativePath("2")))))
    #expect(harness.others.contains(.forget(files[1].id)) && harness.schedule.unmetFiles.isEmpty)
  }

  @Test func ofThoseThatWait_theOneWithTheLatestChange_isUnloaded() {
    var (harness, files) = Self.harness(waiting: 4, filesMax: 4)
    harness.handle(.removed(files[1].id))
    // The last one takes its place in the table once it is shown no longer.
    harness.advance(by: .seconds(10))
    harness.schedule.memory.fit.bound(filesMax: 2, deliveredMax: .max)
    harness.write(files[2])
    harness.advance(by: .seconds(10))
    #expect(Self.takeUnloads(&harness).first == files[3].id)
  }

  /// Regression: the time of a delivered file that was unloaded meanwhile was another one than its row's, and its content was in doubt.
  @Test func fileToWhichSomethingIsAboutToHappen_stays() throws {
    var (harness, files) = Self.harness(waiting: 3)
    harness.advance(by: Self.look)
    #expect(Self.takeUnloads(&harness) == [files[2].id])
    let entry = try #require(harness.schedule.catalogEntry(of: files[2].id))
    harness.schedule.keep(files[2].id)
    harness.schedule.keep(files[2].id)
    var gone: [FileID] = []
    harness.apply { gone = $0.unloaded([entry], at: $1) }
    harness.schedule.endKeeping(files[2].id)
    #expect(gone.isEmpty)
    harness.advance(by: .seconds(1))
    #expect(Self.takeUnloads(&harness) == [files[1].id], "another one goes")
    harness.apply { gone = $0.unloaded([], at: $1) }
    harness.schedule.endKeeping(files[2].id)
    harness.advance(by: .seconds(1))
    #expect(Self.takeUnloads(&harness) == [files[2].id])
  }

  /// Regression: a file that had failed before its content changed was unloaded, and its pauses began with the shortest one again.
  @Test func fileWhosePausesHaveGrown_stays() {
    var (harness, files) = Self.harness(waiting: 3)
    harness.schedule.files.update(files[2].id) { $0.failures.paused(for: .seconds(60)) }
    #expect(Self.unload(&harness) == [files[1].id])
  }

  /// Regression: each look went over all files.
  @Test func looks_goOnWhereTheLastOneEnded() {
    let count: UInt64 = 9000
    let (withoutFiles, files) = Self.harness(waiting: 0, filesMax: Int(count) - 1, named: count)
    var harness = withoutFiles
    harness.write(files[0])
    harness.succeed()
    #expect(harness.state(files[0].id) == .complete)
    for var file in files[1...] {
      // Of those with two names none may go.
      file.snapshot.names.append(RelativePath("\(file.id.low) again"))
      harness.write(file)
    }
    var looks = 0
    while Self.unload(&harness).isEmpty, looks < 10 { looks += 1 }
    #expect(harness.schedule.isUnloaded(files[0].id))
    #expect(looks >= 2, "the first two went over the last 8,192 files")
  }

  @Test(.promises("S45j")) func deliveredOnesBeyondTheirBound_go_howeverMuchRoomThereIs() {
    var (harness, files) = Self.harness(waiting: 0, filesMax: 100, named: 4)
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 2)
    for file in files.prefix(3) {
      harness.write(file)
      harness.succeed()
      #expect(Self.takeUnloads(&harness).isEmpty)
    }
    #expect(!harness.schedule.hasRoomForFiles(at: harness.now) && harness.schedule.hasRoomForAsked(at: harness.now))
    harness.write(files[3])
    #expect(Self.unload(&harness) == files.prefix(3).map(\.id) && harness.schedule.hasRoomForFiles(at: harness.now))
    #expect(!harness.schedule.isUnloaded(files[3].id), "what waits stays")
    harness.advance(by: .seconds(10))
    #expect(Self.takeUnloads(&harness).isEmpty)
  }

  /// Regression: a file that a program had queried was unloaded at once where the delivered ones alone were too many.
  @Test(.promises("S45j")) func deliveredOneThatAProgramQueries_staysForAWhile_whereThoseAloneAreTooMany() {
    var (harness, files) = Self.harness(waiting: 0, filesMax: 100, named: 5)
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 2)
    for file in files.prefix(3) {
      harness.write(file)
      harness.succeed()
    }
    harness.apply { $0.askedOf(files[2].id, at: $1) }
    #expect(Self.unload(&harness) == files.prefix(2).map(\.id))
    #expect(harness.state(files[2].id) == .complete)
    for file in files.suffix(2) {
      harness.write(file)
      harness.succeed()
    }
    harness.advance(by: .seconds(11))
    #expect(Self.takeUnloads(&harness).contains(files[2].id), "and goes when the query is a while ago")
  }

  @Test(.promises("S45j")) func listSaysOfThemWhatTheSumsKnow_andOfUnmetOnesWhatWasRecorded() {
    var (harness, files) = Self.harness(waiting: 0, filesMax: 100, named: 2)
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 0)
    harness.write(files[0])
    harness.succeed()
    #expect(harness.schedule.listing(of: files[0].id, recordedAs: .complete) == .inMemory)
    #expect(Self.unload(&harness) == [files[0].id])
    #expect(
      harness.schedule.listing(of: files[0].id, recordedAs: .complete) == .unloaded(.complete, nil, sizeBytes: 3500))
    var later = ScheduleHarness(limits: ScheduleHarness.standardLimits)
    later.checksSums = false
    later.apply { schedule, _ in
      schedule.recover(RecoveredUploads(catalog: [], unread: [files[1].id], records: []))
    }
    let schedule = later.schedule
    func unmet(_ state: CatalogState) -> UploadSchedule.Listing {
      schedule.listing(of: files[1].id, recordedAs: state)
    }
    #expect(unmet(.complete) == .unloaded(.complete, nil, sizeBytes: nil))
    #expect(unmet(.pending) == .unloaded(.queued, nil, sizeBytes: nil))
    #expect(unmet(.failed) == .unknown && unmet(.evicted) == .gone && unmet(.removed) == .gone)
  }

  @Test(.promises("S45j", "S28c")) func deliveredOnesThatAreOnTheirWayBack_mayFreeSpace() {
    var (harness, files) = Self.harness(waiting: 0, named: 3)
    for file in files {
      harness.write(file)
      harness.succeed()
      harness.schedule.memory.fit.bound(filesMax: 9, deliveredMax: .max)
      harness.advance(by: .seconds(1))
    }
    harness.schedule.memory.fit.bound(filesMax: 2, deliveredMax: .max)
    harness.handle(ImaginaryFile(9, "other", size: 1).opened)
    #expect(Self.unload(&harness).count == 3 && !harness.schedule.mayFreeSpace)
    #expect(harness.schedule.unloadedDeliveredBytes == 3 * 3500)
    harness.schedule.memory.fit.bound(filesMax: 3, deliveredMax: .max)
    harness.apply { $0.wantDelivered(at: $1) }
    #expect(harness.schedule.mayFreeSpace)
    harness.advance(by: .milliseconds(1))
    #expect(
      Self.takeLoads(&harness) == files.prefix(2).map(\.id),
      "the oldest delivery first, and no more than there is room for")
    for file in files.prefix(2) { harness.apply { $0.loadEnded(file.id, .unreadable, at: $1) } }
    #expect(!harness.schedule.mayFreeSpace)
    harness.apply { $0.wantDelivered(at: $1) }
    harness.advance(by: .milliseconds(1))
    #expect(Self.takeLoads(&harness) == [files[2].id], "the others did not come: they are not asked for again at once")
    harness.apply { $0.loadEnded(files[2].id, .unreadable, at: $1) }
    harness.apply { $0.wantDelivered(at: $1) }
    #expect(!harness.schedule.mayFreeSpace)
    harness.advance(by: .seconds(1))
    harness.apply { $0.wantDelivered(at: $1) }
    #expect(harness.schedule.mayFreeSpace)
  }

  /// Regression: as long as copies expired every few seconds, no delivered file was unloaded, and memory held all of them.
  @Test(.promises("S45j")) func deliveredOnesThatHaveNotExpired_areUnloaded_whileOthersExpire() throws {
    var (harness, files) = Self.harness(waiting: 0, filesMax: 100, named: 3)
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 0)
    harness.write(files[0])
    harness.succeed()
    #expect(Self.unload(&harness) == [files[0].id])
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: .max)
    for file in files[1...] {
      harness.advance(by: .seconds(1))
      harness.write(file)
      harness.succeed()
    }
    let expired = try #require(harness.schedule.files[files[1].id]?.deliveredAt)
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 1)
    harness.apply { $0.wantDelivered(by: expired, at: $1) }
    harness.advance(by: .milliseconds(1))
    #expect(Self.takeLoads(&harness) == [files[0].id])
    #expect(Self.unload(&harness) == [files[2].id], "the other one is about to be removed")
  }

  /// Regression: as long as memory held delivered files, these were removed, and older ones beyond memory stayed for ever.
  @Test(.promises("S28a", "S45j")) func olderDeliveredOnes_areLoaded_onceYoungerOnesAreRemoved() throws {
    var (harness, files) = Self.harness(waiting: 0, filesMax: 100, named: 2)
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 0)
    harness.write(files[0])
    harness.succeed()
    #expect(Self.unload(&harness) == [files[0].id])
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: .max)
    harness.advance(by: .seconds(1))
    harness.write(files[1])
    harness.succeed()
    let younger = try #require(harness.schedule.evictionCandidates(countMax: 1).first)
    #expect(younger.id == files[1].id)
    harness.apply { $0.wantDelivered(olderThan: [younger], at: $1) }
    harness.advance(by: .milliseconds(1))
    #expect(Self.takeLoads(&harness) == [files[0].id])
    harness.apply { $0.loadEnded(files[0].id, .unreadable, at: $1) }
    harness.apply { $0.wantDelivered(olderThan: [younger], at: $1) }
    harness.advance(by: .milliseconds(1))
    #expect(Self.takeLoads(&harness).isEmpty, "what the disk does not describe is not loaded again at once")
  }

  /// Regression: the oldest one in memory stayed, as a program read it, and younger ones were removed before those beyond memory.
  @Test(.promises("S28a", "S45j")) func olderDeliveredOnes_areLoaded_alsoBehindOneThatStays() {
    var (harness, files) = Self.harness(waiting: 0, filesMax: 100, named: 3)
    harness.write(files[0])
    harness.succeed()
    harness.schedule.keep(files[0].id)
    harness.advance(by: .seconds(1))
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: 0)
    harness.write(files[1])
    harness.succeed()
    #expect(Self.unload(&harness) == [files[1].id])
    harness.schedule.memory.fit.bound(filesMax: 100, deliveredMax: .max)
    harness.advance(by: .seconds(1))
    harness.write(files[2])
    harness.succeed()
    let candidates = harness.schedule.evictionCandidates(countMax: 64)
    #expect(candidates.map(\.id) == [files[0].id, files[2].id])
    harness.apply { $0.wantDelivered(olderThan: candidates, at: $1) }
    harness.advance(by: .milliseconds(1))
    #expect(Self.takeLoads(&harness) == [files[1].id])
  }

  /// Regression: each time that delivered files were wanted added a look for ever.
  @Test func howeverOftenDeliveredOnesAreWanted_thereIsOneLookAtATime() {
    var (harness, _) = Self.harness(waiting: 3)
    harness.succeed()
    Self.unload(&harness)
    for _ in 0..<50 { harness.apply { $0.wantDelivered(at: $1) } }
    harness.advance(by: .milliseconds(1))
    for id in Self.takeLoads(&harness) { harness.apply { $0.loadEnded(id, .missing, at: $1) } }
    let vain = harness.schedule.memory.fit.looksInVain
    harness.advance(by: .milliseconds(100))
    #expect(harness.schedule.memory.fit.looksInVain - vain <= 1)
  }

  /// Regression: how long a copy is kept went by the clock of the machine once its file was unloaded.
  @Test func howLongADeliveredOneIsKept_countsOn_whateverTheClockIsSetTo() throws {
    var (harness, files) = Self.harness(waiting: 1, filesMax: 1)
    harness.succeed()
    let kept = try #require(harness.schedule.files[files[0].id]?.publication.keptSince)
    let entry = try #require(harness.schedule.catalogEntry(of: files[0].id))
    #expect(Self.unload(&harness) == [files[0].id])
    harness.now.wallMilliseconds += 86_400_000_000
    harness.apply { schedule, _ in schedule.recall(entry) }
    harness.handle(files[0].found)
    #expect(harness.schedule.files[files[0].id]?.publication.keptSince == kept)
  }

  /// What an earlier run has recorded of files that are gone is read by and by.
  @Test(.promises("S45k")) func thoseThatAreMissed_areSettledBeforeTheSearchEnds() throws {
    var (earlier, files) = Self.harness(waiting: 3, filesMax: .max)
    let entries = files.compactMap { earlier.schedule.catalogEntry(of: $0.id) }
    earlier.others = []
    var harness = ScheduleHarness(limits: ScheduleHarness.standardLimits)
    harness.checksSums = false
    // Regression: it stayed for ever, and its session at the server.
    let record = ResumeRecord(
      fileID: files[0].id, sessionID: "s", nonce: Array(repeating: 1, count: 32), chunkBytes: 1000, epochRevision: 1,
      path: files[0].snapshot.names[0], sizeBytes: 3500, openedAtSeconds: 1_699_999_000, expiresAtSeconds: nil,
      acknowledged: [])
    harness.apply { schedule, now in
      schedule.recover(RecoveredUploads(catalog: [], unread: entries.map(\.id), records: [record]))
      for entry in entries.prefix(2) { schedule.recall(entry) }
      schedule.missed(files.prefix(2).map(\.id), at: now)
    }
    func missing(_ file: ImaginaryFile) -> Int {
      harness.others.count { if case .report(.missingFromSpool(file.id, _)) = $0 { true } else { false } }
    }
    #expect(files.map(missing) == [1, 1, 0] && harness.schedule.unmetFiles == [files[2].id])
    #expect(harness.others.contains(.removeResume(files[0].id)))
    harness.apply { schedule, _ in schedule.recall(entries[2]) }
    harness.handle(.scanEnded)
    #expect(files.map(missing) == [1, 1, 1] && harness.others.contains(.forget(files[0].id)))
  }

  @Test func entriesOfFilesThatCameBack_areLeftOut() {
    var unloaded = UnloadedFiles()
    for number in 1...3 as ClosedRange<UInt64> {
      unloaded.insert(
        FileID(high: 0, low: number), UnloadedFiles.Summary(pending: 10 - number, sizeBytes: number))
    }
    #expect(unloaded.oldestPending(countMax: 2).map(\.low) == [3, 2] && unloaded.oldestSequence() == 7)
    let facts = unloaded.remove(FileID(high: 0, low: 3))
    #expect(unloaded.oldestPending(countMax: 5).map(\.low) == [2, 1] && unloaded.pendingBytes == 3)
    if let facts { unloaded.insert(FileID(high: 0, low: 3), facts) }
    #expect(unloaded.oldestPending(countMax: 5).map(\.low) == [3, 2, 1], "each once")
    unloaded.insert(FileID(high: 0, low: 4), .unmet)
    #expect(unloaded.count == 3 && unloaded.unmet.map(\.low) == [4] && unloaded.deliveredCount == 0)
  }
}

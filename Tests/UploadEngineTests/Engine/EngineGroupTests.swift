import FileModel
import Glibc
import Promises
import Synchronization
import Testing
import TransferModel

@testable import UploadEngine

/// Two engines over one set of files: films go to both, everything else to the first one.
@Suite struct EngineGroupTests {
  private let file = FileID(high: 1, low: 2)
  private let files = MemoryFiles()
  private let main: EngineBench
  private let archive: EngineBench
  private let group: EngineGroup
  private static let second = "archive"

  init() throws {
    var rules = FileRules()
    rules.rules = [try FileRule("*.mov to=main,archive"), try FileRule("*.raw to=archive")]
    let files = files
    func bench(_ name: DestinationName) throws -> EngineBench {
      try EngineBench(
        directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: files, starts: false
      ) { configuration in
        configuration.limits.rules = rules
        configuration.limits.rules.asker = name
      }
    }
    let name = try #require(DestinationName(Self.second))
    main = try bench(.main)
    archive = try bench(name)
    group = EngineGroup([.init(.main, main.engine), .init(name, archive.engine)])
    group.attach { _ in files }
  }

  private func start() {
    group.start()
    group.waitUntilLoaded()
    group.handle(.scanEnded)
  }

  private func stop() {
    for bench in [main, archive] { bench.transport.stop() }
    group.stop()
    for bench in [main, archive] {
      bench.catalog.close()
      bench.files.remove(directory: bench.directory)
    }
  }

  private func write(_ name: String, _ bytes: [UInt8] = [1, 2, 3]) -> FileSnapshot {
    let snapshot = files.put(file, name, bytes)
    group.handle(.opened(snapshot))
    group.handle(.settled(snapshot))
    return snapshot
  }

  private func waits(for state: FileStatus.State) -> Bool {
    main.waits { _ in group.status(of: file)?.state == state }
  }

  @Test(.promises("S74a", "S74b", "DE12")) func aFile_goesWhereRulesSay_withAReceiptFromEach() throws {
    start()
    defer { stop() }
    _ = write("a.mov")
    #expect(waits(for: .complete))
    #expect(group.summary().filesByState.filter { $0.value != 0 } == [.complete: 1], "it counts once")
    let status = try #require(group.status(of: file))
    #expect(status.destinations.map(\.name.text) == ["main", Self.second])
    #expect(status.destinations.allSatisfy { $0.status.receipt != nil })
    #expect(main.server.state.withLock { $0.published["a.mov"] } == [1, 2, 3])
    #expect(archive.server.state.withLock { $0.published["a.mov"] } == [1, 2, 3])
  }

  @Test(.promises("S74a")) func aFileForOneOfThem_isNothingToTheOther() throws {
    start()
    defer { stop() }
    _ = write("a.raw")
    #expect(waits(for: .complete))
    #expect(group.status(of: file)?.destinations.map(\.name.text) == [Self.second])
    #expect(main.server.state.withLock { $0.steps.allSatisfy { if case .prewarm = $0 { true } else { false } } })
    #expect(group.summary().filesByState[.ignored] == nil, "it is not ignored, it goes elsewhere")
    #expect(main.engine.status(of: file)?.state == .ignored)
  }

  @Test(.promises("S75b")) func theLocalCopy_mayGo_onlyWhenBothHaveIt() throws {
    archive.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") }
    start()
    defer { stop() }
    let snapshot = write("a.mov")
    #expect(main.waits(for: file, .complete) && archive.waits(for: file, .failed))
    #expect(group.status(of: file)?.state == .failed, "the one that is behind is what counts")
    let summary = group.summary()
    #expect(summary.filesByState.filter { $0.value != 0 } == [.failed: 1] && summary.undeliveredCount == 1)
    #expect(group.evictionCandidates(countMax: 64).isEmpty)
    archive.server.state.withLock { $0.isRefusing = nil }
    try group.execute(FileOrder(.retry), on: file)
    #expect(waits(for: .complete))
    #expect(group.evictionCandidates(countMax: 64) == [EvictionCandidate(snapshot)])
    group.handle(.evicted(file))
    #expect(group.status(of: file)?.isLocal == false)
  }

  @Test func whatOneOfThemNeverGot_isGoneFromItsBooks_whenTheOtherOnesCopyGoes() {
    start()
    defer { stop() }
    _ = write("a.raw")
    #expect(waits(for: .complete))
    #expect(!group.evictionCandidates(countMax: 64).isEmpty)
    group.handle(.evicted(file))
    #expect(main.engine.status(of: file) == nil)
    #expect(group.status(of: file)?.state == .complete)
  }

  @Test(.promises("S75c")) func waitingCall_isAnswered_whenTheLastOneHasIt() throws {
    archive.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") }
    start()
    defer { stop() }
    let snapshot = write("a.mov")
    let outcomes = Mutex<[DeliveryOutcome]>([])
    #expect(main.waits(for: file, .complete) && archive.waits(for: file, .failed))
    _ = group.awaitDelivery(of: file, epoch: snapshot.epoch) { outcome in outcomes.withLock { $0.append(outcome) } }
    #expect(outcomes.withLock { $0 } == [.failed])
    archive.server.state.withLock { $0.isRefusing = nil }
    try group.execute(FileOrder(.retry), on: file)
    #expect(waits(for: .complete))
    _ = group.awaitDelivery(of: file, epoch: snapshot.epoch) { outcome in outcomes.withLock { $0.append(outcome) } }
    #expect(outcomes.withLock { $0 } == [.failed, .delivered])
  }

  @Test(
    "Regression: `publish` at the destination that lacks a capture marked the one copy as whole, of which another destination had delivered more",
    .promises("S74b", "S75f"), arguments: [true, false])
  func theCopy_countsAsWhole_onlyWhereNoDestinationDoubtsIt(isDelivered: Bool) throws {
    archive.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") }
    main.server.state.withLock { $0.isRefusing = isDelivered ? nil : StepFailure(.unauthorized, "no") }
    start()
    defer { stop() }
    var snapshot = write("a.mov")
    #expect(main.waits(for: file, isDelivered ? .complete : .failed) && archive.waits(for: file, .failed))
    for bench in [main, archive] { bench.server.state.withLock { $0.isRefusing = nil } }
    snapshot = files.put(file, "a.mov", [1, 2])
    snapshot.interruption = .writerKilled(signal: 9)
    group.handle(.changed(snapshot))
    group.handle(.settled(snapshot))
    #expect(main.waits(for: file, .interrupted) && archive.waits(for: file, .interrupted))
    try group.execute(FileOrder(.publish, destination: DestinationName(Self.second)), on: file)
    #expect(archive.waits(for: file, .complete) && main.engine.status(of: file)?.state == .interrupted)
    #expect(files.accepted.withLock { $0 } == [], "the next start would publish it at the main destination")
    try group.execute(FileOrder(.publish, destination: .main), on: file)
    #expect(main.waits(for: file, .complete))
    #expect(files.accepted.withLock { $0 } == [file])
  }

  /// Regression.
  @Test(.promises("S77c", "S77d")) func aWord_isForAllDestinations_orForOne_andDurableOnReturn() throws {
    for bench in [main, archive] { bench.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") } }
    start()
    defer { stop() }
    _ = write("a.mov")
    #expect(main.waits(for: file, .failed) && archive.waits(for: file, .failed))
    let second = try #require(DestinationName(Self.second))
    #expect(throws: FileOrderRefusal.unknownDestination) {
      try group.execute(FileOrder(.cancel, destination: DestinationName("nowhere")), on: file)
    }
    #expect(throws: FileOrderRefusal.doesNotApply) { try group.execute(FileOrder(.publish), on: file) }
    try group.execute(FileOrder(.cancel, destination: second), on: file)
    #expect(try archive.catalog.loadAll().map(\.failureCode) == ["cancelled"])
    #expect(main.engine.status(of: file)?.state == .failed && archive.engine.status(of: file)?.state == .cancelled)
    try group.execute(FileOrder(.cancel), on: file)
    #expect(try main.catalog.loadAll().map(\.failureCode) == ["cancelled"])
    for bench in [main, archive] { bench.server.state.withLock { $0.isRefusing = nil } }
    try group.execute(FileOrder(.retry, destination: .main), on: file)
    #expect(main.waits(for: file, .complete) && archive.engine.status(of: file)?.state == .cancelled)
    try group.execute(FileOrder(.cancel), on: file)
    try group.execute(FileOrder(.retry), on: file)
    #expect(waits(for: .complete))
    #expect(throws: FileOrderRefusal.doesNotApply) { try group.execute(FileOrder(.cancel), on: file) }
  }

  /// Regression (lives, 208417144): `retry --delivered` delivered to a destination what had been cancelled there, because another one had it.
  @Test(.promises("S77k")) func whatIsDeliveredAgain_isForThoseThatHaveIt() throws {
    archive.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") }
    start()
    defer { stop() }
    _ = write("a.mov")
    #expect(main.waits(for: file, .complete) && archive.waits(for: file, .failed))
    try group.execute(FileOrder(.cancel), on: file)
    archive.server.state.withLock { $0.isRefusing = nil }
    let sent = {
      self.main.server.state.withLock { $0.steps.count { if case .wholeFile = $0 { true } else { false } } }
    }
    try group.execute(FileOrder(.resend), on: file)
    #expect(main.waits { _ in sent() == 2 } && main.waits(for: file, .complete))
    #expect(archive.engine.status(of: file)?.state == .cancelled)
    // Where a user asks for it, or where no destination has it, it is a retry.
    try group.execute(FileOrder(.resend, destination: DestinationName(Self.second)), on: file)
    #expect(waits(for: .complete))
  }

  /// Regression.
  @Test(.promises("S77d")) func aWord_isForWhereTheFileGoes() throws {
    archive.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") }
    start()
    defer { stop() }
    _ = write("a.raw")
    #expect(archive.waits(for: file, .failed))
    #expect(throws: FileOrderRefusal.doesNotApply) {
      try group.execute(FileOrder(.cancel, destination: .main), on: file)
    }
    try group.execute(FileOrder(.cancel), on: file)
    #expect(group.status(of: file)?.state == .cancelled)
  }

  /// Regression: what one catalog had forgotten by then was delivered again to its destination.
  @Test(.promises("S34c")) func aChangeThatOneOfThemCannotRecord_leavesBothAsTheyWere() throws {
    start()
    defer { stop() }
    _ = write("a.mov")
    #expect(waits(for: .complete))
    archive.catalog.close()
    #expect(!group.contentWillChange(file))
    #expect(main.waits { (try? $0.catalog.loadAll().first?.receipt) != nil }, "it is in the catalog again")
    #expect(main.waits(for: file, .complete))
    let sent = main.server.state.withLock { $0.steps.count { if case .wholeFile = $0 { true } else { false } } }
    #expect(sent == 1)
  }

  /// Regression (simulation, waiting 920101205): `sync FILE` after a start failed, or with several destinations
  /// succeeded, as long as the scan had not come to the file.
  @Test(.promises("S43"), arguments: [true, false]) func whoWaitsForAFileThatIsNotFoundYet_waits(isFound: Bool) {
    group.start()
    group.waitUntilLoaded()
    defer { stop() }
    let snapshot = files.put(file, "a.mov", [1, 2, 3])
    let gone = FileID(high: 1, low: 3)
    let outcomes = Mutex<[DeliveryOutcome]>([])
    for id in [file, gone] {
      _ = group.awaitDelivery(of: id, epoch: snapshot.epoch) { outcome in outcomes.withLock { $0.append(outcome) } }
    }
    #expect(outcomes.withLock { $0 } == [])
    group.handle(.removed(gone))
    #expect(main.waits { _ in outcomes.withLock { $0 } == [.failed] })
    if isFound { group.handle(.found(snapshot)) }
    group.handle(.scanEnded)
    if isFound { #expect(waits(for: .complete)) }
    #expect(main.waits { _ in outcomes.withLock { $0.count } == 2 })
    #expect(outcomes.withLock { $0.last } == (isFound ? .delivered : .notToBeDelivered))
  }

  @Test func whoeverWaitsNoMore_isNotTold() {
    start()
    defer { stop() }
    let snapshot = files.put(file, "a.mov", [1])
    group.handle(.opened(snapshot))
    let outcomes = Mutex<[DeliveryOutcome]>([])
    let wait = group.awaitDelivery(of: file, epoch: snapshot.epoch) { outcome in
      outcomes.withLock { $0.append(outcome) }
    }
    group.endWaiting(wait, for: file)
    group.handle(.settled(snapshot))
    #expect(waits(for: .complete))
    #expect(outcomes.withLock { $0 }.isEmpty)
  }
}

extension MemoryFiles {
  fileprivate func remove(directory: String) {
    for name in ["catalog.sqlite", "catalog.sqlite-wal", "master.key"] {
      unlink(directory + "/" + name)
    }
    rmdir(directory + "/resume")
    rmdir(directory)
  }
}

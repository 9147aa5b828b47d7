import FileModel
import Promises
import SeededRandom
import Synchronization
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct UploadEngineTests {
  private func content(_ count: Int, _ seed: UInt64) -> [UInt8] {
    var random = SplitMix(seed: seed)
    return [UInt8](count: count) { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  @Test func files_arriveIdentical_smallLargeAndEmpty() throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: server, files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    var expected: [String: [UInt8]] = [:]
    var ids: [FileID] = []
    for (number, size) in [0, 1, 999, 1000, 1001, 30_500].enumerated() {
      let id = FileID(high: 1, low: UInt64(number + 1))
      let bytes = content(size, UInt64(number))
      let snapshot = files.put(id, "f\(number)", bytes)
      bench.engine.handle(.opened(snapshot))
      bench.engine.handle(.settled(snapshot))
      expected["f\(number)"] = bytes
      ids.append(id)
    }
    for id in ids {
      #expect(bench.waits(for: id, .complete), "\(id): \(String(describing: bench.engine.status(of: id)))")
    }
    #expect(server.state.withLock { $0.published } == expected)
    #expect(bench.engine.isDrained)
    let entries = try bench.catalog.loadAll()
    #expect(entries.count == ids.count)
    #expect(entries.allSatisfy { $0.state == .complete && $0.receipt != nil })
  }

  @Test(arguments: [FileEvent.evicted(FileID(high: 1, low: 1)), .removed(FileID(high: 1, low: 1))])
  func whatAFileThatIsGoneWasCalled_isInItsReceiptAlone(_ isGone: FileEvent) throws {
    let files = MemoryFiles()
    let directory = EngineBench.temporaryDirectory()
    let template = try NameTemplate("{seq:2}/{name}")
    let ledger = try NameLedger(path: directory + "/names.sqlite")
    let bench = try EngineBench(directory: directory, server: MemoryServer(), files: files, ledger: ledger) {
      $0.limits.rules.defaults.name = template
    }
    bench.engine.handle(.scanEnded)
    let id = FileID(high: 1, low: 1)
    let snapshot = files.put(id, "a.mov", content(500, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: id, .complete))
    #expect(try ledger.known([id])[id]?.count == 1)
    bench.engine.handle(isGone)
    let status = bench.engine.status(of: id)
    #expect(status?.publishedName == "01/a.mov" && status?.isLocal == false)
    bench.stop()
    #expect(try ledger.known([id]).isEmpty)
  }

  /// Regression: the engine overwrote what the destination wanted, so that a form that is to be sent once could meet a
  /// connection that the server had just closed.
  @Test(arguments: [true, false]) func aDestinationMayWantANewConnection(_ isWanted: Bool) throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    server.state.withLock { $0.wantsNewConnections = isWanted }
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: server, files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let snapshot = files.put(FileID(high: 1, low: 1), "a.mov", content(500, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: snapshot.id, .complete))
    #expect(bench.transport.newConnections.withLock { $0 } == (isWanted ? 1 : 0))
  }

  /// Regression: the destination has no clock, and a Retry-After may be a date.
  @Test func aDestinationIsTold_whenAnAnswerCame() throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: server, files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let before = SystemClock().now().wallMilliseconds / 1000
    let snapshot = files.put(FileID(high: 1, low: 1), "a.mov", content(500, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: snapshot.id, .complete))
    let after = SystemClock().now().wallMilliseconds / 1000
    let times = server.state.withLock { $0.answeredAt }
    #expect(!times.isEmpty && times.allSatisfy { $0.map { (before...after).contains($0) } ?? false }, "\(times)")
  }

  /// Regression: names were shown by the thread that was carrying out actions, so that a program which had just
  /// created a file sometimes did not find its status.
  @Test func theStatusOfANewFile_isThereWhenItsOpeningWasReported_whateverAnotherThreadDoes() throws {
    let files = MemoryFiles()
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let (isActing, mayGoOn) = (Monitor(false), Monitor(false))
    bench.transport.whenStarting.withLock {
      $0 = {
        isActing.set()
        mayGoOn.wait { $0 ? .done(()) : .again }
      }
    }
    let first = files.put(FileID(high: 1, low: 1), "first.mov", [1])
    let engine = bench.engine
    let acting = WorkerThread("test", .answering) { engine.handle(.opened(first)) }
    isActing.wait { $0 ? .done(()) : .again }
    engine.handle(.opened(files.put(FileID(high: 1, low: 2), "second.mov", [2])))
    let shown = bench.tree.entries(of: RelativePath("status")).map { String(decoding: $0.name, as: UTF8.self) }
    bench.transport.whenStarting.withLock { $0 = nil }
    mayGoOn.set()
    acting.join()
    #expect(shown == ["first.mov.json", "second.mov.json"])
  }

  @Test func cancelledFile_isGoneFromTheServer_andIsDeliveredByARetry() throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    // Twelve warm connections, a session and a dozen chunks get through, then the line is dead.
    let bench = try EngineBench(
      directory: EngineBench.temporaryDirectory(), server: server, files: files, requestsMax: 25)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let id = FileID(high: 1, low: 1)
    let bytes = content(40_000, 5)
    let snapshot = files.put(id, "a.mov", bytes)
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits { ($0.engine.status(of: id)?.chunks.done ?? 0) == 12 })
    bench.transport.revive()
    try bench.engine.execute(.cancel, on: id)
    #expect(bench.waits(for: id, .cancelled))
    #expect(bench.waits { _ in server.state.withLock { $0.sessions.isEmpty } })
    try bench.engine.execute(.retry, on: id)
    #expect(bench.waits(for: id, .complete))
    #expect(server.state.withLock { $0.published } == ["a.mov": bytes])
  }

  @Test func draining_isToldWhenNothingIsLeft() throws {
    let files = MemoryFiles()
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let snapshot = files.put(FileID(high: 1, low: 1), "a", content(3000, 1))
    bench.engine.handle(.opened(snapshot))
    let timesTold = Mutex(0)
    bench.engine.beginDraining { timesTold.withLock { $0 += 1 } }
    #expect(timesTold.withLock { $0 } == 0 && !bench.engine.isDrained)
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits { _ in timesTold.withLock { $0 } == 1 })
    #expect(bench.engine.isDrained)
  }

  @Test func restart_sendsOnlyWhatTheServerDoesNotHold() throws {
    let directory = EngineBench.temporaryDirectory()
    let files = MemoryFiles()
    let server = MemoryServer()
    let id = FileID(high: 1, low: 1)
    let bytes = content(40_000, 5)
    // Twelve warm connections, a session and a dozen chunks get through, then the line is dead.
    let first = try EngineBench(directory: directory, server: server, files: files, requestsMax: 25)
    first.engine.handle(.scanEnded)
    let snapshot = files.put(id, "a.mov", bytes)
    first.engine.handle(.opened(snapshot))
    first.engine.handle(.settled(snapshot))
    #expect(first.waits { ($0.engine.status(of: id)?.chunks.done ?? 0) == 12 })
    first.stop()
    let heldBefore = server.state.withLock { $0.sessions["session-0"]?.chunks.count ?? 0 }
    let sentBefore = server.state.withLock { $0.chunkRequests }
    #expect(heldBefore == 12)

    let second = try EngineBench(directory: directory, server: server, files: files)
    defer { second.stop() }
    #expect(second.engine.knownIdentities[snapshot.inode] == id)
    second.engine.handle(.found(snapshot))
    second.engine.handle(.scanEnded)
    #expect(second.waits(for: id, .complete))
    #expect(server.state.withLock { $0.published["a.mov"] } == bytes)
    #expect(server.state.withLock { $0.chunkRequests } - sentBefore == 40 - heldBefore)
  }

  /// The mount is there before the catalog is read. What is reported until then keeps its order, no receipt outlives
  /// the content that it is of, and what was delivered is not delivered again.
  @Test(.promises("S35b")) func whatIsReportedBeforeTheCatalogIsRead_waitsForIt() throws {
    let directory = EngineBench.temporaryDirectory()
    let files = MemoryFiles()
    let server = MemoryServer()
    let same = FileID(high: 1, low: 1)
    let changed = FileID(high: 1, low: 2)
    let new = FileID(high: 1, low: 3)
    let first = try EngineBench(directory: directory, server: server, files: files)
    for (id, name) in [(same, "same"), (changed, "changed")] {
      first.engine.handle(.settled(files.put(id, name, content(800, id.low))))
      #expect(first.waits(for: id, .complete))
    }
    let before = try #require(files.snapshot(of: changed))
    first.stop()

    let second = try EngineBench(directory: directory, server: server, files: files, starts: false)
    defer { second.stop() }
    second.engine.handle(.opened(before))
    #expect(second.engine.contentWillChange(changed))
    #expect(try second.catalog.loadAll().first { $0.id == changed }?.receipt == nil)
    second.engine.handle(.changed(before))
    second.engine.handle(.settled(files.put(changed, "changed", content(900, 9))))
    second.engine.handle(.settled(files.put(new, "new", content(700, 7))))
    #expect(second.engine.mayFreeSpace)
    server.state.withLock { $0.published["same"] = nil }
    second.engine.start()
    second.engine.waitUntilLoaded()
    second.engine.handle(.found(try #require(files.snapshot(of: same))))
    second.engine.handle(.scanEnded)
    #expect(second.waits(for: changed, .complete) && second.waits(for: new, .complete))
    #expect(second.engine.status(of: same)?.state == .complete)
    let expected = ["changed": content(900, 9), "new": content(700, 7)]
    #expect(server.state.withLock { $0.published } == expected)
  }

  @Test func tooManyEventsBeforeTheCatalogIsRead_haveTheirCallersWait() throws {
    let bench = try EngineBench(
      directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: MemoryFiles(), starts: false)
    defer { bench.stop() }
    let handled = Mutex(0)
    let engine = bench.engine
    let caller = WorkerThread("test", .answering) {
      for number in 0...StartupEventBuffer.countMax {
        engine.handle(.removed(FileID(high: 1, low: UInt64(number))))
        handled.withLock { $0 += 1 }
      }
    }
    #expect(bench.waits { _ in handled.withLock { $0 } == StartupEventBuffer.countMax })
    bench.engine.start()
    caller.join()
    #expect(handled.withLock { $0 } == StartupEventBuffer.countMax + 1)
  }

  /// Short memory makes the pipeline small and never stops it, and nothing of a chunk's size is allocated in the loop.
  @Test func withoutMemory_filesStillArrive_throughAFewBuffers() throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    let available = Mutex<UInt64>(.max)
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: server, files: files) {
      $0.availableMemory = { available.withLock { $0 } }
    }
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    func deliver(_ number: UInt64) {
      let bytes = content(60_500, number)
      let snapshot = files.put(FileID(high: 1, low: number), "f\(number)", bytes)
      bench.engine.handle(.opened(snapshot))
      bench.engine.handle(.settled(snapshot))
      #expect(bench.waits(for: FileID(high: 1, low: number), .complete))
      #expect(server.state.withLock { $0.published["f\(number)"] } == bytes)
    }
    deliver(1)
    let statistics = bench.engine.pipelineStatistics
    #expect(statistics.chunksRead == 61)
    #expect(statistics.blocksMapped <= UploadConstants.bufferPoolSize)
    available.withLock { $0 = 0 }
    #expect(bench.waits { $0.engine.pipelineStatistics.buffers <= 3 })
    deliver(2)
    #expect(bench.engine.pipelineStatistics.buffers <= 3)
    available.withLock { $0 = .max }
  }

  @Test("Regression: until the first look at the memory a start took all buffers, and was killed again")
  func startWithoutMemory_takesFewBuffersFromTheFirst() throws {
    let files = MemoryFiles()
    let bench = try EngineBench(
      directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: files, starts: false
    ) { $0.availableMemory = { 0 } }
    defer { bench.stop() }
    let snapshot = files.put(FileID(high: 1, low: 1), "f", content(60_500, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    bench.engine.handle(.scanEnded)
    bench.engine.start()
    #expect(bench.waits(for: FileID(high: 1, low: 1), .complete))
    #expect(bench.engine.pipelineStatistics.blocksMapped <= MemoryBudget.smallest.buffers)
  }

  @Test("Regression: each of several destinations took all memory that was left, and the mount was killed for it")
  func engines_shareTheMemoryOfTheirProcess() throws {
    let files = MemoryFiles()
    let bench = try EngineBench(
      directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: files, starts: false
    ) {
      // For one engine twelve chunks in flight, for each of six two.
      $0.availableMemory = { 240_000_000 }
      $0.enginesOfProcess = 6
    }
    defer { bench.stop() }
    let snapshot = files.put(FileID(high: 1, low: 1), "f", content(60_500, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    bench.engine.handle(.scanEnded)
    bench.engine.start()
    #expect(bench.waits(for: FileID(high: 1, low: 1), .complete))
    #expect(bench.engine.pipelineStatistics.blocksMapped <= MemoryBudget.smallest.buffers)
  }

  @Test(.promises("S34a")) func changeOfADeliveredFile_isDurableBeforeItHappens() throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: server, files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let id = FileID(high: 1, low: 1)
    let snapshot = files.put(id, "a", content(10, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: id, .complete))
    #expect(bench.engine.contentWillChange(id))
    let entry = try #require(try bench.catalog.loadAll().first)
    #expect(entry.state == .pending)
    #expect(entry.receipt == nil)
  }

  /// Regression: the change went on, and after a crash the old receipt could stand for the new content.
  @Test(.promises("S34c")) func changeThatCannotBeRecorded_isRefusedEachTime() throws {
    let bench = try EngineBench(
      directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: MemoryFiles())
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    let id = FileID(high: 1, low: 1)
    let snapshot = bench.files.put(id, "a", content(10, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: id, .complete))
    bench.catalog.close()
    #expect(!bench.engine.contentWillChange(id))
    #expect(bench.engine.status(of: id)?.state != .writing, "it is what it was")
    #expect(!bench.engine.contentWillChange(id))
    #expect(bench.server.state.withLock { $0.steps.count { if case .wholeFile = $0 { true } else { false } } } == 1)
  }

  /// Regression: a cancelled file whose change was refused was delivered.
  @Test(.promises("S34c", "S77f"), arguments: [true, false])
  func changeOfACancelledFileThatCannotBeRecorded_leavesItCancelled(isOpen: Bool) throws {
    let bench = try EngineBench(
      directory: EngineBench.temporaryDirectory(), server: MemoryServer(), files: MemoryFiles())
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    bench.server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "no") }
    let id = FileID(high: 1, low: 1)
    let snapshot = bench.files.put(id, "a", content(10, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: id, .failed))
    try bench.engine.execute(.cancel, on: id)
    bench.server.state.withLock { $0.isRefusing = nil }
    bench.catalog.close()
    if isOpen { bench.engine.handle(.opened(snapshot)) }
    for _ in 0..<2 {
      #expect(!bench.engine.contentWillChange(id))
      #expect(bench.engine.status(of: id)?.state == .cancelled)
    }
    if isOpen { bench.engine.handle(.settled(snapshot)) }
    #expect(bench.engine.status(of: id)?.state == .cancelled)
  }

  @Test func refusedFile_saysWhy_andIsDeliveredByARetry() throws {
    let files = MemoryFiles()
    let server = MemoryServer()
    let bench = try EngineBench(directory: EngineBench.temporaryDirectory(), server: server, files: files)
    defer { bench.stop() }
    bench.engine.handle(.scanEnded)
    server.state.withLock { $0.isRefusing = StepFailure(.unauthorized, "The receiver refused the token.") }
    let id = FileID(high: 1, low: 1)
    let snapshot = files.put(id, "a", content(10, 1))
    bench.engine.handle(.opened(snapshot))
    bench.engine.handle(.settled(snapshot))
    #expect(bench.waits(for: id, .failed))
    #expect(bench.engine.status(of: id)?.lastFailure?.code == "unauthorized")
    #expect(bench.engine.summary().failedPaths == [RelativePath("a")])
    server.state.withLock { $0.isRefusing = nil }
    try bench.engine.execute(.retry, on: id)
    #expect(bench.waits(for: id, .complete))
  }
}

extension Monitor<Bool> {
  fileprivate func set() {
    withLock { isSet, signal in
      isSet = true
      signal.broadcast()
    }
  }
}

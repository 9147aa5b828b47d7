import FileModel
import Glibc
import Promises
import SeededRandom
import Synchronization
import Testing
import Threads

@testable import UploadEngine

@Suite struct StatusTreeTests {
  private let source = FakeSource()
  private let tree: StatusTree

  init() {
    tree = StatusTree(
      source: source,
      controlFiles: [
        ControlFile("summary.json") { Array("all".utf8) }, ControlFile("metrics") { Array("one 1\n".utf8) },
      ],
      notificationInterval: .milliseconds(33))
  }

  private func id(_ number: UInt64) -> FileID { FileID(high: 0, low: number) }

  private func add(_ number: UInt64, _ paths: String...) {
    source.set(id(number), path: RelativePath(paths[0]))
    tree.update(id: id(number), paths: paths.map { RelativePath($0) })
  }

  private func node(_ path: String) -> VirtualNode? { tree.node(at: RelativePath(path)) }

  private func names(_ directory: String) -> [String] {
    tree.entries(of: RelativePath(directory)).map { String(decoding: $0.name, as: UTF8.self) }
  }

  private func link(_ target: String) -> VirtualNode { .link(target: Array(target.utf8)) }

  /// The file that a document is about.
  private func about(_ path: String) throws -> String? {
    guard let bytes = tree.contents(of: RelativePath(path)) else { return nil }
    return try JSONValue.parse(bytes)["file_id"]?.text
  }

  @Test func anEmptyTreeHasItsTwoDirectories() {
    #expect(tree.topLevelNames == [Array("status".utf8), Array(".uploadfs".utf8)])
    #expect(node("status") == .directory && node(".uploadfs") == .directory)
    #expect(names("status").isEmpty)
    #expect(names(".uploadfs") == ["metrics", "summary.json"])
    #expect(tree.contents(of: RelativePath("status")) == nil)
    for path in ["", "statu", "status/x", "status/x.json", "status/.json", ".uploadfs/x", ".uploadfs/summary.json/x"] {
      #expect(node(path) == nil && names(path).isEmpty, "\(path)")
      #expect(tree.version(of: RelativePath(path)) == 0, "\(path)")
    }
  }

  /// Regression: until the catalog was read, files had no status, those of earlier runs as well as new ones.
  @Test func whatIsNotKnownYet_isLookedForAgainOnceEarlierRunsAre() {
    source.whenLoaded.withLock { $0 = { [self] in add(1, "a.mov") } }
    #expect(names("status").isEmpty)
    #expect(node("status/a.mov.json") != nil)
  }

  @Test func everyFileHasADocumentUnderItsPath() throws {
    add(1, "a.mov")
    add(2, "day 1/deep/b.mov")
    #expect(names("status") == ["a.mov.json", "day 1"])
    #expect(names("status/day 1") == ["deep"])
    #expect(names("status/day 1/deep") == ["b.mov.json"])
    #expect(node("status/day 1/deep") == .directory)
    #expect(try about("status/day 1/deep/b.mov.json") == id(2).description)
    #expect(try about("status/a.mov.json") == id(1).description)
    #expect(node("status/a.mov") == nil && node("status/a.mov.json/x") == nil && node("status/day 1.json") == nil)
  }

  @Test func fileOfWhichOnlyThePastIsKnown_coversNoneThatHasItsName() throws {
    add(1, "a.mov")
    source.set(id(2), path: RelativePath("a.mov"))
    tree.update(id: id(2), paths: [RelativePath("a.mov")], areFormer: true)
    #expect(try about("status/a.mov.json") == id(1).description)
    #expect(names("status") == ["a.mov.json"])
    tree.remove(id: id(1))
    #expect(try about("status/a.mov.json") == id(2).description)
    add(3, "a.mov")
    #expect(try about("status/a.mov.json") == id(3).description)
    tree.remove(id: id(2))
    tree.remove(id: id(3))
    #expect(node("status/a.mov.json") == nil && names("status").isEmpty)
  }

  @Test func sizeIsThatOfTheContents() throws {
    add(1, "a.mov")
    for reasonLength in [0, 500, 3000] {
      source.change(id(1)) { $0.reason = String(repeating: "x", count: reasonLength) }
      let bytes = try #require(tree.contents(of: RelativePath("status/a.mov.json")))
      #expect(node("status/a.mov.json") == .file(sizeBytes: bytes.count))
      #expect(tree.entries(of: RelativePath("status")).first?.node == .file(sizeBytes: bytes.count))
    }
    #expect(tree.contents(of: RelativePath(".uploadfs/summary.json")) == Array("all".utf8))
    #expect(node(".uploadfs/summary.json") == .file(sizeBytes: 3))
    #expect(tree.contents(of: RelativePath(".uploadfs/metrics")) == Array("one 1\n".utf8))
    #expect(tree.entries(of: RelativePath(".uploadfs")).map(\.node) == [.file(sizeBytes: 6), .file(sizeBytes: 3)])
  }

  @Test func namesOfAnyBytesAreMirroredAsTheyAre() {
    let path = RelativePath(bytes: [0xff, 0x0a, 0x2f] + Array(repeating: 0x80, count: 255))
    source.set(id(1), path: path)
    tree.update(id: id(1), paths: [path])
    let document = RelativePath(bytes: Array("status/".utf8) + path.bytes + Array(".json".utf8))
    #expect(tree.contents(of: document) != nil)
    #expect(tree.entries(of: document.parent).map(\.name.count) == [260])
  }

  @Test func renamedLinkedAndRemovedFilesMove() throws {
    add(1, "in/a.part")
    add(1, "out/a.mov", "out/b.mov")
    #expect(names("status") == ["out"])
    #expect(names("status/out") == ["a.mov.json", "b.mov.json"])
    #expect(try about("status/out/b.mov.json") == id(1).description)
    tree.remove(id: id(1))
    tree.remove(id: id(1))
    #expect(names("status").isEmpty && node("status/out") == nil)
    tree.update(id: id(2), paths: [])
    #expect(names("status").isEmpty)
  }

  @Test func aDirectoryStaysWhileAnotherFileIsInIt() {
    add(1, "d/e/one")
    add(2, "d/two")
    tree.remove(id: id(1))
    #expect(names("status/d") == ["two.json"])
    #expect(node("status/d/e") == nil)
  }

  @Test func aFileThatTakesANameCoversTheOldOneUntilItGoes() throws {
    add(1, "a.mov")
    let first = tree.version(of: RelativePath("status/a.mov.json"))
    add(2, "a.mov")
    #expect(try about("status/a.mov.json") == id(2).description)
    #expect(names("status") == ["a.mov.json"])
    #expect(node("status/a.json") == link("a.mov.json"))
    let second = tree.version(of: RelativePath("status/a.mov.json"))
    tree.remove(id: id(2))
    #expect(try about("status/a.mov.json") == id(1).description)
    #expect(node("status/a.json") == link("a.mov.json"))
    #expect(second > first)
    #expect(tree.version(of: RelativePath("status/a.mov.json")) != second)
  }

  @Test func aFileThatTheSourceNoLongerKnowsIsNotThere() {
    tree.update(id: id(9), paths: [RelativePath("ghost")])
    #expect(node("status/ghost.json") == nil)
    #expect(tree.contents(of: RelativePath("status/ghost.json")) == nil)
  }

  // MARK: - Short forms

  @Test func theShortFormLeadsToTheOnlyCaptureWithThatStem() {
    add(1, "day 1/deep/scan42.mov")
    #expect(node("status/scan42.json") == link("day 1/deep/scan42.mov.json"))
    #expect(names("status") == ["day 1"])
    #expect(tree.contents(of: RelativePath("status/scan42.json")) == nil)
    #expect(node("status/day 1/scan42.json") == nil)
    #expect(tree.version(of: RelativePath("status/scan42.json")) > 0)
    add(2, "day 2/scan42.wav")
    #expect(node("status/scan42.json") == nil)
    add(3, "scan42.txt")
    tree.remove(id: id(1))
    #expect(node("status/scan42.json") == nil)
    tree.remove(id: id(3))
    #expect(node("status/scan42.json") == link("day 2/scan42.wav.json"))
    add(2, "day 2/scan43.wav")
    #expect(node("status/scan42.json") == nil)
    #expect(node("status/scan43.json") == link("day 2/scan43.wav.json"))
  }

  /// Regression: a file that was removed or evicted kept its stem, so that the short form was gone.
  @Test func theShortFormMeansTheFileThatIsThere_elseTheLatest() throws {
    func gone(_ number: UInt64, _ path: String) {
      tree.update(id: id(number), paths: [RelativePath(path)], areFormer: true)
    }
    add(1, "scan42.mov")
    gone(1, "scan42.mov")
    #expect(node("status/scan42.json") == link("scan42.mov.json"), "it is the only one")
    add(2, "scan42.wav")
    #expect(node("status/scan42.json") == link("scan42.wav.json"))
    add(3, "old/scan42.mov")
    #expect(node("status/scan42.json") == nil, "two are there")
    gone(3, "old/scan42.mov")
    #expect(node("status/scan42.json") == link("scan42.wav.json"))
    gone(2, "scan42.wav")
    #expect(node("status/scan42.json") == link("old/scan42.mov.json"), "the one that was made last")
    tree.remove(id: id(3))
    #expect(node("status/scan42.json") == link("scan42.wav.json"))
    add(2, "scan42.wav")
    tree.remove(id: id(1))
    gone(2, "scan42.wav")
    tree.remove(id: id(2))
    #expect(node("status/scan42.json") == nil)
    add(4, "a.mov", "b.mov")
    gone(4, "a.mov")
    #expect(node("status/a.json") != nil && node("status/b.json") != nil, "both documents stay")
  }

  /// Regression.
  @Test(.promises("SE5a")) func everythingIsAboutACaptureOrAFolderOfCaptures() throws {
    add(1, "d/e/a.mov")
    func subject(_ path: String) -> VirtualSubject? { tree.subject(of: RelativePath(path)) }
    #expect(subject("status") == .folder(.root) && subject(".uploadfs") == .folder(.root))
    #expect(subject("status/d") == .folder(RelativePath("d")) && subject("status/d/e") == .folder(RelativePath("d/e")))
    #expect(
      subject("status/d/e/a.mov.json") == .file(id(1), last: nil) && subject(".uploadfs/metrics") == .folder(.root))
    #expect(subject("status/a.json") == nil && subject("status/none") == nil)
    let owned = FileOwnership(user: 5, group: 6, mode: 0o640)
    source.set(id(1), path: RelativePath("d/e/a.mov"), ownership: owned)
    #expect(subject("status/d/e/a.mov.json") == .file(id(1), last: owned))
  }

  /// Regression.
  @Test(.promises("S77b", "S77c")) func aWordGoesToTheSource_andItsRefusalIsAnErrno() throws {
    add(1, "a.mov")
    add(2, "gone.mov")
    source.change(id(2)) { $0.isLocal = false }
    let path = RelativePath("status/a.mov.json")
    #expect(tree.isWritable(path) && !tree.isWritable(RelativePath("status/gone.mov.json")))
    for other in ["status", "status/a.json", "status/none", ".uploadfs/metrics"] {
      #expect(!tree.isWritable(RelativePath(other)), "\(other)")
    }
    try tree.write(Array("retry main\n".utf8), to: path)
    #expect(source.orders.withLock { $0 } == [FileOrder(.retry, destination: .main)])
    func errno(_ text: String, _ refusal: FileOrderRefusal? = nil) -> Int32? {
      source.refusal.withLock { $0 = refusal }
      do throws(VirtualWriteRefusal) {
        try tree.write(Array(text.utf8), to: path)
        return nil
      } catch {
        return error.errno
      }
    }
    #expect(errno("start") == EINVAL && errno("retry", .doesNotApply) == EINVAL)
    #expect(errno("retry", .unknownDestination) == EINVAL && errno("retry", .unknownFile) == ENOENT)
    #expect(errno("retry", .ending) == EROFS)
    #expect(errno("retry", .notDurable(StorageError(.full, "no room"))) == ENOSPC)
    #expect(source.orders.withLock { $0.count } == 1)
  }

  @Test func aFullDocumentComesBeforeAShortForm() throws {
    add(1, "day 1/scan42.mov")
    add(2, "scan42")
    #expect(try about("status/scan42.json") == id(2).description)
    tree.remove(id: id(2))
    #expect(node("status/scan42.json") == link("day 1/scan42.mov.json"))
  }

  @Test func twoNamesOfOneCaptureAreOneCapture() {
    add(1, "b/scan.mov", "a/scan.mov")
    #expect(node("status/scan.json") == link("b/scan.mov.json"))
    add(1, "a/scan.mov")
    #expect(node("status/scan.json") == link("a/scan.mov.json"))
    add(1, "a/other.mov")
    #expect(node("status/scan.json") == nil)
  }

  @Test func stemsLoseOneExtension() {
    add(1, "d/archive.tar.gz")
    add(2, "d/.hidden")
    add(3, "d/plain")
    add(4, "d/dot.")
    #expect(node("status/archive.tar.json") == link("d/archive.tar.gz.json"))
    #expect(node("status/archive.json") == nil)
    #expect(node("status/.hidden.json") == link("d/.hidden.json"))
    #expect(node("status/plain.json") == link("d/plain.json"))
    #expect(node("status/dot.json") == link("d/dot..json"))
  }

  // MARK: - Names in the way of each other

  @Test func aDirectoryInTheWayOfADocumentMovesItAside() throws {
    add(1, "a")
    add(2, "a.json/b")
    #expect(node("status/a.json") == .directory)
    #expect(names("status") == ["a.json", "a.json.json"])
    #expect(try about("status/a.json.json") == id(1).description)
    #expect(try about("status/a.json/b.json") == id(2).description)
    tree.remove(id: id(2))
    #expect(names("status") == ["a.json"])
    #expect(try about("status/a.json") == id(1).description)
    #expect(node("status/a.json.json") == nil)
  }

  @Test func aRemovedFilesDocumentStaysBesideTheDirectoryThatTookItsName() throws {
    add(1, "a")
    add(2, "a/b")
    #expect(names("status") == ["a", "a.json"])
    #expect(try about("status/a.json") == id(1).description)
    #expect(try about("status/a/b.json") == id(2).description)
  }

  @Test func everyListedEntryIsThereAndNoneTwice() {
    // All paths of up to three components over names that collide with the suffixes.
    let parts = ["a", "a.json", "a.json.json", "b"]
    var generator = SplitMix(seed: 42)
    var living: [UInt64: RelativePath] = [:]
    for round in 0..<600 {
      let depth = Int.random(in: 1...3, using: &generator)
      let path = RelativePath(
        (0..<depth).map { _ in parts[Int.random(in: 0..<parts.count, using: &generator)] }.joined(separator: "/"))
      let number = UInt64.random(in: 0..<12, using: &generator)
      if Bool.random(using: &generator) {
        source.set(id(number), path: path)
        tree.update(id: id(number), paths: [path])
        living[number] = path
      } else {
        tree.remove(id: id(number))
        living[number] = nil
      }
      var documents: [FileID] = []
      check(RelativePath("status"), &documents, round)
      #expect(Set(documents).count == documents.count, "round \(round)")
      #expect(documents.count <= living.count, "round \(round)")
      if living.isEmpty { #expect(names("status").isEmpty, "round \(round)") }
    }
  }

  private func check(_ directory: RelativePath, _ documents: inout [FileID], _ round: Int) {
    let entries = tree.entries(of: directory)
    #expect(Set(entries.map(\.name)).count == entries.count, "round \(round), \(directory.displayText)")
    for entry in entries {
      let path = directory.appending(entry.name)
      switch (entry.node, tree.node(at: path)) {
      case (.directory, .directory): check(path, &documents, round)
      case (.file, .file):
        if let bytes = tree.contents(of: path), let text = try? JSONValue.parse(bytes)["file_id"]?.text,
          let id = FileID(text)
        {
          documents.append(id)
        } else {
          Issue.record("round \(round): \(path.displayText) is no document")
        }
      default: Issue.record("round \(round): \(path.displayText) is listed and not there")
      }
    }
  }

  // MARK: - Changes

  @Test func versionsRiseWithChangesOfTheirOwnFile() {
    add(1, "a")
    add(2, "b")
    let (a, b) = (RelativePath("status/a.json"), RelativePath("status/b.json"))
    let summary = RelativePath(".uploadfs/summary.json")
    let before = (tree.version(of: a), tree.version(of: b), tree.version(of: summary))
    tree.changed(id: id(1))
    #expect(tree.version(of: a) > before.0)
    #expect(tree.version(of: b) == before.1)
    #expect(tree.version(of: summary) > before.2)
    let later = tree.version(of: summary)
    tree.mountChanged()
    #expect(tree.version(of: summary) > later)
    tree.changed(id: id(77))
    #expect(tree.version(of: RelativePath("status/x.json")) == 0)
  }

  @Test func theObserverIsToldAndNotMoreOftenThanTheInterval() {
    let calls = Collector<Int64>()
    tree.observeChanges { calls.append(monotonicNanoseconds()) }
    for number in UInt64(0)..<500 { add(number, "f\(number)") }
    #expect(calls.wait(for: 1).count >= 1)
    tree.changed(id: id(1))
    let times = calls.wait(for: 2)
    #expect(times.count >= 2)
    for (earlier, later) in zip(times, times.dropFirst()) { #expect(later - earlier >= 32_000_000) }
    tree.stop()
    let count = calls.all.count
    tree.changed(id: id(1))
    #expect(calls.all.count == count)
  }

  @Test func changesBeforeTheObserverCameAreTold() {
    add(1, "a")
    let calls = Collector<Bool>()
    tree.observeChanges { calls.append(true) }
    #expect(calls.wait(for: 1).count >= 1)
  }

  @Test func theObserverMayCallTheTreeAndDropIt() {
    let done = Collector<Int>()
    var dropped: StatusTree? = StatusTree(source: source, controlFiles: [])
    let holder = Mutex(dropped)
    dropped?.observeChanges {
      let tree = holder.withLock { $0.take() }
      done.append(tree?.entries(of: RelativePath("status")).count ?? -1)
    }
    let id = id(1)
    dropped?.update(id: id, paths: [RelativePath("a")])
    dropped = nil
    #expect(done.wait(for: 1) == [1])
  }

  /// All pages.
  private func listed() throws -> [ListedFile] {
    var files: [ListedFile] = []
    var next: FileID? = StatusPage.first
    while let id = next {
      let bytes = try #require(tree.contents(of: RelativePath(".uploadfs/files/\(id)")))
      let page = try #require(StatusPage(bytes))
      files += page.files
      next = page.next
    }
    return files
  }

  @Test(.promises("S30d", "S45j")) func everyFileIsOnOnePage_alsoOneThatMemoryDoesNotHold() throws {
    add(1, "a.mov", "b.mov")
    add(4, "d.mov")
    source.change(id(4)) { $0.state = .complete }
    var unloaded = UnloadedPage()
    unloaded.files = [
      UnloadedFile(id: id(2), path: RelativePath("c.mov"), state: .complete, sizeBytes: 60),
      // It was unloaded once memory had been asked.
      UnloadedFile(id: id(4), path: RelativePath("d.mov"), state: .complete, sizeBytes: 60),
    ]
    unloaded.others = [UnloadedPage.Other(id: id(5), path: RelativePath("e.mov"), isToLoad: false)]
    source.unloaded.withLock { $0 = unloaded }
    let files = try listed()
    #expect(files.map(\.path.displayText) == ["a.mov", "b.mov", "d.mov", "c.mov"])
    #expect(files.map(\.state) == ["queued", "queued", "complete", "complete"] && files[3].totalBytes == 60)
    // It was loaded once memory had been asked.
    source.whenAskedForUnloaded.withLock { $0 = { [self] in add(5, "e.mov") } }
    #expect(try listed().map(\.path.displayText) == ["a.mov", "b.mov", "d.mov", "c.mov", "e.mov"])
  }

  /// Regression: what left memory once it had been asked for identities was on no page.
  @Test(.promises("S30d", "S45j")) func whatLeavesMemoryWhileAPageIsMade_isOnThePage() throws {
    add(1, "a.mov")
    add(2, "b.mov")
    var unloaded = UnloadedPage()
    unloaded.files = [UnloadedFile(id: id(1), path: RelativePath("a.mov"), state: .complete, sizeBytes: 60)]
    // It left once the catalog had been asked as well.
    unloaded.others = [UnloadedPage.Other(id: id(2), path: RelativePath("b.mov"), isToLoad: false)]
    source.unloaded.withLock { $0 = unloaded }
    source.whenAskedForUnloaded.withLock {
      $0 = { [self] in
        for number in [1, 2] as [UInt64] {
          source.forget(id(number))
          tree.remove(id: id(number))
        }
      }
    }
    source.whenAskedToLoad.withLock { $0 = { [self] path in if path == RelativePath("b.mov") { add(2, "b.mov") } } }
    let files = try listed()
    #expect(files.map(\.path.displayText) == ["a.mov", "b.mov"])
    #expect(files.map(\.state) == ["complete", "queued"])
  }

  @Test func moreFilesThanOnePageHolds_areOnSeveral() throws {
    let count = UInt64(2 * StatusPage.filesMax + 10)
    for number in 1...count {
      source.set(id(number), path: RelativePath("\(number)"))
      tree.update(id: id(number), paths: [RelativePath("\(number)")])
    }
    #expect(try listed().map(\.path.displayText) == (1...count).map { "\($0)" })
  }

  @Test func withoutTheCatalogThereIsNoPage_andWhoeverHasNotMountedItSeesNone() throws {
    add(1, "a.mov")
    let path = RelativePath(".uploadfs/files/\(StatusPage.first)")
    #expect(tree.subject(of: path) == .everyFile && !tree.isWritable(path))
    #expect(tree.subject(of: RelativePath(".uploadfs/files")) == .everyFile)
    #expect(tree.subject(of: RelativePath(".uploadfs")) == .folder(.root))
    #expect(node(".uploadfs/files") == .directory && names(".uploadfs/files").isEmpty)
    #expect(node(".uploadfs/files/1") == nil && node(".uploadfs/files/\(StatusPage.first)/x") == nil)
    #expect(tree.contents(of: path) != nil)
    source.unloaded.withLock { $0 = .some(nil) }
    #expect(tree.contents(of: path) == nil)
  }

  @Test func manyFilesInOneDirectoryAreNoTrouble() {
    let count = UInt64(20_000)
    for number in 0..<count {
      let path = RelativePath("big/f\(number).bin")
      source.set(id(number), path: path)
      tree.update(id: id(number), paths: [path])
    }
    let entries = tree.entries(of: RelativePath("status/big"))
    #expect(entries.count == Int(count))
    #expect(entries.first?.name == Array("f0.bin.json".utf8))
    #expect(node("status/f777.json") == link("big/f777.bin.json"))
    for number in 0..<count { tree.remove(id: id(number)) }
    #expect(names("status").isEmpty)
  }
}

/// Statuses in memory.
private final class FakeSource: StatusSource {
  private let statuses = Mutex<[FileID: FileStatus]>([:])

  func set(_ id: FileID, path: RelativePath, ownership: FileOwnership? = nil) {
    statuses.withLock {
      $0[id] = FileStatus(id: id, path: path, publishedName: "n", state: .queued)
      $0[id]?.ownership = ownership
    }
  }

  func change(_ id: FileID, _ change: @Sendable (inout FileStatus) -> Void) {
    statuses.withLock { statuses in
      if var status = statuses[id] {
        change(&status)
        statuses[id] = status
      }
    }
  }

  func status(of id: FileID) -> FileStatus? { statuses.withLock { $0[id] } }
  func summary() -> MountSummary { MountSummary() }

  /// What memory does not hold; the inner nil is a catalog that cannot be read.
  let unloaded = Mutex<UnloadedPage??>(nil)
  let whenAskedForUnloaded = Mutex<(@Sendable () -> Void)?>(nil)
  var isBeyondMemory: Bool { unloaded.withLock { $0 != nil } }
  func unloadedFiles(after id: FileID, countMax: Int) -> UnloadedPage? {
    whenAskedForUnloaded.withLock { $0.take() }?()
    return unloaded.withLock { $0 } ?? UnloadedPage()
  }

  func forget(_ id: FileID) { statuses.withLock { $0[id] = nil } }

  /// What comes back to memory; nil where nothing does.
  let whenAskedToLoad = Mutex<(@Sendable (RelativePath) -> Void)?>(nil)
  func load(at path: RelativePath) -> Bool {
    guard let load = whenAskedToLoad.withLock({ $0 }) else { return false }
    load(path)
    return true
  }

  /// What was wanted of files.
  let orders = Mutex<[FileOrder]>([])
  let refusal = Mutex<FileOrderRefusal?>(nil)
  func execute(_ order: FileOrder, on id: FileID) throws(FileOrderRefusal) {
    if let refusal = refusal.withLock({ $0 }) { throw refusal }
    orders.withLock { $0.append(order) }
  }

  /// What loading brings to light.
  let whenLoaded = Mutex<(@Sendable () -> Void)?>(nil)
  func waitWhileLoading() { whenLoaded.withLock { $0.take() }?() }
}

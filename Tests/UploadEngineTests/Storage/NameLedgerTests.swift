import FileModel
import Foundation
import GRDB
import Glibc
import Logging
import Promises
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct NameLedgerTests {
  private let folder: ScratchFolder
  private let path: String

  init() throws {
    folder = try ScratchFolder()
    path = folder.path + "/names.sqlite"
  }

  private func names(_ template: String, _ ledger: NameLedger) throws -> PublishedNames {
    PublishedNames(
      rules: FileRules(defaults: try settings(template)), host: "cam1", ledger: ledger)
  }

  private func settings(_ template: String?) throws -> FileSettings {
    var settings = FileSettings()
    settings.name = try template.map { try NameTemplate($0) }
    return settings
  }

  private func decide(_ names: PublishedNames, _ file: UInt64, _ path: String) throws -> String? {
    let id = FileID(high: 0, low: file)
    try names.decide([(id, RelativePath(path))])
    return names.name(of: id, at: RelativePath(path))?.displayText
  }

  @Test func twoCapturesDoNotGetOneName() throws {
    let names = try names("{name}", try NameLedger(path: path))
    #expect(try decide(names, 1, "a/x.mov") == "x.mov")
    #expect(try decide(names, 2, "b/x.mov") == "x-2.mov")
    #expect(try decide(names, 3, "c/x.mov") == "x-3.mov")
    // A capture may be called as another one was renamed to.
    #expect(try decide(names, 4, "x-2.mov") == "x-2-2.mov")
  }

  /// The ledger takes a file's name and that of its folder for two, so that neither costs a capture of the other its
  /// name or a number. Where the destination cannot have both it tells them apart, as the receiver does (P75b).
  @Test(arguments: [false, true]) func aFileAndAFolderOfOneName_areTwoNames(isFileFirst: Bool) throws {
    let captures: [(file: UInt64, path: String, name: String)] = [
      (1, "day.mov", "day"), (2, "day/a.mov", "day/a"), (3, "day/a/b.mov", "day/a/b"),
    ]
    let ledger = try NameLedger(path: path)
    let before = try names("{dir}/{stem}", ledger)
    for capture in isFileFirst ? captures : captures.reversed() {
      #expect(try decide(before, capture.file, capture.path) == capture.name)
    }
    // What has the very name of another one gets a number, wherever it lies.
    #expect(try decide(before, 4, "day.wav") == "day-2" && (try decide(before, 5, "day/a.wav")) == "day/a-2")
    before.forget(FileID(high: 0, low: 1))
    before.stop()
    ledger.close()
    let after = try names("{dir}/{stem}", try NameLedger(path: path))
    for capture in captures.dropFirst() {
      #expect(try decide(after, capture.file, capture.path) == capture.name, "it stays called so")
    }
    // A file that is gone leaves its name to its path, and none to what lies in the folder.
    #expect(try decide(after, 6, "day.mov") == "day" && (try decide(after, 7, "day/day.mov")) == "day/day")
    after.stop()
    // A record that is new knows both again.
    let published = try catalog(["day.mov": "day", "day/a.mov": "day/a", "day/a/b.mov": "day/a/b"])
    let anew = try NameLedger(path: folder.path + "/anew.sqlite")
    try anew.learn(from: published)
    let later = try names("{dir}/{stem}", anew)
    for (file, capture) in zip(UInt64(11)..., captures) {
      #expect(try decide(later, file, capture.path) == capture.name)
    }
    #expect(try decide(later, 14, "day.wav") == "day-2" && (try decide(later, 15, "day/a.wav")) == "day/a-2")
    later.stop()
  }

  /// Regression: each capture tried the numbers of all before it, and 8,000 of one name took two minutes.
  @Test(.timeLimit(.minutes(1))) func ofThousandsOfCapturesOfOneName_eachGetsTheNextNumber() throws {
    let ledger = try NameLedger(path: path)
    let template = try NameTemplate("{name}")
    let request = { (number: Int) in
      let path = RelativePath("\(number)/x.mov")
      let id = FileID(high: 0, low: UInt64(number))
      return NameLedger.NameRequest(
        file: id, path: path, template: template,
        facts: NameTemplate.Values(path: path, id: id, date: "", time: "", host: "", sequence: nil))
    }
    for batch in stride(from: 1, to: 8_000, by: 1000) {
      let choices = try ledger.names(for: (batch..<batch + 1000).map(request))
      #expect(choices.last?.name.displayText == "x-\(batch + 999).mov")
    }
    ledger.close()
    #expect(try NameLedger(path: path).names(for: [request(8_001)]).first?.name.displayText == "x-8001.mov")
  }

  @Test(arguments: [false, true]) func aNumberStaysWithItsPath_andItsFile(isOfAnEarlierVersion: Bool) throws {
    let ledger = try NameLedger(path: path)
    let before = try names("{name}", ledger)
    for (file, folder) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] as [(UInt64, String)] {
      _ = try decide(before, file, "\(folder)/x.mov")
    }
    before.forget(FileID(high: 0, low: 3))
    before.stop()
    ledger.close()
    if isOfAnEarlierVersion { try undo(["3"]) }
    let after = try names("{name}", try NameLedger(path: path))
    // The path's next capture has its name, a link to a file has that file's, and any other one gets a number that none had.
    #expect(try decide(after, 5, "e/x.mov") == "x-5.mov")
    #expect(try decide(after, 6, "c/x.mov") == "x-3.mov")
    #expect(try decide(after, 4, "f/x.mov") == "x-4.mov")
    #expect(try decide(after, 7, "g/x.mov") == "x-6.mov")
    after.stop()
  }

  /// Leaves the record as it was before it was migrated.
  private func undo(_ migrations: [String]) throws {
    let database = try DatabaseQueue(path: path)
    try database.write { database in
      for migration in migrations {
        try database.execute(sql: "DELETE FROM grdb_migrations WHERE identifier = ?", arguments: [migration])
      }
      try database.execute(sql: "DROP TABLE next_number; DROP TABLE given_number")
    }
    try database.close()
  }

  @Test func whatReplacesEachOtherWithoutATemplateDoesSoWithOne() throws {
    let names = try names("in/{name}", try NameLedger(path: path))
    #expect(try decide(names, 1, "a/x.mov") == "in/x.mov")
    #expect(try decide(names, 2, "a/x.mov") == "in/x.mov")
  }

  @Test func numbersArePerFileAndAreNeverGivenTwice() throws {
    let ledger = try NameLedger(path: path)
    let names = try names("{seq:2}", ledger)
    #expect(try decide(names, 1, "a.mov") == "01")
    #expect(try decide(names, 2, "b.mov") == "02")
    // A file that was renamed keeps its number, and its own name is no other's.
    #expect(try decide(names, 1, "c.mov") == "01")
    #expect(try decide(names, 3, "a.mov") == "03")
  }

  @Test func allIsAsItWasAfterARestart() throws {
    let ledger = try NameLedger(path: path)
    let first = try names("{seq}-{name}", ledger)
    #expect(try decide(first, 1, "a/x") == "00001-x" && (try decide(first, 2, "b/x")) == "00002-x")
    first.stop()
    ledger.close()
    // Another template does not rename what has a name.
    let later = try NameLedger(path: path)
    let second = try names("{name}", later)
    #expect(second.name(of: FileID(high: 0, low: 2), at: RelativePath("b/x")) == nil)
    try second.recall([FileID(high: 0, low: 2)])
    #expect(second.name(of: FileID(high: 0, low: 2), at: RelativePath("b/x")) == RelativePath("00002-x"))
    #expect(try decide(second, 1, "a/x") == "00001-x")
    second.stop()
    later.close()
    let third = try names("{seq}-{name}", try NameLedger(path: path))
    #expect(try decide(third, 3, "x") == "00003-x")
    third.stop()
  }

  @Test func ofFilesThatAreGoneOnlyTheNamesStayTaken() throws {
    let ledger = try NameLedger(path: path)
    let names = try names("{name}", ledger)
    let gone = FileID(high: 0, low: 1)
    #expect(try decide(names, 1, "a/x.mov") == "x.mov" && (try decide(names, 1, "b/x.mov")) == "x.mov")
    #expect(try ledger.known([gone])[gone]?.count == 2)
    names.forget(gone)
    #expect(names.name(of: gone, at: RelativePath("a/x.mov")) == nil)
    // The next decision takes it along.
    #expect(try decide(names, 2, "c/x.mov") == "x-2.mov")
    #expect(try ledger.known([gone]).isEmpty)
    #expect(try decide(names, 3, "a/x.mov") == "x-3.mov")
    names.forget(FileID(high: 0, low: 2))
    // What comes under the one path that a name was for replaces what is published there.
    #expect(try decide(names, 4, "c/x.mov") == "x-2.mov")
    names.stop()
  }

  /// Regression: a capture that went to another folder and back shared its name with what was made there after it.
  @Test func aNameThatAFileHasUnderTwoPaths_passesToNoFile() throws {
    let ledger = try NameLedger(path: path)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 1, "a/x") == "x" && (try decide(names, 1, "b/x")) == "x")
    #expect(try decide(names, 2, "b/x") == "x-2")
    #expect(try decide(names, 1, "a/x") == "x")
    // Evicted, its content may lie under that name only.
    names.forget(FileID(high: 0, low: 1))
    #expect(try decide(names, 3, "b/x") == "x-2" && (try decide(names, 4, "a/x")) == "x-3")
    names.stop()
  }

  /// Regression: a capture that came back to its path shared its name with what had been made there and gone elsewhere.
  @Test func aFileWhoseNameHasPassedOn_getsAnotherOne() throws {
    let ledger = try NameLedger(path: path)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 1, "a/x") == "x")
    #expect(try decide(names, 2, "a/x") == "x" && (try decide(names, 2, "b/x")) == "x")
    #expect(try decide(names, 1, "a/x") == "x-2")
    names.stop()
    ledger.close()
    let later = try self.names("{name}", try NameLedger(path: path))
    try later.recall([FileID(high: 0, low: 1), FileID(high: 0, low: 2)])
    #expect(later.name(of: FileID(high: 0, low: 1), at: RelativePath("a/x")) == RelativePath("x-2"))
    #expect(later.name(of: FileID(high: 0, low: 2), at: RelativePath("a/x")) == RelativePath("x"))
    later.stop()
  }

  @Test func aNameThatHasPassedToAnotherFileStaysThatFiles() throws {
    let names = try names("{name}", try NameLedger(path: path))
    #expect(try decide(names, 1, "a/x.mov") == "x.mov" && (try decide(names, 2, "a/x.mov")) == "x.mov")
    names.forget(FileID(high: 0, low: 1))
    #expect(try decide(names, 2, "b/x.mov") == "x.mov")
    names.stop()
  }

  @Test func numbersOfFilesThatAreGoneAreNotGivenAgain() throws {
    let ledger = try NameLedger(path: path)
    let first = try names("{seq}", ledger)
    #expect(try decide(first, 1, "a") == "00001")
    first.forget(FileID(high: 0, low: 1))
    first.stop()
    ledger.close()
    let second = try names("{seq}", try NameLedger(path: path))
    #expect(try decide(second, 2, "a") == "00002")
    second.stop()
  }

  @Test func manyFilesThatAreGoneAreForgottenWithoutADecision() throws {
    let ledger = try NameLedger(path: path)
    let names = try names("{name}", ledger)
    let files = (1...1000).map { FileID(high: 0, low: $0) }
    try names.decide(files.map { ($0, RelativePath("\($0.low)")) })
    #expect(try ledger.known(files).count == 1000)
    for file in files { names.forget(file) }
    // The thread does one thing after the other.
    let isDone = Monitor(false)
    names.onThread {
      isDone.withLock { isDone, signal in
        isDone = true
        signal.signal()
      }
    }
    isDone.wait { $0 ? .done(()) : .again }
    #expect(try ledger.known(files).count < 128)
    names.stop()
    #expect(try ledger.known(files).isEmpty)
  }

  /// Regression: the thread is started with the first job, in the middle of a run, and where the system had none left by then the process
  /// ended.
  @Test func withoutAThread_jobsAreDoneByWhoAsks_andTheNextOneTriesAgain() throws {
    let starts = Monitor(0)
    let names = PublishedNames(
      rules: FileRules(defaults: try settings("{name}")), host: "cam1", ledger: try NameLedger(path: path)
    ) { name, role, run in
      let isThere = starts.withLock { starts, _ in
        starts += 1
        return starts > 3
      }
      return isThere ? NamedThread(name, role, run) : nil
    }
    let areMine = Collector<Bool>()
    let caller = pthread_self()
    let note: @Sendable () -> Void = { areMine.append(pthread_equal(pthread_self(), caller) != 0) }
    names.onThread(note)
    #expect(areMine.all == [true], "it is done when the call returns")
    // A job asks for others.
    names.onThread { names.onThread(note) }
    #expect(areMine.all == [true, true])
    for _ in 0..<2 { names.onThread(note) }
    names.stop()
    #expect(areMine.all == [true, true, false, false])
    names.onThread(note)
    let count = starts.withLock { starts, _ in starts }
    #expect(areMine.all.last == true && count == 4)
  }

  @Test func filesWithoutATemplateAreNotOverwrittenEither() throws {
    var rules = FileRules()
    rules.rules = [try FileRule("*.mov name=all/{name}")]
    let names = PublishedNames(rules: rules, host: "", ledger: try NameLedger(path: path))
    #expect(try decide(names, 1, "all/x.mov") == "all/x.mov")
    #expect(try decide(names, 2, "b/x.mov") == "all/x-2.mov")
    #expect(try decide(names, 3, "notes.txt") == "notes.txt")
    #expect(try decide(names, 4, "all/x-2.mov") == "all/x-2-2.mov")
  }

  @Test func withoutAnyTemplateNothingIsRecorded() throws {
    let names = PublishedNames(rules: FileRules(), host: "", ledger: nil)
    #expect(names.name(of: FileID(high: 0, low: 1), at: RelativePath("a")) == RelativePath("a"))
    #expect(try !names.areMade && NameLedger.open(at: path, for: FileRules()) == nil)
  }

  /// Regression: restarted without its template, a mount published a capture under a name that was another one's.
  @Test func whenTemplatesAreLeftOut_whatTheyHaveNamedIsNotOverwritten() throws {
    let ledger = try NameLedger(path: path)
    let before = try names("{name}", ledger)
    #expect(try decide(before, 1, "d/x.bin") == "x.bin")
    before.stop()
    ledger.close()
    let after = PublishedNames(rules: FileRules(), host: "", ledger: try NameLedger.open(at: path, for: FileRules()))
    #expect(after.areMade)
    #expect(try decide(after, 2, "x.bin") == "x-2.bin")
    #expect(try decide(after, 3, "y.bin") == "y.bin")
    try after.recall([FileID(high: 0, low: 1)])
    #expect(after.shownName(of: FileID(high: 0, low: 1), at: RelativePath("d/x.bin")) == RelativePath("x.bin"))
  }

  private func published(
    _ file: UInt64, _ paths: String..., as state: CatalogState = .complete, at milliseconds: Int64 = 1
  ) -> CatalogEntry {
    CatalogEntry(
      id: FileID(high: 0, low: file), path: RelativePath(paths[0]), inode: file, sizeBytes: 1, modifiedNanoseconds: 1,
      revision: 1, state: state, publishedPaths: paths.map { RelativePath($0) },
      receipt: Receipt(
        id: "r", name: paths[0], sizeBytes: 1, merkleRoot: "", chainTip: "", publishedAtMilliseconds: milliseconds))
  }

  /// Regression: a template gave a capture the name of one that was published when there was none.
  @Test func whatWasPublishedWithoutATemplate_isNotOverwrittenByOne() throws {
    let ledger = try NameLedger(after: [
      published(1, "x.mov"), published(2, "gone.mov", as: .evicted), published(3, "a/l.mov", "l.mov"),
      // What is there now comes after what was there before.
      published(5, "y.mov"), published(4, "y.mov", as: .evicted), published(6, "z.mov", as: .evicted),
      published(7, "z.mov"),
    ])
    let names = try names("{name}", ledger)
    for (number, path) in ["x.mov", "gone.mov", "l.mov", "y.mov", "z.mov"].enumerated() {
      let expected = path.replacing(".mov", with: "-2.mov")
      #expect(try decide(names, 10 + UInt64(number), "d/\(path)") == expected)
    }
    // It keeps its name, also for another content.
    #expect(try decide(names, 3, "a/l.mov") == "a/l.mov" && (try decide(names, 3, "l.mov")) == "l.mov")
    #expect(try decide(names, 5, "y.mov") == "y.mov" && (try decide(names, 7, "z.mov")) == "z.mov")
    #expect(try ledger.known([FileID(high: 0, low: 4)]).isEmpty)
    // Under its path others come after it.
    #expect(try decide(names, 20, "gone.mov") == "gone.mov")
  }

  /// Regression (seeds 5700011677 and 6100002268): a capture was moved over another one, and a crash came before the catalog
  /// forgot that. The one that was gone had the name of both: the other one was shown under a name that it never had, and its next
  /// content went out beside what was published.
  @Test(arguments: [false, true], [false, true])
  func ofTwoCapturesThatACatalogHasUnderOnePath_theOneThatIsThereKeepsTheName(isFirst: Bool, isClockBack: Bool) throws {
    let (gone, here) = (FileID(high: 0, low: isFirst ? 2 : 1), FileID(high: 0, low: isFirst ? 1 : 2))
    let ledger = try NameLedger(after: [
      published(1, "d/x", at: isFirst != isClockBack ? 2 : 1), published(2, "d/x", at: isFirst != isClockBack ? 1 : 2),
    ])
    let names = try names("{name}", ledger)
    try names.recall([gone, here])
    if !isClockBack { #expect(names.name(of: here, at: RelativePath("d/x")) == RelativePath("d/x")) }
    names.forget(gone)
    #expect(try decide(names, here.low, "d/x") == "d/x")
    #expect(try decide(names, 3, "e/x") == "x" && (try decide(names, here.low, "d/x")) == "d/x")
    names.stop()
    #expect(try ledger.known([here])[here]?.values.first == RelativePath("d/x"))
  }

  @Test func aCaptureThatComesBackToItsPath_hasItsNameAgain_alsoUnderAnotherTemplate() throws {
    let ledger = try NameLedger(path: path)
    let first = try names("{name}", ledger)
    #expect(try decide(first, 1, "a/x") == "x" && (try decide(first, 2, "a/x")) == "x")
    first.stop()
    let second = try names("new/{name}", ledger)
    // The other one was moved away meanwhile, and is still called so where it is.
    try second.recall([FileID(high: 0, low: 1), FileID(high: 0, low: 2)])
    #expect(try decide(second, 2, "b/x") == "new/x")
    #expect(try decide(second, 1, "a/x") == "x")
    second.stop()
  }

  @Test func everyCatalogIsAskedOnce_alsoThatOfADestinationThatIsNotUsed() throws {
    func open(_ template: String?) throws -> SpoolState {
      try SpoolState(
        spool: folder.path, rules: FileRules(defaults: try settings(template)), reserveBytes: 0,
        logger: Logger(label: "test"), pause: { _ in false })
    }
    var state = try open(nil)
    #expect(state.ledger == nil)
    try state.catalog(of: .main).upsert([published(1, "x")])
    let archive = try #require(DestinationName("archive"))
    try state.catalog(of: archive).upsert([published(2, "y"), published(1, "x")])
    state.close()
    state.directory.unlock()
    state = try open("{name}")
    let first = try names("{name}", try #require(state.ledger))
    #expect(try decide(first, 3, "d/x") == "x-2" && (try decide(first, 4, "d/y")) == "y-2")
    // What comes later is recorded as it comes.
    try state.catalog(of: .main).upsert([published(9, "z")])
    first.stop()
    state.close()
    state.directory.unlock()
    state = try open("{name}")
    let second = try names("{name}", try #require(state.ledger))
    #expect(try decide(second, 5, "d/z") == "z" && (try decide(second, 6, "e/y")) == "y-3")
    second.stop()
    state.close()
    state.directory.unlock()
  }

  /// Regression (lives): an emptied record was taken for a new one, and nothing was said of a missing one.
  @Test(arguments: [true, false], [true, false])
  func aRecordThatIsLost_isSaid(isEmptied: Bool, hasCopy: Bool) throws {
    var named = published(1, "d/x")
    if !hasCopy { named.receipt?.name = "x" }
    let entries = [named]
    let place = path
    func opened() throws -> NameLedger { try NameLedger(path: place, after: { take in try take(entries) }) }
    if hasCopy {
      // The first record of a spool, which was killed when it had made the file, has lost nothing.
      try Data().write(to: URL(filePath: place))
      let ledger = try opened()
      #expect(ledger.lostPast == nil)
      try ledger.copy(to: StateCopies.path(of: place))
      ledger.close()
    }
    for suffix in ["", "-wal"] { unlink(place + suffix) }
    if isEmptied {
      try Data().write(to: URL(filePath: place))
      let failure = #expect(throws: StorageError.self) { _ = try opened() }
      #expect(failure?.kind == .damaged && failure?.message.contains("move it away") == true)
      unlink(place)
    }
    let ledger = try opened()
    #expect(ledger.lostPast?.contains("is missing") == true)
    ledger.close()
    #expect(try opened().lostPast == nil, "it is said once")
  }

  /// A catalog with what was published: the path, and what that was called.
  private func catalog(_ published: KeyValuePairs<String, String>, present: Set<String> = []) throws -> Catalog {
    let catalog = try Catalog.inMemory()
    for (number, (path, name)) in published.enumerated() {
      let file = FileID(high: 0, low: 100 + UInt64(number))
      let publication = EarlierPublication(
        fileID: file, merkleRoot: "", sizeBytes: 1, chunkBytes: 1,
        origin: PublicationOrigin(path: RelativePath(path), name: RelativePath(name), modifiedNanoseconds: 1))
      var entry = self.published(file.low, path)
      entry.publishedPaths = []
      entry.receipt?.name = name
      try catalog.write(
        present.contains(path) ? [entry] : [], removing: [],
        publications: .init(published: [.init(name: name, publication: publication)]))
    }
    return catalog
  }

  /// Regression: a new record knew the names of captures that were in the spool, and gave those of captures that had been removed
  /// to others, which then replaced them.
  @Test(.promises("DE138b")) func aNewRecord_learnsWhatWasPublished_alsoForCapturesThatAreGone() throws {
    let ledger = try NameLedger(path: path)
    let catalog = try catalog(["a.jpg": "001.jpg", "b.jpg": "002.jpg", "d/x": "x", "e/x": "x-2"], present: ["b.jpg"])
    #expect(try ledger.learn(from: catalog)?.contains("is missing") == true)
    let names = try names("{seq:3}.{ext}", ledger)
    // Its sequence goes on behind them.
    #expect(try decide(names, 1, "c.jpg") == "003.jpg" && (try decide(names, 2, "d.jpg")) == "004.jpg")
    #expect(try decide(names, 101, "b.jpg") == "002.jpg", "it lies in the spool, and keeps its name")
    names.stop()
    let others = try self.names("{name}", ledger)
    #expect(try decide(others, 3, "f/x") == "x-3" && (try decide(others, 4, "e/x")) == "x-2")
    #expect(try decide(others, 5, "d/x") == "x", "what comes to a path has the name that it had")
    others.stop()
  }

  /// Regression, found by the simulation (templates, seed 50000046481): a name under which a capture was to be published, before it was under
  /// another one, was said to be its name after the record was lost.
  @Test(.promises("DE138b")) func aNewRecord_takesTheNameOfTheReceipt() throws {
    let catalog = try catalog(["d/a": "d-a"], present: ["d/a"])
    let file = FileID(high: 0, low: 100)
    let earlier = EarlierPublication(
      fileID: file, merkleRoot: "", sizeBytes: 1, chunkBytes: 1,
      origin: PublicationOrigin(path: RelativePath("d/a"), name: RelativePath("a"), modifiedNanoseconds: 1))
    try catalog.write([], removing: [], publications: .init(published: [.init(name: "a", publication: earlier)]))
    let ledger = try NameLedger(path: path)
    try ledger.learn(from: catalog) { id in
      id == file ? PresentCapture(publishedPaths: [RelativePath("d/a")], receiptName: "d-a") : nil
    }
    #expect(try ledger.known([file])[file]?[RelativePath("d/a")] == RelativePath("d-a"))
  }

  /// Regression, found by the simulation (templates, seed 51000005696): what was renamed after its delivery, and asked for under its new name, got
  /// a third one, because only the receipt's counted.
  @Test(.promises("DE138b")) func aNewRecord_knowsANameThatWasAskedForAfterTheDelivery() throws {
    let catalog = try catalog(["d/a": "d-a"], present: ["d/a"])
    let file = FileID(high: 0, low: 100)
    let asked = EarlierPublication(
      fileID: file, merkleRoot: "", sizeBytes: 1, chunkBytes: 1,
      origin: PublicationOrigin(path: RelativePath("e/b"), name: RelativePath("e-b"), modifiedNanoseconds: 1))
    try catalog.write([], removing: [], publications: .init(published: [.init(name: "e-b", publication: asked)]))
    let ledger = try NameLedger(path: path)
    try ledger.learn(from: catalog) { id in
      id == file ? PresentCapture(publishedPaths: [RelativePath("e/b")], receiptName: "d-a") : nil
    }
    #expect(try ledger.known([file])[file]?[RelativePath("e/b")] == RelativePath("e-b"))
  }

  /// Regression (templates, seed 52300000447): it passed to the first of the paths, where what came replaced a capture that had been moved on.
  @Test(.promises("DE138b")) func aNameOfARemovedCaptureThatHadSeveralPaths_passesToNone() throws {
    let ledger = try NameLedger(path: path)
    for path in ["d/x", "e/x", "d/x"] { try ledger.learn(from: try catalog([path: "x"])) }
    let names = try names("{name}", ledger)
    #expect(try decide(names, 1, "d/x") == "x-2" && (try decide(names, 2, "e/x")) == "x-3")
    names.stop()
  }

  /// Regression: where a damaged record had been moved away, as its message says, SQLite applied the log that was left to the new one.
  @Test(.promises("DE138b")) func theLogOfARecordThatWasMovedAway_isNotAppliedToTheNewOne() throws {
    let names = try names("{name}", try NameLedger(path: path))
    for number in 1...40 as ClosedRange<UInt64> { _ = try decide(names, number, "d\(number)/\(number)") }
    let log = try folder.read("names.sqlite-wal")
    names.stop()
    unlink(path)
    try folder.write(log, to: "names.sqlite-wal")
    let others = try self.names("{name}", try NameLedger(path: path))
    #expect(try !log.isEmpty && decide(others, 41, "e/1") == "1")
    others.stop()
  }

  /// Regression: a record whose log was deleted after a kill, together with the catalog's, was taken for all that had been given.
  @Test(.promises("S45f")) func aRecordWhoseLogWasDeletedAfterAKill_saysSo_andLearnsWhatWasPublished() throws {
    let catalog = try catalog(["d/a": "a"], present: ["d/a"])
    let first = try NameLedger(path: path)
    try first.learn(from: catalog)
    let names = try names("{name}", first)
    #expect(try decide(names, 100, "d/a") == "a")
    let killed = try folder.read("names.sqlite")
    names.stop()
    first.close()
    #expect(try NameLedger(path: path).lostPast == nil)
    unlink(path + "-wal")
    try folder.write(killed, to: "names.sqlite")
    try folder.write([], to: "names.sqlite-open")
    let older = try NameLedger(path: path)
    #expect(older.lostPast?.contains("has lost its log") == true)
    try older.learn(from: catalog)
    let others = try self.names("{name}", older)
    #expect(try decide(others, 2, "e/a") == "a-2" && (try decide(others, 100, "d/a")) == "a")
    others.stop()
    older.close()
    #expect(try NameLedger(path: path).lostPast == nil)
  }

  /// Regression: captures of one path have different numbers. A new record, or an older one, gave those of before again, and each capture replaced
  /// one that was nowhere else, also with `--if-exists refuse`.
  @Test(.promises("DE138b"), arguments: [false, true])
  func numbersThatWereGivenForThePathItself_areLeaptOverAsWell(isOlder: Bool) throws {
    let ledger = try NameLedger(path: path)
    if isOlder {
      _ = try decide(try self.names("scan-{seq:3}.{ext}", ledger), 1, "s.tif")
      try ledger.learn(from: try Catalog.inMemory())
    }
    let catalog = try catalog(["s.tif": "scan-003.tif", "t.tif": "scan-001.tif", "u.tif": "scan-002.tif"])
    try ledger.learn(from: catalog)
    let names = try names("scan-{seq:3}.{ext}", ledger)
    for number in 4..<7 { #expect(try decide(names, UInt64(number), "s.tif") == "scan-00\(number).tif") }
    names.stop()
  }

  /// Regression: a new record knew names from receipts, which say no path. Where its first start was killed before it had learned the paths,
  /// the next one took it for an old one, and gave numbers to what came to these paths.
  @Test(.promises("DE138b")) func aNewRecordWhoseFirstStartWasKilled_learnsAsOneThatIsNew() throws {
    var delivered = published(1, "d/x", as: .evicted)
    delivered.receipt?.name = "x"
    try NameLedger(path: path, after: { [delivered] take in try take([delivered]) }).close()
    let ledger = try NameLedger(path: path)
    #expect(try ledger.learn(from: try catalog(["d/x": "x"]))?.contains("is missing") == true)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 2, "d/x") == "x", "what comes to a path has the name that it had")
    names.stop()
    ledger.close()
    // Once it has given a name it is as old as that.
    let later = try NameLedger(path: path)
    #expect(try later.learn(from: try catalog(["e/x": "001"]))?.contains("was older than") == true)
  }

  /// Found by the simulation (templates, seed 2009): the row of a capture that had been there before kept the present one from having its name.
  @Test(.promises("DE138b")) func ofTwoCapturesOfOnePath_theOneThatIsThereIsCalledSo() throws {
    let ledger = try NameLedger(after: [published(1, "d/x", as: .evicted)])
    try ledger.learn(from: try catalog(["d/x": "d/x"], present: ["d/x"]))
    let names = try names("{name}", ledger)
    #expect(try decide(names, 100, "d/x") == "d/x" && (try decide(names, 2, "d/x")) == "x")
    names.stop()
  }

  /// Found by the simulation (templates, seed 2020): what was about to be published at the path of a capture that was renamed was not known to
  /// be called so.
  @Test(.promises("DE138b")) func whatWasAboutToBePublishedAfterAnotherOne_isCalledSo() throws {
    let catalog = try catalog(["d/x": "d/x"], present: ["d/x"])
    let later = EarlierPublication(
      fileID: FileID(high: 0, low: 200), merkleRoot: "", sizeBytes: 1, chunkBytes: 1,
      origin: PublicationOrigin(path: RelativePath("d/x"), name: RelativePath("d/x"), modifiedNanoseconds: 1))
    _ = try catalog.begin([PublicationIntent(name: "d/x", publication: later)], after: 0)
    var entry = published(200, "d/x")
    entry.publishedPaths = []
    try catalog.upsert([entry])
    let ledger = try NameLedger(path: path)
    try ledger.learn(from: catalog)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 200, "d/x") == "d/x")
    names.stop()
  }

  /// Found by the simulation (templates, seed 8830004505): a capture that had been renamed, and of which the first of its paths was learned, was
  /// called as its path under the second.
  @Test(.promises("DE138b")) func aCaptureThatWasPublishedFromTwoPaths_isCalledSoUnderBoth() throws {
    let catalog = try catalog(["d/x": "x-2"], present: ["d/x"])
    let later = EarlierPublication(
      fileID: FileID(high: 0, low: 100), merkleRoot: "", sizeBytes: 1, chunkBytes: 1,
      origin: PublicationOrigin(path: RelativePath("e/x"), name: RelativePath("x-2"), modifiedNanoseconds: 1))
    _ = try catalog.begin([PublicationIntent(name: "x-2", publication: later)], after: 0)
    let ledger = try NameLedger(path: path)
    try ledger.learn(from: catalog)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 100, "e/x") == "x-2" && (try decide(names, 100, "d/x")) == "x-2")
    names.stop()
  }

  /// Found by the simulation (templates, seed 33000002352): the catalog keeps the last of two paths that were published under one name, and the
  /// other one got another name by a new record.
  @Test(.promises("DE138b")) func aCaptureThatWasPublishedUnderOneNameFromTwoPaths_isCalledSoUnderBoth() throws {
    let catalog = try catalog(["d/x": "x-2"], present: ["d/x"])
    var entry = published(100, "d/x")
    entry.publishedPaths = [RelativePath("e/x"), RelativePath("d/x")]
    entry.receipt?.name = "x-2"
    try catalog.upsert([entry])
    let ledger = try NameLedger(after: [entry])
    try ledger.learn(from: catalog)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 100, "e/x") == "x-2" && (try decide(names, 100, "d/x")) == "x-2")
    #expect(try decide(names, 2, "e/y") == "y", "others are called as before")
    names.stop()
  }

  /// Found by the simulation (templates, seed 32000019052): a capture that was changed has no receipt, and was called as its path by a new
  /// record, although it was known what it had been sent as.
  @Test(.promises("DE138b")) func aChangedCapture_isCalledWhatItWasSentAs_alsoByANewRecord() throws {
    let catalog = try catalog(["d/x": "x-2"], present: ["d/x"])
    var changed = published(100, "d/x")
    (changed.state, changed.receipt) = (.pending, nil)
    let ledger = try NameLedger(after: [changed])
    try ledger.learn(from: catalog) { _ in PresentCapture(publishedPaths: [], receiptName: nil) }
    let names = try names("{name}", ledger)
    #expect(try decide(names, 100, "d/x") == "x-2")
    names.stop()
  }

  /// Regression: a record from a backup gave the names again that had been given after it was made.
  @Test(.promises("DE138b"), arguments: [false, true]) func anOlderRecord_learnsWhatWasPublishedSince(isCopy: Bool)
    throws
  {
    let catalog = try catalog(["a.jpg": "001.jpg", "b.jpg": "002.jpg", "c.jpg": "003.jpg"])
    var ledger = try NameLedger(path: path)
    try ledger.learn(from: try Catalog.inMemory())
    _ = try decide(try self.names("{seq:3}.{ext}", ledger), 1, "a.jpg")
    let backup = folder("older.sqlite")
    if isCopy { try ledger.copy(to: backup) }
    ledger.close()
    if !isCopy { try FileManager.default.copyItem(atPath: path, toPath: backup) }
    ledger = try NameLedger(path: path)
    #expect(try ledger.learn(from: catalog)?.contains("has learned 2 names") == true)
    ledger.close()
    ledger = try NameLedger(path: path)
    #expect(try ledger.learn(from: catalog) == nil, "it is said once")
    ledger.close()
    ledger = try NameLedger(path: backup)
    #expect(try ledger.learn(from: catalog)?.contains("has learned 2 names") == true)
    let names = try names("{seq:3}.{ext}", ledger)
    #expect(try decide(names, 2, "d.jpg") == "004.jpg")
    names.stop()
  }

  /// Regression: the first template gave a capture the name of one that was removed before.
  @Test(.promises("DE138b")) func theFirstTemplate_givesNoNameOfWhatWasRemovedBeforeIt() throws {
    let ledger = try NameLedger(path: path)
    #expect(try ledger.learn(from: try catalog(["x.bin": "x.bin"])) == nil, "nothing was lost")
    let names = try names("{name}", ledger)
    #expect(try decide(names, 1, "d/x.bin") == "x-2.bin" && (try decide(names, 2, "x.bin")) == "x.bin")
    names.stop()
  }

  /// Of what versions before have published the catalog does not know the path, and the record does.
  @Test(.promises("DE138a")) func forWhichPathANameWasGiven_theRecordTellsTheCatalog() throws {
    let catalog = try Catalog.inMemory()
    let old = EarlierPublication(fileID: FileID(high: 0, low: 1), merkleRoot: "", sizeBytes: 1, chunkBytes: 1)
    for name in ["x", "unknown"] {
      try catalog.write([], removing: [], publications: .init(published: [.init(name: name, publication: old)]))
    }
    let ledger = try NameLedger(path: path)
    let names = try names("{name}", ledger)
    #expect(try decide(names, 1, "d/x") == "x")
    try ledger.learn(from: catalog)
    #expect(try catalog.publications(named: "x").last?.origin?.path == RelativePath("d/x"))
    #expect(try catalog.publications(named: "unknown").last?.origin == nil)
    #expect(try decide(names, 2, "e/unknown") == "unknown-2")
    names.stop()
  }

  @Test func aLedgerOfAnEarlierVersion_isAskedFirst() throws {
    let earlier = try NameLedger(path: path)
    let names = try names("{stem}-1", earlier)
    #expect(try decide(names, 1, "x") == "x-1")
    names.stop()
    earlier.close()
    // As it was before catalogs were asked.
    try undo(["2", "3"])
    let entries = [published(1, "x"), published(2, "y")]
    let ledger = try NameLedger(path: path) { take in try take(entries) }
    let later = try self.names("{name}", ledger)
    // It was never called so.
    #expect(try decide(later, 3, "d/x") == "x" && (try decide(later, 4, "d/y")) == "y-2")
    #expect(try decide(later, 1, "x") == "x-1")
    later.stop()
  }

  @Test func datesAreThoseOfTheFilesBeginning() throws {
    let names = try names("{date}-{time}-{name}", try NameLedger(path: path))
    // 2026-11-22 05:17:28 UTC.
    let id = FileID(high: 1_795_324_648_000_000_000, low: 7)
    let shown = names.shownName(of: id, at: RelativePath("x")).displayText
    try names.decide([(id, RelativePath("x"))])
    let name = try #require(names.name(of: id, at: RelativePath("x"))?.displayText)
    #expect(name == shown && name.hasPrefix("2026-11-2") && name.hasSuffix("728-x"))
  }

  /// Regression (random lives, 224290525): beside a log a record that was cut got its length back, with zeros, and files waited for their
  /// names for ever.
  @Test func aRecordThatHasLostItsEndIsSaidSoAtTheStart() throws {
    let ledger = try NameLedger(path: path)
    _ = try decide(try names("{seq}-{name}", ledger), 1, "x.mov")
    ledger.close()
    let bytes = try folder.read("names.sqlite")
    let half = bytes.count / 2
    try folder.write(Array(bytes[..<half]) + Array(repeating: 0, count: bytes.count - half), to: "names.sqlite")
    let error = #expect(throws: StorageError.self) { try NameLedger(path: path) }
    #expect(error?.kind == .damaged && error?.message.contains("move it away") == true)
  }

  /// Regression: a version before went on with what it did not know, and gave names by its own rules.
  @Test func aNewerVersionsRecordIsLeftAlone() throws {
    let ledger = try NameLedger(path: path)
    let names = try names("{seq}-{name}", ledger)
    #expect(try decide(names, 1, "x.mov") == "00001-x.mov")
    names.stop()
    ledger.close()
    try addMigration("99")
    let error = #expect(throws: StorageError.self) { try NameLedger(path: path) }
    #expect(error?.kind == .newerVersion && error?.message.contains(path) == true)
    #expect(!folder.names().contains { $0.contains("damaged") })
  }

  @Test func aVersionThatIsNoneIsDamage() throws {
    try NameLedger(path: path).close()
    try addMigration("q")
    let error = #expect(throws: StorageError.self) { try NameLedger(path: path) }
    #expect(error?.kind == .damaged && error?.message.contains("move it away") == true)
  }

  private func addMigration(_ identifier: String) throws {
    let database = try DatabaseQueue(path: path)
    try database.write {
      try $0.execute(sql: "INSERT INTO grdb_migrations (identifier) VALUES (?)", arguments: [identifier])
    }
    try database.close()
  }

  @Test func aRecordThatIsNoneIsSaidSo() throws {
    try folder.write(Array(repeating: 7, count: 10_000), to: "names.sqlite")
    let error = #expect(throws: StorageError.self) { try NameLedger(path: path) }
    #expect(error?.message.contains("names.sqlite") == true)
  }
}

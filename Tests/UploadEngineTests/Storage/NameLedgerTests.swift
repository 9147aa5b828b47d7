import FileModel
import Testing

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

  /// Regression (G6): a capture that went to another folder and back shared its name with what was made there after it.
  @Test func aNameThatAFileHasUnderTwoPaths_passesToNobody() throws {
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

  /// Regression (G6): a capture that came back to its path shared its name with what had been made there and gone elsewhere.
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

  /// Regression (DS32): restarted without its template, a mount published a capture under a name that was another one's.
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

  @Test func datesAreThoseOfTheFilesBeginning() throws {
    let names = try names("{date}-{time}-{name}", try NameLedger(path: path))
    // 2026-11-22 05:17:28 UTC.
    let id = FileID(high: 1_795_324_648_000_000_000, low: 7)
    let shown = names.shownName(of: id, at: RelativePath("x")).displayText
    try names.decide([(id, RelativePath("x"))])
    let name = try #require(names.name(of: id, at: RelativePath("x"))?.displayText)
    #expect(name == shown && name.hasPrefix("2026-11-2") && name.hasSuffix("728-x"))
  }

  @Test func aRecordThatIsNoneIsSaidSo() throws {
    try folder.write(Array(repeating: 7, count: 10_000), to: "names.sqlite")
    let error = #expect(throws: StorageError.self) { try NameLedger(path: path) }
    #expect(error?.message.contains("names.sqlite") == true)
  }
}

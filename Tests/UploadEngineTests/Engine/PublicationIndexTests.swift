import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct PublicationIndexTests {
  private let folder: ScratchFolder
  private let catalog: Catalog
  private let index: PublicationIndex

  init() throws {
    folder = try ScratchFolder()
    catalog = try Catalog(path: folder("catalog.sqlite"))
    index = PublicationIndex(catalog: catalog)
  }

  private static func publication(
    _ number: UInt64, publishedAs: String? = nil, at path: String = "a"
  ) -> EarlierPublication {
    EarlierPublication(
      fileID: FileID(high: 1, low: number), merkleRoot: Hex.encode(sha256([UInt8(number)])), sizeBytes: number,
      chunkBytes: 4096, publishedAs: publishedAs,
      origin: PublicationOrigin(path: RelativePath(path), name: RelativePath(path), modifiedNanoseconds: 7))
  }

  private static func receipt(of publication: EarlierPublication, named name: String) -> StepOutcome {
    .published(
      Receipt(
        id: "r", name: name, sizeBytes: publication.sizeBytes, merkleRoot: publication.merkleRoot, chainTip: "",
        publishedAtMilliseconds: 0, publishedAs: publication.publishedAs, fileID: publication.fileID))
  }

  private func publish(_ number: UInt64, named name: String = "a", publishedAs: String? = nil) {
    let publication = Self.publication(number, publishedAs: publishedAs, at: name)
    let request = HTTPRequestID(number)
    index.begins(request, [.init(name: name, publication: Self.publication(number, at: name))])
    index.ended(request, Self.receipt(of: publication, named: name))
  }

  private func begin(_ request: UInt64, publishing number: UInt64, in index: PublicationIndex? = nil) {
    let index = index ?? self.index
    index.begins(HTTPRequestID(request), [.init(name: "a", publication: Self.publication(number))])
    index.recordBegun([HTTPRequestID(request)])
  }

  private func save(_ index: PublicationIndex? = nil) throws {
    let index = index ?? self.index
    let notes = index.unsaved()
    try catalog.write([], removing: [], publications: notes)
    index.saved(notes)
  }

  /// What the next process knows.
  private var afterAKill: PublicationIndex { PublicationIndex(catalog: catalog) }

  @Test(.promises("DE138a")) func whatWasNotPublishedHere_mayReplaceNothing() throws {
    #expect(try index.right(to: "a", .number) == NameRight(ifExists: .number))
  }

  /// Regression: by its name alone a publication was replaced, also by another path's capture, to which a new or older
  /// names' record, or the first template, had given that name.
  @Test(.promises("DE138a", "DE138b"), arguments: [false, true], [false, true])
  func whatWasPublishedForAnotherPath_isReplacedByNothing(isAnswered: Bool, isAfterAKill: Bool) throws {
    let (first, other) = (Self.publication(1).fileID, FileID(high: 1, low: 2))
    if isAnswered { publish(1, publishedAs: "a-2") } else { begin(1, publishing: 1) }
    if isAfterAKill { try save() }
    let index = isAfterAKill ? afterAKill : index
    func right(of file: FileID, at path: String) throws -> NameRight {
      try index.right(to: "a", for: .init(file, at: [RelativePath(path)], isCalledAsItsPath: false), .number)
    }
    #expect(try right(of: other, at: "d/a") == NameRight(ifExists: .number))
    // A later content of the capture itself, wherever it lies, and what comes after it at its path.
    for own in [try right(of: first, at: "d/a"), try right(of: other, at: "a")] {
      #expect(own.replaces.map(\.fileID) == [first] && own.publishedAs == (isAnswered ? "a-2" : nil))
    }
  }

  /// Regression: a capture that lay at the server as `a-2` was renamed to `a-2`, or had a second name of that, and what was recorded at one
  /// of its paths after it replaced its only publication.
  @Test(.promises("DE138a"), arguments: [("a", "a-2"), ("a-2", "a")], [false, true])
  func whatLiesThereForAnotherPathToo_isReplacedByItsOwnCaptureAlone(_ paths: (String, String), isAfterAKill: Bool)
    throws
  {
    for name in [paths.0, paths.1] {
      let publication = Self.publication(1, publishedAs: name == "a" ? "a-2" : nil, at: name)
      let request = HTTPRequestID(name == paths.0 ? 1 : 2)
      index.begins(request, [.init(name: name, publication: Self.publication(1, at: name))])
      index.ended(request, Self.receipt(of: publication, named: name))
    }
    if isAfterAKill { try save() }
    let index = isAfterAKill ? afterAKill : index
    for path in ["a", "a-2"] {
      func right(of file: UInt64) throws -> NameRight {
        let claimant = PublicationIndex.Claimant(
          FileID(high: 1, low: file), at: [RelativePath(path)], isCalledAsItsPath: true)
        return try index.right(to: path, for: claimant, .number)
      }
      #expect(try right(of: 2) == NameRight(ifExists: .number), "\(path)")
      #expect(try right(of: 1).replaces.map(\.fileID) == [FileID(high: 1, low: 1)], "\(path)")
    }
  }

  /// Regression (seed 45000043759): what had been published as `a` kept its name from what came after it at its path, because of a request
  /// without an answer that was to publish it as `a-2`.
  @Test(.promises("DE138a"), arguments: [false, true])
  func whatWasHeard_givesWay_whateverElseItsCaptureMayBeCalled(isAfterAKill: Bool) throws {
    publish(1)
    index.begins(HTTPRequestID(2), [.init(name: "a-2", publication: Self.publication(1, at: "b"))])
    index.recordBegun([HTTPRequestID(2)])
    index.ended(HTTPRequestID(2), .refused(StepFailure(.transport(.cancelled), "")))
    // Nor because of one that was to publish what comes after it (seed 45000042858).
    begin(3, publishing: 2)
    if isAfterAKill { try save() }
    let claimant = PublicationIndex.Claimant(
      FileID(high: 1, low: 2), at: [RelativePath("a")], isCalledAsItsPath: false)
    let right = try (isAfterAKill ? afterAKill : index).right(to: "a", for: claimant, .number)
    #expect(right.replaces.map(\.fileID) == [1, 2].map { FileID(high: 1, low: $0) })
  }

  /// Regression (templates 53000013007): what had been published as `a` kept its name from what came after it at its path, because the
  /// catalog still had what was to be published as `a-2`, of which the answer had come and said that it lay there.
  @Test(.promises("DE138a")) func whatIsAnswered_isNotUnclear_beforeTheCatalogHasTheAnswer() throws {
    publish(1)
    let renamed = Self.publication(1, at: "a-2")
    index.begins(HTTPRequestID(2), [.init(name: "a-2", publication: renamed)])
    index.recordBegun([HTTPRequestID(2)])
    index.ended(HTTPRequestID(2), Self.receipt(of: renamed, named: "a-2"))
    begin(3, publishing: 1)
    let claimant = PublicationIndex.Claimant(
      FileID(high: 1, low: 2), at: [RelativePath("a")], isCalledAsItsPath: false)
    let replaced = try index.right(to: "a", for: claimant, .number).replaces
    #expect(replaced.map(\.fileID) == [FileID(high: 1, low: 1)])
  }

  /// A capture that was `a` there, and was renamed to `a-2`, has two publications.
  @Test(.promises("DE138a")) func whatLiesThereUnderItsOwnNames_givesWayAtEachOfThem() throws {
    for name in ["a", "a-2"] {
      let request = HTTPRequestID(name == "a" ? 1 : 2)
      index.begins(request, [.init(name: name, publication: Self.publication(1, at: name))])
      index.ended(request, Self.receipt(of: Self.publication(1, at: name), named: name))
    }
    for path in ["a", "a-2"] {
      let claimant = PublicationIndex.Claimant(
        FileID(high: 1, low: 2), at: [RelativePath(path)], isCalledAsItsPath: true)
      #expect(try index.right(to: path, for: claimant, .number).replaces.map(\.fileID) == [FileID(high: 1, low: 1)])
    }
  }

  /// Regression: what had got a number took its name from another machine's capture once `replace` was set.
  @Test(.promises("DE138c"), arguments: [FileSettings.IfExists.number, .refuse, .replace])
  func theNameThatAPathHasGot_stays_whateverIsSetLater(_ ifExists: FileSettings.IfExists) throws {
    publish(1, publishedAs: "a-2")
    for file in [1, 2] as [UInt64] {
      let claimant = PublicationIndex.Claimant(
        FileID(high: 1, low: file), at: [RelativePath("a")], isCalledAsItsPath: true)
      #expect(try index.right(to: "a", for: claimant, ifExists).publishedAs == "a-2")
    }
  }

  @Test(arguments: [
    ("a-2.mov", "a.mov"), ("d-3/a-12", "d-3/a"), (".a-2", ".a"), ("a.tar-9.gz", "a.tar.gz"), ("a-2-2.mov", "a-2.mov"),
    ("a.mov", nil), ("a2.mov", nil), ("a-02.mov", nil), ("a-.mov", nil), ("d-2/a", nil), ("-2", ""), ("2", nil),
    ("", nil),
  ])
  func numbersOfNames_areTakenAway(_ name: String, _ unnumbered: String?) {
    #expect(NumberedName.unnumbered(name) == unnumbered)
  }

  /// Found by the simulation (templates, seed 1024): a capture was recorded at the path, and renamed before it was published.
  @Test(.promises("DE138a")) func whatWasRecordedAtItsPath_replacesIt_alsoUnderItsNextPath() throws {
    publish(1)
    let ledger = try NameLedger(path: folder("names.sqlite"))
    var rules = FileRules()
    rules.defaults.name = try NameTemplate("{name}")
    let names = PublishedNames(rules: rules, host: "", ledger: ledger)
    let file = FileID(high: 1, low: 2)
    try names.decide([(file, RelativePath("a")), (file, RelativePath("d/a"))])
    func claimant(_ file: FileID) -> PublicationIndex.Claimant {
      .init(file, at: RelativePath("d/a"), called: RelativePath("a"), names)
    }
    #expect(try index.right(to: "a", for: claimant(file), .number).replaces == [Self.publication(1)])
    #expect(try index.right(to: "a", for: claimant(FileID(high: 1, low: 3)), .number).replaces.isEmpty)
  }

  /// Versions before recorded no path. Without templates, of now and of before, the name says it.
  @Test(.promises("DE138a")) func ofAPublicationWithoutAPath_onlyItsCaptureIsKnown_whereTemplatesGaveNames() throws {
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    try save()
    func replaced(by file: UInt64, _ isCalledAsItsPath: Bool) throws -> Int {
      let claimant = PublicationIndex.Claimant(
        FileID(high: 1, low: file), at: [RelativePath("a")], isCalledAsItsPath: isCalledAsItsPath)
      return try afterAKill.right(to: "a", for: claimant, .number).replaces.count
    }
    #expect(try replaced(by: 1, false) == 1 && (try replaced(by: 2, false)) == 0 && (try replaced(by: 2, true)) == 1)
  }

  /// Regression: what versions before had published at the path of a capture that was removed was not compared with, so that an older
  /// content that was put back replaced it.
  @Test(.promises("S80f")) func ofAPublicationWithoutAPath_theNameSaysIt_whereNoTemplateGaveNames() throws {
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    try save()
    func former(_ areCalledAsPaths: Bool) throws -> FormerPublication? {
      try afterAKill.former(at: [RelativePath("a")], areCalledAsPaths: areCalledAsPaths) { $0.displayText }
    }
    let found = FileSnapshot(
      id: FileID(high: 1, low: 9), epoch: 0, sizeBytes: 1, modifiedNanoseconds: 1 << 60, mode: 0, inode: 1,
      names: [RelativePath("a")], writableOpens: 0, mutationsInFlight: 0)
    #expect(try former(false) == nil)
    #expect(try former(true)?.isBefore(found) == false, "when it was published is not known")
  }

  @Test(.promises("S80f")) func whatWasPublishedLastAtAPath_isFound_alsoUnderANameThatATemplateGave() throws {
    publish(1)
    var named = Self.publication(2, at: "d/x")
    named.origin?.name = RelativePath("x-2")
    index.begins(HTTPRequestID(2), [.init(name: "x-2", publication: named)])
    index.ended(HTTPRequestID(2), Self.receipt(of: named, named: "x-2"))
    try save()
    func former(at paths: String...) throws -> FormerPublication? {
      try afterAKill.former(at: paths.map { RelativePath($0) }) { $0.displayText }
    }
    #expect(try former(at: "a")?.publication.merkleRoot == Self.publication(1).merkleRoot)
    #expect(try former(at: "d/x", "b")?.name == "x-2" && former(at: "d/x")?.publication.receiptID == "r")
    #expect(try former(at: "x-2", "b") == nil && former(at: "a")?.isLast == true)
    begin(3, publishing: 3)
    #expect(try former(at: "a")?.isLast == false)
  }

  /// What an earlier run has published, or begun, is known before anything else has asked the catalog.
  @Test(.promises("DE138a")) func namesOfEarlierRuns_areKnown_besideNewOnes() throws {
    publish(1)
    try save()
    begin(2, publishing: 2)
    let next = afterAKill
    #expect(try next.right(to: "new", .number) == NameRight(ifExists: .number))
    #expect(try next.right(to: "a", .number).replaces == [Self.publication(1), Self.publication(2)])
  }

  /// Of a request with many files one statement forgets all intents, and none of another request.
  @Test(.promises("DE138g")) func intentsOfNewNames_areForgottenTogether_andNoOthers() throws {
    _ = try index.right(to: "a0", .number)
    let publications = (0..<64).map { Self.publication(UInt64($0) + 1) }
    let names = (0..<64).map { "a\($0)" }
    for request in 0..<4 as Range<Int> {
      let part = request * 16..<request * 16 + 16
      index.begins(HTTPRequestID(UInt64(request)), part.map { .init(name: names[$0], publication: publications[$0]) })
      index.recordBegun([HTTPRequestID(UInt64(request))])
    }
    for request in [0, 3] {
      let part = request * 16..<request * 16 + 16
      index.ended(
        HTTPRequestID(UInt64(request)), .each(part.map { Self.receipt(of: publications[$0], named: names[$0]) }))
    }
    try save()
    for (number, name) in names.enumerated() {
      let recorded = try catalog.publications(named: name)
      let isPublished = (0..<16).contains(number) || (48..<64).contains(number)
      #expect(recorded.last == (isPublished ? publications[number] : nil), "\(name)")
      #expect(recorded.intents.map(\.publication) == (isPublished ? [] : [publications[number]]), "\(name)")
    }
  }

  /// A name that was new when its first request began has two by the time that the second one is answered.
  @Test(.promises("DE138g")) func ofANameWithTwoIntents_theLaterPublicationForgetsBoth() throws {
    _ = try index.right(to: "a", .number)
    begin(1, publishing: 1)
    begin(2, publishing: 2)
    index.ended(HTTPRequestID(1), .refused(StepFailure(.transport(.connectionLost), "")))
    index.ended(HTTPRequestID(2), Self.receipt(of: Self.publication(2), named: "a"))
    try save()
    let recorded = try catalog.publications(named: "a")
    #expect(recorded.last == Self.publication(2) && recorded.intents.isEmpty)
  }

  @Test(.promises("DE138a", "DE138c")) func theLastPublicationOfAName_isKnown_alsoAfterARestart() throws {
    publish(1)
    publish(2, publishedAs: "a-2")
    publish(3, named: "b")
    let wanted = NameRight(ifExists: .refuse, replaces: [Self.publication(2, publishedAs: "a-2")], publishedAs: "a-2")
    #expect(try index.right(to: "a", .refuse) == wanted)
    try catalog.write([], removing: [], publications: index.unsaved())
    index.saved(index.unsaved())
    #expect(index.unsaved().isEmpty)
    #expect(try index.right(to: "a", .refuse) == wanted)
    catalog.close()
    let next = PublicationIndex(catalog: try Catalog(path: folder("catalog.sqlite")))
    #expect(try next.right(to: "a", .refuse) == wanted)
  }

  @Test(.promises("DE138a")) func aNewerPublicationIsNotForgotten_withTheOneThatWasSaved() throws {
    publish(1)
    let saved = index.unsaved()
    publish(2)
    index.saved(saved)
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(2)])
  }

  /// Regression: what a server said of a session of before counted as the last publication, and the capture got a number.
  @Test(.promises("DE138a", "DE138c")) func whatASessionOfBeforeHadPublished_isNotTheLastPublication() throws {
    publish(1)
    publish(2)
    try save()
    index.ended(HTTPRequestID(3), Self.receipt(of: Self.publication(1), named: "a"))
    #expect(try index.right(to: "a", .number).replaces.first == Self.publication(2))
    try save()
    #expect(index.unsaved().isEmpty)
    #expect(try afterAKill.right(to: "a", .number).replaces == [Self.publication(2)])
  }

  @Test(.promises("DE138a", "DE138c"))
  func whatASessionHadPublished_isTheLastPublication_whereItsOutcomeWasUnknown() throws {
    publish(1)
    try save()
    begin(2, publishing: 2)
    let (next, found) = (afterAKill, Self.publication(2, publishedAs: "a-2"))
    next.ended(HTTPRequestID(1), Self.receipt(of: found, named: "a"))
    #expect(try next.right(to: "a", .number).publishedAs == "a-2")
    try save(next)
    let wanted = NameRight(ifExists: .number, replaces: [found], publishedAs: "a-2")
    #expect(try afterAKill.right(to: "a", .number) == wanted)
  }

  /// Regression: of a file that was written again and again the publication that a server had told of was not named among many that were
  /// unclear, and the capture got a number.
  @Test(
    "Regression, found by the simulation (receiver-disk, seed 32000008301): the answer that came last counted for the last publication, and the next capture of the path got a number",
    .promises("DE138a", "DE138g"), arguments: [false, true], [false, true])
  func ofTwoSessionsThatAreAskedFor_theOneThatWasSentLastIsTheLastPublication(
    isSavedBetween: Bool, isKilled: Bool
  ) throws {
    for number in [1, 2] as [UInt64] { begin(number, publishing: number) }
    let next = afterAKill
    for number in [2, 1] as [UInt64] {
      next.ended(HTTPRequestID(10 - number), Self.receipt(of: Self.publication(number), named: "a"))
      if isSavedBetween { try save(next) }
    }
    if isKilled { try save(next) }
    let right = try (isKilled ? afterAKill : next).right(to: "a", .number)
    #expect(right.replaces.first?.fileID == Self.publication(2).fileID, "\(right.replaces.map(\.sizeBytes))")
  }

  @Test(.promises("DE138a", "DE138g")) func whatAServerHasToldOf_isNamedBeforeWhatIsUnclear() throws {
    publish(1)
    for number in 10...30 as ClosedRange<UInt64> {
      begin(number, publishing: number)
      index.ended(HTTPRequestID(number), .refused(StepFailure(.transport(.cancelled), "")))
    }
    index.ended(HTTPRequestID(40), Self.receipt(of: Self.publication(5), named: "a"))
    let right = try index.right(to: "a", .number)
    #expect(right.replaces.first == Self.publication(1))
    #expect(right.replaces.dropFirst().first?.merkleRoot == Self.publication(5).merkleRoot)
  }

  /// Regression: a server may tell of a publication before the request that was broken off has come to its end here.
  @Test(.promises("DE138a", "DE138g")) func whatAServerTellsOf_whileItsRequestIsUnderWay_isTheLastPublication() throws {
    publish(1)
    begin(2, publishing: 2)
    index.ended(HTTPRequestID(3), Self.receipt(of: Self.publication(2), named: "a"))
    #expect(try index.right(to: "a", .number).replaces.first == Self.publication(2))
  }

  @Test(.promises("DE138a")) func ofTwoAnswersThatCross_theLaterRequestsCounts() throws {
    begin(1, publishing: 1)
    begin(2, publishing: 2)
    index.ended(HTTPRequestID(2), Self.receipt(of: Self.publication(2), named: "a"))
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(2)])
  }

  @Test(
    .promises("DE138a"),
    arguments: [StepFailure.Kind.transport(.connectionLost), .serverError, .conflict, .busy, .insufficientStorage])
  func whatMayHaveBeenPublished_mayBeReplaced(failure: StepFailure.Kind) throws {
    index.begins(
      HTTPRequestID(1),
      [.init(name: "a", publication: Self.publication(1)), .init(name: "b", publication: Self.publication(2))])
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    index.ended(HTTPRequestID(1), .each([.refused(StepFailure(failure, "")), .refused(StepFailure(.nameRefused, ""))]))
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    #expect(try index.right(to: "b", .number).replaces == [])
    publish(3)
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(3)])
  }

  @Test(.promises("DE138a")) func aSessionThatWasAskedFor_tellsWhatItPublished() throws {
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    var known = Self.publication(1)
    (known.chunkBytes, known.origin) = (nil, nil)
    #expect(try index.right(to: "a", .number).replaces == [known])
  }

  @Test(.promises("DE25")) func whatTellsAnObjectApart_isKept_alsoOverARestart() throws {
    var wanted = Self.publication(1)
    wanted.nonce = [1, 2]
    index.begins(HTTPRequestID(1), [PublicationIndex.Sent(name: "a", publication: wanted)])
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    wanted.receiptID = "r"
    #expect(try index.right(to: "a", .number).replaces == [wanted])
    try catalog.write([], removing: [], publications: index.unsaved())
    catalog.close()
    let next = PublicationIndex(catalog: try Catalog(path: folder("catalog.sqlite")))
    #expect(try next.right(to: "a", .number).replaces == [wanted])
  }

  @Test(.promises("DE138b", "DE138d")) func withoutTheRecord_whatIsNumberedGoesOn_andWhatIsRefusedWaits() throws {
    publish(1)
    catalog.close()
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    #expect(try index.right(to: "b", .number) == NameRight(ifExists: .number))
    #expect(throws: StorageError.self) { try index.right(to: "b", .refuse) }
    #expect(try index.right(to: "a", .replace) == NameRight(ifExists: .replace))
  }

  @Test(.promises("DE138a")) func namesAreComparedByTheirBytes() throws {
    publish(1, named: "é")
    #expect(try index.right(to: "e\u{301}", .number).replaces.isEmpty)
    try catalog.write([], removing: [], publications: index.unsaved())
    index.saved(index.unsaved())
    #expect(try index.right(to: "e\u{301}", .number).replaces.isEmpty)
    #expect(try !index.right(to: "é", .number).replaces.isEmpty)
  }

  @Test(.promises("DE138g")) func whatWasAboutToBePublished_isKnownAfterAKill() throws {
    begin(1, publishing: 1)
    #expect(try afterAKill.right(to: "a", .number).replaces == [Self.publication(1)])
    catalog.close()
    let next = PublicationIndex(catalog: try Catalog(path: folder("catalog.sqlite")))
    #expect(try next.right(to: "a", .refuse).replaces == [Self.publication(1)])
    #expect(try next.right(to: "b", .refuse).replaces.isEmpty)
  }

  @Test(.promises("DE138a", "DE138g")) func theLastPublicationStaysKnown_besideWhatMayHaveBeenPublished() throws {
    publish(1, publishedAs: "a-2")
    try save()
    begin(2, publishing: 2)
    let wanted = NameRight(
      ifExists: .number, replaces: [Self.publication(1, publishedAs: "a-2"), Self.publication(2)],
      publishedAs: "a-2")
    #expect(try afterAKill.right(to: "a", .number) == wanted)
    #expect(try index.right(to: "a", .number) == wanted)
  }

  @Test(.promises("DE138g")) func onceTheOutcomeIsKnown_whatWasAboutToBePublishedIsForgotten() throws {
    begin(1, publishing: 1)
    index.ended(HTTPRequestID(1), .refused(StepFailure(.transport(.connectionLost), "")))
    begin(2, publishing: 2)
    begin(3, publishing: 3)
    index.ended(HTTPRequestID(2), Self.receipt(of: Self.publication(2), named: "a"))
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(2), Self.publication(3)])
    try save()
    // The third is under way.
    #expect(try afterAKill.right(to: "a", .number).replaces == [Self.publication(2), Self.publication(3)])
    index.ended(HTTPRequestID(3), .refused(StepFailure(.nameRefused, "")))
    try save()
    #expect(try afterAKill.right(to: "a", .number).replaces == [Self.publication(2)])
  }

  @Test(.promises("DE138g")) func whatAnEarlierAttemptMayHavePublished_isNotForgotten_withARefusal() throws {
    begin(1, publishing: 1)
    let next = afterAKill
    begin(1, publishing: 1, in: next)
    next.ended(HTTPRequestID(1), .refused(StepFailure(.nameRefused, "")))
    try save(next)
    #expect(try afterAKill.right(to: "a", .number).replaces == [Self.publication(1)])
    // Until it is known.
    begin(2, publishing: 1, in: next)
    next.ended(HTTPRequestID(2), Self.receipt(of: Self.publication(1), named: "a"))
    try save(next)
    #expect(try catalog.publications(named: "a").intents.isEmpty)
  }

  @Test(.promises("DE138g")) func ofANameWithoutAnAnswer_eightAreKept() throws {
    publish(100)
    try save()
    for number in 1...20 { begin(UInt64(number), publishing: UInt64(number)) }
    for number in [19, 20] { begin(UInt64(100 + number), publishing: UInt64(number)) }
    #expect(try catalog.publications(named: "a").intents.map(\.publication) == (13...20).map { Self.publication($0) })
    let known = try afterAKill.right(to: "a", .number).replaces
    #expect(known == [100, 20, 19, 18, 17, 16, 15, 14].map { Self.publication($0) })
  }

  @Test(.promises("DE138g")) func fromADiskThatDoesNotTakeTheRecord_capturesGetAway() throws {
    catalog.close()
    begin(1, publishing: 1)
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    index.ended(HTTPRequestID(1), .refused(StepFailure(.nameRefused, "")))
    #expect(index.unsaved().isEmpty)
  }

  /// Regression: a request that takes its name from whatever has it left no record, and once the daemon was killed and
  /// started again with numbers, the same content got one.
  @Test(.promises("DE138g")) func whatTakesItsNameFromAnything_isKnownAfterAKill_toWhatMayNot() throws {
    var sending = WholeFileSending(
      fileID: FileID(high: 1, low: 1), revision: 1, nonce: [1], path: RelativePath("a"),
      digest: ChunkDigest(sha256: sha256([1]), crc32c: 0), plainBytes: 1, body: nil, modifiedNanoseconds: 0,
      mode: 0o644, sentBytes: SentByteCounter())
    sending.right = try index.right(to: "a", .replace)
    index.begins(
      HTTPRequestID(1),
      PublicationIndex.Sent.all(of: .wholeFile(sending), from: [RelativePath("a")]) { $0.displayText })
    index.recordBegun([HTTPRequestID(1)])
    #expect(try afterAKill.right(to: "a", .number).replaces.map(\.fileID) == [sending.fileID])
  }

  @Test(.promises("DE138g")) func afterARecordThatWaitsForNoSync_othersDo() throws {
    begin(1, publishing: 1)
    #expect(try catalog.setting("synchronous") == "2")
    #expect(try catalog.setting("wal_autocheckpoint") == "1000")
  }
}

extension PublicationIndex {
  /// As a new capture asks for the name that is its path, where no template has ever given names.
  fileprivate func right(to name: String, _ ifExists: FileSettings.IfExists) throws(StorageError) -> NameRight {
    let claimant = Claimant(FileID(high: 9, low: 9), at: [RelativePath(name)], isCalledAsItsPath: true)
    return try right(to: name, for: claimant, ifExists)
  }
}

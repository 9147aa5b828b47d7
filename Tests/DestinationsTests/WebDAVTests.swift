import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import Destinations

/// A stream of which only the length and the proof count.
private final class TestStream: StreamedFile {
  let byteCount: Int
  let proof: (merkleRoot: Digest32, chainTip: Digest32)?
  let contentSHA256: Digest32?

  init(byteCount: Int, isDone: Bool) {
    self.byteCount = byteCount
    proof = isDone ? (sha256([1]), sha256([2])) : nil
    contentSHA256 = isDone ? sha256([3]) : nil
  }

  func begin(whenReady: @escaping @Sendable () -> Void) {}
  func next() -> StreamedBytesSupply { .later }
  func end() {}
}

/// The requests of a file, at servers of every kind: whatever they do, what others have there stays, and nothing is left of us.
@Suite struct WebDAVTests {
  private let folder = FakeFolder()

  private static func destination(
    credential: Credential? = nil, _ change: (inout WebDAVOptions) -> Void = { _ in },
    whenConditionsFail: @escaping @Sendable (String) -> Void = { _ in }
  ) throws -> WebDAVDestination {
    var options = WebDAVOptions()
    change(&options)
    return try WebDAVDestination(
      address: WebDAVAddress("webdav+https://dav.example.org/dav/", allowPlainHTTP: false), credential: credential,
      options: options, whenConditionsFail: whenConditionsFail)
  }

  private static func sending(
    _ path: String = "a.mov", bytes: Int = 2, nonce: UInt8 = 1, streamed: Bool = false, isDone: Bool = true,
    right: NameRight = NameRight(ifExists: .number)
  ) -> WholeFileSending {
    var sending = Fixture.wholeFile([UInt8](repeating: nonce, count: bytes), path: path)
    sending.nonce = [UInt8](repeating: nonce, count: 32)
    sending.right = right
    if streamed {
      sending.body = nil
      sending.stream = TestStream(byteCount: bytes, isDone: isDone)
    }
    return sending
  }

  private func send(_ sending: WholeFileSending, at destination: WebDAVDestination) throws -> Receipt {
    let outcome = folder.run(.wholeFile(sending), at: destination)
    guard case .published(let receipt) = outcome else { throw Unpublished(outcome: outcome) }
    return receipt
  }

  private func failure(_ sending: WholeFileSending, at destination: WebDAVDestination) throws -> StepFailure {
    let outcome = folder.run(.wholeFile(sending), at: destination)
    guard case .refused(let failure) = outcome else { throw Unpublished(outcome: outcome) }
    return failure
  }

  private struct Unpublished: Error {
    var outcome: StepOutcome
  }

  private func earlier(_ sending: WholeFileSending, _ receipt: Receipt?) -> NameRight {
    var publication = EarlierPublication(
      fileID: sending.fileID, merkleRoot: "", sizeBytes: UInt64(sending.plainBytes), chunkBytes: nil,
      nonce: sending.nonce)
    (publication.receiptID, publication.publishedAs) = (receipt?.id, receipt?.publishedAs)
    return NameRight(ifExists: .number, replaces: [publication], publishedAs: receipt?.publishedAs)
  }

  // MARK: - What is sent

  /// Regression: a redirect to a page for a login was taken for a folder, and so every name for taken.
  @Test(arguments: [
    ("https://h/dav/day%201/", true), ("/dav/day%201/", true), ("day%201/", true), ("/dav/day 1/", true),
    ("https://sso.example/login/", false), ("https://h/dav/day%201", false), ("/", false),
  ])
  func onlyTheSameNameBehindASlash_isAFolder(location: String, isFolder: Bool) {
    let answer = WebDAVAnswer(HTTPResponse(status: 301, headers: [HTTPHeader("location", location)]))
    #expect(answer.leads(toFolder: "2026/day 1") == isFolder)
  }

  /// Regression: a long upload's beginning was forgotten once thousands of other files had begun, and its answers were read as others.
  @Test func whatIsUnderWay_isNotForgotten_howeverManyOthersBegin() {
    let memory = WebDAVMemory()
    func nonce(_ number: Int) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }
    func begin(_ number: Int) {
      memory.begin(nonce(number), in: "", name: "\(number)", earlier: []) { "temporary of \($0)" }
    }
    begin(0)
    for number in 1...9000 {
      begin(number)
      memory.end(nonce(number))
    }
    #expect(memory.beginning(of: nonce(0)).temporaryName == "temporary of \(nonce(0))")
    #expect(memory.beginning(of: nonce(1)).temporaryName == "" && memory.beginning(of: nonce(9000)).temporaryName != "")
  }

  @Test(.promises("DE160", "DE162")) func aFile_isSentUnderATemporaryName_comparedAndMoved() throws {
    let destination = try Self.destination()
    let receipt = try send(Self.sending("day 1/a.mov"), at: destination)
    #expect(
      folder.requests == [
        "MKCOL day 1", "PUT upload", "PROPPATCH upload", "PROPFIND upload", "PROPFIND day 1/a.mov", "F MOVE upload",
        "PROPFIND day 1/a.mov",
      ])
    #expect(receipt.name == "day 1/a.mov" && receipt.publishedAs == nil && receipt.id == "t1" && receipt.sizeBytes == 2)
    #expect(folder.published == ["day 1/a.mov"] && folder.temporary.isEmpty)
  }

  @Test(.promises("DE160")) func folders_areMadeFromTheInnermostThatIsThere_onceInARun() throws {
    let destination = try Self.destination()
    _ = try send(Self.sending("a/b/c/d"), at: destination)
    #expect(
      folder.requests.prefix(7) == [
        "MKCOL a/b/c", "MKCOL a/b", "MKCOL a", "MKCOL a/b", "MKCOL a/b/c", "PUT upload", "PROPPATCH upload",
      ])
    _ = try send(Self.sending("a/b/c/e", nonce: 2), at: destination)
    #expect(folder.requests.first == "PUT upload")
    folder.folders = [""]
    _ = try send(Self.sending("a/b/c/f", nonce: 3), at: destination)
    #expect(folder.requests.prefix(2) == ["PUT upload", "MKCOL a/b/c"])
  }

  @Test(.promises("DE161")) func names_areTextInPercentEncoding() throws {
    let destination = try Self.destination()
    #expect(destination.publishedName(for: RelativePath("ü/a b;c#?.mov")) == "ü/a b%3Bc%23%3F.mov")
    #expect(destination.publishedName(for: RelativePath(bytes: Array("caf".utf8) + [0xe9])) == "caf%E9")
    #expect(destination.address.path(of: "ü/a b%.mov") == "/dav/%C3%BC/a%20b%25.mov")
  }

  @Test(.promises("DE160")) func aStream_asksBeforeItsBody_whereThereAreCredentials() throws {
    let destination = try Self.destination(credential: .bearer("token"))
    let step = DestinationStep.wholeFile(Self.sending(streamed: true))
    _ = destination.request(for: step)
    let found = Fixture.answer(
      207,
      text: "<multistatus><response><propstat><prop><resourcetype><collection/></resourcetype></prop>"
        + "<status>HTTP/1.1 200 OK</status></propstat></response></multistatus>")
    let put = try #require(destination.followUp(of: step, after: [found], at: .first))
    #expect(put.method == .put && put.asksBeforeBody && put.body.stream != nil)
    #expect(put.header("Authorization") == "Bearer token")
  }

  // MARK: - Whose a name is

  @Test(.promises("DE163", "DE164")) func aNameThatIsTaken_isLeft_andTheFileNumbered() throws {
    let destination = try Self.destination()
    folder.put("a.mov")
    folder.folders.insert("b.mov")
    #expect(try send(Self.sending(), at: destination).publishedAs == "a-2.mov")
    #expect(try send(Self.sending("b.mov", nonce: 2), at: destination).publishedAs == "b-2.mov")
    #expect(folder.files["a.mov"]?.tag == "\"t1\"" && folder.folders.contains("b.mov"))
  }

  @Test(.promises("DE163")) func whatComesBetweenQuestionAndMove_stays() throws {
    let destination = try Self.destination()
    folder.meanwhile["PROPFIND a.mov"] = { [folder] in folder.put("a.mov", bytes: 7) }
    #expect(try send(Self.sending(), at: destination).publishedAs == "a-2.mov")
    #expect(folder.files["a.mov"]?.bytes == 7 && folder.temporary.isEmpty)
  }

  @Test(.promises("DE163"), arguments: [true, false])
  func aLaterContent_replacesTheFormerOne_underACondition(keepsConditions: Bool) throws {
    let destination = try Self.destination()
    folder.keepsConditions = keepsConditions
    let first = Self.sending()
    let receipt = try send(first, at: destination)
    let second = try send(Self.sending(bytes: 5, nonce: 2, right: earlier(first, receipt)), at: destination)
    #expect(folder.requests.contains("T if MOVE upload"))
    #expect(folder.requests.contains("T MOVE upload") == !keepsConditions)
    #expect(second.publishedAs == nil && folder.published == ["a.mov"] && folder.files["a.mov"]?.bytes == 5)
    let third = Self.sending(bytes: 6, nonce: 3, right: earlier(Self.sending(bytes: 5, nonce: 2), second))
    _ = try send(third, at: destination)
    #expect(folder.requests.contains("T if MOVE upload") == keepsConditions)
  }

  /// What knows no properties and no ETags of PROPFIND (nginx) has times.
  @Test(.promises("DE163")) func aServerWithoutMarksAndTags_tellsByTimeAndSize() throws {
    let destination = try Self.destination()
    (folder.keepsMarks, folder.givesTags) = (false, false)
    let first = Self.sending()
    let receipt = try send(first, at: destination)
    #expect(receipt.id == "784111777-2")
    #expect(
      try send(Self.sending(bytes: 5, nonce: 2, right: earlier(first, receipt)), at: destination).publishedAs == nil)
    folder.put("a.mov", bytes: 4)
    let third = Self.sending(bytes: 6, nonce: 3, right: earlier(Self.sending(bytes: 5, nonce: 2), receipt))
    #expect(try send(third, at: destination).publishedAs == "a-2.mov")
  }

  @Test(.promises("DE163")) func whatWasPublishedByARunThatWasKilled_isKnownByItsMark() throws {
    let first = Self.sending()
    _ = folder.run(.wholeFile(first), at: try Self.destination(), answersMax: 5)
    #expect(folder.published == ["a.mov"])
    #expect(
      try send(Self.sending(bytes: 5, nonce: 2, right: earlier(first, nil)), at: Self.destination()).publishedAs == nil)
    #expect(folder.published == ["a.mov"] && folder.files["a.mov"]?.bytes == 5)
  }

  @Test(.promises("DE164")) func refuse_leavesTheName_andTakesTheUploadAway() throws {
    let destination = try Self.destination { $0.ifExists = .refuse }
    folder.put("a.mov")
    let failure = try failure(Self.sending(right: NameRight(ifExists: .refuse)), at: destination)
    #expect(failure.kind == .nameRefused && folder.files["a.mov"]?.bytes == 3 && folder.temporary.isEmpty)
  }

  @Test(.promises("DE164")) func replace_takesTheNameOfAFile_andNeverThatOfAFolder() throws {
    let destination = try Self.destination { $0.ifExists = .replace }
    folder.put("a.mov")
    folder.folders.insert("b.mov")
    #expect(try send(Self.sending(right: NameRight(ifExists: .replace)), at: destination).publishedAs == nil)
    #expect(folder.files["a.mov"]?.bytes == 2)
    let failure = try failure(Self.sending("b.mov", nonce: 2, right: NameRight(ifExists: .replace)), at: destination)
    #expect(failure.kind == .nameRefused && folder.folders.contains("b.mov") && folder.temporary.isEmpty)
  }

  // MARK: - How a name is said

  @Test(.promises("DE172"), arguments: [false, true])
  func aNameIsSaidAsTheServerWantsIt(isBehindProxy: Bool) throws {
    let destination = try Self.destination()
    (folder.takesPaths, folder.isBehindProxy) = (false, isBehindProxy)
    _ = try send(Self.sending(), at: destination)
    #expect(folder.requests.filter { $0.hasSuffix("MOVE upload") }.count == (isBehindProxy ? 3 : 2))
    _ = try send(Self.sending("b", nonce: 2), at: destination)
    #expect(folder.requests.filter { $0.hasSuffix("MOVE upload") }.count == 1)
  }

  // MARK: - What goes wrong

  @Test(.promises("DE162")) func whatArrivedShort_isNotPublished() throws {
    let destination = try Self.destination()
    folder.lostBytes = 1
    let failure = try failure(Self.sending(), at: destination)
    #expect(failure.kind == .digestMismatch && failure.message.contains("1 of 2 bytes"))
    #expect(folder.published.isEmpty && folder.temporary.isEmpty)
  }

  /// Every answer may be lost: the next try publishes the file once, and sends what was sent whole no second time.
  @Test(.promises("DE167"), arguments: 0...6)
  func eachAnswerMayBeLost(answersMax: Int) throws {
    let destination = try Self.destination()
    let outcome = folder.run(.wholeFile(Self.sending(streamed: true)), at: destination, answersMax: answersMax)
    guard case .refused = outcome else {
      Issue.record("\(outcome)")
      return
    }
    // The first answer is about the folder, the second one that to the bytes.
    let again = Self.sending(streamed: true, isDone: answersMax < 2)
    let receipt = try send(again, at: destination)
    #expect(receipt.merkleRoot == Hex.encode(sha256([1])) && receipt.publishedAs == nil)
    #expect(folder.published == ["a.mov"] && folder.temporary.isEmpty)
    #expect(folder.requests.contains("PUT upload") == (answersMax < 2))
  }

  /// What is compared is what was sent then.
  @Test(.promises("DE162", "DE167"), arguments: [2, 3])
  func damageOfWhatAnEarlierTrySent_isFound(answersMax: Int) throws {
    let destination = try Self.destination()
    _ = folder.run(.wholeFile(Self.sending(streamed: true)), at: destination, answersMax: answersMax)
    folder.checksum = "SHA256:\(Hex.encode(sha256([4])))"
    #expect(try failure(Self.sending(streamed: true, isDone: false), at: destination).kind == .digestMismatch)
    #expect(!folder.requests.contains("PUT upload") && folder.published.isEmpty && folder.temporary.isEmpty)
    folder.checksum = "SHA256:\(Hex.encode(sha256([3])))"
    _ = try send(Self.sending(streamed: true), at: destination)
    #expect(folder.requests.contains("PUT upload") && folder.published == ["a.mov"])
  }

  /// What says that nothing was asked says nothing of a file that has its name: the spool keeps in mind that it may be published.
  @Test(.promises("DE167")) func behindItsMove_aFileMayBePublished_whateverBecomesOfTheQuestion() throws {
    let error = TransportError(.unknownHost, "no name")
    let outcome = folder.run(
      .wholeFile(Self.sending()), at: try Self.destination(), answersMax: 6, error: error)
    guard case .refused(let failure) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(failure.kind == .transport(.connectionLost) && folder.published == ["a.mov"])
    let destination = try Self.destination()
    folder.meanwhile["F MOVE upload"] = { [folder] in folder.refusals["PROPFIND"] = 401 }
    #expect(try self.failure(Self.sending("b", nonce: 2), at: destination).kind == .unexpectedAnswer)
    folder.refusals = [:]
    #expect(try send(Self.sending("b", nonce: 2), at: destination).publishedAs == nil)
    #expect(folder.published == ["a.mov", "b"])
  }

  /// Regression: what was published under a file's former name counted as published under the new one (seed 44575808).
  @Test(.promises("DE167")) func aFileThatIsRenamedWhileItsMoveIsLost_isSentAgain() throws {
    let destination = try Self.destination()
    _ = folder.run(.wholeFile(Self.sending("day 1/a.mov")), at: destination, answersMax: 5)
    #expect(folder.published == ["day 1/a.mov"])
    #expect(try send(Self.sending("day 2/b.mov"), at: destination).publishedAs == nil)
    #expect(folder.published == ["day 1/a.mov", "day 2/b.mov"] && folder.temporary.isEmpty)
  }

  /// Regression: a gateway's word ended marks for the whole run (seed 405085765).
  @Test(.promises("DE163", "DE167")) func aMarkThatDidNotGetThere_isSetWithTheNextTry() throws {
    let destination = try Self.destination()
    folder.refusals["PROPPATCH"] = 502
    #expect(try failure(Self.sending(), at: destination).kind == .serverError && folder.published.isEmpty)
    folder.refusals = [:]
    _ = try send(Self.sending(), at: destination)
    #expect(!folder.requests.contains("PUT upload") && folder.requests.contains("PROPPATCH upload"))
    #expect(folder.files["a.mov"]?.mark == Hex.encode([UInt8](repeating: 1, count: 32)))
    folder.refusals["PROPPATCH"] = 405
    _ = try send(Self.sending("b", nonce: 2), at: destination)
    _ = try send(Self.sending("c", nonce: 3), at: destination)
    #expect(!folder.requests.contains("PROPPATCH upload"))
  }

  @Test(.promises("DE168")) func whatIsCancelledBehindItsBytes_isTakenAwayWithTheNextFile() throws {
    let destination = try Self.destination()
    let cancelled = TransportError(.cancelled, "cancelled")
    _ = folder.run(.wholeFile(Self.sending()), at: destination, answersMax: 4, error: cancelled)
    #expect(folder.temporary.count == 1)
    _ = try send(Self.sending("b", nonce: 2), at: destination)
    #expect(folder.requests.last == "DELETE upload" && folder.temporary.isEmpty)
  }

  @Test(.promises("DE168")) func whatARunThatWasKilledHasLeft_isTakenAwayWithTheNextContent() throws {
    let first = Self.sending()
    _ = folder.run(.wholeFile(first), at: try Self.destination(), answersMax: 2)
    #expect(folder.temporary.count == 1)
    _ = try send(Self.sending(bytes: 5, nonce: 2, right: earlier(first, nil)), at: Self.destination())
    #expect(folder.published == ["a.mov"] && folder.temporary.isEmpty)
  }

  @Test(
    .promises("DE169", "DE170"),
    arguments: [
      (423, StepFailure.Kind.conflict), (507, .insufficientStorage), (401, .unauthorized), (503, .busy),
      (502, .serverError),
      (403, .serverError), (413, .tooLarge(limitBytes: nil)), (500, .unexpectedAnswer),
    ])
  func refusals(status: Int, kind: StepFailure.Kind) throws {
    for method in ["PUT", "MOVE", "PROPFIND"] {
      let folder = FakeFolder()
      folder.refusals[method] = status
      let outcome = folder.run(.wholeFile(Self.sending()), at: try Self.destination())
      guard case .refused(let failure) = outcome else {
        Issue.record("\(method) \(outcome)")
        continue
      }
      #expect(failure.kind == kind, "\(method)")
      #expect(folder.published.isEmpty)
    }
  }

  @Test(.promises("DE171"), arguments: [404, 405, 200]) func anAddressWithoutAFolder_isNamed(status: Int) throws {
    folder.refusals["PROPFIND"] = status
    let failure = try failure(Self.sending(), at: Self.destination())
    #expect(failure.kind == .addressRefused && failure.message.contains("--to"))
    #expect(!folder.requests.contains("PUT upload"))
  }

  /// A captive portal answers everything with a page.
  @Test(.promises("DE162")) func aPageInPlaceOfEveryAnswer_isNoDelivery() throws {
    let destination = try Self.destination()
    let step = DestinationStep.wholeFile(Self.sending())
    let page = Fixture.answer(
      200, text: "<html><title>Login</title></html>", headers: [HTTPHeader("content-type", "text/html")])
    _ = destination.request(for: step)
    var responses = [page]
    while responses.count < 50, destination.followUp(of: step, after: responses, at: .first) != nil {
      responses.append(page)
    }
    guard case .refused = destination.outcome(of: step, responses: responses) else {
      Issue.record("a page is a delivery")
      return
    }
  }

  @Test(.promises("DE171")) func addresses() throws {
    let address = try WebDAVAddress("webdav+https://Dav.Example.org:8443/a%20b/", allowPlainHTTP: false)
    #expect(address.text == "webdav+https://dav.example.org:8443/a%20b")
    #expect(address.path(of: "c d") == "/a%20b/c%20d" && address.path(ofFolder: "") == "/a%20b/")
    #expect(throws: DestinationError.self) { try WebDAVAddress("webdav+http://example.org/", allowPlainHTTP: false) }
    #expect(throws: DestinationError.self) { try WebDAVAddress("webdav+https://u:p@h/", allowPlainHTTP: false) }
    #expect(throws: DestinationError.self) { try WebDAVAddress("https://example.org/", allowPlainHTTP: false) }
  }
}

import FileModel
import Integrity
import Lookup
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

@Suite struct FormTests {
  private func form(
    _ address: String = "form+https://forms.example.org/api/uploads.php/?ui=json&x=%20",
    credential: Credential? = nil, _ change: (inout FormOptions) throws -> Void = { _ in }
  ) throws -> FormDestination {
    var options = FormOptions()
    try change(&options)
    return try FormDestination(
      address: FormAddress(address, allowPlainHTTP: false), credential: credential, options: options)
  }

  private func sending(
    _ content: String = "hello", path: String = "day 1/a.mov", streamed: Int? = nil, isDone: Bool = true
  ) -> WholeFileSending {
    var sending = Fixture.wholeFile(Array(content.utf8), path: path)
    if let streamed {
      sending.body = nil
      sending.stream = TestStream(byteCount: streamed, isDone: isDone)
    }
    return sending
  }

  private func outcome(
    _ status: Int, _ text: String = "", headers: [HTTPHeader] = [], streamed: Int? = nil, isDone: Bool = true
  ) throws -> StepOutcome {
    try form().outcome(
      of: .wholeFile(sending(streamed: streamed, isDone: isDone)),
      response: Fixture.answer(status, text: text, headers: headers))
  }

  // MARK: - Requests

  /// Regression: with `hold`, too, a file was sent again after a gateway had waited for the script in vain.
  @Test(arguments: [502, 504, 524]) func aGatewayLeavesOpenWhatBecameOfTheFile(status: Int) throws {
    var options = FormOptions()
    options.unclear = .hold
    let success = FormSuccess(response: Fixture.answer(status), address: "forms", options: options)
    #expect(success.failure?.kind == .unclearEnd)
    options.unclear = .retry
    #expect(FormSuccess(response: Fixture.answer(status), address: "forms", options: options).failure == nil)
  }

  @Test(.promises("DE74", "DE76")) func file_isOnePostThatCurlWouldSend() throws {
    let request = try form(credential: .basic(user: "u", password: "p"))
      .request(for: .wholeFile(sending()))
    #expect(request.method == .post)
    #expect(request.url == "https://forms.example.org/api/uploads.php/?ui=json&x=%20")
    #expect(request.header("Authorization") == "Basic dTpw")
    let boundary = "uploadfs-" + Hex.encode(Array(Fixture.nonce.prefix(24)))
    #expect(request.header("Content-Type") == "multipart/form-data; boundary=\(boundary)")
    let expected =
      "--\(boundary)\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mov\"\r\n"
      + "Content-Type: video/quicktime\r\n\r\nhello\r\n--\(boundary)--\r\n"
    #expect(String(decoding: request.content, as: UTF8.self) == expected)
    #expect(request.isSentOnce && !request.opensConnection)
    // Hours are no reason to give up; silence and standstill are.
    #expect(request.limits.total == .zero && request.limits.stall > .zero)
  }

  @Test(.promises("DE75")) func streamedFile_hasItsLengthBeforehand() throws {
    let request = try form().request(for: .wholeFile(sending(streamed: 5_000_000_000)))
    let around = try form().request(for: .wholeFile(sending(""))).body.byteCount
    #expect(request.body.byteCount == 5_000_000_000 + around)
    #expect(request.limits.answer == .seconds(620) && !request.asksBeforeBody)
    let asking = try form(credential: .basic(user: "u", password: "p"))
    #expect(asking.request(for: .wholeFile(sending(streamed: 5_000_000))).asksBeforeBody)
  }

  @Test("Regression: a server that answered 417 to the question before the body got no large file", .promises("DE91"))
  func aServerThatRefusesTheQuestion_isNotAskedAgain() throws {
    let form = try form(credential: .basic(user: "u", password: "p"))
    let step = DestinationStep.wholeFile(sending(streamed: 5_000_000))
    guard case .refused(let failure) = form.outcome(of: step, response: Fixture.answer(417)) else {
      Issue.record("417 is no success")
      return
    }
    #expect(failure.kind == .unexpectedAnswer && failure.message.contains("417"))
    #expect(!form.request(for: step).asksBeforeBody)
  }

  @Test(
    .promises("DE76"),
    arguments: [
      ("a\"b\r\n.mov", "filename=\"a%2522b%250D%250A.mov\"", false), ("a\"b.mov", "filename=\"a%22b.mov\"", true),
      ("ü%41.mov", "filename=\"ü%2541.mov\"", true), ("100%.mov", "filename=\"100%.mov\"", true),
      ("a\\b.mov", "filename=\"a%5Cb.mov\"", true), ("x", "filename=\"x\"", true),
    ])
  func name_cannotLeaveItsQuotes(name: String, expected: String, isClean: Bool) throws {
    let text = String(
      decoding: try form().request(for: .wholeFile(sending(path: name))).content, as: UTF8.self)
    #expect(text.contains(isClean ? expected : "filename=\"a%22b%0D%0A.mov\""), "\(text)")
    #expect(text.split(separator: "\r\n" as Character, omittingEmptySubsequences: false).count == 7, "\(text)")
  }

  /// To Swift a slash and a combining mark behind it are one character.
  @Test func name_isWhatFollowsTheLastSlash_whateverItBeginsWith() throws {
    let text = String(
      decoding: try form().request(for: .wholeFile(sending(path: "day 1/\u{301}a.mov"))).content, as: UTF8.self)
    #expect(text.utf8.contains(Array("filename=\"\u{301}a.mov\"".utf8)), "\(text)")
  }

  /// Regression: to Swift an equals sign, a blank or a brace and a combining mark behind it are one character.
  @Test func aField_isCutAtBytes() throws {
    let field = try FormField("*.mov \u{301}a=\u{301}b{name}\u{301}c{size}\u{301}=d")
    #expect(Array(field.name.utf8) == Array("\u{301}a".utf8))
    let value = { (path: RelativePath) in
      field.value(for: path, sizeBytes: 5, modifiedNanoseconds: 0, id: Fixture.fileID).map { Array($0.utf8) }
    }
    #expect(
      value(RelativePath("x/y.mov")) == Array("\u{301}by.mov\u{301}c5\u{301}=d".utf8)
        && value(RelativePath("y.wav")) == nil)
    #expect(throws: DestinationError.self) { try FormField("a={\u{301}name}") }
  }

  @Test(.promises("DE74", "DE77")) func fields_comeBeforeTheFile() throws {
    let destination = try form {
      $0.fields = try [
        FormField("a={folder}|{stem}.{ext}|{size}"), FormField("*.wav kind=audio"), FormField("b= 1=2 "),
      ]
      $0.fileField = "upload"
    }
    let text = String(decoding: destination.request(for: .wholeFile(sending())).content, as: UTF8.self)
    #expect(text.contains("name=\"a\"\r\n\r\nday 1|a.mov|5\r\n"), "\(text)")
    #expect(text.contains("name=\"b\"\r\n\r\n 1=2 \r\n") && !text.contains("kind"), "\(text)")
    let fieldAt = try #require(text.firstRange(of: "name=\"a\"")).lowerBound
    let fileAt = try #require(text.firstRange(of: "name=\"upload\"; filename")).lowerBound
    #expect(fieldAt < fileAt)
  }

  /// Regression: bytes that are no UTF-8 became one and the same character, and two paths one.
  @Test func fields_tellPathsApartThatAreNoText() throws {
    let field = try FormField("a={folder}|{stem}.{ext}|{path}|{name}")
    func text(_ byte: UInt8) -> String? {
      let path = RelativePath(bytes: Array("d".utf8) + [byte] + Array("/x".utf8) + [byte] + Array(".mov".utf8))
      return field.value(for: path, sizeBytes: 1, modifiedNanoseconds: 0, id: Fixture.fileID)
    }
    #expect(text(0xe4) == "d%E4|x%E4.mov|d%E4/x%E4.mov|x%E4.mov")
    #expect(text(0xe5) == "d%E5|x%E5.mov|d%E5/x%E5.mov|x%E5.mov")
  }

  @Test func connectionIsWarmed_withoutRunningTheForm() throws {
    let request = try form().request(for: .prewarm)
    #expect(request.method == .head && request.url == "https://forms.example.org/")
    #expect(try form().outcome(of: .prewarm, response: Fixture.answer(500)) == .warmed)
  }

  @Test func address_isShownWithoutItsQuery() throws {
    #expect(try form().displayURL == "form+https://forms.example.org/api/uploads.php/")
    #expect(try FormAddress("form+https://H:444", allowPlainHTTP: false).url == "https://h:444/")
  }

  // MARK: - Answers

  @Test(.promises("DE7", "DE79")) func success_keepsTheServersJSON() throws {
    let json = "{ \"id\": 42, \"ok\": true,\n \"list\": [1.5, null, {\"a\": \"ü\"}] }"
    guard case .published(let receipt) = try outcome(201, json, streamed: 9_000_000) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.id == "42" && receipt.sizeBytes == 9_000_000 && receipt.name == "day 1/a.mov")
    #expect(receipt.answer == "{\"id\":42,\"list\":[1.5,null,{\"a\":\"ü\"}],\"ok\":true}")
    #expect(receipt.merkleRoot == Hex.encode(sha256([1])))
  }

  @Test(
    .promises("DE78", "DE79"),
    arguments: ["", "Thank you", "1e999"])
  func successWithoutJSON_isASuccess(text: String) throws {
    guard case .published(let receipt) = try outcome(200, text) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.answer == nil && receipt.id.count == 32)
  }

  @Test(
    .promises("DE78"),
    arguments: [
      "{\"success\": false, \"error\": \"quota\"}", "{\"ok\":false}", "{\"status\":\"Error\"}",
      "{\"error\":{\"code\":7}}",
      "{\"errors\":[\"quota\"]}", "{\"success\":0}", "{\"success\":\"false\"}", "{\"data\":{\"success\":false}}",
      "[{\"error\":\"quota\"}]", "{\"status\":500}", "{\"status\":false}", "{\"error\":true}",
    ])
  func successThatSaysNo_isARefusal(text: String) throws {
    #expect(try outcome(200, text).failure?.kind == .badRequest)
  }

  /// Regression: the retry after a lost answer sent everything again, and ended as a failure.
  @Test(.promises("DE112")) func aConflictWithTheSameContent_isTheDelivery() throws {
    let own = Hex.encode(sha256(Array("hello".utf8)))
    let streamed = Hex.encode(sha256([3]))
    for (digest, size) in [(own, nil), (own.uppercased(), nil), ("sha256:\(own)", nil), (streamed, 9_000_000)] {
      let json = "{\"existing_asset_id\":17,\"checksum_sha256\":\"\(digest)\"}"
      guard case .published(let receipt) = try outcome(409, json, streamed: size) else {
        Issue.record("\(digest) is not the delivery")
        continue
      }
      #expect(receipt.id == "17" && receipt.answer?.contains("existing_asset_id") == true)
    }
    let deep = try form { $0.digestField = "asset.sha256" }
    let answer = Fixture.answer(409, text: "{\"asset\":{\"sha256\":\"\(own)\"}}")
    guard case .published = deep.outcome(of: .wholeFile(sending()), response: answer) else {
      Issue.record("the configured field was not looked at")
      return
    }
    #expect(try outcome(422, "{\"checksum_sha256\":\"\(own)\"}").failure?.kind == .badRequest)
    #expect(
      try outcome(409, "{\"checksum_sha256\":\"\(streamed)\"}", streamed: 9_000_000, isDone: false).failure != nil)
    let other = try #require(try outcome(409, "{\"checksum_sha256\":\"\(streamed)\"}").failure)
    #expect(other.kind == .nameRefused && other.message.contains("another content"))
    let unnamed = try #require(try outcome(409, "{\"error\":\"duplicate\"}").failure)
    #expect(unnamed.message.contains("this content, already") && unnamed.message.contains("--form-digest-field"))
  }

  /// Regression: a user who could read a status could delete what was delivered.
  @Test(.promises("DE113")) func whatGivesRights_isNotKept() throws {
    let json = "{\"id\":1,\"delete_token\":\"x\",\"links\":[{\"Delete_URL\":\"y\",\"view\":\"z\"}],\"mine\":2}"
    let destination = try form { $0.omittedMembers.insert(["mine"]) }
    guard
      case .published(let receipt) = destination.outcome(
        of: .wholeFile(sending()), response: Fixture.answer(201, text: json))
    else {
      Issue.record("not published")
      return
    }
    #expect(receipt.answer == "{\"id\":1,\"links\":[{\"view\":\"z\"}]}")
  }

  @Test(
    "Regression: the right to delete or change what was delivered stood in receipts", .promises("DE113"),
    arguments: [
      "deleteToken", "deleteUrl", "deleteURL", "delete-url", "deletionUrl", "accessToken", "apiKey", "apikey",
      "authToken",
      "auth", "editToken", "edit_key", "edit_url", "owner_token", "secret_key", "private_key", "removal_key",
      "manage_url",
      "admin_url", "revoke_url", "signed_url", "upload_url", "pwd", "passwd", "cookie", "session", "sessionid",
      "delete",
    ])
  func whatGivesRights_isNotKeptHoweverItIsWritten(name: String) throws {
    let outcome = try form().outcome(
      of: .wholeFile(sending()), response: Fixture.answer(201, text: "{\"id\":1,\"\(name)\":\"x\",\"url\":\"y\"}"))
    guard case .published(let receipt) = outcome else {
      Issue.record("not published")
      return
    }
    #expect(receipt.answer == "{\"id\":1,\"url\":\"y\"}")
  }

  /// Regression: a limit of PHP was shown as “Server Error”.
  @Test(.promises("DE114")) func aLimitOfPHP_isTooLarge() throws {
    let page =
      "<b>Warning</b>:  POST Content-Length of 9 bytes exceeds the limit of 8 bytes in <b>Unknown</b> on line 0"
    let failure = try #require(try outcome(500, page, streamed: 9_000_000).failure)
    #expect(failure.kind == .tooLarge(limitBytes: 8) && failure.message.contains("post_max_size"))
    let bare = try #require(try outcome(500, "{\"message\":\"Server Error\"}", streamed: 9_000_000).failure)
    #expect(bare.kind == .unexpectedAnswer && bare.message.contains("upload_max_filesize"))
    // The script does not look at what it was not given, and says that all is well.
    let html = [HTTPHeader("content-type", "text/html")]
    let after = try #require(try outcome(200, page, headers: html, streamed: 9_000_000).failure)
    #expect(after.kind == .unexpectedAnswer && after.message.contains("exceeds the limit of 8 bytes"))
  }

  @Test(
    .promises("DE78"),
    arguments: ["{\"error\":null,\"errors\":[],\"id\":1}", "{\"files\":[{\"error\":0,\"status\":201,\"success\":1}]}"])
  func successThatSaysThatNothingFailed_isOne(text: String) throws {
    #expect(try outcome(200, text).failure == nil)
  }

  /// Regression: login pages, and scripts that failed, counted as deliveries; a captive portal's page ended files.
  @Test(
    .promises("DE78", "DE103"),
    arguments: [
      (200, "text/html; charset=utf-8", "<p>Sign in"), (200, nil, "<!DOCTYPE html><title>Log in</title>"),
      (201, nil, "\n<HTML>"), (206, nil, ""), (207, nil, "{}"), (200, "application/json", "no"), (200, nil, "{\"a\":"),
      (200, nil, String(repeating: "[", count: 70_000)),
      (200, "text/plain", "<!DOCTYPE html><html>"), (200, "application/octet-stream", " <html>"),
      (200, nil, "\u{feff}<html>"), (200, nil, "<?xml version='1.0'?>\n<html>"), (200, nil, "<!-- x --> <html>"),
      (404, "text/html", "<h1>We are back soon</h1>"), (403, "text/html", "x"), (451, "text/html", "x"),
    ] as [(Int, String?, String)])
  func whatMayBeSaidBySomethingElse_isNoSuccess_andEndsNoFile(status: Int, type: String?, text: String) throws {
    let headers = type.map { [HTTPHeader("content-type", $0)] } ?? []
    let isPage = type?.hasPrefix("text/html") == true || text.lowercased().contains("<html") || text.hasPrefix("<!DOC")
    #expect(try outcome(status, text, headers: headers).failure?.kind == (isPage ? .misdirected : .unexpectedAnswer))
    guard status < 300 else { return }
    let held = try form { $0.unclear = .hold }.outcome(
      of: .wholeFile(sending()), response: Fixture.answer(status, text: text, headers: headers))
    #expect(held.failure?.kind == .unclearEnd)
  }

  /// Many forms lead on once they have the file, and nothing tells these from a login.
  @Test(.promises("DE135")) func aRedirect_isUnclear_whereNothingMayBeThereTwice() throws {
    let answer = Fixture.answer(303, headers: [HTTPHeader("location", "/login")])
    let held = try form { $0.unclear = .hold }.outcome(of: .wholeFile(sending()), response: answer)
    #expect(held.failure?.kind == .unclearEnd)
    let failure = try #require(try outcome(303, headers: [HTTPHeader("location", "/login")]).failure)
    #expect(failure.message.contains("/login") && failure.message.contains("uploadfs-mount retry"))
  }

  @Test func anEncodedAnswer_isNotRead() throws {
    #expect(
      try outcome(200, "\u{1f}", headers: [HTTPHeader("content-encoding", "gzip")]).failure?.kind == .unexpectedAnswer)
  }

  @Test(.promises("DE104")) func aMarkOfSuccess_isAllThatCounts() throws {
    let form = try form { $0.successText = "Thank you" }
    let answer = { (text: String) in
      form.outcome(of: .wholeFile(sending()), response: Fixture.answer(200, text: text))
    }
    #expect(answer("<html>Thank you</html>").failure == nil)
    #expect(answer("{\"ok\":true}").failure?.kind == .unexpectedAnswer)
    let portal = try #require(answer("<html>Sign in</html>").failure)
    #expect(portal.kind == .misdirected && portal.message.contains("does not hold “Thank you” (--form-success)"))
    for empty in ["", "{}", "[]", "null", " "] {
      #expect(answer(empty).failure?.message.contains("--form-success") == true, "\(empty)")
    }
  }

  @Test func answerBeforeTheFile_isNoReceipt() throws {
    #expect(try outcome(200, streamed: 9_000_000, isDone: false).failure?.kind == .unexpectedAnswer)
  }

  @Test(
    .promises("DE78"),
    arguments: [
      (301, StepFailure.Kind.misdirected), (302, .misdirected), (303, .misdirected), (307, .misdirected),
      (400, .badRequest), (401, .unauthorized), (403, .forbidden),
      (404, .badRequest),
      (409, .nameRefused), (422, .badRequest), (429, .busy), (500, .unexpectedAnswer), (502, .misdirected),
      (503, .busy), (504, .misdirected), (507, .insufficientStorage), (511, .serverError), (999, .unexpectedAnswer),
    ])
  func status_decides(status: Int, kind: StepFailure.Kind) throws {
    #expect(try outcome(status).failure?.kind == kind)
  }

  /// A script of the form that fails has a page of its own, and one file may be the reason.
  @Test(.promises("DE144")) func aPageOfAScriptThatFailed_isTheForms() throws {
    let html = [HTTPHeader("content-type", "text/html")]
    #expect(try outcome(500, "<h1>Server Error</h1>", headers: html).failure?.kind == .unexpectedAnswer)
    #expect(try outcome(511, "<h1>Sign in</h1>", headers: html).failure?.kind == .misdirected)
  }

  @Test(.promises("DE85")) func tooLarge_isExplained() throws {
    let failure = try #require(try outcome(413, "{\"error\":\"x\",\"limit\":8}", streamed: 9_000_001).failure)
    #expect(failure.kind == .tooLarge(limitBytes: 8))
    for word in ["9000001", "client_max_body_size", "post_max_size", "firewall", "“x”"] {
      #expect(failure.message.contains(word), "\(failure.message)")
    }
  }

  @Test func serversWords_cannotMoveACursor() throws {
    let failure = try #require(try outcome(400, "{\"error\":\"a\\u001b[2Jb\"}").failure)
    #expect(failure.message.contains("“a [2Jb”"), "\(failure.message)")
    #expect(
      try outcome(404, "gone", headers: [HTTPHeader("content-type", "text/plain")]).failure?.message
        .contains("“gone”") == true)
  }

  // MARK: - No answer

  private func lost(_ kind: TransportError.Kind, mayHaveArrived: Bool, _ unclear: AmbiguousOutcomePolicy) throws
    -> StepFailure.Kind?
  {
    var error = TransportError(kind, "it broke")
    error.mayHaveArrived = mayHaveArrived
    return try form { $0.unclear = unclear }.outcome(of: .wholeFile(sending()), lost: error).failure?.kind
  }

  @Test(.promises("DE82", "DE83"), arguments: [TransportError.Kind.connectionLost, .timedOut, .stalled, .cancelled])
  func endThatIsNotKnown_isAnsweredByPolicy(kind: TransportError.Kind) throws {
    #expect(try lost(kind, mayHaveArrived: true, .hold) == .unclearEnd)
    #expect(try lost(kind, mayHaveArrived: true, .retry) == .transport(kind))
    // The server cannot have taken a part for the whole.
    #expect(try lost(kind, mayHaveArrived: false, .hold) == .transport(kind))
    #expect(try lost(.stopped, mayHaveArrived: true, .hold) == .transport(.stopped))
  }
}

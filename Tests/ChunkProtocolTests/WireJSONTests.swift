import ChunkProtocol
import Integrity
import Promises
import SeededRandom
import Testing

@Suite struct WireJSONTests {
  private static let digest = String(repeating: "ab", count: 32)
  private static let receipt = ReceiptBody(
    id: "r1", name: "a/b.mov", sizeBytes: .max, merkleRoot: digest, chainTip: digest, publishedAtMilliseconds: 1)

  @Test(.promises("P16")) func sessionRequest_isWrittenAsDocumented() {
    let request = SessionRequest(
      name: "a/b", sizeBytes: nil, chunkBytes: 4_194_304, modifiedNanoseconds: -1, mode: 420, contentType: "video/mp4",
      fileID: "f", revision: 7, nonce: WireJSONTests.digest)
    #expect(
      text(request)
        == #"{"chunk_size":4194304,"content_type":"video/mp4","file_id":"f","mode":420,"modified_ns":-1,"#
        + #""name":"a/b","nonce":"\#(WireJSONTests.digest)","revision":7}"#)
    #expect(request.nonceBytes == [UInt8](repeating: 0xab, count: 32))
  }

  @Test(.promises("P7", "P16")) func sessionRequest_takesNullAndAbsentForUnknown() throws {
    let rest =
      #""name":"a","chunk_size":1,"modified_ns":0,"mode":0,"file_id":"f","revision":18446744073709551615,"nonce":"x""#
    for json in ["{\(rest)}", #"{"size":null,"content_type":null,"unknown":[{}],\#(rest)}"#] {
      let request = try WireJSON.decode(SessionRequest.self, from: Array(json.utf8))
      #expect(request.sizeBytes == nil)
      #expect(request.contentType == nil)
      #expect(request.revision == .max)
      #expect(request.nonceBytes == nil)
    }
  }

  /// Regression: it was said to be no JSON, and of which member.
  @Test(arguments: ["size": "-1", "revision": "18446744073709551616", "chunk_size": "1.5"])
  func numberThatIsNotPossible_isNamed(member: String, number: String) {
    var numbers = ["size": "3", "revision": "1", "chunk_size": "1", "modified_ns": "-5"]
    numbers[member] = number
    let json =
      #"{"name":"a","mode":0,"file_id":"f","nonce":"x","# + numbers.map { "\"\($0)\":\($1)" }.joined(separator: ",")
      + "}"
    func refusal(_ bytes: [UInt8]) -> String? {
      do throws(WireJSONError) {
        _ = try WireJSON.decode(SessionRequest.self, from: bytes)
        return nil
      } catch {
        return "\(error)"
      }
    }
    #expect(refusal(Array(json.utf8)) == "\(member): is not a possible number")
    #expect(refusal(Array(json.utf8.dropLast())) == "no JSON")
  }

  /// Regression: names were looked for in a table, which took a second for one of 60 KB, all of it marks on one letter. A user could hold up
  /// a receiver's others with that.
  @Test(.promises("P11"), .timeLimit(.minutes(1)))
  func memberWithALongName_isRefusedAtOnce() throws {
    func refusal(_ text: String) -> String? {
      do throws(WireJSONError) {
        _ = try WireJSON.decode(Problem.self, from: Array(text.utf8))
        return nil
      } catch {
        return "\(error)"
      }
    }
    let marks = String(repeating: "\u{316}\u{301}", count: 1 << 20)
    let longName = "has a member whose name is longer than 256 bytes"
    #expect(refusal("{\"\(marks)\" \n: 1}") == longName)
    #expect(refusal(#"{"type":{"\\":"a","\"\#(marks)":1}}"#) == longName)
    #expect(refusal(#"{"\#(String(repeating: #"\u0316"#, count: 43))":1}"#) == longName)
    // Texts may be long, and names up to the limit mean nothing.
    #expect(refusal(#"{"type":"\#(marks)","title":"","status":1}"#) != longName)
    let problem = Problem(.notFound, detail: String(repeating: "a\":", count: 500))
    let name = String(repeating: "n", count: 256)
    let text = String(decoding: WireJSON.encode(problem).dropLast(), as: UTF8.self) + #","\#(name)":1}"#
    #expect(try WireJSON.decode(Problem.self, from: Array(text.utf8)) == problem)
    #expect(refusal(text.replacing(name, with: name + "n")) == longName)
  }

  /// Regression: a commit whose `if_exists` was 60 KB of marks was compared with each word for a second.
  /// Marks beyond U+FFFF that were written as escapes were not counted.
  @Test(
    .promises("P6"), .timeLimit(.minutes(1)),
    arguments: ["\u{316}\u{301}", #"\u0316\u0301"#, "\u{1d165}\u{301}", #"\ud834\udd65\u0301"#])
  func manyMarksOnOneLetter_areRefusedAtOnce(marks: String) {
    func refusal(_ count: Int) -> String? {
      let text =
        #"{"chain_tip":"","chunk_count":1,"merkle_root":"","modified_ns":0,"mode":0,"name":"a","size":1,"if_exists":""#
      do throws(WireJSONError) {
        _ = try WireJSON.decode(
          CommitRequest.self, from: Array((text + String(repeating: marks, count: count) + "\"}").utf8))
        return nil
      } catch {
        return "\(error)"
      }
    }
    #expect(refusal(1 << 20) == "is not UTF-8, or has more than 256 marks on one letter")
    #expect(refusal(129) == "is not UTF-8, or has more than 256 marks on one letter")
    #expect(refusal(128)?.hasPrefix("if_exists") == true)
  }

  /// JSON is UTF-8: the decoder takes other encodings, too, in which names would not be found.
  @Test(.promises("P6"), arguments: [true, false])
  func otherEncodings_areNoJSON(bigEndian: Bool) {
    let units = Array(#"{"detail":"x"}"#.utf16)
    let bytes = units.flatMap { bigEndian ? [UInt8($0 >> 8), UInt8($0 & 0xff)] : [UInt8($0 & 0xff), UInt8($0 >> 8)] }
    do throws(WireJSONError) {
      _ = try WireJSON.decode(Problem.self, from: bytes)
      Issue.record("it was read")
    } catch {
      #expect("\(error)" == "no JSON")
    }
  }

  @Test(arguments: ["", "\"", "\"\\", "\\", "\"a\\\"", #"{"a"#])
  func whatEndsInTheMiddleOfAText_hasNoLongName(text: String) {
    #expect(throws: WireJSONError.self) { try WireJSON.decode(Problem.self, from: Array(text.utf8)) }
  }

  @Test(.promises("P8", "P13")) func bodies_areReadBack() throws {
    try expectRoundTrip(
      Capabilities(
        chunkBytesMin: 1, chunkBytesMax: 2, fileBytesMax: 3, concurrentChunks: 12, wholeFileBytesMax: 4))
    try expectRoundTrip(SessionResponse(id: "s", chunkBytes: 5, expiresAtSeconds: 6))
    try expectRoundTrip(
      HeldResponse(
        id: "s", state: .committed, chunkBytes: 5, held: [.init(first: 0, last: 3), .init(first: 7, last: 7)],
        digests: ["0": WireJSONTests.digest], chainTip: WireJSONTests.digest, expiresAtSeconds: 9,
        receipt: WireJSONTests.receipt))
    try expectRoundTrip(
      CommitRequest(
        sizeBytes: 1, chunkCount: 1, merkleRoot: WireJSONTests.digest, chainTip: WireJSONTests.digest, name: "n",
        ifExists: .fail, modifiedNanoseconds: .min, mode: 0o777))
    try expectRoundTrip(WireJSONTests.receipt)
    try expectRoundTrip(Problem(.incomplete, detail: "d", missing: [1, 2], limit: 3, field: "f"))
  }

  @Test(.promises("P34")) func heldRanges_arePairs() {
    #expect(text([ChunkIndexRange(first: 0, last: 3)]) == "[[0,3]]")
    #expect(ChunkIndexRange.covering([]) == [])
    #expect(
      ChunkIndexRange.covering([0, 1, 2, 5, 7, 7, 8, .max - 1, .max])
        == [
          .init(first: 0, last: 2), .init(first: 5, last: 5), .init(first: 7, last: 8),
          .init(first: .max - 1, last: .max),
        ])
  }

  @Test(arguments: ["[[3,2]]", "[[1]]", "[[1,2,3]]", "[[-1,2]]", "[[0,4294967296]]", "[1,2]", "[[0,1.5]]"])
  func heldRanges_areNothingElse(json: String) {
    #expect(throws: WireJSONError.self) { try WireJSON.decode([ChunkIndexRange].self, from: Array(json.utf8)) }
  }

  @Test(
    .promises("P8"),
    arguments: [
      (#"{"chunk_size":1,"expires_at":1}"#, "id"), (#"{"id":7,"chunk_size":1,"expires_at":1}"#, "id"),
      (#"{"id":"s","chunk_size":"1","expires_at":1}"#, "chunk_size"),
      (#"{"id":"s","chunk_size":1,"expires_at":null}"#, "expires_at"),
    ])
  func decode_namesTheWrongMember(json: String, field: String) {
    let error = #expect(throws: WireJSONError.self) {
      try WireJSON.decode(SessionResponse.self, from: Array(json.utf8))
    }
    #expect(error?.field == field)
  }

  @Test func placesInLists_areNamedAsPeopleWriteThem() {
    let error = #expect(throws: WireJSONError.self) {
      try WireJSON.decode([String: [[Int]]].self, from: Array(#"{"ranges":[[1,2],[3,"4"]]}"#.utf8))
    }
    #expect(error?.field == "ranges[1][1]")
  }

  @Test(
    .promises("P6"),
    arguments: [
      "[]", "7", "null", "", "{", #"{"id":"\ud800","chunk_size":1,"expires_at":1}"#,
      #"{"id":"s","chunk_size":1.5,"expires_at":1}"#, #"{"id":"s","chunk_size":1e400,"expires_at":1}"#,
      #"{"id":"s","chunk_size":99999999999999999999,"expires_at":1}"#, #"{"id":"s","chunk_size":NaN,"expires_at":1}"#,
      #"{"id":"s","chunk_size":1,"expires_at":1}}"#,
    ])
  func decode_refusesWhatIsNotTheBody(json: String) {
    #expect(throws: WireJSONError.self) { try WireJSON.decode(SessionResponse.self, from: Array(json.utf8)) }
  }

  @Test func decode_survivesDeepAndHugeDocuments() {
    for json in [
      String(repeating: "[", count: 100_000), String(repeating: "{\"a\":", count: 100_000),
      #"{"id":""# + String(repeating: "x", count: 1 << 20), String(repeating: "9", count: 100_000),
    ] {
      #expect(throws: WireJSONError.self) { try WireJSON.decode(HeldResponse.self, from: Array(json.utf8)) }
    }
  }

  @Test func decode_survivesDamagedDocuments() {
    let seed: UInt64 = 1
    var generator = SplitMix(seed: seed)
    let good = WireJSON.encode(
      HeldResponse(
        id: "s", state: .open, chunkBytes: 5, held: [.init(first: 0, last: 3)], digests: ["0": WireJSONTests.digest],
        chainTip: WireJSONTests.digest, expiresAtSeconds: 9, receipt: WireJSONTests.receipt))
    for _ in 0..<3000 {
      var bytes = good
      for _ in 0..<Int.random(in: 1...6, using: &generator) {
        let position = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[position] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes.remove(at: position)
        default: bytes.insert(contentsOf: bytes[position...].prefix(9), at: position)
        }
      }
      // Returns or throws; a trap would end the process.
      _ = try? WireJSON.decode(HeldResponse.self, from: bytes)
      _ = try? WireJSON.decode(Problem.self, from: bytes)
    }
    let noise = (0..<500).map { _ in UInt8.random(in: 0...255, using: &generator) }
    #expect(throws: WireJSONError.self, "seed \(seed)") { try WireJSON.decode(HeldResponse.self, from: noise) }
  }

  @Test(.promises("P9")) func problem_ignoresMembersOfAnotherType() throws {
    let json =
      #"{"type":"urn:uploadfs:problem:busy","status":"503","missing":[1,"2"],"limit":-1,"detail":7,"field":"f"}"#
    let problem = try WireJSON.decode(Problem.self, from: Array(json.utf8))
    #expect(problem.knownType == .busy)
    #expect(problem.status == nil)
    #expect(problem.missing == nil)
    #expect(problem.limit == nil)
    #expect(problem.detail == nil)
    #expect(problem.field == "f")
    #expect(try WireJSON.decode(Problem.self, from: Array("{}".utf8)).type == "about:blank")
  }

  @Test(.promises("P92")) func problemTypes_areStable() {
    #expect(
      ProblemType.allCases.map { "\($0.rawValue.split(separator: ":").last ?? "") \($0.status)" } == [
        "unauthorized 401", "forbidden 403", "not-found 404", "session-expired 410", "session-damaged 500",
        "method-not-allowed 405", "timeout 408", "conflict 409", "idempotency-mismatch 422", "incomplete 409",
        "exists 409", "too-large 413",
        "digest-mismatch 422", "tag-mismatch 422", "name-refused 422", "bad-request 400", "too-early 425", "busy 503",
        "insufficient-storage 507", "quota-exceeded 507", "internal 500",
      ])
    #expect(Set(ProblemType.allCases.map(\.title)).count == ProblemType.allCases.count)
  }

  private func text(_ value: some Encodable) -> String {
    String(decoding: WireJSON.encode(value), as: UTF8.self)
  }

  private func expectRoundTrip<Value: Codable & Equatable>(
    _ value: Value, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(try WireJSON.decode(Value.self, from: WireJSON.encode(value)) == value, sourceLocation: sourceLocation)
  }
}

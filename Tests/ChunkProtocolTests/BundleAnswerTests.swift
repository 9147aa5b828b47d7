import ChunkProtocol
import Promises
import SeededRandom
import Testing

@Suite struct BundleAnswerTests {
  private static let answers = [
    BundleAnswer(status: 201, fields: [("Content-Type", "application/json")], body: Array(#"{"id":"r"}"#.utf8)),
    BundleAnswer(
      status: 409, fields: [("Content-Type", "application/problem+json"), ("Retry-After", "1")], body: [0x0d, 0x0a]),
    BundleAnswer(status: 200, fields: [], body: []),
  ]

  private static func encode(_ answers: [BundleAnswer]) -> [UInt8] {
    var bytes: [UInt8] = []
    for answer in answers { answer.append(to: &bytes) }
    return bytes
  }

  @Test(.promises("P65")) func answer_isWrittenAsAResponse() {
    let text = String(decoding: BundleAnswerTests.encode([BundleAnswerTests.answers[0]]), as: UTF8.self)
    #expect(
      text == "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"id\":\"r\"}")
  }

  @Test(.promises("P65")) func answers_areReadBack() throws {
    let read = try BundleAnswer.read(BundleAnswerTests.encode(BundleAnswerTests.answers))
    #expect(read.map(\.status) == [201, 409, 200])
    #expect(read.map(\.body) == BundleAnswerTests.answers.map(\.body))
    #expect(read[1].fields.map(\.name) == ["Content-Type", "Retry-After", "Content-Length"])
    #expect(read[1].fields.map(\.value) == ["application/problem+json", "1", "2"])
    #expect(try BundleAnswer.read([]).isEmpty)
  }

  @Test func answer_thatBreaksOff_isAnError() {
    let bytes = BundleAnswerTests.encode(BundleAnswerTests.answers)
    let ends = [1, 2, 3].map { BundleAnswerTests.encode(Array(BundleAnswerTests.answers.prefix($0))).count }
    for count in 1..<bytes.count where !ends.contains(count) {
      #expect(throws: BundleViolation.brokenOff, "\(count)") { try BundleAnswer.read(Array(bytes[..<count])) }
    }
  }

  @Test(arguments: [
    "HTTP/1.0 201 Created\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 2010 Created\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 099\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 \r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 201 Created\r\n\r\n", "HTTP/1.1 201 Created\nContent-Length: 0\n\n", "\n", "\r\n",
    "HTTP/1.1 999 Created\r\nContent-Length: 0\r\n\r\n",
  ])
  func answer_thatIsNone_isAnError(text: String) {
    #expect(throws: BundleViolation.self) { try BundleAnswer.read(Array(text.utf8)) }
  }

  @Test(.promises("P66")) func answer_mayLackTheWords() throws {
    #expect(try BundleAnswer.read(Array("HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n".utf8)).map(\.status) == [201])
    #expect(try BundleAnswer.read(Array("HTTP/1.1 499 \r\nContent-Length: 0\r\n\r\n".utf8)).map(\.status) == [499])
  }

  @Test func answers_areBounded() {
    let one = BundleAnswerTests.encode([BundleAnswerTests.answers[2]])
    #expect(throws: BundleViolation.tooManyMembers) { try BundleAnswer.read(one + one + one, membersMax: 2) }
    let long = BundleAnswer(status: 200, fields: [("X", String(repeating: "a", count: 16 << 10))], body: [])
    #expect(throws: BundleViolation.headTooLong) { try BundleAnswer.read(BundleAnswerTests.encode([long])) }
  }

  @Test func values_cannotEndTheirLine() throws {
    let answer = BundleAnswer(status: 200, fields: [("X-A", "b\r\nX-C: d")], body: [])
    #expect(try BundleAnswer.read(BundleAnswerTests.encode([answer]))[0].fields.first?.value == "b??X-C: d")
  }

  @Test(arguments: 0..<300)
  func damagedAnswers_neverTrap(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var bytes = BundleAnswerTests.encode(BundleAnswerTests.answers)
    for _ in 0..<Int.random(in: 1...6, using: &random) {
      bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
    }
    let read = try? BundleAnswer.read(bytes)
    #expect((read?.count ?? 0) <= ProtocolLimits.bundleFilesMax)
  }
}

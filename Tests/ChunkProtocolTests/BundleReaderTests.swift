import ChunkProtocol
import Promises
import SeededRandom
import Testing

@Suite struct BundleReaderTests {
  private static let bundle = Member.several.flatMap(\.bytes)

  @Test(.promises("P62")) func member_isWrittenAsItsRequest() {
    let text = String(decoding: Member.several[0].bytes, as: UTF8.self)
    #expect(
      text
        == "PUT /v1/files/a%20b HTTP/1.1\r\nX-Chunk-Size: 5\r\nX-File-Id: x: y\r\nContent-Length: 3\r\n\r\n\u{1}\u{2}\u{3}"
    )
  }

  @Test(.promises("P62")) func members_areReadBack() throws {
    #expect(try BundleReader.readAll([BundleReaderTests.bundle]) == Member.several.map(\.asRead))
  }

  @Test func members_areTheSame_whereverAPieceEnds() throws {
    let bundle = BundleReaderTests.bundle
    let expected = Member.several.map(\.asRead)
    for first in 0...bundle.count {
      #expect(try BundleReader.readAll([Array(bundle[..<first]), Array(bundle[first...])]) == expected, "\(first)")
    }
    #expect(try BundleReader.readAll(bundle.map { [$0] }) == expected)
  }

  @Test func bundle_thatEndsWithinAMember_isBrokenOff() {
    let bundle = BundleReaderTests.bundle
    var ends: Set<Int> = []
    for member in Member.several { ends.insert((ends.max() ?? 0) + member.bytes.count) }
    for count in 0..<bundle.count where !ends.contains(count) {
      #expect(throws: BundleViolation.brokenOff, "\(count)") { try BundleReader.readAll([Array(bundle[..<count])]) }
    }
  }

  @Test(
    .promises("P64"),
    arguments: [
      "POST /v1/files/a HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "PUT /v1/files/a HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
      "PUT  HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "PUT /v1/files/a b HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/é HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "PUT HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
      "\r\n\r\n", "\r\nPUT /v1/files/a HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "PUT /v1/files/a HTTP/1.1\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\nContent-Length: 0\r\n\r\n", "PUT /v1/files/a HTTP/1.1\r\nContent-Length: 0\n\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "PUT /v1/files/a HTTP/1.1\r\nContent-Length:\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nX-A: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\n: b\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nX A: b\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nX-A\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nX-A: \u{0}\r\nContent-Length: 0\r\n\r\n",
      "PUT /v1/files/a HTTP/1.1\r\nX-A: b\rc\r\nContent-Length: 0\r\n\r\n",
    ])
  func head_thatIsNone_isMalformed(text: String) {
    let violation = #expect(throws: BundleViolation.self) { try BundleReader.readAll([Array(text.utf8)]) }
    guard case .malformed? = violation else { return #expect(Bool(false), "\(String(describing: violation))") }
  }

  @Test func fieldNames_areComparedWithoutRegardToCase_andValuesTrimmed() throws {
    let text = "PUT /v1/files/a HTTP/1.1\r\nx-a: \t b c \t\r\ncontent-LENGTH:1\r\n\r\n!"
    let members = try BundleReader.readAll([Array(text.utf8)])
    #expect(
      members == [
        Member(fields: [Member.Field("x-a", "b c"), Member.Field("content-LENGTH", "1")], body: [UInt8(ascii: "!")])
      ])
  }

  @Test(.promises("P63")) func members_beyondTheMost_areRefused() throws {
    let two = Member().bytes + Member().bytes
    #expect(try BundleReader.readAll([two], filesMax: 2).count == 2)
    #expect(throws: BundleViolation.tooManyMembers) { try BundleReader.readAll([two + Member().bytes], filesMax: 2) }
  }

  @Test(.promises("P63")) func head_isAtMostSoLong() throws {
    let least = Member(fields: [Member.Field("X-A", "")]).bytes.count
    let value = String(repeating: "b", count: ProtocolLimits.bundleHeadBytesMax - least)
    #expect(try BundleReader.readAll([Member(fields: [Member.Field("X-A", value)]).bytes]).count == 1)
    let longer = Member(fields: [Member.Field("X-A", value + "b")]).bytes
    #expect(throws: BundleViolation.headTooLong) { try BundleReader.readAll([longer]) }
    #expect(throws: BundleViolation.headTooLong) { try BundleReader.readAll(longer.map { [$0] }) }
  }

  @Test(.promises("P63")) func bytes_areCountedBeforeTheyArrive_asSentAndAsTheyDecode() throws {
    let sent = Member(body: [1, 2, 3, 4])
    let decoded = Member(fields: [Member.Field("x-chunk-size", "6")], body: [1])
    #expect(try BundleReader.readAll([sent.bytes + decoded.bytes], bytesMax: 10).count == 2)
    #expect(throws: BundleViolation.tooManyBytes) {
      try BundleReader.readAll([sent.bytes + decoded.bytes.dropLast()], bytesMax: 9)
    }
    let most = BundleMemberHead(target: "/v1/files/a", fields: [("X-Chunk-Size", "18446744073709551615")])
    #expect(throws: BundleViolation.tooManyBytes) {
      try BundleReader.readAll([sent.bytes + most.encode(contentLength: 1)])
    }
    let longest = BundleMemberHead(target: "/v1/files/a", fields: []).encode(contentLength: .max)
    #expect(throws: BundleViolation.tooManyBytes) { try BundleReader.readAll([sent.bytes + longest]) }
  }

  @Test func reader_thatHasFailed_failsAgain() {
    var reader = BundleReader()
    let bytes = Array("nonsense\r\n\r\n".utf8) + Member().bytes
    bytes.withUnsafeBytes { bytes in
      var rest = bytes
      for _ in 0..<3 { #expect(throws: BundleViolation.self) { try reader.next(&rest) } }
    }
    #expect(throws: BundleViolation.self) { try reader.finish() }
  }

  @Test(arguments: 0..<300)
  func damagedBundle_isReadTheSameInWholeAndInPieces_withoutTrap(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var bytes = BundleReaderTests.bundle
    for _ in 0..<Int.random(in: 0...4, using: &random) {
      let position = Int.random(in: 0..<bytes.count, using: &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: bytes[position] = UInt8.random(in: 0...255, using: &random)
      case 1: bytes.remove(at: position)
      case 2: bytes.insert([0x0d, 0x0a, 0x20, 0x3a].randomElement(using: &random) ?? 0, at: position)
      default: bytes += bytes[position...]
      }
    }
    var pieces: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = Int.random(in: 1...40, using: &random)
      pieces.append(Array(rest.prefix(count)))
      rest = rest.dropFirst(count)
    }
    #expect(outcome([bytes]) == outcome(pieces), "seed \(seed)")
  }

  private func outcome(_ pieces: [[UInt8]]) -> Result<[Member], BundleViolation> {
    Result { () throws(BundleViolation) in try BundleReader.readAll(pieces) }
  }
}

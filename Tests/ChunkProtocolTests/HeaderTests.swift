import ChunkProtocol
import Integrity
import Promises
import Testing

@Suite struct HeaderTests {
  private let chunk = ChunkHeaders(
    sha256: sha256([]), crc32c: 0x00ab_cdef, sizeBytes: 4_194_304, encoding: .lz4, mac: sha256([1]).bytes,
    contentSHA256: sha256([2]))

  @Test(.promises("P22")) func chunkHeaders_areWrittenAsDocumented() {
    let fields = Dictionary(uniqueKeysWithValues: chunk.fields.map { ($0.name, $0.value) })
    #expect(fields["X-Chunk-SHA256"] == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    #expect(fields["X-Chunk-CRC32C"] == "00abcdef")
    #expect(fields["X-Chunk-Size"] == "4194304")
    #expect(fields["X-Chunk-Encoding"] == "lz4")
    #expect(fields["X-Chunk-HMAC"] == Hex.encode(sha256([1])))
    #expect(fields["Content-Digest"] == "sha-256=:\(Base64.encode(sha256([2]))):")
  }

  @Test(.promises("P22")) func chunkHeaders_areReadBack() throws {
    #expect(try ChunkHeaders(reading: lookup(chunk.fields)) == chunk)
    var plain = chunk
    plain.contentSHA256 = nil
    plain.encoding = .identity
    #expect(try ChunkHeaders(reading: lookup(plain.fields)) == plain)
    #expect(try ChunkHeaders(reading: lookup(plain.fields, without: "X-Chunk-Encoding")) == plain)
  }

  @Test(
    .promises("P115"),
    arguments: [
      ("zstd", 1, 0), ("zstd;stride=12", 12, 0), ("zstd;stride=1;difference=1", 1, 1),
      ("zstd;stride=64;difference=8", 64, 8),
    ])
  func filter_isWrittenAsDocumented_andReadBack(text: String, stride: Int, difference: Int) throws {
    var filtered = chunk
    filtered.encoding = .zstd(try #require(RecordFilter(stride: stride, difference: difference)))
    #expect(filtered.fields.first { $0.name == "X-Chunk-Encoding" }?.value == text)
    #expect(try ChunkHeaders(reading: lookup(filtered.fields)) == filtered)
    #expect(ChunkEncoding(headerValue: "zstd;stride=1") == .zstd(.none), "a stride of one says nothing")
  }

  @Test(.promises("P31"), arguments: ["X-Chunk-SHA256", "X-Chunk-CRC32C", "X-Chunk-Size", "X-Chunk-HMAC"])
  func chunkHeaders_nameTheMissingField(field: String) {
    #expect(throws: HeaderViolation(field: field, reason: "is missing")) {
      try ChunkHeaders(reading: lookup(chunk.fields, without: field))
    }
  }

  @Test(
    .promises("P31"),
    arguments: [
      ("X-Chunk-SHA256", "abc"), ("X-Chunk-SHA256", String(repeating: "0", count: 62)),
      ("X-Chunk-SHA256", String(repeating: "g", count: 64)), ("X-Chunk-CRC32C", "e3069283 "),
      ("X-Chunk-CRC32C", "0xe30692"), ("X-Chunk-CRC32C", ""), ("X-Chunk-Size", "-1"), ("X-Chunk-Size", "+1"),
      ("X-Chunk-Size", "007"), ("X-Chunk-Size", "1e3"), ("X-Chunk-Size", "18446744073709551616"), ("X-Chunk-Size", ""),
      ("X-Chunk-Size", "٣"), ("X-Chunk-Encoding", "gzip"), ("X-Chunk-Encoding", "LZ4"), ("X-Chunk-Encoding", "zstd;"),
      ("X-Chunk-Encoding", "zstd;stride=0"), ("X-Chunk-Encoding", "zstd;stride=65"),
      ("X-Chunk-Encoding", "zstd;stride=04"),
      ("X-Chunk-Encoding", "zstd;stride=4;difference=0"), ("X-Chunk-Encoding", "zstd;stride=4;difference=3"),
      ("X-Chunk-Encoding", "zstd;stride=4;difference=8"), ("X-Chunk-Encoding", "zstd;difference=4"),
      ("X-Chunk-Encoding", "zstd;difference=4;stride=4"), ("X-Chunk-Encoding", "zstd; stride=4"),
      ("X-Chunk-Encoding", "zstd;stride=4;stride=4"), ("X-Chunk-Encoding", "zstd;stride=4;difference=4;"),
      ("X-Chunk-Encoding", "lz4;stride=4"), ("X-Chunk-Encoding", "zstd;stride=300"),
      ("X-Chunk-Encoding", "zstd;stride="),
      ("X-Chunk-HMAC", "00"),
      ("Content-Digest", "sha-256=abc"), ("Content-Digest", "sha-256=:AAAA:"), ("Content-Digest", "nonsense"),
    ])
  func chunkHeaders_nameTheUnreadableField(field: String, value: String) {
    let violation = #expect(throws: HeaderViolation.self) {
      try ChunkHeaders(reading: lookup(chunk.fields, with: (field, value)))
    }
    #expect(violation?.field == field)
  }

  private let file = FileHeaders(
    idempotencyKey: IdempotencyKey(text: "k\"1\\") ?? fallback, nonce: sha256([3]).bytes, modifiedNanoseconds: -5,
    mode: 0o640, fileID: "f", ifExists: .fail)
  private static let fallback = HeaderTests.key("never")

  @Test(.promises("P54")) func fileHeaders_areReadBack() throws {
    #expect(try FileHeaders(reading: lookup(file.fields)) == file)
  }

  @Test(.promises("P54")) func fileHeaders_haveDefaults() throws {
    let fields = file.fields.filter { ["Idempotency-Key", "X-Chunk-Nonce"].contains($0.name) }
    let read = try FileHeaders(reading: lookup(fields))
    #expect(read.modifiedNanoseconds == 0)
    #expect(read.mode == 0o644)
    #expect(read.fileID == nil)
    #expect(read.ifExists == .replace)
  }

  @Test(
    .promises("P61"),
    arguments: [
      ("X-File-Mode", "4096"), ("X-File-Mode", "0644"), ("X-File-Mode", "99999999999"), ("X-File-Modified-Ns", "1.5"),
      ("X-File-Modified-Ns", "--1"), ("X-File-Modified-Ns", "9223372036854775808"), ("X-If-Exists", "keep"),
      ("X-File-Id", ""), ("X-File-Id", "é"), ("X-Chunk-Nonce", "00"), ("Idempotency-Key", "bare"),
    ])
  func fileHeaders_nameTheUnreadableField(field: String, value: String) {
    let violation = #expect(throws: HeaderViolation.self) {
      try FileHeaders(reading: lookup(file.fields, with: (field, value)))
    }
    #expect(violation?.field == field)
  }

  @Test(.promises("P54")) func modifiedNanoseconds_reachBothEnds() throws {
    for (text, number) in [("-9223372036854775808", Int64.min), ("9223372036854775807", Int64.max)] {
      let read = try FileHeaders(reading: lookup(file.fields, with: ("X-File-Modified-Ns", text)))
      #expect(read.modifiedNanoseconds == number)
    }
  }

  @Test(arguments: [("\"abc\"", "abc"), ("\"a b\"", "a b"), (#""a\"b\\c""#, #"a"b\c"#)])
  func idempotencyKey_isAQuotedString(header: String, text: String) throws {
    let key = try #require(IdempotencyKey(headerValue: header))
    #expect(key.text == text)
    #expect(key.headerValue == header)
  }

  @Test(arguments: [
    "", "\"", "\"\"", "abc", "\"abc", "\"a\"b\"", #""a\b""#, #""a\""#, "\"é\"", "\"a\nb\"", "\"a\";x=1", " \"a\"",
    "\"" + String(repeating: "k", count: 256) + "\"",
  ])
  func idempotencyKey_isNothingElse(header: String) {
    #expect(IdempotencyKey(headerValue: header) == nil)
  }

  @Test func contentDigest_findsItsAlgorithm() {
    let digest = sha256([9])
    let mine = ContentDigest.headerValue(sha256: digest)
    #expect(ContentDigest.read(mine) == .sha256(digest))
    #expect(ContentDigest.read("sha-512=:AAAA:, \(mine)") == .sha256(digest))
    #expect(ContentDigest.read("sha-512=:AAAA:") == .absent)
    #expect(ContentDigest.read("") == .malformed)
    #expect(ContentDigest.read("\(mine),") == .malformed)
    #expect(ContentDigest.read("sha-256=:") == .malformed)
  }

  private static func key(_ text: String) -> IdempotencyKey {
    guard let key = IdempotencyKey(text: text) else { fatalError("\(text) is a key") }
    return key
  }
}

/// Looks a field up as a server does: without regard to case.
private func lookup(
  _ fields: [(name: String, value: String)], without: String? = nil, with replacement: (String, String)? = nil
) -> (String) -> String? {
  var table: [String: String] = [:]
  for field in fields where field.name != without { table[field.name.lowercased()] = field.value }
  if let (name, value) = replacement { table[name.lowercased()] = value }
  return { table[$0.lowercased()] }
}

@Suite struct NameOwnershipTests {
  private static let claims = [
    PublicationClaim(fileID: "00ff", merkleRoot: sha256([1]), sizeBytes: 5, chunkBytes: 4 << 20),
    PublicationClaim(fileID: "a-b", merkleRoot: sha256([2]), sizeBytes: .max, chunkBytes: nil),
  ]
  private static let all = [
    NameOwnership(ifTaken: .number), NameOwnership(ifTaken: .refuse, replaces: claims),
    NameOwnership(ifTaken: .number, replaces: [claims[1]], publishedAs: "d/ä b-2.mov"),
  ]

  @Test(.promises("P54"), arguments: all) func ownership_isReadBackFromHeaderFields(ownership: NameOwnership) throws {
    #expect(try NameOwnership(reading: lookup(ownership.fields)) == ownership)
    #expect(try NameOwnership(reading: { _ in nil }) == nil)
  }

  @Test(.promises("P38"), arguments: all) func ownership_isReadBackFromACommit(ownership: NameOwnership) throws {
    let commit = CommitRequest(
      sizeBytes: 1, chunkCount: 1, merkleRoot: "", chainTip: "", name: "a", ifExists: .fail, ownership: ownership,
      modifiedNanoseconds: 0, mode: 0)
    #expect(commit.ownership == ownership)
    #expect(try WireJSON.decode(CommitRequest.self, from: WireJSON.encode(commit)) == commit)
  }

  @Test(
    .promises("P54"),
    arguments: [
      ("X-If-Taken", "keep"), ("X-Replaces", ""), ("X-Replaces", "a;00;5"), ("X-Replaces", "a;\(root)"),
      ("X-Replaces", "a;\(root);-1"), ("X-Replaces", "a;\(root);1;0"), ("X-Replaces", "a;\(root);1;2;3"),
      ("X-Replaces", ";\(root);1"), ("X-Replaces", "a b;\(root);1"), ("X-Replaces", "a;\(root);1,"),
      ("X-Replaces", Array(repeating: "a;\(root);1", count: 9).joined(separator: ",")),
      ("X-Published-As", "../a"), ("X-Published-As", "%ff"), ("X-Published-As", ""),
    ])
  func ownership_namesTheUnreadableField(field: String, value: String) {
    let fields = ["X-If-Taken": "number", "X-Replaces": "a;\(Self.root);1"].merging([field: value]) { $1 }
    let violation = #expect(throws: HeaderViolation.self) { try NameOwnership(reading: { fields[$0] }) }
    #expect(violation?.field == field)
  }

  private static let root = Hex.encode(sha256([]))

  @Test(
    .promises("P75a"),
    arguments: [
      ("a.mov", "a-2.mov"), ("d.e/a", "d.e/a-2"), ("d/.hidden", "d/.hidden-2"), ("..a.b", "..a-2.b"),
      ("a.tar.gz", "a.tar-2.gz"),
      ("ä", "ä-2"), (String(repeating: "x", count: 255), nil),
    ])
  func names_getTheirNumberBeforeTheExtension(name: String, numbered: String?) {
    #expect(PublishedName.numbered(name, by: 2) == numbered)
  }
}

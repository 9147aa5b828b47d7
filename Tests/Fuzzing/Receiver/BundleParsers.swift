import ChunkProtocol
import Fuzzing
import Integrity

@testable import ChunkProtocol
@testable import ReceiverCore

/// A member as a reader shows it.
private struct Member: Hashable {
  var target: String
  var fields: [[String]]
  var contentLength: Int
  var body: [UInt8] = []
}

/// What a reader makes of a bundle: the members that are complete, and how it ends.
private struct Reading: Hashable {
  var members: [Member] = []
  var violation: BundleViolation?

  init(_ pieces: [ArraySlice<UInt8>]) {
    var reader = BundleReader()
    var open: Member?
    do throws(BundleViolation) {
      for piece in pieces {
        try Array(piece).withUnsafeBufferPointer { (bytes) throws(BundleViolation) in
          var rest = UnsafeRawBufferPointer(bytes)
          while let event = try reader.next(&rest) {
            switch event {
            case .head(let head, let contentLength):
              require(open == nil, "a member ends before the next one begins")
              open = Member(
                target: head.target, fields: head.fields.map { [$0.name, $0.value] }, contentLength: contentLength)
            case .body(let part):
              require(!part.isEmpty, "a part of a body has bytes")
              open?.body += part
            case .end:
              require(open?.body.count == open?.contentLength, "a body has the announced length")
              if let open { members.append(open) }
              open = nil
            }
          }
          require(rest.isEmpty, "a piece is used up")
        }
      }
      try reader.finish()
      require(!members.isEmpty && open == nil, "a bundle that is accepted has members")
    } catch {
      violation = error
    }
  }
}

private func member(_ target: String, _ fields: [(name: String, value: String)], _ body: [UInt8]) -> [UInt8] {
  BundleMemberHead(target: target, fields: fields).encode(contentLength: body.count) + body
}

/// A file as a client sends it.
func bundled(_ name: String, _ plain: [UInt8], sending sent: [UInt8]? = nil, _ encoding: ChunkEncoding = .identity)
  -> [UInt8]
{
  let facts = ChunkChecksums(of: plain)
  let chunk = ChunkHeaders(
    sha256: facts.sha256, crc32c: facts.crc32c, sizeBytes: UInt64(plain.count), encoding: encoding,
    mac: sha256([1]).bytes, contentSHA256: nil)
  let file = [
    (name: HeaderName.idempotencyKey, value: "\"k\""), (name: HeaderName.chunkNonce, value: Hex.encode(sha256([2]))),
    (name: HeaderName.fileMode, value: "420"), (name: HeaderName.fileModifiedNanoseconds, value: "-5"),
  ]
  return member(ProtocolPath.file(name: name).text, chunk.fields + file, sent ?? plain)
}

private let several =
  member("/v1/files/a%20b", [("X-Chunk-Size", "5"), ("X-File-Id", "x: y")], [1, 2, 3])
  + member("/v1/files/a", [("X-Chunk-Size", "0")], []) + member("/v1/files/c", [], member("/v1/files/d", [], [7]))

private let words = [
  "PUT ", " HTTP/1.1", "\r\n", "\r\n\r\n", "Content-Length: ", "Transfer-Encoding: chunked", "X-Chunk-Size: ",
  "/v1/files/", ": ", "X-Chunk-Encoding: lz4", "zstd;stride=12;difference=4", "18446744073709551615", "4194304",
]

let bundleParsers: [FuzzedParser] = [
  FuzzedParser("BundleReader", bytesMax: 4096, words: words) {
    [several, several.dropLast(), bundled("a/b", [1, 2, 3]) + bundled("c", [])].map { Array($0) }
  } test: { input in
    var input = input
    let places = input.choosePlaces(2)
    let bytes = input.bytes
    let whole = Reading([bytes[...]])
    let pieces = [bytes[..<places[0]], bytes[places[0]..<places[1]], bytes[places[1]...]]
    require(whole == Reading(pieces), "pieces change nothing")
    if bytes.count <= 512 {
      require(whole == Reading(bytes.indices.map { bytes[$0...$0] }), "single bytes change nothing")
    }
    guard whole.violation == nil else { return }
    let written = whole.members.map { read in
      member(read.target, read.fields.map { ($0[0], $0[1]) }, read.body)
    }
    let again = Reading([Array(written.joined())[...]])
    require(again.violation == nil && again.members.map(\.body) == whole.members.map(\.body), "what is written is read")
    require(again.members.map(\.target) == whole.members.map(\.target), "targets come back")
  },
  FuzzedParser("MessageHead", words: words) {
    [Array("PUT /v1/files/a HTTP/1.1\r\nX-A:\t b \r\nContent-Length: 5\r\n\r\n".utf8), several]
  } test: { input in
    try input.bytes.withUnsafeBytes { bytes in
      guard let head = try? MessageHead(bytes) else { return }
      var written: [UInt8] = []
      MessageHead.append(
        startLine: head.startLine, fields: head.fields, contentLength: Int(clamping: head.contentLength), to: &written)
      let again = try written.withUnsafeBytes { try MessageHead($0) }
      // A writer has no tabs.
      let line = head.startLine.utf8.map { $0 == 0x09 ? UInt8(ascii: "?") : $0 }
      require(again.startLine.utf8.elementsEqual(line), "the start line comes back")
      require(again.fields.count == head.fields.count, "every field comes back")
      require(
        again.contentLength == min(head.contentLength, UInt64(Int.max)), "the length comes back")
    }
  },
  FuzzedParser("BundleIntake", bytesMax: 8192, words: words + ["%2F", "..", "\"k\""]) {
    let zeros = [UInt8](repeating: 0, count: 4096)
    let block = compressed(zeros)
    return [
      several, bundled("a/b", [1, 2, 3]) + bundled("c", zeros, sending: block, .lz4),
      bundled("x", zeros, sending: block.dropLast(), .lz4) + bundled("y", [1], sending: [2]),
      bundled("z", counted, sending: handmadeFrame, handmadeEncoding),
    ]
  } test: { input in
    var input = input
    let place = input.choosePlaces(1)[0]
    let whole = intake([input.bytes[...]])
    require(whole == intake([input.bytes[..<place], input.bytes[place...]]), "pieces change nothing")
  },
  FuzzedParser("FramedBundle", bytesMax: 8192, words: ["PUT ", "\r\n\r\n", "zstd"]) {
    let zeros = [UInt8](repeating: 0, count: 4096)
    let bundles = [several, bundled("a/b", [1, 2, 3]) + bundled("c", zeros), zeros]
    return bundles.flatMap { plain -> [[UInt8]] in
      let frame = framed(plain)
      let behind: [UInt8] = [0, 9, UInt8(plain.count >> 8), UInt8(plain.count & 0xff)]
      return [frame + behind, Array(frame.dropLast()) + behind]
    }
  } test: { input in
    var input = input
    // They stand behind the frame, with the place where it is cut.
    let plainBytes = input.choose() | input.choose() << 8
    let place = input.choosePlaces(1)[0]
    let whole = intake([input.bytes[...]], frameOf: plainBytes)
    require(
      whole == intake([input.bytes[..<place], input.bytes[place...]], frameOf: plainBytes), "pieces change nothing")
    guard !input.bytes.isEmpty else { return }
    let packed = framed(input.bytes)
    guard packed.count <= input.bytes.count else { return }
    require(
      intake([packed[...]], frameOf: input.bytes.count) == intake([input.bytes[...]]),
      "a bundle in a frame is the bundle")
  },
  FuzzedParser("RunIntake", bytesMax: 8192, words: words + ["/v1/uploads/s/chunks/", "4096"]) {
    let zeros = [UInt8](repeating: 0, count: 4096)
    let block = compressed(zeros)
    return [
      inRun(0, [1, 2, 3]) + inRun(7, zeros, sending: block, .lz4) + inRun(1, zeros),
      inRun(0, zeros, sending: block.dropLast(), .lz4) + inRun(0, [1], sending: [2]),
      inRun(3, counted, sending: handmadeFrame, handmadeEncoding),
      inRun(2, [UInt8](repeating: 0, count: 4097)) + bundled("a", [1]) + inRun(0, [1]).dropLast(),
    ]
  } test: { input in
    var input = input
    let place = input.choosePlaces(1)[0]
    let bytes = input.bytes
    let whole = RunReading([bytes[...]])
    require(whole == RunReading([bytes[..<place], bytes[place...]]), "pieces change nothing")
    let begun = RunReading([bytes[..<place]])
    require(
      whole.members.prefix(begun.members.count).elementsEqual(begun.members), "what is complete does not change")
    var atOnce = runIntake()
    let (complete, refusal) = atOnce.takeAll(bytes)
    require(complete.map { summary($0.member, $0.sent) } == whole.members, "all at once is the same")
    require(refusal.map { "\($0)" } == whole.refusal, "and ends the same way")
  },
]

/// A chunk as a client sends it in a run of the session `s`.
func inRun(_ index: UInt32, _ plain: [UInt8], sending sent: [UInt8]? = nil, _ encoding: ChunkEncoding = .identity)
  -> [UInt8]
{
  let facts = ChunkChecksums(of: plain)
  let chunk = ChunkHeaders(
    sha256: facts.sha256, crc32c: facts.crc32c, sizeBytes: UInt64(plain.count), encoding: encoding,
    mac: sha256([1]).bytes, contentSHA256: nil)
  return member(ProtocolPath.chunk(id: "s", index: index).text, chunk.fields, sent ?? plain)
}

/// One that the core has let in.
private func runIntake() -> RunIntake {
  let request = WireRequest(
    method: "POST", target: "/v1/uploads/s/chunks",
    fields: [("Authorization", "Bearer token"), ("Content-Type", MediaType.bundle), ("Content-Length", "1")])
  guard case .readRun(var intake) = translation.plan(request) else { fatalError("a run is to be read") }
  require(intake.answer(to: .runAdmitted(chunkBytesMax: 4096)) == nil, "a run that is let in is read")
  return intake
}

private func summary(_ member: RunIntake.Member, _ sent: [UInt8]) -> String {
  "\(member), \(sent.count) bytes, \(sent.withUnsafeBytes { CRC32C.checksum($0) })"
}

/// What a receiver makes of a run: the members that are complete, and how it ends.
private struct RunReading: Hashable {
  var members: [String] = []
  var refusal: String?

  init(_ pieces: [ArraySlice<UInt8>]) {
    var intake = runIntake()
    var open: (member: RunIntake.Member, sent: [UInt8])?
    do throws(Refusal) {
      for piece in pieces {
        try Array(piece).withUnsafeBufferPointer { (bytes) throws(Refusal) in
          var rest = UnsafeRawBufferPointer(bytes)
          while true {
            let (count, step) = try intake.take(rest)
            let taken = rest.prefix(count)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            guard let step else { break }
            switch step {
            case .begins(let member):
              require(open == nil, "a member ends before the next one begins")
              require(
                member.body?.memoryBytes ?? 0 <= 3 * 4096, "a member takes no more memory than its chunk in three forms"
              )
              open = (member, [])
            case .body: if open?.member.body != nil { open?.sent += taken }
            case .ends:
              guard let ended = open else { fatalError("a member ends that has begun") }
              require(ended.sent.count <= ended.member.body?.sentBytesMax ?? 0, "no more arrives than was announced")
              members.append(summary(ended.member, ended.sent))
              open = nil
            }
          }
          require(rest.isEmpty, "a piece is used up")
        }
      }
      try intake.finish()
      require(!members.isEmpty && open == nil, "a run that is accepted has members")
    } catch {
      refusal = "\(error)"
    }
  }
}

func compressed(_ plain: [UInt8]) -> [UInt8] {
  [UInt8](unsafeUninitializedCapacity: LZ4.compressedBytesMax(plain.count)) { target, count in
    count = plain.withUnsafeBytes { LZ4.compress($0, into: UnsafeMutableRawBufferPointer(target)) } ?? 0
  }
}

let translation = RequestTranslation(credentials: [Credential(token: "token", root: "root")], limits: CoreLimits())

/// What a receiver makes of a bundle, or of one in a frame of so many plain bytes: each member's plan and body, or the refusal.
private func intake(_ pieces: [ArraySlice<UInt8>], frameOf plainBytes: Int? = nil) -> [String] {
  let length = pieces.map(\.count).reduce(0, +)
  var fields: [(name: String, value: String)] = [
    ("Authorization", "Bearer token"), ("Content-Type", MediaType.bundle), ("Content-Length", String(length)),
  ]
  if let plainBytes {
    fields.append((HeaderName.chunkEncoding, "zstd"))
    fields.append((HeaderName.chunkSize, String(plainBytes)))
  }
  let plan = translation.plan(WireRequest(method: "POST", target: "/v1/files", fields: fields))
  if case .answer(let answer) = plan, plainBytes.map({ $0 == 0 || $0 < length }) == true { return ["\(answer.status)"] }
  guard case .readBundle(var intake) = plan else { fatalError("a bundle is to be read") }
  do throws(Refusal) {
    for piece in pieces {
      try Array(piece).withUnsafeBufferPointer { (bytes) throws(Refusal) in
        try intake.take(UnsafeRawBufferPointer(bytes))
      }
      require(intake.bodyBytes <= intake.memoryBytes, "an intake takes no more memory than it says")
    }
    try intake.finish()
  } catch {
    return ["\(error)"]
  }
  do throws(Refusal) {
    try intake.decode()
  } catch {
    return ["\(error)"]
  }
  require(!intake.hasEncoded, "every body is decoded")
  require(intake.bodyBytes <= intake.memoryBytes, "decoded bodies take no more memory than is said")
  return intake.members.map { member in
    if case .plain(let bytes, let facts) = member.body {
      require(ChunkChecksums(of: bytes) == facts, "a body has its own digests")
      if case .ask(.wholeFile(_, _, _, let announced)) = member.plan, announced.encoding != .identity {
        require(bytes.count == Int(announced.facts.sizeBytes), "a body has the announced length")
      }
    }
    return "\(member)"
  }
}

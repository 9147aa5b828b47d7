import ChunkProtocol
import FileModel
import Fuzzing
import Lookup
import Integrity
import TransferModel

@testable import Destinations

/// A few bytes that outlive every request.
///
/// Sendable is unchecked because of the pointer: the memory is written once, before another thread can know it.
private final class Bytes: PinnedBytes, @unchecked Sendable {
  let bytes: UnsafeRawBufferPointer

  init(_ content: [UInt8]) {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 1)
    memory.copyBytes(from: content)
    bytes = UnsafeRawBufferPointer(memory)
  }

  deinit { bytes.deallocate() }
}

private let content = Array("123456789".utf8)
private let digest = content.withUnsafeBytes { ChunkDigest(sha256: sha256($0), crc32c: CRC32C.checksum($0)) }
private let nonce = (0..<32).map { UInt8($0) }
private let path = RelativePath("day 1/scan%.mov")

/// A destination and an id of a session there, as an earlier run may have left it.
private struct Kind: Sendable {
  let name: String
  let session: String
  let make: @Sendable () throws -> any Destination
}

private let host = "up.example.org:8443"

private func tus() throws -> TusDestination {
  try TusDestination(
    address: try TusAddress("tus+https://\(host)/files/", allowPlainHTTP: false), credential: .bearer("secret"),
    secondsSince1970: { 1_700_000_000 })
}

private func draft() throws -> ResumableDestination {
  try ResumableDestination(
    address: try TusAddress("tus+https://\(host)/files/", allowPlainHTTP: false), credential: .bearer("secret"),
    options: TusOptions(), secondsSince1970: { 1_700_000_000 })
}

private let kinds = [
  Kind(name: "receiver", session: "s-1") {
    try ChunkProtocolDestination(baseURL: "https://\(host)/in", credential: .bearer("secret"))
  },
  Kind(name: "s3", session: "day%201/a.mov?up") {
    let credentials = try S3Credentials(accessKeyID: "AKID", secretAccessKey: "secret", sessionToken: nil)
    return try S3Destination(
      address: try S3Address("s3+https://\(host)/captures/day%201", allowPlainHTTP: false), options: S3Options(),
      credentials: { credentials }, secondsSince1970: { 1_700_000_000 })
  },
  Kind(name: "tus", session: "one 9 /files/u1", make: tus),
  Kind(name: "tus, concatenated", session: "rows 00", make: tus),
  Kind(name: "draft", session: "ietf one 9 /files/u1", make: draft),
  Kind(name: "tus or draft", session: "ietf one 9 /files/u1") {
    DiscoveringDestination(tus: try tus(), draft: try draft())
  },
  Kind(name: "form", session: "x") {
    try FormDestination(
      address: try FormAddress("form+https://\(host)/upload?x=%20", allowPlainHTTP: false),
      credential: .bearer("secret"))
  },
]

private func steps(in session: SessionIdentity, tokens: [String]) -> [DestinationStep] {
  func chunk(_ index: Int) -> ChunkSending {
    ChunkSending(session: session, index: index, digest: digest, body: Bytes(content), sentBytes: SentByteCounter())
  }
  let whole = WholeFileSending(
    fileID: FileID(high: 1, low: 2), revision: 7, nonce: nonce, path: path, digest: digest, body: Bytes(content),
    modifiedNanoseconds: 42, mode: 0o644, sentBytes: SentByteCounter())
  let commit = SessionCommit(
    session: session, sizeBytes: 18, chunkCount: 2, merkleRoot: sha256([1]), chainTip: sha256([2]), path: path,
    modifiedNanoseconds: -5, mode: 0o100755,
    chunks: (0..<2).map { CommittedChunk(digest: digest, token: $0 < tokens.count ? tokens[$0] : "9") })
  return [
    .chunk(chunk(0)), .chunk(chunk(1)), .querySession(session), .secureSession(session), .commit(commit),
    .abort(session),
    .wholeFile(whole), .bundle([whole, whole]),
    .run([chunk(0), chunk(1)]),
    .zeros(ZerosSending(session: session, ranges: [0..<1], chunkBytes: 9, digest: digest)),
  ]
}

private let opening = SessionOpening(
  fileID: FileID(high: 1, low: 2), revision: 7, nonce: nonce, path: path, sizeBytes: 18, chunkBytes: 9,
  modifiedNanoseconds: 42, mode: 0o644)

/// What is sent can be put into a request as it is, and the credential goes to the configured server only.
private func requireSound(_ request: HTTPRequest) {
  let isOurs = request.url.hasPrefix("https://\(host)/") || request.url.hasPrefix("https://captures.\(host)/")
  require(
    isOurs || !request.headers.contains { $0.name.lowercased() == "authorization" },
    "only the configured server gets the credential: \(request.url.debugDescription)")
  require(
    request.url.utf8.allSatisfy { (0x21...0x7e).contains($0) }, "a URL is plain ASCII: \(request.url.debugDescription)")
  for field in request.headers {
    require(
      field.value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 },
      "a field is one line: \(field.name): \(field.value.debugDescription)")
  }
}

private func requireSound(_ outcome: StepOutcome) {
  switch outcome {
  case .refused(let failure): requireSound(failure)
  case .each(let outcomes): outcomes.forEach { requireSound($0) }
  case .sessionOpened(let id, let chunkBytes, _, _, _, _):
    require(!id.isEmpty && chunkBytes > 0, "a session has a name and chunks")
  case .held(let digests, let chunkBytes, _, _, let tokens, _):
    require(
      !digests.keys.contains { $0 < 0 } && !tokens.keys.contains { $0 < 0 }, "places are not negative")
    require(chunkBytes.map { $0 > 0 } ?? true, "chunks have a length")
  case .incomplete(let missing):
    require(missing.allSatisfy { (0..<2).contains($0) }, "only this file's chunks are missing")
  case .warmed, .stillThere, .chunkStored, .chunkStoredAs, .published, .ended: break
  }
}

/// The server's answers, one after another, and what is asked of it.
private struct Exchange {
  let destination: any Destination
  var answers: ArraySlice<HTTPResponse>

  /// Sends a step as the engine does; nil when there are no answers left.
  mutating func carryOut(_ step: DestinationStep) -> StepOutcome? {
    requireSound(destination.request(for: step, at: .first))
    var seen: [HTTPResponse] = []
    while seen.count < 20 {
      guard let answer = answers.popFirst() else { return nil }
      seen.append(answer)
      let offers = destination.offers(in: answer)
      require(offers.filesPerRequest.map { $0 <= ProtocolLimits.bundleFilesMax } ?? true, "a bundle is bounded")
      guard let next = destination.followUp(of: step, after: seen, at: .first) else { break }
      requireSound(next)
    }
    let outcome = destination.outcome(of: step, responses: seen)
    requireSound(outcome)
    return outcome
  }
}

private func text(_ answers: String...) -> String {
  answers.map { "HTTP/1.1 \($0)" }.joined(separator: nextResponse)
}

private let receiptText =
  #"{"id":"r1","name":"day 1/scan%25.mov","size":18,"merkle_root":"\#(Hex.encode(sha256([1])))","chain_tip":"\#(Hex.encode(sha256([2])))","published_at_ms":99}"#
private let discovery =
  "204 x\r\nTus-Version: 1.0.0\r\nTus-Extension: creation,creation-with-upload,concatenation,checksum\r\n"
  + "Tus-Checksum-Algorithm: sha1\r\n\r\n"
private let draftDiscovery = "204 x\r\nAccept-Patch: application/partial-upload\r\nUpload-Limit: max-size=1000\r\n\r\n"

let destinationParsers: [FuzzedParser] = [
  FuzzedParser(
    "Destinations", bytesMax: 8192,
    words: responseWords + [
      "Location: /files/u1\r\n", "Location: https://evil.example/\r\n", "Upload-Offset: 9\r\n",
      "Upload-Complete: ?1\r\n",
      "Upload-Length: 18\r\n", "Upload-Expires: ", "X-Bundle-Files-Max: 64\r\n", "X-Chunk-Encodings: lz4\r\n",
      "X-Bundle-Encodings: zstd\r\n",
      "<UploadId>", "<Part><PartNumber>1</PartNumber><ETag>", "<IsTruncated>true</IsTruncated>",
      "<NextPartNumberMarker>",
      "x-amz-meta-uploadfs-session: ", "\"held\":[[0,4294967295]]", "\"digests\":{\"0\":\"", "\"state\":\"committed\"",
    ]
  ) {
    let scripts = [
      (
        0,
        text(
          "200 OK\r\nX-Bundle-Files-Max: 64\r\nX-Chunk-Encodings: identity, lz4, zstd\r\nX-Bundle-Encodings: zstd\r\n\r\n",
          "201 x\r\n\r\n{\"id\":\"s-2\",\"chunk_size\":9,\"expires_at\":9,\"encodings\":[\"lz4\",\"zstd\"]}",
          "201 x\r\n\r\n",
          "200 x\r\n\r\n",
          "200 x\r\n\r\n{\"id\":\"s-2\",\"state\":\"open\",\"chunk_size\":9,\"held\":[[0,1]],\"digests\":{\"0\":\"\(Hex.encode(sha256(content)))\"},\"chain_tip\":\"\",\"expires_at\":9}",
          "200 x\r\n\r\n{}", "200 x\r\n\r\n\(receiptText)")
      ),
      (0, text("409 x\r\nRetry-After: 5\r\n\r\n{\"type\":\"urn:uploadfs:problem:incomplete\",\"missing\":[1,5]}")),
      (
        1,
        text(
          "200 OK\r\n\r\n",
          "200 OK\r\n\r\n<InitiateMultipartUploadResult><UploadId>up+1</UploadId></InitiateMultipartUploadResult>",
          "200 OK\r\nETag: \"e1\"\r\n\r\n", "200 OK\r\nETag: \"e2\"\r\n\r\n",
          "200 OK\r\n\r\n<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker><Part><PartNumber>1</PartNumber><ETag>&#34;e1&#34;</ETag><Size>9</Size></Part></ListPartsResult>",
          "200 OK\r\n\r\n<ListPartsResult><Part><PartNumber>2</PartNumber><ETag>x</ETag><Size>9</Size></Part></ListPartsResult>"
        )
      ),
      (
        2,
        text(
          discovery, discovery, "201 x\r\nLocation: /files/u1\r\nUpload-Offset: 0\r\n\r\n",
          "204 x\r\nUpload-Offset: 9\r\n\r\n", "204 x\r\nUpload-Offset: 18\r\n\r\n",
          "200 x\r\nUpload-Offset: 18\r\n\r\n")
      ),
      (3, text(discovery, "201 x\r\nLocation: https://\(host)/files/p1\r\n\r\n", "204 x\r\nUpload-Offset: 9\r\n\r\n")),
      (
        4,
        text(
          draftDiscovery, draftDiscovery, "201 x\r\nLocation: /files/u2\r\nUpload-Complete: ?0\r\n\r\n",
          "204 x\r\nUpload-Offset: 9\r\nUpload-Complete: ?0\r\n\r\n", "200 x\r\nUpload-Complete: ?1\r\n\r\n")
      ),
      (5, text(draftDiscovery, "404 x\r\n\r\n")),
      (6, text("200 OK\r\n\r\n{\"id\":7}")),
    ]
    return scripts.flatMap { kind, text in
      [0, 2, 6, 8].map { Array(text.utf8) + [UInt8($0), UInt8(kind)] }
    }
  } test: { input in
    var input = input
    let kind = input.choose(kinds)
    let start = input.choose()
    var exchange = Exchange(destination: try kind.make(), answers: responses(input.bytes)[...])
    let first = exchange.answers.first ?? HTTPResponse(status: 200, headers: [], body: [])
    _ = exchange.destination.limits(in: first)
    if let page = exchange.destination.sessionPage(in: first) {
      for session in page.sessions { _ = exchange.destination.listedID(ofSession: session.id) }
      if let request = exchange.destination.sessionListRequest(after: page.next, at: .first) { requireSound(request) }
    }
    var session = SessionIdentity(id: kind.session, nonce: nonce)
    if start == 0 {
      guard exchange.carryOut(.prewarm) != nil, let opened = exchange.carryOut(.openSession(opening)) else { return }
      if case .sessionOpened(let id, _, _, _, _, _) = opened { session.id = id }
    }
    var tokens: [String] = []
    for step in steps(in: session, tokens: tokens).dropFirst(start % 9) {
      // The commit is made anew, because it names what the chunks were stored as.
      var step = step
      if case .commit = step { step = steps(in: session, tokens: tokens)[4] }
      guard let outcome = exchange.carryOut(step) else { return }
      if case .chunkStoredAs(let token, _, _) = outcome { tokens.append(token) }
    }
  }
]

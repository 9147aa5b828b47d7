import ChunkProtocol
import Fuzzing
import Integrity

@testable import ReceiverCore

/// A request as text: its line, its fields, an empty line, its body.
private struct RequestText {
  let request: WireRequest
  let body: [UInt8]

  init(_ bytes: [UInt8]) {
    let end = bytes.indices.dropLast().first { bytes[$0] == 0x0a && bytes[$0 + 1] == 0x0a } ?? bytes.endIndex
    let head = String(decoding: bytes[..<end], as: UTF8.self)
    body = Array(bytes[end...].dropFirst(2))
    let lines = head.utf8.split(separator: 0x0a, maxSplits: 1).map { String(Substring($0)) }
    let words = (lines.first ?? "").utf8.split(separator: 0x20, maxSplits: 1).map { String(Substring($0)) }
    request = WireRequest(
      method: words.first ?? "", target: words.count > 1 ? words[1] : "",
      fields: [(name: "Authorization", value: "Bearer token")] + fields(lines.count > 1 ? lines[1] : ""))
  }
}

private let methods = [
  "GET ", "PUT ", "POST ", "DELETE ", "HEAD ", "/v1/uploads", "/v1/files/", "/chunks/", "/commit", "\n\n",
  "Idempotency-Key: \"", "Content-Length: ", "Content-Type: application/x-uploadfs-bundle", "/v1/capabilities",
  "/v1/stats", "/metrics", "?digests=1",
]

let requestParsers: [FuzzedParser] = [
  FuzzedParser(
    "RequestTranslation", bytesMax: 4096, words: methods,
    texts: [
      "HEAD /v1/", "GET /v1/capabilities", "GET /v1/stats", "GET /metrics", "GET /v1/uploads/s1?digests=1&durable=1",
      "DELETE /v1/uploads/s1", "POST /v1/uploads\nIdempotency-Key: \"k\"\n\n\(openingText)",
      "POST /v1/uploads/s1/commit\n\n\(commitText)",
      "POST /v1/uploads/s1/zeros\n\n{\"ranges\":[[0,2],[7,199999]],\"hmac\":\"\(String(repeating: "ab", count: 32))\"}",
      "PUT /v1/uploads/s1/chunks/3\nContent-Length: 9\n\(chunkHeaderText)",
      "PUT /v1/files/a%2Fb\n\(chunkHeaderText)\n\(fileHeaderText)",
      "POST /v1/files\nContent-Type: \(MediaType.bundle)\nContent-Length: 100",
    ]
  ) { input in
    let text = RequestText(input.bytes)
    switch translation.plan(text.request) {
    case .readJSON(let bytesMax):
      guard text.body.count <= bytesMax else { return }
      check(translation.plan(text.request, json: text.body))
    case let plan: check(plan)
    }
  },
  FuzzedParser(
    "Authorization", bytesMax: 256, words: ["Bearer ", "token"],
    texts: ["Bearer token", "bearer  token", "Bearer", "Basic token", "Bearer token two", ""]
  ) { input in
    let table = CredentialTable([Credential(token: "token", root: "root")])
    guard table.credential(authorization: input.text) != nil else { return }
    require(input.text.hasSuffix("token"), "only the token is recognised")
  },
]

private func check(_ plan: RequestPlan) {
  guard case .ask(let coreRequest) = plan else { return }
  switch coreRequest {
  case .chunk(_, _, _, let announced), .wholeFile(_, _, _, let announced):
    let body = AdmittedBody(announced)
    require(body.sentBytesMax <= body.plainBytes && body.memoryBytes >= 0, "a body is bounded by what is announced")
  case .openSession(let credential, let key, let opening):
    // What the core would keep of it has to be found again in the journal.
    let facts = SessionRecord(
      id: "s", credential: credential.text, idempotencyKey: key, opening: opening,
      requestedChunkBytes: opening.chunkBytes, openedAt: 0)
    guard PublishedName.validate(opening.name) == nil else { return }
    let payload = JournalRecord.session(facts).bytes
    let read = JournalFraming.read(JournalFraming.bytes(of: [payload]))
    require(read.payloads.count == 1, "a session's record of \(payload.count) bytes is read from the journal")
    guard case .session(facts)? = JournalRecord(payload[...]) else { fatalError("a session's record comes back") }
  case .zeros, .query, .commit, .abort: break
  }
}

import ChunkProtocol
import Integrity
import Lookup
import Promises
import ProtocolReference
import SeededRandom
import Testing

@testable import ReceiverCore

/// The way of a bundle through translation and intake, as a simulation goes it.
@Suite struct BundleIntakeTests {
  private static let token = "a-token"
  private let translation: RequestTranslation
  private let core = CoreHarness()

  init() {
    translation = RequestTranslation(credentials: [core.credential], limits: core.limits)
  }

  private func plan(
    contentLength: Int?, type: String? = MediaType.bundle, token: String = token, encoding: String? = nil,
    plainBytes: String? = nil
  ) -> RequestPlan {
    var fields = [(name: HeaderName.authorization, value: "Bearer \(token)")]
    if let contentLength { fields.append((HeaderName.contentLength, String(contentLength))) }
    if let type { fields.append((HeaderName.contentType, type)) }
    if let encoding { fields.append((HeaderName.chunkEncoding, encoding)) }
    if let plainBytes { fields.append((HeaderName.chunkSize, plainBytes)) }
    return translation.plan(WireRequest(method: "POST", target: "/v1/files", fields: fields))
  }

  private func status(_ plan: RequestPlan) -> Int? {
    if case .answer(let answer) = plan { answer.status } else { nil }
  }

  private func member(
    _ name: String, _ plain: [UInt8], key: String, sending sent: [UInt8]? = nil, encoding: ChunkEncoding = .identity
  ) throws -> [UInt8] {
    let facts = ChunkChecksums(of: plain)
    let nonce = [UInt8](repeating: 3, count: 32)
    let mac = ProtocolReference.mac(secret: Self.token, nonce: nonce, sessionID: key, index: 0, plain)
    let chunk = ChunkHeaders(
      sha256: facts.sha256, crc32c: facts.crc32c, sizeBytes: UInt64(plain.count), encoding: encoding, mac: mac,
      contentSHA256: nil)
    let file = FileHeaders(
      idempotencyKey: try #require(IdempotencyKey(text: key)), nonce: nonce, modifiedNanoseconds: 5, mode: 0o600,
      fileID: nil, ifExists: .replace)
    let head = BundleMemberHead(target: ProtocolPath.file(name: name).text, fields: chunk.fields + file.fields)
    let body = sent ?? plain
    return head.encode(contentLength: body.count) + body
  }

  private func compressed(_ plain: [UInt8]) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: LZ4.compressedBytesMax(plain.count)) { target, count in
      count = plain.withUnsafeBytes { LZ4.compress($0, into: UnsafeMutableRawBufferPointer(target)) } ?? 0
    }
  }

  /// What the bundle's members are answered, when its body comes in pieces of this size.
  private func send(
    _ body: [UInt8], pieceBytes: Int = .max, frameOf plainBytes: Int? = nil
  ) throws(Refusal) -> [Answer] {
    let plan = plan(
      contentLength: body.count, encoding: plainBytes.map { _ in "zstd" }, plainBytes: plainBytes.map(String.init))
    guard case .readBundle(var intake) = plan else { return [] }
    var rest = body[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(pieceBytes))
      rest = rest.dropFirst(piece.count)
      try piece.withUnsafeBufferPointer { (bytes) throws(Refusal) in try intake.take(UnsafeRawBufferPointer(bytes)) }
    }
    try intake.finish()
    #expect(intake.bodyBytes <= intake.memoryBytes)
    try intake.decode()
    #expect(!intake.hasEncoded && intake.bodyBytes <= intake.memoryBytes)
    return intake.members.compactMap { member in
      switch member.plan {
      case .answer(let answer): answer
      case .ask(let coreRequest): answer(to: member, coreRequest)
      }
    }
  }

  private func answer(to member: BundleIntake.Member, _ coreRequest: CoreRequest) -> Answer? {
    let request = core.makeRequest()
    core.send(coreRequest.event(request, freshID: "fresh-\(request.value)", freeBytes: 1_000_000))
    if case .bodyAdmitted? = core.replies[request]?.last { core.send(member.next(coreRequest, request)) }
    core.runEffects()
    guard let reply = core.replies[request]?.last, case .answer(let answer) = coreRequest.outcome(of: reply) else {
      return nil
    }
    return answer
  }

  @Test(.promises("P65"), arguments: [1, 7, 64, 1000, Int.max])
  func members_areAnsweredInTheirOrder_whateverThePieces(pieceBytes: Int) throws {
    let bodies: [[UInt8]] = [[], [1], [UInt8](repeating: 2, count: 20_000), [3, 4], [UInt8](repeating: 5, count: 300)]
    var bundle: [UInt8] = []
    for (number, body) in bodies.enumerated() { bundle += try member("f\(number)", body, key: "k\(number)") }
    let answers = try send(bundle, pieceBytes: pieceBytes)
    #expect(answers.map(\.status) == [201, 201, 201, 201, 201])
    for (number, answer) in answers.enumerated() {
      let receipt = try WireJSON.decode(ReceiptBody.self, from: answer.body)
      #expect(receipt.name == "f\(number)" && receipt.sizeBytes == UInt64(bodies[number].count))
    }
    expectNothingUnderWay()
  }

  /// Nothing of a request is left in the core's books when it is answered.
  private func expectNothingUnderWay() {
    #expect(core.core.stages.isEmpty && core.core.arriving.isEmpty)
    #expect(!core.core.wholeFileBytes.containsValue { $0 != 0 })
  }

  @Test func members_ofOddNumberAndUnequalLength_haveTheDigestsOfEachAlone() throws {
    var random = SplitMix(seed: 1)
    for count in [1, 2, 3, 8] {
      let bodies = (0..<count).map { _ in
        (0..<Int.random(in: 0...40_000, using: &random)).map { UInt8(truncatingIfNeeded: $0) }
      }
      var bundle: [UInt8] = []
      for (number, body) in bodies.enumerated() { bundle += try member("f", body, key: "k\(number)") }
      guard case .readBundle(var intake) = plan(contentLength: bundle.count) else {
        return #expect(Bool(false), "no bundle")
      }
      try intake.take(bundle)
      for (member, body) in zip(intake.members, bodies) {
        guard case .plain(let bytes, let facts) = member.body else { return #expect(Bool(false), "\(member.body)") }
        #expect(bytes == body && facts == ChunkChecksums(of: body))
      }
    }
  }

  @Test func encodedMember_isThatOfItsPlainBytes_andALyingOneIsRefusedAlone() throws {
    let plain = [UInt8](repeating: 9, count: 5000)
    let block = compressed(plain)
    let answers = try send(
      try member("a", plain, key: "a", sending: block, encoding: .lz4)
        + (try member("b", plain, key: "b", sending: Array(block.dropLast()), encoding: .lz4))
        + (try member("c", [1], key: "c")))
    #expect(answers.map(\.status) == [201, 422, 201])
    expectNothingUnderWay()
  }

  @Test(.promises("P114")) func filteredMember_isThatOfItsPlainBytes_andALyingOneIsRefusedAlone() throws {
    let plain = [UInt8](0..<100).flatMap { [$0, 0] as [UInt8] }
    let encoding = ChunkEncoding.zstd(try #require(RecordFilter(stride: 2, difference: 2)))
    let frame: [UInt8] = [
      0x28, 0xB5, 0x2F, 0xFD, 0x20, 200, 0x08, 0, 0, 0, 0x1A, 0x03, 0, 1, 0x23, 0x03, 0, 0,
    ]
    let answers = try send(
      try member("a", plain, key: "a", sending: frame, encoding: encoding)
        + (try member("b", plain, key: "b", sending: frame.dropLast(), encoding: encoding))
        + (try member("c", [1], key: "c")))
    #expect(answers.map(\.status) == [201, 422, 201])
    expectNothingUnderWay()
  }

  // MARK: One frame

  /// One Zstandard frame, written by hand: runs of a byte are one block, what is between them another.
  private func framed(_ plain: [UInt8]) -> [UInt8] {
    let blockBytesMax = 128 << 10
    var blocks: [(type: Int, count: Int, bytes: ArraySlice<UInt8>)] = []
    var start = 0
    while start < plain.count {
      let run = plain[start...].prefix { $0 == plain[start] }.prefix(blockBytesMax)
      if run.count >= 16 {
        blocks.append((1, run.count, run.prefix(1)))
        start += run.count
      } else if let last = blocks.last, last.type == 0, last.count < blockBytesMax {
        blocks[blocks.count - 1] = (0, last.count + 1, plain[(start - last.count)...start])
        start += 1
      } else {
        blocks.append((0, 1, plain[start...start]))
        start += 1
      }
    }
    var frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0xE0]
    frame += (0..<8).map { UInt8(truncatingIfNeeded: plain.count >> (8 * $0)) }
    for (index, block) in blocks.enumerated() {
      let head = block.count << 3 | block.type << 1 | (index == blocks.count - 1 ? 1 : 0)
      frame += (0..<3).map { UInt8(truncatingIfNeeded: head >> (8 * $0)) }
      frame += block.bytes
    }
    return frame
  }

  @Test(.promises("P118"), arguments: [1, 64, 1000, Int.max])
  func bundleInAFrame_isTheBundle_whateverThePieces(pieceBytes: Int) throws {
    let bodies: [[UInt8]] = [[], [UInt8](repeating: 2, count: 20_000), [3, 4], [UInt8](repeating: 5, count: 300)]
    var bundle: [UInt8] = []
    for (number, body) in bodies.enumerated() { bundle += try member("f\(number)", body, key: "k\(number)") }
    let frame = framed(bundle)
    #expect(frame.count < bundle.count / 4)
    let answers = try send(frame, pieceBytes: pieceBytes, frameOf: bundle.count)
    #expect(answers.map(\.status) == [201, 201, 201, 201])
    for (number, answer) in answers.enumerated() {
      let receipt = try WireJSON.decode(ReceiptBody.self, from: answer.body)
      #expect(receipt.name == "f\(number)" && receipt.sizeBytes == UInt64(bodies[number].count))
    }
    expectNothingUnderWay()
  }

  /// Each is verified for itself.
  @Test(.promises("P118")) func memberOfAFrame_thatIsNotWhatItSays_isRefusedAlone() throws {
    let plain = [UInt8](repeating: 9, count: 5000)
    let bundle =
      try member("a", plain, key: "a") + (try member("b", plain, key: "b", sending: plain.map { $0 ^ 1 }))
      + (try member("c", plain, key: "c", sending: compressed(plain), encoding: .lz4))
    #expect(try send(framed(bundle), frameOf: bundle.count).map(\.status) == [201, 422, 201])
    expectNothingUnderWay()
  }

  @Test(.promises("P119")) func frameThatIsNone_isRefusedAsAWhole() throws {
    let bundle = try member("a", [UInt8](repeating: 9, count: 5000), key: "a")
    let frame = framed(bundle)
    func kind(_ body: [UInt8], _ plainBytes: Int) -> Refusal.Kind? {
      let refusal = #expect(throws: Refusal.self) { try send(body, frameOf: plainBytes) }
      return refusal?.kind
    }
    let damaged = Refusal.Kind.digestMismatch(field: HeaderName.chunkEncoding)
    #expect(kind(frame, bundle.count - 1) == damaged)
    #expect(kind(frame, bundle.count + 1) == damaged)
    #expect(kind(Array(frame.dropLast()), bundle.count) == damaged)
    #expect(kind(frame + [0], bundle.count) == damaged)
    #expect(kind(bundle, bundle.count) == damaged)
    // A frame of something else than a bundle.
    let other = framed([UInt8](repeating: 1, count: 1000))
    #expect(kind(other, 1000) == .badRequest(field: "body"))
    let half = framed(Array(bundle.dropLast()))
    #expect(kind(half, bundle.count - 1) == .badRequest(field: "body"))
    #expect(core.replies.isEmpty)
  }

  @Test(.promises("P119")) func whatIsAnnouncedOfAFrame_isCheckedBeforeItsBody() {
    let most = BundleBounds.files.contentBytesMax
    func refused(_ length: Int, _ encoding: String, _ plainBytes: String?) -> Int? {
      status(plan(contentLength: length, encoding: encoding, plainBytes: plainBytes))
    }
    for encoding in ["lz4", "zstd;stride=2", "zip", ""] { #expect(refused(10, encoding, "1000") == 400, "\(encoding)") }
    for size in [nil, "", "0", "-1", "x"] as [String?] {
      #expect(refused(10, "zstd", size) == 400, "\(size ?? "none")")
    }
    #expect(refused(10, "zstd", String(most + 1)) == 413)
    #expect(refused(10, "zstd", "18446744073709551615") == 413)
    #expect(refused(1001, "zstd", "1000") == 400, "it is longer than what it stands for")
    guard case .readBundle(let intake) = plan(contentLength: 10, encoding: "zstd", plainBytes: String(most)) else {
      return #expect(Bool(false), "no bundle")
    }
    #expect(intake.memoryBytes <= 2 * most + ProtocolLimits.bundleBytesMax + RecordFilter.blockBytes)
    guard case .readBundle(let plain) = plan(contentLength: 10, encoding: "identity", plainBytes: "x") else {
      return #expect(Bool(false), "no bundle")
    }
    #expect(!plain.hasEncoded)
  }

  @Test(.promises("P67")) func memberThatIsNoFile_isAnsweredAlone_andItsBodyIsNotKept() throws {
    let other = BundleMemberHead(target: "/v1/uploads", fields: []).encode(contentLength: 2) + [1, 2]
    let headless = BundleMemberHead(target: "/v1/files/x", fields: []).encode(contentLength: 1) + [1]
    let bundle = other + (try member("a", [1], key: "a")) + headless
    #expect(try send(bundle).map(\.status) == [404, 201, 400])
    guard case .readBundle(var intake) = plan(contentLength: bundle.count) else {
      return #expect(Bool(false), "no bundle")
    }
    try intake.take(bundle)
    #expect(
      intake.bodyBytes == 1
        && intake.memoryBytes == bundle.count + ProtocolLimits.bundleBytesMax + RecordFilter.blockBytes)
    if case .none = intake.members[0].body {} else { #expect(Bool(false), "\(intake.members[0].body)") }
  }

  /// The core is told of all of them before the store has published one.
  @Test func members_stayWithinTheQuotaTogether() throws {
    let core = CoreHarness(quota: 100)
    let bundle =
      try member("a", [UInt8](repeating: 1, count: 60), key: "a")
      + (try member("b", [UInt8](repeating: 1, count: 60), key: "b")) + (try member("c", [1], key: "c"))
    guard case .readBundle(var intake) = plan(contentLength: bundle.count) else {
      return #expect(Bool(false), "no bundle")
    }
    try intake.take(bundle)
    var replies: [Reply?] = []
    for member in intake.members {
      guard case .ask(let coreRequest) = member.plan else { continue }
      let request = core.makeRequest()
      core.send(coreRequest.event(request, freshID: "fresh-\(request.value)", freeBytes: 1_000_000))
      if case .bodyAdmitted? = core.replies[request]?.last { core.send(member.next(coreRequest, request)) }
      replies.append(core.replies[request]?.last)
    }
    guard replies.count == 3, case .bodyAdmitted? = replies[0], case .refused(let refusal)? = replies[1],
      case .bodyAdmitted? = replies[2]
    else { return #expect(Bool(false), "\(replies)") }
    #expect(refusal.kind == .quotaExceeded)
  }

  @Test(.promises("P70")) func bundleAsAWhole_needsTypeLengthAndCredential() {
    #expect(status(plan(contentLength: 100, type: nil)) == 415)
    #expect(status(plan(contentLength: 100, type: "text/plain")) == 415)
    #expect(status(plan(contentLength: nil)) == 411)
    #expect(status(plan(contentLength: (5 << 20) + 1)) == 413)
    #expect(status(plan(contentLength: 100, token: "other")) == 401)
    #expect(status(plan(contentLength: 5 << 20)) == nil)
    #expect(
      status(
        translation.plan(
          WireRequest(method: "GET", target: "/v1/files", fields: [(HeaderName.authorization, "Bearer \(Self.token)")]))
      )
        == 405)
  }

  @Test func violation_refusesTheWholeBundle() throws {
    let one = try member("a", [1], key: "a")
    let broken = #expect(throws: Refusal.self) { try send(Array(one.dropLast())) }
    #expect(broken?.kind == .badRequest(field: "body"))
    let many = #expect(throws: Refusal.self) { try send((0..<65).flatMap { _ in one }) }
    #expect(many?.kind == .tooLarge(limitBytes: 64))
    #expect(core.replies.isEmpty)
  }

  @Test func answers_areWrittenOneAfterTheOther() throws {
    let bundle = Answer.bundle([.refused(Refusal(.underWay, "later")), Answer(status: 201)])
    #expect(bundle.status == 200 && bundle.contentType == MediaType.bundle)
    let read = try BundleAnswer.read(bundle.body)
    #expect(read.map(\.status) == [409, 201])
    #expect(read[0].fields.map(\.name) == ["Content-Type", "Retry-After", "Content-Length"])
  }
}

import ChunkProtocol
import Integrity
import Lookup
import Promises
import ProtocolReference
import Testing

@testable import ReceiverCore

/// Takes a run through translation, intake and core, as the simulated receiver does.
@Suite struct RunIntakeTests {
  private static let file: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  private let translation: RequestTranslation
  private let core = CoreHarness()

  init() {
    translation = RequestTranslation(credentials: [core.credential], limits: core.limits)
  }

  private func plan(
    _ id: SessionID, contentLength: Int? = 100, type: String? = MediaType.bundle, method: String = "POST",
    token: String = CoreHarness.token
  ) -> RequestPlan {
    var fields = [(name: HeaderName.authorization, value: "Bearer \(token)")]
    if let contentLength { fields.append((HeaderName.contentLength, String(contentLength))) }
    if let type { fields.append((HeaderName.contentType, type)) }
    return translation.plan(WireRequest(method: method, target: "/v1/uploads/\(id.text)/chunks", fields: fields))
  }

  private func status(_ plan: RequestPlan) -> Int? {
    if case .answer(let answer) = plan { answer.status } else { nil }
  }

  private func member(
    _ id: SessionID, _ index: UInt32, _ plain: [UInt8], sending sent: [UInt8]? = nil,
    encoding: ChunkEncoding = .identity, size: Int? = nil, mac: [UInt8]? = nil, target: String? = nil
  ) -> [UInt8] {
    let facts = ChunkChecksums(of: plain)
    let chunk = ChunkHeaders(
      sha256: facts.sha256, crc32c: facts.crc32c, sizeBytes: UInt64(size ?? plain.count), encoding: encoding,
      mac: mac ?? core.mac(plain, index: index, session: id.text, token: CoreHarness.token), contentSHA256: nil)
    let head = BundleMemberHead(
      target: target ?? ProtocolPath.chunk(id: id.text, index: index).text, fields: chunk.fields)
    let body = sent ?? plain
    return head.encode(contentLength: body.count) + body
  }

  private func members(_ id: SessionID, _ file: [UInt8] = file) -> [[UInt8]] {
    CoreHarness.chunks(file, 4).enumerated().map { member(id, UInt32($0), $1) }
  }

  /// A run that the core has let in.
  private func begin(_ id: SessionID) throws -> (intake: RunIntake, request: RequestID) {
    guard case .readRun(var intake) = plan(id) else { throw Refusal(.storeFailed, "no run") }
    let request = core.makeRequest()
    core.send(intake.begin(request))
    let reply = try #require(core.replies[request]?.last)
    #expect(intake.answer(to: reply) == nil)
    return (intake, request)
  }

  /// What the members are answered that are complete, and the run as a whole.
  private func send(_ id: SessionID, _ body: [UInt8]) throws -> (answers: [Answer], refusal: Refusal?) {
    var (intake, request) = try begin(id)
    let (complete, refusal) = intake.takeAll(body)
    let answers = complete.compactMap { answer(to: $0.member, $0.sent) }
    core.send(intake.end(request))
    return (answers, refusal)
  }

  private func answer(to member: RunIntake.Member, _ sent: [UInt8]) -> Answer? {
    guard case .ask(let coreRequest) = member.plan else {
      if case .answer(let answer) = member.plan { return answer }
      return nil
    }
    let request = core.makeRequest()
    core.send(coreRequest.event(request, freshID: "", freeBytes: 1_000_000))
    if case .bodyAdmitted? = core.replies[request]?.last {
      let arrived = member.body.map { body in
        Result { () throws(Refusal) in try body.take(sent).facts }
      }
      core.send(member.next(coreRequest, request, arrived))
    }
    core.runEffects()
    guard let reply = core.replies[request]?.last, case .answer(let answer) = coreRequest.outcome(of: reply) else {
      return nil
    }
    return answer
  }

  @Test(.promises("P33b", "P33d")) func members_areStoredAndAnsweredInTheirOrder() throws {
    let id = core.opened()
    let (answers, refusal) = try send(id, members(id).flatMap { $0 })
    #expect(answers.map(\.status) == [201, 201, 201] && refusal == nil)
    #expect(core.heldIndices(id) == [0, 1, 2])
    #expect(try send(id, members(id)[1]).answers.map(\.status) == [200])
    let commit = core.commit(id, CoreHarness.commitParameters(id, Self.file))
    core.runEffects()
    #expect(core.receipt(commit) != nil)
    #expect(core.core.stages.isEmpty)
  }

  /// Whatever pieces the run comes in, a member is handed out with its last byte and not with the next one's first.
  @Test(.promises("P33f"), arguments: [1, 7, 64, 1000])
  func members_areCompleteWithTheirLastByte(pieceBytes: Int) throws {
    let id = core.opened()
    let all = members(id)
    let ends = all.indices.map { all[...$0].map(\.count).reduce(0, +) }
    var (intake, _) = try begin(id)
    var (arrived, completeAt): (Int, [Int]) = (0, [])
    var rest = all.flatMap { $0 }[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(pieceBytes))
      rest = rest.dropFirst(piece.count)
      arrived += piece.count
      var start = 0
      while true {
        let (count, step) = try piece.withUnsafeBufferPointer { (bytes) throws(Refusal) in
          try intake.take(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[start...])))
        }
        start += count
        if case .ends? = step { completeAt.append(arrived) }
        if step == nil { break }
      }
      #expect(start == piece.count)
    }
    try intake.finish()
    #expect(completeAt == ends.map { min(arrived, ($0 + pieceBytes - 1) / pieceBytes * pieceBytes) })
  }

  @Test(.promises("P33f")) func runThatBreaksOff_leavesWhatWasComplete() throws {
    let id = core.opened()
    let whole = members(id).flatMap { $0 }
    let (answers, refusal) = try send(id, Array(whole.dropLast()))
    #expect(answers.map(\.status) == [201, 201])
    #expect(refusal?.kind == .badRequest(field: "body"))
    #expect(core.heldIndices(id) == [0, 1])
    let malformed = try send(id, members(id)[2] + Array("nonsense\r\n\r\n".utf8))
    #expect(malformed.answers.map(\.status) == [201] && malformed.refusal?.kind == .badRequest(field: "body"))
    #expect(core.heldIndices(id) == [0, 1, 2])
    #expect(try send(id, []).refusal?.kind == .badRequest(field: "body"))
  }

  @Test(.promises("P33c")) func bounds_endTheRunAndNotWhatWasBefore() throws {
    let id = core.opened()
    let many = try send(id, (0..<129).flatMap { member(id, UInt32($0), [1, 2, 3, 4]) })
    #expect(many.answers.count == 128 && many.refusal?.kind == .tooLarge(limitBytes: 128))
    #expect(core.heldIndices(id)?.count == 128)
    let large = try send(id, member(id, 0, [5]) + member(id, 1, [6], size: 32 << 20))
    #expect(large.answers.map(\.status) == [201] && large.refusal?.kind == .tooLarge(limitBytes: 32 << 20))
    #expect(status(plan(id, contentLength: 32 << 20)) == nil)
    #expect(status(plan(id, contentLength: (34 << 20) + 1)) == 413)
  }

  @Test(.promises("P33e")) func members_failByThemselves() throws {
    let id = core.opened()
    let other = core.opened(key: "other")
    let run =
      member(id, 0, [1, 2, 3, 4], mac: [UInt8](repeating: 0, count: 32))
      + member(id, 1, [1, 2, 3, 4], sending: [1, 2, 3, 5]) + member(other, 0, [1, 2, 3, 4])
      + member(id, 2, [1], target: "/v1/files/x") + member(id, 2, [1], target: "/v1/uploads/\(id.text)/chunks/01")
      + member(id, 3, [1, 2, 3, 4, 5]) + member(id, 3, []) + member(id, 3, [1, 2], sending: [1]) + member(id, 4, [9])
    let (answers, refusal) = try send(id, run)
    #expect(answers.map(\.status) == [422, 422, 400, 400, 400, 413, 400, 400, 201] && refusal == nil)
    #expect(core.heldIndices(id) == [4] && core.heldIndices(other) == [])
    let problem = try WireJSON.decode(Problem.self, from: answers[2].body)
    #expect(problem.field == "target")
    #expect(core.core.stages.isEmpty)
  }

  /// A body that the core is going to refuse costs no memory.
  @Test(.promises("P33c")) func bodiesThatCannotBeStored_areNotKept() throws {
    let id = core.opened()
    var (intake, _) = try begin(id)
    let (complete, _) = intake.takeAll(
      member(id, 0, [1, 2, 3, 4, 5]) + member(id, 0, [1, 2], sending: [1]) + member(id, 0, [1], target: "/x")
        + member(id, 0, [1, 2, 3, 4]))
    #expect(complete.map(\.sent) == [[], [], [], [1, 2, 3, 4]])
    #expect(complete.map { $0.member.body?.memoryBytes } == [nil, nil, nil, 4])
  }

  @Test func encodedMember_isThatOfItsPlainBytes() throws {
    let id = core.opened(chunk: 4096)
    let plain = [UInt8](repeating: 9, count: 4096)
    let block = [UInt8](unsafeUninitializedCapacity: LZ4.compressedBytesMax(plain.count)) { target, count in
      count = plain.withUnsafeBytes { LZ4.compress($0, into: UnsafeMutableRawBufferPointer(target)) } ?? 0
    }
    let (answers, _) = try send(
      id,
      member(id, 0, plain, sending: block, encoding: .lz4)
        + member(id, 1, plain, sending: Array(block.dropLast()), encoding: .lz4) + member(id, 2, [1]))
    #expect(answers.map(\.status) == [201, 422, 201])
    #expect(core.heldIndices(id) == [0, 2])
  }

  @Test(.promises("P114")) func filteredMember_isThatOfItsPlainBytes_andALyingOneIsRefusedAlone() throws {
    let plain = [UInt8](0..<100).flatMap { [$0, 0] as [UInt8] }
    let encoding = ChunkEncoding.zstd(try #require(RecordFilter(stride: 2, difference: 2)))
    let frame: [UInt8] = [
      0x28, 0xB5, 0x2F, 0xFD, 0x20, 200, 0x08, 0, 0, 0, 0x1A, 0x03, 0, 1, 0x23, 0x03, 0, 0,
    ]
    let id = core.opened(chunk: 200)
    let (answers, _) = try send(
      id,
      member(id, 0, plain, sending: frame, encoding: encoding)
        + member(id, 1, plain, sending: frame.dropLast(), encoding: encoding) + member(id, 2, [1]))
    #expect(answers.map(\.status) == [201, 422, 201])
    #expect(core.heldIndices(id) == [0, 2])
  }

  @Test(.promises("P33g", "SE7")) func runAsAWhole_needsTypeLengthCredentialAndSession() throws {
    let id = core.opened()
    #expect(status(plan(id, type: nil)) == 415)
    #expect(status(plan(id, contentLength: nil)) == 411)
    #expect(status(plan(id, token: "other")) == 401)
    #expect(status(plan(id, method: "PUT")) == 405)
    #expect(status(plan(id)) == nil)
    func begun(_ id: SessionID) throws -> Int? {
      guard case .readRun(var intake) = plan(id) else { return nil }
      let request = core.makeRequest()
      core.send(intake.begin(request))
      return intake.answer(to: try #require(core.replies[request]?.last))?.status
    }
    #expect(try begun(SessionID("nothing")) == 404)
    #expect(try begun(core.opened(key: "theirs", by: core.other)) == 404)
    #expect(try begun(id) == nil)
    core.putAll(id, Self.file)
    let commit = core.commit(id, CoreHarness.commitParameters(id, Self.file))
    for effect in core.pending { if case .checkCommit = effect { core.run(effect) } }
    #expect(core.isPublishing)
    #expect(try begun(id) == 409)
    core.runEffects()
    #expect(core.receipt(commit) != nil)
    #expect(try begun(id) == 409)
  }

  @Test(.promises("P33h", "P40")) func commit_waitsForARunThatArrives() throws {
    let id = core.opened()
    let (intake, request) = try begin(id)
    let commit = core.commit(id, CoreHarness.commitParameters(id, Self.file))
    core.tick(after: 10_000)
    #expect(core.replies[commit] == nil, "a run is on its way, and none of its chunks has begun")
    _ = core.put(id, 0, [1, 2, 3, 4])
    core.runEffects()
    core.tick(after: 10_000)
    #expect(core.replies[commit] == nil, "the run goes on")
    core.send(intake.end(request))
    core.tick(after: 1999)
    #expect(core.replies[commit] == nil, "within the grace")
    core.tick(after: 1)
    #expect(core.refusal(commit) == .incomplete(missing: [1, 2]))
  }

  @Test(.promises("P33h")) func runThatNeverEnds_delaysTheCommitForABoundedTime() throws {
    let id = core.opened()
    _ = try begin(id)
    let commit = core.commit(id, CoreHarness.commitParameters(id, Self.file))
    core.tick(after: 29_999)
    #expect(core.replies[commit] == nil)
    core.tick(after: 1)
    #expect(core.refusal(commit) == .incomplete(missing: [0, 1, 2]))
  }

  @Test func sessionThatEndsInMidRun_refusesTheRest() throws {
    let id = core.opened()
    var (intake, request) = try begin(id)
    let (complete, _) = intake.takeAll(members(id)[0])
    let abort = core.makeRequest()
    core.send(.abort(abort, core.credential.id, id))
    #expect(answer(to: complete[0].member, complete[0].sent)?.status == 404)
    core.send(intake.end(request))
    #expect(core.core.stages.isEmpty)
  }
}

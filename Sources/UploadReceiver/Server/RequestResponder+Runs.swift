import HummingbirdCore
import NIOCore
import ReceiverCore

/// Runs of chunks: each chunk goes to the core, and from there to the disk, when it is complete, while the rest arrives.
extension RequestResponder {
  func answer(_ run: RunIntake, _ exchange: inout Exchange, _ writer: borrowing ResponseWriter) async -> Answer {
    var run = run
    let request = driver.makeRequestID()
    if let answer = run.answer(to: await driver.ask(request, run.begin)) { return answer }
    await inviteBody(&exchange, writer)
    let (upload, owner) = (run.session.text, run.credential)
    statistics.uploadRequested(upload, of: owner, name: "")
    statistics.chunkRequestBegan(upload, of: owner, on: exchange.connection)
    defer { statistics.chunkRequestEnded(upload, of: owner) }
    let replies = RunReplies()
    var refusal: Refusal?
    do throws(Refusal) {
      try await read(&run, &exchange, replies)
      statistics.runReceived(of: owner)
    } catch {
      refusal = error
    }
    driver.tell(run.end(request))
    // What was complete is stored before the client hears of the request's end.
    let answers = await replies.all
    return refusal.map { .refused($0) } ?? .bundle(answers)
  }

  private func read(
    _ run: inout RunIntake, _ exchange: inout Exchange, _ replies: RunReplies
  ) async throws(Refusal) {
    var chunk: ArrivingChunk?
    var lease: BodyLease?
    defer { if let lease { giveBack(lease) } }
    while var piece = try await exchange.reader.nextPiece() {
      while true {
        let (count, step) = try RequestResponder.take(piece, &run)
        let bytes = piece.readSlice(length: count) ?? ByteBuffer()
        guard let step else { break }
        switch step {
        case .begins(let member):
          lease = try await makeRoom(for: member, of: run, exchange.channel, replies)
          exchange.reader.lease = lease
          chunk = ArrivingChunk(member)
        case .body: chunk?.append(bytes)
        case .ends:
          guard let complete = await chunk.take()?.finish(driver) else { continue }
          exchange.reader.lease = nil
          lease?.endReading()
          store(complete, of: run, lease, replies)
          lease = nil
        }
      }
    }
    try run.finish()
  }

  private static func take(
    _ piece: ByteBuffer, _ run: inout RunIntake
  ) throws(Refusal) -> (count: Int, step: RunIntake.Step?) {
    let result: Result<(count: Int, step: RunIntake.Step?), Refusal> = piece.withUnsafeReadableBytes { bytes in
      Result { () throws(Refusal) in try run.take(bytes) }
    }
    return try result.get()
  }

  /// Each chunk has its own memory, so that a run on a slow line has no more than one.
  private func makeRoom(
    for member: RunIntake.Member, of run: RunIntake, _ channel: any Channel, _ replies: RunReplies
  ) async throws(Refusal) -> BodyLease? {
    guard let body = member.body else { return nil }
    await replies.waitForRoom(body.memoryBytes)
    guard let lease = await takeMemory(body.memoryBytes, of: run.credential, channel) else { throw .noBodyMemory }
    return lease
  }

  private func giveBack(_ lease: BodyLease) {
    lease.endReading()
    budget.give(of: lease)
  }

  /// Hands a chunk to the core, and reads on.
  private func store(_ chunk: ArrivingChunk.Complete, of run: RunIntake, _ lease: BodyLease?, _ replies: RunReplies) {
    let (upload, owner) = (run.session.text, run.credential)
    let bytes = chunk.member.body?.memoryBytes ?? 0
    let place = replies.add(bytes: bytes)
    guard case .ask(let coreRequest) = chunk.member.plan else {
      if case .answer(let answer) = chunk.member.plan { replies.answered(place, bytes: bytes, answer) }
      return
    }
    if case .success(let facts)? = chunk.arrived {
      statistics.chunkReceived(upload, of: owner, bytes: Int(facts.sizeBytes), encodedBytes: chunk.sentBytes)
    }
    let request = driver.makeRequestID()
    driver.submit(
      ReceiverDriver.CompleteRequest(
        request: request, begin: coreRequest.event(request, freshID: "", freeBytes: driver.freeBytes),
        next: chunk.member.next(coreRequest, request, chunk.arrived), body: chunk.plain)
    ) { [self] reply in
      note(reply, to: coreRequest, freshID: "")
      statistics.chunkAnswered(upload, of: owner, wasHeld: reply.wasHeld)
      if let lease { budget.give(of: lease) }
      guard case .answer(let answer) = coreRequest.outcome(of: reply) else {
        return replies.answered(
          place, bytes: bytes, .refused(Refusal(.storeFailed, "the receiver contradicts itself")))
      }
      replies.answered(place, bytes: bytes, answer)
    }
  }
}

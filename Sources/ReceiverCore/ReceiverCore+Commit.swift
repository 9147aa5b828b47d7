import ChunkProtocol
import Lookup
import OrderedCollections

extension ReceiverCore {
  mutating func commit(
    _ request: RequestID, _ credential: CredentialID, _ id: SessionID, _ facts: CommitParameters, receiptID: String
  ) {
    guard let session = session(id, of: credential) else { return refuse(request, gone(id, of: credential)) }
    let event = CoreEvent.commit(request, credential, id, facts, receiptID: receiptID)
    guard !park(event, request, session) else { return }
    if let refusal = commitRefusal(facts, session) { return refuse(request, refusal) }
    switch session.phase {
    case .creating, .recovered:
      refuse(request, .underWay, "the session is being opened")
    case .open:
      beginCommit(request, id, facts, receiptID: receiptID)
    case .committing(let pending):
      if pending.isReplaceable(by: facts) {
        giveUp(id, pending, Refusal(.conflict, "a later commit of this session took the place of this one"))
        beginCommit(request, id, facts, receiptID: receiptID)
      } else {
        join(request, id, facts, pending) { .committing($0) }
      }
    case .publishing(let pending, let receipt) where pending.isRenamed:
      let isSame = pending.isSame(as: facts)
      if !isSame { refuse(request, StoreFailure.unsynced("").refusal) }
      publishOn(id, pending, receipt, since: request, for: isSame ? [request] : [])
    case .publishing(let pending, let receipt): join(request, id, facts, pending) { .publishing($0, receipt) }
    case .published(let receipt):
      guard receipt.answers(facts) else {
        return refuse(request, .conflict, "the session was published as something else")
      }
      reply(request, .receipt(receipt))
    }
  }

  private mutating func beginCommit(
    _ request: RequestID, _ id: SessionID, _ facts: CommitParameters, receiptID: String
  ) {
    let pending = UploadSession.PendingCommit(
      facts: facts, receiptID: receiptID, waiters: [request], deadline: now + limits.commitWaitMax,
      graceDeadline: now + limits.commitGrace)
    sessions[id]?.phase = .committing(pending)
    waitingSessions.append(id)
    evaluateCommit(id)
  }

  /// The store continues a publication that the disk has interrupted after the rename. A client whose file has changed
  /// meanwhile sets it going as well: it learns only from its end that the session is over.
  mutating func publishOn(
    _ id: SessionID, _ pending: UploadSession.PendingCommit, _ receipt: PublicationReceipt, since request: RequestID,
    for waiters: [RequestID] = []
  ) {
    var pending = pending
    pending.waiters = waiters
    pending.resumedBy = request
    pending.isRenamed = false
    startPublication(id, pending, receipt)
  }

  private mutating func startPublication(
    _ id: SessionID, _ pending: UploadSession.PendingCommit, _ receipt: PublicationReceipt
  ) {
    guard let session = sessions[id] else { return }
    sessions[id]?.phase = .publishing(pending, receipt)
    let publication = Publication(
      receipt: receipt, credential: session.facts.credentialID,
      modifiedNanoseconds: pending.facts.modifiedNanoseconds, mode: pending.facts.mode,
      ifExists: pending.facts.ifExists, chunkBytes: UInt32(clamping: session.chunkBytes),
      ownership: pending.facts.ownership)
    publish(publication, pending.latestRequest, .publish(id, publication))
  }

  /// A second request for the same commit gets the first one's answer.
  private mutating func join(
    _ request: RequestID, _ id: SessionID, _ facts: CommitParameters, _ pending: UploadSession.PendingCommit,
    _ phase: (UploadSession.PendingCommit) -> UploadSession.Phase
  ) {
    guard pending.isSame(as: facts) else {
      return refuse(request, .conflict, "another commit of this session is under way")
    }
    guard pending.waiters.count < limits.parkedRequestsMax else {
      return refuse(request, .busy, "this commit is under way; come back")
    }
    var pending = pending
    pending.waiters.append(request)
    // Of the publications that may be replaced it knows more than the first one.
    pending.facts = facts
    sessions[id]?.phase = phase(pending)
  }

  private func commitRefusal(_ facts: CommitParameters, _ session: UploadSession) -> Refusal? {
    if let violation = PublishedName.validate(facts.name) { return Refusal(.nameRefused, violation.description) }
    let limit = fileBytesMax(chunkBytes: session.chunkBytes)
    guard facts.sizeBytes <= limit else { return .fileTooLarge(limit) }
    let count = UploadSession.chunkCount(fileBytes: facts.sizeBytes, chunkBytes: session.chunkBytes)
    guard count == facts.chunkCount else {
      return Refusal(
        .badRequest(field: "chunk_count"),
        "\(facts.sizeBytes) bytes are not \(facts.chunkCount) chunks of \(session.chunkBytes)")
    }
    return nil
  }

  /// Goes on with a commit as far as what is stored allows: computes the verdict on a complete file, waits while chunks
  /// are on their way, and refuses when the time is up.
  ///
  /// A complete file that does not match is given the same time: a chunk that replaces another may be on its way.
  mutating func evaluateCommit(_ id: SessionID) {
    guard let session = sessions[id], case .committing(var pending) = session.phase, pending.checking == nil else {
      return
    }
    // A write in flight may lie beyond the end of the file that would be published, and make it longer.
    let isQuiet = !session.isBeingWritten
    let mayBeComplete = isQuiet && session.held.count >= Int(pending.facts.chunkCount)
    if mayBeComplete, pending.mismatched != session.generation, session.missing(for: pending.facts).isEmpty {
      pending.checking = session.generation
      sessions[id]?.phase = .committing(pending)
      if let verdict = session.proof?.verdict(on: pending.facts) {
        return commitChecked(id, session.generation, verdict)
      }
      let digests = (0..<pending.facts.chunkCount).compactMap { session.held[$0]?.sha256 }
      effects.append(
        .checkCommit(
          CommitCheck(
            session: id, generation: session.generation, digests: digests, merkleRoot: pending.facts.merkleRoot,
            chainTip: pending.facts.chainTip)))
      return
    }
    let isIdle = isQuiet && !session.isArriving
    if now >= pending.deadline || (isIdle && now >= pending.graceDeadline) {
      let missing = session.missing(for: pending.facts)
      giveUp(
        id, pending,
        missing.isEmpty
          ? Refusal(
            .digestMismatch(field: pending.verdict == .otherTip ? "chain_tip" : "merkle_root"),
            "the stored chunks do not make the file that the commit describes")
          : Refusal(.incomplete(missing: missing), "\(missing.count) chunks are missing or have another size"))
    }
  }

  mutating func commitChecked(_ id: SessionID, _ generation: UInt64, _ verdict: CommitVerdict) {
    guard let session = sessions[id], case .committing(var pending) = session.phase,
      pending.checking == generation
    else { return }
    pending.checking = nil
    pending.verdict = verdict
    if verdict != .match { pending.mismatched = generation }
    sessions[id]?.phase = .committing(pending)
    // A chunk that began to be written while the verdict was computed makes it worthless.
    guard verdict == .match, session.generation == generation, !session.isBeingWritten else {
      return evaluateCommit(id)
    }

    let fileID = session.facts.opening.fileID
    let receipt = PublicationReceipt(
      id: pending.receiptID, name: pending.facts.name, sizeBytes: pending.facts.sizeBytes,
      merkleRoot: pending.facts.merkleRoot, chainTip: pending.facts.chainTip, publishedAt: now,
      fileID: fileID.isEmpty ? nil : fileID)
    waitingSessions.takeOut(id)
    startPublication(id, pending, receipt)
  }

  mutating func published(_ id: SessionID, _ result: Result<PublicationResult, StoreFailure>) {
    guard let session = sessions[id], case .publishing(let pending, let receipt) = session.phase else { return }
    defer {
      let key = NameKey(credential: session.facts.credentialID, name: receipt.name)
      endPublishing(key, pending.latestRequest, isPublished: result.isRenamed)
    }
    switch result {
    case .failure(.unsynced(let words)):
      var renamed = pending
      renamed.isRenamed = true
      renamed.waiters = []
      sessions[id]?.phase = .publishing(renamed, receipt)
      for waiter in pending.waiters { refuse(waiter, StoreFailure.unsynced(words).refusal) }
    case .failure(let failure):
      if ends(id, failure) { return }
      giveUp(id, pending, failure.refusal)
      distrust(id, after: failure, chunkCount: pending.facts.chunkCount)
    case .success(let outcome):
      var receipt = receipt
      (receipt.publishedAs, receipt.takenFrom) = (outcome.publishedAs, outcome.takenFrom)
      countPublished(receipt.sizeBytes, replacing: outcome.replacedBytes, for: session.facts.credentialID)
      sessions[id]?.phase = .published(receipt)
      openSessions[session.facts.credentialID]?.takeOut(id)
      sessions[id]?.held = ChunkTable()
      sessions[id]?.heldBytes = 0
      sessions[id]?.heldBeyond = 0
      sessions[id]?.proof = nil
      sessions[id]?.lastChange = now
      finish(Key(credential: session.facts.credentialID, text: session.facts.idempotencyKey), at: now)
      for waiter in pending.waiters { reply(waiter, .receipt(receipt)) }
    }
  }

  /// The commit is refused; the session stays as it is and can be committed again.
  mutating func giveUp(_ id: SessionID, _ pending: UploadSession.PendingCommit, _ refusal: Refusal) {
    sessions[id]?.phase = .open
    waitingSessions.takeOut(id)
    for waiter in pending.waiters { refuse(waiter, refusal) }
  }

  /// A publication that failed may have cut the data at the file's end; after an error of the disk nothing is believed
  /// until it has been read again.
  mutating func distrust(_ id: SessionID, after failure: StoreFailure, chunkCount: UInt32 = .max) {
    guard let session = sessions[id] else { return }
    if case .io = failure {
      sessions[id]?.unverifiedBeyond = session.heldBeyond
      sessions[id]?.unverifiedBytes = session.heldBytes
      sessions[id]?.releaseAll(from: 0)
      sessions[id]?.phase = .recovered(parked: [], isVerifying: false)
    } else {
      sessions[id]?.releaseAll(from: chunkCount)
    }
  }

  /// A chunk request has ended, so the next one may have waited behind it.
  mutating func restartGrace(_ id: SessionID) {
    guard case .committing(var pending) = sessions[id]?.phase else { return }
    pending.graceDeadline = now + limits.commitGrace
    sessions[id]?.phase = .committing(pending)
  }
}

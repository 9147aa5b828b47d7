import Lookup
import ChunkProtocol
import Integrity
import OrderedCollections

extension ReceiverCore {
  mutating func openSession(_ request: RequestID, _ asked: SessionOpeningRequest) {
    let key = Key(credential: asked.credential, text: asked.idempotencyKey)
    if case .session(let id) = keys[key] { _ = session(id, of: asked.credential) }
    if let use = keys[key] { return openAgain(request, asked, use) }
    guard let credential = credentials[asked.credential] else { return refuse(request, .sessionGone) }
    if let refusal = openingRefusal(asked) { return refuse(request, refusal) }
    guard makePlace(for: asked.credential) else {
      return refuse(
        request, .tooManySessions, "too many upload sessions are open; commit or delete some of them first")
    }

    var opening = asked.opening
    opening.chunkBytes = min(opening.chunkBytes, limits.chunkBytesMax)
    let facts = SessionRecord(
      id: asked.candidateID.text, credential: asked.credential.text, idempotencyKey: asked.idempotencyKey,
      opening: opening, requestedChunkBytes: asked.opening.chunkBytes, openedAt: now)
    sessions[asked.candidateID] = UploadSession(
      facts: facts, macKeys: macKeys(credential, facts), phase: .creating(waiters: [request]),
      writesLeft: writesMax(chunkBytes: opening.chunkBytes), lastChange: now)
    keys[key] = .session(asked.candidateID)
    openSessions[asked.credential, default: []].append(asked.candidateID)
    var recorded = facts
    recorded.credential = credential.recordedID.text
    effects.append(.createSession(recorded))
  }

  func macKeys(_ credential: CoreCredential, _ facts: SessionRecord) -> [[UInt8]] {
    credential.macMasterKeys.map {
      ChunkMAC.sessionKey(masterKey: $0, nonce: facts.opening.nonce, sessionID: facts.id)
    }
  }

  private func writesMax(chunkBytes: Int) -> Int {
    let chunks = min(limits.fileBytesMax / UInt64(max(1, chunkBytes)) + 1, UInt64(limits.chunkCountMax))
    return Int(chunks) * limits.writesPerChunkMax
  }

  /// The largest file with chunks of this size.
  func fileBytesMax(chunkBytes: UInt64) -> UInt64 {
    let (bytes, isMore) = chunkBytes.multipliedReportingOverflow(by: UInt64(limits.chunkCountMax))
    return isMore ? limits.fileBytesMax : min(limits.fileBytesMax, bytes)
  }

  private mutating func openingRefusal(_ asked: SessionOpeningRequest) -> Refusal? {
    if let violation = PublishedName.validate(asked.opening.name) {
      return Refusal(.nameRefused, violation.description)
    }
    guard asked.opening.chunkBytes >= limits.chunkBytesMin else {
      return Refusal(.badRequest(field: "chunk_size"), "chunks have at least \(limits.chunkBytesMin) bytes")
    }
    let limit = fileBytesMax(chunkBytes: UInt64(asked.opening.chunkBytes))
    if let size = asked.opening.sizeBytes, size > limit { return .fileTooLarge(limit) }
    return spaceRefusal(asked.opening.sizeBytes ?? 0, for: asked.credential, freeBytes: asked.freeBytes)
  }

  /// A client that dies may leave a session behind that it never heard of. These add up until they expire, and then nothing of
  /// that client would get through any more; so of too many the one goes that was idle for longest.
  private mutating func makePlace(for credential: CredentialID) -> Bool {
    guard let open = openSessions[credential], open.count >= limits.openSessionsPerCredential else { return true }
    let idle = open.compactMap { sessions[$0] }.filter { $0.isIdle && now - $0.lastChange >= limits.idleSessionAgeMin }
    guard let oldest = idle.min(by: { ($0.lastChange, $0.facts.id) < ($1.lastChange, $1.facts.id) }) else {
      return false
    }
    remove(oldest, because: .sessionGone)
    effects.append(.note(.displaced(oldest.facts)))
    return true
  }

  /// The same key again: the same session, unless the key was for something else.
  private mutating func openAgain(_ request: RequestID, _ asked: SessionOpeningRequest, _ use: KeyUse) {
    guard case .session(let id) = use, let session = sessions[id] else {
      return refuse(request, .idempotencyMismatch, "this Idempotency-Key was used for a whole file")
    }
    var opening = session.facts.opening
    opening.chunkBytes = session.facts.requestedChunkBytes
    guard opening == asked.opening, isSameName(opening.name, asked.opening.name) else {
      return refuse(request, .idempotencyMismatch, "this Idempotency-Key opened a session for something else")
    }
    if case .creating(var waiters) = session.phase {
      guard waiters.count < limits.parkedRequestsMax else {
        return refuse(request, .busy, "this session is being opened; come back")
      }
      waiters.append(request)
      sessions[id]?.phase = .creating(waiters: waiters)
      return
    }
    reply(
      request,
      .sessionOpened(
        session.facts, isNew: false, expiresAt: expiry(of: session), published: session.published,
        isBased: session.isBased))
  }

  mutating func sessionCreated(
    _ id: SessionID, _ result: Result<SpaceReservation, StoreFailure>, _ published: PublishedContent?
  ) {
    guard let session = sessions[id], case .creating(let waiters) = session.phase else { return }
    switch result {
    case .success(let reservation): sessions[id]?.reservation = reservation
    case .failure(let failure):
      forget(session)
      for waiter in waiters { refuse(waiter, failure.refusal) }
      effects.append(.removeSession(id))
      return
    }
    let base = published.flatMap { mayTake($0, asBaseOf: session.facts) ? $0 : nil }
    let isBased = base != nil
    // What it begins with is copied and read at the first touch, behind which every request waits, as after a restart.
    sessions[id]?.phase = isBased ? .recovered(parked: [], isVerifying: false) : .open
    sessions[id]?.published = published
    sessions[id]?.isBased = isBased
    if let base, session.facts.opening.sizeBytes == nil {
      // The copy takes its space from now on, and what is stored of it as soon as it has been read.
      sessions[id]?.unverifiedBytes = base.sizeBytes
      sessions[id]?.unverifiedBeyond = base.sizeBytes
    }
    for (position, waiter) in waiters.enumerated() {
      reply(
        waiter,
        .sessionOpened(
          session.facts, isNew: position == 0, expiresAt: expiry(of: session), published: published,
          isBased: isBased))
    }
  }

  /// What leaves its size open takes at least as much as what it begins with, which has to fit into a quota.
  private func mayTake(_ base: PublishedContent, asBaseOf facts: SessionRecord) -> Bool {
    guard facts.opening.takesBase == true else { return false }
    guard facts.opening.sizeBytes == nil, let quota = credentials[facts.credentialID]?.quotaBytes else { return true }
    let used = usedBytes(of: facts.credentialID)
    return used <= quota && base.sizeBytes <= quota - used
  }

  mutating func querySession(_ request: RequestID, _ credential: CredentialID, _ id: SessionID) {
    guard let session = session(id, of: credential) else { return refuse(request, gone(id, of: credential)) }
    guard !park(.querySession(request, credential, id), request, session) else { return }
    reply(request, .held(heldChunks(of: session)))
  }

  private func heldChunks(of session: UploadSession) -> HeldChunks {
    var receipt: PublicationReceipt?
    if case .published(let facts) = session.phase { receipt = facts }
    return HeldChunks(
      facts: session.facts, chunks: session.held, expiresAt: expiry(of: session), receipt: receipt,
      knownChainTip: session.proof?.chainTip)
  }

  /// What is published is on the disk already.
  mutating func secureSession(_ request: RequestID, _ credential: CredentialID, _ id: SessionID) {
    guard let session = session(id, of: credential) else { return refuse(request, gone(id, of: credential)) }
    guard !park(.secureSession(request, credential, id), request, session) else { return }
    if case .published = session.phase { return reply(request, .held(heldChunks(of: session))) }
    if let refusal = relianceRefusal(session) { return refuse(request, refusal) }
    guard securing.count < limits.parkedRequestsMax else {
      return refuse(request, .busy, "other sessions are being brought to the disk; come back")
    }
    sessions[id]?.mayHoldOnlyCopy = true
    sessions[id]?.securingCount += 1
    securing[request] = session.held
    effects.append(.secureSession(request, id))
  }

  /// Chunks that came or were replaced meanwhile are not among what is answered.
  mutating func sessionSecured(_ request: RequestID, _ id: SessionID, _ failure: StoreFailure?) {
    sessions[id]?.securingCount -= 1
    storeWorkEnded(ofGone: id)
    guard let secured = securing.removeValue(forKey: request) else { return }
    if ends(id, failure) { return refuse(request, failure?.refusal ?? .sessionGone) }
    if let failure {
      refuse(request, failure.refusal)
      // A commit finds it out for itself. Otherwise nothing would ever be on the disk for certain again.
      if case .open = sessions[id]?.phase { distrust(id, after: failure) }
      return
    }
    guard let session = sessions[id] else { return refuse(request, .sessionGone) }
    var held = heldChunks(of: session)
    held.chunks = secured.intersection(session.held)
    held.isDurable = true
    held.knownChainTip = nil
    reply(request, .held(held))
  }

  mutating func abort(_ request: RequestID, _ credential: CredentialID, _ id: SessionID) {
    guard let session = session(id, of: credential) else { return refuse(request, gone(id, of: credential)) }
    switch session.phase {
    case .creating, .publishing:
      refuse(request, .underWay, "the session is being opened or published; ask what became of it")
    case .published:
      refuse(request, .conflict, "the session is published already")
    case .recovered, .open, .committing:
      remove(session, because: .sessionGone)
      reply(request, .ended)
    }
  }

  /// Ends a session: the requests that wait for it are answered, its files are deleted.
  mutating func remove(_ session: UploadSession, because refusal: Refusal) {
    let id = session.facts.sessionID
    end(session, because: refusal)
    // A write that comes to the store after the removal would leave files of an unknown session.
    let work = session.storeWorkCount
    if work > 0 { leaving[id] = work } else { effects.append(.removeSession(id)) }
  }

  /// Ends a session here and leaves its files as they are.
  mutating func end(_ session: UploadSession, because refusal: Refusal) {
    switch session.phase {
    case .creating(let waiters): for waiter in waiters { refuse(waiter, refusal) }
    case .recovered(let parked, _): for event in parked { refuse(event.request, refusal) }
    case .committing(let pending), .publishing(let pending, _):
      for waiter in pending.waiters { refuse(waiter, refusal) }
    case .open, .published: break
    }
    // Chunk requests in flight are answered when their next event finds no session.
    for (_, queue) in session.writing.sorted() {
      for waiting in queue.waiting {
        stages[waiting] = nil
        refuse(waiting, refusal)
      }
    }
    forget(session)
  }

  /// The store has done something for a session that is gone.
  mutating func storeWorkEnded(ofGone id: SessionID) {
    guard let work = leaving.removeValue(forKey: id) else { return }
    if work > 1 { leaving[id] = work - 1 } else { effects.append(.removeSession(id)) }
  }

  private mutating func forget(_ session: UploadSession) {
    let id = session.facts.sessionID
    sessions.takeOut(id)
    waitingSessions.takeOut(id)
    openSessions[session.facts.credentialID]?.takeOut(id)
    let key = Key(credential: session.facts.credentialID, text: session.facts.idempotencyKey)
    if case .session(id) = keys[key] { keys[key] = nil }
  }
}

extension ReceiverCore {
  /// Takes over what the store found at the start. Chunks are not believed until ``CoreEvent/sessionVerified(_:_:)``.
  public mutating func recover(
    open facts: SessionRecord, lastChange: Milliseconds, recordedChunks: ChunkTable = ChunkTable(),
    mayHoldOnlyCopy: Bool = false
  ) {
    recover(facts, .recovered(parked: [], isVerifying: false), lastChange: lastChange)
    sessions[facts.sessionID]?.mayHoldOnlyCopy = mayHoldOnlyCopy
    guard let session = sessions[facts.sessionID] else { return }
    sessions[facts.sessionID]?.unverifiedBytes =
      recordedChunks.written.sum { UInt64($1.sizeBytes) }
      &+ UInt64(recordedChunks.zeros.count) &* session.chunkBytes
    sessions[facts.sessionID]?.unverifiedBeyond =
      recordedChunks.written.sum { session.bytesBeyond($0, $1.sizeBytes) }
      &+ session.bytesBeyond(recordedChunks.zeros)
  }

  /// Takes over a session that was published before the start.
  public mutating func recover(
    published facts: SessionRecord, receipt: PublicationReceipt, mayHoldOnlyCopy: Bool = false
  ) {
    let time = younger(receipt.publishedAt)
    recover(facts, .published(receipt), lastChange: time)
    sessions[facts.sessionID]?.mayHoldOnlyCopy = mayHoldOnlyCopy
    finish(Key(credential: owner(facts.credentialID), text: facts.idempotencyKey), at: time)
  }

  /// Takes over a whole file that was published before the start.
  public mutating func recover(_ file: RecoveredWholeFile) {
    let key = Key(credential: owner(file.credential), text: file.idempotencyKey)
    keys[key] = .wholeFile(file.use)
    finish(key, at: younger(file.publishedAt))
  }

  private mutating func recover(_ facts: SessionRecord, _ phase: UploadSession.Phase, lastChange: Milliseconds) {
    var facts = facts
    facts.credential = owner(facts.credentialID).text
    // The session of a token that was taken away stays until it expires: the token may come back.
    let keys = credentials[facts.credentialID].map { macKeys($0, facts) } ?? []
    sessions[facts.sessionID] = UploadSession(
      facts: facts, macKeys: keys, phase: phase, writesLeft: writesMax(chunkBytes: facts.opening.chunkBytes),
      lastChange: lastChange)
    let key = Key(credential: facts.credentialID, text: facts.idempotencyKey)
    // Its client may have begun anew while it could not be read.
    if case .session(let other)? = self.keys[key], sessions[other] != nil, case .recovered = phase {
    } else {
      self.keys[key] = .session(facts.sessionID)
    }
    if case .published = phase { return }
    openSessions[facts.credentialID, default: []].append(facts.sessionID)
  }

  /// When a receipt was given, were there no time in which no receiver ran.
  private func younger(_ time: Milliseconds) -> Milliseconds {
    max(time, min(time, earlierRun.last) &+ earlierRun.pause)
  }

  /// Whose it is that a journal names so.
  private func owner(_ id: CredentialID) -> CredentialID { owners[id] ?? id }

  /// Keeps an event until the session is verified, and starts that; false when there is nothing to wait for.
  mutating func park(_ event: CoreEvent, _ request: RequestID, _ session: UploadSession) -> Bool {
    guard case .recovered(var parked, let isVerifying) = session.phase else { return false }
    let id = session.facts.sessionID
    guard parked.count < limits.parkedRequestsMax else {
      refuse(request, .restarting)
      return true
    }
    parked.append(.init(request: request, event: event, deadline: now + limits.verificationWaitMax))
    sessions[id]?.phase = .recovered(parked: parked, isVerifying: true)
    waitingSessions.append(id)
    if !isVerifying { effects.append(.verifySession(id, takesBase: mayBegin(withBase: session))) }
    return true
  }

  /// What it begins with was let in at its opening. A restart forgets that of a session that leaves its size open, and whether the base fits
  /// into the quota now is not known: such a session begins empty.
  private func mayBegin(withBase session: UploadSession) -> Bool {
    session.isBased || session.facts.opening.sizeBytes != nil
      || credentials[session.facts.credentialID]?.quotaBytes == nil
  }

  mutating func sessionVerified(_ id: SessionID, _ result: Result<ChunkTable, StoreFailure>) {
    storeWorkEnded(ofGone: id)
    guard let session = sessions[id], case .recovered(let parked, _) = session.phase else { return }
    sessions[id]?.phase = .recovered(parked: parked, isVerifying: false)
    if case .failure(let failure) = result, ends(id, failure) { return }
    waitingSessions.takeOut(id)
    switch result {
    case .success(let chunks):
      sessions[id]?.phase = .open
      sessions[id]?.unverifiedBeyond = 0
      sessions[id]?.unverifiedBytes = 0
      // What was being written when that began is known by its own end.
      for (index, chunk) in chunks.written.sorted()
      where session.held[index] == nil && session.writing[index] == nil && !session.isBeingZeroed(index) {
        sessions[id]?.hold(chunk, at: index)
      }
      sessions[id]?.holdZeros(chunks.zeros.subtracting(session.knownAlready))
      for event in parked { dispatch(event.event) }
    case .failure(let failure):
      // Tried again at the next touch.
      sessions[id]?.phase = .recovered(parked: [], isVerifying: false)
      for event in parked { refuse(event.request, failure.refusal) }
    }
  }
}

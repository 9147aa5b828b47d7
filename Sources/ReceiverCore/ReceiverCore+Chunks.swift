import ChunkProtocol
import Integrity
import Lookup
import OrderedCollections

extension ReceiverCore {
  mutating func beginChunk(_ request: RequestID, _ head: ChunkHead) {
    guard let session = session(head.session, of: head.credential) else {
      return refuse(request, gone(head.session, of: head.credential))
    }
    guard !park(.beginChunk(request, head), request, session) else { return }
    guard admits(request, session) else { return }
    if let refusal = chunkRefusal(head, session) { return refuse(request, refusal) }
    stages[request] = .chunk(head)
    sessions[head.session]?.inFlightCount += 1
    sessions[head.session]?.inFlightBeyond &+= session.bytesBeyond(head.index, head.announced.facts.sizeBytes)
    reply(request, .bodyAdmitted)
  }

  /// A commit waits for a run as for a chunk, also while none of its chunks has begun.
  mutating func beginRun(_ request: RequestID, _ credential: CredentialID, _ id: SessionID) {
    guard let session = session(id, of: credential) else { return refuse(request, gone(id, of: credential)) }
    guard !park(.beginRun(request, credential, id), request, session) else { return }
    guard admits(request, session) else { return }
    stages[request] = .run(id)
    sessions[id]?.runs.insert(request)
    reply(request, .runAdmitted(chunkBytesMax: Int(clamping: session.chunkBytes)))
  }

  /// Its chunks are answered, or count by themselves.
  mutating func endRun(_ request: RequestID) {
    guard case .run(let id) = stages[request] else { return }
    stages[request] = nil
    sessions[id]?.runs.remove(request)
    chunkRequestEnded(id)
  }

  /// Whether the session takes chunks now; refuses the request where it does not.
  mutating func admits(_ request: RequestID, _ session: UploadSession) -> Bool {
    switch session.phase {
    case .open, .committing: return true
    case .publishing(let pending, let receipt) where pending.isRenamed:
      refuse(request, StoreFailure.unsynced("").refusal)
      publishOn(session.facts.sessionID, pending, receipt, since: request)
    case .creating, .recovered, .publishing:
      refuse(request, .underWay, "the session takes no chunks while it is being published")
    case .published: refuse(request, .conflict, "the session is published already")
    }
    return false
  }

  /// Why a chunk is not taken, as far as its header tells.
  private mutating func chunkRefusal(_ head: ChunkHead, _ session: UploadSession) -> Refusal? {
    let size = UInt64(head.announced.facts.sizeBytes)
    if size > session.chunkBytes {
      return Refusal(
        .tooLarge(limitBytes: session.chunkBytes), "this session's chunks have at most \(session.chunkBytes) bytes")
    }
    guard size > 0 else {
      return Refusal(.badRequest(field: HeaderName.chunkSize), "a chunk has at least one byte")
    }
    if let refusal = head.announced.lengthRefusal { return refusal }
    let (start, isTooFar) = UInt64(head.index).multipliedReportingOverflow(by: session.chunkBytes)
    let limit = fileBytesMax(chunkBytes: session.chunkBytes)
    guard !isTooFar, start < limit, size <= limit - start else { return .fileTooLarge(limit) }
    guard session.writesLeft > 0 else {
      return .replacedTooOften
    }
    let isReserved =
      session.held[head.index] != nil
      || (session.reservation == .reserved && start + size <= session.facts.opening.sizeBytes ?? 0)
    // Writing over what is there, or into what was set aside, takes no more space. A quota counts the stated size.
    return spaceRefusal(isReserved ? 0 : size, for: head.credential, freeBytes: head.freeBytes)
  }

  mutating func chunkArrived(_ request: RequestID, _ arrived: ChunkChecksums) {
    guard case .chunk(let head) = stages[request] else { return }
    guard let session = sessions[head.session] else {
      return endChunk(request, head, gone(head.session, of: head.credential))
    }
    guard session.takesChunks else {
      return endChunk(request, head, Refusal(.underWay, "the session is being published"))
    }
    let mac = MACSubject(keys: session.macKeys, sessionID: head.session.text, nonce: session.facts.opening.nonce)
    if let refusal = contentRefusal(head.announced, arrived, index: head.index, mac) {
      return endChunk(request, head, refusal)
    }
    guard !session.isBeingZeroed(head.index) else {
      return endChunk(request, head, Refusal(.underWay, "the chunk is being written as zeros; come back"))
    }
    stages[request] = .chunkToWrite(head)
    if sessions[head.session]?.writing[head.index] != nil {
      sessions[head.session]?.writing[head.index]?.waiting.append(request)
    } else {
      startWrite(request, head)
    }
  }

  /// Writes the chunk, unless the same bytes are stored. Nothing else writes this chunk now.
  private mutating func startWrite(_ request: RequestID, _ head: ChunkHead) {
    guard let session = sessions[head.session] else {
      return endChunk(request, head, gone(head.session, of: head.credential))
    }
    guard session.takesChunks else {
      return endChunk(request, head, Refusal(.underWay, "the session is being published"))
    }
    guard !session.isBeingZeroed(head.index) else {
      return endChunk(request, head, Refusal(.underWay, "the chunk is being written as zeros; come back"))
    }
    let facts = head.announced.facts
    if session.held[head.index] == facts { return endChunk(request, head, wasHeld: true) }
    sessions[head.session]?.release(head.index)
    sessions[head.session]?.writing[head.index] = .init(running: request)
    sessions[head.session]?.writesLeft -= 1
    sessions[head.session]?.lastChange = now
    effects.append(
      .writeChunk(
        request, head.session, index: head.index, offset: UInt64(head.index) &* session.chunkBytes, facts))
  }

  mutating func chunkWritten(_ request: RequestID, _ failure: StoreFailure?) {
    guard case .chunkToWrite(let head) = stages[request] else { return }
    guard let queue = sessions[head.session]?.writing.removeValue(forKey: head.index) else {
      storeWorkEnded(ofGone: head.session)
      return endChunk(request, head, gone(head.session, of: head.credential))
    }
    if failure == nil { sessions[head.session]?.hold(head.announced.facts, at: head.index) }
    if let failure, ends(head.session, failure) {
      for waiting in queue.waiting {
        guard case .chunkToWrite(let head) = stages[waiting] else { continue }
        endChunk(waiting, head, failure.refusal)
      }
      return endChunk(request, head, failure.refusal)
    }
    // First, because the answer may set off the publication of what is stored now.
    writeNext(queue.waiting, head)
    if let failure {
      endChunk(request, head, failure.refusal)
    } else {
      endChunk(request, head, wasHeld: false)
    }
  }

  /// Lets those that waited for the place have it, one after the other.
  private mutating func writeNext(_ waiting: [RequestID], _ previous: ChunkHead) {
    var remaining = waiting[...]
    while let next = remaining.popFirst() {
      guard case .chunkToWrite(let head) = stages[next] else { continue }
      startWrite(next, head)
      if sessions[previous.session]?.writing[previous.index] != nil {
        sessions[previous.session]?.writing[previous.index]?.waiting = Array(remaining)
        return
      }
    }
  }

  mutating func chunkFailed(_ request: RequestID, _ refusal: Refusal) {
    guard case .chunk(let head) = stages[request] else { return }
    endChunk(request, head, refusal)
  }

  private mutating func endChunk(_ request: RequestID, _ head: ChunkHead, _ refusal: Refusal) {
    endChunk(request, head, answer: .refused(refusal))
  }

  private mutating func endChunk(_ request: RequestID, _ head: ChunkHead, wasHeld: Bool) {
    endChunk(request, head, answer: .chunkStored(wasHeld: wasHeld))
  }

  private mutating func endChunk(_ request: RequestID, _ head: ChunkHead, answer: Reply) {
    stages[request] = nil
    reply(request, answer)
    guard let session = sessions[head.session] else { return }
    sessions[head.session]?.inFlightCount -= 1
    let bytes = session.bytesBeyond(head.index, head.announced.facts.sizeBytes)
    sessions[head.session]?.inFlightBeyond -= min(session.inFlightBeyond, bytes)
    chunkRequestEnded(head.session)
  }

  mutating func chunkRequestEnded(_ id: SessionID) {
    restartGrace(id)
    evaluateCommit(id)
  }
}

extension ReceiverCore {
  /// What a MAC is computed with.
  struct MACSubject {
    /// One for each token of the user; any of them may have made it.
    var keys: [[UInt8]]
    var sessionID: String
    var nonce: [UInt8]
  }

  /// Why a body is not what was announced; nil when it is.
  func contentRefusal(
    _ announced: AnnouncedBytes, _ arrived: ChunkChecksums, index: UInt32, _ subject: MACSubject
  ) -> Refusal? {
    let expected = announced.facts
    guard arrived.sizeBytes == expected.sizeBytes else {
      return Refusal(
        .badRequest(field: HeaderName.chunkSize),
        "\(arrived.sizeBytes) bytes arrived, \(expected.sizeBytes) were announced")
    }
    guard arrived.sha256 == expected.sha256 else {
      return Refusal(
        .digestMismatch(field: HeaderName.chunkSHA256),
        "the bytes that arrived do not have the SHA-256 that was announced")
    }
    guard arrived.crc32c == expected.crc32c else {
      return Refusal(
        .digestMismatch(field: HeaderName.chunkCRC32C),
        "the bytes that arrived do not have the CRC32C that was announced")
    }
    let isMeant = announced.mac.map { announcedMAC in
      subject.keys.contains { key in
        let mac = ChunkMAC.mac(
          key: key, index: index, sizeBytes: UInt64(expected.sizeBytes), chunkSHA256: expected.sha256,
          sessionID: subject.sessionID, nonce: subject.nonce)
        return HMACSHA256.isEqual(announcedMAC, mac)
      }
    }
    guard isMeant == true else {
      return Refusal(
        .tagMismatch,
        "the chunk's tag is wrong: it was changed on the way, or the two sides hold different credentials")
    }
    return nil
  }
}

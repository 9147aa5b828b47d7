import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Sessions of active files: created, queried, committed, given up. Their answers are handled in `UploadSchedule+Sessions`.
extension UploadSchedule {
  /// Another session, and every chunk again.
  mutating func beginSession(of file: inout FileUpload, at now: ClockReading) {
    let session = makeSession(for: file, at: now)
    file.session = session
    file.content.begin(
      ChunkTransfer(plan: ChunkPlan(sizeBytes: file.snapshot.sizeBytes, chunkBytes: session.chunkBytes)))
  }

  /// A session that is still to be opened.
  mutating func makeSession(for file: FileUpload, at now: ClockReading) -> UploadSession {
    UploadSession(
      state: .wanted, id: nil, nonce: makeNonce(),
      chunkBytes: newChunkBytes(for: file),
      epoch: file.snapshot.epoch,
      openedAtSeconds: now.wallMilliseconds / 1000, owner: owner)
  }

  /// The chunk length of a new session for this file. A file that is still written, and that has outgrown the length
  /// used for unknown sizes, gets the length for four times its size: it is restarted a few times at most.
  func newChunkBytes(for file: FileUpload) -> Int {
    if let bytes = chunkBytesToCopy(for: file) { return bytes }
    let sizeBytes = file.snapshot.sizeBytes
    guard file.isOpen else { return newChunkBytes(forFileOf: sizeBytes) }
    let usual = newChunkBytes(forFileOf: nil)
    guard !destination.abilities.takes(chunksOf: usual, forFileOf: sizeBytes) else { return usual }
    return newChunkBytes(forFileOf: max(sizeBytes, sizeToCome(of: sizeBytes)))
  }

  /// The size that a file that is still written may reach before its upload is restarted.
  private func sizeToCome(of sizeBytes: UInt64) -> UInt64 {
    min(fileBytesMax ?? .max, sizeBytes < .max / 4 ? sizeBytes * 4 : sizeBytes)
  }

  /// The chunk length of the published content, where the server copies equal chunks; nil elsewhere, and where the file
  /// or a request does not allow that length.
  private func chunkBytesToCopy(for file: FileUpload) -> Int? {
    let (bytes, sizeBytes) = (file.publication.chunkBytes, file.snapshot.sizeBytes)
    guard destination.abilities.copiesChunks, bytes >= destination.abilities.chunkBytesMin, takesBase(file),
      bytes <= min(limits.bufferBytes, destination.sizes.requestBytesMax),
      destination.abilities.takes(
        chunksOf: bytes, forFileOf: file.isOpen ? max(sizeBytes, sizeToCome(of: sizeBytes)) : sizeBytes)
    else { return nil }
    return bytes
  }

  /// The chunk length of a new session; nil is a size that is not known yet.
  func newChunkBytes(forFileOf sizeBytes: UInt64?) -> Int {
    chunkBytes(wantedChunkBytes(forFileOf: sizeBytes), forFileOf: sizeBytes)
  }

  private func wantedChunkBytes(forFileOf sizeBytes: UInt64?) -> Int {
    guard limits.adaptsChunkBytes else { return limits.chunkBytes }
    if destination.abilities.takesRuns, destination.forms.runs != .none { return runChunkBytes(forFileOf: sizeBytes) }
    return link.tier.chunkBytes(
      forFileOf: sizeBytes, streams: min(pipeline.parallelism, link.streams), bufferBytes: limits.bufferBytes)
  }

  /// Ends the session at the server. One that is still being opened is ended when the answer comes. A session with the
  /// only copy stays, unless the file is gone.
  mutating func abortSession(_ file: inout FileUpload, endsParts: Bool = false, at now: ClockReading) {
    guard let session = file.session, endsParts || !file.mustKeepSession else { return }
    file.session = nil
    guard let identity = session.identity else { return }
    discard(identity, of: session.owner, at: now)
    if destination.abilities.appendSequences == .growing {
      for token in session.held.distinctTokens {
        discard(SessionIdentity(id: token, nonce: []), of: session.owner, at: now)
      }
    }
    // The record is removed after them: as long as it is there, it names the session to end.
    actions.append(.removeResume(file.id))
  }

  mutating func sendControl(_ id: FileID, at now: ClockReading) {
    guard requests.controlCount < limits.controlRequests, maySend(at: now), let entry = files.entry(id),
      entry.file.phase == .ready, !entry.file.isWholeFile, let state = entry.file.session?.state,
      wantsRequest(entry.file, state), mayProbe(with: entry.file)
    else { return }
    var file = entry.file
    switch state {
    case .wanted:
      guard mayOpenSession(at: now), !waitsForHoles(file) else { return }
      openSession(&file, at: now)
    case .unconfirmed: querySession(&file, at: now)
    case .open, .published:
      if endDisproven(id, at: now) { return }
      guard publish(&file, at: now) else {
        files[id] = file
        if case .published(let receipt) = state { publishedOtherwise(id, as: receipt, at: now) }
        return
      }
    case .opening, .querying: return
    }
    files[id] = file
  }

  /// Without a closure, which would copy the schedule at each event.
  private func wantsRequest(_ file: FileUpload, _ state: UploadSession.State) -> Bool {
    guard state.wantsRequest else { return false }
    guard state.isKnown else { return true }
    guard let transfer = file.transfer else { return false }
    return mayCommit(transfer)
  }

  mutating func openSession(_ file: inout FileUpload, at now: ClockReading) {
    guard var session = file.session else { return }
    let path = openingPath(of: file) ?? file.path
    if destination.abilities.bindsNameAtOpening { session.bind(to: path) }
    var opening = SessionOpening(
      fileID: file.id, revision: session.epoch, nonce: session.nonce, path: path,
      sizeBytes: isLengthOpen(file) || isSparse(file) ? nil : file.snapshot.sizeBytes, chunkBytes: session.chunkBytes,
      modifiedNanoseconds: file.snapshot.modifiedNanoseconds, mode: file.snapshot.mode)
    opening.takesBase = takesBase(file)
    session.opening(send(.openSession(opening), for: file.id, at: now))
    file.session = session
  }

  /// The file was published before, and the published content may contain much of the present one, or, under another
  /// name, all of it. Not for a file that was rewritten from its beginning, for which the server would copy in vain;
  /// nor where the session is to prove the earlier content.
  private func takesBase(_ file: FileUpload) -> Bool {
    let contentsBefore = file.isOpen ? file.revision : max(file.revision, 1) - 1
    return (file.receipt != nil || contentsBefore > 0 && !file.snapshot.isWrittenAnew)
      && file.snapshot.interruption == nil && file.wantedSeal == nil && !file.lacksParts && file.progress.lost == nil
  }

  /// Whether the session leaves its length open. An upload to which chunks are appended is published by the last byte
  /// of its declared length, so none is declared for a held file.
  private func isLengthOpen(_ file: FileUpload) -> Bool {
    file.isOpen || destination.abilities.appendSequences == .one && file.phase == .held
  }

  mutating func querySession(_ file: inout FileUpload, at now: ClockReading) {
    guard var session = file.session, let identity = session.identity else { return }
    session.query(
      by: send(
        .querySession(identity), for: file.id, opensConnection: file.turn.needsNewConnection, at: now))
    file.session = session
  }

  /// Commits when no writer has the file open and every chunk is acknowledged, or, where the server waits for them, in
  /// flight. Then the answer comes one round trip after the tail and not two
  /// (docs/design/scheduling.md#the-end-of-an-upload). The published content is that of one epoch at which no program
  /// was writing, because the proof covers every chunk. False when the server has published the session as something
  /// else.
  private mutating func publish(_ file: inout FileUpload, at now: ClockReading) -> Bool {
    guard let session = file.session, let identity = session.identity, let transfer = file.transfer,
      file.publishing == nil, !file.isOpen, file.growth == nil, mayCommit(transfer),
      let proof = transfer.proof(sessionID: identity.id), let path = file.nextPath(limits)
    else { return true }
    guard session.boundPath.map({ $0 == path }) ?? true else {
      leaveTransfer(&file)
      abortSession(&file, at: now)
      beginSession(of: &file, at: now)
      return true
    }
    file.progress.proved(merkleRoot: proof.merkleRoot, chainTip: proof.chainTip)
    seal(&file, proof, chunkBytes: session.chunkBytes)
    if case .published(let receipt) = session.state {
      return acceptEarlierPublication(receipt, of: &file, at: now)
    }
    guard mayPublish(path, of: file) else { return true }
    guard !session.lostPaths.contains(path) else {
      // An answer that it is published would prove nothing: the server is asked first.
      file.session?.doubt()
      return true
    }
    guard let chunks = committedChunks(of: session, transfer) else {
      // The server is asked for its names of the chunks that it holds.
      file.session?.doubt()
      return true
    }
    let commit = SessionCommit(
      session: identity, sizeBytes: transfer.plan.sizeBytes, chunkCount: transfer.plan.count,
      merkleRoot: proof.merkleRoot, chainTip: proof.chainTip, path: path,
      modifiedNanoseconds: file.snapshot.modifiedNanoseconds, mode: file.snapshot.mode, chunks: chunks,
      fileID: file.id, chunkBytes: session.chunkBytes)
    let request = send(.commit(commit), for: file.id, at: now)
    let epoch = file.snapshot.epoch
    file.session?.tries(path, epoch: epoch)
    file.progress.commits(epoch: epoch)
    file.publication.begin(
      FileUpload.Publishing(
        request: request, path: path, epoch: epoch, nonce: file.session?.nonce ?? [],
        isOnce: destination.abilities.atMostOnceScope == .everything))
    timers.insert(.publication(request), at: now.monotonic + Self.publicationPatience)
    return true
  }

  /// Some servers assemble a large file for minutes, and one may do nothing and never end. Reported after 20 s, 60 s,
  /// and so on, in longer and longer steps.
  mutating func noteSlowPublication(_ request: HTTPRequestID, at now: ClockReading) {
    guard let underway = requests[request], case .commit = underway.order, let id = underway.file,
      let file = files.entry(id)?.file,
      let path = file.publishing?.path
    else { return }
    // A commit that travels with the last chunks waits for them. When one has failed, or rests, that is to be reported instead.
    guard file.phase == .ready || file.phase == .writing, file.transfer?.isDone != false else {
      return timers.insert(.publication(request), at: now.monotonic + Self.publicationPatience)
    }
    let time = now.monotonic - underway.sentAt
    files[id]?.note(
      FileStatus.Failure(
        code: Self.publishingCode,
        message: "The server has all of the file and has been publishing it for \(time.components.seconds) s; its "
          + "answer is waited for.", at: now))
    actions.append(.report(.publishing(id, path, for: time)))
    actions.append(.showStatus(id))
    timers.insert(.publication(request), at: now.monotonic + time + time)
  }

  private static let publicationPatience = UploadConstants.requestIdleTimeout
  private static let publishingCode = "publishing"

  /// The chunks of a commit. Empty where the destination does not ask for them; nil while one of them has no token.
  private func committedChunks(of session: UploadSession, _ transfer: ChunkTransfer) -> [CommittedChunk]? {
    guard destination.abilities.commitListsChunks else { return [] }
    var chunks: [CommittedChunk] = []
    chunks.reserveCapacity(transfer.states.count)
    for (index, state) in transfer.states.enumerated() {
      guard let digest = state.digest, let token = session.held.token(of: index) else { return nil }
      chunks.append(CommittedChunk(digest: digest, token: token))
    }
    return chunks
  }

  private func mayCommit(_ transfer: ChunkTransfer) -> Bool {
    if transfer.isDone { return true }
    return destination.abilities.commitWaitsForChunks && !transfer.commitsOnlyWhenDone && transfer.isOnItsWay
  }
}

extension UploadSession.State {
  /// No request for the session is in flight.
  fileprivate var wantsRequest: Bool {
    switch self {
    case .wanted, .unconfirmed, .open, .published: true
    case .opening, .querying: false
    }
  }

  /// What the server holds is known: the next request is the commit.
  fileprivate var isKnown: Bool {
    switch self {
    case .open, .published: true
    case .wanted, .unconfirmed, .opening, .querying: false
    }
  }
}

import FileModel

/// Whose turn it is.
extension UploadSchedule {
  /// What a file costs beside its bytes, so that a thousand tiny files do not count as nothing.
  private static let fileOverheadBytes: UInt64 = 64 << 10
  /// Sessions that the server has still to be told are not needed.
  private static let discardedMax = 256
  /// How long ending a session may be put off.
  private static let discardDelay: Duration = .seconds(5)

  /// A settled file with a final name is to be delivered, from the beginning or again.
  mutating func makeReady(_ id: FileID, at now: Moment) {
    guard var file = files[id], file.isLocal, file.phase != .removed else { return }
    if isBoundElsewhere(file) {
      leaveTransfer(&file)
      abortSession(&file, at: now)
    }
    let isResuming = file.transfer != nil
    file.phase = .ready
    file.isSmallAtWork = false
    if let failure = tooLarge(file, at: now) {
      files[id] = file
      return failForGood(id, failure, at: now)
    }
    if !isResuming { prepareTransfer(&file, at: now) }
    file.virtualTime = max(file.virtualTime, virtualTime)
    files[id] = file
    if isSmall(file) {
      smallQueue.append(id)
    } else if file.isWholeFile, !file.isStreamed {
      if !activeMedium.contains(id) { mediumQueue.append(id) }
    } else if !activeLarge.contains(id) {
      largeQueue.append(id)
    }
    actions.append(.showStatus(id))
  }

  /// The destination is known not to take a file of this size; asking it would cost all of its bytes.
  private func tooLarge(_ file: FileUpload, at now: Moment) -> FileStatus.Failure? {
    guard let limit = abilities.fileBytesMax, file.snapshot.sizeBytes > limit else { return nil }
    return FileStatus.Failure(
      code: StepFailure.Kind.tooLarge(limitBytes: limit).code,
      message: "The file has \(file.snapshot.sizeBytes) bytes, and the destination takes no more than \(limit); "
        + "nothing was sent. Raise the limit there and here, then retry.", at: now)
  }

  /// Decides how the present content travels and plans its chunks.
  private mutating func prepareTransfer(_ file: inout FileUpload, at now: Moment) {
    let size = file.snapshot.sizeBytes
    let fitsOneBuffer = abilities.wholeFileBytesMax > 0 && size <= UInt64(abilities.wholeFileBytesMax)
    let fitsOneRequest = fitsOneBuffer || abilities.streamsWholeFiles
    let hasSentChunks = file.session.map { !$0.held.isEmpty || $0.state == .unconfirmed } ?? false
    file.progress.merkleRoot = nil
    file.progress.chainTip = nil
    file.progress.streamedBytes = 0
    file.isStreamed = !fitsOneBuffer && abilities.streamsWholeFiles
    file.isWholeFile = fitsOneRequest && (!hasSentChunks || size == 0 && abilities.needsChunks)
    if file.isWholeFile {
      abortSession(&file, at: now)
      // A small one gets its transfer with its buffer: a hundred thousand may wait.
      file.transfer = isSmall(file) ? nil : FileUpload.wholeTransfer(of: size)
      return
    }
    if let session = file.session, session.state == .wanted || session.isExpired(atMilliseconds: now.wallMilliseconds) {
      // One that was only wanted lent its nonce to a whole-file request, which another content must not share.
      file.session = nil
    }
    if file.session == nil { file.session = makeSession(for: file, at: now) }
    let chunkBytes = file.session?.chunkBytes ?? limits.chunkBytes
    file.transfer = ChunkTransfer(plan: ChunkPlan(sizeBytes: size, chunkBytes: chunkBytes))
  }

  /// Another session, and every chunk again.
  mutating func beginSession(of file: inout FileUpload, at now: Moment) {
    let session = makeSession(for: file, at: now)
    file.session = session
    file.transfer = ChunkTransfer(
      plan: ChunkPlan(sizeBytes: file.snapshot.sizeBytes, chunkBytes: session.chunkBytes))
  }

  /// A session that is still to be opened.
  mutating func makeSession(for file: FileUpload, at now: Moment) -> UploadSession {
    let sizeBytes = file.isOpen ? nil : file.snapshot.sizeBytes
    let chunkBytes =
      limits.adaptsChunkBytes
      ? streamPlan.tier.chunkBytes(
        forFileOf: sizeBytes, streams: min(pipeline.parallelism, streamPlan.streams),
        bufferBytes: limits.bufferBytes)
      : limits.chunkBytes
    return UploadSession(
      state: .wanted, id: nil, nonce: makeNonce(),
      chunkBytes: min(limits.bufferBytes, max(chunkBytes, abilities.chunkBytesLeast(forFileOf: sizeBytes))),
      epoch: file.snapshot.epoch,
      openedAtSeconds: now.wallMilliseconds / 1000)
  }

  /// Gives up the present content's transfer: what was read is released, what is being sent goes on (its
  /// acknowledgement still tells what the server holds).
  mutating func leaveTransfer(_ file: inout FileUpload) {
    file.growth = nil
    guard let transfer = file.transfer else { return }
    for index in transfer.readIndices {
      if case .read(let read, _) = transfer.states[index] { release(read) }
    }
    file.transfer = nil
  }

  /// Ends the session at the server. One that is still being opened is ended when the answer comes.
  mutating func abortSession(_ file: inout FileUpload, at now: Moment) {
    guard let session = file.session else { return }
    file.session = nil
    guard let identity = session.identity else { return }
    actions.append(.removeResume(file.id))
    discard(identity, at: now)
    guard abilities.rows == .growing else { return }
    for token in session.held.distinctTokens { discard(SessionIdentity(id: token, nonce: []), at: now) }
  }

  /// The server is told when there is nothing better to do, and after a moment in any case: the warm connection belongs to
  /// the file whose session is no longer needed.
  mutating func discard(_ session: SessionIdentity, at now: Moment) {
    let due = now.monotonic + Self.discardDelay
    discarded.append(Discarded(session: session, due: due))
    deadlines.insert(.abort, at: due)
    // Beyond the bound the oldest is left to expire.
    if discarded.count > Self.discardedMax { discarded.removeFirst() }
  }

  /// Ends discarded sessions whose time has come.
  mutating func abortDiscarded(at now: Moment) {
    guard !discarded.isEmpty, gate == .open else { return }
    let isBusy = !activeMedium.isEmpty || !activeLarge.isEmpty || files.counts.smallAtWork > 0
    let due = discarded.filter { !isBusy || $0.due <= now.monotonic }
    guard !due.isEmpty else { return }
    discarded.removeAll { !isBusy || $0.due <= now.monotonic }
    for session in due { send(.abort(session.session), purpose: .abort(session), at: now) }
  }

  /// A session that could not be ended is tried again a few times; then it is left to expire.
  mutating func abortEnded(_ session: Discarded, _ outcome: StepOutcome, at now: Moment) {
    guard case .refused(let failure) = outcome, session.attempts + 1 < policy.attemptsMax else { return }
    switch policy.verdict(on: failure.kind, attempts: 1) {
    case .pauseDestination, .pauseFile, .retryStep: break
    case .startNewSession, .fail, .ignore: return
    }
    var session = session
    session.attempts += 1
    session.due = now.monotonic + policy.maxDelay
    discarded.append(session)
    deadlines.insert(.abort, at: session.due)
    if discarded.count > Self.discardedMax { discarded.removeFirst() }
  }

  /// Sends whatever may be sent and reads whatever may be read.
  mutating func pump(at now: Moment) {
    admit()
    for id in activeLarge { sendControl(id, at: now) }
    askForEarlyFiles(at: now)
    askForDurability(at: now)
    sendSmallFiles(at: now)
    sendChunks(at: now)
    readSmallFiles()
    while pipeline.mayRead(inUse: buffersInUse), let id = nextFileToRead() { readChunk(of: id, isSmall: false) }
    // What is complete comes first: somebody waits for it.
    while pipeline.mayRead(inUse: buffersInUse), let id = nextEarlyFileToRead(at: now) {
      readChunk(of: id, isSmall: false)
    }
    // An empty file is ready without a read, and behind the last chunk that has gone out just now its commit follows.
    sendSmallFiles(at: now)
    for id in activeLarge { sendControl(id, at: now) }
    admit()
    abortDiscarded(at: now)
  }

  /// How many chunks may be in flight, and how many read ahead of them, as things are now.
  var pipeline: PrefetchPipeline {
    PrefetchPipeline(limits: limits, destinationParallelism: abilities.parallelChunks, memory: memory)
  }

  /// As many as there may be. The tier bounds the chunks of large files; the others are bound by the round trip, whatever
  /// the link carries.
  private mutating func sendChunks(at now: Moment) {
    while maySend(at: now), let (id, index) = nextChunkToSend() ?? nextEarlyChunkToSend(at: now), startsNow(at: now) {
      sendChunk(id, index, at: now)
    }
  }

  /// One more request with bytes may go out now; when the ramp allows it only later, that is seen to.
  mutating func startsNow(at now: Moment) -> Bool {
    guard let start = streamPlan.nextStart(inFlight: chunkRequests, limit: pipeline.parallelism, at: now.monotonic)
    else { return false }
    if start <= now.monotonic { return true }
    if !isRamping { deadlines.insert(.ramp, at: start) }
    isRamping = true
    return false
  }

  /// Fills the places of files that are done, or wait.
  private mutating func admit() {
    guard files.readyChanges != admittedChanges || !mediumQueue.isEmpty || !largeQueue.isEmpty else { return }
    if files.readyChanges != admittedChanges {
      (activeMedium, mediumTime) = staying(activeMedium, asWholeFile: true, mediumTime)
      (activeLarge, largeTime) = staying(activeLarge, asWholeFile: false, largeTime)
      admittedChanges = files.readyChanges
    }
    while activeMedium.count < limits.activeMediumFiles, let id = mediumQueue.popFirst() {
      guard isAtWork(id, asWholeFile: true), !activeMedium.contains(id) else { continue }
      files.update(id) { $0.virtualTime = max($0.virtualTime, mediumTime) }
      activeMedium.append(id)
    }
    while activeLarge.count < limits.activeLargeFiles, let id = largeQueue.popFirst() {
      guard isAtWork(id, asWholeFile: false), !activeLarge.contains(id) else { continue }
      files.update(id) { $0.virtualTime = max($0.virtualTime, largeTime) }
      activeLarge.append(id)
    }
  }

  /// A place is handed on with the time that was used on it. Files that come one after the other without end would otherwise
  /// each begin before those that are at work for long, and these would never have another turn.
  private func staying(_ places: [FileID], asWholeFile: Bool, _ time: UInt64) -> ([FileID], UInt64) {
    var (staying, time) = (places, time)
    staying.removeAll { id in
      if isAtWork(id, asWholeFile: asWholeFile) { return false }
      time = max(time, files.entry(id)?.file.virtualTime ?? 0)
      return true
    }
    return (staying, time)
  }

  private func isAtWork(_ id: FileID, asWholeFile: Bool) -> Bool {
    guard let file = files.entry(id)?.file else { return false }
    return file.phase == .ready && (file.isWholeFile && !file.isStreamed) == asWholeFile && !isSmall(file)
  }

  // MARK: - The gate

  /// True when a request may go out now; while the destination is suspect, only one.
  func maySend(at now: Moment) -> Bool {
    switch gate {
    case .open: true
    case .closed(let until): until <= now.monotonic
    case .probing: false
    }
  }

  @discardableResult
  mutating func send(
    _ order: SendOrder, purpose: Purpose, byteCount: Int = 0, opensConnection: Bool = false, at now: Moment
  ) -> HTTPRequestID {
    let request = makeRequestID()
    let endpoint = endpoints.choose(at: now.monotonic)
    requests[request] = Underway(
      purpose: purpose, sentAt: now.monotonic, publishes: order.publishedPaths, byteCount: byteCount,
      endpoint: endpoint)
    namesUnderWay.formUnion(order.publishedPaths)
    if case .closed = gate { gate = .probing(request) }
    switch purpose {
    case .chunk(let id, let index, _, _, _):
      chunkRequests += 1
      sessionChunks += 1
      let attempts = files[id]?.transfer?.retries[index]?.attempts ?? 0
      watch(request, of: id, byteCount, attempts: attempts, at: now)
    case .wholeFiles(let turns):
      chunkRequests += 1
      if turns.allSatisfy({ files.entry($0.id).map { isSmall($0.file) } ?? false }) {
        requests[request]?.carriesSmallFiles = true
        smallRequests += 1
      }
      let attempts = turns.map { files.entry($0.id)?.file.attempts ?? 0 }.max() ?? 0
      if turns.contains(where: { files.entry($0.id)?.file.isStreamed ?? false }) {
        // Hours of one request say nothing about the speed between two answers.
        requests[request]?.byteCount = 0
        requests[request]?.streams = purpose.file
        streamRequests += 1
        watchStream(request, of: purpose.file, byteCount, at: now)
      } else {
        watch(request, of: purpose.file, byteCount, attempts: attempts, at: now)
      }
    case .openSession, .querySession, .secureSession, .commit: controlRequests += 1
    case .prewarm, .abort: break
    }
    actions.append(
      .send([RequestOrder(id: request, order: order, opensConnection: opensConnection, endpoint: endpoint)]))
    return request
  }

  // MARK: - Sessions and commits

  private mutating func sendControl(_ id: FileID, at now: Moment) {
    guard controlRequests < limits.controlRequests, maySend(at: now), let entry = files.entry(id),
      entry.file.phase == .ready,
      !entry.file.isWholeFile, let state = entry.file.session?.state, state.wantsRequest,
      !state.isKnown || entry.file.transfer.map(mayCommit) ?? false
    else { return }
    var file = entry.file
    switch state {
    case .wanted: openSession(&file, at: now)
    case .unconfirmed: querySession(&file, at: now)
    case .open, .published: publish(&file, at: now)
    case .opening, .querying: return
    }
    files[id] = file
  }

  mutating func openSession(_ file: inout FileUpload, at now: Moment) {
    guard var session = file.session else { return }
    let path = openingPath(of: file) ?? file.path
    if abilities.bindsNameAtOpening { session.boundPath = path }
    let opening = SessionOpening(
      fileID: file.id, revision: session.epoch, nonce: session.nonce, path: path,
      sizeBytes: isLengthOpen(file) ? nil : file.snapshot.sizeBytes, chunkBytes: session.chunkBytes,
      modifiedNanoseconds: file.snapshot.modifiedNanoseconds, mode: file.snapshot.mode)
    session.state = .opening(send(.openSession(opening), purpose: .openSession(file.id), at: now))
    file.session = session
  }

  /// Whether its session is to leave open how long it is. An upload to which chunks are appended is published by the last byte of
  /// the length that was declared for it, so none is declared of a file that is held back.
  private func isLengthOpen(_ file: FileUpload) -> Bool {
    file.isOpen || abilities.rows == .one && file.phase == .held
  }

  mutating func querySession(_ file: inout FileUpload, at now: Moment) {
    guard var session = file.session, let identity = session.identity else { return }
    session.state = .querying(
      send(
        .querySession(identity), purpose: .querySession(file.id), opensConnection: file.needsNewConnection, at: now))
    file.session = session
  }

  /// Commits when no writer has the file open and every chunk is acknowledged, or, where the server waits for them, on its
  /// way: then the answer comes one round trip after the tail and not two (design: commit with the tail). What is
  /// published is the content of one epoch at which nobody was writing, because the proof covers every chunk.
  private mutating func publish(_ file: inout FileUpload, at now: Moment) {
    guard let session = file.session, let identity = session.identity, let transfer = file.transfer,
      file.publishing == nil, !file.isOpen, file.growth == nil, mayCommit(transfer),
      let proof = transfer.proof(sessionID: identity.id), let path = file.nextPath(limits)
    else { return }
    guard session.boundPath.map({ $0 == path }) ?? true else {
      leaveTransfer(&file)
      abortSession(&file, at: now)
      beginSession(of: &file, at: now)
      return
    }
    file.progress.merkleRoot = proof.merkleRoot
    file.progress.chainTip = proof.chainTip
    if case .published(let receipt) = session.state {
      acceptEarlierPublication(receipt, of: &file, at: now)
      return
    }
    guard !namesUnderWay.contains(path) else { return }
    guard let chunks = committedChunks(of: session, transfer) else {
      // The server is to say by which names it knows what it holds.
      file.session?.state = .unconfirmed
      return
    }
    let commit = SessionCommit(
      session: identity, sizeBytes: transfer.plan.sizeBytes, chunkCount: transfer.plan.count,
      merkleRoot: proof.merkleRoot, chainTip: proof.chainTip, path: path,
      modifiedNanoseconds: file.snapshot.modifiedNanoseconds, mode: file.snapshot.mode, chunks: chunks,
      fileID: file.id)
    let request = send(.commit(commit), purpose: .commit(file.id), at: now)
    file.publishing = FileUpload.Publishing(
      request: request, path: path, epoch: file.snapshot.epoch, nonce: file.session?.nonce ?? [])
  }

  /// Empty where the destination does not ask for them; nil while one of them has no token.
  private func committedChunks(of session: UploadSession, _ transfer: ChunkTransfer) -> [CommittedChunk]? {
    guard abilities.commitListsChunks else { return [] }
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
    return abilities.commitWaitsForChunks && !transfer.commitsOnlyWhenDone && transfer.isOnItsWay
  }

  // MARK: - Chunks

  /// The chunk to send next: of the files whose bytes are in a buffer, the one that was given the fewest bytes.
  private func nextChunkToSend() -> (FileID, Int)? {
    guard buffersInUse > 0 || abilities.streamsWholeFiles else { return nil }
    var best: (id: FileID, index: Int, time: UInt64)?
    let hasStream = sessionChunks < streamPlan.streams
    for id in activeMedium + activeLarge {
      guard let entry = files.entry(id), let transfer = entry.file.transfer,
        !transfer.readIndices.isEmpty || entry.file.isStreamed,
        best.map({ $0.time > entry.file.virtualTime }) ?? true
      else { continue }
      let file = entry.file
      if file.isStreamed {
        if mayStream(file, transfer) { best = (id, 0, file.virtualTime) }
        continue
      }
      if file.isWholeFile {
        guard file.publishing == nil, !file.isOpen, let path = file.nextPath(limits),
          !namesUnderWay.contains(path)
        else { continue }
      } else {
        guard file.session?.isOpen == true, !file.isPublishingOlderContent, hasStream else { continue }
      }
      guard let index = nextToSend(of: file, transfer) else { continue }
      best = (id, index, file.virtualTime)
    }
    return best.map { ($0.id, $0.index) }
  }

  private mutating func sendChunk(_ id: FileID, _ index: Int, at now: Moment) {
    if files[id]?.isStreamed == true { return stream(id, at: now) }
    guard var file = files[id], case .read(let read, let digest)? = file.transfer?.states[index] else { return }
    if file.isWholeFile {
      guard let path = file.nextPath(limits) else { return }
      return sendWholeFiles([WholeFileTurn(id: id, path: path, digest: digest, read: read)], at: now)
    }
    if let identity = file.session?.identity {
      let place = takePlace(of: index, in: file)
      let request = send(
        .chunk(session: identity, index: index, digest: digest, read: read, place: place),
        purpose: .chunk(id, index: index, digest: digest, read: read, session: identity.id),
        byteCount: file.transfer?.plan.byteCount(of: index) ?? 0, opensConnection: file.needsNewConnection, at: now)
      file.transfer?.set(.sending(request, read, digest), at: index)
      file.session?.chunksInFlight.insert(index)
      if file.progress.startedAt == nil { file.progress.startedAt = now.wallMilliseconds }
    }
    files[id] = file
    actions.append(.showStatus(id))
  }

  /// The file to read from next. Reading may run ahead of the session's opening, which hides a round trip; it never runs
  /// ahead of a question to the server, whose answer decides what needs to be sent at all.
  private func nextFileToRead() -> FileID? {
    var best: (id: FileID, time: UInt64)?
    for id in activeMedium + activeLarge {
      guard let entry = files.entry(id), let transfer = entry.file.transfer, !entry.file.isOpen,
        !entry.file.isStreamed, best.map({ $0.time > entry.file.virtualTime }) ?? true
      else { continue }
      if !entry.file.isWholeFile {
        switch entry.file.session?.state {
        case .wanted, .opening, .open, .published: break
        case .unconfirmed, .querying, nil: continue
        }
      }
      guard nextPending(of: entry.file, transfer) != nil else { continue }
      best = (id, entry.file.virtualTime)
    }
    return best?.id
  }

  mutating func readChunk(of id: FileID, isSmall: Bool) {
    guard let entry = files.entry(id), let transfer = entry.file.transfer,
      let index = nextPending(of: entry.file, transfer)
    else { return }
    let read = makeReadID()
    let byteCount = transfer.plan.byteCount(of: index)
    let chunkEpoch = entry.file.growth.map { $0.epoch(of: index) ?? 0 }
    transfer.set(.reading(read), at: index)
    if isSmall {
      smallBuffersInUse += 1
      smallReads.insert(read)
    } else {
      buffersInUse += 1
      // What is sent early costs a file nothing: its turn begins when it is complete.
      if entry.file.phase == .ready {
        virtualTime = max(virtualTime, entry.file.virtualTime)
        files.update(id) { $0.virtualTime += UInt64(byteCount) + Self.fileOverheadBytes }
      }
    }
    reads[read] = (id, index, chunkEpoch != nil)
    actions.append(
      .read(
        ReadOrder(
          id: read, file: id, epoch: chunkEpoch ?? entry.file.snapshot.epoch, isOfGrowingFile: chunkEpoch != nil,
          offset: transfer.plan.offset(of: index),
          byteCount: byteCount, mayCompress: encodings.contains(.lz4), isSmall: isSmall)))
  }

  mutating func release(_ read: ReadID) {
    if smallReads.remove(read) != nil { smallBuffersInUse -= 1 } else { buffersInUse -= 1 }
    actions.append(.release(read))
  }
}

extension SendOrder {
  /// The names under which files are published by this.
  fileprivate var publishedPaths: [RelativePath] {
    switch self {
    case .commit(let commit): [commit.path]
    case .wholeFile(let file): [file.path]
    case .bundle(let files): files.map(\.path)
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .abort: []
    }
  }
}

extension UploadSession.State {
  /// No request for it is under way.
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

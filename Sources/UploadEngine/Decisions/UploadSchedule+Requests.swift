public import FileModel
import Integrity

/// What the workers and the destination answer.
extension UploadSchedule {
  /// A read has ended.
  public mutating func chunkRead(_ read: ReadID, result: ReadOutcome, at now: Moment) {
    defer { pump(at: now) }
    guard let (id, index) = reads.removeValue(forKey: read) else { return }
    guard let file = files[id], let transfer = file.transfer, transfer.states.indices.contains(index),
      transfer.states[index] == .reading(read)
    else {
      // The file changed or went away while the worker was reading.
      release(read)
      return
    }
    switch result {
    case .success(let digest):
      if !file.isWholeFile, isAlreadyThere(digest, index, of: file) {
        transfer.set(.done(digest), at: index)
        file.session?.held.acknowledge(digest, at: index)
        files[id]?.reusedChunks += 1
        reusedChunks += 1
        release(read)
        actions.append(.showStatus(id))
      } else {
        transfer.set(.read(read, digest), at: index)
      }
    case .changed:
      // `changed` is on its way, or was handled and the file has settled again at another epoch.
      transfer.set(.pending, at: index)
      release(read)
      pauseFile(id, failure: .init(code: "changed", message: "The file changed while it was read.", at: now), at: now)
    case .failed(let error):
      transfer.set(.pending, at: index)
      release(read)
      let message = "The spool's copy cannot be read now: \(error.explanation)."
      pauseFile(id, failure: .init(code: "spool-unreadable", message: message, at: now), at: now)
    }
  }

  private func isAlreadyThere(_ digest: ChunkDigest, _ index: Int, of file: FileUpload) -> Bool {
    guard let session = file.session else { return false }
    if case .published = session.state { return true }
    // A request for an earlier content may replace what is held, at any moment.
    return !session.chunksInFlight.contains(index) && session.held.holds(digest, at: index)
  }

  /// A request has ended. `outcome` is a refusal when there was no response.
  public mutating func requestCompleted(
    _ request: HTTPRequestID, outcome: StepOutcome, connection: HTTPConnectionFacts, at now: Moment
  ) {
    defer { pump(at: now) }
    guard let underway = requests.removeValue(forKey: request) else { return }
    let purpose = underway.purpose
    if let path = underway.publishes { namesUnderWay.remove(path) }
    let outcome = underway.isGivenUp ? Self.givenUp(outcome) : outcome
    learnEncodings(from: outcome)
    settleBudget(of: purpose)
    switch purpose {
    case .chunk, .wholeFile: unwatch(request, underway.byteCount, outcome, at: now)
    case .prewarm, .openSession, .querySession, .commit, .abort: break
    }
    noteHealth(of: underway.endpoint, outcome, at: now)
    noteReachability(request, underway.endpoint, outcome, at: now)
    if let id = purpose.file, !connection.protocolName.isEmpty { files[id]?.protocolName = connection.protocolName }
    switch purpose {
    case .prewarm:
      guard case .warmed = outcome else { break }
      warmAnswers += 1
      streamPlan.warmed(warmAnswers, at: now.monotonic)
    case .abort(let session):
      abortEnded(session, outcome, at: now)
    case .openSession(let id):
      sessionOpenEnded(id, request, outcome, at: now)
    case .querySession(let id):
      sessionQueryEnded(id, request, outcome, at: now)
    case .chunk(let id, let index, let digest, let read, let session):
      release(read)
      noteWarmth(id, connection)
      chunkEnded(id, request, index, digest, session, outcome, sentAt: underway.sentAt, at: now)
    case .commit(let id):
      publicationEnded(id, request, outcome, at: now)
    case .wholeFile(let id, _, let read):
      if let read { release(read) }
      noteWarmth(id, connection)
      publicationEnded(id, request, outcome, at: now)
    }
  }

  /// A watchdog's cancellation is a failure of the request; any other answer that was faster counts as it is.
  private static func givenUp(_ outcome: StepOutcome) -> StepOutcome {
    guard case .refused(let failure) = outcome, failure.kind == .transport(.cancelled) else { return outcome }
    return .refused(StepFailure(.transport(.timedOut), "The request made no progress; it is sent again."))
  }

  /// What the receiver decodes; remembered for all files, and its latest word counts.
  private mutating func learnEncodings(from outcome: StepOutcome) {
    switch outcome {
    case .sessionOpened(_, _, _, let encodings), .held(_, _, _, let encodings): self.encodings = encodings
    case .warmed, .chunkStored, .published, .incomplete, .ended, .refused: break
    }
  }

  /// A catalog entry with this receipt is durable. An entry that was read before the receipt came does not count.
  public mutating func recorded(_ id: FileID, receipt: Receipt, at now: Moment) {
    recorded([(id: id, receipt: receipt)], at: now)
  }

  /// Several catalog entries are durable, of one transaction.
  public mutating func recorded(_ entries: [(id: FileID, receipt: Receipt)], at now: Moment) {
    for entry in entries { believe(entry.receipt, of: entry.id, at: now) }
    pump(at: now)
  }

  private mutating func believe(_ receipt: Receipt, of id: FileID, at now: Moment) {
    guard var file = files[id], file.phase == .finishing, file.receipt == receipt else { return }
    file.phase = .complete
    file.completedAt = file.completedAt ?? now.wallMilliseconds
    file.lastFailure = nil
    file.attempts = 0
    file.previousDelay = nil
    files[id] = file
    actions.append(.showStatus(id))
    actions.append(.report(.delivered(id, file.path, receipt)))
    if file.nextPath(limits.temporaryNames) != nil { makeReady(id, at: now) }
  }

  // MARK: - Budgets and the gate

  private mutating func settleBudget(of purpose: Purpose) {
    switch purpose {
    case .chunk:
      chunkRequests -= 1
      sessionChunks -= 1
    case .wholeFile: chunkRequests -= 1
    case .openSession, .querySession, .commit: controlRequests -= 1
    case .prewarm, .abort: break
    }
  }

  /// An address is healthy when answers come over it, whatever they say; one of our own doing says nothing of it.
  private mutating func noteHealth(of endpoint: EndpointID, _ outcome: StepOutcome, at now: Moment) {
    guard case .refused(let failure) = outcome else { return endpoints.succeeded(endpoint, at: now.monotonic) }
    switch failure.kind {
    case .transport(.cancelled), .transport(.stopped), .transport(.overloaded): break
    case .transport, .serverError, .unexpectedAnswer: endpoints.failed(endpoint, at: now.monotonic)
    default: endpoints.succeeded(endpoint, at: now.monotonic)
    }
  }

  /// The address has failed, and another one may do: what was to go there goes to that one at once. A receiver that says
  /// that it is busy is the same behind all its addresses.
  private mutating func moves(from endpoint: EndpointID, after failure: StepFailure, at now: Moment) -> Bool {
    guard failure.kind != .busy, endpoints.hasAlternative(to: endpoint, at: now.monotonic) else { return false }
    warmConnections = 0
    warmAnswers = 0
    streamPlan.connectionsLost()
    return true
  }

  /// Opens or closes the gate: any answer that is not about the destination as a whole proves that it is there.
  private mutating func noteReachability(
    _ request: HTTPRequestID, _ endpoint: EndpointID, _ outcome: StepOutcome, at now: Moment
  ) {
    guard case .refused(let failure) = outcome else {
      openGate(at: now)
      return
    }
    switch policy.verdict(on: failure.kind, attempts: 0) {
    case .pauseDestination:
      switch gate {
      case .open:
        guard moves(from: endpoint, after: failure, at: now) else { return closeGate(failure, at: now) }
        warmForOpenFiles(at: now)
      case .probing(let probe) where probe == request:
        guard moves(from: endpoint, after: failure, at: now) else { return closeGate(failure, at: now) }
        gate = .closed(until: now.monotonic)
        warmForOpenFiles(at: now)
      case .probing, .closed: break  // an older request that was under way when the gate closed
      }
    case .ignore:
      if gate == .probing(request) { gate = .closed(until: now.monotonic) }
    case .retryStep, .pauseFile, .startNewSession, .fail:
      if case .transport = failure.kind {
        // No answer, but no proof that nobody is there: the next request is the next probe.
        if gate == .probing(request) { closeGate(failure, at: now) }
      } else {
        openGate(at: now)
      }
    }
  }

  private mutating func openGate(at now: Moment) {
    guard gate != .open else { return }
    gate = .open
    gateDelay = nil
    gateAttempts = 0
    gateFailure = nil
    actions.append(.report(.destinationAvailable))
    for id in openFiles { planSession(id, at: now) }
  }

  private mutating func closeGate(_ failure: StepFailure, at now: Moment) {
    let delay = policy.delay(after: gateDelay, retryAfter: failure.retryAfter, using: &random)
    gateDelay = delay
    gateAttempts += 1
    gate = .closed(until: now.monotonic + delay)
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    if gateFailure?.code != shown.code { actions.append(.report(.destinationUnavailable(shown))) }
    gateFailure = shown
    deadlines.insert(.gate, at: now.monotonic + delay)
    warmConnections = 0
    warmAnswers = 0
    streamPlan.connectionsLost()
    watchdog.forgetAll()
  }

  private mutating func noteWarmth(_ id: FileID, _ connection: HTTPConnectionFacts) {
    guard !connection.protocolName.isEmpty, files[id]?.transfer?.doneCount == 0 else { return }
    files[id]?.isPrewarmed = !connection.isNewConnection
  }

  // MARK: - Sessions

  private mutating func sessionOpenEnded(
    _ id: FileID, _ request: HTTPRequestID, _ outcome: StepOutcome, at now: Moment
  ) {
    guard var file = files[id], var session = file.session, session.state == .opening(request) else {
      // Nobody wants it any more: the file went another way meanwhile.
      if case .sessionOpened(let sessionID, _, _, _) = outcome {
        discard(SessionIdentity(id: sessionID, nonce: []), at: now)
      }
      return
    }
    guard case .sessionOpened(let sessionID, let chunkBytes, let expiresAt, _) = outcome, chunkBytes > 0,
      chunkBytes <= limits.bufferBytes
    else {
      // A file at work opens another one; for a file that is still being written it is planned anew. Never the same
      // again: under its key the server may hold an opening that says something else.
      file.session = file.transfer == nil ? nil : makeSession(for: file, at: now)
      files[id] = file
      failed(id, outcome, at: now)
      return
    }
    session.state = .open
    session.id = sessionID
    session.openedAtSeconds = now.wallMilliseconds / 1000
    session.expiresAtSeconds = expiresAt
    if chunkBytes != session.chunkBytes {
      session.chunkBytes = chunkBytes
      file.session = session
      leaveTransfer(&file)
      if file.phase == .ready {
        file.transfer = ChunkTransfer(plan: ChunkPlan(sizeBytes: file.snapshot.sizeBytes, chunkBytes: chunkBytes))
      }
    }
    file.session = session
    files[id] = file
    actions.append(.record(id))
    actions.append(.saveResume(id))
    actions.append(.showStatus(id))
  }

  private mutating func sessionQueryEnded(
    _ id: FileID, _ request: HTTPRequestID, _ outcome: StepOutcome, at now: Moment
  ) {
    guard var file = files[id], file.session?.state == .querying(request) else { return }
    switch outcome {
    case .held(_, let chunkBytes?, _, _) where chunkBytes != file.session?.chunkBytes:
      // Its chunks lie elsewhere than ours: nothing that it holds is of use.
      restartSession(id, at: now)
    case .held(let digests, _, let expiresAt, _):
      if let expiresAt { file.session?.expiresAtSeconds = expiresAt }
      file.session?.held.replace(with: digests)
      file.session?.state = .open
      if let transfer = file.transfer { takeBackDenied(of: transfer, holding: digests) }
      checkpoint(&file)
      files[id] = file
      actions.append(.showStatus(id))
    case .published(let receipt):
      file.session?.state = .published(receipt)
      if let transfer = file.transfer { compareOnly(transfer) }
      files[id] = file
    case .refused(let failure) where failure.kind == .sessionGone:
      restartSession(id, at: now)
    default:
      file.session?.state = .unconfirmed
      files[id] = file
      failed(id, outcome, at: now)
    }
  }

  /// Nothing more is sent into a session that is published; digests are all that is needed of what was read for it.
  private mutating func compareOnly(_ transfer: ChunkTransfer) {
    for index in transfer.readIndices {
      guard case .read(let read, let digest) = transfer.states[index] else { continue }
      transfer.set(.done(digest), at: index)
      release(read)
    }
  }

  /// What was acknowledged and is not there any more (the server may have lost it in a crash) is sent again.
  private func takeBackDenied(of transfer: ChunkTransfer, holding digests: [Int: [UInt8]]) {
    guard transfer.doneCount > 0 else { return }
    for (index, state) in transfer.states.enumerated() {
      if case .done(let digest) = state, digests[index] != digest.sha256 { _ = transfer.deny(index) }
    }
  }

  /// The server has forgotten the session: another one, and every chunk again.
  mutating func restartSession(_ id: FileID, at now: Moment) {
    guard var file = files[id] else { return }
    leaveTransfer(&file)
    file.session = nil
    files[id] = file
    actions.append(.removeResume(id))
    if file.phase == .ready { makeReady(id, at: now) }
  }

  // MARK: - Chunks

  private mutating func chunkEnded(
    _ id: FileID, _ request: HTTPRequestID, _ index: Int, _ digest: ChunkDigest, _ session: String,
    _ outcome: StepOutcome, sentAt: MonotonicTime, at now: Moment
  ) {
    guard var file = files[id], file.session?.id == session else { return }
    file.session?.chunksInFlight.remove(index)
    let isCurrent: Bool
    if let transfer = file.transfer, transfer.states.indices.contains(index),
      case .sending(request, _, _) = transfer.states[index]
    {
      isCurrent = true
    } else {
      isCurrent = false  // the content has changed since; the acknowledgement still says what the server holds
    }
    files[id] = file
    guard case .chunkStored = outcome else {
      if isCurrent {
        chunkFailed(id, index, StepFailure(outcome), sentAt: sentAt, at: now)
      } else if file.isPublishingOlderContent {
        cancelCommit(of: file)
      }
      return
    }
    file.session?.held.acknowledge(digest, at: index)
    file.session?.acknowledgedSinceRecord += 1
    if isCurrent {
      file.transfer?.set(.done(digest), at: index)
      let byteCount = file.transfer?.plan.byteCount(of: index) ?? 0
      acknowledgedBytes += UInt64(byteCount)
      file.rate.add(byteCount, at: now.monotonic)
      rate.add(byteCount, at: now.monotonic)
    } else if let transfer = file.transfer, transfer.states.indices.contains(index),
      case .read(let read, digest) = transfer.states[index]
    {
      // The present content has the same bytes here, and only waited for this request to end.
      transfer.set(.done(digest), at: index)
      file.reusedChunks += 1
      reusedChunks += 1
      release(read)
    }
    if (file.session?.acknowledgedSinceRecord ?? 0) >= UploadConstants.resumeCheckpointInterval { checkpoint(&file) }
    files[id] = file
    progressed(id)
    actions.append(.showStatus(id))
  }

  /// One chunk did not arrive. It has its own attempts and its own rests, and the others go on (spec E1). When requests that
  /// were sent after a failure fail as well, and nothing arrives in between, the whole file pauses.
  private mutating func chunkFailed(
    _ id: FileID, _ index: Int, _ failure: StepFailure, sentAt: MonotonicTime, at now: Moment
  ) {
    guard let file = files[id], let transfer = file.transfer else { return }
    files[id]?.retriedChunks += 1
    retriedChunks += 1
    var retry = transfer.retries[index] ?? ChunkTransfer.Retry()
    guard case .retryStep = policy.verdict(on: failure.kind, attempts: retry.attempts + 1) else {
      transfer.set(.pending, at: index)
      failed(id, .refused(failure), at: now)
      return
    }
    retry.attempts += 1
    let isNewRound = file.failedAt.map { sentAt > $0 } ?? true
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    guard retry.attempts < policy.attemptsMax else {
      transfer.retries[index] = nil
      transfer.set(.pending, at: index)
      if file.session?.isOpen == true { files[id]?.session?.state = .unconfirmed }
      pauseFile(id, failure: shown, retryAfter: failure.retryAfter, at: now)
      return
    }
    rest(index, of: transfer, id, &retry, failure, isAwaited: file.publishing != nil, at: now)
    files[id]?.lastFailure = shown
    actions.append(.showStatus(id))
    guard isNewRound else { return }
    if file.failedAt == nil {
      files[id]?.failedAt = now.monotonic
      files[id]?.attempts += 1
    } else {
      pauseFile(id, failure: shown, retryAfter: failure.retryAfter, at: now)
    }
  }

  private mutating func rest(
    _ index: Int, of transfer: ChunkTransfer, _ id: FileID, _ retry: inout ChunkTransfer.Retry,
    _ failure: StepFailure, isAwaited: Bool, at now: Moment
  ) {
    let delay = policy.delay(
      before: retry.attempts, of: failure, after: retry.previousDelay, isAwaited: isAwaited, using: &random)
    if delay > .zero { retry.previousDelay = delay }
    transfer.retries[index] = retry
    let until = now.monotonic + delay
    transfer.set(delay > .zero ? .resting(until: until) : .pending, at: index)
    if delay > .zero { deadlines.insert(.chunk(id, index: index), at: until) }
  }

  /// A chunk has rested.
  mutating func endRest(of id: FileID, _ index: Int, at now: Moment) {
    guard let transfer = files[id]?.transfer, transfer.states.indices.contains(index),
      case .resting(let until) = transfer.states[index], until <= now.monotonic
    else { return }
    transfer.set(.pending, at: index)
  }

  // MARK: - Publication

  /// It waits for a chunk that nobody will send any more. A small content's one request has all that it needs.
  mutating func cancelCommit(of file: FileUpload) {
    guard let request = file.publishing?.request, case .commit? = requests[request]?.purpose else { return }
    actions.append(.cancel(request))
  }

  private mutating func publicationEnded(
    _ id: FileID, _ request: HTTPRequestID, _ outcome: StepOutcome, at now: Moment
  ) {
    guard var file = files[id], let publishing = file.publishing, publishing.request == request else { return }
    file.publishing = nil
    switch outcome {
    case .published(let receipt):
      accept(receipt, publishing, of: &file, at: now)
      files[id] = file
      if file.phase == .ready, file.transfer == nil { makeReady(id, at: now) }
    case _ where file.isOutdated(publishing):
      // The file went on, with another content or in another session: what was wrong with that commit says nothing here.
      files[id] = file
    case .incomplete(let missing) where !file.isWholeFile:
      commitFoundMissing(missing, of: &file, at: now)
    default:
      if case .refused(let failure) = outcome, failure.kind == .conflict, file.session?.isOpen == true {
        // The two sides see the session differently: ask before the next try, and read every chunk again.
        file.session?.state = .unconfirmed
        leaveTransfer(&file)
      }
      if file.isWholeFile, let transfer = file.transfer, !transfer.states.isEmpty { transfer.set(.pending, at: 0) }
      files[id] = file
      failed(id, outcome, at: now)
    }
  }

  /// Chunks that were still under way are no failure: the next commit follows them. Chunks that the server had acknowledged
  /// and denies are sent again, at once the first time; a server that goes on denying is not asked for ever.
  private mutating func commitFoundMissing(_ missing: [Int], of file: inout FileUpload, at now: Moment) {
    guard let transfer = file.transfer else {
      files[file.id] = file
      return
    }
    transfer.commitsOnlyWhenDone = true
    var denied = 0
    for index in missing where transfer.deny(index) {
      file.session?.held.remove(index)
      denied += 1
    }
    files[file.id] = file
    guard denied > 0 || transfer.isDone else { return }
    transfer.denials += 1
    let message = "The receiver lacks \(denied) chunks that it had acknowledged; they are sent again."
    let failure = FileStatus.Failure(code: "incomplete", message: message, at: now)
    files[file.id]?.lastFailure = failure
    guard transfer.denials > 1 else { return }
    if transfer.denials >= policy.attemptsMax {
      failForGood(file.id, failure, at: now)
    } else {
      pauseFile(file.id, failure: failure, at: now)
    }
  }

  /// A publication of the present content counts; one of an earlier content is a consistent older revision at the
  /// server, and the next one follows.
  private mutating func accept(
    _ receipt: Receipt, _ publishing: FileUpload.Publishing, of file: inout FileUpload, at now: Moment
  ) {
    if file.isWholeFile || file.session?.id == nil {
      let bytes = Int(clamping: receipt.sizeBytes)
      acknowledgedBytes += receipt.sizeBytes
      file.rate.add(bytes, at: now.monotonic)
      rate.add(bytes, at: now.monotonic)
    }
    let isSessionOver = file.session?.nonce == publishing.nonce
    // Behind the catalog's entry: without either, a crash in between would have the whole file sent again.
    let outdatedRecord = isSessionOver && file.session?.id != nil ? file.id : nil
    defer { if let outdatedRecord { actions.append(.removeResume(outdatedRecord)) } }
    if isSessionOver { file.session = nil }
    guard file.phase == .ready || file.isWaiting, publishing.epoch == file.snapshot.epoch else {
      // The next content was settled before the answer came; what it had found in the session is over with it.
      if isSessionOver, !file.isWholeFile { leaveTransfer(&file) }
      return
    }
    if let transfer = file.transfer, !file.isWholeFile {
      // The tail's own acknowledgements may still be on their way; the receipt says more than they can.
      acknowledgedBytes += transfer.plan.sizeBytes - min(transfer.doneBytes, transfer.plan.sizeBytes)
    }
    leaveTransfer(&file)
    file.receipt = receipt
    file.merkleRoot = Hex.decode(receipt.merkleRoot)
    file.chainTip = Hex.decode(receipt.chainTip)
    if file.snapshot.names.contains(publishing.path) { file.publishedPaths.append(publishing.path) }
    file.attempts = 0
    file.phase = .finishing
    actions.append(.record(file.id))
    actions.append(.showStatus(file.id))
  }

  /// The server had published the session before an earlier run could take note. If that was the present content under
  /// a name that the file has, it is delivered; otherwise it is sent anew.
  mutating func acceptEarlierPublication(_ receipt: Receipt, of file: inout FileUpload, at now: Moment) {
    if receipt.sizeBytes == file.snapshot.sizeBytes, receipt.merkleRoot == file.merkleRoot.map(Hex.encode),
      receipt.chainTip == file.chainTip.map(Hex.encode), let path = path(of: file, publishedAs: receipt.name)
    {
      let publishing = FileUpload.Publishing(
        request: HTTPRequestID(0), path: path, epoch: file.snapshot.epoch, nonce: file.session?.nonce ?? [])
      accept(receipt, publishing, of: &file, at: now)
      return
    }
    leaveTransfer(&file)
    file.session = makeSession(for: file, at: now)
    file.transfer = ChunkTransfer(
      plan: ChunkPlan(
        sizeBytes: file.snapshot.sizeBytes, chunkBytes: file.session?.chunkBytes ?? limits.chunkBytes))
    actions.append(.removeResume(file.id))
  }

  /// The file's name that was published; nil when the file has had another one since. Names are compared byte by byte.
  private func path(of file: FileUpload, publishedAs name: String) -> RelativePath? {
    file.snapshot.names.first { publishedName($0).utf8.elementsEqual(name.utf8) }
  }

  // MARK: - Failures

  /// Something moved: the next failure is the first of a new row.
  private mutating func progressed(_ id: FileID) {
    files[id]?.attempts = 0
    files[id]?.previousDelay = nil
    files[id]?.failedAt = nil
    files[id]?.needsNewConnection = false
  }

  /// A step of a file did not succeed.
  private mutating func failed(_ id: FileID, _ outcome: StepOutcome, at now: Moment) {
    let failure = StepFailure(outcome)
    // What has come to its end meanwhile keeps the reason that it ended with.
    guard var file = files[id], file.isToBeDelivered else { return }
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    switch policy.verdict(on: failure.kind, attempts: file.attempts + 1) {
    case .ignore:
      return
    case .pauseDestination:
      file.lastFailure = shown
      files[id] = file
      actions.append(.showStatus(id))
    case .retryStep, .pauseFile:
      pauseFile(id, failure: shown, isTooEarly: failure.kind == .tooEarly, retryAfter: failure.retryAfter, at: now)
    case .startNewSession:
      file.lastFailure = shown
      file.attempts += 1
      files[id] = file
      restartSession(id, at: now)
      if file.attempts >= policy.attemptsMax {
        pauseFile(id, failure: shown, retryAfter: failure.retryAfter, at: now)
      }
    case .fail:
      failForGood(id, shown, at: now)
    }
  }

  /// It will not pass by itself.
  private mutating func failForGood(_ id: FileID, _ failure: FileStatus.Failure, at now: Moment) {
    guard var file = files[id] else { return }
    file.lastFailure = failure
    // While it is being written nothing is lost yet; the answer may be another one when it is complete.
    if file.phase == .ready || file.isWaiting {
      leaveTransfer(&file)
      checkpoint(&file)
      file.phase = .failed
      actions.append(.record(id))
      actions.append(.showStatus(id))
      actions.append(.report(.failed(id, file.path, failure)))
    }
    files[id] = file
  }

  /// The file waits for a moment; the others go on. After too many failures in a row the server is asked what it really
  /// holds.
  private mutating func pauseFile(
    _ id: FileID, failure: FileStatus.Failure, isTooEarly: Bool = false, retryAfter: Duration? = nil, at now: Moment
  ) {
    guard var file = files[id] else { return }
    file.lastFailure = failure
    guard !file.isWaiting else {
      // Twelve requests that break together are one failure, not twelve steps up the ladder of delays.
      files[id] = file
      return
    }
    checkpoint(&file)
    file.attempts += 1
    file.failedAt = now.monotonic
    let isFirst = file.previousDelay == nil
    let isAtOnce = isFirst && isTooEarly && retryAfter == nil
    let drawn = policy.delay(after: file.previousDelay, retryAfter: retryAfter, using: &random)
    file.previousDelay = drawn
    let delay = isAtOnce ? .zero : drawn
    if file.attempts >= policy.attemptsMax, file.session?.isOpen == true { file.session?.state = .unconfirmed }
    if file.phase == .ready {
      let until = now.monotonic + delay
      file.phase = .waiting(until: until)
      if delay >= UploadConstants.watchdogSession { watchdog.forget(id) }
      deadlines.insert(.file(id), at: until)
    }
    files[id] = file
    if isFirst { actions.append(.report(.retrying(id, file.path, failure))) }
    actions.append(.showStatus(id))
  }
}

extension UploadSchedule.Purpose {
  /// The file that the request was sent for.
  var file: FileID? {
    switch self {
    case .prewarm, .abort: nil
    case .openSession(let id), .querySession(let id), .commit(let id): id
    case .chunk(let id, _, _, _, _), .wholeFile(let id, _, _): id
    }
  }
}

extension FileUpload {
  /// It is at work, or will be.
  fileprivate var isToBeDelivered: Bool {
    switch phase {
    case .writing, .held, .ready, .waiting: true
    case .finishing, .complete, .failed, .cancelled, .removed: false
    }
  }

  var isWaiting: Bool {
    if case .waiting = phase { return true }
    return false
  }
}

extension StepFailure {
  /// Why a step did not succeed; an answer to another question is a failure of its own kind.
  init(_ outcome: StepOutcome) {
    if case .refused(let refused) = outcome {
      self = refused
    } else {
      self.init(.unexpectedAnswer, "The receiver gave an answer that does not belong to the request.")
    }
  }
}

extension FileStatus.Failure {
  init(code: String, message: String, at now: Moment) {
    self.init(code: code, message: message, atMilliseconds: now.wallMilliseconds)
  }
}

extension FileContentsError {
  var explanation: String {
    switch self {
    case .gone: "it is gone"
    case .locked: "another program has locked it there"
    case .system(let errno): "errno \(errno), check the disk that holds the spool"
    }
  }
}

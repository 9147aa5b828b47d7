import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// What answers and failures mean for the destination as a whole (``DestinationGate``), and for refused files.
extension UploadSchedule {
  /// The least pause after one more failure in a row, where only a request with bytes of files shows whether the
  /// failure is over: ten times its duration. The first failure may be an accident.
  func leastPause(isFirst: Bool, retryAfter: Duration?) -> Duration? {
    guard !isFirst, destination.latestAnswer.bodyTime > .zero else { return retryAfter }
    return max(destination.latestAnswer.bodyTime * 10, retryAfter ?? .zero)
  }

  /// The destination, or a proxy before it, takes nothing of this file now. Other files may succeed.
  mutating func waitOut(_ id: FileID, _ failure: StepFailure, _ shown: FileStatus.Failure, at now: ClockReading) {
    guard let file = files[id] else { return }
    files[id]?.note(shown)
    actions.append(.showStatus(id))
    guard !destination.latestAnswer.hasMoved else { return }
    let pause = leastPause(isFirst: file.failures.rounds == 0, retryAfter: failure.retryAfter)
    files[id]?.progress.allowChunks(1)
    if failure.kind == .misdirected {
      setBack(id, by: shown, canEnd: false, mayLeaveCopies: true, retryAfter: pause, at: now)
    } else {
      pauseFile(id, failure: shown, retryAfter: pause, at: now)
    }
  }

  /// While the destination is suspect each request is a trial: with few bytes, and first with files that have not
  /// failed before.
  func trialOrder(of file: FileUpload) -> UInt64 { file.snapshot.sizeBytes >> 1 | (hasFailed(file) ? 1 << 63 : 0) }

  func trialOrder(of id: FileID) -> UInt64 { files.entry(id).map { trialOrder(of: $0.file) } ?? 0 }

  /// The attempts of a file that changes begin anew, so that it would be tried before all others for ever: one probe is enough for it.
  private func hasFailed(_ file: FileUpload) -> Bool {
    file.failures.rounds > 0 || destination.refusals.wasProbedInVain(file.id)
  }

  /// While untried files are preferred, a file that has failed before is passed over.
  func mayProbe(with file: FileUpload) -> Bool { !destination.isProbingWithUntried || !hasFailed(file) }

  /// The probe goes to a file of any length that has not failed before: the others may have been refused for what they
  /// are. Where nothing of such a file can be sent now, every file is allowed.
  mutating func probeWithUntried(at now: ClockReading) {
    guard !destination.gate.isOpen, maySend(at: now) else { return }
    destination.isProbingWithUntried = true
    defer { destination.isProbingWithUntried = false }
    for id in queues.large.working {
      sendControl(id, at: now)
      sendZeros(id, at: now)
    }
    sendSmallFiles(at: now)
    sendChunks(at: now)
  }

  /// One more chunk of a file may go out now. After a refusal one may be in flight, then twice as many for each that is
  /// taken. Of all files of which the destination has repeatedly lost acknowledged bytes, one together.
  func mayGoOut(ofFile file: FileUpload) -> Bool {
    if file.progress.setbacks.areRepeated, isChunkUnderWayAfterLosses { return false }
    let allowed = file.progress.chunksAllowed
    return allowed == 0 || file.session.map { $0.chunksInFlight.count < allowed } ?? true
  }

  /// Few requests are in flight, and few files are such: they are searched only for one of these.
  private var isChunkUnderWayAfterLosses: Bool {
    requests.values.contains {
      guard $0.order.chunks != nil, let id = $0.file else { return false }
      return files.entry(id)?.file.progress.setbacks.areRepeated == true
    }
  }

  /// No more of a file is read ahead than is sent next, where the destination has repeatedly lost acknowledged bytes.
  func mayReadAhead(ofFile file: FileUpload) -> Bool {
    guard file.progress.setbacks.areRepeated else { return true }
    return !(queues.large.working + openFiles.early).contains { id in
      guard let other = files.entry(id)?.file, other.progress.setbacks.areRepeated else { return false }
      return other.transfer.map { $0.readingCount > 0 || !$0.readIndices.isEmpty } ?? false
    }
  }

  /// A chunk of the file was taken.
  mutating func allowMoreChunks(of id: FileID) {
    guard let allowed = files[id]?.progress.chunksAllowed, allowed > 0 else { return }
    let more = allowed * 2 < limits.parallelChunks ? allowed * 2 : 0
    files[id]?.progress.allowChunks(more)
  }

  /// Opens or closes the gate: an answer that is not about the destination as a whole proves that it is there.
  mutating func noteReachability(
    _ request: HTTPRequestID, _ underway: InFlightRequest, _ outcome: StepOutcome, at now: ClockReading
  ) {
    let order = underway.order
    destination.latestAnswer.begin(
      bodyTime: order.proof == .takes ? now.monotonic - underway.sentAt : .zero,
      hasSentBytes: order.carriesBytes ? underway.hasSentBytes : nil)
    guard case .refused(let failure) = outcome else { return proved(order.proof, request, at: now) }
    if destination.gate.isProbe(request) { destination.refusals.probedInVain(underway.files) }
    switch policy.verdict(on: failure.kind, attempts: 0) {
    case .pauseDestination:
      suspectDestination(request, underway.endpoint, failure, by: .answers, at: now)
    case .waitOut:
      noteRefusal(request, underway, failure, at: now)
    case .ignore:
      if destination.gate.isProbe(request) { destination.gate.probeNext(at: now.monotonic) }
    case .pauseFile where failure.kind == .transport(.bodyUnavailable):
      if destination.gate.isProbe(request) { destination.gate.probeNext(at: now.monotonic) }
    case .retryStep, .pauseFile, .waitForRoom, .startNewSession, .fail:
      if case .transport = failure.kind {
        // There is no answer, but no proof that the destination is away: the next request is the next probe.
        if destination.gate.isProbe(request) { closeGate(failure, by: .answers, at: now) }
      } else {
        proved(order.proof, request, at: now)
      }
    }
  }

  /// A request was refused for now. Where it was for a file, the file may be the reason; several in a row concern the
  /// destination.
  private mutating func noteRefusal(
    _ request: HTTPRequestID, _ underway: InFlightRequest, _ failure: StepFailure, at now: ClockReading
  ) {
    // A refusal to end a session says nothing of what captures need.
    if case .abort = underway.order, destination.gate.isOpen { return }
    if failure.kind != .busy, moves(from: underway.endpoint, after: failure, at: now) {
      destination.latestAnswer.moved()
      if destination.gate.isProbe(request) { destination.gate.probeNext(at: now.monotonic) }
      return prewarm(.changed, at: now)
    }
    if case .openSession(let opening) = underway.order, destination.gate.isOpen {
      return restOpenings(after: opening.fileID, failure, at: now)
    }
    let isOfDestination = destination.refusals.refuse(underway.files, wouldHaveProved: underway.order.proof)
    if !isOfDestination, destination.gate.isOpen { return }
    suspectDestination(request, underway.endpoint, failure, by: underway.order.proof, at: now)
  }

  /// A server that opens no more uploads may still take whole files and chunks: only what needs a session waits.
  private mutating func restOpenings(after id: FileID, _ failure: StepFailure, at now: ClockReading) {
    guard destination.refusals.refuseOpening(of: id) else { return }
    let delay = policy.delay(
      after: destination.refusals.openingRest?.delay, retryAfter: failure.retryAfter, using: &random)
    destination.refusals.restOpenings(for: delay, at: now.monotonic)
    timers.insert(.openSessions, at: now.monotonic + delay)
  }

  /// No server has refused several openings in a row; or the rest after that is over, and no other one is being opened.
  func mayOpenSession(at now: ClockReading) -> Bool {
    guard let rest = destination.refusals.openingRest else { return true }
    guard rest.until <= now.monotonic else { return false }
    return !requests.values.contains { if case .openSession = $0.order { true } else { false } }
  }

  private mutating func suspectDestination(
    _ request: HTTPRequestID, _ endpoint: EndpointID, _ failure: StepFailure, by proof: DestinationGate.Proof,
    at now: ClockReading
  ) {
    switch destination.gate.state {
    case .open:
      guard moves(from: endpoint, after: failure, at: now) else { return closeGate(failure, by: proof, at: now) }
      prewarm(.changed, at: now)
    case .probing(let probe) where probe == request:
      guard moves(from: endpoint, after: failure, at: now) else { return closeGate(failure, by: proof, at: now) }
      destination.gate.probeNext(at: now.monotonic)
      prewarm(.changed, at: now)
    case .probing, .closed: break  // an older request that was in flight when the destination.gate closed
    }
  }

  /// The address has failed, and another one may work: its requests go to that one at once. A receiver that reports
  /// itself busy is the same behind all its addresses.
  private mutating func moves(from endpoint: EndpointID, after failure: StepFailure, at now: ClockReading) -> Bool {
    guard failure.kind != .busy, destination.endpoints.hasAlternative(to: endpoint, at: now.monotonic) else {
      return false
    }
    // Twelve requests that break together are one move, not twelve times twelve new connections.
    guard endpoint == destination.endpoints.current else { return true }
    prewarm(.lost, at: now)
    link.connectionsLost()
    return true
  }

  /// A request was answered. An answer that proves less than what failed before only allows the next attempt. With
  /// nothing waiting that could prove more, the destination is open, and the pauses continue where they were.
  private mutating func proved(_ proof: DestinationGate.Proof, _ request: HTTPRequestID, at now: ClockReading) {
    destination.path.prove()
    destination.refusals.proved(proof)
    guard !destination.gate.isProved(by: proof) else { return openGate(at: now) }
    guard destination.gate.isProbe(request) else { return }
    if files.counts.ready + files.counts.waiting > 0 {
      destination.gate.probeNext(at: now.monotonic)
    } else {
      openGate(at: now)
    }
  }

  /// A refusal may concern the refused file: one that was not tried yet does not wait as long as refused ones.
  mutating func probeSooner(at now: ClockReading) {
    guard destination.gate.failure?.code == StepFailure.Kind.misdirected.code else { return }
    let soon = now.monotonic + policy.maxDelay
    if destination.gate.shorten(to: soon) { timers.insert(.gate, at: soon) }
  }

  private mutating func openGate(at now: ClockReading) {
    guard destination.gate.open() else { return }
    destination.refusals.forgetProbes()
    actions.append(.report(.destinationAvailable))
    for id in openFiles.open { planSession(id, at: now) }
  }

  private mutating func closeGate(_ failure: StepFailure, by proof: DestinationGate.Proof, at now: ClockReading) {
    let least = leastPause(isFirst: destination.gate.delay == nil, retryAfter: failure.retryAfter)
    let delay = policy.delay(
      after: destination.gate.delay, retryAfter: least, mayLeaveCopies: failure.kind == .misdirected, using: &random)
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    let isNew = destination.gate.close(for: delay, at: now.monotonic, shown, by: proof)
    if isNew { actions.append(.report(.destinationUnavailable(shown))) }
    timers.insert(.gate, at: now.monotonic + delay)
    prewarm(.lost, at: now)
    link.connectionsLost()
    watchdog.forgetAll()
  }
}

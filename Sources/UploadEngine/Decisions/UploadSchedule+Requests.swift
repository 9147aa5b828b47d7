public import FileModel
import Integrity
import Lookup
import OrderedCollections
public import TransferModel

/// Answers of the workers and the destination.
extension UploadSchedule {
  /// A read has ended.
  public mutating func chunkRead(
    _ read: ReadID, result: ReadOutcome, savedBytes saved: Int = 0, encoding: ChunkEncoding = .lz4, at now: ClockReading
  ) {
    defer { pump(at: now) }
    let saving = saved > 0 ? CompressionSaving(encoding: encoding, bytes: saved) : .nothing
    guard let reading = memory.buffers.ended(read, saving: saving) else { return }
    let (id, index) = (reading.file, reading.index)
    guard let file = files[id], let transfer = file.transfer, transfer.states.indices.contains(index),
      transfer.states[index] == .reading(read)
    else {
      // The file changed or went away while the worker was reading.
      release(read)
      return
    }
    if case .success = result { noteReadable(id) }
    switch result {
    case .success(let digest) where file.progress.delivered != nil:
      transfer.set(.done(digest), at: index)
      release(read)
      endComparing(id, at: now)
    case .success where file.isResting(at: now):
      transfer.set(.pending, at: index)
      release(read)
    case .success(let digest):
      if isSmall(file) { queues.small.becameReady(id) }
      if !file.isWholeFile, isAlreadyThere(digest, index, of: file) {
        transfer.set(.done(digest), at: index)
        file.session?.held.acknowledge(digest, at: index)
        files[id]?.progress.chunkReused()
        totals.reusedChunks += 1
        release(read)
        countFound(of: id)
        actions.append(.showStatus(id))
      } else if !restartsSequence(id, with: index, read: read, at: now) {
        transfer.set(.read(read, digest), at: index)
      }
    case .changed where reading.isOfGrowingFile:
      release(read)
      transfer.set(file.growth == nil ? .pending : .unsealed, at: index)
      file.growth?.unseal(index, at: now.monotonic)
    case .changed:
      // The event `changed` is still to come, or was handled and the file has settled again at another epoch.
      transfer.set(.pending, at: index)
      release(read)
      pauseFile(id, failure: .init(code: "changed", message: "The file changed while it was read.", at: now), at: now)
    case .failed(.released):
      release(read)
      chunkIsReleased(id, index, at: now)
    case .failed(let error):
      transfer.set(.pending, at: index)
      release(read)
      if case .system = error { noteUnreadable(id, at: now) }
      let message = "The spool's copy cannot be read now: \(error.explanation)."
      pauseFile(id, failure: .init(code: "spool-unreadable", message: message, at: now), at: now)
    }
  }

  func isAlreadyThere(_ digest: ChunkDigest, _ index: Int, of file: FileUpload) -> Bool {
    guard let session = file.session else { return false }
    if case .published = session.state { return true }
    // A request for an earlier content may replace what is stored, at any moment.
    return !session.chunksInFlight.contains(index) && session.held.holds(digest, at: index)
  }

  /// The request has not ended.
  func isUnderWay(_ request: HTTPRequestID) -> Bool { requests[request] != nil }

  /// A request has ended. `outcome` is a refusal when there was no response. `hasSentBytes`: some of its body may have
  /// been sent.
  public mutating func requestCompleted(
    _ request: HTTPRequestID, outcome: StepOutcome, connection: HTTPConnectionMetrics,
    offers: DestinationOffers = DestinationOffers(), sharedFrame: SharedFrame? = nil, hasSentBytes: Bool = true,
    at now: ClockReading
  ) {
    defer { pump(at: now) }
    if let sharedFrame { destination.forms.sharedFrames.tried(sharedFrame) }
    guard !noteCredentials(request, outcome, at: now) else { return }
    guard var underway = requests.end(request) else { return }
    underway.sharedFrame = sharedFrame
    underway.hasSentBytes = hasSentBytes
    let outcome = underway.isGivenUp ? Self.givenUp(outcome) : outcome
    noteOrder(of: underway, outcome, at: now)
    learn(offers, at: now)
    destination.forms.learn(outcome)
    if underway.order.isControl || request == destination.path.trial { checkPlannedSessions(at: now) }
    switch underway.order {
    case .chunk, .run, .wholeFile, .bundle: unwatch(request, underway, outcome, at: now)
    case .prewarm, .openSession, .querySession:
      if case .refused = outcome { break }
      link.answered(after: now.monotonic - underway.sentAt)
    case .secureSession, .zeros, .commit, .abort: break
    }
    let sign = signOfHealth(in: outcome)
    noteHealth(of: underway.endpoint, sign, at: now)
    noteReachability(request, underway, sign, at: now)
    answered(request, underway, outcome, connection, at: now)
  }

  /// The outcome of the request goes to the file or session that it was sent for.
  private mutating func answered(
    _ request: HTTPRequestID, _ underway: InFlightRequest, _ outcome: StepOutcome, _ connection: HTTPConnectionMetrics,
    at now: ClockReading
  ) {
    switch underway.order {
    case .prewarm:
      guard case .warmed = outcome else { break }
      link.warmed(destination.prewarmer.answers + 1, at: now.monotonic)
      prewarm(.answered(connection), at: now)
    case .abort:
      if let session = underway.ending { abortEnded(session, outcome, at: now) }
    case .openSession(let opening):
      noteOpening(of: opening.fileID, outcome, sentAt: underway.sentAt, at: now)
      sessionOpenEnded(opening.fileID, request, outcome, at: now)
    case .querySession:
      if let id = underway.file { sessionQueryEnded(id, request, outcome, at: now) }
    case .secureSession(let session):
      if let id = underway.file { secureEnded(id, session.id, outcome, at: now) }
    case .chunk, .run:
      guard let id = underway.file, let (session, chunks) = underway.order.chunks else { break }
      let savings = chunks.map { memory.buffers.saving(of: $0.read) }
      for chunk in chunks { release(chunk.read) }
      noteWarmth(id, connection)
      guard !stragglerEnded(id, request, underway, outcome), !pathWasLost(id, request, underway, outcome) else { break }
      chunksEnded(id, request, chunks, session.id, outcome, sentAt: underway.sentAt, at: now)
      for (position, chunk) in chunks.enumerated()
      where outcome.ofMember(position, of: chunks.count).isChunkStored {
        noteSaving(savings[position], of: id, at: chunk.index)
      }
    case .zeros(let zeros):
      if let id = underway.file { zerosEnded(id, request, zeros, outcome, at: now) }
    case .commit:
      guard let id = underway.file else { break }
      noteWarmth(id, connection)
      publicationEnded(id, request, outcome, at: now)
    case .wholeFile, .bundle:
      wholeFilesEnded(underway.order.wholeFiles, request, outcome, connection, underway.sharedFrame, at: now)
    }
  }

  /// A watchdog's cancellation is a failure of the request; an answer that came before it counts as it is.
  private static func givenUp(_ outcome: StepOutcome) -> StepOutcome {
    guard case .refused(let failure) = outcome, failure.kind == .transport(.cancelled) else { return outcome }
    return .refused(StepFailure(.transport(.timedOut), "The request made no progress; it is sent again."))
  }

  mutating func learn(_ offers: DestinationOffers, at now: ClockReading) {
    if let abilities = offers.abilities { learn(abilities, at: now) }
    destination.forms.learn(offers)
    if let files = offers.filesPerRequest {
      destination.sizes.learn(filesPerRequest: files, atMost: limits.smallBuffers)
    }
  }

  /// What an answer for several files shows of the destination: that it is available, unless it refused each of them as
  /// unavailable.
  private func signOfHealth(in outcome: StepOutcome) -> StepOutcome {
    guard case .each(let outcomes) = outcome, let first = outcomes.first else { return outcome }
    let areAllRefused = outcomes.allSatisfy {
      guard case .refused(let failure) = $0 else { return false }
      return policy.verdict(on: failure.kind, attempts: 0) == .waitOut
    }
    return areAllRefused ? first : outcome
  }

  /// A catalog entry with this receipt is durable. An entry that was read before the receipt came does not count.
  public mutating func recorded(_ id: FileID, receipt: Receipt?, at now: ClockReading) {
    recorded([(id: id, receipt: receipt)], at: now)
  }

  /// Several catalog entries are durable, of one transaction; some have no receipt.
  public mutating func recorded(_ entries: [(id: FileID, receipt: Receipt?)], at now: ClockReading) {
    if spool.health.recordSucceeds() { actions.append(.showSummary) }
    for entry in entries {
      if let receipt = entry.receipt {
        believe(receipt, of: entry.id, at: now)
      } else {
        deliveryIsSuperseded(entry.id, at: now)
      }
    }
    pump(at: now)
  }

  /// The disk does not take a record, which is tried again. A delivery since then does not count until it is recorded.
  public mutating func recordingFails(_ reason: String, at now: ClockReading) {
    // A record that no call waits for is tried again without a report.
    let revisions = revisionsToRecord
    guard files.counts.finishing > 0 || !revisions.isEmpty || spool.health.record?.isLasting == true else {
      spool.health.recordSucceeds()
      return
    }
    let delivered = FileStatus.Failure(
      code: FileUpload.notRecordedCode,
      message:
        "The destination has the file, and that cannot be recorded: \(reason). It is tried again every second, and delivered "
        + "anew after the next start if it cannot be. Look after the spool's disk.", at: now)
    let revised = FileStatus.Failure(
      code: FileUpload.notRecordedCode,
      message:
        "The file is not what was delivered before, and that cannot be recorded: \(reason). It is tried again every second, and the "
        + "file is delivered once it can be. Look after the spool's disk.", at: now)
    let isFirst = spool.health.recordFails(
      files.counts.finishing > 0 || revisions.isEmpty ? delivered : revised, ofRevision: revised, at: now.monotonic)
    if isFirst { timers.insert(.record, at: now.monotonic + Self.recordPatience) }
    if spool.health.record?.isLasting == true { holdUnrecorded() }
    actions.append(.showSummary)
  }

  /// The longest that calls wait for a disk that does not take a record.
  static let recordPatience: Duration = .seconds(10)

  /// No call waits for these files any more, and they are reported. Once they are recorded after all they are complete.
  mutating func holdUnrecorded() {
    guard let recordFailure = spool.health.record else { return }
    let delivered = files.counts.finishing > 0 ? files.values.filter { $0.phase == .finishing }.map(\.id) : []
    let held =
      delivered.map { (id: $0, failure: recordFailure.failure) }
      + revisionsToRecord.map { (id: $0, failure: recordFailure.ofRevision) }
    guard !held.isEmpty else { return }
    for (id, failure) in held {
      files.update(id) { $0.fail(failure) }
      actions.append(.showStatus(id))
    }
    actions.append(.showSummary)
  }

  private mutating func believe(_ receipt: Receipt, of id: FileID, at now: ClockReading) {
    guard var file = files[id], file.phase == .finishing || file.isUnrecorded, file.receipt == receipt else { return }
    file.complete()
    file.failures.ended()
    // What was compared with its receipt was delivered before.
    let wasCompared = file.progress.delivered != nil
    file.progress.comparedRecorded()
    settleLostPlaces(of: &file)
    files[id] = file
    actions.append(.showStatus(id))
    if !wasCompared { actions.append(.report(.delivered(id, file.publishedPaths.last ?? file.path, receipt))) }
    if !publishFurther(id, at: now) { dropDeliveredParts(id) }
  }

  /// An address is healthy when answers come over it, whatever they are. A cancellation by this side says nothing of
  /// it.
  private mutating func noteHealth(of endpoint: EndpointID, _ outcome: StepOutcome, at now: ClockReading) {
    guard case .refused(let failure) = outcome else {
      destination.latestAnswer.came(at: now.monotonic)
      return destination.endpoints.succeeded(endpoint)
    }
    switch failure.kind.endpointVerdict {
    case .nothing: break
    case .failed: destination.endpoints.failed(endpoint, at: now.monotonic)
    case .answered:
      destination.latestAnswer.came(at: now.monotonic)
      destination.endpoints.succeeded(endpoint)
    }
  }

  mutating func noteWarmth(_ id: FileID, _ connection: HTTPConnectionMetrics) {
    guard !connection.protocolName.isEmpty, let file = files.entry(id)?.file else { return }
    let isFirst = file.transfer?.doneCount == 0
    guard isFirst || file.progress.protocolName != connection.protocolName else { return }
    let stages = destination.prewarmer.stages
    files.update(id) {
      $0.progress.connected(connection.protocolName)
      guard isFirst else { return }
      $0.progress.foundConnection(isWarm: !connection.isNewConnection, stages: stages)
    }
  }
}

extension StepOutcome {
  /// The server holds the chunk that was sent.
  var isChunkStored: Bool {
    switch self {
    case .chunkStored, .chunkStoredAs: true
    default: false
    }
  }

  /// The server's name for the chunk.
  var chunkToken: String? {
    if case .chunkStoredAs(let token, _, _) = self { token } else { nil }
  }

  /// The session's expiry, where the acknowledgement of a chunk has it.
  var chunkExpiresAtSeconds: Int64? {
    if case .chunkStoredAs(_, let expiresAtSeconds, _) = self { expiresAtSeconds } else { nil }
  }

  /// The server had the chunk's bytes already.
  var isChunkCopied: Bool {
    if case .chunkStoredAs(_, _, let isCopied) = self { isCopied } else { false }
  }
}

extension FileUpload {
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
  init(code: String, message: String, at now: ClockReading) {
    self.init(code: code, message: message, atMilliseconds: now.wallMilliseconds)
  }
}

extension FileContentsError {
  var explanation: String {
    switch self {
    case .gone: "it is gone"
    case .released: "its bytes are only at the server"
    case .locked: "another program has locked it there"
    case .system(errno: 13):
      "the mode of a folder above it denies the daemon's user to enter it (EACCES); give that right back with `chmod u+rwx`"
    case .system(errno: 23): "this machine has as many files open as it may (ENFILE, fs.file-max)"
    case .system(errno: 24): "the mount has as many files open as it may (EMFILE; ulimit -Hn, LimitNOFILE=)"
    case .system(let errno): "errno \(errno), check the disk that holds the spool"
    }
  }
}

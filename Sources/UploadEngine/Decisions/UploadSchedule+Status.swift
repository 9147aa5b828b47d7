public import FileModel
import Integrity
import Lookup
import OrderedCollections
public import TransferModel

/// What the status and the catalog show.
extension UploadSchedule {
  /// The status of one file.
  public func status(of id: FileID, publishedName: (RelativePath) -> String, at now: ClockReading) -> FileStatus? {
    guard let file = files[id] else { return nil }
    let path = file.snapshot.names.first ?? file.path
    let name = givenName(of: file, path) ?? publishedName(path)
    // The name is another capture's, or a folder's: the receipt has its actual name.
    let other = file.receipt.flatMap { $0.name.utf8.elementsEqual(name.utf8) ? $0.publishedAs : nil }
    var status = FileStatus(id: id, path: path, publishedName: other ?? name, state: state(of: file))
    status.otherPaths = Array(file.snapshot.names.dropFirst())
    status.reason = reason(of: file) ?? silence(about: file, at: now)
    status.revision = file.revision
    describeBytes(of: file, in: &status, at: now)
    describeFailure(of: file, in: &status, at: now)
    status.sessionID = file.session?.id
    status.checkpointChunks = file.session?.recordedChunks ?? 0
    status.merkleRoot = file.receipt?.merkleRoot ?? file.progress.merkleRoot.map(Hex.encode)
    status.chainTip =
      file.receipt.map { $0.chainTip.isEmpty ? nil : $0.chainTip } ?? file.progress.chainTip.map(Hex.encode)
    status.protocolName = file.progress.protocolName
    status.isPrewarmed = file.progress.warmth.isWarm
    status.prewarm = prewarm(of: file, at: now)
    status.openedAtMilliseconds = file.writers.openedAt
    status.closedAtMilliseconds = file.writers.closedAt
    status.startedAtMilliseconds = file.progress.startedAt
    if file.phase != .finishing, !file.isUnrecorded {
      status.completedAtMilliseconds = file.publication.completedAt
      status.receipt = file.receipt
    }
    status.isLocal = file.isLocal
    status.isOnDisk = file.isLocal && file.snapshot.isOnDisk
    status.missing = file.isLocal && file.snapshot.interruption != nil ? file.snapshot.missing : nil
    status.ownership = file.ownership
    return status
  }

  /// Before the first chunk of a file that is open: what there is for it by now.
  private func prewarm(of file: FileUpload, at now: ClockReading) -> FileStatus.Prewarm? {
    let warmth = file.progress.warmth
    let isAwaited = file.isOpen && file.progress.protocolName.isEmpty
    let stages = isAwaited ? destination.prewarmer.stages : warmth.stages
    let session = warmth.sessionMicroseconds
    guard stages != nil || session > 0 else { return nil }
    return FileStatus.Prewarm(
      stages: stages, session: session > 0 ? .microseconds(session) : nil,
      alternatives: destination.prewarmer.alternatives(at: now.monotonic).map(\.text))
  }

  /// What a list of all files takes from here, beside a file's row in the catalog.
  enum Listing: Hashable, Sendable {
    case inMemory
    case gone
    /// It was not met yet, and the row does not say how it stands.
    case unknown
    /// The size is nil where the row has it.
    case unloaded(FileStatus.State, FileStatus.Failure?, sizeBytes: UInt64?)
  }

  /// How a file stands of which the catalog has a row. What was not met yet stands as it was recorded.
  func listing(of id: FileID, recordedAs recorded: CatalogState) -> Listing {
    guard let known = memory.unloaded[id] else { return .inMemory }
    let failure = destination.gate.failure
    let waiting: FileStatus.State = failure == nil ? .queued : .waiting
    switch (known.state, recorded) {
    case (.delivered, _), (.deliveredInThisRun, _): return .unloaded(.complete, nil, sizeBytes: known.sizeBytes)
    case (.pending, _): return .unloaded(waiting, failure, sizeBytes: known.sizeBytes)
    case (.unmet, .complete): return .unloaded(.complete, nil, sizeBytes: nil)
    case (.unmet, .pending): return .unloaded(waiting, failure, sizeBytes: nil)
    case (.unmet, .failed): return .unknown
    case (.unmet, .evicted), (.unmet, .removed): return .gone
    }
  }

  /// The name in a delivered file's receipt, where no other record has it any more: the file is gone, or its published
  /// name was dropped.
  private func givenName(of file: FileUpload, _ path: RelativePath) -> String? {
    guard file.isLocal else { return file.receipt?.name }
    let isForgotten = file.phase == .complete && file.publishedPaths == [path] && publishedName(file.id, path) == nil
    return isForgotten ? file.receipt?.name : nil
  }

  /// The summary of the mount.
  ///
  /// Takes no longer for a hundred thousand files than for one. Files of which chunks are acknowledged while they wait
  /// count with their whole size in ``MountSummary/pendingBytes``.
  public mutating func summary(at now: ClockReading) -> MountSummary {
    var summary = MountSummary()
    let counts = files.counts
    let working = queues.working.compactMap { files.entry($0)?.file }.filter { $0.phase == .ready }
    let workingCount = working.count + counts.smallAtWork
    let isPaused = destination.gate.failure != nil
    summary.filesByState = [
      .writing: counts.writing, .held: counts.held, .ignored: counts.ignored, .interrupted: counts.interrupted,
      .complete: counts.complete + memory.unloaded.deliveredCount,
      .failed: counts.failed,
      .cancelled: counts.cancelled,
      .queued: isPaused ? 0 : counts.ready - workingCount + memory.unloaded.pendingCount,
      .uploading: (isPaused ? 0 : workingCount) + counts.finishing,
      .waiting: counts.waiting + (isPaused ? counts.ready + memory.unloaded.pendingCount : 0),
    ]
    let leaving = filesBeingDiscarded()
    summary.undeliveredCount = files.failed.count - leaving.count
    let failed = files.failed.prefix(100 + leaving.count).filter { !leaving.contains($0) }
    summary.failedPaths = failed.prefix(100).compactMap { files[$0]?.path }.sorted()
    let early = openFiles.early.compactMap { files.entry($0)?.file }.filter { $0.phase == .writing }
    let acknowledged = (working.filter(\.isPending) + early).reduce(UInt64(0)) { $0 + ($1.transfer?.doneBytes ?? 0) }
    summary.pendingBytes = files.pendingBytes - min(files.pendingBytes, acknowledged) + memory.unloaded.pendingBytes
    summary.unloadedFiles = memory.unloaded.count
    summary.oldestPendingSequence = [files.oldestPendingSequence(), memory.unloaded.oldestSequence()].compactMap { $0 }
      .min()
    summary.acknowledgedBytes = totals.acknowledgedBytes
    summary.sentBytes = sentBytes
    summary.retriedChunks = totals.retriedChunks
    summary.reusedChunks = totals.reusedChunks
    summary.outgrownFiles = totals.outgrownFiles
    summary.filesRefusedByDisk = totals.filesRefusedByDisk
    summary.filesChangedInSpool = totals.filesChangedInSpool
    summary.unprovenCount = counts.unproven
    summary.bytesPerSecond = totals.rate.rate(at: now.monotonic)
    summary.requestsInFlight = link.inFlight
    summary.changeSequence = files.changeSequence
    summary.isScanned = spool.isScanned
    if let scanFailure = spool.health.scan {
      summary.isScanGivenUp = scanFailure.isLasting
      summary.undeliveredCount += 1
      summary.failedPaths.insert(scanFailure.path == .root ? RelativePath(".") : scanFailure.path, at: 0)
    }
    summary.isDraining = isDraining
    summary.lastFailure =
      spool.health.scan?.failure ?? spool.health.record?.failure ?? destination.gate.failure
      ?? destination.credentialTrial.failure
    summary.nextAttemptMilliseconds = gateReopens(at: now)
    if let waiting = files.firstWaiting() {
      summary.fileFailure = waiting.file.lastFailure
      summary.fileAttemptMilliseconds = now.wallMilliseconds(
        at: max(waiting.until, destination.gate.closedUntil ?? waiting.until))
    }
    summary.endpoints = (0..<destination.endpoints.count).map { index in
      let id = EndpointID(index)
      return EndpointSummary(
        url: "", health: destination.endpoints.health(of: id), isInUse: destination.endpoints.current == id)
    }
    return summary
  }

  /// Nothing is left that will be delivered without a user's action.
  public var isIdle: Bool {
    (spool.isScanned || spool.health.scan?.isLasting == true) && files.counts.pending == 0
      && memory.unloaded.pendingCount <= memory.fit.lasting.count
  }

  /// The catalog's entry of a file; nil when it has none.
  public func catalogEntry(of id: FileID) -> CatalogEntry? {
    guard let file = files[id], !file.phase.isRemoved, file.phase != .routedElsewhere else { return nil }
    if var entry = catalog.claims.unconfirmedEntry(of: id) {
      if entry.isDelivered {
        let isOfDisk = entry.failureCode == FileUpload.diskRemainsCode
        let known = isOfDisk ? FileUpload.diskRemainsCode : FileUpload.remainsCode
        let code = file.progress.isToResend ? FileUpload.remainsToResendCode : known
        entry.failureCode = file.snapshot.mayBeRemains ? code : nil
      }
      return entry
    }
    let state: CatalogState
    switch file.phase {
    case .failed where file.isUnrecorded: state = file.isLocal ? .complete : .evicted
    case .finishing, .complete: state = file.isLocal ? .complete : .evicted
    case .interrupted, .failed, .cancelled: state = .failed
    case .writing, .held, .ignored, .routedElsewhere, .ready, .waiting, .removed: state = .pending
    }
    let unclear = mayBePublished(file) ? FileUpload.unclearAfterCrash : nil
    let isOnItsWay = file.phase == .ready || file.isWaiting
    let seal = isOnItsWay && file.receipt == nil && userRequestCode(file) == nil ? file.progress.seal : nil
    return CatalogEntry(
      id: id, path: file.path, inode: file.snapshot.inode, sizeBytes: file.snapshot.sizeBytes,
      modifiedNanoseconds: file.snapshot.modifiedNanoseconds, revision: file.revision,
      state: unclear == nil ? state : .failed, publishedPaths: file.publishedPaths, receipt: file.receipt,
      failureCode: unclear?.code ?? userRequestCode(file) ?? seal.map { _ in ContentSeal.code } ?? codeOfRemains(file)
        ?? (file.isUnrecorded ? nil : file.lastFailure?.code)
          ?? (file.mustKeepSession ? FileUpload.partsAtServerCode : nil),
      failureMessage: unclear?.message ?? seal?.text ?? (file.isUnrecorded ? nil : file.lastFailure?.message),
      completedAtMilliseconds: file.publication.completedAt,
      openedAtMilliseconds: file.writers.openedAt, closedAtMilliseconds: file.writers.closedAt, doubt: doubt(of: file),
      pointer: file.lacksParts || releases(file) ? file.pointer : nil, session: sessionOfContent(of: file))
  }

  /// Only what this session has published may be the present content. Earlier sessions belong to an earlier content,
  /// which a power cut may restore together with the record of its session.
  private func sessionOfContent(of file: FileUpload) -> String {
    guard !catalog.claims.isChanging(file.id), let session = file.session, session.belongs(toEpoch: file.snapshot.epoch)
    else { return "" }
    return session.id ?? ""
  }

  /// Why a copy of the spool must not take the content for whole, should the file have no label.
  private func doubt(of file: FileUpload) -> Interruption? {
    if file.isOpen || file.phase == .writing || catalog.claims.isChanging(file.id) { return .mountDied }
    // The remainder of a delivered file is no file, for the moment in which it is still there.
    if file.receipt != nil, file.lacksParts { return .unproven }
    if let interruption = file.snapshot.interruption { return interruption.isOfSpool ? .unproven : interruption }
    // Nor is a file that lacks parts whose location the catalog cannot name.
    return file.lacksParts && file.pointer == nil ? .unproven : nil
  }

  /// Distinguishes what a disk may have left of a delivered file from what was left of it when its parts were given up.
  private func codeOfRemains(_ file: FileUpload) -> String? {
    let isDelivered = file.phase == .finishing || file.phase == .complete || file.isUnrecorded
    return isDelivered && !file.lacksParts && file.snapshot.mayBeRemains ? FileUpload.diskRemainsCode : nil
  }

  /// The code that keeps a user's request over a restart.
  private func userRequestCode(_ file: FileUpload) -> String? {
    if file.phase == .cancelled {
      // Its size and time of change may not be known.
      let isKnown = !file.isOpen && file.snapshot.interruption?.isOfSpool != true
      return isKnown ? FileUpload.cancelledCode : FileUpload.cancelledOpenCode
    }
    guard let userRequest = file.progress.userRequest, file.lastFailure?.code != FileUpload.unclearAfterCrash.code
    else { return nil }
    switch file.phase {
    case .writing, .ready, .waiting, .failed:
      let code = userRequest == .named(file.path) ? FileUpload.publishedAsNamedCode : FileUpload.publishedAsIsCode
      return file.progress.acceptedInterruption?.mayBeRemains == true ? code + FileUpload.ofRemainsSuffix : code
    case .held, .ignored, .routedElsewhere, .interrupted, .finishing, .complete, .cancelled, .removed: return nil
    }
  }

  /// A request is in flight that must not be repeated unless its end is known. A start that finds the entry after a
  /// crash treats it as ended in this way.
  private func mayBePublished(_ file: FileUpload) -> Bool {
    guard let publishing = file.publishing, publishing.isOnce else { return false }
    return publishing.epoch == file.snapshot.epoch && (file.phase == .ready || file.isWaiting)
  }

  /// The result for a caller that waits for a delivery, and its epoch; nil as long as the delivery may still come
  /// without a user's action.
  public func deliveryOutcome(of id: FileID) -> (epoch: UInt64, outcome: DeliveryOutcome)? {
    guard let file = files.entry(id)?.file else {
      if let known = memory.unloaded[id], known.isMet { return known.isPending ? nil : (.max, .delivered) }
      // The file is unknown and will not be delivered; where there are other destinations, it may have been for them.
      if spool.isScanned { return (.max, limits.rules.asker == nil ? .failed : .notToBeDelivered) }
      // The scan of the spool may still find the file.
      return spool.health.scan?.isLasting == true || catalog.recovery.wasRemovedUnfound(id) ? (.max, .failed) : nil
    }
    switch file.phase {
    case .ready where !file.isPending, .waiting where !file.isPending: return (file.snapshot.epoch, .failed)
    case .writing, .ready, .waiting, .finishing: return nil
    case .interrupted where file.isAwaitingDisk: return nil
    case .complete: return (file.snapshot.epoch, .delivered)
    case .held, .ignored, .routedElsewhere: return (file.snapshot.epoch, .notToBeDelivered)
    case .interrupted, .failed, .cancelled: return (file.snapshot.epoch, .failed)
    case .removed(let removal): return (.max, removal == .delivered ? .delivered : .failed)
    }
  }

  /// A delivery is only believed once the file's catalog entry is durable.
  public func isAwaitingRecord(of id: FileID) -> Bool {
    files[id].map { $0.phase == .finishing || $0.isUnrecorded || isRevisionToRecord($0) } ?? false
  }

  /// The state of an upload in progress for a restart; only what has changed since `mark`, where that is enough.
  public func resumeSnapshot(of id: FileID, since mark: ResumeSnapshot.Mark?) -> ResumeSnapshot? {
    files[id]?.resumeSnapshot(since: mark, estimator: link.measured)
  }

  /// The names under which a file is shown: its present names, or its last ones.
  public func shownPaths(of id: FileID) -> ShownPaths {
    guard let file = files[id] else { return ShownPaths(paths: [], areFormer: true) }
    let names = file.snapshot.names
    return names.isEmpty ? ShownPaths(paths: [file.path], areFormer: true) : ShownPaths(paths: names, areFormer: false)
  }

  /// The paths of a file's status.
  public struct ShownPaths: Hashable, Sendable {
    /// The file's names, or its last ones.
    public var paths: [RelativePath]
    /// The file has no name any more: a file that has the name now goes before it.
    public var areFormer: Bool
  }

  /// Delivered files whose local copy may go, oldest delivery first, at most `countMax`.
  public mutating func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
    files.oldestDelivered(countMax: countMax)
  }

  /// Whether the local copy of a file may be removed as far as this destination is concerned: it has this content, or
  /// is not to get it.
  public func mayLose(_ candidate: EvictionCandidate) -> Bool {
    guard let file = files[candidate.id] else { return false }
    switch file.phase {
    case .complete:
      // A file that was delivered here, and renamed, may belong to another destination by now.
      return (file.isShown || limits.leavesAlone(file.snapshot.names) == .routedElsewhere)
        && EvictionCandidate(file.snapshot) == candidate
    case .ignored, .routedElsewhere: return true
    case .interrupted: return interruptedPolicy(for: file) == .discard
    case .writing, .held, .ready, .waiting, .finishing, .failed, .cancelled, .removed: return false
    }
  }

  /// Whether a file in the spool may count as whole from now on as far as this destination is concerned. Either nothing
  /// contradicts it, a user has accepted it here as well, or the destination is not to get it. What it has delivered
  /// may be more than the spool has.
  func mayCountAsWhole(_ id: FileID) -> Bool {
    guard let file = files.entry(id)?.file else { return true }
    switch file.phase {
    case .ignored, .routedElsewhere, .removed: return true
    case .writing, .held, .interrupted, .ready, .waiting, .finishing, .complete, .failed, .cancelled:
      return file.snapshot.interruption == nil
    }
  }

  /// Delivered files whose local copy has been kept long enough, oldest delivery first, at most `countMax`.
  public mutating func expired(at now: ClockReading, countMax: Int) -> [EvictionCandidate] {
    expiry(at: now).map { files.oldestDelivered(countMax: countMax, by: $0) } ?? []
  }

  /// Of the files that memory does not hold some may have been kept as long.
  public mutating func wantExpired(at now: ClockReading) {
    if let time = expiry(at: now) { wantDelivered(by: time, at: now) }
  }

  /// Files that were delivered by then, as ``FileUpload/deliveredAt`` counts, are kept no longer.
  private mutating func expiry(at now: ClockReading) -> Int64? {
    limits.keepDelivered.map { steadyClock.milliseconds(at: now) &- $0.wholeNanoseconds / 1_000_000 }
  }

  /// Something is being delivered, so that space may become free within a moment.
  public var mayFreeSpace: Bool {
    if mayRelease || memory.fit.isLoadingDelivered { return true }
    guard destination.gate.isOpen else { return false }
    return files.counts.finishing > 0 || files.counts.smallAtWork > 0 || link.inFlight > 0 || !queues.working.isEmpty
  }

  private func state(of file: FileUpload) -> FileStatus.State {
    switch file.phase {
    case .writing: return .writing
    case .held: return .held
    case .ignored, .routedElsewhere: return .ignored
    case .interrupted: return .interrupted
    case .waiting: return .waiting
    case .finishing: return .uploading
    case .complete: return .complete
    case .failed: return .failed
    case .cancelled: return .cancelled
    case .removed(let removal): return removal == .delivered ? .complete : .cancelled
    case .ready:
      if destination.gate.failure != nil { return .waiting }
      let isAtWork = file.turn.isSmallAtWork || queues.isWorking(file.id)
      return isAtWork ? .uploading : .queued
    }
  }

  private func reason(of file: FileUpload) -> String? {
    switch file.phase {
    case .held:
      "The name looks like one that a program uses while it writes; the file is delivered once it is renamed, or with "
        + "`uploadfs-mount publish`."
    case .ignored: "A rule says that the file is not uploaded; it is kept in the spool."
    case .routedElsewhere: "A rule says that the file goes to other destinations."
    case .interrupted where file.snapshot.interruption?.isOfSpool == true:
      "The spool's disk does not say, or has not taken, what the file holds; it is delivered once it does, without anybody's help."
    case .interrupted where file.snapshot.interruption == .changedInSpool:
      "Another program changed it in the spool, so it is not published. `uploadfs-mount publish` publishes it as it is."
    case .interrupted where deliveryOfRemains(file) != nil:
      "It may be what a power cut has left of what was delivered, so that it takes the place of that by no word. Remove it, or copy it "
        + "to another name to have it published."
    case .interrupted where file.snapshot.interruption == .olderThanDelivered:
      "It is not what was delivered, nor known to be later, so it is not published. `uploadfs-mount publish` publishes it as it is."
    case .interrupted where file.snapshot.interruption == .unproven:
      "Nothing proves that it was finished, so it is not published. `uploadfs-mount publish` publishes it as it is."
    case .interrupted:
      "Its writer did not finish it, so it is not published; it is kept in the spool. `uploadfs-mount publish` publishes "
        + "it as it is."
    case .cancelled:
      "The upload was cancelled; the file is kept in the spool. `uploadfs-mount retry` delivers it after all."
    case .removed(.byRule): "Its writer did not finish it, and a rule removes such files."
    case .removed(.delivered): nil
    case .removed(.undelivered): "The file was removed before it was delivered."
    case .ready where file.progress.delivered != nil: "It is compared with what was delivered."
    case .waiting where file.isInSuccession:
      "It was published a moment ago and has changed since; what follows at once goes with this."
    case .writing, .ready, .waiting, .finishing:
      file.lacksParts
        ? "The disk was full: parts of the file are at the server alone, and cannot be read here." : nil
    case .complete, .failed: nil
    }
  }

  /// Nothing has arrived from the destination since it was asked, and nothing more could be sent: it may hang, or the
  /// line may be down. That is a failure later only, because it may as well be slow.
  private func silence(about file: FileUpload, at now: ClockReading) -> String? {
    guard file.phase == .ready, destination.gate.failure == nil, file.lastFailure == nil else { return nil }
    let moves = requests.compactMap { id, underway in
      underway.concerns(file.id) ? watchdog.movedAt(id) ?? underway.sentAt : nil
    }
    guard let latest = moves.max() else { return nil }
    let silence = now.monotonic - max(latest, destination.latestAnswer.answeredAt ?? latest)
    guard silence >= Self.silenceToMention else { return nil }
    let seconds = Readable.seconds(Double(silence.components.seconds))
    return "The server has not answered for \(seconds), and takes nothing more; it may hang, or be out of reach."
  }

  /// Answers take less time on any line.
  private static let silenceToMention: Duration = .seconds(4)

  private func describeBytes(of file: FileUpload, in status: inout FileStatus, at now: ClockReading) {
    let size = file.snapshot.sizeBytes
    status.writtenBytes = size
    status.totalBytes = size
    status.chunkBytes =
      file.transfer?.plan.chunkBytes ?? file.session?.chunkBytes ?? file.receipt?.chunkBytes ?? limits.chunkBytes
    let isDelivered = file.receipt != nil
    status.acknowledgedBytes = isDelivered ? size : file.transfer?.doneBytes ?? 0
    if file.isStreamed, !isDelivered, file.publishing != nil { status.acknowledgedBytes = file.progress.streamedBytes }
    status.sentBytes = isDelivered ? size : max(status.acknowledgedBytes, sentBytes(of: file))
    status.atStakeBytes = isDelivered ? 0 : bytesAtStake(of: file)
    status.savedBytes = isDelivered ? file.progress.savedBytes : savedBytes(of: file)
    status.encoding = file.progress.encoding
    status.bytesPerSecond = isDelivered ? 0 : file.progress.rate.rate(at: now.monotonic)
    if !isDelivered, !file.isOpen, size >= status.sentBytes,
      let rate = file.progress.rate.steadyRate(at: now.monotonic)
    {
      status.etaSeconds = Double(size - status.sentBytes) / rate
    }
    let plan = file.transfer?.plan ?? ChunkPlan(sizeBytes: size, chunkBytes: status.chunkBytes)
    status.chunks.total = plan.count
    status.chunks.done = isDelivered ? plan.count : file.transfer?.doneCount ?? 0
    status.chunks.inFlight = file.transfer?.sendingCount ?? 0
    status.chunks.retried = file.progress.retriedChunks
    status.chunks.reused = file.progress.reusedChunks
    status.streams = status.chunks.inFlight == 0 ? 0 : requests.values.count { $0.carriesBytes(of: file.id) }
    status.tier = link.tier.rawValue
  }

  private func describeFailure(of file: FileUpload, in status: inout FileStatus, at now: ClockReading) {
    status.attempts = max(file.failures.rounds, file.progress.setbacks.count)
    status.lastFailure = file.lastFailure
    switch file.phase {
    case .waiting(let until):
      status.nextAttemptMilliseconds = now.wallMilliseconds(at: max(until, destination.gate.closedUntil ?? until))
    case .ready where destination.gate.failure != nil:
      status.lastFailure = destination.gate.failure
      status.attempts = max(file.failures.rounds, destination.gate.attempts)
      status.nextAttemptMilliseconds = gateReopens(at: now)
    case .writing, .held, .ignored, .routedElsewhere, .interrupted, .ready, .finishing, .complete, .failed, .cancelled,
      .removed:
      break
    }
    if file.phase == .finishing { status.lastFailure = spool.health.record?.failure ?? status.lastFailure }
    if isRevisionToRecord(file) { status.lastFailure = spool.health.record?.ofRevision ?? status.lastFailure }
    status.lastFailure = file.writeFailure ?? status.lastFailure
    // Any other reason for the wait is less important.
    if file.phase != .interrupted { status.lastFailure = file.copy.diskFailure ?? status.lastFailure }
  }

  /// When the destination is tried again; now, while the one probe is in flight.
  private func gateReopens(at now: ClockReading) -> Int64? {
    switch destination.gate.state {
    case .open: nil
    case .closed(let until): now.wallMilliseconds(at: until)
    case .probing: now.wallMilliseconds
    }
  }
}

extension InFlightRequest {
  fileprivate func carriesBytes(of id: FileID) -> Bool { order.carriesBytes && concerns(id) }
}

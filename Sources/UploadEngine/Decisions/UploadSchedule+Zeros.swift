import FileModel
import Lookup
import OrderedCollections
public import TransferModel

/// Chunks that lie in holes of the spool's file (docs/semantics.md, S62c): they are not read, and the server is told
/// that they are zeros.
///
/// Only for settled files, and only where nothing is known to be missing: parts that were given up, or lost in a power
/// cut, are holes in the spool's file as well.
extension UploadSchedule {
  /// The acknowledgements of one answer are recorded under the lock that writers wait for. As many changes fit into an
  /// increment of a resume record.
  static let zeroChunksMax = HeldChunks.changesMax / 4

  /// A hole in the spool's file is what its writer left.
  private func trustsHoles(of file: FileUpload) -> Bool {
    !file.lacksParts && !file.copy.mayLackParts && !file.snapshot.isPartlyReleased && file.snapshot.missing == nil
      && file.snapshot.interruption == nil && file.progress.acceptedInterruption == nil
      && file.progress.userRequest == nil
      && file.progress.lost == nil && file.wantedSeal == nil
      && file.progress.delivered == nil
  }

  /// The file is searched for holes before anything of it is read, or its size is declared.
  func waitsForHoles(_ file: FileUpload) -> Bool {
    guard destination.abilities.takesZeros, destination.forms.zeros != .none, let transfer = file.transfer,
      transfer.holeSearch != .done,
      file.phase == .ready, !file.isOpen, !file.isWholeFile, !file.isStreamed,
      transfer.plan.sizeBytes >= UInt64(transfer.plan.chunkBytes), trustsHoles(of: file)
    else { return false }
    switch file.session?.state {
    case .wanted, .opening, .open, .published: return true
    case .unconfirmed, .querying, nil: return false
    }
  }

  mutating func askForHoles() {
    guard destination.abilities.takesZeros, destination.forms.zeros != .none else { return }
    for id in queues.large.working {
      guard let file = files.entry(id)?.file, let transfer = file.transfer, transfer.holeSearch == .wanted,
        waitsForHoles(file)
      else { continue }
      transfer.holeSearch = .underWay
      actions.append(
        .findHoles(
          HoleOrder(
            file: id, epoch: file.snapshot.epoch, sizeBytes: transfer.plan.sizeBytes,
            chunkBytes: transfer.plan.chunkBytes)))
    }
  }

  /// The chunks of a file that lie in holes, with the digest of each; answers ``UploadAction/findHoles(_:)``.
  public mutating func holesFound(
    _ order: HoleOrder, _ chunks: [Range<Int>], _ digest: ChunkDigest, at now: ClockReading
  ) {
    defer { pump(at: now) }
    guard let file = files[order.file], let transfer = file.transfer, transfer.holeSearch == .underWay else { return }
    guard file.snapshot.epoch == order.epoch,
      transfer.plan == ChunkPlan(sizeBytes: order.sizeBytes, chunkBytes: order.chunkBytes)
    else {
      transfer.holeSearch = .wanted
      return
    }
    transfer.holeSearch = .done
    guard trustsHoles(of: file), destination.forms.zeros != .none else { return }
    for index in chunks.joined() where transfer.states.indices.contains(index) && transfer.states[index] == .pending {
      if isAlreadyThere(digest, index, of: file) {
        transfer.set(.done(digest), at: index)
        file.session?.held.acknowledge(digest, at: index)
        files[order.file]?.progress.chunkReused()
        totals.reusedChunks += 1
      } else {
        transfer.set(.hole(digest), at: index)
      }
    }
    countFound(of: order.file)
    actions.append(.showStatus(order.file))
  }

  /// The file's size is not declared to the server, which would reserve the space.
  func isSparse(_ file: FileUpload) -> Bool { file.transfer.map { $0.holes.count > 0 } ?? false }

  /// Tells the server of the next holes of a file.
  mutating func sendZeros(_ id: FileID, at now: ClockReading) {
    guard let entry = files.entry(id), let transfer = entry.file.transfer, !transfer.holes.isEmpty else { return }
    guard let session = entry.file.session, session.isOpen, let identity = session.identity else {
      if destination.forms.zeros == .none { transfer.readHoles() }
      return
    }
    // The answer that has opened the session, or listed its chunks, would have reported it.
    guard case .upTo(let rangesMax) = destination.forms.zeros else { return transfer.readHoles() }
    guard transfer.sendingHoleCount == 0, entry.file.phase == .ready, !entry.file.isPublishingOlderContent,
      requests.controlCount < limits.controlRequests, maySend(at: now), mayGoOut(ofFile: entry.file),
      mayProbe(with: entry.file)
    else { return }
    let (ranges, digest) = transfer.nextHoles(
      rangesMax: rangesMax, chunksMax: Self.zeroChunksMax, besides: session.chunksInFlight)
    guard let digest, !ranges.isEmpty else { return }
    var file = entry.file
    let sending = ZerosSending(
      session: identity, ranges: ranges, chunkBytes: transfer.plan.chunkBytes, digest: digest)
    let request = send(
      .zeros(sending), for: id, opensConnection: file.turn.needsNewConnection, at: now)
    for index in ranges.joined() {
      transfer.set(.sendingHole(request, digest), at: index)
      file.session?.chunkSent(index)
    }
    file.progress.begin(at: now)
    files[id] = file
    actions.append(.showStatus(id))
  }

  /// A request that names holes has ended.
  mutating func zerosEnded(
    _ id: FileID, _ request: HTTPRequestID, _ zeros: ZerosSending, _ outcome: StepOutcome, at now: ClockReading
  ) {
    guard var file = files[id], file.session?.id == zeros.session.id else { return }
    let indices = Array(zeros.ranges.joined())
    file.session?.chunksEnded(indices)
    let current = file.transfer.map { transfer in indices.filter { transfer.isSendingHole(request, at: $0) } } ?? []
    guard outcome.isChunkStored else {
      if case .published = file.session?.state {
        // Nothing more is sent into the session; its proof shows whether the holes are in it.
        for index in current { file.transfer?.set(.done(zeros.digest), at: index) }
        files[id] = file
        return
      }
      for index in current { file.transfer?.set(.hole(zeros.digest), at: index) }
      files[id] = file
      guard !current.isEmpty else {
        if file.isPublishingOlderContent { cancelCommit(of: file) }
        return
      }
      return zerosFailed(id, outcome, at: now)
    }
    file.transfer?.holeFailures = 0
    acknowledge(indices, zeros.digest, in: &file)
    for index in current { file.transfer?.set(.done(zeros.digest), at: index) }
    if let transfer = file.transfer { reuse(zeros.digest, of: indices, transfer, &file) }
    checkpointInTime(&file, at: now)
    files[id] = file
    // Nothing of the chunks was sent.
    countFound(of: id)
    watchdog.acknowledged(id, at: now.monotonic)
    progressed(id)
    allowMoreChunks(of: id)
    actions.append(.showStatus(id))
  }

  /// The file was changed since, has the same bytes there, and these were read, or found to be zeros again.
  private mutating func reuse(
    _ digest: ChunkDigest, of indices: [Int], _ transfer: ChunkTransfer, _ file: inout FileUpload
  ) {
    for index in indices where transfer.states.indices.contains(index) {
      switch transfer.states[index] {
      case .read(let read, digest): release(read)
      case .hole(digest): break
      default: continue
      }
      transfer.set(.done(digest), at: index)
      file.progress.chunkReused()
      totals.reusedChunks += 1
    }
  }

  private func acknowledge(_ indices: [Int], _ digest: ChunkDigest, in file: inout FileUpload) {
    let isRewritten = isInFirstWriting(file) && file.growth != nil
    let isAsked = if case .querying = file.session?.state { true } else { false }
    for index in indices {
      if isRewritten, file.transfer?.digest(of: index) != digest {
        file.session?.held.report(digest, at: index)
      } else {
        file.session?.held.acknowledge(digest, at: index)
      }
      if isAsked {
        file.session?.acknowledgedWhileAsked(ChunkOrder(index: index, digest: digest, read: ReadID(.max)))
      }
    }
    file.session?.acknowledgedUnrecorded(UploadConstants.resumeCheckpointInterval)
  }

  /// Zeros that the server refuses are read and sent; any other failure is the file's, as with any request of it.
  private mutating func zerosFailed(_ id: FileID, _ outcome: StepOutcome, at now: ClockReading) {
    guard let transfer = files[id]?.transfer else { return }
    let kind = StepFailure(outcome).kind
    if case .tooLarge = kind { return failed(id, outcome, at: now) }
    let verdict = policy.verdict(on: kind, attempts: 1)
    // What the line does to requests, and temporary failures, say nothing of zeros.
    let isOfLine = if case .transport = kind { true } else { false }
    if verdict == .retryStep, !isOfLine, kind != .conflict, kind != .tooEarly { transfer.holeFailures += 1 }
    if verdict == .fail || kind == .requestTooLarge
      || verdict == .retryStep && transfer.holeFailures >= policy.attemptsMax
    {
      transfer.readHoles()
      if verdict == .fail { return }
    }
    failed(id, outcome, at: now)
  }
}

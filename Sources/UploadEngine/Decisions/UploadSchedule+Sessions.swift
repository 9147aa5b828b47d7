import FileModel
import Integrity
import Lookup
import TransferModel

/// Sessions at the server: opened, queried, restarted.
extension UploadSchedule {
  mutating func sessionOpenEnded(
    _ id: FileID, _ request: HTTPRequestID, _ outcome: StepOutcome, at now: ClockReading
  ) {
    guard var file = files[id], var session = file.session, session.state == .opening(request) else {
      // The session is no longer wanted: the file was sent by other means meanwhile.
      if case .sessionOpened(let sessionID, _, _, _, _, _) = outcome {
        discard(SessionIdentity(id: sessionID, nonce: []), of: owner, at: now)
      }
      return
    }
    guard
      case .sessionOpened(let sessionID, let chunkBytes, let expiresAt, _, let published, let isBased) = outcome,
      chunkBytes > 0, chunkBytes <= max(limits.bufferBytes, session.chunkBytes)
    else {
      // An active file opens another session; for a file that is still being written it is planned anew. Never the same
      // again: under its key the server may hold an opening with other contents.
      file.session = file.transfer == nil ? nil : makeSession(for: file, at: now)
      // The file's chunks are cut and partly read already; by now the link, or the size, may suggest others.
      if let plan = file.transfer?.plan, !file.isWholeFile { file.session?.cut(into: plan.chunkBytes) }
      files[id] = file
      openingFailed(id, outcome, at: now)
      return
    }
    session.opened(as: sessionID, isBased: isBased, atSeconds: now.wallMilliseconds / 1000, expiresAt: expiresAt)
    chunkBytesMax = max(chunkBytesMax, chunkBytes)
    // The server's abilities may have been learned by this answer only.
    if !destination.abilities.bindsNameAtOpening { session.unbind() }
    if chunkBytes != session.chunkBytes {
      session.cut(into: chunkBytes)
      file.session = session
      leaveTransfer(&file)
      if file.phase == .ready {
        file.content.begin(
          ChunkTransfer(plan: ChunkPlan(sizeBytes: file.snapshot.sizeBytes, chunkBytes: chunkBytes)))
      }
    }
    file.session = session
    if file.phase == .held { sendHeld(&file, at: now) }
    files[id] = file
    actions.append(.record(id))
    actions.append(.saveResume(id))
    actions.append(.showStatus(id))
    beginGrowth(id)
    if let published { findAtServer(id, published, at: now) }
  }

  /// Chunks that were read before the server reported them, and that it holds, are not sent.
  private mutating func passOverFound(in file: inout FileUpload) {
    guard let transfer = file.transfer, !file.isWholeFile else { return }
    for index in Array(transfer.readIndices) {
      guard case .read(let read, let digest) = transfer.states[index], isAlreadyThere(digest, index, of: file) else {
        continue
      }
      transfer.set(.done(digest), at: index)
      file.session?.held.acknowledge(digest, at: index)
      file.progress.chunkReused()
      totals.reusedChunks += 1
      release(read)
    }
  }

  mutating func sessionQueryEnded(
    _ id: FileID, _ request: HTTPRequestID, _ outcome: StepOutcome, at now: ClockReading
  ) {
    guard var file = files[id], file.session?.state == .querying(request) else { return }
    switch outcome {
    case .held(_, let chunkBytes?, _, _, _, _) where chunkBytes != file.session?.chunkBytes:
      // The server's chunks have another size: nothing that it holds is of use.
      let message = "The server holds an upload in chunks of another size; the file is sent again."
      restartSession(id, by: FileStatus.Failure(code: "unexpected-answer", message: message, at: now), at: now)
    case .held(var digests, _, let expiresAt, _, let tokens, _):
      // The server's list may omit later acknowledgements. Where tokens name what it holds, chunks come one by one.
      if destination.abilities.takesRuns {
        for chunk in file.session?.acknowledgedSinceAsked ?? [] { digests[chunk.index] = chunk.digest.sha256 }
      }
      if let expiresAt { file.session?.expires(atSeconds: expiresAt) }
      // From now on the session publishes the present content.
      if file.session?.tried == .earlier { actions.append(.record(id)) }
      file.session?.isUnpublished()
      file.session?.confirm(holding: digests, tokens: tokens, owner: owner)
      var denied = 0
      if let transfer = file.transfer, let held = file.session?.held {
        if file.wantedSeal != nil, file.session?.agrees(with: file.snapshot.released) == true {
          takeOver(held, into: transfer)
        }
        transfer.heldHasChanged()
        denied = takeBackDenied(of: transfer, notIn: held)
      }
      takeOverLostPlaces(of: &file)
      passOverFound(in: &file)
      checkpoint(&file)
      files[id] = file
      countFound(of: id)
      actions.append(.showStatus(id))
      if denied > 0 {
        let message = "The server no longer holds \(denied) chunks that it had acknowledged; they are sent again."
        let failure = FileStatus.Failure(code: "incomplete", message: message, at: now)
        // A crash of the server loses its last second: that ends no file.
        setBack(id, by: failure, canEnd: false, isAtOnce: true, isLoss: true, wasSent: true, at: now)
      }
    case .stillThere:
      file.session?.isUnpublished()
      file.session?.confirm()
      checkpoint(&file)
      files[id] = file
      actions.append(.showStatus(id))
    case .published(let receipt) where file.wantedSeal.map { Hex.encode($0.root) == receipt.merkleRoot } ?? false:
      // The answer names what was published, which need not be read here.
      watchdog.acknowledged(id, at: now.monotonic)
      file.session?.wasPublished(as: receipt)
      file.progress.proved(
        merkleRoot: Digest32(hex: receipt.merkleRoot), chainTip: Digest32(hex: receipt.chainTip))
      let isAccepted = acceptEarlierPublication(receipt, of: &file, at: now)
      files[id] = file
      if !isAccepted { endProof(id, at: now) }
    case .published(let receipt):
      watchdog.acknowledged(id, at: now.monotonic)
      file.session?.wasPublished(as: receipt)
      if let transfer = file.transfer { compareOnly(transfer) }
      files[id] = file
      if file.session?.tried == .earlier { publishedOtherwise(id, as: receipt, at: now) }
    case .refused(let failure) where failure.kind == .sessionGone || failure.kind == .sessionDamaged:
      restartSession(
        id, by: FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now), at: now)
    default:
      file.session?.doubt()
      files[id] = file
      failed(id, outcome, at: now)
    }
  }

  /// Nothing more is sent into a published session; only digests are needed of what was read for it.
  private mutating func compareOnly(_ transfer: ChunkTransfer) {
    for index in transfer.readIndices {
      guard case .read(let read, let digest) = transfer.states[index] else { continue }
      transfer.set(.done(digest), at: index)
      release(read)
    }
    for index in transfer.holes.sorted() {
      if let digest = transfer.digest(of: Int(index)) { transfer.set(.done(digest), at: Int(index)) }
    }
  }

  /// Acknowledged chunks that are missing now (the server may have lost them in a crash) are sent again.
  private func takeBackDenied(of transfer: ChunkTransfer, notIn held: HeldChunks) -> Int {
    guard transfer.doneCount > 0 else { return 0 }
    var denied = 0
    for (index, state) in transfer.states.enumerated() {
      if case .done(let digest) = state, !held.holds(digest, at: index), transfer.deny(index) { denied += 1 }
    }
    return denied
  }

  /// The name that a session of a file is opened with: the next one to publish, or the probable final name of a
  /// temporary one. Nil when that cannot be determined.
  func openingPath(of file: FileUpload) -> RelativePath? {
    guard destination.abilities.bindsNameAtOpening else { return file.path }
    if let path = file.nextPath(limits) { return path }
    for path in file.snapshot.names {
      if let name = limits.temporaryNames.finalName(of: path.lastComponent) { return path.parent.appending(name) }
    }
    return nil
  }

  /// The session publishes under a name that the file is not to be published under, or no longer.
  func isBoundElsewhere(_ file: FileUpload) -> Bool {
    guard let bound = file.session?.boundPath, file.publishing == nil else { return false }
    return bound != openingPath(of: file)
  }

  /// The server has dropped the session, or what it has is of no use: another one is opened, and every chunk is sent
  /// again. The first time at once: many servers drop a session that is idle for long.
  mutating func restartSession(
    _ id: FileID, by failure: FileStatus.Failure, isLoss: Bool = true, at now: ClockReading
  ) {
    if failure.code == StepFailure.Kind.sessionDamaged.code, let file = files[id], file.mustKeepSession {
      // The server keeps the session, and checks it again: it has the only copy of the parts, and must not be ended for
      // that.
      files[id]?.session?.doubt()
      return pauseFile(id, failure: partsInDamagedSession(failure), at: now)
    }
    let wasSent = files[id]?.holdsChunksAtServer ?? false
    restartSession(id, at: now)
    guard files[id]?.phase != .failed, files[id]?.phase != .interrupted else { return }
    setBack(id, by: failure, isAtOnce: true, isLoss: isLoss, wasSent: wasSent, at: now)
  }

  /// The server does not know the session: another one is opened, and every chunk is sent again. A session with the
  /// only copy is not given up. The file fails until an operator has made sure that the right server is asked, as the
  /// right user.
  mutating func restartSession(_ id: FileID, at now: ClockReading) {
    guard var file = files[id] else { return }
    guard !file.mustKeepSession else {
      file.session?.doubt()
      files[id] = file
      return failForGood(id, releasedPartMissing(of: file, at: now), at: now)
    }
    leaveTransfer(&file)
    watchdog.uploadEnded(id)
    let wasToBeProven = file.wantedSeal != nil
    // The session of another server or user is dropped when its slot is needed.
    let isOurs = file.session?.owner.map { $0 == owner } ?? true
    file.session = nil
    files[id] = file
    if isOurs {
      actions.append(.removeResume(id))
    } else {
      let reason = "It was begun at another address or with another token, and the server does not know it."
      actions.append(.report(.notResumed(id, file.path, reason)))
    }
    if wasToBeProven { return endProof(id, at: now) }
    if file.phase == .ready { makeReady(id, at: now) }
    if file.phase == .writing { planSession(id, at: now) }
  }
}

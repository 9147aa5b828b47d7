public import FileModel
import Lookup
public import TransferModel

/// Chunks that are sent before their file may be published: while it is written (docs/semantics.md, S60), and while it
/// has a temporary name (S62). The chunks go into the session that the file will be published from, so that little is
/// left for its end.
extension UploadSchedule {
  /// The changes in the chunks of a file that is being written; answers
  /// ``UploadAction/checkGrowth(_:chunkBytes:anew:)``. Nil when the file cannot be tracked: then nothing more of it is
  /// sent before it is complete.
  public mutating func grew(_ id: FileID, _ report: GrowthReport?, at now: ClockReading) {
    if let report {
      // Thousands of files may be open and idle, and the following steps check each of them.
      if takeGrowth(report, at: now) { pump(at: now) }
      return
    }
    defer { pump(at: now) }
    guard var file = files[id], file.phase == .writing, file.growth != nil else { return }
    leaveTransfer(&file)
    file.progress.leaveForTheEnd()
    files[id] = file
  }

  /// Chunks of the file may be sent before it is to be published.
  private func maySendEarly(_ file: FileUpload) -> Bool {
    destination.abilities.sendsWhileWriting && file.snapshot.interruption == nil && !isTooLarge(file)
      && !file.progress.isLeftForTheEnd && (!destination.abilities.bindsNameAtOpening || openingPath(of: file) != nil)
  }

  /// Chunks of the file may be sent while it is written. A temporary name is judged by its probable final name.
  func mayGrow(_ file: FileUpload) -> Bool {
    guard maySendEarly(file) else { return false }
    return file.snapshot.names.allSatisfy { path in
      let name = limits.temporaryNames.finalName(of: path.lastComponent).map { path.parent.appending($0) } ?? path
      return limits.rules.settings(for: name).upload == .whileWriting
    }
  }

  /// A file that is being written has a session: from now on its chunks are tracked.
  mutating func beginGrowth(_ id: FileID) {
    guard var file = files[id], file.phase == .writing, file.isOpen, file.growth == nil, file.transfer == nil,
      let session = file.session, session.id != nil, mayGrow(file)
    else { return }
    file.content.grow(
      FileGrowth(chunkBytes: session.chunkBytes, isAppended: destination.abilities.appendSequences == .one))
    files[id] = file
    openFiles.joinEarly(id)
    openFiles.noteGrowth()
    actions.append(.checkGrowth(id, chunkBytes: session.chunkBytes, anew: true))
  }

  /// The file is complete. What was sent of it and is still the same is kept; the rest is to be read now.
  mutating func endGrowth(_ file: inout FileUpload) {
    guard let growth = file.growth, let transfer = file.transfer else { return }
    // Without a report up to this epoch, it is not known what is still the same.
    guard growth.epoch == file.snapshot.epoch, transfer.hasBegun, transfer.plan.sizeBytes == file.snapshot.sizeBytes
    else { return leaveTransfer(&file) }
    file.content.endGrowth()
    file.progress.endEarlyRest()
    transfer.sealAll()
  }

  /// A complete file with a temporary name is sent, except for its commit. A small one waits for its final name: it
  /// goes in one request, which publishes it.
  mutating func sendHeld(_ file: inout FileUpload, at now: ClockReading) {
    // The content may be delivered already.
    guard file.progress.delivered == nil else { return leaveTransfer(&file) }
    let isSmall = file.snapshot.sizeBytes <= UInt64(max(0, wholeFileBytesMax))
    if isBoundElsewhere(file) {
      leaveTransfer(&file)
      abortSession(&file, at: now)
    }
    if file.isWholeFile {
      // The bytes were read for the request that was to publish the file. There is no session at the server: the
      // present one lent that request a nonce.
      leaveTransfer(&file)
      if file.session?.state == .wanted { file.session = nil }
    }
    guard maySendEarly(file), file.session != nil || !isSmall, !mayHaveUnreadRecord(file) else {
      return leaveTransfer(&file)
    }
    if let session = file.session, needsLongerChunks(file, than: session.chunkBytes) {
      leaveTransfer(&file)
      abortSession(&file, at: now)
    }
    let session = file.session ?? makeSession(for: file, at: now)
    file.session = session
    if file.transfer == nil {
      file.content.beginInSession(
        ChunkTransfer(plan: ChunkPlan(sizeBytes: file.snapshot.sizeBytes, chunkBytes: session.chunkBytes)))
    }
    openFiles.joinEarly(file.id)
  }

  /// Takes a growth report. False when nothing follows from it.
  @discardableResult
  mutating func takeGrowth(_ report: GrowthReport, at now: ClockReading) -> Bool {
    guard let file = files[report.file], file.phase == .writing, let growth = file.growth,
      let transfer = file.transfer, growth.chunkBytes == report.chunkBytes
    else { return true }
    var isNews = report.isFirst || report.wasEmptied || !report.changes.isEmpty
    if !report.changes.isEmpty { openFiles.noteGrowth() }
    let count = ChunkPlan(sizeBytes: report.sizeBytes, chunkBytes: report.chunkBytes).count
    for index in growth.take(report, at: now.monotonic) {
      // A file that was emptied is not counted as rewritten.
      if takeBack(index, of: transfer), index < count, !report.wasEmptied { growth.noteRewritten(index) }
      noteOutdated(index, of: file)
    }
    for index in stride(from: transfer.states.count - 1, through: count, by: -1) {
      _ = takeBack(index, of: transfer)
      noteOutdated(index, of: file)
    }
    transfer.resize(to: report.sizeBytes)
    let takesHead = transfer.hasSentWhatWasSealed
    for index in growth.seal(quietFor: limits.sealDelay, takesHead: takesHead, at: now.monotonic)
    where transfer.states.indices.contains(index) {
      isNews = true
      if transfer.states[index] == .unsealed { transfer.set(.pending, at: index) }
    }
    if file.snapshot.sizeBytes != report.sizeBytes {
      isNews = true
      files[report.file]?.measured(report.sizeBytes)
      actions.append(.showStatus(report.file))
      noteSize(of: report.file, at: now)
      prewarm(.changed, at: now)
    }
    restartWithLongerChunks(report.file, at: now)
    return isNews
  }

  /// A file that is written has outgrown the chunks of its session. The server would refuse the next one, and all of
  /// the file would go after its end. A new session takes it from here on, while it is written.
  private mutating func restartWithLongerChunks(_ id: FileID, at now: ClockReading) {
    guard let growth = files.entry(id)?.file.growth, var file = files[id],
      needsLongerChunks(file, than: growth.chunkBytes)
    else { return }
    leaveTransfer(&file)
    abortSession(&file, at: now)
    files[id] = file
    actions.append(.showStatus(id))
    planSession(id, at: now)
  }

  /// A record that continued to name what the server has of the file would claim that this is what its writer left.
  private mutating func noteOutdated(_ index: Int, of file: FileUpload) {
    guard isInFirstWriting(file), file.session?.held.isOutdated(index) == true, file.hasResumableSession else { return }
    actions.append(.saveResume(file.id))
  }

  /// The bytes of a chunk may have changed since they were read or sent; true when any had been.
  private mutating func takeBack(_ index: Int, of transfer: ChunkTransfer) -> Bool {
    guard transfer.states.indices.contains(index) else { return false }
    let state = transfer.states[index]
    transfer.set(.unsealed, at: index)
    releaseReads(of: transfer, behind: index)
    switch state {
    case .unsealed, .pending, .resting, .reading, .hole: return false
    case .sending, .sendingHole, .streaming, .done: return true
    case .read(let read, _):
      release(read)
      return true
    }
  }

  // MARK: - Turns

  /// Checks all growing files, and again after a pause.
  mutating func checkGrowth(at now: ClockReading) {
    for id in openFiles.early {
      guard let growth = files.entry(id)?.file.growth else { continue }
      actions.append(.checkGrowth(id, chunkBytes: growth.chunkBytes, anew: false))
    }
  }

  /// Files that are no longer early leave, doubtful sessions are queried, and the next check is planned.
  mutating func askForEarlyFiles(at now: ClockReading) {
    guard !openFiles.early.isEmpty else { return }
    var isGrowing = false
    openFiles.leaveEarly { id in
      guard let file = files.entry(id)?.file, file.isEarly else { return true }
      if file.growth != nil { isGrowing = true }
      return false
    }
    for id in openFiles.early where requests.controlCount < limits.controlRequests && maySend(at: now) {
      guard let state = files.entry(id)?.file.session?.state, isRested(id, at: now), var file = files[id] else {
        continue
      }
      switch state {
      case .wanted:
        guard mayOpenSession(at: now) else { continue }
        openSession(&file, at: now)
      case .unconfirmed: querySession(&file, at: now)
      case .opening, .querying, .open, .published: continue
      }
      files[id] = file
    }
    guard isGrowing, !timers.isRunning(.growth) else { return }
    timers.start(.growth, at: now.monotonic + openFiles.takeGrowthPause(interval: limits.growthInterval))
  }

  /// The next early file to read from; the files take turns.
  mutating func nextEarlyFileToRead(at now: ClockReading) -> FileID? {
    guard destination.gate.isOpen else { return nil }
    let place = openFiles.early.firstIndex { id in
      guard let file = files.entry(id)?.file, file.isEarly, file.session?.isOpen == true, isRested(id, at: now) else {
        return false
      }
      return file.transfer.flatMap { nextPending(of: file, $0) } != nil && mayReadAhead(ofFile: file)
    }
    guard let place else { return nil }
    return openFiles.takeEarlyTurn(at: place)
  }

  /// A chunk of an early file whose bytes are in a buffer.
  func nextEarlyChunkToSend(at now: ClockReading) -> (FileID, Int)? {
    guard memory.buffers.chunkBytesInUse > 0, requests.chunkCount < link.streams + requestsAwaited(at: now) else {
      return nil
    }
    for id in openFiles.early where !queues.passedOver.contains(id) {
      guard let file = files.entry(id)?.file, file.isEarly, let transfer = file.transfer, let session = file.session,
        session.isOpen, !file.isPublishingOlderContent, isRested(id, at: now), mayGoOut(ofFile: file),
        mayProbe(with: file), let index = nextToSend(of: file, transfer)
      else { continue }
      return (id, index)
    }
    return nil
  }

  func isRested(_ id: FileID, at now: ClockReading) -> Bool {
    files.entry(id)?.file.progress.earlyRest.map { $0 <= now.monotonic } ?? true
  }
}

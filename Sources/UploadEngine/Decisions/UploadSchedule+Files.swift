public import FileModel
import Lookup
import OrderedCollections
public import TransferModel

/// What the filesystem reports.
extension UploadSchedule {
  /// One event of the filesystem.
  ///
  /// Of a file that was found (``FileEvent/found``), `former` is the latest publication at its path, where that counts
  /// (``mayComeAfterPublication(_:)``).
  public mutating func handle(_ event: FileEvent, after former: FormerPublication? = nil, at now: ClockReading) {
    switch event {
    case .opened(let snapshot): opened(snapshot, after: former, at: now)
    case .changed(let snapshot): changed(snapshot, at: now)
    case .settled(let snapshot): settled(snapshot, after: former, at: now)
    case .unsettled(let snapshot): unsettled(snapshot, at: now)
    case .namesChanged(let snapshot): namesChanged(snapshot, at: now)
    case .attributesChanged(let snapshot): attributesChanged(snapshot)
    case .onDisk(let snapshot): noteOnDisk(snapshot)
    case .grown(let report): takeGrowth(report, at: now)
    case .removed(let id): removed(id, at: now)
    case .vanished(let id): vanished(id, at: now)
    case .evicted(let id): evicted(id, at: now)
    case .writeFailed(let id, let cause): writeFailed(id, cause, at: now)
    case .found(let snapshot):
      forgetHistory(of: snapshot.id)
      guard files[snapshot.id] == nil else { break }
      adopt(snapshot, after: former, at: now)
      noteEarlierRun(snapshot.id, at: now)
    case .scanFailing(let path, let errno): scanFailing(path, errno: errno, at: now)
    case .scanEnded: scanEnded(at: now)
    }
    if let id = event.file {
      noteDiskRound(of: id)
      endRecall(of: id)
    }
    pump(at: now)
  }

  /// The size of an open file, asked for by ``UploadAction/measure(_:)``.
  public mutating func measured(_ snapshot: FileSnapshot, at now: ClockReading) {
    guard var file = files[snapshot.id], file.phase == .writing else { return }
    guard file.snapshot.sizeBytes != snapshot.sizeBytes else { return }
    file.measured(snapshot.sizeBytes)
    files[snapshot.id] = file
    actions.append(.showStatus(snapshot.id))
    noteSize(of: snapshot.id, at: now)
    prewarm(.changed, at: now)
    // The file may be large enough by now to be worth a session.
    if destination.abilities.bindsNameAtOpening { planSession(snapshot.id, at: now) }
  }

  private mutating func opened(_ snapshot: FileSnapshot, after former: FormerPublication?, at now: ClockReading) {
    let isIgnored = limits.leavesAlone(snapshot.names) != nil
    if !isIgnored { openFiles.opened(snapshot.id) }
    forgetHistory(of: snapshot.id)
    if files[snapshot.id] == nil,
      catalog.recovery.entry(of: snapshot.id) != nil || former != nil || snapshot.interruption?.isOfSpool == true
    {
      adopt(snapshot, after: former, at: now)
    }
    if var file = files[snapshot.id] {
      file.writers.opened()
      let isSameContent = file.snapshot.epoch == snapshot.epoch
      let known = isSameContent ? file.snapshot.interruption : nil
      // Opening a file does not change it: the reason that holds it ends once it is settled again.
      file.take(snapshot, known: known)
      files[snapshot.id] = file
    } else {
      var file = FileUpload(
        snapshot: snapshot, phase: phaseWhileOpen(snapshot), isOpen: true, changeSequence: files.makeChangeSequence())
      file.writers.created(at: now.wallMilliseconds)
      files[snapshot.id] = file
      actions.append(.showNames(snapshot.id))
    }
    actions.append(.showStatus(snapshot.id))
    guard !isIgnored else { return }
    noteOpenInCatalog(snapshot.id)
    noteSize(of: snapshot.id, at: now)
    planSession(snapshot.id, at: now)
    beginKeepingWarm(at: now)
  }

  /// Should the spool be copied without its attributes, the catalog records that this file is not finished.
  private mutating func noteOpenInCatalog(_ id: FileID) {
    if files.entry(id)?.file.phase == .writing { actions.append(.record(id)) }
  }

  func phaseWhileOpen(_ snapshot: FileSnapshot) -> FileUpload.Phase {
    limits.leavesAlone(snapshot.names)?.phase ?? .writing
  }

  private mutating func changed(_ snapshot: FileSnapshot, at now: ClockReading) {
    if files[snapshot.id] == nil { adopt(snapshot, at: now) }
    catalog.claims.endChange(of: snapshot.id)
    guard var file = files[snapshot.id] else { return }
    if let transfer = file.transfer, !file.isWholeFile, !transfer.isOnItsWay { cancelCommit(of: file) }
    cancelStream(of: file)
    doubtEarlierRun(file, of: snapshot.names, at: now)
    leaveTransfer(&file)
    checkpoint(&file)
    let wasOfThisDestination = file.phase != .routedElsewhere
    file.change(
      to: snapshot, excludedAs: limits.leavesAlone(snapshot.names), sequence: files.makeChangeSequence())
    if file.phase == .routedElsewhere, wasOfThisDestination { forgetEntry(of: file) }
    files[snapshot.id] = file
    // The file may have been settled while it was open.
    if file.isOpen, file.phase == .writing { openFiles.opened(snapshot.id) }
    noteOpenInCatalog(snapshot.id)
    noteSize(of: snapshot.id, at: now)
    planSession(snapshot.id, at: now)
    actions.append(.showStatus(snapshot.id))
  }

  private mutating func settled(_ snapshot: FileSnapshot, after former: FormerPublication?, at now: ClockReading) {
    openFiles.closed(snapshot.id)
    if files[snapshot.id] == nil { adopt(snapshot, after: former, at: now) }
    guard !confirm(snapshot, after: former, at: now), var file = files[snapshot.id] else { return }
    let before = file.snapshot
    let isSameContent = before.epoch == snapshot.epoch
    let wasUnreadable = before.interruption?.isOfSpool == true
    let known = isSameContent && !wasUnreadable ? before.interruption : nil
    defer { noteDisk(snapshot, before: before, at: now) }
    file.settle(snapshot, known: known, at: now)
    files[snapshot.id] = file
    switch file.phase {
    case .writing, .ignored, .routedElsewhere:
      file.complete(revisionLackingParts: snapshot.isPartlyReleased)
      endGrowth(&file)
      files[snapshot.id] = file
      settleName(snapshot.id, at: now)
    case .ready:
      if !isSameContent {
        leaveTransfer(&file)
        files[snapshot.id] = file
        makeReady(snapshot.id, at: now)
      } else if snapshot.diskErrno != nil, before.diskErrno == nil, !file.turn.isSmallAtWork, file.publishing == nil {
        makeReady(snapshot.id, at: now)
      } else {
        files.update(snapshot.id) { $0.turn.join(at: queues.virtualTime) }
        // The file was passed over while it was open.
        if isSmall(file) { queues.small.join(snapshot.id) }
      }
    case .interrupted where wasUnreadable && snapshot.interruption?.isOfSpool != true:
      // The spool can describe its content by now.
      files[snapshot.id]?.forgetFailure()
      settleName(snapshot.id, at: now)
    case .cancelled:
      // The file stays so over a restart only if the catalog describes what the spool holds now.
      actions.append(.record(snapshot.id))
    case .held, .interrupted, .waiting, .finishing, .complete, .failed, .removed:
      break
    }
    actions.append(.showStatus(snapshot.id))
  }

  /// The spool's disk did not take what was settled: reads from now on may return anything. A delivered content stays
  /// delivered.
  private mutating func unsettled(_ snapshot: FileSnapshot, at now: ClockReading) {
    guard var file = files[snapshot.id], file.snapshot.epoch == snapshot.epoch, !file.isOpen else { return }
    switch file.phase {
    case .ready, .waiting, .held, .interrupted, .failed: break
    case .finishing, .complete:
      // The file is delivered; under another name it would be remains.
      files[snapshot.id]?.judge(snapshot.interruption, missing: snapshot.missing)
      actions.append(.showStatus(snapshot.id))
      return
    case .writing, .ignored, .routedElsewhere, .cancelled, .removed: return
    }
    // Without the bytes that are still to be read its commit waits in vain.
    if let transfer = file.transfer, !file.isWholeFile, !transfer.isOnItsWay { cancelCommit(of: file) }
    cancelStream(of: file)
    leaveTransfer(&file)
    let before = file.snapshot
    file.take(snapshot)
    files[snapshot.id] = file
    settleName(snapshot.id, at: now)
    noteDisk(snapshot, before: before, at: now)
  }

  /// The spool's disk refuses the content, or takes it again.
  private mutating func noteDisk(_ snapshot: FileSnapshot, before: FileSnapshot, at now: ClockReading) {
    guard let file = files.entry(snapshot.id)?.file else { return }
    let failure = FileStatus.Failure(.spoolFailing(errno: snapshot.diskErrno ?? 0), at: now)
    switch (before.diskErrno, snapshot.diskErrno) {
    case (nil, nil): return
    case (_?, nil):
      files[snapshot.id]?.copy.takenByDisk()
      actions.append(.report(.takenByDisk(snapshot.id, file.path)))
    case (let earlier, _?):
      guard earlier == nil else { break }
      files[snapshot.id]?.copy.refusedByDisk(failure)
      totals.filesRefusedByDisk += 1
      actions.append(.report(.refusedByDisk(snapshot.id, file.path, failure)))
    }
    actions.append(.showStatus(snapshot.id))
  }

  private mutating func namesChanged(_ snapshot: FileSnapshot, at now: ClockReading) {
    if files[snapshot.id] == nil { adopt(snapshot, at: now) }
    guard var file = files[snapshot.id] else { return }
    let isRenamed = file.snapshot.names != snapshot.names
    doubtEarlierRun(file, of: file.snapshot.names.filter { !snapshot.names.contains($0) }, at: now)
    loseNames(of: &file, keeping: snapshot.names)
    file.rename(as: snapshot)
    let names = snapshot.names
    files[snapshot.id] = file
    actions.append(.showNames(snapshot.id))
    actions.append(.showStatus(snapshot.id))
    // In a copy without attributes the file is known by the name in the catalog, and so is a file that takes its former
    // one.
    catalog.claims.renamed(snapshot.id, to: file.path)
    // State at another destination is to be dropped, which may still be waiting.
    if isRenamed, file.phase != .routedElsewhere { actions.append(.record(snapshot.id)) }
    switch file.phase {
    case .held: settleName(snapshot.id, at: now)
    case .interrupted:
      let isDelivered = file.receipt != nil && file.nextPath(limits) == nil
      if isDelivered || mayProve(file) || isLeftAlone(file) || interruptedPolicy(for: file) != .hold {
        settleName(snapshot.id, at: now)
      }
    case .routedElsewhere:
      // At another destination a user may have published the file as it is, which no event reports here.
      files[snapshot.id]?.judge(snapshot.interruption)
      openRenamed(snapshot.id, at: now)
    case .writing, .ignored: openRenamed(snapshot.id, at: now)
    case .ready, .waiting:
      if let path = file.publishing?.path, !names.contains(path) {
        cancelStream(of: file)
        // The commit waits for chunks under a name that must no longer appear. With all chunks there it is being
        // published.
        if let transfer = file.transfer, !transfer.isDone { cancelCommit(of: file) }
      }
      if file.nextPath(limits) == nil {
        if destination.abilities.appendSequences == .one {
          // The file's last byte would publish it, and it may be held back now.
          leaveTransfer(&file)
          abortSession(&file, at: now)
          files[snapshot.id] = file
        }
        settleName(snapshot.id, at: now)
      } else if isBoundElsewhere(file) {
        leaveTransfer(&file)
        abortSession(&file, at: now)
        files[snapshot.id] = file
        if file.phase == .ready { makeReady(snapshot.id, at: now) }
      }
    case .complete:
      files[snapshot.id]?.judge(file.interruption(in: snapshot))
      publishFurther(snapshot.id, at: now)
      actions.append(.record(snapshot.id))
    case .failed where isLeftAlone(file), .cancelled where isLeftAlone(file) && goesElsewhere(file):
      files[snapshot.id]?.forgetFailure()
      settleName(snapshot.id, at: now)
    case .failed:
      // The name was the cause.
      guard isRenamed, file.lastFailure?.code == StepFailure.Kind.nameRefused.code else { break }
      files[snapshot.id]?.forgetFailure()
      retry(snapshot.id, at: now)
    case .finishing, .cancelled, .removed: break
    }
  }

  /// A file that is written, or ignored, is renamed: it may now be one that is uploaded, or no longer.
  private mutating func openRenamed(_ id: FileID, at now: ClockReading) {
    guard var file = files[id] else { return }
    if !file.isOpen, file.phase != .writing { return settleName(id, at: now) }
    let exclusion = limits.leavesAlone(file.snapshot.names)
    if file.phase == exclusion?.phase ?? .writing {
      // Under its new name the file may have to wait for its end, or need another session.
      let isBoundElsewhere = isBoundElsewhere(file)
      guard isBoundElsewhere || file.growth != nil && !mayGrow(file) else { return }
      leaveTransfer(&file)
      if isBoundElsewhere { abortSession(&file, at: now) }
      files[id] = file
      planSession(id, at: now)
    } else if let exclusion {
      openFiles.closed(id)
      leaveAlone(&file, as: exclusion, at: now)
      files[id] = file
    } else {
      file.beginWriting()
      files[id] = file
      noteOpenInCatalog(id)
      openFiles.opened(id)
      planSession(id, at: now)
      beginKeepingWarm(at: now)
    }
  }

  /// By rule nothing of the file is to be sent, and nothing of its content has been published.
  private func isLeftAlone(_ file: FileUpload) -> Bool {
    file.receipt == nil && limits.leavesAlone(file.snapshot.names) != nil
  }

  private func goesElsewhere(_ file: FileUpload) -> Bool { limits.leavesAlone(file.snapshot.names) == .routedElsewhere }

  /// By rule nothing of the file is sent; what was sent under another name is taken back.
  private mutating func leaveAlone(_ file: inout FileUpload, as exclusion: FileUpload.Exclusion, at now: ClockReading) {
    giveUp(&file, keepsParts: true, at: now)
    let wasOfThisDestination = file.phase != .routedElsewhere
    file.exclude(as: exclusion)
    if !file.lacksParts { actions.append(.removeResume(file.id)) }
    switch exclusion {
    case .routedElsewhere: if wasOfThisDestination { forgetEntry(of: file) }
    case .ignored: actions.append(.record(file.id))
    }
    actions.append(.showStatus(file.id))
  }

  /// The catalog's entry of the file no longer applies, should it go to this destination again.
  mutating func forgetEntry(of file: FileUpload) {
    // The location of the file's parts stays recorded.
    if !file.lacksParts { actions.append(.forgetEntry(file.id)) }
  }

  private mutating func noteOnDisk(_ snapshot: FileSnapshot) {
    guard files[snapshot.id]?.snapshot.epoch == snapshot.epoch else { return }
    files[snapshot.id]?.noteOnDisk(snapshot.isOnDisk)
    actions.append(.showStatus(snapshot.id))
  }

  private mutating func attributesChanged(_ snapshot: FileSnapshot) {
    guard var file = files[snapshot.id] else { return }
    let isTimeChanged = file.snapshot.modifiedNanoseconds != snapshot.modifiedNanoseconds
    file.takeAttributes(of: snapshot)
    files[snapshot.id] = file
    // The catalog recognises an unchanged file by its time after a restart.
    switch file.phase {
    case .finishing, .complete, .interrupted, .failed, .cancelled: actions.append(.record(snapshot.id))
    // A waiting file would look as if an older one had replaced it.
    case .held, .ready, .waiting: if isTimeChanged { actions.append(.record(snapshot.id)) }
    case .writing, .ignored, .routedElsewhere, .removed: break
    }
  }

  /// A delivered file is sent under the next of its names; false when it has no other. What was in memory alone when it
  /// was delivered may be lost here by now. Then it is held like any other file that is not whole.
  @discardableResult
  mutating func publishFurther(_ id: FileID, at now: ClockReading) -> Bool {
    guard let file = files[id], file.nextPath(limits) != nil else { return false }
    if file.snapshot.interruption == nil { makeReady(id, at: now) } else { settleName(id, at: now) }
    return true
  }

  /// A settled file is delivered, or held when all its names are temporary.
  mutating func settleName(_ id: FileID, at now: ClockReading) {
    guard var file = files[id] else { return }
    if let exclusion = limits.leavesAlone(file.snapshot.names), file.receipt == nil {
      leaveAlone(&file, as: exclusion, at: now)
      files[id] = file
    } else if file.progress.delivered != nil, file.snapshot.mayBeRemains {
      makeReady(id, at: now)
    } else if file.nextPath(limits) != nil, mayProve(file) {
      makeReady(id, at: now)
      actions.append(.record(id))
    } else if let interruption = file.snapshot.interruption, interruptedPolicy(for: file) != .publish,
      file.receipt == nil || file.nextPath(limits) != nil
    {
      interrupted(id, interruption, at: now)
    } else if file.nextPath(limits) == nil, file.receipt == nil, file.publishedPaths.isEmpty {
      file.hold()
      sendHeld(&file, at: now)
      files[id] = file
      actions.append(.record(id))
      actions.append(.showStatus(id))
    } else if file.nextPath(limits) == nil, file.receipt != nil {
      // The name that was still to be published is gone. Others show this content, or did so.
      leaveTransfer(&file)
      abortSession(&file, at: now)
      file.beginFinishing()
      files[id] = file
      actions.append(.record(id))
      actions.append(.showStatus(id))
    } else if let until = pauseInSuccession(of: file, at: now) {
      waitInSuccession(&file, until: until)
      files[id] = file
      actions.append(.record(id))
    } else {
      makeReady(id, at: now)
      actions.append(.record(id))
    }
  }
}

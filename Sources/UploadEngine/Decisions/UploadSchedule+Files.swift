public import FileModel
import Lookup
import OrderedCollections

/// What the filesystem reports.
extension UploadSchedule {
  /// One event of the filesystem.
  ///
  /// Of a file that is met (``FileEvent/found``), `former` is what was published last at its path, where that counts (``mayComeAfterPublication(_:)``).
  public mutating func handle(_ event: FileEvent, after former: FormerPublication? = nil, at now: Moment) {
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
    if let id = event.file { noteDiskRound(of: id) }
    pump(at: now)
  }

  /// The size of an open file, asked for by ``UploadAction/measure(_:)``.
  public mutating func measured(_ snapshot: FileSnapshot, at now: Moment) {
    guard var file = files[snapshot.id], file.phase == .writing else { return }
    guard file.snapshot.sizeBytes != snapshot.sizeBytes else { return }
    file.snapshot.sizeBytes = snapshot.sizeBytes
    files[snapshot.id] = file
    actions.append(.showStatus(snapshot.id))
    noteSize(of: snapshot.id, at: now)
    warmForOpenFiles(at: now)
    // It may be large enough by now to be worth a session.
    if abilities.bindsNameAtOpening { planSession(snapshot.id, at: now) }
  }

  private mutating func opened(_ snapshot: FileSnapshot, after former: FormerPublication?, at now: Moment) {
    let isIgnored = limits.leavesAlone(snapshot.names) != nil
    if !isIgnored { openFiles.append(snapshot.id) }
    forgetHistory(of: snapshot.id)
    if files[snapshot.id] == nil,
      inherited[snapshot.id] != nil || former != nil || snapshot.interruption?.isOfSpool == true
    {
      adopt(snapshot, after: former, at: now)
    }
    if var file = files[snapshot.id] {
      file.isOpen = true
      let isSameContent = file.snapshot.epoch == snapshot.epoch
      let known = isSameContent ? file.snapshot.interruption : nil
      file.take(snapshot)
      // Who opens a file has not changed it: what holds it is over once it is settled again.
      file.snapshot.interruption = file.interruption(in: snapshot) ?? known
      files[snapshot.id] = file
    } else {
      var file = FileUpload(
        snapshot: snapshot, phase: phaseWhileOpen(snapshot), isOpen: true, changeSequence: makeChangeSequence())
      file.openedAt = now.wallMilliseconds
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

  /// Should the spool be copied without what its files say of themselves, the catalog says that this one is not finished.
  private mutating func noteOpenInCatalog(_ id: FileID) {
    if files.entry(id)?.file.phase == .writing { actions.append(.record(id)) }
  }

  private func phaseWhileOpen(_ snapshot: FileSnapshot) -> FileUpload.Phase {
    limits.leavesAlone(snapshot.names) ?? .writing
  }

  private mutating func changed(_ snapshot: FileSnapshot, at now: Moment) {
    if files[snapshot.id] == nil { adopt(snapshot, at: now) }
    contentsToChange[snapshot.id] = nil
    guard var file = files[snapshot.id] else { return }
    if let transfer = file.transfer, !file.isWholeFile, !transfer.isOnItsWay { cancelCommit(of: file) }
    cancelStream(of: file)
    doubtEarlierRun(file, of: snapshot.names, at: now)
    file.isOfEarlierRun = false
    file.isMetUnread = false
    file.mayBeAtServer = false
    file.take(snapshot)
    // What was wrong with the content may be made good by this very change.
    file.snapshot.interruption = nil
    leaveTransfer(&file)
    checkpoint(&file)
    file.mayLackParts = snapshot.isPartlyReleased
    let wasOfThisDestination = file.phase != .elsewhere
    file.phase = phaseWhileOpen(snapshot)
    if file.phase == .elsewhere, wasOfThisDestination { forgetEntry(of: file) }
    file.unreadable = nil
    file.changeSequence = makeChangeSequence()
    file.publishedPaths = []
    file.forgetReceipt()
    file.progress.merkleRoot = nil
    file.progress.chainTip = nil
    file.progress.encoding = nil
    file.progress.savedBytes = 0
    file.completedAt = nil
    file.keptSince = nil
    file.lastFailure = nil
    file.writeFailure = nil
    file.attempts = 0
    file.progress.setbacks.contentChanged()
    file.progress.failedAt = nil
    file.goesAlone = false
    file.progress.earlyRest = nil
    file.progress.isLeftForTheEnd = false
    file.progress.wish = nil
    file.progress.seal = nil
    file.progress.delivered = nil
    file.progress.acceptedInterruption = nil
    file.progress.lost = nil
    file.progress.takenOverChunks = 0
    file.progress.rowsBegunAnew = 0
    file.progress.chunksAllowed = 0
    file.progress.streamedBytes = 0
    file.progress.stragglingBytes = 0
    file.progress.countedBytes = 0
    (file.progress.startedAt, file.progress.beganAt, file.progress.isResumed) = (nil, nil, false)
    file.isLocal = true
    file.isOpen = snapshot.writableOpens > 0
    files[snapshot.id] = file
    // It may have been settled while it was open.
    if file.isOpen, file.phase == .writing { openFiles.append(snapshot.id) }
    noteOpenInCatalog(snapshot.id)
    noteSize(of: snapshot.id, at: now)
    planSession(snapshot.id, at: now)
    actions.append(.showStatus(snapshot.id))
  }

  private mutating func settled(_ snapshot: FileSnapshot, after former: FormerPublication?, at now: Moment) {
    openFiles.takeOut(snapshot.id)
    if files[snapshot.id] == nil { adopt(snapshot, after: former, at: now) }
    guard !confirm(snapshot, after: former, at: now), var file = files[snapshot.id] else { return }
    file.isOpen = false
    if snapshot.interruption?.isOfSpool != true { file.isMetUnread = false }
    file.writeFailure = nil
    file.closedAt = now.wallMilliseconds
    let before = file.snapshot
    let isSameContent = before.epoch == snapshot.epoch
    let wasUnreadable = file.snapshot.interruption?.isOfSpool == true
    let known = isSameContent && !wasUnreadable ? file.snapshot.interruption : nil
    defer { noteDisk(snapshot, before: before, at: now) }
    file.take(snapshot)
    file.snapshot.interruption = file.interruption(in: snapshot) ?? known
    file.path = file.snapshot.names.first ?? file.path
    files[snapshot.id] = file
    switch file.phase {
    case .writing, .ignored, .elsewhere:
      file.revision += 1
      // What was chosen to be given up while it was written is given up by now, or stays; what was cut off it does not lack.
      file.mayLackParts = snapshot.isPartlyReleased
      endGrowth(&file)
      // What was left for it has come, also for a file that is held back.
      file.progress.isLeftForTheEnd = false
      files[snapshot.id] = file
      settleName(snapshot.id, at: now)
    case .ready:
      if !isSameContent {
        leaveTransfer(&file)
        files[snapshot.id] = file
        makeReady(snapshot.id, at: now)
      } else if snapshot.diskErrno != nil, before.diskErrno == nil, !file.isSmallAtWork, file.publishing == nil {
        makeReady(snapshot.id, at: now)
      } else {
        files.update(snapshot.id) { $0.virtualTime = max($0.virtualTime, virtualTime) }
        // It was passed over while it was open.
        if isSmall(file) { smallQueue.append(snapshot.id) }
      }
    case .interrupted where wasUnreadable && snapshot.interruption?.isOfSpool != true:
      // The spool can say by now what it holds.
      files[snapshot.id]?.lastFailure = nil
      settleName(snapshot.id, at: now)
    case .cancelled:
      // It stays so over a restart only if the catalog describes what the spool holds now.
      actions.append(.record(snapshot.id))
    case .held, .interrupted, .waiting, .finishing, .complete, .failed, .removed:
      break
    }
    actions.append(.showStatus(snapshot.id))
  }

  /// The spool's disk did not take what was settled: what is read of it from now on may be anything. What was delivered is.
  private mutating func unsettled(_ snapshot: FileSnapshot, at now: Moment) {
    guard var file = files[snapshot.id], file.snapshot.epoch == snapshot.epoch, !file.isOpen else { return }
    switch file.phase {
    case .ready, .waiting, .held, .interrupted, .failed: break
    case .finishing, .complete:
      // It is delivered; under another name it would be what is left of it.
      files[snapshot.id]?.snapshot.interruption = snapshot.interruption
      files[snapshot.id]?.snapshot.missing = snapshot.missing
      actions.append(.showStatus(snapshot.id))
      return
    case .writing, .ignored, .elsewhere, .cancelled, .removed: return
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

  /// Its disk refuses the content, or takes it again.
  private mutating func noteDisk(_ snapshot: FileSnapshot, before: FileSnapshot, at now: Moment) {
    guard let file = files.entry(snapshot.id)?.file else { return }
    let failure = FileStatus.Failure(.spoolFailing(errno: snapshot.diskErrno ?? 0), at: now)
    switch (before.diskErrno, snapshot.diskErrno) {
    case (nil, nil): return
    case (_?, nil):
      files[snapshot.id]?.diskFailure = nil
      actions.append(.report(.takenByDisk(snapshot.id, file.path)))
    case (let earlier, _?):
      guard earlier == nil else { break }
      files[snapshot.id]?.diskFailure = failure
      filesRefusedByDisk += 1
      actions.append(.report(.refusedByDisk(snapshot.id, file.path, failure)))
    }
    actions.append(.showStatus(snapshot.id))
  }

  private mutating func namesChanged(_ snapshot: FileSnapshot, at now: Moment) {
    if files[snapshot.id] == nil { adopt(snapshot, at: now) }
    guard var file = files[snapshot.id] else { return }
    let isRenamed = file.snapshot.names != snapshot.names
    doubtEarlierRun(file, of: file.snapshot.names.filter { !snapshot.names.contains($0) }, at: now)
    loseNames(of: &file, keeping: snapshot.names)
    file.snapshot.names = snapshot.names
    file.snapshot.isOnDisk = snapshot.isOnDisk
    file.path = snapshot.names.first ?? file.path
    // A name that the file no longer has does not show this content to anybody here; should the file get it back, it is
    // published again.
    let names = snapshot.names
    file.publishedPaths.removeAll { !names.contains($0) }
    if case .named(let name)? = file.progress.wish, !names.contains(name) { file.progress.wish = .asIs }
    files[snapshot.id] = file
    actions.append(.showNames(snapshot.id))
    actions.append(.showStatus(snapshot.id))
    // In a copy without attributes it is known by the name that the catalog has, and so is what comes under its former one.
    unconfirmed[snapshot.id]?.path = file.path
    // What is left at another destination is to be forgotten, which may be waiting still.
    if isRenamed, file.phase != .elsewhere { actions.append(.record(snapshot.id)) }
    switch file.phase {
    case .held: settleName(snapshot.id, at: now)
    case .interrupted:
      let isDelivered = file.receipt != nil && file.nextPath(limits) == nil
      if isDelivered || mayProve(file) || isLeftAlone(file) || interruptedPolicy(for: file) != .hold {
        settleName(snapshot.id, at: now)
      }
    case .elsewhere:
      // At another destination a user may have published it as it is, which no event has told here.
      files[snapshot.id]?.snapshot.interruption = snapshot.interruption
      openRenamed(snapshot.id, at: now)
    case .writing, .ignored: openRenamed(snapshot.id, at: now)
    case .ready, .waiting:
      if let path = file.publishing?.path, !names.contains(path) {
        cancelStream(of: file)
        // It waits for chunks under a name that nobody is to see any more. With all chunks there it is being published.
        if let transfer = file.transfer, !transfer.isDone { cancelCommit(of: file) }
      }
      if file.nextPath(limits) == nil {
        if abilities.rows == .one {
          // Its last byte would publish it, and it may be held back now.
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
      files[snapshot.id]?.snapshot.interruption = file.interruption(in: snapshot)
      publishFurther(snapshot.id, at: now)
      actions.append(.record(snapshot.id))
    case .failed where isLeftAlone(file), .cancelled where isLeftAlone(file) && goesElsewhere(file):
      files[snapshot.id]?.lastFailure = nil
      settleName(snapshot.id, at: now)
    case .failed:
      // The name was what was wrong.
      guard isRenamed, file.lastFailure?.code == StepFailure.Kind.nameRefused.code else { break }
      files[snapshot.id]?.lastFailure = nil
      retry(snapshot.id, at: now)
    case .finishing, .cancelled, .removed: break
    }
  }

  /// A file that is written, or ignored, has other names: it may be what is uploaded now, or no longer.
  private mutating func openRenamed(_ id: FileID, at now: Moment) {
    guard var file = files[id] else { return }
    if !file.isOpen, file.phase != .writing { return settleName(id, at: now) }
    let phase = phaseWhileOpen(file.snapshot)
    if phase == file.phase {
      // Under its new name it may have to wait for its end, or need another session.
      let isBoundElsewhere = isBoundElsewhere(file)
      guard isBoundElsewhere || file.growth != nil && !mayGrow(file) else { return }
      leaveTransfer(&file)
      if isBoundElsewhere { abortSession(&file, at: now) }
      files[id] = file
      planSession(id, at: now)
    } else if phase != .writing {
      openFiles.takeOut(id)
      leaveAlone(&file, as: phase, at: now)
      files[id] = file
    } else {
      file.phase = phase
      files[id] = file
      noteOpenInCatalog(id)
      openFiles.append(id)
      planSession(id, at: now)
      beginKeepingWarm(at: now)
    }
  }

  /// By rule nothing of the file is to be sent, and nothing of its content has been published.
  private func isLeftAlone(_ file: FileUpload) -> Bool {
    file.receipt == nil && limits.leavesAlone(file.snapshot.names) != nil
  }

  private func goesElsewhere(_ file: FileUpload) -> Bool { limits.leavesAlone(file.snapshot.names) == .elsewhere }

  /// By rule nothing of the file is sent; what was sent under another name is taken back.
  private mutating func leaveAlone(_ file: inout FileUpload, as phase: FileUpload.Phase, at now: Moment) {
    giveUp(&file, keepsParts: true, at: now)
    let wasOfThisDestination = file.phase != .elsewhere
    file.phase = phase
    if !file.lacksParts { actions.append(.removeResume(file.id)) }
    switch phase {
    case .elsewhere: if wasOfThisDestination { forgetEntry(of: file) }
    default: actions.append(.record(file.id))
    }
    actions.append(.showStatus(file.id))
  }

  /// What the catalog says of the file holds no longer, should it go to this destination again.
  private mutating func forgetEntry(of file: FileUpload) {
    // Where its parts are stays known.
    if !file.lacksParts { actions.append(.forgetEntry(file.id)) }
  }

  private mutating func noteOnDisk(_ snapshot: FileSnapshot) {
    guard files[snapshot.id]?.snapshot.epoch == snapshot.epoch else { return }
    files[snapshot.id]?.snapshot.isOnDisk = snapshot.isOnDisk
    actions.append(.showStatus(snapshot.id))
  }

  private mutating func attributesChanged(_ snapshot: FileSnapshot) {
    guard var file = files[snapshot.id] else { return }
    let isTimeChanged = file.snapshot.modifiedNanoseconds != snapshot.modifiedNanoseconds
    file.snapshot.modifiedNanoseconds = snapshot.modifiedNanoseconds
    file.snapshot.mode = snapshot.mode
    file.snapshot.user = snapshot.user
    file.snapshot.group = snapshot.group
    files[snapshot.id] = file
    // The catalog recognises an unchanged file by its time after a restart.
    switch file.phase {
    case .finishing, .complete, .interrupted, .failed, .cancelled: actions.append(.record(snapshot.id))
    // One that waits would look as if an older one had been put in its place.
    case .held, .ready, .waiting: if isTimeChanged { actions.append(.record(snapshot.id)) }
    case .writing, .ignored, .elsewhere, .removed: break
    }
  }

  private mutating func removed(_ id: FileID, endsUnfound: Bool = true, at now: Moment) {
    openFiles.takeOut(id)
    if endsUnfound, files[id] == nil { endUnfound(id, at: now) }
    if let entry = inherited.removeValue(forKey: id) { doubtEarlierRun(entry, at: now) }
    contentsToChange[id] = nil
    unconfirmed[id] = nil
    supersededDeliveries.remove(id)
    guard var file = files[id] else {
      if !isScanned {
        goneUnfound.insert(id)
        actions.append(.showStatus(id))
      }
      return
    }
    guard file.phase != .elsewhere else { return forgetElsewhere(id) }
    doubtEarlierRun(file, of: file.snapshot.names, at: now)
    giveUp(&file, at: now)
    file.wasDelivered = file.receipt != nil
    file.phase = .removed
    // What was wrong with it, and what could be done, is about a file that is there.
    file.lastFailure = nil
    file.writeFailure = nil
    file.isOpen = false
    file.isLocal = false
    file.snapshot.names = []
    files[id] = file
    actions.append(.forget(id))
    actions.append(.removeResume(id))
    actions.append(.showNames(id))
    actions.append(.showStatus(id))
    remember(id)
  }

  /// A file that the search had not come to was removed in the mount: its upload ends as that of every other one.
  private mutating func endUnfound(_ id: FileID, at now: Moment) {
    if inherited[id] != nil { actions.append(.forget(id)) }
    guard let record = inheritedRecords.removeValue(forKey: id) else { return }
    discard(SessionIdentity(id: record.sessionID, nonce: record.nonce), of: record.owner, at: now)
    actions.append(.removeResume(id))
  }

  /// What was delivered stays so, as after an unlink. What was not is said.
  private mutating func vanished(_ id: FileID, at now: Moment) {
    let file = files[id]
    let isLost = file.map { $0.receipt == nil && $0.phase != .elsewhere && $0.phase != .ignored } ?? false
    // Parts that are at the server alone are known here only; the file may have got another name there.
    if isLost, file?.lacksParts == true { return interrupted(id, .changedInSpool, at: now) }
    removed(id, endsUnfound: false, at: now)
    guard isLost, let file else { return }
    filesChangedInSpool += 1
    files[id]?.lastFailure = FileStatus.Failure(
      code: "removed-from-spool",
      message: "Another program took the file out of the spool before it was delivered. Remove captures in the mount.",
      at: now)
    actions.append(.report(.missingFromSpool(id, file.path)))
    actions.append(.showStatus(id))
  }

  /// Ends whatever is under way for a file. Its buffers come back as its requests and reads are answered. A session that
  /// is still being opened is ended when the answer says what its name is. A session that holds what is no longer in the
  /// spool is kept where the file is.
  mutating func giveUp(_ file: inout FileUpload, keepsParts: Bool = false, at now: Moment) {
    leaveTransfer(&file)
    for (request, underway) in requests where underway.purpose.file == file.id {
      if case .openSession = underway.purpose { continue }
      endEarly(request, underway)
    }
    abortSession(&file, endsParts: !keepsParts, at: now)
  }

  private mutating func evicted(_ id: FileID, at now: Moment) {
    guard var file = files[id] else { return }
    unconfirmed[id] = nil
    guard file.phase != .interrupted else { return discarded(id, at: now) }
    guard file.phase != .elsewhere else { return forgetElsewhere(id) }
    switch file.phase {
    case .complete, .finishing, .ignored, .removed, .interrupted, .elsewhere: break
    case .writing, .held, .ready, .waiting, .failed, .cancelled:
      // Whatever was still to be done with it, nothing of it is left here. What was delivered stays delivered.
      guard file.receipt != nil else { return removed(id, at: now) }
      openFiles.takeOut(id)
      giveUp(&file, at: now)
      file.phase = .complete
      file.isOpen = false
      file.lastFailure = nil
      actions.append(.removeResume(id))
    }
    file.isLocal = false
    file.snapshot.names = []
    files[id] = file
    actions.append(.record(id))
    actions.append(.forgetNames(id))
    actions.append(.showNames(id))
    actions.append(.showStatus(id))
    remember(id)
  }

  /// What became of a file that went to other destinations only is theirs to say.
  private mutating func forgetElsewhere(_ id: FileID) {
    files[id] = nil
    actions.append(.forget(id))
    actions.append(.hide(id))
  }

  /// Keeps a bounded number of files visible that are no longer in the spool.
  private mutating func remember(_ id: FileID) {
    history.append(id)
    while history.count > limits.historyMax {
      let oldest = history.removeFirst()
      guard let file = files[oldest], !file.isLocal else { continue }
      files[oldest] = nil
      actions.append(.hide(oldest))
    }
  }

  /// A capture that was gone lies in the spool again, by hand, and says who it is: what it is now is to be found out.
  private mutating func forgetHistory(of id: FileID) {
    if files.entry(id)?.file.isLocal == false { files[id] = nil }
  }

  /// A file from an earlier run, or one that was put into the spool by hand.
  private mutating func adopt(
    _ snapshot: FileSnapshot, after former: FormerPublication? = nil, goingOnWith session: UploadSession? = nil,
    at now: Moment
  ) {
    var entry = inherited.removeValue(forKey: snapshot.id)
    let known = entry
    if known == nil, former == nil, snapshot.wasFound { foundForgotten = foundForgotten.map { $0 + 1 } }
    if case .spoolUnreadable? = snapshot.interruption {
      unconfirmed[snapshot.id] = entry
      entry = nil
    }
    var file = FileUpload(
      snapshot: snapshot, phase: phaseWhileOpen(snapshot), isOpen: snapshot.writableOpens > 0,
      changeSequence: makeChangeSequence())
    if case .spoolUnreadable? = snapshot.interruption { file.isMetUnread = true }
    file.openedAt = entry?.openedAtMilliseconds
    file.closedAt = entry?.closedAtMilliseconds
    var isKnownDelivered = known?.isDelivered == true
    // One that was never finished stays at none.
    file.revision = entry?.revision == 0 && snapshot.interruption != nil ? 0 : max(1, entry?.revision ?? 1)
    if let entry, let former, entry.isReplaced(by: former, in: snapshot), snapshot.interruption == nil,
      file.phase != .elsewhere, publishedName(file.id, former.origin.path).map({ $0 == former.name }) ?? true
    {
      file.snapshot.interruption = .olderThanDelivered
      isKnownDelivered = false
    } else if let entry, entry.isToResend, file.phase != .elsewhere, entry.describes(snapshot) {
      if snapshot.mayBeRemains { findUnproven(&file, of: entry, isToResend: true) }
    } else if let entry, entry.isDelivered, entry.describes(snapshot),
      file.phase == .elsewhere || !entry.mayBeLeft(in: snapshot)
    {
      file.becomeDelivered(as: entry)
    } else if let entry, entry.isDelivered, snapshot.interruption == nil, !snapshot.isPartlyReleased {
      findOther(&file, than: entry)
    } else if let entry, entry.mayBeLeft(in: snapshot), file.phase != .elsewhere {
      findRest(&file, of: entry, at: now)
    } else if let entry, entry.isDelivered, snapshot.mayBeRemains, file.phase != .elsewhere {
      findUnproven(&file, of: entry)
    } else if let entry, file.phase != .elsewhere, entry.saysCancelled(of: snapshot) {
      file.phase = .cancelled
      file.lastFailure = FileStatus.Failure(
        code: FileUpload.cancelledCode, message: entry.failureMessage ?? "", at: now)
    } else if let entry, file.phase != .elsewhere, abilities.publishesOnce != .nothing,
      entry.failureCode == FileUpload.unclearAfterCrash.code, entry.state == .failed, entry.describes(snapshot)
    {
      file.phase = .failed
      file.lastFailure = FileStatus.Failure(
        code: FileUpload.unclearAfterCrash.code, message: entry.failureMessage ?? "", at: now)
    } else if let former, file.phase != .elsewhere {
      findPublished(&file, former, besides: entry)
      isKnownDelivered = unconfirmed[file.id] != nil
    } else {
      // What an entry says of a content that has changed since is not of this one, however alike the two look.
      if let entry, entry.state == .failed, entry.describes(snapshot),
        let known = entry.failureCode.flatMap({ Interruption($0) }), !known.isOfSpool
      {
        file.snapshot.interruption = snapshot.interruption ?? known
      }
      file.mayBeAtServer =
        snapshot.wasFound && snapshot.interruption == nil && known?.isDelivered != true && file.revision <= 1
      if let entry, entry.describes(snapshot) { file.progress.seal = entry.seal }
      if let wish = entry?.wish(for: snapshot) {
        file.progress.wish = wish
      }
    }
    if isKnownDelivered, file.receipt == nil {
      supersededDeliveries.insert(file.id)
    } else {
      supersededDeliveries.remove(file.id)
    }
    // Also of one that is held back: somebody may want it as it is. Of one that nobody wants sent, as long as parts of it are at
    // the server alone.
    let goesOn = file.receipt == nil && (file.lacksParts || file.phase != .cancelled && file.phase != .failed)
    if goesOn, let session {
      file.session = session
    } else if goesOn, let pointer = pointerToParts(of: file, entry) {
      // Of two uploads this one has them, whatever a record of another time says.
      keepSession(pointer.sessionID)
      file.session = UploadSession(pointer, at: now)
      file.session?.triedPaths = snapshot.names
    } else if goesOn, let record = inheritedRecords.removeValue(forKey: snapshot.id) {
      file.session = resumedSession(record, of: file)
      file.session?.isOfFirstWriting = record.epochRevision == 0 && (entry?.revision ?? 0) == 0
    } else if let session {
      // That of a delivered one is published.
      if file.receipt == nil, let identity = session.identity { discard(identity, of: session.owner, at: now) }
      actions.append(.removeResume(snapshot.id))
    }
    if goesOn, session == nil { noteTried(&file, by: known) }
    if file.session != nil { file.progress.isResumed = true }
    if file.progress.wish != nil, file.receipt == nil { acceptInterruption(of: &file, snapshot.interruption) }
    files[snapshot.id] = file
    // It was to change and stays: the catalog may have forgotten what it is.
    let isToStay = contentsToChange.removeValue(forKey: snapshot.id) != nil
    if file.phase == .elsewhere, entry != nil {
      forgetEntry(of: file)
    } else if isToStay || entry.map({ !$0.knows(snapshot) }) ?? false {
      actions.append(.record(snapshot.id))
    }
    actions.append(.showNames(snapshot.id))
    actions.append(.showStatus(snapshot.id))
    switch file.phase {
    case .complete:
      if !publishFurther(snapshot.id, at: now) { dropDeliveredParts(snapshot.id) }
    case .cancelled, .failed, .finishing: break
    default: if !file.isOpen { settleName(snapshot.id, at: now) }
    }
  }

  /// The spool can say by now what a file is like that was found: it is what its entry describes, or what was published at its path, or
  /// another content. True when that was so, and all that there is to decide is decided.
  private mutating func confirm(_ snapshot: FileSnapshot, after former: FormerPublication?, at now: Moment) -> Bool {
    if case .spoolUnreadable? = snapshot.interruption { return false }
    let entry = unconfirmed.removeValue(forKey: snapshot.id)
    guard var file = files[snapshot.id], file.snapshot.epoch == snapshot.epoch,
      entry != nil || former != nil && file.isMetUnread
    else { return false }
    leaveTransfer(&file)
    files[snapshot.id] = nil
    inherited[snapshot.id] = entry
    adopt(snapshot, after: former, goingOnWith: file.session, at: now)
    return true
  }

  /// Parts of the file are at a server alone, and the record that names the upload which has them is gone, or is of another one. Where
  /// the disk may still say it later, nothing is decided. The upload keeps its own chunks, however long those of the settings are.
  private mutating func pointerToParts(of file: FileUpload, _ entry: CatalogEntry?) -> SessionPointer? {
    guard file.snapshot.isPartlyReleased, !lacksRecords, let pointer = file.snapshot.pointer ?? entry?.pointer,
      pointer.chunkBytes <= UploadConstants.chunkBytesMax, inheritedRecords[file.id]?.sessionID != pointer.sessionID
    else { return nil }
    chunkBytesMax = max(chunkBytesMax, pointer.chunkBytes)
    return pointer
  }

  /// The session of an earlier run may have published the content that is found, unless the catalog knows of a change after it: neither
  /// the file nor the record need be as new as that. After a power cut nor is the catalog, unless it knows what was closed, and what the
  /// session has published may have been replaced since.
  private func noteTried(_ file: inout FileUpload, by entry: CatalogEntry?) {
    guard let session = file.session else { return }
    let isSettled = entry.map { $0.doubt == nil && $0.describes(file.snapshot) } ?? false
    let isKnown = !file.snapshot.mayBeRemains || file.progress.seal != nil
    let isOfContent = isKnown && (isSettled || entry?.session.map { $0 == session.id } ?? true)
    let epoch = file.snapshot.epoch
    file.session?.tried = isOfContent ? .content(epoch) : .earlier
    if isOfContent { file.progress.committedEpoch = epoch }
  }

  /// The session that a record names. Whether it lives, the server says when it is asked.
  private func resumedSession(_ record: ResumeRecord, of file: FileUpload) -> UploadSession {
    var session = UploadSession(record, bindsName: abilities.bindsNameAtOpening)
    session.triedPaths = file.snapshot.names
    // Of another kind of server: it is kept for that one, and no name of this one belongs to it.
    if file.lacksParts { session.boundPath = nil }
    // A record that was begun from the pointer alone may lack what was acknowledged before.
    session.trustsServer = file.snapshot.isPartlyReleased && file.snapshot.pointer?.sessionID == record.sessionID
    return session
  }

  /// Nothing is forgotten and no session ended because of it: the scan goes on.
  private mutating func scanFailing(_ path: RelativePath, errno: Int32, at now: Moment) {
    scanFailing(path, FileStatus.Failure(unreadableFolder: path, errno: errno, at: now), at: now)
  }

  /// The search of the spool waits until it is known what earlier runs knew of the files that it will find.
  mutating func searchWaits(reason: String, at now: Moment) {
    scanFailing(.root, FileStatus.Failure(unreadableCatalog: reason, at: now), at: now)
    pump(at: now)
  }

  private mutating func scanFailing(_ path: RelativePath, _ failure: FileStatus.Failure, at now: Moment) {
    if scanFailure == nil { deadlines.insert(.scan, at: now.monotonic + Self.scanPatience) }
    if scanFailure?.failure.message != failure.message { actions.append(.report(.scanFailing(path, failure))) }
    actions.append(.showSummary)
    scanFailure = ScanFailure(path: path, failure: failure, isLasting: scanFailure?.isLasting ?? false)
  }

  /// Nobody waits for what the disk cannot say for longer than that.
  private static let scanPatience: Duration = .seconds(10)

  private mutating func scanEnded(at now: Moment) {
    isScanned = true
    scanFailure = nil
    goneUnfound = []
    actions.append(.showSummary)
    if let count = foundForgotten.take(), count > 0 {
      actions.append(.report(.forgotten(count, compared: files.values.count { $0.progress.delivered != nil })))
    }
    if files.counts.unproven > 0 { actions.append(.report(.unproven(files.counts.unproven))) }
    var kept: LookupTable<FileID, CatalogEntry> = [:]
    // In an order, so that a run can be played again.
    let missed = inherited.sorted().filter { files[$0.key] == nil }
    let taken = missed.contains { $0.value.state == .complete } ? namesThatAreTaken() : []
    for (id, entry) in missed {
      switch entry.state {
      case .complete where taken.contains(entry.path):
        // Another capture was moved over it, and the mount died before the catalog knew.
        actions.append(.forget(id))
      case .complete, .evicted:
        // Removed by hand while nothing was mounted, or evicted: what was delivered stays visible.
        adoptHistory(entry)
        if entry.state == .complete { actions.append(.forgetNames(id)) }
      case .pending, .failed:
        if mayHavePartsElsewhere(entry) {
          kept[id] = entry
          actions.append(.report(.missingFromSpool(id, entry.path)))
          continue
        }
        actions.append(.report(.missingFromSpool(id, entry.path)))
        actions.append(.forget(id))
      case .removed:
        actions.append(.forget(id))
      }
    }
    for (id, record) in inheritedRecords.sorted() {
      // Without the file, or what the catalog knew of it, nobody can say that the server does not hold what is nowhere else.
      guard files[id] != nil || inherited[id] != nil && kept[id] == nil else { continue }
      inheritedRecords[id] = nil
      guard files[id]?.session?.id != record.sessionID else { continue }
      // Of a file that is gone: nobody else will end it. That of a delivered one is published.
      if files[id]?.receipt == nil {
        discard(SessionIdentity(id: record.sessionID, nonce: record.nonce), of: record.owner, at: now)
      }
      actions.append(.removeResume(id))
    }
    inherited = kept
    endInherited(at: now)
  }

  /// The names under which files lie in the spool.
  private func namesThatAreTaken() -> LookupSet<RelativePath> {
    LookupSet(files.values.filter(\.isLocal).flatMap(\.snapshot.names))
  }

  /// Parts of a file that is not in the spool may be at the server alone, in the session that the catalog or its record names: whoever
  /// moved the rest away may put it back, or its disk is not mounted.
  private func mayHavePartsElsewhere(_ entry: CatalogEntry) -> Bool {
    if entry.pointer != nil { return true }
    guard let record = inheritedRecords[entry.id], !record.acknowledged.isEmpty else { return false }
    return entry.failureCode == FileUpload.partsAtServerCode || limits.rules.haveReleases
  }

  private mutating func adoptHistory(_ entry: CatalogEntry) {
    let snapshot = FileSnapshot(
      id: entry.id, epoch: 0, sizeBytes: entry.sizeBytes, modifiedNanoseconds: entry.modifiedNanoseconds, mode: 0,
      inode: entry.inode, names: [], writableOpens: 0, mutationsInFlight: 0)
    var file = FileUpload(snapshot: snapshot, phase: .complete, isOpen: false, changeSequence: 0)
    file.path = entry.path
    file.revision = entry.revision
    file.receipt = entry.receipt
    file.completedAt = entry.completedAtMilliseconds
    file.openedAt = entry.openedAtMilliseconds
    file.closedAt = entry.closedAtMilliseconds
    file.isLocal = false
    files[entry.id] = file
    actions.append(.showNames(entry.id))
    remember(entry.id)
  }

  /// A delivered file goes out under the next of its names; false when it has no other. What was in memory alone when it was delivered
  /// may be lost here by now: then it is held like every other one that is not whole.
  @discardableResult
  mutating func publishFurther(_ id: FileID, at now: Moment) -> Bool {
    guard let file = files[id], file.nextPath(limits) != nil else { return false }
    if file.snapshot.interruption == nil { makeReady(id, at: now) } else { settleName(id, at: now) }
    return true
  }

  /// A settled file goes to work, or is kept back when all its names are temporary.
  mutating func settleName(_ id: FileID, at now: Moment) {
    guard var file = files[id] else { return }
    if let phase = limits.leavesAlone(file.snapshot.names), file.receipt == nil {
      leaveAlone(&file, as: phase, at: now)
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
      file.phase = .held
      sendHeld(&file, at: now)
      files[id] = file
      actions.append(.record(id))
      actions.append(.showStatus(id))
    } else if file.nextPath(limits) == nil, file.receipt != nil {
      // The name that was still to be published is gone. Others show this content, or did so.
      leaveTransfer(&file)
      abortSession(&file, at: now)
      file.phase = .finishing
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

extension CatalogEntry {
  /// A user wanted it delivered again, before the restart.
  fileprivate var isToResend: Bool { isDelivered && failureCode == FileUpload.remainsToResendCode }

  /// This content was cancelled before the restart.
  fileprivate func saysCancelled(of snapshot: FileSnapshot) -> Bool {
    guard state == .failed else { return false }
    // A copy of the spool may have other times.
    let isCopy = inode != snapshot.inode && sizeBytes == snapshot.sizeBytes
    return failureCode == FileUpload.cancelledCode && (describes(snapshot) || isCopy)
      || failureCode == FileUpload.cancelledOpenCode
  }

  /// It says where the file is. Elsewhere that has another inode; it may have been renamed just before a kill; and what was evicted lies
  /// there again.
  fileprivate func knows(_ snapshot: FileSnapshot) -> Bool {
    inode == snapshot.inode && snapshot.names.contains(path) && state != .evicted
  }

  /// Parts of the delivered file were given up, and what lies here under its name, as long as it was, says nothing of itself.
  func mayBeLeft(in snapshot: FileSnapshot) -> Bool {
    lackedParts && snapshot.interruption == .unproven && !snapshot.isPartlyReleased && sizeBytes == snapshot.sizeBytes
  }

  /// Parts of the delivered file had been given up when this was written, or an earlier version has not said what it lacked.
  var lackedParts: Bool {
    let isOfDisk = failureCode == FileUpload.diskRemainsCode || failureCode == FileUpload.remainsToResendCode
    return isDelivered && doubt == .unproven && !isOfDisk
  }

  /// What a user wanted of this content before the restart. The wish is not of what a power cut has left since.
  fileprivate func wish(for snapshot: FileSnapshot) -> FileUpload.Wish? {
    guard describes(snapshot), var code = failureCode else { return nil }
    if code.hasSuffix(FileUpload.ofRemainsSuffix) {
      code.removeLast(FileUpload.ofRemainsSuffix.count)
    } else if snapshot.mayBeRemains {
      return nil
    }
    switch code {
    case FileUpload.publishedAsIsCode: return .asIs
    case FileUpload.publishedAsNamedCode: return snapshot.names.contains(path) ? .named(path) : .asIs
    default: return nil
    }
  }

  /// True when what lies in the spool is the content that was known of this file: same size and time of change. That it is the same
  /// file its identity says, wherever the spool lies now.
  func describes(_ snapshot: FileSnapshot) -> Bool {
    sizeBytes == snapshot.sizeBytes && modifiedNanoseconds == snapshot.modifiedNanoseconds
  }
}

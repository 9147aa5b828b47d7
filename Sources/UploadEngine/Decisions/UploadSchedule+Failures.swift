import FileModel
import TransferModel

/// What becomes of a file whose step has failed.
extension UploadSchedule {
  /// The file has made progress: the next failure is the first of a new series.
  mutating func progressed(_ id: FileID) {
    let acknowledgedBytes = files.entry(id)?.file.transfer?.doneBytes ?? 0
    files[id]?.failures.progressed(acknowledgedBytes: acknowledgedBytes)
    files[id]?.turn.connectionMoved()
    noteReadable(id)
  }

  /// A step of a file has failed.
  mutating func failed(_ id: FileID, _ outcome: StepOutcome, at now: ClockReading) {
    let failure = StepFailure(outcome)
    // A file that has ended meanwhile keeps the reason that it ended with.
    guard var file = files[id], file.isToBeDelivered else { return }
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    switch policy.verdict(on: failure.kind, attempts: file.failures.rounds + 1) {
    case .ignore:
      return
    case .pauseDestination:
      file.note(shown)
      files[id] = file
      actions.append(.showStatus(id))
    case .retryStep where file.isWholeFile && file.phase == .ready:
      wholeFileFailed(id, failure, shown, at: now)
    case .waitOut:
      waitOut(id, failure, shown, at: now)
    case .waitForRoom:
      // Room for one chunk is none for twelve, most of which would be sent for nothing each time.
      files[id]?.progress.allowChunks(1)
      let pause = leastPause(isFirst: file.failures.rounds == 0, retryAfter: failure.retryAfter)
      pauseFile(id, failure: shown, retryAfter: pause, at: now)
    case .retryStep, .pauseFile:
      if failure.kind == .transport(.bodyUnavailable) { noteUnreadable(id, at: now) }
      pauseFile(id, failure: shown, isTooEarly: failure.kind == .tooEarly, retryAfter: failure.retryAfter, at: now)
    case .startNewSession:
      // The server still knows the session that is left, with all that was sent.
      let isKnown = failure.kind == .notReplaceable || failure.kind == .nameTaken
      if isKnown { abortSession(&file, at: now) }
      files[id] = file
      restartSession(id, by: shown, isLoss: !isKnown, at: now)
    case .fail where asksAgain(file, after: failure.kind, at: now):
      files[id]?.failures.refused(acknowledgedBytes: file.transfer?.doneBytes ?? 0)
      pauseFile(id, failure: shown, retryAfter: failure.retryAfter, at: now)
    case .fail:
      failForGood(id, shown, at: now)
    }
  }

  /// The first refusal may be the answer to a request that was damaged on the way, and one more shows it. Requests that were sent
  /// beside it belong to it. A destination that may have the file twice then is believed at once.
  private func asksAgain(_ file: FileUpload, after refusal: StepFailure.Kind, at now: ClockReading) -> Bool {
    refusal.mayBeOfDamage && destination.abilities.atMostOnceScope == .nothing
      && (!file.failures.isRefused || file.isResting(at: now))
  }

  /// After a request whose answer is lost the server may have a copy for each attempt, which costs more than the bytes
  /// of a small file.
  private mutating func wholeFileFailed(
    _ id: FileID, _ failure: StepFailure, _ shown: FileStatus.Failure, at now: ClockReading
  ) {
    let leavesCopies = destination.abilities.repeatsLeaveCopies != .nothing && failure.kind.leavesOpenWhatBecameOfIt
    let isFirst = files.entry(id)?.file.progress.setbacks.count == 0
    let least = leavesCopies ? leastPause(isFirst: isFirst, retryAfter: failure.retryAfter) : failure.retryAfter
    setBack(
      id, by: shown, canEnd: failure.kind.canEndFile, mayLeaveCopies: leavesCopies, retryAfter: least, at: now)
  }

  /// Opening an upload sends no bytes of the file. But where the destination calls it open, and sends a nonsensical
  /// answer, each upload may stay there. What it refuses or cannot do concerns all files, and ends none.
  mutating func openingFailed(_ id: FileID, _ outcome: StepOutcome, at now: ClockReading) {
    let failure = StepFailure(outcome)
    guard files[id]?.phase == .ready, failure.followsSuccess else { return failed(id, outcome, at: now) }
    setBack(
      id, by: FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now),
      retryAfter: failure.retryAfter, at: now)
  }

  /// What a session holds could not be published, for which no bytes of the file were sent. A refusal of this file
  /// alone may repeat for ever, and have all of the file read each time. A commit whose answer is lost may leave a copy
  /// with each attempt. A server error concerns all files, and ends none.
  mutating func commitFailed(_ id: FileID, _ outcome: StepOutcome, at now: ClockReading) {
    let failure = StepFailure(outcome)
    // A destination that gives a time to come back is working on it: a large upload takes its time to be read.
    let canEnd = failure.kind.isOfCommit && failure.retryAfter == nil
    let leavesCopies = destination.abilities.repeatsLeaveCopies == .everything && failure.kind.leavesOpenWhatBecameOfIt
    guard let file = files[id], file.phase == .ready, canEnd || leavesCopies,
      policy.verdict(on: failure.kind, attempts: file.failures.rounds + 1) == .retryStep
    else { return failed(id, outcome, at: now) }
    setBack(
      id, by: FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now), canEnd: canEnd,
      mayLeaveCopies: leavesCopies, retryAfter: failure.retryAfter, at: now)
  }

  /// A failure that does not pass without a user's action.
  mutating func failForGood(_ id: FileID, _ failure: FileStatus.Failure, at now: ClockReading) {
    guard var file = files[id] else { return }
    file.note(failure)
    // While the file is being written nothing is lost yet; the answer may differ when it is complete.
    if file.phase == .ready || file.isWaiting {
      leaveTransfer(&file)
      watchdog.uploadEnded(id)
      checkpoint(&file)
      file.fail(failure)
      actions.append(.record(id))
      actions.append(.showStatus(id))
      actions.append(.report(.failed(id, file.path, failure)))
    } else if file.isEarly {
      leaveTransfer(&file)
      file.progress.leaveForTheEnd()
      actions.append(.showStatus(id))
    }
    files[id] = file
  }

  /// Early sending of a file is useless each time. Nothing is lost, and nothing is due. The file keeps its state, and
  /// is sent as a whole once it is closed, or has its final name.
  private mutating func endEarlySending(
    _ id: FileID, _ failure: FileStatus.Failure, _ setbacks: Setbacks, at now: ClockReading
  ) {
    guard var file = files[id] else { return }
    leaveTransfer(&file)
    checkpoint(&file)
    watchdog.uploadEnded(id)
    file.progress.leaveForTheEnd()
    file.progress.setbacks.earlySendingEnded()
    file.note(failure.endingEarlySending(after: setbacks.tries))
    files[id] = file
    actions.append(.report(.leftForTheEnd(id, file.path, failure, count: setbacks.count)))
    actions.append(.showStatus(id))
  }

  /// The failure's code where a file of the spool cannot be read.
  static let unreadableCode = "spool-unreadable"

  /// The file waits for a moment; the others continue. After too many failures in a row the server is asked what it
  /// really holds.
  mutating func pauseFile(
    _ id: FileID, failure: FileStatus.Failure, isTooEarly: Bool = false, retryAfter: Duration? = nil,
    for wanted: Duration? = nil, at now: ClockReading
  ) {
    if failure.code != Self.unreadableCode { noteReadable(id) }
    guard var file = files[id] else { return }
    let wasUnreadable = file.lastFailure?.code == Self.unreadableCode
    file.note(failure)
    guard !file.isWaiting, !file.isEarly || isRested(id, at: now) else {
      // Twelve requests that break together are one failure, not twelve steps up the ladder of delays.
      files[id] = file
      return
    }
    checkpoint(&file)
    file.failures.roundFailed(at: now.monotonic)
    let isFirst = file.failures.drawnPause == nil
    let isAtOnce = isFirst && isTooEarly && retryAfter == nil
    let previous = file.failures.drawnPause
    // Pauses grow from those that were drawn: one that a server has asked for, or of another kind, is not where they go on.
    var drawn = previous ?? policy.baseDelay
    if wanted == nil { drawn = policy.delay(after: previous, retryAfter: nil, grows: true, using: &random) }
    file.failures.paused(for: drawn)
    let delay = isAtOnce ? .zero : wanted ?? policy.pause(drawn, retryAfter: retryAfter)
    if file.failures.rounds >= policy.attemptsMax, file.session?.isOpen == true { file.session?.doubt() }
    if file.phase == .ready {
      let until = now.monotonic + delay
      file.wait(until: until)
      if delay >= limits.timing.fileWatchdog { watchdog.forget(id) }
      timers.insert(.file(id), at: until)
    } else if file.isEarly || file.phase == .writing {
      let until = now.monotonic + max(delay, policy.baseDelay)
      file.progress.restEarly(until: until)
      timers.insert(.file(id), at: until)
    }
    files[id] = file
    // While the file is written it has no turn that could come again.
    if file.session == nil { planSession(id, at: now) }
    yieldBuffers(of: file, at: now)
    // A file that is removed or renamed just as it is sent cannot be read for a moment: that is no trouble unless it lasts.
    let isSaid = isFirst && failure.code != Self.unreadableCode || wasUnreadable && file.failures.rounds == 2
    if isSaid, wanted == nil { actions.append(.report(.retrying(id, file.path, failure))) }
    actions.append(.showStatus(id))
  }

  /// The bytes read for a waiting file are released and read again later: others need the buffers meanwhile.
  private mutating func yieldBuffers(of file: FileUpload, at now: ClockReading) {
    guard file.isResting(at: now), let transfer = file.transfer else { return }
    for index in transfer.readIndices {
      guard case .read(let read, _) = transfer.states[index] else { continue }
      transfer.set(.pending, at: index)
      release(read)
    }
  }
}

extension FileUpload {
  /// The server has acknowledged some of the file in its session.
  var holdsChunksAtServer: Bool { session.map { !$0.held.isEmpty } ?? false }

  /// Nothing of the file is sent before a time that is still to come.
  func isResting(at now: ClockReading) -> Bool {
    isWaiting || isEarly && progress.earlyRest.map { $0 > now.monotonic } ?? false
  }
}

extension UploadSchedule {
  /// What was sent of a file is useless, and is sent again, for this reason. It is reported each time, after pauses
  /// that grow, and not for ever where the destination itself refuses this file (`canEnd`). `isAtOnce`: the first time
  /// there is no pause. `isLoss`: it had been acknowledged. `mayLeaveCopies`: an attempt costs more than its bytes,
  /// however few these are. `wasSent`: some of it was sent, where neither the ended request nor the file shows that.
  /// `sentAt`: when the last of its attempts was sent.
  mutating func setBack(
    _ id: FileID, by failure: FileStatus.Failure, tries: Int = 1, canEnd: Bool = true, isAtOnce: Bool = false,
    isLoss: Bool = false, mayLeaveCopies: Bool = false, wasSent: Bool = false, retryAfter: Duration? = nil,
    sentAt: MonotonicTime? = nil, at now: ClockReading
  ) {
    guard var file = files[id] else { return }
    // Requests that break together are one setback. A file may wait for another reason, though: attempts that end
    // meanwhile are attempts.
    let isAnother = canEnd && sentAt.map { file.progress.setbacks.isAnother(sentAt: $0) } ?? false
    guard !file.isWaiting || isAnother else {
      files[id]?.note(failure)
      return
    }
    file.progress.setbacks.note(tries: canEnd ? tries : 0, isLoss: isLoss, at: now.monotonic)
    let setbacks = file.progress.setbacks
    files[id] = file
    if canEnd, setbacks.tries >= policy.fileTriesMax {
      if file.phase == .ready || file.isWaiting {
        return failForGood(id, failure.afterTries(setbacks.tries), at: now)
      }
      if file.phase == .held || file.phase == .writing { return endEarlySending(id, failure, setbacks, at: now) }
    }
    let wasSent =
      wasSent || destination.latestAnswer.hasSentBytes ?? (file.progress.startedAt != nil) || file.holdsChunksAtServer
    actions.append(.report(.setBack(id, file.path, failure, count: setbacks.count, wasSent: wasSent)))
    guard !isAtOnce || !setbacks.areFirst else {
      files[id]?.note(failure)
      return actions.append(.showStatus(id))
    }
    let delay = policy.delay(
      after: setbacks, ofFileOf: mayLeaveCopies ? .max : file.snapshot.sizeBytes, retryAfter: retryAfter, using: &random
    )
    file.progress.setbacks.paused(for: delay)
    files[id] = file
    guard case .waiting(let until) = file.phase else {
      return pauseFile(id, failure: failure, for: delay, at: now)
    }
    files[id]?.note(failure)
    files[id]?.wait(until: max(until, now.monotonic + delay))
    timers.insert(.file(id), at: now.monotonic + delay)
    actions.append(.showStatus(id))
  }
}

extension FileStatus.Failure {
  /// The same failure, where it was the last of so many attempts.
  fileprivate func afterTries(_ count: Int) -> FileStatus.Failure {
    FileStatus.Failure(
      code: code,
      message: "\(message) That was the end of \(count) tries; the file is kept in the spool, and is tried again by "
        + "“uploadfs-mount retry”.", atMilliseconds: atMilliseconds)
  }

  /// The same failure, where so many attempts ended early sending.
  fileprivate func endingEarlySending(after count: Int) -> FileStatus.Failure {
    FileStatus.Failure(
      code: code,
      message: "\(message) That was the end of \(count) tries: nothing more of the file is sent before it is closed "
        + "and has its final name.", atMilliseconds: atMilliseconds)
  }
}

extension FileUpload {
  /// The file is being delivered, or will be.
  fileprivate var isToBeDelivered: Bool {
    switch phase {
    case .writing, .held, .ready, .waiting: true
    case .ignored, .routedElsewhere, .interrupted, .finishing, .complete, .failed, .cancelled, .removed: false
    }
  }
}

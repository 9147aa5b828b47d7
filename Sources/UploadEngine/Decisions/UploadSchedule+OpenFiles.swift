import FileModel
import OrderedCollections
import TransferModel

/// What is done for files while they are written: sessions for those that stay open, and warm connections for all.
extension UploadSchedule {
  /// The most open files whose size is queried at a time.
  static let filesMeasuredMax = 256

  /// A new or changed file that stays open for a moment gets its session while it is being written. One timer
  /// serves all of them: most files of a burst are closed long before their time. After a failure it rests first.
  mutating func planSession(_ id: FileID, at now: ClockReading) {
    guard destination.abilities.unknownLength, wantsSessionWhileOpen(id) else { return }
    let due = max(now.monotonic + limits.sessionOpenDelay, files.entry(id)?.file.progress.earlyRest ?? now.monotonic)
    if destination.prewarmer.sessions.plan(id, at: due) { timers.insert(.openSessions, at: due) }
  }

  private func wantsSessionWhileOpen(_ id: FileID) -> Bool {
    guard let file = files.entry(id)?.file else { return false }
    guard file.phase == .writing, file.isOpen, !mayHaveUnreadRecord(file) else { return false }
    if destination.abilities.bindsNameAtOpening {
      // Such a session is of no use to a file that will go in one request, nor to one whose name is not known yet.
      guard file.snapshot.sizeBytes > UInt64(max(0, wholeFileBytesMax)), openingPath(of: file) != nil else {
        return false
      }
    }
    return file.session == nil || (file.growth == nil && mayGrow(file))
  }

  mutating func openPlannedSessions(at now: ClockReading) {
    if destination.refusals.openingRest?.isOver == false, mayOpenSession(at: now) {
      destination.refusals.endOpeningRest()
      for id in openFiles.open { planSession(id, at: now) }
    }
    var next = 0
    while next < destination.prewarmer.sessions.plans.count {
      let plan = destination.prewarmer.sessions.plans[next]
      let (id, due) = (plan.id, plan.due)
      let isWanted = wantsSessionWhileOpen(id)
      guard due <= now.monotonic || !isWanted else { break }
      // The file keeps its position, and so do those behind it: they are checked again when a request ends.
      if isWanted, waitsForControlRequest(id) || isTryingPath(at: now) { break }
      if due <= now.monotonic { openSessionOfOpenFile(id, at: now) }
      next += 1
    }
    destination.prewarmer.sessions.removeFirst(next)
    if let first = destination.prewarmer.sessions.first, first.due > now.monotonic {
      timers.insert(.openSessions, at: first.due)
    }
  }

  private func waitsForControlRequest(_ id: FileID) -> Bool {
    destination.gate.isOpen && requests.controlCount >= limits.controlRequests && files.entry(id)?.file.session == nil
  }

  /// A request has ended for which sessions may have waited.
  mutating func checkPlannedSessions(at now: ClockReading) {
    guard let first = destination.prewarmer.sessions.first, first.due <= now.monotonic else { return }
    timers.insert(.openSessions, at: now.monotonic)
  }

  private mutating func openSessionOfOpenFile(_ id: FileID, at now: ClockReading) {
    guard destination.gate.isOpen, wantsSessionWhileOpen(id), var file = files[id] else { return }
    guard file.session == nil else { return beginGrowth(id) }
    // The session is planned again when the rest is over, or for its end already: a failure came after this plan.
    guard mayOpenSession(at: now), isRested(id, at: now) else { return }
    file.session = makeSession(for: file, at: now)
    openSession(&file, at: now)
    files[id] = file
  }

  /// The mount has begun.
  mutating func began(at now: ClockReading) { prewarm(.began, at: now) }

  /// The first writer warms a connection; as long as there is one, it is kept warm.
  mutating func beginKeepingWarm(at now: ClockReading) {
    askForLimits(at: now)
    prewarm(.opened, at: now)
    scheduleMeasuring(at: now)
  }

  mutating func scheduleMeasuring(at now: ClockReading) {
    guard !openFiles.open.isEmpty else { return }
    timers.start(.measuring, at: now.monotonic + limits.measureInterval)
  }

  /// Queries the sizes of open files. Tracked files report their growth themselves.
  mutating func measureOpenFiles(at now: ClockReading) {
    for id in openFiles.takeFilesToMeasure(countMax: Self.filesMeasuredMax)
    where files.entry(id)?.file.growth == nil { actions.append(.measure(id)) }
    scheduleMeasuring(at: now)
  }

  /// Tells the prewarmer what has happened, and does what follows.
  mutating func prewarm(_ event: ConnectionPrewarmer.Event, at now: ClockReading) {
    let surroundings = surroundingsOfPrewarming(at: now)
    for action in destination.prewarmer.handle(event, in: surroundings, at: now.monotonic) {
      switch action {
      case .askForNames: actions.append(.askForNames)
      case .prove(let count): sendPrewarms(count, at: now)
      case .keepAlive(let time): timers.start(.keepWarm, at: time)
      }
    }
  }

  private func surroundingsOfPrewarming(at now: ClockReading) -> ConnectionPrewarmer.Surroundings {
    // An empty file will have a chunk as well, so checking as many files as there are streams is enough.
    var wanted = 0
    for id in openFiles.open {
      guard wanted < pipeline.parallelism else { break }
      wanted += max(1, ChunkPlan(sizeBytes: files[id]?.snapshot.sizeBytes ?? 0, chunkBytes: limits.chunkBytes).count)
    }
    return ConnectionPrewarmer.Surroundings(
      wanted: min(pipeline.parallelism, max(1, wanted)), hasOpenFiles: !openFiles.open.isEmpty,
      hasHeldFiles: files.counts.held > 0, maySend: maySend(at: now), isProbe: !destination.gate.isOpen,
      isPathInDoubt: destination.path.isInDoubt)
  }

  private mutating func sendPrewarms(_ count: Int, at now: ClockReading) {
    let ids = (0..<count).map { _ in makeRequestID() }
    let endpoint = destination.endpoints.choose(at: now.monotonic)
    for request in ids {
      requests.begin(InFlightRequest(.prewarm, sentAt: now.monotonic, endpoint: endpoint), as: request)
    }
    if let first = ids.first {
      destination.gate.sent(first)
      tryPath(with: first, .prewarm, at: now)
    }
    actions.append(.send(ids.map { RequestOrder(id: $0, order: .prewarm, endpoint: endpoint) }))
  }

  /// The session was opened while the file is written, which took so long.
  mutating func noteOpening(of id: FileID, _ outcome: StepOutcome, sentAt: MonotonicTime, at now: ClockReading) {
    guard case .sessionOpened = outcome, files.entry(id)?.file.phase == .writing else { return }
    files.update(id) { $0.progress.sessionOpened(after: now.monotonic - sentAt) }
  }
}

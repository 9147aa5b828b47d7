import FileModel
import Lookup
import OrderedCollections

/// Speed, and what does not move.
extension UploadSchedule {
  /// How far requests are is seen only by looking, and shown at least twice a second. While nothing is known of the line, what arrives makes
  /// room for more with each of its round trips.
  private var lookInterval: Duration {
    if streamRequests > 0 { return .milliseconds(200) }
    return limits.followsLine && estimate.bytesPerSecond == nil ? .milliseconds(50) : .milliseconds(400)
  }

  /// A chunk or a whole file goes out.
  ///
  /// `answerTime`: how long the server may take once it has all of it, where another try may make two of one file.
  mutating func watch(
    _ request: HTTPRequestID, of id: FileID?, _ byteCount: Int, attempts: Int, answerTime: Duration = .zero,
    at now: Moment
  ) {
    let (plainBytes, sentBytes) = bytesUnderWay
    sampler.sent(byteCount, underWay: plainBytes, at: now.monotonic)
    lineSampler.sent(byteCount, underWay: sentBytes, at: now.monotonic)
    streamPlan.started(inFlight: chunkRequests, at: now.monotonic)
    flightWindow.started(at: now.monotonic)
    let patience = watchdog.patience(
      bytes: byteCount, bytesPerSecond: expectedBytesPerSecond(at: now), streams: streamPlan.streams,
      attempts: attempts)
    watchdog.started(request, of: id, patience: max(patience, answerTime), at: now.monotonic)
    beginLooking(at: now)
    if !isAdjusting {
      isAdjusting = true
      deadlines.insert(.adjust, at: now.monotonic + UploadConstants.parallelismAdjustInterval)
    }
  }

  /// What a request's bytes may be expected to take, if nothing of them can be saved: others before them may have been compressed.
  func expectedBytesPerSecond(at now: Moment) -> Double? {
    guard let files = estimate.bytesPerSecond else { return nil }
    return min(files, lineRate.bytesPerSecond(at: now.monotonic) ?? files)
  }

  mutating func beginLooking(at now: Moment) {
    guard !isLooking else { return }
    isLooking = true
    deadlines.insert(.look, at: now.monotonic + lookInterval)
  }

  /// A whole file goes out that is read while it is sent. The transport sees a body that stalls, and how long the server may
  /// take over its answer.
  mutating func watchStream(_ request: HTTPRequestID, of id: FileID?, _ byteCount: Int, at now: Moment) {
    sampler.sent(0, at: now.monotonic)
    streamPlan.started(inFlight: chunkRequests, at: now.monotonic)
    flightWindow.started(at: now.monotonic)
    let patience = HTTPRequestLimits.answerTime(forBodyOf: byteCount) + limits.timing.fileWatchdog
    watchdog.started(request, of: id, patience: patience, at: now.monotonic)
    beginLooking(at: now)
  }

  /// It has been answered.
  mutating func unwatch(_ request: HTTPRequestID, _ underway: Underway, _ outcome: StepOutcome, at now: Moment) {
    let byteCount = underway.byteCount
    let isAcknowledged: Bool
    switch outcome {
    case .chunkStored, .chunkStoredAs, .published, .each: isAcknowledged = true
    default: isAcknowledged = false
    }
    // What the server has copied says nothing of the line.
    let isCarried = isAcknowledged && !outcome.isChunkCopied
    if isCarried {
      chunkAnsweredAt = now.monotonic
      flightWindow.arrived(byteCount - Int(clamping: underway.sentBytes), at: now.monotonic)
    }
    if case .refused(let failure) = outcome, failure.kind == .transport(.stalled) {
      streamPlan.stalled(at: now.monotonic)
      // Those that rest have most likely met the same.
      actions.append(.renewConnections)
    }
    streamPlan.ended(inFlight: chunkRequests, at: now.monotonic)
    flightWindow.ended(inFlight: chunkRequests)
    watchdog.ended(request, isAcknowledged: isAcknowledged, at: now.monotonic)
    let (plainBytes, sentBytes) = bytesUnderWay
    if let (bytes, interval) = sampler.ended(
      byteCount, isAcknowledged: isCarried, underWay: plainBytes, at: now.monotonic)
    {
      estimate.add(bytes: bytes, over: interval, at: now.monotonic)
    }
    if let (bytes, interval) = lineSampler.ended(
      byteCount, counting: underway.sentBytes(of: byteCount), isAcknowledged: isCarried, underWay: sentBytes,
      at: now.monotonic)
    {
      lineRate.add(bytes: bytes, over: interval, at: now.monotonic)
    }
  }

  /// What has arrived of chunks and files that are not acknowledged yet, and what the line has carried for that.
  private var bytesUnderWay: (plain: UInt64, sent: UInt64) {
    requests.values.reduce((0, 0)) { sums, underway in
      guard underway.sentBytes > 0, underway.streams == nil, underway.byteCount >= limits.streamBytesLeast else {
        return sums
      }
      let carried = underway.sentBytes(of: Int(clamping: underway.sentBytes))
      return (sums.0 + underway.sentBytes, sums.1 + UInt64(clamping: carried))
    }
  }

  /// Every 1.5 s while chunks are sent.
  mutating func adjustStreams(at now: Moment) {
    isAdjusting = chunkRequests > 0
    streamPlan.adjust(to: estimate.bytesPerSecond, at: now.monotonic)
    if isAdjusting { deadlines.insert(.adjust, at: now.monotonic + UploadConstants.parallelismAdjustInterval) }
  }

  /// Now and then while bytes are sent.
  mutating func look(at now: Moment) {
    isLooking = watchdog.isWatching
    guard isLooking else { return }
    actions.append(.lookAtProgress)
    // What has moved since the last look is known by then.
    deadlines.insert(.alarms, at: now.monotonic + .milliseconds(1))
    deadlines.insert(.look, at: now.monotonic + lookInterval)
  }

  /// What has not moved for too long, after a look.
  mutating func raiseAlarms(at now: Moment) {
    for alarm in watchdog.alarms(at: now.monotonic) { react(to: alarm, at: now) }
    endStragglers(at: now)
  }

  private mutating func react(to alarm: TripleWatchdog.Alarm, at now: Moment) {
    switch alarm {
    case .chunk(let request):
      // Its end is a failure of that chunk, which has attempts and rests of its own.
      requests[request]?.isGivenUp = true
      // Of several files none is watched by itself: what may have swallowed them does not get them again.
      if case .wholeFiles(let turns)? = requests[request]?.purpose, turns.count > 1 {
        for turn in turns { files.update(turn.id) { $0.needsNewConnection = true } }
      }
      if isEverythingStill(at: now) { actions.append(.renewConnections) }
      actions.append(.cancel(request))
    case .session(let id):
      guard let file = files.entry(id)?.file, file.phase == .ready || file.isEarly else { return }
      actions.append(.report(.stuck(id, files[id]?.path ?? .root)))
      reconnect(id)
      streamPlan.connectionsLost()
    case .global:
      restartWholeFiles()
      // Also those that rest at this moment: they would go on as before.
      let resting = files.values.filter(\.isWaiting).map(\.id)
      for id in activeMedium + activeLarge + earlyFiles + resting {
        // However often: only the server can say that it has no session any more.
        reconnect(id)
      }
      streamPlan.connectionsLost()
      warmConnections = 0
    }
  }

  /// Nothing has moved lately over any connection: those that rest have most likely met the same.
  private func isEverythingStill(at now: Moment) -> Bool {
    let movedAt = requests.keys.compactMap { watchdog.movedAt($0) } + [chunkAnsweredAt].compactMap { $0 }
    return movedAt.allSatisfy { $0 + UploadConstants.stallDetection <= now.monotonic }
  }

  /// Small files are not at work one by one: what is under way is ended, and goes over new connections.
  private mutating func restartWholeFiles() {
    for (request, underway) in requests {
      guard case .wholeFiles(let turns) = underway.purpose else { continue }
      for turn in turns { files.update(turn.id) { $0.needsNewConnection = true } }
      actions.append(.cancel(request))
    }
  }

  /// Ends a file's requests, and has the server asked, over a new connection, what it holds.
  private mutating func reconnect(_ id: FileID) {
    for (request, underway) in requests where underway.purpose.file == id { actions.append(.cancel(request)) }
    if files[id]?.session?.isOpen == true { files[id]?.session?.state = .unconfirmed }
    if files[id] != nil { files[id]?.needsNewConnection = true }
  }
}

extension UploadSchedule.Underway {
  /// What the line carries for so many plain bytes of it.
  fileprivate func sentBytes(of plainBytes: Int) -> Int {
    let sentOfAll = sharedFrame?.sentBytes ?? byteCount - min(byteCount, savedBytes)
    guard sentOfAll != byteCount, byteCount > 0 else { return plainBytes }
    return Int(Double(plainBytes) * Double(sentOfAll) / Double(byteCount))
  }
}

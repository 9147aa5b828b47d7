import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// The rate of requests, and stalled ones.
extension UploadSchedule {
  /// The progress of requests is known only by polling, and shown at least twice a second. While the rate of the line
  /// is unknown, what arrives makes room for more with each of its round trips.
  private var progressCheckInterval: Duration {
    if requests.streamCount > 0 { return .milliseconds(200) }
    return limits.followsLine && link.bytesPerSecond == nil ? .milliseconds(50) : .milliseconds(400)
  }

  /// A chunk or a whole file goes out.
  ///
  /// `answerTime`: how long the server may take once it has all of it, where another attempt may create the file twice.
  mutating func watch(
    _ request: HTTPRequestID, of id: FileID?, _ byteCount: Int, attempts: Int, answerTime: Duration = .zero,
    at now: ClockReading
  ) {
    link.began(byteCount, beside: arrivedOfRequests, at: now.monotonic)
    let patience = watchdog.patience(
      bytes: byteCount, bytesPerSecond: link.expectedBytesPerSecond(at: now.monotonic), streams: link.streams,
      attempts: attempts)
    watchdog.started(request, of: id, patience: max(patience, answerTime), at: now.monotonic)
    beginLooking(at: now)
    timers.start(.streams, at: now.monotonic + UploadConstants.parallelismAdjustInterval)
  }

  mutating func beginLooking(at now: ClockReading) {
    timers.start(.progress, at: now.monotonic + progressCheckInterval)
  }

  /// A whole file goes out that is read while it is sent. The transport detects a stalled body, and bounds the time
  /// that the server may take over its answer.
  mutating func watchStream(_ request: HTTPRequestID, of id: FileID?, _ byteCount: Int, at now: ClockReading) {
    link.beganStreaming(at: now.monotonic)
    let patience = HTTPRequestLimits.answerTime(forBodyOf: byteCount) + limits.timing.fileWatchdog
    watchdog.started(request, of: id, patience: patience, at: now.monotonic)
    beginLooking(at: now)
  }

  /// The request has been answered.
  mutating func unwatch(
    _ request: HTTPRequestID, _ underway: InFlightRequest, _ outcome: StepOutcome, at now: ClockReading
  ) {
    let isAcknowledged: Bool
    switch outcome {
    case .chunkStored, .chunkStoredAs, .published, .each: isAcknowledged = true
    default: isAcknowledged = false
    }
    if case .refused(let failure) = outcome, failure.kind == .transport(.stalled) {
      link.stalled(at: now.monotonic)
      // Idle connections are most likely broken as well.
      actions.append(.renewConnections)
    }
    watchdog.ended(request, isAcknowledged: isAcknowledged, at: now.monotonic)
    // What the server has copied says nothing of the line.
    let ended = LinkControl.Ended(
      byteCount: underway.byteCount, sentBytes: underway.sentBytes(of: underway.byteCount),
      arrivedBytes: underway.sentBytes, isCarried: isAcknowledged && !outcome.isChunkCopied)
    link.ended(ended, beside: arrivedOfRequests, at: now.monotonic)
  }

  /// Bytes of unacknowledged chunks and files that have arrived.
  private var arrivedOfRequests: LinkControl.Arrived {
    requests.values.reduce(into: LinkControl.Arrived()) { sums, underway in
      guard underway.sentBytes > 0, underway.streams == nil, underway.byteCount >= limits.streamBytesLeast else {
        return
      }
      sums.plainBytes += underway.sentBytes
      sums.sentBytes += UInt64(clamping: underway.sentBytes(of: Int(clamping: underway.sentBytes)))
    }
  }

  /// Adjusts the streams every 1.5 s while chunks are sent.
  mutating func adjustStreams(at now: ClockReading) {
    link.adjust(at: now.monotonic)
    guard link.inFlight > 0 else { return }
    timers.start(.streams, at: now.monotonic + UploadConstants.parallelismAdjustInterval)
  }

  /// Checks the progress of requests while bytes are sent.
  mutating func checkProgress(at now: ClockReading) {
    guard watchdog.isWatching else { return }
    actions.append(.checkProgress)
    // The progress since the last check is known by then.
    timers.insert(.alarms, at: now.monotonic + .milliseconds(1))
    timers.start(.progress, at: now.monotonic + progressCheckInterval)
  }

  /// Handles stalled requests, after a progress check.
  mutating func raiseAlarms(at now: ClockReading) {
    for alarm in watchdog.alarms(at: now.monotonic) { react(to: alarm, at: now) }
    endStragglers(at: now)
  }

  private mutating func react(to alarm: TripleWatchdog.Alarm, at now: ClockReading) {
    switch alarm {
    case .chunk(let request):
      // The request's end is a failure of that chunk, which has attempts and rests of its own.
      requests.giveUp(request)
      // A request with several files has no watched file: a proxy that may have swallowed them does not get them again.
      if case .bundle(let members)? = requests[request]?.order {
        for member in members { files.update(member.file) { $0.turn.connectionStalled() } }
      }
      if isEverythingStill(at: now) { actions.append(.renewConnections) }
      actions.append(.cancel(request))
    case .session(let id):
      guard let file = files.entry(id)?.file, file.phase == .ready || file.isEarly else { return }
      actions.append(.report(.stuck(id, files[id]?.path ?? .root)))
      reconnect(id)
      link.connectionsLost()
    case .global:
      restartWholeFiles()
      // Also files that rest at this moment: they would continue as before.
      let resting = files.values.filter(\.isWaiting).map(\.id)
      for id in queues.working + openFiles.early + resting {
        // However often: only the server can report that it no longer has a session.
        reconnect(id)
      }
      link.connectionsLost()
      prewarm(.stoodStill, at: now)
    }
  }

  /// Nothing has moved lately over any connection: idle ones are most likely broken as well.
  private func isEverythingStill(at now: ClockReading) -> Bool {
    let movedAt = requests.compactMap { watchdog.movedAt($0.key) } + [link.carriedAt].compactMap { $0 }
    return movedAt.allSatisfy { $0 + UploadConstants.stallDetection <= now.monotonic }
  }

  /// Small files are not active one by one: their requests are ended, and repeated over new connections.
  private mutating func restartWholeFiles() {
    for (request, underway) in requests where !underway.order.wholeFiles.isEmpty {
      for id in underway.files { files.update(id) { $0.turn.connectionStalled() } }
      actions.append(.cancel(request))
    }
  }

  /// Ends a file's requests, and has the server asked, over a new connection, what it holds.
  private mutating func reconnect(_ id: FileID) {
    for (request, underway) in requests where underway.file == id { actions.append(.cancel(request)) }
    if files[id]?.session?.isOpen == true { files[id]?.session?.doubt() }
    if files[id] != nil { files[id]?.turn.connectionStalled() }
  }
}

extension InFlightRequest {
  /// Bytes that the line carries for so many plain bytes of the request.
  fileprivate func sentBytes(of plainBytes: Int) -> Int {
    let sentOfAll = sharedFrame?.sentBytes ?? byteCount - min(byteCount, savedBytes)
    guard sentOfAll != byteCount, byteCount > 0 else { return plainBytes }
    return Int(Double(plainBytes) * Double(sentOfAll) / Double(byteCount))
  }
}

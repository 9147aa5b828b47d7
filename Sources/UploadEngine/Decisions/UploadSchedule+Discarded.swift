import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Sessions that no file needs any more, until the server has ended them.
extension UploadSchedule {
  /// How long ending a session may be postponed.
  private static let discardDelay: Duration = .seconds(5)
  /// The most abort requests in flight.
  private static let abortsMax = 4

  /// The server is told when no other work is waiting, and after a delay in any case: the warm connection belongs to
  /// the file whose session is no longer needed.
  mutating func discard(_ session: SessionIdentity, of owner: SessionOwner?, at now: ClockReading) {
    let discarded = DiscardedSession(id: session.id, sinceSeconds: now.wallMilliseconds / 1000, owner: owner)
    actions.append(.noteDiscarded(discarded))
    putOff(SessionToEnd(session: session, of: discarded, due: now.monotonic + Self.discardDelay))
  }

  private mutating func putOff(_ session: SessionToEnd) {
    destination.sessionsToEnd.add(session)
    timers.insert(.abort, at: session.due)
  }

  /// Ends discarded sessions whose time has come.
  mutating func abortDiscarded(at now: ClockReading) {
    guard !destination.sessionsToEnd.isEmpty, maySend(at: now) else { return }
    let isBusy = !queues.working.isEmpty || files.counts.smallAtWork > 0
    guard destination.sessionsToEnd.isAnyTime(isBusy: isBusy, at: now.monotonic) else { return }
    var room = Self.abortsMax - requests.values.count { $0.order.isAbort }
    var position = 0
    while room > 0, maySend(at: now),
      let session = destination.sessionsToEnd.takeNext(after: &position, isBusy: isBusy, at: now.monotonic)
    {
      room -= 1
      send(.abort(session.session), ending: session, at: now)
    }
  }

  /// A session that could not be ended is tried again for as long as the server may have it, after pauses that grow.
  mutating func abortEnded(_ session: SessionToEnd, _ outcome: StepOutcome, at now: ClockReading) {
    guard !session.isKept else { return }
    if case .refused(let failure) = outcome {
      switch policy.verdict(on: failure.kind, attempts: 1) {
      case .pauseDestination, .waitOut, .pauseFile, .waitForRoom, .retryStep:
        // A published session cannot be ended, nor one that is being published.
        let isPublished = failure.kind == .conflict && session.attempts + 1 >= policy.attemptsMax
        guard !isPublished, !session.origin.isPast(atSeconds: now.wallMilliseconds / 1000) else { break }
        var session = session
        let pause = min(policy.maxDelay * (1 << min(session.attempts, 16)), policy.fileDelayMax)
        session.attempts += 1
        session.due = now.monotonic + policy.pause(pause, retryAfter: failure.retryAfter)
        return putOff(session)
      case .fail, .ignore:
        // The next run may have permission, or get an answer.
        return
      case .startNewSession: break
      }
    }
    // Another server, and another user's token, do not know the session.
    guard session.origin.owner.map({ $0 == owner }) ?? true else { return }
    actions.append(.forgetDiscarded(session.session.id))
  }

  // MARK: - What earlier runs have left

  /// Recovered sessions are ended once the spool is known: a file may say that its upload has parts of it, and that one
  /// stays.
  mutating func recover(_ sessions: [DiscardedSession], at seconds: Int64) {
    let withParts = catalog.recovery.sessionsWithParts
    let isOver = { (session: DiscardedSession) in withParts.contains(session.id) || session.isPast(atSeconds: seconds) }
    for session in sessions where isOver(session) { actions.append(.forgetDiscarded(session.id)) }
    let latest = sessions.filter { !isOver($0) }.sorted { ($0.sinceSeconds, $0.id) < ($1.sinceSeconds, $1.id) }
    for id in catalog.recovery.expectToEnd(Array(latest.suffix(SessionsToEnd.countMax))) {
      actions.append(.removeResume(id))
    }
  }

  /// A file says that this session has parts of it. The file may have been removed and restored.
  mutating func keepSession(_ id: String) {
    let wasToEnd = destination.sessionsToEnd.spare(id)
    var isKnown = catalog.recovery.spare(id) || wasToEnd
    for (request, underway) in requests {
      guard var session = underway.ending, session.session.id == id, !session.isKept else { continue }
      session.isKept = true
      requests.keep(session, of: request)
      actions.append(.cancel(request))
      isKnown = true
    }
    guard isKnown else { return }
    actions.append(.forgetDiscarded(id))
  }

  /// None while it is unknown of a file which upload has parts of it.
  mutating func endRecovered(at now: ClockReading) {
    guard catalog.recovery.hasSessionsToEnd, maySpareSessions else { return }
    // At another server the same id may be another user's. Such sessions stay in the catalog.
    for session in catalog.recovery.takeSessionsToEnd()
    where session.owner?.address == nil || session.owner?.address == owner?.address {
      putOff(
        SessionToEnd(session: SessionIdentity(id: session.id, nonce: []), of: session, due: now.monotonic))
    }
  }
}

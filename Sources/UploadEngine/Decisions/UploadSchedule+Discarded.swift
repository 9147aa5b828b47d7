import FileModel
import Lookup
import OrderedCollections

/// Sessions that no file needs any more, until the server has been told.
extension UploadSchedule {
  /// So many are remembered; what is beyond is in the catalog, for a later run.
  private static let discardedMax = 4096
  /// How long ending a session may be put off.
  private static let discardDelay: Duration = .seconds(5)
  /// So many are being ended at one time.
  private static let abortsMax = 4

  /// The server is told when there is nothing better to do, and after a moment in any case: the warm connection belongs to
  /// the file whose session is no longer needed.
  mutating func discard(_ session: SessionIdentity, of owner: SessionOwner?, at now: Moment) {
    let discarded = DiscardedSession(id: session.id, sinceSeconds: now.wallMilliseconds / 1000, owner: owner)
    actions.append(.noteDiscarded(discarded))
    putOff(Discarded(session: session, of: discarded, due: now.monotonic + Self.discardDelay))
  }

  private mutating func putOff(_ session: Discarded) {
    discarded.append(session)
    timers.insert(.abort, at: session.due)
    if discarded.count > Self.discardedMax { discarded.removeFirst() }
  }

  /// Ends discarded sessions whose time has come.
  mutating func abortDiscarded(at now: Moment) {
    guard !discarded.isEmpty, maySend(at: now) else { return }
    let isBusy = !queues.working.isEmpty || files.counts.smallAtWork > 0
    // Where nothing else is to be sent it finds out whether the destination is there again.
    func isTime(for session: borrowing Discarded) -> Bool {
      session.due <= now.monotonic || !isBusy && session.attempts == 0
    }
    // Asked for each small file that comes or goes: what waits is not copied for that.
    guard discarded.contains(where: { isTime(for: $0) }) else { return }
    var room = Self.abortsMax - requests.values.count { $0.purpose.isAbort }
    var others: [Discarded] = []
    for session in discarded {
      guard room > 0, maySend(at: now), isTime(for: session) else {
        others.append(session)
        continue
      }
      room -= 1
      send(.abort(session.session), purpose: .abort(session), at: now)
    }
    discarded = others
  }

  /// A session that could not be ended is tried again for as long as the server may have it, after pauses that grow.
  mutating func abortEnded(_ session: Discarded, _ outcome: StepOutcome, at now: Moment) {
    guard !session.isKept else { return }
    if case .refused(let failure) = outcome {
      switch policy.verdict(on: failure.kind, attempts: 1) {
      case .pauseDestination, .waitOut, .pauseFile, .waitForRoom, .retryStep:
        // What is published cannot be ended, nor what is being published.
        let isPublished = failure.kind == .conflict && session.attempts + 1 >= policy.attemptsMax
        guard !isPublished, !session.origin.isPast(atSeconds: now.wallMilliseconds / 1000) else { break }
        var session = session
        let pause = min(policy.maxDelay * (1 << min(session.attempts, 16)), policy.fileDelayMax)
        session.attempts += 1
        session.due = now.monotonic + policy.pause(pause, retryAfter: failure.retryAfter)
        return putOff(session)
      case .fail, .ignore:
        // The next run may be allowed to, or be heard.
        return
      case .startNewSession: break
      }
    }
    // Another server, and another user's token, know nothing of it.
    guard session.origin.owner.map({ $0 == owner }) ?? true else { return }
    actions.append(.forgetDiscarded(session.session.id))
  }

  // MARK: - What earlier runs have left

  /// They are ended once the spool is known: a file may say that its upload has parts of it, and that one stays.
  mutating func inherit(_ sessions: [DiscardedSession], at seconds: Int64) {
    let withParts = inherited.values { $0.pointer?.sessionID }
    let isOver = { (session: DiscardedSession) in withParts.contains(session.id) || session.isPast(atSeconds: seconds) }
    for session in sessions where isOver(session) { actions.append(.forgetDiscarded(session.id)) }
    let latest = sessions.filter { !isOver($0) }.sorted { ($0.sinceSeconds, $0.id) < ($1.sinceSeconds, $1.id) }
    inheritedDiscarded = LookupTable(latest.suffix(Self.discardedMax).map { ($0.id, $0) })
    // It was to go as well, and no file goes on with a session that may have been ended.
    for (id, record) in inheritedRecords.sorted() where inheritedDiscarded[record.sessionID] != nil {
      inheritedRecords[id] = nil
      actions.append(.removeResume(id))
    }
  }

  /// A file says that this one has parts of it, also one that was removed and is put back.
  mutating func keepSession(_ id: String) {
    let count = discarded.count
    discarded.removeAll { $0.session.id == id }
    var isKnown = inheritedDiscarded.removeValue(forKey: id) != nil || discarded.count < count
    for (request, underway) in requests {
      guard case .abort(var session) = underway.purpose, session.session.id == id, !session.isKept else { continue }
      session.isKept = true
      requests.keep(session, of: request)
      actions.append(.cancel(request))
      isKnown = true
    }
    guard isKnown else { return }
    actions.append(.forgetDiscarded(id))
  }

  /// None as long as it is not known of a file which upload has parts of it.
  mutating func endInherited(at now: Moment) {
    guard !inheritedDiscarded.isEmpty, maySpareSessions else { return }
    // At another server the same id may be another user's. These stay in the catalog.
    let here = inheritedDiscarded.sorted().filter { $1.owner?.address == nil || $1.owner?.address == owner?.address }
    for (_, session) in here {
      putOff(
        Discarded(session: SessionIdentity(id: session.id, nonce: []), of: session, due: now.monotonic))
    }
    inheritedDiscarded = [:]
  }
}

extension InFlightRequest.Purpose {
  fileprivate var isAbort: Bool {
    if case .abort = self { true } else { false }
  }
}

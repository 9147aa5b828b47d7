import DequeModule
import Lookup
import OrderedCollections

extension ReceiverCore {
  /// How often old sessions are looked for.
  private static let expiryScanInterval: Milliseconds = 60_000

  /// How soon the store checks again what it could not read, and how late at most.
  static let recheckPauseMin: Milliseconds = 2000
  private static let recheckPauseMax: Milliseconds = 30_000

  mutating func tick() {
    recheck()
    for id in waitingSessions {
      switch sessions[id]?.phase {
      case .committing: evaluateCommit(id)
      case .recovered(let parked, let isVerifying): unparkLate(id, parked, isVerifying)
      default: waitingSessions.takeOut(id)
      }
    }
    guard now >= nextExpiryScan else { return }
    nextExpiryScan = now + ReceiverCore.expiryScanInterval
    for session in sessions.values where isOver(session) { expire(session) }
    forgetFinished(olderThan: now - limits.sessionMaxAge)
    effects.append(.forgetReceipts(before: now - limits.sessionMaxAge - earlierRun.pause))
  }

  /// Clients give up waiting before a large session is verified; they are told to come back.
  private mutating func unparkLate(_ id: SessionID, _ parked: [UploadSession.ParkedEvent], _ isVerifying: Bool) {
    for event in parked where event.deadline <= now { refuse(event.request, .restarting) }
    sessions[id]?.phase = .recovered(parked: parked.filter { $0.deadline > now }, isVerifying: isVerifying)
  }

  mutating func expire(_ session: UploadSession) {
    // What the store is busy with is left until the next scan.
    switch session.phase {
    case .creating: return
    case .publishing(let pending, _) where !pending.isRenamed: return
    case .recovered(_, true): return
    default:
      expired.remember(session.facts, atMost: limits.expiredSessionsMax)
      if !session.isPublished { effects.append(.note(.expired(session.facts))) }
      remove(session, because: .sessionExpired)
    }
  }

  /// Notes that something was published, and forgets the oldest such note when there are too many.
  mutating func finish(_ key: Key, at time: Milliseconds) {
    finished.append((key, time))
    while finished.count > limits.receiptsMax { forgetOldest() }
  }

  private mutating func forgetFinished(olderThan time: Milliseconds) {
    while let oldest = finished.first, oldest.at < time {
      guard keepsReceipt(oldest.key) else {
        forgetOldest()
        continue
      }
      // It goes when there are too many, behind those that are younger by now.
      finished.removeFirst()
      finished.append((oldest.key, now))
    }
  }

  /// A client may have given up parts of what was published, and have nothing but the session to know by that it was.
  private func keepsReceipt(_ key: Key) -> Bool {
    guard case .session(let id)? = keys[key], let session = sessions[id] else { return false }
    return session.isPublished && session.mayHoldOnlyCopy
  }

  private mutating func forgetOldest() {
    let key = finished.removeFirst().key
    switch keys[key] {
    case .session(let id): if let session = sessions[id], session.isPublished { expire(session) }
    case .wholeFile(let use): if !use.isUnderWay { keys[key] = nil }
    case nil: break
    }
  }
}

// MARK: What cannot be read

extension ReceiverCore {
  /// Sessions that are set aside.
  public var quarantinedCount: Int { quarantined.count }

  private mutating func recheck() {
    guard !quarantined.isEmpty, !isRechecking else { return }
    if nextRecheck == 0 { nextRecheck = now + recheckPause }
    guard now >= nextRecheck else { return }
    isRechecking = true
    effects.append(.recheck(quarantined.keys.sorted()))
  }

  /// What the store says by now of sessions that were set aside.
  mutating func rechecked(_ ids: [SessionID], _ result: Result<RecoveredState, StoreFailure>) {
    isRechecking = false
    recheckPause = min(recheckPause * 2, ReceiverCore.recheckPauseMax)
    nextRecheck = now + recheckPause
    guard case .success(let found) = result else { return }
    let before = quarantined
    // What was ended meanwhile is not taken up again.
    for id in ids { quarantined[id] = nil }
    var known = found
    known.open.removeAll { before[$0.facts.sessionID] == nil }
    known.published.removeAll { before[$0.facts.sessionID] == nil }
    known.quarantined.removeAll { before[$0.id] == nil }
    recover(known)
    for id in ids where before[id] != nil && quarantined[id] == nil {
      effects.append(.note(sessions[id] == nil ? .gone(id, of: nil) : .goesOn(id, of: credential(of: id))))
    }
    for session in known.quarantined where before[session.id] != session {
      effects.append(.note(.quarantined(session, of: nil)))
    }
    if quarantined.isEmpty { (nextRecheck, recheckPause) = (0, ReceiverCore.recheckPauseMin) }
  }

  /// What the store has met in a session's folder ends it here. True when it does.
  mutating func ends(_ id: SessionID, _ failure: StoreFailure?) -> Bool {
    switch failure {
    case .damaged(let why):
      guard let session = sessions[id] else { return true }
      end(session, because: .sessionDamaged)
      let found = QuarantinedSession(id: id, why: why, isDamaged: true)
      quarantined[id] = found
      effects.append(.note(.quarantined(found, of: session.facts.credentialID)))
      return true
    case .sessionGone:
      if let session = sessions[id] {
        remove(session, because: .sessionGone)
        effects.append(.note(.gone(id, of: session.facts.credentialID)))
      }
      return true
    case .full, .nameExists, .nameTaken, .nameUnreachable, .folderGone, .misplaced, .unsynced, .tooManyOpen, .io, nil:
      return false
    }
  }
}

/// The names of sessions that ended by themselves, so that their clients are told apart from clients that guess: a bounded
/// number, the oldest goes first.
struct ExpiredSessions: Sendable {
  private var owners: LookupTable<SessionID, CredentialID> = [:]
  private var order: [SessionID] = []
  /// Where the oldest lies; the array is used as a ring once it is full.
  private var oldest = 0

  func owner(of id: SessionID) -> CredentialID? { owners[id] }

  mutating func remember(_ facts: SessionRecord, atMost countMax: Int) {
    guard countMax > 0, owners.updateValue(facts.credentialID, forKey: facts.sessionID) == nil else { return }
    guard order.count >= countMax else { return order.append(facts.sessionID) }
    owners[order[oldest]] = nil
    order[oldest] = facts.sessionID
    oldest = (oldest + 1) % order.count
  }
}

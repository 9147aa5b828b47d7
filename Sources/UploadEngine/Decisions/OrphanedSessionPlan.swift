import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// What becomes of sessions that this spool opened, that no client continues, and whose end is not known (a crash, a
/// lost record, an abort that never reached the server). Only a session that this spool opened may be ended. A session
/// that is only in the server's list may be another mount's, and is left alone however old it is.
struct OrphanedSessionPlan: Hashable {
  /// Sessions to end at the server.
  var ended: [String] = []
  /// Sessions that the server no longer has.
  var gone: [String] = []
  /// Sessions of others that began more than a week ago.
  var strangers = 0

  /// The most sessions ended at once.
  static let countMax = 100
  /// The most pages of a list that are asked for at once.
  static let pagesMax = 16

  /// - Parameters: - candidates: Sessions that this spool began more than a week ago. - inUse: Sessions of known files,
  ///   and those that are being ended. - pages: What the server lists; empty when it was not asked, or did not answer.
  ///   - listedID: The server's name for a session.
  init(
    candidates: [String], inUse: LookupSet<String>, pages: [SessionPage], atSeconds now: Int64,
    sessionAge: Duration = UploadConstants.sessionMaxAge, listedID: (String) -> String = { $0 }
  ) {
    let left = candidates.filter { !inUse.contains($0) }
    let listed = pages.flatMap(\.sessions)
    var known = inUse.map(listedID)
    known.formUnion(candidates.map(listedID))
    strangers =
      listed.count {
        !known.contains($0.id)
          && $0.begunAtSeconds.map { $0 < Self.latestBegin(atSeconds: now, sessionAge) } ?? false
      }
    // Servers do not agree on where a page begins: only a list of one page proves that a session is absent.
    guard pages.count == 1, pages[0].next == nil else {
      ended = left
      return
    }
    let there = LookupSet(listed.map(\.id))
    ended = left.filter { there.contains(listedID($0)) }
    gone = left.filter { !there.contains(listedID($0)) }
  }

  /// Sessions that began before are orphaned: no client continues them any more (``UploadConstants/sessionMaxAge``).
  static func latestBegin(atSeconds now: Int64, _ sessionAge: Duration) -> Int64 {
    now - sessionAge.components.seconds
  }
}

extension UploadSchedule {
  /// Sessions that belong to a file, that an earlier run has left for one, and those that are being ended.
  var sessionsInUse: LookupSet<String> {
    var sessions = LookupSet(files.values.compactMap { $0.session?.id })
    sessions.formUnion(catalog.recovery.sessionIDs)
    sessions.formUnion(destination.sessionsToEnd.ids)
    for underway in requests.values {
      if let ending = underway.ending { sessions.insert(ending.session.id) }
    }
    return sessions
  }

  /// Ends sessions that no client continues. None while it is unknown of a file which upload has parts of it, or of an
  /// upload whether it has parts of a file: one of them may have the only copy, however old it is.
  mutating func endSessions(_ ids: [String], at now: ClockReading) {
    guard maySpareSessions else { return }
    for id in ids { discard(SessionIdentity(id: id, nonce: []), of: nil, at: now) }
    pump(at: now)
  }

  /// True when it is known of every file whether an upload has parts of it, and which.
  var maySpareSessions: Bool { !catalog.recovery.lacksRecords && !files.values.contains { mayHaveUnreadRecord($0) } }
}

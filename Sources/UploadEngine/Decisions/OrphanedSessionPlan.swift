import FileModel
import Lookup
import OrderedCollections

/// What becomes of sessions that this spool began, with which nobody goes on, and of which no end is known (a crash, a record
/// that was lost, an end that never reached the server). That this spool began it is the proof that it may be ended: a
/// session that only stands in the server's list may be another mount's, and is left alone however old it is.
struct OrphanedSessionPlan: Hashable {
  /// To be ended at the server.
  var ended: [String] = []
  /// The server does not have them any more.
  var gone: [String] = []
  /// Sessions of others that began more than a week ago.
  var strangers = 0

  /// At most so many are ended in one go.
  static let countMax = 100
  /// Pages of a list that are asked for in one go.
  static let pagesMax = 16

  /// - Parameters:
  ///   - candidates: Sessions that this spool began more than a week ago.
  ///   - inUse: Those of files that are known, and those that are being ended.
  ///   - pages: What the server says that it has; empty when it was not asked, or did not answer.
  ///   - listedID: What a session is called there.
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
    // Servers do not agree on where a page begins: only a list of one page says that something is not there.
    guard pages.count == 1, pages[0].next == nil else {
      ended = left
      return
    }
    let there = LookupSet(listed.map(\.id))
    ended = left.filter { there.contains(listedID($0)) }
    gone = left.filter { !there.contains(listedID($0)) }
  }

  /// Sessions that began before are left over: nobody goes on with them any more (spec B, sessionMaxAge).
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

  /// Ends sessions that nobody goes on with. None as long as it is not known of a file which upload has parts of it, or of an upload
  /// whether it has parts of a file: one of them may have what is nowhere else, however old it is.
  mutating func endSessions(_ ids: [String], at now: ClockReading) {
    guard maySpareSessions else { return }
    for id in ids { discard(SessionIdentity(id: id, nonce: []), of: nil, at: now) }
    pump(at: now)
  }

  /// It is known of every file whether an upload has parts of it, and which.
  var maySpareSessions: Bool { !catalog.recovery.lacksRecords && !files.values.contains { mayHaveUnreadRecord($0) } }
}

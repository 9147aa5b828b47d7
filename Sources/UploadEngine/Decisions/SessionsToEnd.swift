import FileModel
import TransferModel

/// A session that no file needs any more, which the server is to forget.
struct SessionToEnd: Hashable, Sendable {
  var session: SessionIdentity
  /// The catalog's record of the session.
  var origin: DiscardedSession
  /// The latest time for the request, also while other work is waiting.
  var due: MonotonicTime
  /// How often the request has failed; after that `due` is the earliest time.
  var attempts = 0
  /// A file has parts of the session again: a failed request is not repeated.
  var isKept = false

  init(session: SessionIdentity, of origin: DiscardedSession, due: MonotonicTime) {
    self.session = session
    self.origin = origin
    self.due = due
  }

  /// True when its time has come, or no other work is waiting. In the latter case the request also probes whether the
  /// destination is back.
  fileprivate borrowing func isTime(isBusy: Bool, at now: MonotonicTime) -> Bool {
    due <= now || !isBusy && attempts == 0
  }
}

/// Such sessions, in the order of their addition.
struct SessionsToEnd: Sendable {
  /// The most sessions in memory; the rest are in the catalog, for a later run.
  static let countMax = 4096

  private var sessions: [SessionToEnd] = []

  var isEmpty: Bool { sessions.isEmpty }
  var ids: [String] { sessions.map(\.session.id) }

  mutating func add(_ session: SessionToEnd) {
    sessions.append(session)
    if sessions.count > Self.countMax { sessions.removeFirst() }
  }

  /// A file has parts of the session. True where it was to be ended.
  mutating func spare(_ id: String) -> Bool {
    let count = sessions.count
    sessions.removeAll { $0.session.id == id }
    return sessions.count < count
  }

  /// Called for each small file that is added or removed: the waiting sessions are not copied for that.
  func isAnyTime(isBusy: Bool, at now: MonotonicTime) -> Bool {
    sessions.contains { $0.isTime(isBusy: isBusy, at: now) }
  }

  /// The first session whose time has come, after the given position; advances the position past the checked ones.
  mutating func takeNext(after position: inout Int, isBusy: Bool, at now: MonotonicTime) -> SessionToEnd? {
    while position < sessions.count {
      if sessions[position].isTime(isBusy: isBusy, at: now) { return sessions.remove(at: position) }
      position += 1
    }
    return nil
  }
}

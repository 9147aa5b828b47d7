import FileModel

/// A session that no file needs any more, which the server is to forget.
struct SessionToEnd: Hashable, Sendable {
  var session: SessionIdentity
  /// What the catalog has of it.
  var origin: DiscardedSession
  /// At the latest then, also while there is something better to do.
  var due: MonotonicTime
  /// How often it could not be ended; from then on not before.
  var attempts = 0
  /// A file has parts of it again: what the server did not do is not asked for once more.
  var isKept = false

  init(session: SessionIdentity, of origin: DiscardedSession, due: MonotonicTime) {
    self.session = session
    self.origin = origin
    self.due = due
  }

  /// Its time has come, or nothing better is to be done: then it also finds out whether the destination is there again.
  fileprivate borrowing func isTime(isBusy: Bool, at now: MonotonicTime) -> Bool {
    due <= now || !isBusy && attempts == 0
  }
}

/// Such sessions, in the order in which they came up.
struct SessionsToEnd: Sendable {
  /// So many are remembered; what is beyond is in the catalog, for a later run.
  static let countMax = 4096

  private var sessions: [SessionToEnd] = []

  var isEmpty: Bool { sessions.isEmpty }
  var ids: [String] { sessions.map(\.session.id) }

  mutating func add(_ session: SessionToEnd) {
    sessions.append(session)
    if sessions.count > Self.countMax { sessions.removeFirst() }
  }

  /// A file says that it has parts of it. True where it was among them.
  mutating func spare(_ id: String) -> Bool {
    let count = sessions.count
    sessions.removeAll { $0.session.id == id }
    return sessions.count < count
  }

  /// Asked for each small file that comes or goes: what waits is not copied for that.
  func isAnyTime(isBusy: Bool, at now: MonotonicTime) -> Bool {
    sessions.contains { $0.isTime(isBusy: isBusy, at: now) }
  }

  /// The first whose time has come, after so many that were looked at; and how many have been looked at by then.
  mutating func takeNext(after position: inout Int, isBusy: Bool, at now: MonotonicTime) -> SessionToEnd? {
    while position < sessions.count {
      if sessions[position].isTime(isBusy: isBusy, at: now) { return sessions.remove(at: position) }
      position += 1
    }
    return nil
  }
}

import FileModel
import TransferModel

/// Prepares the way of files while they are written, so that the first bytes after a close wait for nothing (docs/transport.md).
/// Pure: events come in with what there is to know and the time, actions go out.
///
/// ```
///  begins ──► names of the servers                       once, nothing is sent
///  open ────► one connection: TCP, TLS, an answer        its header fields: what the server can do, Alt-Svc
///    answer ► as many connections as the open files would use if they were closed now
///    growth ► those that are missing
///    15 s ──► all of them again, as long as a file is open
///    later ─► the session of a file that stays open      ``sessions``
///  close ───► the first chunk goes over one of them
///  lost ────► nothing is known; open, growth or an answer begins anew
/// ```
struct ConnectionPrewarmer: Hashable, Sendable {
  /// What has happened.
  enum Event: Hashable, Sendable {
    /// The mount has begun.
    case began
    /// A file has a writer.
    case opened
    /// What is open would use more connections, or a request may go out again.
    case changed
    /// The connections are due to be used.
    case keepAliveDue
    /// A connection was proven.
    case answered(HTTPConnectionMetrics)
    /// The server, or all ways to it, have failed: the connections are gone.
    case lost
    /// Requests stand still: the connections are opened anew when they are next looked at.
    case stoodStill
    /// The program resumes after a pause; `isProbing` where the destination is tried by itself.
    case resumed(isProbing: Bool)
  }

  /// What decides beside the events.
  struct Surroundings: Hashable, Sendable {
    /// The connections that the open files would use if they were closed now; at least one.
    var wanted: Int
    /// Some file is open for writing.
    var hasOpenFiles: Bool
    /// Files wait of which the destination may say that they can be sent.
    var hasHeldFiles: Bool
    /// A request may go out.
    var maySend: Bool
    /// It would be the probe of a destination that has failed.
    var isProbe: Bool
    /// Whether the network is there is not known: one request finds out.
    var isPathInDoubt: Bool
  }

  /// What is to be done.
  enum Action: Hashable, Sendable {
    /// Have the servers' names asked for.
    case askForNames
    /// Send so many requests together. Those that overlap cannot take turns on one HTTP/1.1 connection, so that idle ones are used and
    /// the missing ones are opened; over HTTP/2 they share one.
    case prove(Int)
    /// Report ``Event/keepAliveDue`` at this time.
    case keepAlive(at: MonotonicTime)
  }

  /// Connections begun since the count was reset.
  private(set) var count = 0
  /// Of these, how many have answered.
  private(set) var answers = 0
  /// How often connections were begun since they were last checked.
  private var beginnings = 0
  /// ``Event/keepAliveDue`` will be reported.
  private(set) var isKeeping = false
  /// How long the stages of the connection took that was the latest to be opened before others.
  private(set) var stages: ConnectionStages?
  /// What the server offers beside, and until when.
  private var alternatives: [AlternativeService] = []
  private var alternativesNotedAt: MonotonicTime?
  /// Files that get a session when they stay open.
  var sessions = PlannedSessions()

  private static let beginningsMax = 4

  /// What follows from an event.
  mutating func handle(_ event: Event, in surroundings: Surroundings, at now: MonotonicTime) -> [Action] {
    switch event {
    case .began: return [.askForNames]
    case .opened: return open(surroundings, at: now)
    case .changed: return prove(surroundings)
    case .keepAliveDue: return keepAlive(surroundings, at: now)
    case .answered(let connection): return answered(connection, surroundings, at: now)
    case .lost: (count, answers, stages) = (0, 0, nil)
    // Earlier answers still show that others may follow.
    case .stoodStill: count = 0
    case .resumed(let isProbing):
      reset()
      stages = nil
      if isKeeping, !isProbing { return prove(surroundings) }
    }
    return []
  }

  /// What the server offers beside HTTP/1.1 and HTTP/2 over this connection, as far as it still holds.
  func alternatives(at now: MonotonicTime) -> [AlternativeService] {
    guard let alternativesNotedAt else { return [] }
    return alternatives.filter { now < alternativesNotedAt + $0.maxAge }
  }

  /// The first writer has connections kept from now on; they may be begun as often as at first.
  private mutating func open(_ surroundings: Surroundings, at now: MonotonicTime) -> [Action] {
    guard !isKeeping else { return prove(surroundings) }
    (count, beginnings, isKeeping) = (0, 0, true)
    return [.keepAlive(at: now + UploadConstants.keepAliveInterval)] + prove(surroundings)
  }

  private mutating func keepAlive(_ surroundings: Surroundings, at now: MonotonicTime) -> [Action] {
    // Before the first answer it is not known either what could be sent of the held files.
    guard surroundings.hasOpenFiles || answers == 0 && surroundings.hasHeldFiles else {
      (count, isKeeping) = (0, false)
      return []
    }
    reset()
    return prove(surroundings) + [.keepAlive(at: now + UploadConstants.keepAliveInterval)]
  }

  private mutating func answered(
    _ connection: HTTPConnectionMetrics, _ surroundings: Surroundings, at now: MonotonicTime
  ) -> [Action] {
    answers += 1
    if let latest = connection.stages, answers == 1 || stages == nil { stages = latest }
    if let offered = connection.alternatives { (alternatives, alternativesNotedAt) = (offered, now) }
    return answers == 1 ? prove(surroundings) : []
  }

  /// Until one connection is proven no others follow: they might all fail for the same reason.
  private mutating func prove(_ surroundings: Surroundings) -> [Action] {
    let wanted = surroundings.wanted
    guard count == 0 || answers > 0, wanted > count, surroundings.maySend else { return [] }
    // Where some answers are good and some are not, each good one would be a reason to open many. A probe of the destination has its
    // own pauses.
    if count == 0, !surroundings.isProbe {
      guard beginnings < Self.beginningsMax else { return [] }
      beginnings += 1
    }
    // An answer to the request that proves the path allows the others.
    count = surroundings.isPathInDoubt && !surroundings.isProbe ? 1 : wanted
    return [.prove(surroundings.isProbe || surroundings.isPathInDoubt ? 1 : wanted)]
  }

  /// Nothing is known of the connections.
  private mutating func reset() { (count, answers, beginnings) = (0, 0, 0) }
}

/// Files that get a session when they stay open until a time, the earliest first.
struct PlannedSessions: Hashable, Sendable {
  struct Plan: Hashable, Sendable {
    var id: FileID
    var due: MonotonicTime
  }

  private(set) var plans: [Plan] = []

  /// The one that is due first.
  var first: Plan? { plans.first }

  /// Plans a session for a file; true when it is the next one.
  mutating func plan(_ id: FileID, at due: MonotonicTime) -> Bool {
    let place = (plans.lastIndex { $0.due <= due }).map { $0 + 1 } ?? 0
    plans.insert(Plan(id: id, due: due), at: place)
    return place == 0
  }

  /// The first files have their session, or need none any more.
  mutating func removeFirst(_ count: Int) { plans.removeFirst(count) }

  /// The violated invariants, in words.
  var brokenInvariants: [String] {
    zip(plans, plans.dropFirst()).contains { $0.due > $1.due } ? ["sessions are planned out of order"] : []
  }
}

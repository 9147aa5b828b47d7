import CCurl
import TransferModel

/// The state of a connection's path after a change of the network.
enum PathState: Hashable {
  /// A new connection would take the same one.
  case same
  /// A new connection would leave from another address, or there is no way at all.
  case moved
  /// The connection's own address has gone.
  case gone

  /// Of a socket; one that is not known counts as unchanged.
  init(of socket: Int32) {
    switch uploadfs_way_of(socket) {
    case UPLOADFS_WAY_MOVED: self = .moved
    case UPLOADFS_WAY_GONE: self = .gone
    default: self = .same
    }
  }
}

/// Decides which transfers end because the network has changed under them. Pure: the loop looks at the sockets.
///
/// Packets of a connection always carry the address that it began with. Where the kernel now sends from another one, the old
/// way may still work, or swallow everything: a transfer that moves goes on, one that stands still ends.
struct PathMoves {
  /// A transfer as it is at a moment.
  struct Look {
    var state: PathState
    /// Bytes that have moved in both directions.
    var moved: Int
    /// The connection's smoothed round-trip time; zero where it is not known.
    var roundTrip: Duration
    /// Bytes wait to be acknowledged. Without any nothing shows whether the way works: the server works on its answer.
    var hasUnacknowledged = true
  }

  private struct Suspect {
    var moved: Int
    var until: ContinuousClock.Instant
  }

  /// What still moves is acknowledged within about a round trip; the rest is for a busy machine.
  static let patienceMin: Duration = .milliseconds(300)
  static let patienceMax: Duration = .seconds(2)
  static let roundTrips = 1.5

  private var suspects: [HTTPRequestID: Suspect] = [:]

  /// When ``standingStill(at:_:)`` is to be asked next; nil while nothing is suspected.
  var nextLook: ContinuousClock.Instant? { suspects.values.map(\.until).min() }

  /// The network has changed. The transfers to end at once; those whose way has moved are watched.
  mutating func changed(at now: ContinuousClock.Instant, _ transfers: [HTTPRequestID: Look]) -> [HTTPRequestID] {
    for (id, look) in transfers where look.state == .moved && suspects[id] == nil {
      suspects[id] = Suspect(moved: look.moved, until: now + patience(of: look))
    }
    return transfers.filter { $0.value.state == .gone }.map(\.key)
  }

  /// The transfers whose time is over and that have not moved since; those that have are watched on. What has ended is forgotten.
  mutating func standingStill(
    at now: ContinuousClock.Instant, _ transfers: [HTTPRequestID: Look]
  ) -> [HTTPRequestID] {
    suspects = suspects.filter { transfers[$0.key]?.state == .moved }
    var ended: [HTTPRequestID] = []
    for (id, suspect) in suspects where suspect.until <= now {
      guard let look = transfers[id] else { continue }
      guard look.moved > suspect.moved else {
        ended.append(id)
        continue
      }
      suspects[id] = Suspect(moved: look.moved, until: now + patience(of: look))
    }
    for id in ended { suspects[id] = nil }
    return ended
  }

  private func patience(of look: Look) -> Duration {
    guard look.hasUnacknowledged else { return Self.patienceMax }
    return min(Self.patienceMax, max(Self.patienceMin, look.roundTrip * Self.roundTrips))
  }
}

/// The addresses of the servers that requests go to, and which requests wait for them. Pure.
struct AddressBook {
  /// What a request does.
  enum Verdict: Hashable {
    /// It goes out, to these addresses in this order; none where the library is to find them.
    case go([SocketAddress])
    /// It waits for the end of the race.
    case wait
  }

  private struct Entry {
    var addresses: [SocketAddress] = []
    /// The name is not asked for again before then; nil where the next request does so.
    var isFreshUntil: ContinuousClock.Instant?
    /// When a request last wanted to go there.
    var usedAt: ContinuousClock.Instant?
    var isRacing = false
    /// The network has changed since the race began: what it finds may be another one's.
    var isOutdated = false
  }

  /// By then names are asked for again, beside the requests: the system's resolver does not say how long an answer holds.
  static let ageMax: Duration = .seconds(60)
  /// When they are, after a race that found none. Until a connection fails, what was found before goes on.
  static let retryTime: Duration = .seconds(10)
  /// Addresses that no request has used for so long are asked for first: the machine may be in another network by now. libcurl uses
  /// no connection again that rested for so long (CURLOPT_MAXAGE_CONN, 118 s), so that none is held up.
  static let restMax: Duration = .seconds(120)

  private var entries: [NamedServer: Entry] = [:]
  private(set) var memory = AddressMemory()

  /// A request wants to go there. Second: a race is to begin.
  mutating func look(up server: NamedServer, at now: ContinuousClock.Instant) -> (Verdict, begins: Bool) {
    var entry = entries[server] ?? Entry()
    if let usedAt = entry.usedAt, now - usedAt >= Self.restMax { entry.addresses = [] }
    entry.usedAt = now
    let isFresh = !entry.addresses.isEmpty && entry.isFreshUntil.map { now < $0 } ?? false
    let begins = !isFresh && !entry.isRacing
    if begins { entry.isRacing = true }
    entries[server] = entry
    return (entry.addresses.isEmpty ? .wait : .go(entry.addresses), begins)
  }

  /// A race has ended. Without addresses those of an earlier race go on; where there are none the library finds out for itself what
  /// is wrong, and says so.
  mutating func found(_ outcome: RaceOutcome, at now: ContinuousClock.Instant) {
    var entry = entries[outcome.server] ?? Entry()
    guard !entry.isOutdated else { return entries[outcome.server] = nil }
    for address in outcome.failed { memory.failed(address) }
    if let winner = outcome.winner { memory.worked(winner, after: outcome.roundTrip) }
    entry.isRacing = false
    if outcome.addresses.isEmpty {
      entry.isFreshUntil = now + Self.retryTime
    } else {
      entry.addresses = outcome.addresses
      entry.isFreshUntil = outcome.isSettled ? now + Self.ageMax : nil
    }
    entries[outcome.server] = entry
  }

  /// No connection to the server came about: names are asked for again before the next one.
  mutating func failed(_ server: NamedServer) {
    guard let entry = entries[server] else { return }
    for address in entry.addresses.prefix(1) { memory.failed(address) }
    entries[server] = entry.isRacing ? Entry(isRacing: true, isOutdated: entry.isOutdated) : nil
  }

  /// The network is another one.
  mutating func networkChanged() {
    memory.forget()
    entries = entries.filter(\.value.isRacing).mapValues { _ in Entry(isRacing: true, isOutdated: true) }
  }
}

/// A server that is called by a name.
struct NamedServer: Hashable, Sendable {
  var host: String
  var port: Int
}

/// How a race has ended.
struct RaceOutcome: Sendable {
  var server: NamedServer
  /// In the order in which they are to be tried.
  var addresses: [SocketAddress]
  var winner: SocketAddress?
  /// How long the winner took.
  var roundTrip: Duration = .zero
  /// How long the race waited for addresses before it tried one.
  var namesTime: Duration = .zero
  /// That of the winner's connection, which is offered to the next request; −1 where there is none.
  var socket: Int32 = -1
  /// Those that were tried before the winner, and have not connected.
  var failed: [SocketAddress] = []
  /// Some were connected to. Where a name has one address, none is.
  var wasTried = true

  /// What of it a request has waited for that came when the race was under way.
  func since(_ time: ContinuousClock.Instant, at now: ContinuousClock.Instant) -> RaceOutcome {
    var part = self
    part.namesTime = min(namesTime, max(.zero, now - time - roundTrip))
    part.roundTrip = min(roundTrip, now - time)
    return part
  }

  /// Another race would find nothing better.
  var isSettled: Bool { winner != nil || !wasTried && addresses.count == 1 }
}

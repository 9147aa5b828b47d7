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
    var foundAt: ContinuousClock.Instant?
    var isRacing = false
  }

  /// By then names are asked for again, beside the requests: the system's resolver does not say how long an answer holds.
  static let ageMax: Duration = .seconds(60)

  private var entries: [NamedServer: Entry] = [:]
  private(set) var memory = AddressMemory()

  /// A request wants to go there. Second: a race is to begin.
  mutating func look(up server: NamedServer, at now: ContinuousClock.Instant) -> (Verdict, begins: Bool) {
    var entry = entries[server] ?? Entry()
    let isFresh = entry.foundAt.map { now - $0 < Self.ageMax } ?? false
    let begins = !isFresh && !entry.isRacing
    if begins { entry.isRacing = true }
    entries[server] = entry
    return (entry.addresses.isEmpty ? .wait : .go(entry.addresses), begins)
  }

  /// A race has ended. Without addresses the library finds out for itself what is wrong, and says so.
  mutating func found(_ outcome: RaceOutcome, at now: ContinuousClock.Instant) {
    for address in outcome.failed { memory.failed(address) }
    if let winner = outcome.winner { memory.worked(winner, after: outcome.roundTrip) }
    let isKnown = outcome.winner != nil || outcome.addresses.count == 1
    entries[outcome.server] = Entry(addresses: outcome.addresses, foundAt: isKnown ? now : nil, isRacing: false)
  }

  /// No connection to the server came about: names are asked for again before the next one.
  mutating func failed(_ server: NamedServer) {
    guard let entry = entries[server], !entry.isRacing else { return }
    for address in entry.addresses.prefix(1) { memory.failed(address) }
    entries[server] = nil
  }

  /// The network is another one.
  mutating func networkChanged() {
    memory.forget()
    entries = entries.filter(\.value.isRacing).mapValues { _ in Entry(isRacing: true) }
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
  /// Those that were tried before the winner, and have not connected.
  var failed: [SocketAddress] = []
}

/// What the resolver has said of servers' names, also before there was a request to them. Pure.
///
/// Names are asked for when a mount begins, so that an open that follows waits for none. From then on requests have them renewed
/// (``AddressBook``), and those that keep connections warm are requests: an idle mount asks for nothing.
struct NameCache {
  /// What the resolver is to be asked.
  struct Question: Hashable, Sendable {
    var server: NamedServer
    var families: [SocketAddress.Family]
    /// Names the question in its answers.
    var number: UInt64
  }

  private struct Entry {
    var number: UInt64
    var answers: [ResolvedName] = []
    /// When the last answer came.
    var answeredAt: ContinuousClock.Instant?
    /// The answers may be another network's, or have led nowhere.
    var isOutdated = false

    var isAwaited: Bool { answers.count < SocketAddress.Family.allCases.count }
  }

  /// More servers than a mount has.
  static let serversMax = 64

  private var entries: [NamedServer: Entry] = [:]
  private var questions: UInt64 = 0

  /// A server's name is wanted soon. Nil where the resolver is being asked, or its answer is fresh.
  mutating func warm(_ server: NamedServer, at now: ContinuousClock.Instant) -> Question? {
    if let entry = entries[server], !entry.isOutdated, entry.isAwaited || isFresh(entry, at: now) { return nil }
    return ask(server)
  }

  /// A race for the server begins: what is known of its name, and what the resolver is to be asked. Where it is being asked already its
  /// answers follow.
  mutating func take(
    _ server: NamedServer, at now: ContinuousClock.Instant
  ) -> (known: [ResolvedName], question: Question?) {
    guard let entry = entries[server], !entry.isOutdated, entry.isAwaited || isFresh(entry, at: now) else {
      return ([], ask(server))
    }
    return (entry.answers, nil)
  }

  /// The resolver has answered; false where the question does not count any more.
  mutating func answered(_ name: ResolvedName, at now: ContinuousClock.Instant) -> Bool {
    guard let entry = entries[name.server], entry.number == name.question else { return false }
    entries[name.server]?.answers.append(name)
    entries[name.server]?.answeredAt = now
    return true
  }

  /// No connection to the server came about.
  mutating func failed(_ server: NamedServer) { entries[server]?.isOutdated = true }

  /// The network is another one.
  mutating func networkChanged() { for server in entries.keys { failed(server) } }

  private mutating func ask(_ server: NamedServer) -> Question {
    if entries.count >= Self.serversMax, entries[server] == nil { entries = [:] }
    questions += 1
    entries[server] = Entry(number: questions)
    return Question(server: server, families: SocketAddress.Family.allCases, number: questions)
  }

  /// No address at all is no answer: the resolver may not have been reachable yet.
  private func isFresh(_ entry: Entry, at now: ContinuousClock.Instant) -> Bool {
    guard let answeredAt = entry.answeredAt else { return false }
    return now - answeredAt < AddressBook.ageMax && entry.answers.contains { !$0.addresses.isEmpty }
  }
}

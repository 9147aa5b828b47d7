import CCurl
import Glibc

/// Runs the races between the addresses of servers (``ConnectionRace``). Belongs to the curl thread, which polls its sockets beside
/// libcurl's.
final class AddressRaces {
  private struct Running {
    var race: ConnectionRace
    let begunAt: ContinuousClock.Instant
    /// When the first address was tried.
    var triedAt: ContinuousClock.Instant?
    var attempts: [Attempt] = []
  }

  fileprivate struct Attempt {
    let address: SocketAddress
    let socket: Int32
    let begunAt: ContinuousClock.Instant
  }

  private struct Offer {
    let socket: Int32
    let until: ContinuousClock.Instant
  }

  /// After that the library tries for itself, and says what is wrong.
  private static let timeMax: Duration = .seconds(3)
  /// A connection that no transfer has taken by then is closed.
  private static let offerTime: Duration = .seconds(2)

  private var running: [NamedServer: Running] = [:]
  private var offers: [Offer] = []
  private var outcomes: [RaceOutcome] = []

  deinit {
    for attempt in running.values.flatMap(\.attempts) { close(attempt.socket) }
    for offer in offers where uploadfs_withdraw_socket(offer.socket) != 0 { close(offer.socket) }
  }

  /// Begins a race. The caller has the name asked for, in both families.
  func begin(_ server: NamedServer, _ memory: AddressMemory, at now: ContinuousClock.Instant) {
    running[server] = Running(race: ConnectionRace(memory), begunAt: now)
  }

  /// The resolver has answered. What is late is of no use any more.
  func resolved(
    _ server: NamedServer, _ family: SocketAddress.Family, _ addresses: [SocketAddress], at now: ContinuousClock.Instant
  ) {
    step(server, at: now) { $0.resolved(family, addresses, at: now) }
  }

  /// What is polled beside the sockets of libcurl.
  var polled: [curl_waitfd] {
    running.values.flatMap(\.attempts).map { curl_waitfd(fd: $0.socket, events: Int16(CURL_WAIT_POLLOUT), revents: 0) }
  }

  /// When ``advance(at:)`` is to be called, if no socket is ready before; nil when nothing is waited for.
  var nextDeadline: ContinuousClock.Instant? {
    let deadlines = running.values.flatMap { [$0.race.nextDeadline, $0.begunAt + Self.timeMax].compactMap { $0 } }
    return (deadlines + offers.map(\.until)).min()
  }

  /// Looks at the sockets and the time; returns the races that have ended.
  func advance(at now: ContinuousClock.Instant) -> [RaceOutcome] {
    for (server, race) in running {
      for attempt in race.attempts { look(at: attempt, of: server, at: now) }
      step(server, at: now) { now >= race.begunAt + Self.timeMax ? $0.giveUp() : $0.woke(at: now) }
    }
    closeOffers(at: now)
    defer { outcomes = [] }
    return outcomes
  }

  private func look(at attempt: Attempt, of server: NamedServer, at now: ContinuousClock.Instant) {
    // An earlier one may have ended the race.
    guard running[server] != nil else { return }
    var ready = pollfd(fd: attempt.socket, events: Int16(POLLOUT), revents: 0)
    guard poll(&ready, 1, 0) > 0 else { return }
    // Not by a second connect(2): libcurl 7.88 makes it on the socket that it is given (curl #10626), and Linux says yes to the second
    // one, and EISCONN to the third.
    var code: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    let isKnown = getsockopt(attempt.socket, SOL_SOCKET, SO_ERROR, &code, &size) == 0
    guard isKnown, code == 0 else { return lose(attempt.address, of: server, at: now) }
    step(server, at: now) { $0.connected(attempt.address) }
  }

  private func lose(_ address: SocketAddress, of server: NamedServer, at now: ContinuousClock.Instant) {
    if let index = running[server]?.attempts.firstIndex(where: { $0.address == address }) {
      running[server]?.attempts.remove(at: index).closeSocket()
    }
    step(server, at: now) { $0.failed(address, at: now) }
  }

  private func step(
    _ server: NamedServer, at now: ContinuousClock.Instant, _ decide: (inout ConnectionRace) -> [ConnectionRace.Action]
  ) {
    guard var race = running[server]?.race else { return }
    let actions = decide(&race)
    running[server]?.race = race
    for action in actions {
      switch action {
      case .connect(let address): connect(to: address, of: server, at: now)
      case .end(let winner, let addresses): end(server, winner, addresses, at: now)
      }
    }
  }

  private func connect(to address: SocketAddress, of server: NamedServer, at now: ContinuousClock.Instant) {
    let flags = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.family.number, flags, 0)
    guard descriptor >= 0 else { return lose(address, of: server, at: now) }
    uploadfs_bound_segments_of(descriptor)
    if running[server]?.triedAt == nil { running[server]?.triedAt = now }
    let attempt = Attempt(address: address, socket: descriptor, begunAt: now)
    running[server]?.attempts.append(attempt)
    let code = address.withSystemAddress { Glibc.connect(descriptor, $0, $1) == 0 ? 0 : errno } ?? EINVAL
    guard code != 0, code != EINPROGRESS else { return }
    lose(address, of: server, at: now)
  }

  private func end(
    _ server: NamedServer, _ winner: SocketAddress?, _ addresses: [SocketAddress], at now: ContinuousClock.Instant
  ) {
    guard let race = running.removeValue(forKey: server) else { return }
    var outcome = RaceOutcome(server: server, addresses: addresses, winner: winner, wasTried: race.race.hasTried)
    outcome.namesTime = (race.triedAt ?? now) - race.begunAt
    for attempt in race.attempts {
      guard attempt.address == winner else {
        attempt.closeSocket()
        // One that was begun a moment ago has had no time.
        if let winner, isBegun(attempt, wellBefore: winner, in: race) { outcome.failed.append(attempt.address) }
        continue
      }
      outcome.roundTrip = now - attempt.begunAt
      outcome.socket = attempt.socket
      offer(attempt, at: now)
    }
    outcomes.append(outcome)
  }

  private func isBegun(_ attempt: Attempt, wellBefore winner: SocketAddress, in race: Running) -> Bool {
    race.attempts.first { $0.address == winner }.map { attempt.begunAt + ConnectionRace.attemptDelay <= $0.begunAt }
      ?? false
  }

  private func offer(_ attempt: Attempt, at now: ContinuousClock.Instant) {
    let isTaken = attempt.address.withSystemAddress { uploadfs_offer_socket(attempt.socket, $0, $1) } ?? 0
    guard isTaken != 0 else { return attempt.closeSocket() }
    offers.append(Offer(socket: attempt.socket, until: now + Self.offerTime))
  }

  private func closeOffers(at now: ContinuousClock.Instant) {
    offers.removeAll { offer in
      guard offer.until <= now else { return false }
      if uploadfs_withdraw_socket(offer.socket) != 0 { close(offer.socket) }
      return true
    }
  }
}

extension AddressRaces.Attempt {
  fileprivate func closeSocket() { close(socket) }
}

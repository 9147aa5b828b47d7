import CCurl
import TransferModel

/// The curl thread's whole life. Every handle is created, used and freed here; the only way in is the inbox.
final class CurlLoop {
  /// What stands between two turns when nothing happens; libcurl shortens it to its own next timer.
  private static let idlePollMilliseconds: Int32 = 60_000
  /// How often transfers are asked whether they have stalled.
  private static let stallCheckMilliseconds: Int32 = 250

  private struct Parked {
    let request: PendingHTTPRequest
    let since: ContinuousClock.Instant
  }

  private let inbox: RequestInbox
  private let multi: UnsafeMutableRawPointer
  private let settings: TransferSettings
  private let slots: Int
  private var transfers: [HTTPRequestID: CurlTransfer] = [:]
  /// Handles that wait for the next transfer, so that none is made and torn down per chunk. At most `slots`. Those of failed
  /// transfers are not used again.
  private var idleHandles: [EasyHandle] = []
  private var sessions: TLSSessions?
  private var ages = ConnectionAges()
  private var connectLimits = ConnectLimits()
  /// What has moved to and from each server, which are few.
  private var pathBytes: [String: Int] = [:]
  /// What is known of the loss of packets on the way to each server; empty where that decides nothing.
  private var pathLosses: [String: PathLoss] = [:]
  /// Whether full packets get to each server.
  private var pathMTUs: [String: PathMTU] = [:]
  private var pathMoves = PathMoves()
  private var addressBook = AddressBook()
  private var nameCache = NameCache()
  private let races = AddressRaces()
  /// Requests that wait for the addresses of their server, in the order in which they came. They count as in flight.
  private var parked: [NamedServer: [Parked]] = [:]
  private let systemName = CongestionControl.systemName
  private var nextStallCheck = ContinuousClock.now
  /// Where the last answer came over HTTP/2. There a request waits for a connection that is being made, to share it; one to a
  /// server that turns out to speak HTTP/1.1 would wait until the request before it has ended (seen with libcurl 8.14).
  private var multiplexedOrigins: Set<String> = []
  /// Nil where the version of HTTP is settled.
  private var trials: ProtocolTrials?
  /// Nil where nothing bounds the rate.
  private let turns: SendTurns?

  /// Takes over the multi handle. What is found out of versions of HTTP goes to `report`, where it is to be found out.
  init(
    inbox: RequestInbox, multi: UnsafeMutableRawPointer, settings: TransferSettings, reportingTo report: ProtocolReport?
  ) {
    self.inbox = inbox
    self.multi = multi
    self.settings = settings
    turns = settings.rate.map { SendTurns($0) }
    trials = report.map { ProtocolTrials(settings.configuration.trialTimes, to: $0) }
    slots =
      settings.configuration.multiplexes
      ? CurlTransportConfiguration.maxMultiplexedRequests : settings.configuration.maxConnections
  }

  /// Runs until the inbox says stop, or libcurl's multi handle is beyond repair. Whatever is in flight or waiting then
  /// fails as stopped, and nothing of libcurl is left.
  func run() {
    var failure = "the transport has been stopped"
    while drainInbox() {
      // One at a time: libcurl asks all that may go on in an order of its own.
      if let id = turns?.next() { transfers[id]?.goOn() }
      if let problem = perform() ?? poll(isIdle: !hasProgressed()) {
        failure = problem
        break
      }
    }
    tearDown(failure)
  }

  /// False when the loop must end.
  private func drainInbox() -> Bool {
    let work = inbox.take(freeSlots: freeSlots)
    for request in work.withdrawn {
      request.onCompletion(.failure(TransportError(.cancelled, "the request was cancelled before it was sent")))
    }
    guard !work.isStopping else {
      // Taken out of the inbox in the turn in which it closed.
      for request in work.starts {
        inbox.forget(request.id)
        request.onCompletion(.failure(TransportError(.stopped, "the transport has been stopped")))
      }
      return false
    }
    for (id, unsentBelow) in work.cancels {
      guard !withdrawParked(id) else { continue }
      // Known on this thread alone: the caller saw what had been sent a moment before.
      guard let transfer = transfers[id], transfer.sentBytes < unsentBelow else { continue }
      finish(transfer, .failure(transfer.error(.cancelled, "it was cancelled")))
    }
    if work.renewsConnections { ages.renew(at: .now) }
    if work.hasNetworkChanged { networkChanged() }
    for server in work.warmedNames { ask(nameCache.warm(server, at: .now)) }
    for name in work.resolved where nameCache.answered(name, at: .now) {
      races.resolved(name.server, name.family, name.addresses, at: .now)
    }
    for request in work.starts { place(request) }
    for id in work.resumes { transfers[id]?.resume() }
    return true
  }

  private var freeSlots: Int { slots - transfers.count - parked.values.reduce(0) { $0 + $1.count } }

  /// Starts a request, or lets it wait until the addresses of its server are known.
  private func place(_ waiting: PendingHTTPRequest) {
    guard let target = RequestTarget(url: waiting.request.url), let server = settings.resolvedServer(of: target) else {
      return start(waiting, to: [])
    }
    let (verdict, begins) = addressBook.look(up: server, at: .now)
    if begins { beginRace(to: server) }
    switch verdict {
    case .go(let addresses): start(waiting, to: addresses)
    case .wait: parked[server, default: []].append(Parked(request: waiting, since: .now))
    }
  }

  private func beginRace(to server: NamedServer) {
    races.begin(server, addressBook.memory, at: .now)
    let (known, question) = nameCache.take(server, at: .now)
    ask(question)
    for name in known { races.resolved(server, name.family, name.addresses, at: .now) }
  }

  private func ask(_ question: NameCache.Question?) {
    guard let question else { return }
    NameResolver.resolve(question) { [inbox] in inbox.resolved($0) }
  }

  /// True when a race has ended.
  private func advanceRaces() -> Bool {
    let outcomes = races.advance(at: .now)
    for outcome in outcomes {
      addressBook.found(outcome, at: .now)
      for waiting in parked.removeValue(forKey: outcome.server) ?? [] {
        start(waiting.request, to: outcome.addresses, after: outcome.since(waiting.since, at: .now))
      }
    }
    return !outcomes.isEmpty
  }

  /// False for a request that does not wait for addresses.
  private func withdrawParked(_ id: HTTPRequestID) -> Bool {
    for (server, requests) in parked {
      guard let index = requests.firstIndex(where: { $0.request.id == id }) else { continue }
      parked[server]?.remove(at: index)
      refuse(requests[index].request, TransportError(.cancelled, "the request was cancelled before it was sent"))
      return true
    }
    return false
  }

  private func refuse(_ waiting: PendingHTTPRequest, _ error: TransportError) {
    inbox.forget(waiting.id)
    waiting.request.body.stream?.end()
    waiting.onCompletion(.failure(error))
  }

  private func start(
    _ waiting: PendingHTTPRequest, to addresses: [SocketAddress], after race: RaceOutcome? = nil
  ) {
    let choice = trials?.choose(for: waiting.request) ?? .fixed(settings.configuration.multiplexes ? .http2 : .http1)
    do throws(TransportError) {
      guard let handle = idleHandles.popLast() ?? EasyHandle() else {
        throw TransportError(.other, "curl_easy_init failed: out of memory")
      }
      handle.reset()
      try handle.share(try usableSessions())
      let transfer = try CurlTransfer(
        waiting, on: handle, with: settings, over: choice, sharing: multiplexedOrigins, reusing: ages.reuse(at: .now),
        connecting: connectLimits, sending: congestionControl(of: waiting), within: turns, to: addresses,
        after: race
      ) { [inbox] in
        inbox.resume(waiting.id)
      }
      let code = curl_multi_add_handle(multi, handle.pointer)
      guard code == CURLM_OK else {
        throw TransportError(.other, "curl_multi_add_handle failed: \(String(cString: curl_multi_strerror(code)))")
      }
      transfers[waiting.id] = transfer
    } catch {
      if let origin = RequestTarget(url: waiting.request.url)?.origin {
        trials?.end(choice, .ended, of: origin, at: .now)
      }
      refuse(waiting, error)
    }
  }

  private func usableSessions() throws(TransportError) -> TLSSessions {
    let now = ContinuousClock.now
    if let sessions, sessions.isFresh(at: now, maxAge: settings.configuration.tlsSessionMaxAge) { return sessions }
    guard let made = TLSSessions(at: now) else { throw TransportError(.other, "curl_share_init failed: out of memory") }
    sessions = made
    return made
  }

  /// What is wrong with the multi handle; nil when nothing is.
  private func perform() -> String? {
    var running: Int32 = 0
    let code = curl_multi_perform(multi, &running)
    return code == CURLM_OK ? nil : "curl_multi_perform failed: \(String(cString: curl_multi_strerror(code)))"
  }

  /// True when a transfer has ended.
  private func completeFinished() -> Bool {
    var hasFinished = false
    var easy: UnsafeMutableRawPointer?
    var code = CURLE_OK
    while uploadfs_curl_multi_next_done(multi, &easy, &code) != 0 {
      var context: UnsafeMutableRawPointer?
      guard let easy, uploadfs_curl_get_private(easy, &context) == CURLE_OK, let context else { continue }
      // Unretained: `transfers` holds it until finish(_:_:) has run.
      let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
      let result = transfer.result(for: code)
      if case .success(let response) = result { noteProtocol(response.connection.protocolName, of: transfer) }
      finish(transfer, result)
      hasFinished = true
    }
    return hasFinished
  }

  private func noteProtocol(_ name: String, of transfer: CurlTransfer) {
    guard transfer.versionChoice.offersHTTP2 else { return }
    if name == "HTTP/2" {
      multiplexedOrigins.insert(transfer.origin)
    } else {
      multiplexedOrigins.remove(transfer.origin)
    }
  }

  /// True when a transfer has ended.
  private func endStalled() -> Bool {
    let now = ContinuousClock.now
    guard now >= nextStallCheck else { return false }
    nextStallCheck = now + .milliseconds(Int64(Self.stallCheckMilliseconds))
    for transfer in transfers.values { countMoved(by: transfer) }
    let hasReplaced = endBehind(at: now)
    let hasBounded = boundSegments(at: now)
    let stalled = transfers.values.compactMap { transfer in
      transfer.stallError(at: now, pathBytes: pathBytes[transfer.origin] ?? 0).map { (transfer, $0) }
    }
    for (transfer, error) in stalled { finish(transfer, .failure(error)) }
    return hasReplaced || hasBounded || !stalled.isEmpty
  }

  /// True when requests over HTTP/2 have ended because they go again over HTTP/1.1 sooner.
  private func endBehind(at now: ContinuousClock.Instant) -> Bool {
    let behind = trials?.look(at: now) ?? []
    let slow = transfers.values.filter { transfer in
      guard behind.contains(transfer.origin), let sending = transfer.sending(at: now) else { return false }
      return trials?.goesAgain(
        to: transfer.origin, transfer.versionChoice, bodyBytes: sending.bodyBytes, sent: sending.sent, age: sending.age)
        == true
    }
    for transfer in slow {
      finish(transfer, .failure(transfer.error(.pathLost, "it was too slow over HTTP/2, and goes again over HTTP/1.1")))
    }
    return !slow.isEmpty
  }

  /// True when transfers have ended because a path swallows their packets: they go again on new connections, with shorter ones.
  private func boundSegments(at now: ContinuousClock.Instant) -> Bool {
    let looks = transfers.compactMapValues { $0.packetLook }
    var bounded: Set<String> = []
    for (id, look) in looks {
      guard let origin = transfers[id]?.origin else { continue }
      if pathMTUs[origin, default: PathMTU()].take(look, at: now) { bounded.insert(origin) }
    }
    guard !bounded.isEmpty, let bytes = pathMTUs.values.compactMap(\.segmentBytesMax).min() else { return false }
    // For all servers: what is to blame is most likely on the first part of all ways.
    uploadfs_bound_segments(Int32(bytes))
    trials?.restart()
    ages.renew(at: .now)
    for (id, look) in looks where look.showsHole {
      guard let transfer = transfers[id], bounded.contains(transfer.origin) else { continue }
      finish(transfer, .failure(transfer.errorOfSwallowedPackets(look, segmentBytesMax: bytes)))
    }
    return true
  }

  private var pathLooks: [HTTPRequestID: PathMoves.Look] { transfers.compactMapValues { $0.pathLook() } }

  /// Where all ways are what they were, as after the change of a link that nothing here uses, all stays as it is. An idle connection
  /// whose way has moved stays in libcurl's pool for as long as there is room: later notices, of which a machine that starts and ends
  /// containers has many, do not count for it again.
  private func networkChanged() {
    let moves = uploadfs_moves_of_ways()
    guard moves != UPLOADFS_MOVES_NONE else { return }
    if moves == UPLOADFS_MOVES_NEW {
      ages.renew(at: .now)
      // It may be another network.
      (pathLosses, pathMTUs) = ([:], [:])
      uploadfs_bound_segments(0)
      trials?.restart()
      addressBook.networkChanged()
      nameCache.networkChanged()
    }
    for id in pathMoves.changed(at: .now, pathLooks) { endWithoutPath(id) }
  }

  /// True when a transfer has ended.
  private func endStanding() -> Bool {
    guard let due = pathMoves.nextLook, due <= .now else { return false }
    let ended = pathMoves.standingStill(at: .now, pathLooks)
    for id in ended { endWithoutPath(id) }
    return !ended.isEmpty
  }

  private func endWithoutPath(_ id: HTTPRequestID) {
    guard let transfer = transfers[id] else { return }
    finish(
      transfer, .failure(transfer.error(.pathLost, "the network has changed, and its connection did not move any more"))
    )
  }

  private func countMoved(by transfer: CurlTransfer) {
    let isShared =
      transfer.versionChoice.offersHTTP2 && multiplexedOrigins.contains(transfer.origin)
      && transfers.values.count { $0.origin == transfer.origin && $0.versionChoice.offersHTTP2 } > 1
    pathBytes[transfer.origin] = (pathBytes[transfer.origin] ?? 0) &+ transfer.measure(isShared: isShared)
    trials?.count(transfer.socket, of: transfer.origin)
    noteLosses(of: transfer)
  }

  private func noteLosses(of transfer: CurlTransfer) {
    guard settings.configuration.congestionControl == .automatic, let counts = transfer.takeSocketCounts(),
      isFirstOnItsConnection(transfer),
      let verdict = pathLosses[transfer.origin, default: PathLoss()].add(from: counts.before, to: counts.now),
      let name = verdict == .tries ? CongestionControl.bbr.rawValue : systemName
    else { return }
    trials?.restart(transfer.origin)
    for other in transfers.values where other.origin == transfer.origin { other.use(name) }
  }

  /// What the connection of a request is to have; nil for what it has.
  private func congestionControl(of waiting: PendingHTTPRequest) -> String? {
    guard settings.configuration.congestionControl == .automatic else {
      return settings.configuration.congestionControl.fixedName
    }
    guard let loss = RequestTarget(url: waiting.request.url).flatMap({ pathLosses[$0.origin] }) else { return nil }
    if loss.usesBBR { return CongestionControl.bbr.rawValue }
    return loss.hasGoneBack ? systemName : nil
  }

  /// Of several that share one over HTTP/2, one alone is to tell of its packets.
  private func isFirstOnItsConnection(_ transfer: CurlTransfer) -> Bool {
    guard transfer.versionChoice.offersHTTP2, multiplexedOrigins.contains(transfer.origin) else { return true }
    return !transfers.values.contains { $0.socket == transfer.socket && $0.id.value < transfer.id.value }
  }

  /// True when a transfer or a race has ended. All are looked at in each turn, whatever the ones before have found.
  private func hasProgressed() -> Bool {
    [completeFinished(), endStalled(), endStanding(), advanceRaces()].contains(true)
  }

  /// Waits for the network, a timer or the inbox; not at all when a transfer has just made room for a waiting one.
  private func poll(isIdle: Bool) -> String? {
    let needsCare = transfers.values.contains(where: \.hasStallLimit)
    var timeout = needsCare ? Self.stallCheckMilliseconds : Self.idlePollMilliseconds
    let dues = [pathMoves.nextLook, races.nextDeadline, turns?.pause.map { .now + $0 }]
    if let due = dues.compactMap({ $0 }).min() {
      let (seconds, attoseconds) = max(.zero, due - .now).components
      timeout = min(timeout, Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1))
    }
    if turns?.pause == .zero { timeout = 0 }
    let mayRest = isIdle && inbox.mayRest(freeSlots: freeSlots)
    var polled = races.polled
    let code = curl_multi_poll(multi, &polled, UInt32(polled.count), mayRest ? timeout : 0, nil)
    return code == CURLM_OK ? nil : "curl_multi_poll failed: \(String(cString: curl_multi_strerror(code)))"
  }

  /// Ends a transfer: libcurl lets go of it first, then its slot is free, then its owner hears of it.
  private func finish(_ transfer: CurlTransfer, _ result: Result<HTTPResponse, TransportError>) {
    // What a broken connection still held has not moved.
    if case .success = result { countMoved(by: transfer) }
    // Also where TLS did not end in time: the server is there.
    connectLimits.noteHandshake(transfer.handshakeTime, with: transfer.origin)
    if case .failure(let error) = result, transfer.foundNoServer(error), let server = transfer.namedServer {
      addressBook.failed(server)
      nameCache.failed(server)
    }
    trials?.end(transfer.versionChoice, ProtocolTrial.Ending(result), of: transfer.origin, at: .now)
    curl_multi_remove_handle(multi, transfer.handle.pointer)
    transfers[transfer.id] = nil
    // libcurl 8.14 keeps what a failed upload has left in its handle, through curl_easy_reset as well: the next transfer on it
    // first rewinds the body of the last one, or never sends.
    if case .success = result { idleHandles.append(transfer.handle) }
    turns?.leave(transfer.id)
    inbox.forget(transfer.id)
    transfer.complete(result)
  }

  private func tearDown(_ reason: String) {
    let waiting = inbox.close()
    for transfer in Array(transfers.values) { finish(transfer, .failure(transfer.error(.stopped, reason))) }
    for waiting in parked.values.flatMap({ $0 }) { refuse(waiting.request, TransportError(.stopped, reason)) }
    for request in waiting { request.onCompletion(.failure(TransportError(.stopped, reason))) }
    // Easy handles before the multi handle that their connections live in.
    idleHandles = []
    curl_multi_cleanup(multi)
  }
}

import ChunkProtocol
import Lookup
import OrderedCollections
import ReceiverCore
import TransferModel

/// Carries requests to the receiver and answers back, as slowly and as badly as the scenario demands. To the client it
/// behaves as the transport does: each request is answered once, also when it is cancelled, and what does not move is
/// ended.
final class SimulatedNetwork {
  typealias Completion = (Result<HTTPResponse, TransportError>) -> Void

  /// A request that has not been answered.
  final class Flight {
    let id: HTTPRequestID
    let request: HTTPRequest
    let address: Int
    fileprivate let startedAt: Int64
    fileprivate var completion: Completion?
    fileprivate var exchange: (any PeerExchange)?
    fileprivate var body: BodyProgress?
    fileprivate var hasArrived = false

    fileprivate init(
      _ id: HTTPRequestID, _ request: HTTPRequest, _ address: Int, _ startedAt: Int64,
      _ completion: @escaping Completion
    ) {
      self.id = id
      self.request = request
      self.address = address
      self.startedAt = startedAt
      self.completion = completion
    }

    /// Chunks and whole files; the limits of others do not follow from their size.
    fileprivate var isBody: Bool { request.limits.stall > .zero }
  }

  /// How a body is sent: evenly, up to where it stops.
  struct BodyProgress {
    var startedAt: Int64
    var nanoseconds: Int64
    var byteCount: Int
    var stopsAfter: Int

    func sent(at now: Int64) -> Int {
      guard nanoseconds > 0 else { return stopsAfter }
      return min(stopsAfter, Int(Double(byteCount) * Double(now - startedAt) / Double(nanoseconds)))
    }

    /// When the latest byte went out.
    func moved(at now: Int64) -> Int64 {
      guard byteCount > 0 else { return startedAt }
      return startedAt + nanoseconds / Int64(byteCount) * Int64(sent(at: now))
    }
  }

  private unowned let world: World
  private unowned let peer: any SimulatedPeer
  /// The scenario's faults concern this network.
  private let isTroubled: Bool
  let addresses: SimulatedAddresses
  private var flights: OrderedDictionary<HTTPRequestID, Flight> = [:]
  /// In flight when everything was healed.
  private var troubledFlights: LookupSet<HTTPRequestID> = []
  private var isPartitioned = false
  /// Requests, or only large ones, are lost without an error.
  private var isSwallowing = false
  private var isSlow = false
  private var latency: Duration
  private var bytesPerSecond: Int
  /// Copies of requests, and answers, that are still in transit.
  private(set) var stragglers = 0
  /// The number of clients: what one of them has sent is dropped with it.
  private var life = 0

  init(_ world: World, _ peer: any SimulatedPeer, isTroubled: Bool) {
    self.world = world
    self.peer = peer
    self.isTroubled = isTroubled
    addresses = SimulatedAddresses(world)
    latency = world.random.duration(world.scenario.latency)
    let bounds = world.scenario.bytesPerSecond
    var speed = bounds.lowerBound
    while speed < bounds.upperBound, world.random.happens(0.8) { speed = min(bounds.upperBound, speed * 4) }
    bytesPerSecond = speed
  }

  var isQuiet: Bool { flights.isEmpty && stragglers == 0 }
  /// A request that was sent during faults has not been answered, and its answer may still be of that time.
  var hasTroubledFlights: Bool { flights.keys.contains { troubledFlights.contains($0) } }
  /// Nothing gets through.
  var isAway: Bool { isPartitioned || isSwallowing }

  // MARK: As a whole

  func partition(for duration: Duration) {
    guard !isPartitioned else { return }
    isPartitioned = true
    world.trace("network: nothing gets through")
    world.time.after(duration) { [self] in
      isPartitioned = false
      world.trace("network: is back")
    }
  }

  func swallow(for duration: Duration) {
    guard !isSwallowing else { return }
    isSwallowing = true
    world.trace("network: swallows everything")
    world.time.after(duration) { [self] in isSwallowing = false }
  }

  func slowDown(for duration: Duration) {
    guard !isSlow else { return }
    isSlow = true
    world.trace("network: is slow")
    world.time.after(duration) { [self] in isSlow = false }
  }

  func heal() {
    troubledFlights = LookupSet(flights.keys)
    isPartitioned = false
    isSlow = false
    isSwallowing = false
    addresses.heal()
  }

  /// From now on the link is a good one.
  func improve() {
    latency = min(latency, .milliseconds(20))
    bytesPerSecond = max(bytesPerSecond, 1_000_000)
  }

  // MARK: What the transport does

  /// `isBroken` loses the request at once: the sending machine could not send it.
  func start(_ id: HTTPRequestID, _ request: HTTPRequest, isBroken: Bool, _ completion: @escaping Completion) {
    let flight = Flight(id, request, addresses.index(of: request.url), world.time.nanoseconds, completion)
    flights[id] = flight
    end(flight, after: timeAllowed(flight), .timedOut)
    guard !isBroken else { return end(flight, after: latency, .connectionLost) }
    guard !isPartitioned else { return end(flight, after: request.limits.connect, .timedOut) }
    let fault = addresses.fault(at: flight.address) ?? (isTroubled ? world.drawFault() : .arrives)
    let travel = jitter(flight)
    switch fault {
    case .silent: end(flight, after: request.limits.connect, .timedOut)
    case .refused: end(flight, after: travel, .connectFailed)
    case .unknownHost: end(flight, after: travel, .unknownHost)
    case .answered(let response):
      world.time.after(travel * 2 + .microseconds(1)) { [self] in
        world.trace("request \(id.value): something on the way answers \(response.status)")
        complete(flight, .success(response))
      }
    default: send(flight, fault, connected: travel * 2)
    }
  }

  func cancel(_ id: HTTPRequestID) {
    guard let flight = flights[id] else { return }
    world.time.after(.microseconds(50)) { [self] in complete(flight, .failure(TransportError(.cancelled, "cancelled")))
    }
  }

  /// All of a request was sent; also of one that has ended.
  func isOut(_ id: HTTPRequestID) -> Bool {
    guard let flight = flights[id] else { return true }
    return flight.body.map { $0.sent(at: world.time.nanoseconds) >= $0.byteCount } ?? false
  }

  /// The client is gone: no answers are received.
  func forgetClient() {
    life += 1
    for flight in flights.values {
      flight.completion = nil
      world.time.after(.microseconds(10)) { [self] in breakOff(flight) }
    }
    flights = [:]
    troubledFlights = []
  }

  /// Updates the counters of the requests.
  func countProgress() {
    let now = world.time.nanoseconds
    for flight in flights.values { flight.request.sentBytes?.set(UInt64(flight.body?.sent(at: now) ?? 0)) }
  }

  /// How far a request has come, and when it has last moved. An empty body is in flight without a byte that moves.
  func progress(_ id: HTTPRequestID) -> (sent: Int, movedAt: Int64)? {
    let now = world.time.nanoseconds
    return flights[id].map { flight in
      let sent = flight.body?.sent(at: now) ?? 0
      return (sent, sent > 0 ? flight.body?.moved(at: now) ?? flight.startedAt : flight.startedAt)
    }
  }

  /// The link may be as slow as this.
  var slowestBytesPerSecond: Int { world.scenario.slowTimes > 0 ? max(1, bytesPerSecond / 30) : bytesPerSecond }

  /// Bodies are so much smaller here than real ones that their time limit has to follow from their real size.
  private func timeAllowed(_ flight: Flight) -> Duration {
    guard flight.isBody else { return flight.request.limits.total }
    if world.scenario.isTransportBlind { return UploadConstants.resourceTimeout }
    let bytes = Double(flight.request.body.byteCount) * world.scenario.bodyScale
    return max(flight.request.limits.total, .seconds(2 * bytes / Double(UploadConstants.stallBytesPerSecond)))
  }

  // MARK: In transit

  private func send(_ flight: Flight, _ fault: RequestFault, connected: Duration) {
    let size = flight.request.body.byteCount
    let speed = isSlow || addresses.isSlow(flight.address) ? max(1, bytesPerSecond / 30) : bytesPerSecond
    // Headers and JSON are as long as real ones, and would be nothing beside a real chunk.
    let bodyTime = flight.isBody ? Duration.microseconds(Int64(size) * 1_000_000 / Int64(speed)) : .zero
    world.time.after(connected + jitter(flight)) { [self] in
      guard flight.completion != nil else { return }
      if case .goesAstray(let delay) = fault, flight.request.publishes {
        return goAstray(flight, after: bodyTime, arrivesAfter: delay)
      }
      guard let exchange = deliver(flight, fault) else {
        return end(flight, after: latency, .connectFailed)
      }
      flight.exchange = exchange
      flight.body = BodyProgress(
        startedAt: world.time.nanoseconds, nanoseconds: bodyTime.nanoseconds, byteCount: size,
        stopsAfter: fault.stopsHalfway ? size / 2 : size)
      switch fault {
      case .breaks: end(flight, after: bodyTime / 2, .connectionLost)
      case .stalls:
        let limit = flight.isBody ? flight.request.limits.stall : flight.request.limits.total
        if !world.scenario.isTransportBlind { end(flight, after: bodyTime / 2 + limit, .stalled) }
      case .hangs: awaitAnswer(flight, after: bodyTime)
      default:
        awaitAnswer(flight, after: bodyTime)
        world.time.after(bodyTime) { [self] in bodyArrives(flight, fault, exchange) }
      }
    }
  }

  /// A body that was handed over whole has to be answered in time.
  private func awaitAnswer(_ flight: Flight, after bodyTime: Duration) {
    guard flight.isBody, !world.scenario.isTransportBlind else { return }
    end(flight, after: bodyTime + UploadConstants.requestIdleTimeout, .stalled)
  }

  private func deliver(_ flight: Flight, _ fault: RequestFault) -> (any PeerExchange)? {
    let wire = flight.request.wire(addresses.origin(flight.address))
    return peer.begin(wire, content: { flight.request.body.content }) { [self] response in
      guard let response else {
        return complete(flight, .failure(TransportError(.connectionLost, "the receiver went down")))
      }
      guard !swallows(flight) else { return }
      var delay = jitter(flight)
      if case .answerIsLate(let more) = fault { delay += more }
      world.time.after(delay) { [self] in
        if case .answerIsLost = fault {
          complete(flight, .failure(TransportError(.connectionLost, "the answer was lost")))
        } else {
          complete(flight, .success(response))
        }
      }
    }
  }

  private func bodyArrives(_ flight: Flight, _ fault: RequestFault, _ exchange: any PeerExchange) {
    guard flight.completion != nil, !swallows(flight) else { return }
    var bytes = flight.request.body.content
    if case .arrivesDamaged = fault, let index = flight.request.body.captureBytes.randomElement(using: &world.random) {
      bytes[index] ^= 0x40
      world.trace("request \(flight.id.value): arrives damaged")
    }
    if case .arrivesTwice = fault { sendAgain(flight.request.wire(addresses.origin(flight.address)), bytes) }
    flight.hasArrived = true
    exchange.arrive(bytes)
  }

  /// The request's last byte is sent, then the connection is lost, and all of it reaches the receiver later.
  private func goAstray(_ flight: Flight, after bodyTime: Duration, arrivesAfter delay: Duration) {
    let size = flight.request.body.byteCount
    flight.body = BodyProgress(
      startedAt: world.time.nanoseconds, nanoseconds: bodyTime.nanoseconds, byteCount: size, stopsAfter: size)
    stragglers += 1
    world.time.after(bodyTime) { [self] in
      guard flight.completion != nil else { return stragglers -= 1 }
      let (wire, bytes) = (flight.request.wire(addresses.origin(flight.address)), flight.request.body.content)
      let life = life
      world.time.after(delay) { [self] in
        stragglers -= 1
        guard self.life == life else { return }
        world.trace("network: \(wire.method) \(wire.target) arrives after its connection has gone")
        world.lateTargets.insert(wire.target)
        peer.begin(wire, content: { bytes }) { _ in }?.arrive(bytes)
      }
      end(flight, after: latency, .connectionLost)
    }
  }

  /// A copy of the whole request reaches the receiver once more; its answer is not received.
  private func sendAgain(_ request: WireRequest, _ bytes: [UInt8]) {
    stragglers += 1
    world.time.after(world.random.duration(.microseconds(10)...(.seconds(2)))) { [self] in
      stragglers -= 1
      world.trace("network: \(request.method) \(request.target) arrives a second time")
      peer.begin(request, content: { bytes }) { _ in }?.arrive(bytes)
    }
  }

  private func swallows(_ flight: Flight) -> Bool {
    isSwallowing && (flight.isBody || !world.scenario.hangsOnlyBodies)
  }

  private func end(_ flight: Flight, after delay: Duration, _ kind: TransportError.Kind) {
    world.time.after(delay) { [self] in complete(flight, .failure(TransportError(kind, kind.word))) }
  }

  private func complete(_ flight: Flight, _ result: Result<HTTPResponse, TransportError>) {
    guard let completion = flight.completion else { return }
    flight.completion = nil
    flights[flight.id] = nil
    breakOff(flight)
    let sent = flight.hasArrived ? flight.request.body.byteCount : flight.body?.sent(at: world.time.nanoseconds) ?? 0
    if world.bug != .hideHandedOver { flight.request.sentBytes?.handOver(UInt64(sent)) }
    completion(result)
  }

  /// A request that has ended before its body arrived has lost its connection. What was sent of it until then has arrived.
  private func breakOff(_ flight: Flight) {
    guard !flight.hasArrived, let exchange = flight.exchange else { return }
    let sent = flight.body?.sent(at: world.time.nanoseconds) ?? 0
    exchange.breakOff(after: Array(flight.request.body.content.prefix(sent)))
  }

  private func jitter(_ flight: Flight) -> Duration {
    let latency = addresses.isSlow(flight.address) ? latency * 10 : latency
    return latency + .microseconds(Int64.random(in: 1...max(1, latency.microseconds), using: &world.random))
  }
}

extension HTTPRequest {
  /// The request publishes something under a name.
  fileprivate var publishes: Bool {
    switch method {
    case .put: url.contains("/v1/files/")
    case .post: url.hasSuffix("/v1/files") || url.hasSuffix("/commit")
    default: false
    }
  }

  fileprivate func wire(_ origin: String) -> WireRequest {
    let fields = headers.map { (name: $0.name, value: $0.value) } + [("Content-Length", String(body.byteCount))]
    return WireRequest(method: method.rawValue, target: String(url.dropFirst(origin.count)), fields: fields)
  }
}

extension HTTPRequest.Body {
  /// Where bytes of captures lie, which digests and tags protect.
  fileprivate var captureBytes: [Int] {
    var offset = 0
    var indices: [Int] = []
    for piece in pieces {
      if case .pinned = piece { indices += offset..<(offset + piece.byteCount) }
      offset += piece.byteCount
    }
    return indices
  }
}

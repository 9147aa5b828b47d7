import ChunkProtocol
import ReceiverCore
import UploadEngine

/// Carries requests to the receiver and answers back, as slowly and as badly as the scenario wants. To the client it behaves
/// as the transport does: each request is answered once, also when it is cancelled.
final class SimulatedNetwork {
  typealias Completion = (Result<HTTPResponse, TransportError>) -> Void

  /// A request that has not been answered.
  private final class Flight {
    let id: HTTPRequestID
    let request: HTTPRequest
    var completion: Completion?

    init(_ id: HTTPRequestID, _ request: HTTPRequest, _ completion: @escaping Completion) {
      self.id = id
      self.request = request
      self.completion = completion
    }
  }

  /// What becomes of a request.
  private enum Fate {
    case arrives
    case refused, unknownHost
    case breaks, stalls
    case answerIsLost
    case answerIsLate(Duration)
    case arrivesTwice
    case arrivesDamaged
    /// Something between the two sides answers.
    case answered(HTTPResponse)
  }

  static let origin = "https://receiver.test"

  private unowned let world: World
  private unowned let receiver: SimulatedReceiver
  private var flights: [HTTPRequestID: Flight] = [:]
  private var isPartitioned = false
  private let latency: Duration
  private let bytesPerSecond: Int
  /// Copies of requests, and answers, that are still on their way.
  private(set) var stragglers = 0

  init(_ world: World, _ receiver: SimulatedReceiver) {
    self.world = world
    self.receiver = receiver
    latency = world.random.duration(world.scenario.latency)
    let bounds = world.scenario.bytesPerSecond
    var speed = bounds.lowerBound
    while speed < bounds.upperBound, world.random.happens(0.8) { speed = min(bounds.upperBound, speed * 4) }
    bytesPerSecond = speed
  }

  var isQuiet: Bool { flights.isEmpty && stragglers == 0 }

  func partition(for duration: Duration) {
    guard !isPartitioned else { return }
    isPartitioned = true
    world.trace("network: nothing gets through")
    world.time.after(duration) { [self] in
      isPartitioned = false
      world.trace("network: is back")
    }
  }

  func heal() { isPartitioned = false }

  /// `isBroken` loses the request at once: its own machine could not send it.
  func start(_ id: HTTPRequestID, _ request: HTTPRequest, isBroken: Bool, _ completion: @escaping Completion) {
    let flight = Flight(id, request, completion)
    flights[id] = flight
    end(flight, after: request.limits.total, .timedOut)
    guard !isBroken else { return end(flight, after: latency, .connectionLost) }
    guard !isPartitioned else { return end(flight, after: request.limits.connect, .timedOut) }
    let fate = drawFate(request)
    let travel = jitter()
    switch fate {
    case .refused: end(flight, after: travel, .connectFailed)
    case .unknownHost: end(flight, after: travel, .unknownHost)
    case .answered(let response):
      world.time.after(travel * 2 + .microseconds(1)) { [self] in
        world.trace("request \(id.value): something on the way answers \(response.status)")
        complete(flight, .success(response))
      }
    default: send(flight, fate, connected: travel * 2)
    }
  }

  func cancel(_ id: HTTPRequestID) {
    guard let flight = flights[id] else { return }
    world.time.after(.microseconds(50)) { [self] in complete(flight, .failure(TransportError(.cancelled, "cancelled")))
    }
  }

  /// The client is gone: nobody hears the answers.
  func forgetClient() {
    for flight in flights.values { flight.completion = nil }
    flights = [:]
  }

  // MARK: On the way

  private func send(_ flight: Flight, _ fate: Fate, connected: Duration) {
    let size = flight.request.body.count
    let bodyTime = Duration.microseconds(Int64(size) * 1_000_000 / Int64(bytesPerSecond))
    let headAt = connected + jitter()
    world.time.after(headAt) { [self] in
      guard flight.completion != nil else { return }
      guard let exchange = deliver(flight, fate) else {
        return end(flight, after: latency, .connectFailed)
      }
      switch fate {
      case .breaks:
        world.time.after(bodyTime / 2) { [self] in
          exchange.breakOff()
          complete(flight, .failure(TransportError(.connectionLost, "the connection broke")))
        }
      case .stalls:
        let limit = flight.request.limits.stall > .zero ? flight.request.limits.stall : flight.request.limits.total
        world.time.after(limit) { [self] in
          exchange.breakOff()
          complete(flight, .failure(TransportError(.stalled, "too slow")))
        }
      default:
        world.time.after(bodyTime) { [self] in bodyArrives(flight, fate, exchange) }
      }
    }
  }

  private func deliver(_ flight: Flight, _ fate: Fate) -> SimulatedReceiver.Exchange? {
    receiver.begin(flight.request.wire) { [self] answer in
      guard let answer else {
        return complete(flight, .failure(TransportError(.connectionLost, "the receiver went down")))
      }
      var delay = jitter()
      if case .answerIsLate(let more) = fate { delay += more }
      world.time.after(delay) { [self] in
        if case .answerIsLost = fate {
          complete(flight, .failure(TransportError(.connectionLost, "the answer was lost")))
        } else {
          complete(flight, .success(answer.response))
        }
      }
    }
  }

  private func bodyArrives(_ flight: Flight, _ fate: Fate, _ exchange: SimulatedReceiver.Exchange) {
    // A request that was cancelled meanwhile has lost its connection.
    guard flight.completion != nil else { return exchange.breakOff() }
    var bytes = flight.request.body.copy
    if case .arrivesDamaged = fate, case .pinned = flight.request.body, !bytes.isEmpty {
      bytes[Int.random(in: 0..<bytes.count, using: &world.random)] ^= 0x40
      world.trace("request \(flight.id.value): arrives damaged")
    }
    if case .arrivesTwice = fate { sendAgain(flight.request.wire, bytes) }
    exchange.arrive(bytes)
  }

  /// A copy of the whole request reaches the receiver once more; nobody hears what it answers.
  private func sendAgain(_ request: WireRequest, _ bytes: [UInt8]) {
    stragglers += 1
    world.time.after(world.random.duration(.microseconds(10)...(.seconds(2)))) { [self] in
      stragglers -= 1
      world.trace("network: \(request.method) \(request.target) arrives a second time")
      receiver.begin(request) { _ in }?.arrive(bytes)
    }
  }

  private func end(_ flight: Flight, after delay: Duration, _ kind: TransportError.Kind) {
    world.time.after(delay) { [self] in complete(flight, .failure(TransportError(kind, "\(kind)"))) }
  }

  private func complete(_ flight: Flight, _ result: Result<HTTPResponse, TransportError>) {
    guard let completion = flight.completion else { return }
    flight.completion = nil
    flights[flight.id] = nil
    completion(result)
  }

  private func jitter() -> Duration {
    latency + .microseconds(Int64.random(in: 1...max(1, latency.microseconds), using: &world.random))
  }
}

// MARK: Trouble

extension SimulatedNetwork {
  private func drawFate(_ request: HTTPRequest) -> Fate {
    let scenario = world.scenario
    if world.strikes(scenario.refusals) { return world.random.happens(0.5) ? .refused : .unknownHost }
    if world.strikes(scenario.lostRequests) { return .breaks }
    if world.strikes(scenario.stalls) { return .stalls }
    if world.strikes(scenario.lostAnswers) { return .answerIsLost }
    if world.strikes(scenario.lateAnswers) {
      return .answerIsLate(world.random.duration(.milliseconds(100)...(.seconds(60))))
    }
    if world.strikes(scenario.duplicates) { return .arrivesTwice }
    if world.strikes(scenario.damage) { return .arrivesDamaged }
    if world.strikes(scenario.badGateways) { return .answered(HTTPResponse(status: pick([500, 502, 504, 599]))) }
    if world.strikes(scenario.busyAnswers) {
      let seconds = String(Int.random(in: 0...40, using: &world.random))
      return .answered(HTTPResponse(status: pick([429, 503]), headers: [HTTPHeader("retry-after", seconds)]))
    }
    if world.strikes(scenario.tooEarly) { return .answered(HTTPResponse(status: 425)) }
    if world.strikes(scenario.forgottenSessions) { return .answered(HTTPResponse(status: pick([404, 410]))) }
    if world.strikes(scenario.nonsense) { return .answered(nonsense()) }
    if world.strikes(scenario.hardRefusals) { return .answered(HTTPResponse(status: pick([400, 401, 403, 413]))) }
    return .arrives
  }

  private func nonsense() -> HTTPResponse {
    let bodies: [[UInt8]] = [
      [], Array("{".utf8), Array("<html>welcome</html>".utf8), Array("{\"id\":\"..\",\"chunk_size\":-1}".utf8),
      world.random.bytes(40), Array("{\"missing\":[0,99999999]}".utf8), Array("[[[[[[".utf8),
    ]
    return HTTPResponse(
      status: pick([200, 201, 204, 206, 302, 409, 418]),
      body: bodies[Int.random(in: 0..<bodies.count, using: &world.random)])
  }

  private func pick(_ numbers: [Int]) -> Int { numbers[Int.random(in: 0..<numbers.count, using: &world.random)] }
}

extension HTTPRequest {
  fileprivate var wire: WireRequest {
    let fields = headers.map { (name: $0.name, value: $0.value) } + [("Content-Length", String(body.count))]
    return WireRequest(
      method: method.rawValue, target: String(url.dropFirst(SimulatedNetwork.origin.count)), fields: fields)
  }
}

extension HTTPRequest.Body {
  fileprivate var count: Int {
    switch self {
    case .none: 0
    case .bytes(let bytes): bytes.count
    case .pinned(let pinned): pinned.bytes.count
    }
  }

  fileprivate var copy: [UInt8] {
    switch self {
    case .none: []
    case .bytes(let bytes): bytes
    case .pinned(let pinned): Array(pinned.bytes)
    }
  }
}

extension Answer {
  fileprivate var response: HTTPResponse {
    HTTPResponse(
      status: status, headers: fields.map { HTTPHeader($0.name.lowercased(), $0.value) }, body: body,
      connection: HTTPConnectionFacts(protocolName: "HTTP/1.1"))
  }
}

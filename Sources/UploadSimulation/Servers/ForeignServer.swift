import ChunkProtocol
import Lookup
import OrderedCollections
import ReceiverCore
import TransferModel

/// How a server of another protocol handles requests: a machine whose state is on its disk with each answer.
protocol ForeignProtocol {
  /// The publications, with the names that the client is to use; the server reads and empties the list.
  var publications: [ForeignPublication] { get set }
  /// A whole request.
  mutating func answer(_ request: ForeignRequest) -> HTTPResponse
  /// A lie in the protocol's own words; nil where the protocol has none about this request. `honest` is the answer to
  /// what was done, if it was.
  func lie(_ lie: ServerLie, about request: ForeignRequest, _ honest: HTTPResponse?) -> HTTPResponse?
  /// The length of the upload that a request concerns, where that is known.
  func lengthBytes(of request: ForeignRequest) -> Int?
  /// A request whose connection broke; `request.body` is what had arrived.
  mutating func broke(_ request: ForeignRequest)
  /// Incomplete uploads are dropped.
  mutating func expire()
  var leftovers: [String] { get }
}

extension ForeignProtocol {
  func lie(_ lie: ServerLie, about request: ForeignRequest, _ honest: HTTPResponse?) -> HTTPResponse? { nil }
  func lengthBytes(of request: ForeignRequest) -> Int? { nil }
}

/// A content under a name.
struct ForeignPublication {
  var name: String
  var bytes: [UInt8]
  var receipt: String
}

/// A request with what has arrived of its body.
struct ForeignRequest {
  let wire: WireRequest
  var body: [UInt8]

  var method: String { wire.method }
  var path: Substring { wire.target.prefix { $0 != "?" } }
  /// A parameter of the query; empty for one without a value.
  func parameter(_ name: String) -> Substring? {
    for pair in wire.target.drop(while: { $0 != "?" }).dropFirst().split(separator: "&") {
      if pair.prefix(while: { $0 != "=" }) == name { return pair.drop { $0 != "=" }.dropFirst() }
    }
    return nil
  }

  func field(_ name: String) -> String? { wire.field(name) }
  func number(_ name: String) -> Int? { field(name).flatMap { Int($0) } }
}

/// A server of another protocol, which may lie.
final class ForeignServer: SimulatedPeer {
  final class Exchange: PeerExchange {
    fileprivate let id: Int
    fileprivate let request: WireRequest
    /// The body that is being sent.
    fileprivate let content: [UInt8]
    fileprivate var answer: ((HTTPResponse?) -> Void)?
    fileprivate weak var server: ForeignServer?

    fileprivate init(
      _ id: Int, _ request: WireRequest, _ content: [UInt8], _ server: ForeignServer,
      _ answer: @escaping (HTTPResponse?) -> Void
    ) {
      self.id = id
      self.request = request
      self.content = content
      self.server = server
      self.answer = answer
    }

    func arrive(_ bytes: [UInt8]) { server?.arrived(self, bytes) }
    func breakOff(after arrived: [UInt8]) { server?.broke(self, after: arrived) }
  }

  private unowned let world: World
  private let site: Site
  private var model: any ForeignProtocol
  private let lie: ServerLie?
  private var published: LookupTable<String, [UInt8]> = [:]
  private var waiting: OrderedDictionary<Int, Exchange> = [:]
  private var exchangeCount = 0
  /// How far each upload can have been sent at most.
  private var sentMax: LookupTable<String, Int> = [:]
  private(set) var isUp = false

  init(_ world: World, _ site: Site, _ model: any ForeignProtocol) {
    self.world = world
    self.site = site
    self.model = model
    let mayBeHonest = world.oracles.count > 1
    let lies = world.scenario.isLiar && !(mayBeHonest && world.random.happens(0.5))
    lie = lies ? ServerLie.choice(in: world.scenario).randomElement(using: &world.random) : nil
    site.oracle.look = { [unowned self] in shown($0) }
    if let lie { world.trace("server: lies by \(lie)") }
  }

  var isQuiet: Bool { waiting.isEmpty }
  var leftovers: [String] { model.leftovers }
  func shown(_ name: String) -> [UInt8]? { published[name] }
  func liftQuota() {}
  func checkPublished() {}

  func start() {
    isUp = true
    world.trace("server: starts")
    tick()
  }

  /// Answered requests are on its disk; those in flight are lost.
  func crash() {
    guard isUp else { return }
    world.trace("server: crashes")
    isUp = false
    let lost = Array(waiting.values)
    for exchange in lost { noteSent(ForeignRequest(wire: exchange.request, body: exchange.content)) }
    waiting = [:]
    // The caller may be in the middle of a request.
    world.time.after(.microseconds(10)) { for exchange in lost { exchange.end(nil) } }
    world.time.after(world.random.duration(.milliseconds(50)...(.seconds(20)))) { [self] in
      if !isUp { start() }
    }
  }

  /// Uploads are kept for a day; a liar's for less.
  private func tick() {
    let rests =
      lie == .expires && !world.isHealed ? world.random.duration(.seconds(1)...(.seconds(20))) : .seconds(86_400)
    world.time.after(rests) { [self] in
      guard isUp else { return }
      model.expire()
      tick()
    }
  }

  func begin(
    _ request: WireRequest, content: @escaping () -> [UInt8], answer: @escaping (HTTPResponse?) -> Void
  ) -> (any PeerExchange)? {
    guard isUp else { return nil }
    exchangeCount += 1
    let exchange = Exchange(exchangeCount, request, content(), self, answer)
    waiting[exchange.id] = exchange
    return exchange
  }

  private func arrived(_ exchange: Exchange, _ bytes: [UInt8]) {
    guard waiting.removeValue(forKey: exchange.id) != nil else { return }
    let request = ForeignRequest(wire: exchange.request, body: bytes)
    noteSent(request)
    exchange.end(respond(to: request))
  }

  private func broke(_ exchange: Exchange, after arrived: [UInt8]) {
    guard waiting.removeValue(forKey: exchange.id) != nil else { return }
    var request = ForeignRequest(wire: exchange.request, body: exchange.content)
    if lie == .jumps, !world.isHealed, request.method == "PATCH" {
      request.body = padded(request, after: arrived)
    } else {
      request.body.removeLast(request.body.isEmpty ? 0 : Int.random(in: 1...request.body.count, using: &world.random))
    }
    model.broke(request)
    publish()
    exchange.end(nil)
  }

  /// What has arrived of a request, and zeros to behind all that was ever sent of its upload: zeros that replace bytes
  /// that were sent once and lost could not be detected.
  private func padded(_ request: ForeignRequest, after arrived: [UInt8]) -> [UInt8] {
    noteSent(ForeignRequest(wire: request.wire, body: arrived))
    let start = request.number("upload-offset") ?? 0
    // An upload that has its length is complete, and thereby published.
    let end = min(request.body.count, model.lengthBytes(of: request).map { $0 - start - 1 } ?? .max)
    let least = sentMax[String(request.path), default: 0] - start + 1
    guard least <= end else { return Array(arrived.prefix(max(0, end))) }
    let count = Int.random(in: least...end, using: &world.random)
    world.trace("server: has \(count) bytes from \(start) on, of which \(arrived.count) were sent")
    return arrived + [UInt8](repeating: 0, count: count - arrived.count)
  }

  private func noteSent(_ request: ForeignRequest) {
    guard let offset = request.number("upload-offset") else { return }
    sentMax[String(request.path)] = max(sentMax[String(request.path)] ?? 0, offset + request.body.count)
  }

  private func respond(to request: ForeignRequest) -> HTTPResponse {
    guard let lie, !world.isHealed, strikes(lie, request) else { return act(on: request) }
    // Some lies act and deny it, others do not act at all.
    let isAfterwards = lie.isOfAnswer || world.random.happens(0.3)
    if world.scenario.liesInOwnWords { return respond(to: request, by: lie, isAfterwards: isAfterwards) }
    let honest = isAfterwards ? act(on: request) : nil
    let answer = lie.answer(to: request, honest, lengthBytes: model.lengthBytes(of: request), &world.random)
    world.trace("server: lies with \(answer.status)")
    return answer
  }

  private func strikes(_ lie: ServerLie, _ request: ForeignRequest) -> Bool {
    world.scenario.refusesEachBody ? !request.body.isEmpty : lie.strikes(request, &world.random)
  }

  private func respond(to request: ForeignRequest, by lie: ServerLie, isAfterwards: Bool) -> HTTPResponse {
    // There is no lie about most requests.
    guard isAfterwards || model.lie(lie, about: request, nil) != nil else { return act(on: request) }
    let honest = isAfterwards ? act(on: request) : nil
    guard let answer = model.lie(lie, about: request, honest) else { return honest ?? HTTPResponse(status: 500) }
    world.trace("server: lies with \(answer.status)")
    return answer
  }

  private func act(on request: ForeignRequest) -> HTTPResponse {
    let answer = model.answer(request)
    publish()
    return answer
  }

  private func publish() {
    for publication in model.publications {
      published[publication.name] = publication.bytes
      world.trace("server: publishes \(publication.name) with \(publication.bytes.count) bytes")
      site.oracle.published(publication.bytes, name: publication.name, receipt: publication.receipt)
    }
    model.publications = []
  }
}

extension ForeignServer.Exchange {
  fileprivate func end(_ response: HTTPResponse?) {
    let answer = answer
    self.answer = nil
    answer?(response)
  }
}

import ReceiverCore
import TransferModel

/// What many clients ask of one receiver.
final class FleetLoad {
  private unowned let world: World
  /// Requests that the receiver takes at once; one more is told to come back, as by a receiver whose memory for bodies is used up.
  let placesMax: Int
  fileprivate(set) var placesTaken = 0
  fileprivate(set) var busyCount = 0
  /// Requests that were sent, also in vain, in each virtual second.
  private(set) var sentBySecond: [Int] = []
  private(set) var requestCount = 0

  init(_ world: World, placesMax: Int) {
    self.world = world
    self.placesMax = placesMax
  }

  func isSent() {
    requestCount += 1
    let second = Int(world.time.seconds)
    while sentBySecond.count <= second { sentBySecond.append(0) }
    sentBySecond[second] += 1
  }
}

/// One client's way into the receiver that all have.
final class FleetDoor: SimulatedPeer {
  private final class Exchange: PeerExchange {
    private let whole: (any PeerExchange)?

    init(_ whole: (any PeerExchange)?) { self.whole = whole }

    func arrive(_ bytes: [UInt8]) { whole?.arrive(bytes) }
    func breakOff(after arrived: [UInt8]) { whole?.breakOff(after: arrived) }
  }

  private unowned let world: World
  private let receiver: SimulatedReceiver
  private let load: FleetLoad
  /// The planted mistake of `starveOne`: each of its requests is told to come back.
  private let isStarved: Bool

  init(_ world: World, _ receiver: SimulatedReceiver, _ load: FleetLoad, isStarved: Bool) {
    self.world = world
    self.receiver = receiver
    self.load = load
    self.isStarved = isStarved
  }

  var isUp: Bool { receiver.isUp }
  var isQuiet: Bool { receiver.isQuiet }
  var leftovers: [String] { receiver.leftovers }
  func start() { receiver.start() }
  func crash() { receiver.crash() }
  func liftQuota() { receiver.liftQuota() }
  func shown(_ name: String) -> [UInt8]? { receiver.shown(name) }
  func checkPublished() { receiver.checkPublished() }

  func begin(
    _ request: WireRequest, content: @escaping () -> [UInt8], answer: @escaping (HTTPResponse?) -> Void
  ) -> (any PeerExchange)? {
    guard receiver.isUp else { return nil }
    let isRefused = isStarved && world.time.seconds < FleetRun.lateSeconds
    guard load.placesTaken < load.placesMax, !isRefused else {
      load.busyCount += 1
      world.trace("receiver: \(request.method) \(request.target) → busy")
      world.time.after(.microseconds(10)) { answer(.busy) }
      return Exchange(nil)
    }
    load.placesTaken += 1
    let exchange = receiver.begin(request, content: content) { [load] response in
      load.placesTaken -= 1
      answer(response)
    }
    guard let exchange else {
      load.placesTaken -= 1
      return nil
    }
    return Exchange(exchange)
  }
}

extension HTTPResponse {
  fileprivate static let busy = HTTPResponse(status: 503, headers: [HTTPHeader("retry-after", "1")])
}

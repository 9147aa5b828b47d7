import Destinations
import FileModel
import Lookup

/// Many machines with one receiver, which goes down and comes back while they upload.
final class FleetRun {
  /// By then everything has come to an end, and what has not been delivered never will be.
  static let lateSeconds = 240.0
  /// In any second no more than so many requests for each client go out, and none of them comes again at once.
  private static let requestsOfClient = 16
  /// Of a receiver that has been away for so long, no more than one for each client and second.
  private static let noticingSeconds = 3

  private let world: World
  private let receiver: SimulatedReceiver
  private let load: FleetLoad
  private let clients: [FleetClient]
  private var eventCount = 0
  /// When the receiver went down, and was back, in seconds.
  private var downAt: Double?
  private var backAt: Double?
  private var isToGoDown = false
  private var mostSessions = 0

  init(_ world: World) throws(DestinationError) {
    self.world = world
    let count = Int.random(in: 60...160, using: &world.random)
    receiver = SimulatedReceiver(world)
    load = FleetLoad(world, placesMax: Int.random(in: count / 16...count / 4, using: &world.random))
    var clients: [FleetClient] = []
    for number in 0..<count {
      let captures = (0..<Int.random(in: 1...2, using: &world.random)).map { index in
        let size = world.random.happens(0.5) ? world.scenario.wholeFileBytesMax / 2 : world.scenario.fileBytesMax
        return FleetClient.Capture(
          FileID(high: UInt64(number), low: UInt64(index + 1)), RelativePath("camera-\(number)/\(index)"),
          world.random.bytes(Int.random(in: 1...size, using: &world.random)))
      }
      let door = FleetDoor(world, receiver, load, isStarved: number == 0 && world.bug == .starveOne)
      clients.append(try FleetClient(world, door, captures))
    }
    self.clients = clients
  }

  func toEnd() -> Simulation.Result {
    receiver.start()
    for client in clients {
      client.requestIsSent = { [unowned self] in load.isSent() }
      client.start()
    }
    // All at once, or one after the other.
    let spread: Duration = world.random.happens(0.5) ? .seconds(1) : .seconds(30)
    for client in clients {
      for capture in client.captures {
        world.time.after(world.random.duration(.zero...spread)) { client.write(capture) }
      }
    }
    // At any moment, or when something is published and its client has not heard of it.
    let waits = world.random.happens(0.5)
    world.time.after(world.random.duration(.milliseconds(200)...spread)) { [self] in
      if waits { isToGoDown = true } else { goDown() }
    }
    world.wasPublished = { [unowned self] _ in if isToGoDown { goDown() } }
    look()
    world.trace("\(clients.count) clients, \(load.placesMax) places")
    while world.violation == nil, !isOver, world.time.step() {
      eventCount += 1
      if world.time.seconds > Self.lateSeconds * 2 { world.fail(.progress, "not everything has been delivered") }
    }
    check()
    world.time.end()
    let (lines, fingerprint) = world.endTrace([eventCount, load.requestCount, world.oracle.publicationCount])
    return Simulation.Result(
      violation: world.violation, effectCount: world.effectCount, eventCount: eventCount, seconds: world.time.seconds,
      publicationCount: world.oracle.publicationCount, fingerprint: fingerprint, trace: lines)
  }

  private var captures: [FleetClient.Capture] { clients.flatMap(\.captures) }
  private var isOver: Bool {
    (backAt != nil || isToGoDown) && clients.allSatisfy(\.isDone) && clients.allSatisfy(\.isIdle)
  }

  private func goDown() {
    isToGoDown = false
    downAt = world.time.seconds
    receiver.crash()
    lookForReturn()
  }

  private func lookForReturn() {
    world.time.after(.milliseconds(10)) { [self] in
      guard receiver.isUp else { return lookForReturn() }
      backAt = world.time.seconds
      if world.bug == .loseUploads { for client in clients { client.forget() } }
    }
  }

  /// Ten times a second.
  private func look() {
    world.time.after(.milliseconds(100)) { [self] in
      let sessions = receiver.store.openSessions.count
      mostSessions = max(mostSessions, sessions)
      let written = captures.count { $0.closedAt != nil && $0.deliveredAt == nil }
      if sessions > written {
        world.fail(.receiverSessions, "\(sessions) sessions are open for \(written) captures that are not delivered")
      }
      look()
    }
  }

  // MARK: Checks

  private func check() {
    guard world.violation == nil else { return }
    for capture in captures where receiver.shown(capture.path.displayText) != capture.bytes {
      world.fail(.delivery, "\(capture.path.displayText) is not published as it is")
    }
    if world.oracle.publicationCount != captures.count {
      world.fail(.publishedOnce, "\(captures.count) captures were published \(world.oracle.publicationCount) times")
    }
    checkFairness()
    checkRequests()
  }

  /// Time counts from when both the capture and the receiver are there.
  private func checkFairness() {
    guard let downAt, let backAt else { return }
    let outage = backAt - downAt
    let waits = captures.map { capture -> Double in
      let (closed, delivered) = (capture.closedAt ?? 0, capture.deliveredAt ?? 0)
      return delivered - (closed < backAt && delivered > backAt ? backAt : closed)
    }.sorted()
    let (median, slowest) = (waits[waits.count / 2], waits[waits.count - 1])
    world.trace("median \(Int(median * 1000)) ms, slowest \(Int(slowest * 1000)) ms, outage \(Int(outage * 1000)) ms")
    let bound = 10 * median + 2 * outage + 20
    if slowest > bound {
      world.fail(.starvation, "the slowest capture took \(Int(slowest)) s, the median \(Int(median * 1000)) ms")
    }
  }

  private func checkRequests() {
    let most = load.sentBySecond.max() ?? 0
    world.trace("\(load.requestCount) requests, \(most) in a second, \(load.busyCount) busy, \(mostSessions) sessions")
    let bound = Self.requestsOfClient * clients.count
    if most > bound { world.fail(.retryStorm, "\(most) requests of \(clients.count) clients in one second") }
    guard let downAt, let backAt else { return }
    let away = load.sentBySecond.enumerated().prefix(Int(backAt)).dropFirst(Int(downAt) + Self.noticingSeconds)
    for (_, sent) in away where sent > clients.count {
      world.fail(
        .retryStorm,
        "\(sent) requests of \(clients.count) clients in one second without a receiver")
    }
  }
}

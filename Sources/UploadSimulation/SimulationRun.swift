import Destinations
import FileModel
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// The parts of one run, and its ages: faults, then none, then good conditions, then the end of all sessions.
final class SimulationRun {
  private enum Age {
    case trouble
    /// Nothing fails any more, and everything ends.
    case healed
    /// One more file, on a good link.
    case probe
    /// More than a week later.
    case late
  }

  /// Beyond this the client does not end without a user's action.
  private static let healedSecondsMax: Int64 = 1800
  /// Where only bodies can prove the destination, pauses grow to an hour.
  private static let healedSecondsMaxOfLiars: Int64 = 4 * 3600
  private static let eventsMax = 3_000_000
  private static let probe = RelativePath("probe")

  private let world: World
  private let capture: SimulatedCapture
  private let routes: [Route]
  private let daemon: SimulatedDaemon
  private let writers: SimulatedWriters

  /// The path to one destination.
  private struct Route {
    let site: Site
    let peer: any SimulatedPeer
    let network: SimulatedNetwork
    let client: SimulatedClient
  }

  private var eventCount = 0
  private var age = Age.trouble
  /// The age may end once everything is idle.
  private var isComplete = false
  /// Cancelled contents that stay so.
  private var cancelled: LookupTable<FileID, CancelledContent> = [:]
  private var legitimateFailures: LookupSet<String> = []

  init(_ world: World) throws(DestinationError) {
    self.world = world
    capture = SimulatedCapture(world)
    var routes: [Route] = []
    for site in Site.all(world) {
      let peer = site.server.peer(world, site) ?? SimulatedReceiver(world)
      let network = SimulatedNetwork(world, peer, isTroubled: site.isTroubled)
      let client = try SimulatedClient(world, capture, network, site)
      routes.append(Route(site: site, peer: peer, network: network, client: client))
    }
    self.routes = routes
    daemon = SimulatedDaemon(world, capture, routes.map(\.client))
    writers = SimulatedWriters(world, capture)
    // A changed content is wanted again, also where a power cut reverts the change at once.
    world.contentChanges = { [unowned self] in cancelled[$0]?.isFinal = false }
  }

  /// The route with the faults.
  private var troubled: Route { routes[routes.count - 1] }
  /// Commands and waits are for runs with one destination.
  private var client: SimulatedClient { routes[0].client }
  private var isQuiet: Bool { routes.allSatisfy { $0.client.isIdle && $0.peer.isQuiet } }

  private var healedSecondsMax: Int64 { world.scenario.isLiar ? Self.healedSecondsMaxOfLiars : Self.healedSecondsMax }

  func toEnd() -> Simulation.Result {
    for route in routes { route.peer.start() }
    daemon.start()
    let active = Duration.seconds(Int64.random(in: world.scenario.seconds, using: &world.random))
    if world.scenario.isFixed { writers.runFixed() } else { writers.start(until: active) }
    world.time.after(.seconds(1)) { [self] in trouble(until: world.time.nanoseconds + active.nanoseconds) }
    world.time.after(active) { [self] in heal() }
    let limit = world.time.nanoseconds + active.nanoseconds + healedSecondsMax * 1_000_000_000
    while world.violation == nil, world.time.step() {
      eventCount += 1
      if isComplete, isQuiet, !nextAge() { break }
      if world.time.nanoseconds > limit {
        checkDelivery()
        world.fail(.progress, "not everything has come to an end")
      }
      if eventCount > Self.eventsMax { world.fail(.events, "\(eventCount) events have happened") }
    }
    world.time.end()
    let (lines, fingerprint) = world.endTrace([eventCount, world.effectCount, world.oracle.publicationCount])
    return Simulation.Result(
      violation: world.violation, effectCount: world.effectCount, eventCount: eventCount, seconds: world.time.seconds,
      publicationCount: world.oracle.publicationCount, fingerprint: fingerprint, trace: lines)
  }

  /// Everything of this age is done; false when there is no other.
  private func nextAge() -> Bool {
    isComplete = false
    checkDelivery()
    for route in routes {
      route.client.checkIdle()
      route.peer.checkPublished()
    }
    switch age {
    case .trouble: return true
    case .healed:
      age = .probe
      if world.scenario.isFixed { isComplete = true } else { world.time.after(.seconds(60)) { [self] in writeProbe() } }
    case .probe:
      age = .late
      world.time.sleep(for: .seconds(8 * 86_400))
      world.trace("eight days later")
      world.time.after(.seconds(10)) { [self] in isComplete = true }
    case .late:
      let leftovers = routes.flatMap(\.peer.leftovers)
      if !leftovers.isEmpty { world.fail(.expiry, "after more than a week there is still \(leftovers[0])") }
      return false
    }
    return true
  }

  private func heal() {
    age = .healed
    world.heal()
    for route in routes {
      route.network.heal()
      route.peer.liftQuota()
      if !route.peer.isUp { route.peer.start() }
      route.peer.retryQuarantined()
    }
    // What could not be read at its start is read at the next one.
    if world.scenario.failingDisks > 0 { daemon.stop() }
    if !daemon.isUp { daemon.start() }
    writers.end()
    // A user may retry what has failed.
    let retries = world.random.happens(0.5)
    world.time.after(.seconds(2)) { [self] in endTrouble(retries: retries) }
    legitimateFailures = retries ? [] : world.scenario.legitimateFailures
  }

  /// A late answer may end a file for an earlier fault: a user who retries does so once all answers are there.
  private func endTrouble(retries: Bool) {
    if retries, routes.contains(where: { $0.network.hasTroubledFlights }) {
      return world.time.after(.seconds(1)) { [self] in endTrouble(retries: retries) }
    }
    if retries { for route in routes { route.client.retryAll() } }
    isComplete = true
  }

  /// The delay from close to receipt does not grow with the file, and on a good link nothing rests.
  private func writeProbe() {
    world.isGood = true
    for route in routes { route.network.improve() }
    let count = Int.random(in: 0...(world.scenario.fileBytesMax * 2), using: &world.random)
    writers.writeProbe(Self.probe, count) { [self] in
      let closedAt = world.time.nanoseconds
      world.trace("the probe is closed with \(count) bytes")
      let allowed = timeAllowed(forTailOf: count)
      world.time.after(allowed) { [self] in
        isComplete = true
        if routes.allSatisfy({ $0.site.oracle.deliveries[Self.probe] ?? 0 >= closedAt }) { return }
        world.fail(.tail, "\(count) bytes are not delivered \(allowed.microseconds / 1000) ms after their close")
      }
    }
  }

  /// A second, which is less than two of the shortest rests, and a round trip for every four chunks. The slowest tier
  /// sends four chunks at once where they are taken together. One of the addresses may not answer, which takes as long
  /// to detect as a connection may take.
  private func timeAllowed(forTailOf count: Int) -> Duration {
    let chunks = count / world.scenario.chunkBytes + 1
    let together = routes.allSatisfy(\.site.server.takesChunksTogether) ? 4 : 1
    let time: Duration = .seconds(1) + .milliseconds(200) * (chunks / together)
    return routes[0].network.addresses.isOneDead ? time + UploadConstants.connectionTimeout * 2 : time
  }

  /// Each file with a final name shows its last content under it, or reports why not. Evicted contents are at the
  /// receiver.
  private func checkDelivery() {
    checkCancelled()
    for route in routes { checkDelivery(by: route) }
  }

  private func checkDelivery(by route: Route) {
    let (client, oracle) = (route.client, route.site.oracle)
    for name in capture.names where !TemporaryNameRule.standard.matches(name.lastComponent) && oracle.isFor(name) {
      guard let file = capture.file(named: name) else { continue }
      let published = client.publishedName(of: file.id, at: name)
      let shown = route.peer.shown(published)
      if shown == file.bytes { continue }
      let (state, code) = client.explanation(of: file.id)
      if state == .complete, let whole = file.wholeDelivery, shown == whole { continue }
      if state == .failed, let code, route.site.isTroubled, legitimateFailures.contains(code) { continue }
      // Parts that were given up here were published, and what is left here differs: changed or renamed before the rest
      // of it was gone, or truncated by a power cut. Nothing joins the two any more.
      let isLackingParts = code == "released-part-lost" || code == "released-part-away"
      if state == .failed, isLackingParts, file.isPartlyDelivered { continue }
      // A client that wants the file takes the parts of another one for its own, as far as there are any.
      if file.isMistaken, state == .complete || isLackingParts { continue }
      if state == .cancelled, cancelled[file.id] != nil { continue }
      if state == .interrupted, file.integrity.interruption != nil || file.isLost || file.mayBeDoubted { continue }
      if code == "older-than-delivered", file.isPutBack || file.isReplaced { continue }
      if code == "older-than-delivered", capture.looksOlder(file) { continue }
      // The file was delivered before, and its remains here are not published anew.
      if state == .complete, file.isRemains { continue }
      // Only the label had the chunk length in time, and the failure names the setting that continues the upload.
      if state == .failed, code == "released-part-away", world.scenario.lostStates > 0 { continue }
      if state == .failed, code == "released-part-lost", !file.isRemains {
        world.fail(.onlyCopy, "\(name.displayText) (\(file.id)) fails for parts that the server has")
      }
      world.fail(
        .delivery,
        "\(name.displayText) (\(file.id)) is not published as it is, as \(published): \(state?.word ?? "unknown"), \(code ?? "no failure")"
      )
    }
    for (path, content) in oracle.evicted where route.peer.shown(content.published) != content.bytes {
      world.fail(.delivery, "\(path) was removed after its delivery and is not published as it was")
    }
  }
}

// MARK: Commands

/// A content whose delivery a user has cancelled.
private struct CancelledContent {
  let bytes: [UInt8]
  let modifiedNanoseconds: Int64
  let inode: UInt64
  let handEdits: Int
  /// The content was settled, and the decision was durable.
  var isFinal: Bool

  func isStill(_ file: SimulatedCapture.File) -> Bool {
    isFinal && file.bytes == bytes && file.modifiedNanoseconds == modifiedNanoseconds && file.inode == inode
      && file.handEdits == handEdits
  }
}

extension SimulationRun {
  /// A user gives a command for one file.
  private func issueCommand() {
    let file = capture.names.randomElement(using: &world.random).flatMap(capture.file(named:))
    let commands: [FileCommand] = [.retry, .resend, .cancel, .cancel, .publish]
    guard let file, let command = commands.randomElement(using: &world.random) else {
      return
    }
    // A crash in between leaves open which state it is.
    let isDurable = client.execute(command, on: file.id)
    switch command {
    case .retry, .resend: if isDurable { cancelled[file.id] = nil } else { cancelled[file.id]?.isFinal = false }
    case .cancel:
      let isCancelled = client.explanation(of: file.id).state == .cancelled
      cancelled[file.id] = CancelledContent(
        bytes: file.bytes, modifiedNanoseconds: file.modifiedNanoseconds, inode: file.inode,
        handEdits: file.handEdits, isFinal: isDurable && isCancelled && file.activity.isQuiet)
    case .publish: break
    }
  }

  /// A changed content is wanted again, also where a power cut reverts the change.
  private func noteChangesOfCancelled() {
    for (id, content) in cancelled.sorted() {
      guard let file = capture.file(id), !content.isStill(file) else { continue }
      cancelled[id]?.isFinal = false
    }
  }

  /// Another program closes a file that is unchanged, or has been for long.
  private func waitForOne() {
    if let file = capture.names.randomElement(using: &world.random).flatMap(capture.file(named:)) {
      capture.wait(for: file)
    }
  }

  /// A cancelled content stays cancelled, over restarts and power cuts, until it changes or is retried.
  private func checkCancelled() {
    for (id, content) in cancelled.sorted() {
      guard let file = capture.file(id), content.isStill(file) else { continue }
      let state = client.explanation(of: id).state
      if state == .cancelled { continue }
      world.fail(.words, "\(id) was cancelled, has not changed, and is \(state?.word ?? "unknown")")
    }
  }
}

// MARK: Faults

extension SimulationRun {
  /// Once a virtual second, the faults of the whole system.
  private func trouble(until end: Int64) {
    guard world.time.nanoseconds < end, !world.isHealed else { return }
    noteChangesOfCancelled()
    troubleNetwork()
    troubleMachines()
    world.time.after(.seconds(1)) { [self] in trouble(until: end) }
  }

  private func troubleNetwork() {
    let scenario = world.scenario
    if world.strikes(scenario.partitions / 60) {
      troubled.network.partition(for: world.random.duration(.milliseconds(100)...(.seconds(40))))
    }
    if world.strikes(scenario.hangingTimes / 60) {
      troubled.network.swallow(for: world.random.duration(scenario.hangingTime))
    }
    if world.strikes(scenario.slowTimes / 60) {
      troubled.network.slowDown(for: world.random.duration(.seconds(1)...(.seconds(300))))
    }
    if world.strikes(scenario.addressTroubles / 60) { troubled.network.addresses.trouble() }
  }

  private func troubleMachines() {
    let scenario = world.scenario
    if world.strikes(scenario.clientCrashes / 60) { daemon.crash() }
    if world.strikes(scenario.clientStops / 60) { daemon.stop() }
    if world.strikes(scenario.receiverCrashes / 60) { troubled.peer.crash() }
    if world.strikes(scenario.clockJumps / 60) {
      world.time.wallJump = scenario.clockJump.randomElement(using: &world.random) ?? .zero
      world.trace("the clock jumps to \(world.time.wallJump.microseconds / 1_000_000) s")
    }
    if world.strikes(scenario.longSleeps / 60) {
      let days = Int64.random(in: 1...9, using: &world.random)
      world.trace("both machines sleep for \(days) days")
      world.time.sleep(for: .seconds(days * 86_400))
    }
    if world.strikes(scenario.memoryChanges / 60) {
      world.availableMemory = UInt64.random(in: 10...260, using: &world.random) * 1_000_000
      world.trace("\(world.availableMemory) bytes of memory are available")
    }
    if world.strikes(scenario.failingDisks / 60), let side = scenario.failingSides.randomElement(using: &world.random) {
      world.letDiskFail(side)
    }
    let isPressed = world.strikes(scenario.memoryPressure / 60)
    if isPressed { capture.dropPages() }
    if scenario.failingSides.contains(.receiver) { troubled.peer.letKernelWork(isPressed: isPressed) }
    if world.strikes(scenario.rottenRecords / 60) { troubled.peer.rot() }
    if world.strikes(scenario.words / 60) { issueCommand() }
    if world.strikes(scenario.waits / 4) { waitForOne() }
    if world.strikes(scenario.waits / 8) { client.waits?.interruptOne() }
    if world.strikes(scenario.fullDisks / 60) {
      let side: Side = world.random.happens(0.5) ? .client : .receiver
      world.trace("the disk of the \(side) is full")
      world.fullDisks.insert(side)
      world.time.after(world.random.duration(.milliseconds(500)...(.seconds(15)))) { [world] in
        world.fullDisks.remove(side)
      }
    }
  }
}

import Destinations
import FileModel
import Integrity
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// One capture over one line: the real schedule with the bounds of a mount, a server that takes what arrives, and bytes
/// that are only counted, so that files and chunks have their real sizes.
final class LineRun {
  /// How long a file takes the line, or its share of the line.
  private static let lineSeconds = 30.0
  /// Nothing takes this many times as long.
  private static let patience = 20.0
  private static let file = FileID(high: 0, low: 1)
  private static let serverTime: Duration = .milliseconds(2)
  private static let lookTime: Duration = .milliseconds(100)
  private static let diskBytesPerSecond = 500_000_000

  /// A request in flight.
  private final class Flight {
    let order: RequestOrder
    /// The bytes of each member, and the overhead of each.
    let members: [Int]
    let memberHeadBytes: Int
    /// Nil until the request's first byte enters the line.
    var connection: Int?
    var hasPassed = false
    var isOver = false

    init(_ order: RequestOrder, _ members: [Int]) {
      self.order = order
      self.members = members
      memberHeadBytes = members.count > 1 ? LineServer.memberHeadBytes : 0
    }

    var bodyBytes: Int { members.reduce(0) { $0 + $1 + memberHeadBytes } }
    var plainBytes: Int { members.reduce(0, +) }

    /// Of the first so many bytes of a request, those of its body.
    func body(of requestBytes: Int) -> Int { min(bodyBytes, max(0, requestBytes - LineServer.headBytes)) }

    /// How many members are whole after so many bytes of the body.
    func whole(after bodyBytes: Int) -> Int {
      var rest = bodyBytes
      return members.prefix {
        rest -= $0 + memberHeadBytes
        return rest >= 0
      }.count
    }
  }

  private let world: World
  private let kind: LineKind
  private let sizeBytes: Int
  private var server: LineServer
  private var line: Line
  private var schedule: UploadSchedule
  private var checks: LineChecks
  private var flights: OrderedDictionary<HTTPRequestID, Flight> = [:]
  private var readBytes: LookupTable<ReadID, Int> = [:]
  /// Idle connections, the latest used last.
  private var resting: [Int] = []
  private var alarm: MonotonicTime?
  private var isMoving = false
  private var passedBytes = 0
  private var answeredBytes = 0
  /// A commit that lacks chunks.
  private var waitingCommit: (Flight, connection: Int)?
  private var isDelivered = false
  private var eventCount = 0
  /// The remaining times that were shown, for a planted mistake.
  private var shownEstimates: [Double?] = []

  init(_ world: World, _ kind: LineKind) throws(DestinationError) {
    self.world = world
    self.kind = kind
    sizeBytes = Int(kind.bytesPerSecond * Self.lineSeconds) / (kind.otherFlows + 1)
    server = try LineServer(world.scenario.server)
    line = Line(kind)
    var limits = server.limits
    if world.bug == .oneStream { limits.parallelChunks = 1 }
    if world.bug == .drownLine { limits.followsLine = false }
    schedule = UploadSchedule(
      limits: limits, abilities: server.abilities, random: SeededGenerator(seed: world.random.next()))
    checks = LineChecks(world, kind, sizeBytes: sizeBytes, tripsBetween: server.tripsBetween)
    world.trace("\(sizeBytes) bytes over \(kind.description)")
  }

  func toEnd() -> Simulation.Result {
    apply { $0.handle(.scanEnded, at: $1) }
    apply { [snapshot = snapshot(isOpen: true)] in $0.handle(.opened(snapshot), at: $1) }
    apply { [snapshot = snapshot(isOpen: false)] in $0.handle(.settled(snapshot), at: $1) }
    look()
    if world.scenario.cutsLine {
      let at = Int64.random(in: 1...Int64(Self.lineSeconds * 1000), using: &world.random)
      world.time.after(.milliseconds(at)) { [self] in cut() }
    }
    while world.violation == nil, !isDelivered, world.time.step() {
      eventCount += 1
      if world.time.seconds > Self.patience * Self.lineSeconds {
        world.fail(.progress, "the file has not been delivered")
      }
    }
    if world.violation == nil, !isDelivered { world.fail(.progress, "nothing is under way, and nothing delivered") }
    world.time.end()
    let (lines, fingerprint) = world.endTrace([eventCount, world.effectCount, passedBytes])
    return Simulation.Result(
      violation: world.violation, effectCount: world.effectCount, eventCount: eventCount, seconds: world.time.seconds,
      publicationCount: isDelivered ? 1 : 0, fingerprint: fingerprint, trace: lines)
  }

  private func snapshot(isOpen: Bool) -> FileSnapshot {
    FileSnapshot(
      id: Self.file, epoch: 1, sizeBytes: UInt64(sizeBytes), modifiedNanoseconds: 5, mode: 0o644, inode: 1,
      names: [RelativePath("take.mov")], writableOpens: isOpen ? 1 : 0, mutationsInFlight: 0)
  }

  // MARK: Deciding and acting

  private func apply(_ event: (inout UploadSchedule, ClockReading) -> Void) {
    event(&schedule, world.time.clockReading)
    let actions = schedule.takeActions()
    setAlarm(schedule.nextDeadline)
    for action in actions { perform(action) }
  }

  private func setAlarm(_ deadline: MonotonicTime?) {
    guard alarm != deadline else { return }
    alarm = deadline
    guard let deadline else { return }
    world.time.at(deadline.nanoseconds) { [self] in
      guard alarm == deadline else { return }
      alarm = nil
      apply { $0.woke(at: $1) }
    }
  }

  private func perform(_ action: UploadAction) {
    switch action {
    case .read(let order): read(order)
    case .findHoles(let order):
      let digest = ChunkDigest(ofZeros: order.chunkBytes)
      world.time.after(.milliseconds(1)) { [self] in apply { $0.holesFound(order, [], digest, at: $1) } }
    case .release(let read): readBytes[read] = nil
    case .send(let orders): for order in orders { send(order) }
    case .cancel(let request): world.time.after(.microseconds(50)) { [self] in end(request, .cancelled) }
    case .cancelUnsent(let request, _):
      world.time.after(.microseconds(50)) { [self] in
        if flights[request]?.hasPassed == false { end(request, .cancelled) }
      }
    case .record(let id):
      world.time.after(.milliseconds(1)) { [self] in
        apply { schedule, now in
          schedule.recorded(id, receipt: schedule.catalogEntry(of: id)?.receipt, at: now)
        }
      }
    case .saveResume(let id):
      world.time.after(.milliseconds(1)) { [self] in
        guard let mark = schedule.resumeSnapshot(of: id, since: nil)?.mark else { return }
        apply { schedule, _ in schedule.resumeSaved(id, mark) }
      }
    case .checkProgress: tellProgress()
    case .renewConnections: resting = []
    case .report(let report): note(report)
    case .forget, .forgetNames, .forgetEntry, .removeResume, .noteDiscarded, .forgetDiscarded, .measure, .unload, .load,
      .seek,
      .checkGrowth,
      .showNames, .showStatus, .showSummary, .hide, .resizeBuffers, .askForLimits, .askForNames,
      .networkChanged:
      break
    }
  }

  private func note(_ report: UploadReport) {
    world.trace("report: \(report.brief)")
    guard case .delivered = report else { return }
    isDelivered = true
    checks.delivered()
  }

  private func read(_ order: ReadOrder) {
    readBytes[order.id] = order.byteCount
    let sha256 = sha256(Array("\(order.offset)".utf8))
    let digest = ChunkDigest(sha256: sha256, crc32c: UInt32(truncatingIfNeeded: order.offset))
    let time = Duration.microseconds(100 + Int64(order.byteCount) * 1_000_000 / Int64(Self.diskBytesPerSecond))
    world.time.after(time) { [self] in apply { $0.chunkRead(order.id, result: .success(digest), at: $1) } }
  }

  // MARK: Requests

  /// The bytes of each file or chunk that a request carries.
  private func members(of order: SendOrder) -> [Int] {
    switch order {
    case .chunk, .run: (order.chunks?.chunks ?? []).map { readBytes[$0.read] ?? 0 }
    case .wholeFile, .bundle: order.wholeFiles.map(bytes(of:))
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort: []
    }
  }

  private func bytes(of whole: WholeFileOrder) -> Int {
    whole.streamedBytes.map { Int($0) } ?? whole.read.flatMap { readBytes[$0] } ?? 0
  }

  private func send(_ order: RequestOrder) {
    let flight = Flight(order, members(of: order.order))
    flights[order.id] = flight
    checks.sent(flight.plainBytes)
    checks.headBytes += LineServer.headBytes + flight.bodyBytes - flight.plainBytes
    world.trace("\(order.brief), \(flight.plainBytes) bytes")
    guard world.verdict(on: .send, of: .client) == .done else {
      checks.isDisturbed = true
      return world.time.after(kind.roundTrip) { [self] in end(order.id, .connectionLost) }
    }
    var trips = Double(server.tripsBefore(order.order)) + 0.5
    let known = order.opensConnection ? nil : resting.popLast()
    // Round trips for a connection and its encryption.
    if known == nil { trips += 2 }
    let connection = known ?? line.connect()
    // Each round trip waits behind the bytes in flight; the last one shares the bottleneck with them.
    let wait = trips * kind.roundTripSeconds + trips.rounded(.down) * line.waitSeconds
    world.time.after(.microseconds(Int64(wait * 1_000_000))) { [self] in
      guard !flight.isOver else { return }
      flight.connection = connection
      line.send(LineServer.headBytes + flight.bodyBytes, over: connection)
      if world.bug == .breakAtTimeout, flight.plainBytes > 0 {
        world.time.after(.seconds(10)) { [self] in end(order.id, .timedOut) }
      }
      move()
    }
  }

  /// Time passes on the line while something is on it.
  private func move() {
    guard !isMoving else { return }
    isMoving = true
    world.time.after(line.step) { [self] in
      isMoving = false
      let done = line.pass(seconds: Double(line.step.microseconds) / 1_000_000)
      for connection in done { bodyPassed(over: connection) }
      if line.isBusy { move() }
    }
  }

  private func bodyPassed(over connection: Int) {
    guard let flight = flights.values.first(where: { $0.connection == connection && !$0.hasPassed }) else { return }
    flight.hasPassed = true
    world.time.after(kind.roundTrip / 2 + Self.serverTime) { [self] in arrived(flight, over: connection) }
  }

  /// All of a request is at the server, which lets a commit wait for the chunks that are in flight.
  private func arrived(_ flight: Flight, over connection: Int) {
    guard !flight.isOver else { return }
    if case .commit(let commit) = flight.order.order, !server.hasAll(of: commit) {
      waitingCommit = (flight, connection)
      return
    }
    let outcome = server.answer(flight.order.order)
    world.time.after(kind.roundTrip / 2) { [self] in
      guard !flight.isOver else { return }
      answeredBytes += flight.plainBytes
      resting.append(connection)
      over(flight, outcome)
    }
    wakeCommit()
  }

  private func wakeCommit() {
    guard let (flight, connection) = waitingCommit else { return }
    waitingCommit = nil
    arrived(flight, over: connection)
  }

  private func end(_ request: HTTPRequestID, _ error: TransportError.Kind) {
    guard let flight = flights[request], !flight.isOver else { return }
    let body = flight.connection.map { flight.body(of: line.passed(over: $0)) } ?? 0
    if let connection = flight.connection { line.breakOff(connection) }
    keepWhole(of: flight, after: body)
    over(flight, .refused(StepFailure(.transport(error), "the connection is gone")))
  }

  private func over(_ flight: Flight, _ outcome: StepOutcome) {
    flight.isOver = true
    passedBytes += flight.connection.map { line.passed(over: $0) } ?? 0
    flights[flight.order.id] = nil
    world.trace("request \(flight.order.id.value): \(outcome.brief)")
    let offers = server.offers
    apply {
      $0.requestCompleted(
        flight.order.id, outcome: outcome, connection: HTTPConnectionMetrics(), offers: offers, at: $1)
    }
  }

  /// What has arrived of a request that breaks off stays at the server, as far as it is whole.
  private func keepWhole(of flight: Flight, after bodyBytes: Int) {
    guard let (session, chunks) = flight.order.order.chunks else { return }
    for chunk in chunks.prefix(flight.whole(after: bodyBytes)) { server.keep(chunk, in: session.id) }
    wakeCommit()
  }

  /// All connections are gone at once.
  private func cut() {
    world.trace("all connections are cut")
    checks.isDisturbed = true
    checks.lostBytes += flights.values.reduce(0) { $0 + lostWithCut(of: $1) }
    resting = []
    for request in Array(flights.keys) { end(request, .connectionLost) }
  }

  // MARK: What is seen

  private func tellProgress() {
    let bodies = flights.compactMap { request, flight -> (HTTPRequestID, SentBody)? in
      guard flight.plainBytes > 0, let connection = flight.connection else { return nil }
      var bytes = flight.hasPassed ? flight.bodyBytes : flight.body(of: line.confirmed(over: connection))
      if world.bug == .countHandedOver { bytes = min(flight.bodyBytes, bytes + (4 << 20)) }
      return (request, SentBody(bytes: UInt64(bytes), of: UInt64(flight.bodyBytes)))
    }
    apply { $0.progressed(LookupTable(bodies), at: $1) }
  }

  /// What a cut would lose of a request now: chunks that are whole stay at the server.
  private func lost(of flight: Flight) -> Int {
    guard let connection = flight.connection else { return 0 }
    let body = flight.hasPassed ? flight.bodyBytes : flight.body(of: line.passed(over: connection))
    guard flight.order.order.chunks != nil else { return body }
    let whole = flight.members.prefix(flight.whole(after: body)).reduce(0) { $0 + $1 + flight.memberHeadBytes }
    return max(0, body - whole - flight.memberHeadBytes)
  }

  /// What is sent again after a cut: of a run the server is asked what it has, a single chunk is sent anew.
  private func lostWithCut(of flight: Flight) -> Int {
    guard flight.members.count == 1, let connection = flight.connection else { return lost(of: flight) }
    return flight.hasPassed ? flight.bodyBytes : flight.body(of: line.passed(over: connection))
  }

  /// Samples what has passed, what a cut would lose, and what the status shows.
  private func look() {
    let carrying = flights.values.filter { $0.plainBytes > 0 }
    let onLine = carrying.compactMap { flight in flight.connection.map { (flight, $0) } }
    checks.passed(passedBytes + onLine.reduce(0) { $0 + line.passed(over: $1.1) })
    // Other servers lose parts and attempts, as the docs say.
    let lost = server.kind == .receiver ? carrying.reduce(0) { $0 + self.lost(of: $1) } : 0
    let pieces = carrying.reduce(0) { $0 + min($1.members.max() ?? 0, UploadConstants.runChunkBytesMax) }
    checks.mayLose(lost, streams: carrying.count, pieces: pieces)
    if var status = schedule.status(of: Self.file, publishedName: { $0.displayText }, at: world.time.clockReading) {
      shownEstimates.append(status.etaSeconds)
      if world.bug == .staleEstimate { status.etaSeconds = shownEstimates.dropLast(80).last ?? nil }
      let confirmed = onLine.reduce(answeredBytes) { sum, entry in
        let (flight, connection) = entry
        return sum + (flight.hasPassed ? flight.plainBytes : flight.body(of: line.confirmed(over: connection)))
      }
      checks.shown(status, confirmed: confirmed)
    }
    guard !isDelivered else { return }
    world.time.after(Self.lookTime) { [self] in look() }
  }
}

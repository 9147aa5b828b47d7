import Destinations
import FileModel
import Integrity
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// One of many machines: the real schedule and the real destination over captures that lie in memory and do not change.
final class FleetClient {
  /// What is delivered.
  final class Capture {
    let id: FileID
    let path: RelativePath
    let bytes: [UInt8]
    /// Seconds of virtual time.
    fileprivate(set) var closedAt: Double?
    fileprivate(set) var deliveredAt: Double?

    init(_ id: FileID, _ path: RelativePath, _ bytes: [UInt8]) {
      self.id = id
      self.path = path
      self.bytes = bytes
    }

    fileprivate func snapshot(isOpen: Bool) -> FileSnapshot {
      FileSnapshot(
        id: id, epoch: 1, sizeBytes: UInt64(bytes.count), modifiedNanoseconds: 5, mode: 0o644, inode: id.low,
        names: [path], writableOpens: isOpen ? 1 : 0, mutationsInFlight: 0)
    }
  }

  private unowned let world: World
  /// The network does not keep it.
  private let receiver: any SimulatedPeer
  private let network: SimulatedNetwork
  private let destination: any Destination
  let captures: [Capture]
  private var schedule: UploadSchedule
  private var alarm: MonotonicTime?
  private var buffers: LookupTable<ReadID, SimulatedBuffer> = [:]
  private var bodies: OrderedDictionary<HTTPRequestID, HTTPRequest> = [:]
  /// Counts processes: what an earlier one has asked for comes to nothing.
  private var life = 0
  /// Requests that were sent, also in vain.
  var requestIsSent: () -> Void = {}

  init(_ world: World, _ receiver: any SimulatedPeer, _ captures: [Capture]) throws(DestinationError) {
    self.world = world
    self.captures = captures
    self.receiver = receiver
    network = SimulatedNetwork(world, receiver, isTroubled: false)
    destination = try world.scenario.server.destination(world.scenario, network.addresses)
    schedule = Self.schedule(world, destination)
  }

  private static func schedule(_ world: World, _ destination: any Destination) -> UploadSchedule {
    UploadSchedule(
      limits: world.scenario.limits, abilities: destination.abilities, endpointCount: destination.endpointCount,
      publishedName: { destination.publishedName(for: $1) }, random: SeededGenerator(seed: world.random.next()))
  }

  var isDone: Bool { captures.allSatisfy { $0.deliveredAt != nil } }
  var isIdle: Bool { schedule.isIdle && network.isQuiet && buffers.isEmpty }

  func start() { apply { $0.handle(.scanEnded, at: $1) } }

  /// A program writes a capture and closes it.
  func write(_ capture: Capture) {
    capture.closedAt = capture.closedAt ?? world.time.seconds
    world.oracle.settled(capture.bytes, names: [capture.path])
    apply { $0.handle(.opened(capture.snapshot(isOpen: true)), at: $1) }
    apply { $0.handle(.settled(capture.snapshot(isOpen: false)), at: $1) }
  }

  /// The planted mistake of `loseUploads`: the process comes back without its records, and finds its captures.
  func forget() {
    life += 1
    network.forgetClient()
    for read in Array(bodies.keys) { bodies[read] = nil }
    buffers = [:]
    schedule = Self.schedule(world, destination)
    start()
    for capture in captures where capture.closedAt != nil && capture.deliveredAt == nil { write(capture) }
  }

  // MARK: Deciding and acting

  private func apply(_ event: (inout UploadSchedule, ClockReading) -> Void) {
    event(&schedule, world.time.clockReading)
    let actions = schedule.takeActions()
    setAlarm(schedule.nextDeadline)
    for action in actions { perform(action) }
  }

  private func after(_ delay: Duration, _ action: @escaping () -> Void) {
    let life = life
    world.time.after(delay) { [self] in if self.life == life { action() } }
  }

  private func setAlarm(_ deadline: MonotonicTime?) {
    guard alarm != deadline else { return }
    alarm = deadline
    guard let deadline else { return }
    let isImpatient = world.bug == .storm
    // The clock of this mistake runs ahead, and pauses that double take it out of what can be told.
    if isImpatient, deadline.nanoseconds > .max / 4 { return }
    world.time.at(isImpatient ? world.time.nanoseconds + 1_000_000 : deadline.nanoseconds) { [self] in
      guard alarm == deadline else { return }
      alarm = nil
      apply { schedule, now in
        var now = now
        if isImpatient { now.monotonic = max(now.monotonic, deadline) }
        schedule.woke(at: now)
      }
    }
  }

  private func perform(_ action: UploadAction) {
    switch action {
    case .read(let order): read(order)
    case .findHoles(let order):
      let digest = ChunkDigest(ofZeros: order.chunkBytes)
      after(.milliseconds(1)) { [self] in apply { $0.holesFound(order, [], digest, at: $1) } }
    case .release(let read): buffers.removeValue(forKey: read)?.wipe()
    case .send(let orders): for order in orders { send(order) }
    case .cancel(let request): network.cancel(request)
    case .cancelUnsent(let request, _): if !network.isOut(request) { network.cancel(request) }
    case .record(let id):
      after(.milliseconds(1)) { [self] in
        apply { schedule, now in
          schedule.recorded(id, receipt: schedule.catalogEntry(of: id)?.receipt, at: now)
        }
      }
    case .saveResume(let id):
      after(.milliseconds(1)) { [self] in
        guard let mark = schedule.resumeSnapshot(of: id, since: nil)?.mark else { return }
        apply { schedule, _ in schedule.resumeSaved(id, mark) }
      }
    case .checkProgress: tellProgress()
    case .report(.delivered(let id, _, _)):
      captures.first { $0.id == id }?.deliveredAt = world.time.seconds
    case .report, .renewConnections, .networkChanged, .forget, .forgetNames, .forgetEntry, .removeResume,
      .noteDiscarded,
      .forgetDiscarded, .measure, .unload, .load, .seek, .checkGrowth, .showNames, .showStatus, .showSummary, .hide,
      .resizeBuffers, .askForLimits, .askForNames:
      break
    }
  }

  private func read(_ order: ReadOrder) {
    guard let capture = captures.first(where: { $0.id == order.file }) else { return }
    let bytes = Array(capture.bytes[Int(order.offset)..<Int(order.offset) + order.byteCount])
    after(.microseconds(100)) { [self] in
      buffers[order.id] = SimulatedBuffer(bytes, of: order, as: order.compression)
      let digest = ChunkDigest(sha256: sha256(bytes), crc32c: bytes.withUnsafeBytes { CRC32C.checksum($0) })
      apply { $0.chunkRead(order.id, result: .success(digest), at: $1) }
    }
  }

  private func tellProgress() {
    network.countProgress()
    let sent = bodies.map { id, request in
      (id, SentBody(bytes: request.sentBytes?.value ?? 0, of: UInt64(request.body.byteCount)))
    }
    apply { $0.progressed(LookupTable(sent), at: $1) }
  }

  // MARK: Requests

  private func send(_ order: RequestOrder) {
    guard let step = step(for: order.order) else {
      return completed(order, .refused(StepFailure(.transport(.cancelled), "the chunk is no longer there")))
    }
    var request = destination.request(for: step, at: order.endpoint)
    if case .bundle(let sendings) = step, sendings.allSatisfy(\.sharesFrame) {
      request = destination.compressedTogether(request)
    }
    requestIsSent()
    if request.sentBytes != nil { bodies[order.id] = request }
    let life = life
    let sharedFrame = request.sharedFrame
    network.start(order.id, request, isBroken: false) { [self] result in
      guard self.life == life else { return }
      switch result {
      case .success(let response):
        completed(
          order, destination.outcome(of: step, responses: [response]), destination.offers(in: response), sharedFrame)
      case .failure(let error): completed(order, destination.outcome(of: step, lost: error))
      }
    }
  }

  private func completed(
    _ order: RequestOrder, _ outcome: StepOutcome, _ offers: DestinationOffers = DestinationOffers(),
    _ sharedFrame: SharedFrame? = nil
  ) {
    bodies[order.id] = nil
    world.trace("request \(order.id.value): \(outcome.brief)")
    apply {
      $0.requestCompleted(
        order.id, outcome: outcome, connection: HTTPConnectionMetrics(), offers: offers, sharedFrame: sharedFrame,
        at: $1)
    }
  }

  private func step(for order: SendOrder) -> DestinationStep? {
    order.mapped(opening: { $0 }, commit: named, chunk: sending, wholeFile: sending)
  }

  /// Nothing was published under the name before.
  private var right: NameRight? { destination.abilities.ifExists.map { NameRight(ifExists: $0) } }

  private func named(_ commit: SessionCommit) -> SessionCommit? {
    var commit = commit
    commit.right = right
    return commit
  }

  private func sending(_ order: SessionChunk) -> ChunkSending? {
    buffers[order.chunk.read].map { order.sending($0.plainBytes, $0.encoding, $0) }
  }

  private func sending(_ whole: WholeFileOrder) -> WholeFileSending? {
    let buffer = whole.read.flatMap { buffers[$0] }
    if whole.read != nil, buffer == nil { return nil }
    var sending = WholeFileSending(
      fileID: whole.file, revision: whole.epoch, nonce: whole.nonce, path: whole.path, digest: whole.digest,
      plainBytes: buffer?.plainBytes, encoding: buffer?.encoding ?? .identity, body: buffer,
      modifiedNanoseconds: whole.modifiedNanoseconds, mode: whole.mode, sentBytes: SentByteCounter())
    sending.right = right
    sending.sharesFrame = whole.sharesFrame
    return sending
  }
}

import Destinations
import FileModel
import Integrity
import UploadEngine

/// The client: the real schedule and the real destination, driven as `UploadEngine` drives them, on simulated disks, time and
/// network. It crashes and comes back with what was durable.
final class SimulatedClient {
  private unowned let world: World
  private unowned let capture: SimulatedCapture
  private unowned let network: SimulatedNetwork
  private let destination: ChunkProtocolDestination
  private let storage: SimulatedJournal.Storage
  private let checks: ClientChecks
  private var schedule: UploadSchedule?
  private var journal: SimulatedJournal?
  private var outbox: [UploadAction] = []
  private var isActing = false
  private var buffers: [ReadID: SimulatedBuffer] = [:]
  private var reads: Set<ReadID> = []
  private var alarm: MonotonicTime?
  /// Counts starts: whatever was under way in an earlier one comes to nothing.
  private var life = 0
  private var recordedDigests: [FileID: [Int: ChunkDigest]] = [:]
  private var firstPaths: [[UInt8]: RelativePath] = [:]
  private var extraRequest: UInt64 = 1 << 60

  init(_ world: World, _ capture: SimulatedCapture, _ network: SimulatedNetwork) throws(DestinationError) {
    self.world = world
    self.capture = capture
    self.network = network
    checks = ClientChecks(world)
    var options = ChunkProtocolOptions()
    options.chunkBytesMax = world.scenario.chunkBytes * 2
    options.wholeFileBytesMax = world.scenario.wholeFileBytesMax
    destination = try ChunkProtocolDestination(
      baseURL: SimulatedNetwork.origin, credential: .bearer(SimulatedReceiver.token), options: options)
    storage = SimulatedJournal.Storage(masterKey: world.random.bytes(32))
    storage.disk.admit = { [unowned self] (kind) throws(DiskFailure) in
      if kind == .write, self.world.fullDisks.contains(.client) { throw .full }
      guard admits(kind) else { throw isUp ? .broken : .crashed }
    }
  }

  // MARK: Life

  var isUp: Bool { schedule != nil }

  /// Everything is delivered or has failed, and nothing is under way.
  var isIdle: Bool {
    schedule?.isIdle == true && journal?.isQuiet == true && reads.isEmpty && network.isQuiet && outbox.isEmpty
  }

  func start() {
    life += 1
    let entries = storage.entries
    let records = storage.records()
    world.trace("client: starts with \(entries.count) entries and \(records.count) records")
    for record in records {
      recordedDigests[record.fileID] = Dictionary(
        record.acknowledged.map { ($0.index, $0.digest) }, uniquingKeysWith: { first, _ in first })
    }
    schedule = UploadSchedule(
      limits: world.scenario.limits, abilities: destination.abilities, catalog: entries, records: records,
      publishedName: { [destination] in destination.publishedName(for: $0) },
      random: SeededGenerator(seed: world.random.next()))
    journal = SimulatedJournal(world, self, storage)
    var identities: [UInt64: FileID] = [:]
    for entry in entries where entry.state != .removed && entry.state != .evicted { identities[entry.inode] = entry.id }
    capture.mounted(self, identities: identities)
    checkCatalog(entries)
  }

  /// The process dies; with the power, what its disk had not synced goes, too.
  func crash() {
    guard isUp else { return }
    let takesPower = world.random.happens(world.scenario.powerCuts)
    world.trace("client: crashes\(takesPower ? " and loses power" : "")")
    if takesPower { storage.disk.losePower(using: &world.random) }
    end()
  }

  /// An orderly end: what is known is written down, and the rest waits for the next start.
  func stop() {
    guard isUp else { return }
    world.trace("client: stops")
    let uploads = capture.names.compactMap { capture.file(named: $0)?.id }
    journal?.flush(resuming: uploads.filter { resumeSnapshot(of: $0, since: nil) != nil })
    if isUp { end() }
  }

  private func end() {
    life += 1
    journal?.die()
    schedule = nil
    journal = nil
    outbox = []
    isActing = false
    for buffer in buffers.values { buffer.wipe() }
    buffers = [:]
    reads = []
    alarm = nil
    recordedDigests = [:]
    checks.forget()
    network.forgetClient()
    capture.unmounted()
    for name in capture.names where world.strikes(world.scenario.handEdits) {
      let count = capture.file(named: name)?.bytes.count ?? 0
      capture.edit(name, to: world.random.bytes(count))
    }
    world.time.after(world.random.duration(.milliseconds(20)...(.seconds(20)))) { [self] in
      if !isUp { start() }
    }
  }

  /// Tries everything that has failed again.
  func retryAll() { apply { $0.retryAll(at: $1) } }

  /// False when the effect fails, or when the machine goes down instead.
  func admits(_ kind: EffectKind) -> Bool {
    switch world.verdict(on: kind, of: .client) {
    case .done: return true
    case .failed: return false
    case .crash:
      crash()
      return false
    }
  }

  // MARK: What the filesystem says

  func handle(_ event: FileEvent) {
    world.trace("event: \(event.brief)")
    apply { $0.handle(event, at: $1) }
  }

  func contentWillChange(_ id: FileID) {
    guard schedule?.contentWillChange(id) == true else { return }
    journal?.markChanged(id)
  }

  // MARK: What the journal asks

  func catalogEntry(of id: FileID) -> CatalogEntry? { schedule?.catalogEntry(of: id) }
  func resumeSnapshot(of id: FileID, since mark: ResumeSnapshot.Mark?) -> ResumeSnapshot? {
    schedule?.resumeSnapshot(of: id, since: mark)
  }

  func measure(_ id: FileID) {
    guard let snapshot = capture.file(id)?.snapshot else { return }
    apply { $0.measured(snapshot, at: $1) }
  }

  func recorded(_ id: FileID, _ receipt: Receipt) { apply { $0.recorded(id, receipt: receipt, at: $1) } }

  /// What the catalog says is delivered is what the receiver has confirmed, byte for byte.
  func checkCatalog(_ entries: [CatalogEntry]) {
    for entry in entries where entry.state == .complete {
      guard let file = capture.file(entry.id), file.inode == entry.inode, UInt64(file.bytes.count) == entry.sizeBytes,
        file.modifiedNanoseconds == entry.modifiedNanoseconds, !file.activity.hasOpenRevision
      else { continue }
      if world.oracle.bytes(ofReceipt: entry.receipt?.id ?? "") != file.bytes {
        world.fail("receipt", "the catalog has \(entry.path.displayText) complete with a receipt for other bytes")
      }
    }
  }

  // MARK: Deciding and acting

  private func apply(_ event: (inout UploadSchedule, Moment) -> Void) {
    guard var current = schedule.take() else { return }
    event(&current, world.time.moment)
    outbox += current.takeActions()
    let deadline = current.nextDeadline
    schedule = current
    setAlarm(deadline)
    act()
  }

  private func act() {
    guard !isActing else { return }
    isActing = true
    let life = life
    while self.life == life, !outbox.isEmpty {
      let actions = outbox
      outbox = []
      for action in actions where self.life == life { perform(action) }
    }
    if self.life == life { isActing = false }
  }

  private func setAlarm(_ deadline: MonotonicTime?) {
    guard alarm != deadline else { return }
    alarm = deadline
    guard let deadline else { return }
    let life = life
    let isImpatient = world.bug == .retryWithoutDelay
    world.time.at(isImpatient ? world.time.nanoseconds + 1_000_000 : deadline.nanoseconds) { [self] in
      guard self.life == life, alarm == deadline else { return }
      alarm = nil
      apply { schedule, now in
        var now = now
        if isImpatient { now.monotonic = deadline }
        schedule.woke(at: now)
      }
    }
  }

  private func perform(_ action: UploadAction) {
    switch action {
    case .read(let order): read(order)
    case .release(let read):
      if world.bug == .leakBuffer, world.random.happens(0.1) { return }
      buffers.removeValue(forKey: read)?.wipe()
    case .send(let orders): for order in orders where isUp { send(order) }
    case .cancel(let request): network.cancel(request)
    case .record(let id):
      if world.bug == .completeBeforeDurable, let receipt = schedule?.catalogEntry(of: id)?.receipt {
        recorded(id, receipt)
      }
      journal?.record(id)
    case .forget(let id): journal?.forget(id)
    case .saveResume(let id): journal?.saveResume(id)
    case .removeResume(let id): journal?.removeResume(id)
    case .measure(let id): journal?.measure(id)
    // Nothing is said of bodies under way: watchdogs then see no progress but acknowledgements, their hardest case.
    case .lookAtProgress: break
    case .showNames, .showStatus, .hide, .resizeBuffers: break
    case .report(let report): note(report)
    }
  }

  private func note(_ report: UploadReport) {
    world.trace("report: \(report.brief)")
    guard case .delivered(let id, let path, let receipt) = report else { return }
    if storage.catalog[id]?.receipt != receipt {
      world.fail("durability", "\(path.displayText) is complete before its receipt is in the catalog")
    }
  }

  /// Why a file is not published, as the status tells.
  func explanation(of id: FileID) -> (isFailed: Bool, text: String, code: String?) {
    guard let status = schedule?.status(of: id, publishedName: destination.publishedName(for:), at: world.time.moment)
    else { return (false, "unknown", nil) }
    let code = status.lastFailure?.code
    return (status.state == .failed, "\(status.state), \(code ?? "no failure")", code)
  }

  /// Nothing is lent out while nothing is under way.
  func checkIdle() {
    if !buffers.isEmpty { world.fail("leak", "\(buffers.count) buffers are held while nothing is under way") }
    checks.checkIdle()
  }

  func publishedName(for path: RelativePath) -> String { destination.publishedName(for: path) }
}

// MARK: Reading

extension SimulatedClient {
  private func read(_ order: ReadOrder) {
    reads.insert(order.id)
    checks.buffers(buffers.count + reads.count)
    guard admits(.read) else {
      if isUp { readEnded(order, .failed(.system(errno: 5)), after: .microseconds(100)) }
      return
    }
    guard let file = capture.file(order.file) else {
      return readEnded(order, .failed(.gone), after: .microseconds(10))
    }
    let isTrusting = world.bug == .skipEpochCheck
    let isCurrent = file.activity.epoch == order.epoch && file.activity.mutationsInFlight == 0
    guard isCurrent || isTrusting else { return readEnded(order, .changed, after: .microseconds(10)) }
    // A read is not one moment: half of it is read before the other.
    let middle = Int(order.offset) + order.byteCount / 2
    let first = file.piece(Int(order.offset)..<middle)
    let life = life
    world.time.after(world.random.duration(.microseconds(5)...(.milliseconds(20)))) { [self] in
      guard self.life == life else { return }
      let bytes = first + file.piece(middle..<Int(order.offset) + order.byteCount)
      let isStill = file.activity.epoch == order.epoch && file.activity.mutationsInFlight == 0
      guard isStill || isTrusting, bytes.count == order.byteCount else { return readEnded(order, .changed) }
      buffers[order.id] = SimulatedBuffer(bytes)
      readEnded(order, .success(digest(bytes, order)))
    }
  }

  private func digest(_ bytes: [UInt8], _ order: ReadOrder) -> ChunkDigest {
    if world.bug == .believeRecordedDigests, order.byteCount <= world.scenario.chunkBytes,
      let known = recordedDigests[order.file]?[Int(order.offset) / world.scenario.chunkBytes]
    {
      return known
    }
    return ChunkDigest(sha256: sha256(bytes), crc32c: bytes.withUnsafeBytes { CRC32C.checksum($0) })
  }

  private func readEnded(_ order: ReadOrder, _ outcome: ReadOutcome, after delay: Duration) {
    let life = life
    world.time.after(delay) { [self] in
      if self.life == life { readEnded(order, outcome) }
    }
  }

  private func readEnded(_ order: ReadOrder, _ outcome: ReadOutcome) {
    reads.remove(order.id)
    apply { $0.chunkRead(order.id, result: outcome, at: $1) }
  }
}

// MARK: Sending

extension SimulatedClient {
  private func send(_ order: RequestOrder) {
    guard let step = step(for: order.order) else {
      return completed(order, .refused(StepFailure(.transport(.cancelled), "the chunk is no longer there")))
    }
    checks.sent(order)
    start(order, step)
    guard isUp else { return }
    if world.bug == .doubleCommit, case .commit = order.order { start(extra(order), step) }
    if world.bug == .releaseBufferEarly, case .chunk(_, _, _, let read) = order.order { buffers[read]?.wipe() }
  }

  private func extra(_ order: RequestOrder) -> RequestOrder {
    extraRequest += 1
    var extra = order
    extra.id = HTTPRequestID(extraRequest)
    checks.sent(extra)
    return extra
  }

  private func start(_ order: RequestOrder, _ step: UploadStep) {
    world.trace("request \(order.id.value): \(order.order.brief)")
    let isAdmitted = admits(.send)
    guard isUp else { return }
    let life = life
    network.start(order.id, destination.request(for: step, at: order.endpoint), isBroken: !isAdmitted) {
      [self] result in
      guard self.life == life else { return }
      if world.bug == .loseCompletion, world.random.happens(0.02) { return }
      switch result {
      case .success(let response): completed(order, destination.outcome(of: step, response: response))
      case .failure(let error): completed(order, .refused(StepFailure(.transport(error.kind), error.message)))
      }
    }
  }

  private func completed(_ order: RequestOrder, _ outcome: StepOutcome) {
    world.trace("request \(order.id.value): \(outcome.brief)")
    checks.ended(order, outcome)
    if world.bug == .ignoreEpochAtCommit, case .published(let receipt) = outcome { believe(receipt) }
    let isChunk = if case .chunk = order.order { outcome == .chunkStored } else { false }
    let again = isChunk && world.bug == .resendAcknowledged && world.random.happens(0.1) ? step(for: order.order) : nil
    if order.id.value < 1 << 60 {
      apply { $0.requestCompleted(order.id, outcome: outcome, connection: HTTPConnectionFacts(), at: $1) }
    }
    if let again, isUp { start(extra(order), again) }
  }

  /// The planted mistake of `ignoreEpochAtCommit`.
  private func believe(_ receipt: Receipt) {
    guard let file = capture.file(named: RelativePath(receipt.name)) else { return }
    var entry = CatalogEntry(
      id: file.id, path: RelativePath(receipt.name), inode: file.inode, sizeBytes: UInt64(file.bytes.count),
      modifiedNanoseconds: file.modifiedNanoseconds, revision: 1, state: .complete)
    entry.receipt = receipt
    storage.catalog[entry.id] = entry
    checkCatalog([entry])
  }

  private func step(for order: SendOrder) -> UploadStep? {
    switch order {
    case .prewarm: return .prewarm
    case .openSession(let opening):
      firstPaths[opening.nonce] = firstPaths[opening.nonce] ?? opening.path
      return .openSession(opening)
    case .querySession(let session): return .querySession(session)
    case .commit(var commit):
      if world.bug == .wrongChain { commit.chainTip.reverse() }
      if world.bug == .publishUnderOldName { commit.path = firstPaths[commit.session.nonce] ?? commit.path }
      return .commit(commit)
    case .abort(let session): return .abort(session)
    case .chunk(let session, let index, let digest, let read):
      guard let buffer = buffers[read] else { return nil }
      return .sendChunk(
        ChunkSending(session: session, index: index, digest: digest, body: buffer, sentBytes: SentByteCounter()))
    case .wholeFile(let whole):
      var buffer: SimulatedBuffer?
      if let read = whole.read {
        guard let found = buffers[read] else { return nil }
        buffer = found
      }
      return .sendWholeFile(
        WholeFileSending(
          fileID: whole.file, revision: whole.epoch, nonce: whole.nonce, path: whole.path, digest: whole.digest,
          body: buffer, modifiedNanoseconds: whole.modifiedNanoseconds, mode: whole.mode,
          sentBytes: SentByteCounter()))
    }
  }
}

extension SimulatedCapture.File {
  /// The bytes in this range, as far as there are any.
  fileprivate func piece(_ range: Range<Int>) -> [UInt8] {
    let end = min(range.upperBound, bytes.count)
    return range.lowerBound < end ? Array(bytes[range.lowerBound..<end]) : []
  }
}

import Destinations
import FileModel
import Integrity
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// The client: the real schedule and the real destination, driven as `UploadEngine` drives them, on simulated disks, time and
/// network. It crashes and comes back with what was durable.
final class SimulatedClient: CopyHolder {
  unowned let world: World
  unowned let capture: SimulatedCapture
  unowned let network: SimulatedNetwork
  let site: Site
  weak var daemon: SimulatedDaemon?
  /// The destination; its memory of a server dies with the process.
  private(set) var destination: any Destination
  /// The lie of the destination.
  let lie: Lie?
  let storage: SimulatedJournal.Storage
  let checks: ClientChecks
  private(set) var schedule: UploadSchedule?
  private var decisionCount: UInt64 = 0
  private var journal: SimulatedJournal?
  private var outbox: [UploadAction] = []
  private var isActing = false
  var buffers: OrderedDictionary<ReadID, SimulatedBuffer> = [:]
  var reads: LookupSet<ReadID> = []
  /// Of the reads and the buffers, the small ones.
  var smallReads: LookupSet<ReadID> = []
  /// The lengths of the other buffers.
  var bufferBytes: OrderedDictionary<ReadID, Int> = [:]
  var sentCounters: OrderedDictionary<HTTPRequestID, (counter: SentByteCounter, byteCount: Int, answered: Int)> =
    [:]
  private var memory = MemoryBudget.full
  private var alarm: MonotonicTime?
  private var time = RunningTime()
  /// The catalog entries at this start.
  private var recovered: [CatalogEntry] = []
  /// The captures that the catalog knew at this start, by their inode numbers.
  private var recordedIdentities: LookupTable<UInt64, FileID> = [:]
  /// The number of starts: whatever was in flight in an earlier one has no effect.
  private(set) var life = 0
  private(set) var recordedDigests: LookupTable<FileID, LookupTable<Int, ChunkDigest>> = [:]
  /// The file of each session that a commit was sent for.
  var committed: LookupTable<String, FileID> = [:]
  var firstPaths: LookupTable<[UInt8], RelativePath> = [:]
  var extraRequest: UInt64 = 1 << 60
  /// Sessions whose records could not be read at the start, for a planted mistake.
  private(set) var unreadSessions: LookupSet<String> = []
  /// The published names of captures.
  private(set) var names: SimulatedNames
  /// The owners of the published names. A bucket that lies has captures numbered that need no number, for which the
  /// oracle has no names.
  // A bucket that lies has captures numbered that need no number, for which the oracle has no names.
  private(set) lazy var publications = SimulatedPublications(
    world, isLiedTo: world.scenario.isLiar && site.isTroubled && site.server == .receiver,
    replaces: world.scenario.isLiar && site.isTroubled && site.server != .receiver
  ) { [unowned self] in
    destination
  }
  /// Calls that wait for deliveries; nil where there are none.
  private(set) var waits: SimulatedWaits?

  init(
    _ world: World, _ capture: SimulatedCapture, _ network: SimulatedNetwork, _ site: Site
  ) throws(DestinationError) {
    self.site = site
    self.world = world
    self.capture = capture
    self.network = network
    checks = ClientChecks(world, network)
    lie =
      world.scenario.isLiar && !world.scenario.liesInOwnWords && site.isTroubled && site.server == .receiver
      ? Lie.allCases.randomElement(using: &world.random) : nil
    destination = try site.server.destination(world.scenario, network.addresses)
    storage = SimulatedJournal.Storage(masterKey: world.random.bytes(32))
    names = SimulatedNames(world, capture)
    if world.scenario.waits > 0 { waits = SimulatedWaits(world) }
    storage.disk.admit = { [unowned self] (kind) throws(DiskFailure) in
      if kind == .write, self.world.fullDisks.contains(.client) { throw .full }
      guard admits(kind) else { throw isUp ? .broken : .crashed }
    }
  }

  // MARK: Life

  var isUp: Bool { schedule != nil }

  /// Everything is delivered or has failed, and nothing is in flight.
  var isIdle: Bool {
    schedule?.isIdle == true && journal?.isQuiet == true && reads.isEmpty && network.isQuiet && outbox.isEmpty
      && names.isQuiet && !isToReadAgain && !waitsForDestination
  }

  /// Bytes of a file that were read before it has its final name stay in buffers while the destination is away.
  private var waitsForDestination: Bool {
    !buffers.isEmpty && schedule?.summary(at: world.time.clockReading).nextAttemptMilliseconds != nil
  }

  /// No call waits any more for a file that could not be read for ten seconds, but once the disk works it is delivered.
  private var isToReadAgain: Bool {
    world.isHealed
      && capture.ids.contains { id in
        let (state, code) = explanation(of: id)
        return state == .waiting && code == "spool-unreadable"
      }
  }

  func start() {
    life += 1
    time = RunningTime()
    storage.suffer(world)
    do {
      destination = try site.server.destination(world.scenario, network.addresses)
    } catch {
      world.fail(.progress, "the destination cannot be made again: \(error.message)")
    }
    var entries = world.bug == .overlookHandEdits ? storage.entries.map(capture.overlooking) : storage.entries
    if world.bug == .believeFormerSessions { for index in entries.indices { entries[index].session = nil } }
    if world.bug == .deliverOlder { entries = entries.map(capture.forgettingDelivered) }
    capture.notePutBack(knownTo: storage.entries, site.oracle)
    storage.begin(in: capture.instance)
    recordedIdentities = [:]
    for entry in storage.entries where !entry.state.isHistory { recordedIdentities[entry.inode] = entry.id }
    if world.bug == .forgetWords { for index in entries.indices { entries[index].failureCode = nil } }
    var (records, lacksRecords) = storage.load(world)
    unreadSessions =
      world.bug == .forgetUnreadRecords ? storage.sessions.subtracting(LookupSet(records.map(\.sessionID))) : []
    if world.bug == .endRowlessSessions { unreadSessions = capture.sessions { self.storage.catalog[$0] == nil } }
    world.trace("client: starts with \(entries.count) entries and \(records.count) records")
    for record in records {
      recordedDigests[record.fileID] = LookupTable(record.acknowledged.map { ($0.index, $0.digest) })
      checks.know(record)
    }
    var limits = world.scenario.limits
    limits.chunkBytes = world.scenario.chunkSizes.randomElement(using: &world.random) ?? limits.chunkBytes
    if world.bug == .wipeOtherSizes {
      let wiped = records.filter { $0.chunkBytes != limits.chunkBytes }
      unreadSessions = LookupSet(wiped.map(\.sessionID))
      for record in wiped { storage.wipe(record.fileID) }
      records.removeAll { $0.chunkBytes != limits.chunkBytes }
    }
    if world.bug == .pausesStay, site.server == .tus { limits.timing.retryDelayMax = .seconds(2) }
    if world.bug == .triesWithoutEnd { limits.timing.fileTries = .max }
    limits.bufferBytes = world.scenario.chunkSizes.isEmpty ? limits.bufferBytes : limits.chunkBytes
    if world.strikes(world.scenario.zstandard) { limits.rules.defaults.compress = .zstd }
    limits.rules.defaults.name = names.start(recalling: entries, publishedIn: publications.catalog)
    publications.start()
    if world.oracles.count > 1 {
      limits.rules.asker = site.name
      // As the engines of a group.
      limits.filesInMemory = .max
    }
    schedule = UploadSchedule(
      limits: limits, abilities: destination.abilities, endpointCount: destination.endpointCount,
      publishedName: { [destination, names = names.known] in
        guard let names else { return destination.publishedName(for: $1) }
        return names.name(of: $0, at: $1).map { destination.publishedName(for: $0) }
      },
      random: SeededGenerator(seed: world.random.next()))
    schedule?.recover(
      RecoveredUploads(
        catalog: entries, records: records, lacksRecords: lacksRecords, discarded: storage.discardedSessions,
        atSeconds: world.time.clockReading.wallMilliseconds / 1000))
    journal = SimulatedJournal(world, self, storage)
    recovered = entries
  }

  /// There is a mount now.
  func mounted() {
    checkCatalog(recovered)
    recovered = []
    tick()
    if world.bug == .spin { spin() }
  }

  /// The known state is written down.
  func flush() {
    let uploads = capture.names.compactMap { capture.file(named: $0)?.id }
    journal?.flush(resuming: uploads.filter { resumeSnapshot(of: $0, since: nil) != nil })
  }

  /// What the spool's disk has is recorded.
  func endDisk() { if world.scenario.bareCopies > 0 { journal?.endDisk(capture) } }

  /// The process is gone.
  func end() {
    life += 1
    journal?.die()
    names.die()
    publications.die()
    waits?.die()
    schedule = nil
    journal = nil
    outbox = []
    isActing = false
    for buffer in buffers.values { buffer.wipe() }
    buffers = [:]
    smallReads = []
    bufferBytes = [:]
    reads = []
    sentCounters = [:]
    memory = .full
    alarm = nil
    recordedDigests = [:]
    checks.forget()
    network.forgetClient()
  }

  /// A user goes through all files: failed ones are retried, and interrupted ones are published.
  func retryAll() {
    world.trace("retry all")
    for file in capture.ids {
      switch explanation(of: file).state {
      case .failed, .waiting, .queued, .uploading: execute(.retry, on: file)
      case .interrupted: execute(.publish, on: file)
      case .writing, .held, .ignored, .complete, .cancelled, nil: break
      }
    }
  }

  /// As the engine carries out a command that is written to a file's status. True when it was carried out and is
  /// durable.
  @discardableResult
  func execute(_ command: FileCommand, on id: FileID) -> Bool {
    world.trace("\(command.rawValue) \(id)")
    if let file = capture.file(id) { capture.rescanIfUnloaded(file) }
    // The client uses the spool's latest report, whatever the spool could report now.
    if command == .publish, isHeldBack(id) { capture.want(id) }
    var outcome = FileCommandOutcome.unknownFile
    checks.beginsAnew(id)
    checks.mayGoOutAnew(id)
    apply { outcome = $0.execute(command, id, at: $1) }
    guard outcome == .obeyed else { return false }
    return journal?.recordNow(id) ?? false
  }

  private func isHeldBack(_ id: FileID) -> Bool {
    let (state, code) = explanation(of: id)
    let isOfSpool = code.flatMap { Interruption($0) }?.isOfSpool ?? false
    return state == .held || state == .interrupted && !isOfSpool && !isLeftOfDelivered(id, code)
  }

  /// The remains of a delivered content replace it by no command: whatever of them is published is a violation.
  private func isLeftOfDelivered(_ id: FileID, _ code: String?) -> Bool {
    ["not-on-disk", "unproven"].contains(code) && schedule?.catalogEntry(of: id)?.state == .complete
  }

  /// False when the effect fails, or when the machine crashes instead.
  func admits(_ kind: EffectKind) -> Bool {
    switch world.verdict(on: kind, of: .client) {
    case .done: return true
    case .failed: return false
    case .crash:
      daemon?.crash()
      return false
    }
  }

  // MARK: What the filesystem says

  func handle(_ event: FileEvent) {
    world.trace("event: \(event.brief)")
    if let file = event.file, event.loads { recall(file) }
    if case .changed(let snapshot) = event { checks.beginsAnew(snapshot.id) }
    if let file = event.file { checks.mayGoOutAnew(file) }
    var former: FormerPublication?
    // A file that is not known as delivered would be known as published.
    let isOverlooked = world.bug == .deliverOlder
    if !isOverlooked, let snapshot = event.found, schedule?.mayComeAfterPublication(snapshot) == true {
      former = publications.former(at: snapshot.names)
      if let last = former, !last.isOf(snapshot.id), isRenamedCapture(snapshot) { former = nil }
      if former != nil { names.recall(snapshot.id) }
    }
    apply { $0.handle(event, after: former, at: $1) }
  }

  /// As `UploadEngine.isRenamedCapture`.
  private func isRenamedCapture(_ snapshot: FileSnapshot) -> Bool {
    guard storage.catalog[snapshot.id] == nil, let daemon else { return false }
    return daemon.clients.contains { $0 !== self && $0.hasRecorded(snapshot) }
  }

  private func hasRecorded(_ snapshot: FileSnapshot) -> Bool {
    guard recordedIdentities[snapshot.inode] == snapshot.id, let known = storage.catalog[snapshot.id] else {
      return false
    }
    return known.sizeBytes == snapshot.sizeBytes && known.modifiedNanoseconds == snapshot.modifiedNanoseconds
  }

  /// The catalog entry of a file that memory does not hold.
  private func recall(_ id: FileID) {
    guard isUnloaded(id), let entry = storage.catalog[id] else { return }
    schedule?.recall(entry)
    names.recall(id)
  }

  func isUnloaded(_ id: FileID) -> Bool { schedule?.isUnloaded(id) ?? false }
  var hasRoomForFiles: Bool { schedule?.hasRoomForFiles(at: world.time.clockReading) ?? true }

  private func load(_ ids: [FileID]) {
    let life = life
    for id in ids {
      world.time.after(world.random.duration(.microseconds(50)...(.milliseconds(20)))) { [self] in
        guard self.life == life else { return }
        let result = storage.catalog[id].map { capture.rescan(at: $0.path) } ?? .missing
        guard self.life == life else { return }
        recall(id)
        apply { $0.loadEnded(id, result, at: $1) }
      }
    }
  }

  private func seek() {
    let life = life
    let sought = schedule?.soughtFiles ?? []
    world.time.after(world.random.duration(.milliseconds(1)...(.seconds(1)))) { [self] in
      guard self.life == life else { return }
      for id in sought where schedule?.isSought(id) == true {
        if let file = capture.file(id), !file.names.isEmpty { capture.rescanIfUnloaded(file) }
      }
      guard self.life == life else { return }
      let left = sought.filter { schedule?.isSought($0) == true }
      for id in left { recall(id) }
      apply { $0.soughtInVain(left, at: $1) }
    }
  }

  /// The journal has made these durable.
  func unloaded(_ entries: [CatalogEntry]) {
    var gone: [FileID] = []
    apply { gone = $0.unloaded(entries.filter { waits?.isAwaited($0.id) != true }, at: $1) }
    for id in gone { capture.unload(id) }
  }

  func contentWillChange(_ id: FileID) -> Bool {
    recall(id)
    guard schedule?.contentWillChange(id) == true, let journal, !journal.markChanged(id), isUp else { return true }
    apply { $0.contentStays(id, at: $1) }
    return false
  }

  // MARK: What the journal asks

  func catalogEntry(of id: FileID) -> CatalogEntry? { schedule?.catalogEntry(of: id) }
  func resumeSnapshot(of id: FileID, since mark: ResumeSnapshot.Mark?) -> ResumeSnapshot? {
    schedule?.resumeSnapshot(of: id, since: mark)
  }

  func resumeSaved(_ id: FileID, _ mark: ResumeSnapshot.Mark) {
    world.trace("resume record saved \(id)")
    apply { schedule, _ in schedule.resumeSaved(id, mark) }
  }

  func measure(_ id: FileID) {
    guard let file = capture.file(id) else { return }
    let snapshot = capture.look(at: file)
    world.trace("measured \(snapshot.brief)")
    apply { $0.measured(snapshot, at: $1) }
  }

  func recorded(_ id: FileID, _ receipt: Receipt?) {
    if receipt != nil { world.trace("recorded \(id)") }
    apply { $0.recorded(id, receipt: receipt, at: $1) }
  }

  /// What the catalog records as delivered is what the receiver has confirmed, byte for byte.
  func checkCatalog(_ entries: [CatalogEntry]) {
    for entry in entries where entry.state == .complete {
      guard let file = capture.file(entry.id), !file.isRemains, !file.isMistaken, file.inode == entry.inode,
        UInt64(file.bytes.count) == entry.sizeBytes,
        file.modifiedNanoseconds == entry.modifiedNanoseconds, !file.activity.hasOpenRevision
      else { continue }
      // A file that a user wants as it is is sent before the spool gets the order.
      let content = file.wanted == file.shown ? file.shown : file.bytes
      let delivered = site.oracle.bytes(ofReceipt: entry.receipt?.id ?? "")
      // The receiver had all of what the spool's disk has lost.
      let isFoundAgain = file.integrity.interruption == .notOnDisk && delivered == file.closed
      if delivered != content, !isFoundAgain {
        world.fail(.receipt, "the catalog has \(entry.path.displayText) complete with a receipt for other bytes")
      }
    }
  }

  // MARK: Deciding and acting

  func apply(_ event: (inout UploadSchedule, ClockReading) -> Void) {
    // Virtual time has no stopped processes, only machines that sleep.
    let (now, pause) = time.read(world.time.clockReading, wantedAt: nil)
    let decision = schedule?.decide(
      { schedule, now in
        if let pause { schedule.resumed(after: pause, at: now) }
        event(&schedule, now)
      }, at: now)
    guard let decision else { return }
    checkConsistency()
    outbox += decision.actions
    setAlarm(decision.deadline)
    act()
  }

  /// Checks all files, and so not after each event.
  private func checkConsistency() {
    decisionCount &+= 1
    guard decisionCount.isMultiple(of: 32), let broken = schedule?.brokenInvariants.first else { return }
    world.fail(.consistency, "\(broken)")
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
    guard self.life == life else { return }
    isActing = false
    waits?.check(self)
  }

  private func setAlarm(_ deadline: MonotonicTime?) {
    guard alarm != deadline else { return }
    alarm = deadline
    guard let deadline else { return }
    let life = life
    let isImpatient = world.bug == .retryWithoutDelay
    // The clock of this mistake runs ahead, and doubling pauses exceed its range.
    if isImpatient, deadline.nanoseconds > .max / 4 { return }
    let wallTime = world.time.wallNanoseconds + deadline.nanoseconds - world.time.nanoseconds
    world.time.at(isImpatient ? world.time.nanoseconds + 1_000_000 : deadline.nanoseconds) { [self] in
      guard self.life == life, alarm == deadline else { return }
      // The clock was set back: this alarm is for a time weeks away.
      if world.bug == .wakeByWallClock, world.time.wallNanoseconds < wallTime { return }
      alarm = nil
      apply { schedule, now in
        var now = now
        if isImpatient { now.monotonic = deadline }
        schedule.woke(at: now)
      }
    }
  }

  private func perform(_ action: UploadAction) {
    if let brief = action.brief { world.trace(brief) }
    switch action {
    case .read(let order): read(order)
    case .findHoles(let order): findHoles(order)
    case .release(let read):
      if world.bug == .leakBuffer, world.random.happens(0.1) { return }
      buffers.removeValue(forKey: read)?.wipe()
      smallReads.remove(read)
      bufferBytes[read] = nil
    case .send(let orders): decided(orders)
    case .cancel(let request): cancel(request)
    case .cancelUnsent(let request, _): if !network.isOut(request) { cancel(request) }
    case .record(let id):
      if world.bug == .loseRecord, schedule?.isAwaitingRecord(of: id) == true { return }
      if world.bug == .completeBeforeDurable, let receipt = schedule?.catalogEntry(of: id)?.receipt {
        recorded(id, receipt)
      }
      journal?.record(id)
    case .forget(let id):
      journal?.forget(id)
      names.forget(id)
    case .forgetNames(let id): names.forget(id)
    case .forgetEntry(let id): journal?.forget(id)
    case .saveResume(let id): journal?.saveResume(id)
    case .removeResume(let id): journal?.removeResume(id)
    case .noteDiscarded(let session): journal?.note(discarded: session)
    case .forgetDiscarded(let id): journal?.forget(discarded: id)
    case .measure(let id): journal?.measure(id)
    case .checkGrowth(let id, let chunkBytes, let anew):
      let report = capture.growth(of: id, chunkBytes: chunkBytes, anew: anew)
      if let report {
        world.trace("grown \(report.brief)")
        checks.mayGoOutAnew(id)
      }
      apply { $0.grew(id, report, at: $1) }
    case .checkProgress: checkProgress()
    case .showStatus(let id): waits?.tell(id, self)
    case .showSummary: waits?.tellAll(self)
    case .renewConnections: if world.bug != .keepResting { checks.awoke() }
    case .unload(let ids): journal?.unload(ids)
    case .load(let ids): if world.bug != .leaveUnloaded { load(ids) }
    case .seek: seek()
    case .showNames, .hide, .resizeBuffers, .askForLimits, .askForNames, .networkChanged: break
    case .report(let report): note(report)
    }
  }

  private func note(_ report: UploadReport) {
    world.trace("report: \(report.brief)")
    switch report {
    case .stuck(let id, _): checks.stuck(id)
    case .straggling(let id, _): checks.straggles(id)
    case .setBack(let id, _, let failure, let count, _)
    where world.bug != .retrySetbacks && world.bug != .resendPublished:
      checks.setBack(id, failure, count: count)
    case .leftForTheEnd(let id, _, let failure, let count): checks.setBack(id, failure, count: count)
    case .setBack(let id, _, _, _, _):
      let life = life
      world.time.after(.milliseconds(10)) { [self] in if self.life == life { apply { $0.retry(id, at: $1) } } }
    case .notSent(_, let path): world.fail(.standstill, "a chunk of \(path.displayText) was chosen and not sent")
    case .contradiction(let text): world.fail(.consistency, "\(text)")
    case .destinationUnavailable: checks.destinationIsUnavailable()
    case .missingFromSpool(let id, let path):
      if capture.file(id)?.names.isEmpty == false {
        world.fail(.retention, "\(path.displayText) is in the spool, and forgotten as if it were not")
      }
    default: break
    }
    guard case .delivered(let id, let path, let receipt) = report else { return }
    site.oracle.delivered(path, at: world.time.nanoseconds)
    capture.delivered(id)
    checks.beginsAnew(id)
    if storage.catalog[id]?.receipt != receipt {
      world.fail(.durability, "\(path.displayText) is complete before its receipt is in the catalog")
    }
  }

  /// Why a file is not published, by its status.
  func explanation(of id: FileID) -> (state: FileStatus.State?, code: String?) {
    let status = schedule?.status(
      of: id, publishedName: { publishedName(of: id, at: $0) }, at: world.time.clockReading)
    if status == nil, isUnloaded(id) { return (storage.catalog[id]?.state == .complete ? .complete : .queued, nil) }
    // A file that waits for another of its contents has not failed.
    let reason = status?.state == .waiting ? status?.reason : nil
    return (status?.state, status?.lastFailure?.code ?? reason)
  }

  /// No buffer is in use while nothing is in flight.
  func checkIdle() {
    if waits?.isEmpty == false { world.fail(.waits, "a call waits while nothing is under way") }
    if !buffers.isEmpty { world.fail(.leaks, "\(buffers.count) buffers are held while nothing is under way") }
    checks.checkIdle()
  }

  func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
    let candidates = schedule?.evictionCandidates(countMax: countMax) ?? []
    if candidates.isEmpty { apply { $0.wantDelivered(at: $1) } }
    return candidates
  }
  func mayLose(_ candidate: EvictionCandidate) -> Bool { schedule?.mayLose(candidate) ?? false }

  func publishedName(of id: FileID, at path: RelativePath) -> String {
    let name = { [self] in destination.publishedName(for: names.shownName(of: id, at: $0)) }
    let status = schedule?.status(of: id, publishedName: name, at: world.time.clockReading)
    let isOnly = status.map { $0.state == .complete && $0.path == path && $0.otherPaths.isEmpty } ?? false
    return isOnly ? status?.publishedName ?? name(path) : name(path)
  }
}

// MARK: Once a second

extension SimulatedClient {
  /// As the driver does: memory is checked, and room is made. Requests in flight are checked as well.
  private func tick() {
    let life = life
    world.time.after(.seconds(1)) { [self] in
      guard self.life == life else { return }
      watchMemory()
      if world.strikes(world.scenario.evictions / 60) { evict() }
      if world.strikes(world.scenario.shortages / 60) { findNoSpace(times: 20) }
      obeySpoolOrders()
      guard self.life == life else { return }
      if world.scenario.bareCopies > 0 { journal?.checkDisk(capture) }
      checks.checkDeadlines()
      if world.mayRefuse { checkExplanations() }
      tick()
    }
  }

  /// A waiting file has a reason.
  private func checkExplanations() {
    if capture.isScanFailing, schedule?.summary(at: world.time.clockReading).lastFailure == nil {
      world.fail(.explanation, "the scan waits for what cannot be read, and nothing says so")
    }
    for id in capture.ids {
      let (state, code) = explanation(of: id)
      switch state {
      case .interrupted, .waiting, .failed:
        if code == nil { world.fail(.explanation, "\(id) is \(state?.word ?? "unknown") for no reason that is said") }
      case .writing, .held, .ignored, .queued, .uploading, .complete, .cancelled, nil: break
      }
    }
  }

  private func obeySpoolOrders() {
    for order in schedule?.takeSpoolOrders() ?? [] {
      switch order {
      case .accept(let file, let interruption):
        capture.accept(file.id, interruption, ifUnchangedSince: file.epoch)
      case .discard(let file):
        if !capture.evict(file) { schedule?.notDiscarded(file) }
      }
    }
  }

  /// A writer pauses and tries again, as the filesystem allows.
  private func findNoSpace(times: Int) {
    if world.bug == .releaseUnrecorded { pretendRecords() }
    var candidates: [ReleaseCandidate] = []
    apply { candidates = $0.releaseCandidates(bytesMax: 1000, at: $1) }
    for candidate in candidates { capture.release(candidate) }
    let life = life
    guard times > 0 else { return }
    world.time.after(.milliseconds(50)) { [self] in
      if self.life == life { findNoSpace(times: times - 1) }
    }
  }

  /// The planted mistake `releaseUnrecorded`.
  private func pretendRecords() {
    for id in capture.names.compactMap({ capture.file(named: $0)?.id }) {
      if let mark = resumeSnapshot(of: id, since: nil)?.mark { resumeSaved(id, mark) }
    }
  }

  private func watchMemory() {
    let budget = memory.next(availableBytes: world.availableMemory, bufferBytes: world.scenario.limits.bufferBytes)
    guard budget != memory else { return }
    memory = budget
    checks.budget = budget
    world.trace("client: \(budget.chunksInFlight) chunks may be in flight")
    if world.bug != .ignoreMemory { apply { $0.memoryChanged(to: budget, at: $1) } }
  }

  /// The planted mistake `spin`.
  private func spin() {
    world.time.after(.nanoseconds(1)) { [self] in spin() }
  }

  /// The planted mistake `evictUnshown`.
  private func firstUnshown() -> EvictionCandidate? {
    let delivered = capture.ids.filter { explanation(of: $0).state == .complete }
    return delivered.lazy.compactMap { self.capture.file($0)?.snapshot }
      .first { $0.names.allSatisfy { TemporaryNameRule.standard.matches($0.lastComponent) } }.map(
        EvictionCandidate.init)
  }

  /// Removes the local copy that was delivered first. As in the filesystem time passes between the choice and the
  /// removal.
  private func evict() {
    if world.bug == .evictUndelivered, let file = capture.names.lazy.compactMap({ self.capture.file(named: $0) }).first
    {
      _ = capture.evict(EvictionCandidate(file.snapshot))
      return
    }
    let unshown = world.bug == .evictUnshown ? firstUnshown() : nil
    guard let candidate = unshown ?? daemon?.evictionCandidates(countMax: 64).first else { return }
    let life = life
    world.time.after(world.random.duration(.zero ... .seconds(1))) { [self] in
      if self.life == life { _ = capture.evict(candidate) }
    }
  }
}

extension UploadSchedule {
  fileprivate mutating func decide(
    _ event: (inout UploadSchedule, ClockReading) -> Void, at now: ClockReading
  ) -> (actions: [UploadAction], deadline: MonotonicTime?) {
    event(&self, now)
    return (takeActions(), nextDeadline)
  }
}

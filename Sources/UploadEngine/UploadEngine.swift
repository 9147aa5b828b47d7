public import FileModel
public import Logging
import Lookup
import Synchronization
import SystemMemory
import Threads

/// Delivers captured files: hears what the filesystem reports, asks the ``UploadSchedule`` what follows, and does it.
///
/// This is the only place where decisions meet the world. Every event takes the lock, asks the schedule and gives the lock
/// back; the engine's own thread acts, in the order in which it was decided. Names are the exception: where a file's status stands is
/// shown before the call that decided it returns, so that a program finds the status of what it has just created. Nothing in
/// here waits: reading, writing and sending have threads of their own. So it may be called on filesystem threads.
///
/// Lowered threads (``ThreadRole/behind(_:)``) never take the lock, nor any other that a filesystem thread takes: the kernel may let
/// one stand still for a fifth of a second while it holds it. They leave what has happened to the engine's thread (``post(_:)``).
public final class UploadEngine: FileEventSink, StatusSource, CopyHolder, Sendable {
  struct State: Sendable {
    var schedule: UploadSchedule
    /// What was reported so far; nil once earlier runs are known.
    var early: EarlyEvents? = EarlyEvents()
    var outbox: [UploadAction] = []
    var time = RunningTime()
    /// Until when the engine's thread sleeps, unless it is woken; nil for ever.
    var sleepsUntil: MonotonicTime?
    /// The engine's thread looks at the outbox once more before it sleeps for longer: what is patient does not wake it.
    var looksAgain = false
    var isStopped = false
    var whenDrained: (@Sendable () -> Void)?
    var isDrained = false

    /// The time at which something happens. After a pause the schedule hears of that first.
    mutating func now(_ clocks: Moment) -> Moment {
      let (now, pause) = time.read(clocks, wantedAt: schedule.nextDeadline)
      if let pause { schedule.resumed(after: pause, at: now) }
      return now
    }

    /// Who is to be told that nothing is left to deliver, when that has just come true.
    mutating func noteDrained() -> (@Sendable () -> Void)? {
      guard let whenDrained else { return nil }
      let wasDrained = isDrained
      isDrained = schedule.isIdle
      return isDrained && !wasDrained ? whenDrained : nil
    }
  }

  /// What a read has brought, and how it travels: decisions need to know neither.
  struct HeldChunk: Sendable {
    var buffer: ChunkBuffer
    var plainBytes: Int
    var encoding = ChunkEncoding.identity
    /// The bytes to clear from the page cache once the receiver holds them.
    var trace: CacheTrace?
  }

  struct BodyUnderWay: Sendable {
    let sent: SentByteCounter
    let byteCount: UInt64
    /// Requests of the same step that were answered before.
    let answered: Int
    /// What these have carried of the step's body, and how long that is; 0 where the step has none.
    let sentBefore: UInt64
    let stepBytes: UInt64

    var progress: SentBody {
      SentBody(bytes: sentBefore + sent.value, of: max(stepBytes, byteCount), answered: answered)
    }

    /// As long as less than this is out, a part of the content is not; compressed it is shorter.
    func unsentBelow(_ contentBytes: UInt64) -> UInt64 { min(contentBytes, byteCount) }
  }

  struct Parts {
    var contents: (any FileContents)?
    var io: HybridIOEngine?
    var workers: ReadWorkers?
    var thread: WorkerThread?
    var loader: WorkerThread?
  }

  let configuration: EngineConfiguration
  let destination: any Destination
  let transport: any HTTPTransport
  private let statusTree: StatusTree
  let catalog: Catalog
  let resumeStore: ResumeStore
  private let room: StateRoom?
  let journal: EngineJournal
  let names: PublishedNames
  /// Nil where the destination cannot tell whose a name is.
  let publications: PublicationIndex?
  private let sweep: SessionSweep
  let logger: Logger
  let pool: ChunkBufferPool
  private let smallPool: ChunkBufferPool
  /// For files that are read while they are sent.
  let streamPool: ChunkBufferPool
  let state: Mutex<State>
  let parts: Mutex<Parts>
  let counters = PipelineCounters()
  let held: Mutex<[ReadID: HeldChunk]>
  /// How far the bodies under way have come.
  let sentCounters = Mutex<LookupTable<HTTPRequestID, BodyUnderWay>>([:])
  /// Publications for which the spool is to be asked. Those that come while the disk is waited for go together.
  let unpublished = Mutex<[RequestOrder]>([])
  /// Publications for which the spool is being asked, and whether they were ended meanwhile.
  let notStarted = Mutex<LookupTable<HTTPRequestID, Bool>>([:])
  /// Compresses files together; nil before the first ones, and while a request has it.
  let framing = Mutex<ComputingThread?>(nil)
  private let waiters = DeliveryWaiters()
  /// Files of which the catalog could not be told that they change.
  private let unrecorded = Mutex<LookupSet<FileID>>([])
  /// Files that were met while the catalog could not be asked what was published in their place.
  private let metUnread = Mutex<LookupSet<FileID>>([])
  /// What lowered threads have left for the engine's thread, which the bell wakes.
  private let inbox = Inbox<@Sendable () -> Void>()
  private let bell = Bell()
  /// How long what is patient may wait after the last action: of ten thousand small files each wake-up of the thread is seen.
  private static let gatherNanoseconds: Int64 = 5_000_000
  let isEnding = Atomic(false)
  /// Nothing more is left in the inbox: it holds this object.
  private let isClosed = Atomic(false)
  /// Requests that are no longer wanted while what follows their last answer waits in the inbox. Of the engine's thread alone.
  let unwanted = Mutex<LookupSet<HTTPRequestID>>([])
  let loading = Monitor(Loading.reading)
  /// Takes the changes that are remembered for counts, so that their number is bounded where no program reads the summary.
  let whenManyHaveChanged = Mutex<(@Sendable () -> Void)?>(nil)
  private static let changedFilesMax = 4096
  /// Who is told that the catalog cannot be read.
  let whenCatalogFails = Mutex<(@Sendable (StorageError) -> Void)?>(nil)
  /// Whether another destination's catalog knows a capture as it lies; nil where there is no other one.
  let isKnownElsewhere = Mutex<(@Sendable (FileSnapshot) throws(StorageError) -> Bool)?>(nil)
  /// Inode numbers and identities that the catalog knows from earlier runs; for the filesystem.
  public let knownIdentities: [UInt64: FileID]
  /// What the catalog knows of the files that may be in the spool; for the filesystem.
  public let knownCaptures: KnownCaptures

  /// An engine over a catalog, the resume records of earlier runs and the ledger of names that templates give, which the engines
  /// of a spool share; nil: every file is published under its path. They share the room of their state as well. It does nothing before ``start()``; of the catalog only the
  /// identities are read before that.
  public init(
    configuration: EngineConfiguration, destination: any Destination, transport: any HTTPTransport, catalog: Catalog,
    resumeStore: ResumeStore, ledger: NameLedger? = nil, room: StateRoom? = nil,
    statusTree: StatusTree, logger: Logger
  ) throws(StorageError) {
    self.configuration = configuration
    self.destination = destination
    self.transport = transport
    self.statusTree = statusTree
    self.logger = logger
    self.catalog = catalog
    self.resumeStore = resumeStore
    self.room = room
    knownIdentities = try catalog.identities()
    knownCaptures = try KnownCaptures(catalog)
    if let damage = catalog.takeDamage() { logger.warning("\(damage)") }
    sweep = SessionSweep(
      destination: destination, transport: transport, catalog: catalog, logger: logger,
      sessionAge: configuration.limits.timing.sessionAge)
    journal = EngineJournal(catalog: catalog, resumeStore: resumeStore, room: room, logger: logger)
    pool = ChunkBufferPool(
      capacity: configuration.limits.buffers, bufferBytes: configuration.limits.bufferBytes, counters: counters)
    // Counted for itself: the other count is of memory of a chunk's size.
    smallPool = ChunkBufferPool(
      capacity: configuration.limits.smallBuffers, bufferBytes: configuration.limits.smallFileBytes,
      counters: PipelineCounters())
    // Twice what can be in use: buffers of a request that was broken off may be on their way back.
    streamPool = ChunkBufferPool(
      capacity: 2 * FileStream.depth * configuration.limits.parallelChunks, bufferBytes: FileStream.pieceBytes,
      counters: PipelineCounters())
    publications = destination.abilities.ifExists == nil ? nil : PublicationIndex(catalog: catalog)
    let names = PublishedNames(rules: configuration.limits.rules, host: configuration.hostName, ledger: ledger)
    self.names = names
    state = Mutex(
      State(
        schedule: UploadSchedule(
          limits: configuration.limits, abilities: destination.abilities, endpointCount: destination.endpointCount,
          owner: SessionOwner(address: destination.displayURL, credentialMark: destination.credentialMark),
          publishedName: { names.name(of: $0, at: $1).map { destination.publishedName(for: $0) } },
          random: configuration.random)))
    parts = Mutex(Parts())
    held = Mutex([:])
  }

  /// Names the place where bytes come from. The filesystem needs the engine as its sink and the engine needs the
  /// filesystem's contents; so this comes after both exist, and before ``start()``.
  public func attach(contents: any FileContents) {
    parts.withLock { $0.contents = contents }
  }

  /// Starts the engine's threads. One of them reads what earlier runs left, and ends; until it has, what is reported waits.
  public func start() {
    guard let contents = parts.withLock({ $0.contents }) else {
      preconditionFailure("attach(contents:) comes before start()")
    }
    let pressure = MemoryPressure()
    let allMemory = configuration.availableMemory ?? { pressure.availableBytes() }
    // Engines that each took all that is left would take it several times.
    let engineCount = configuration.enginesOfProcess
    let availableMemory = { @Sendable in allMemory().map { $0 / UInt64(max(1, engineCount)) } }
    // Where no other engine reads the same files, pages of large ones are of no use once they are delivered.
    let io = HybridIOEngine(
      contents: contents, method: configuration.reading, counters: counters, isAlone: engineCount == 1)
    // Before anything is read: a start that takes as much as the one before, which was killed for it, ends as that did.
    let budget = MemoryBudget.smallest.next(
      availableBytes: availableMemory(), bufferBytes: configuration.limits.bufferBytes)
    state.withLock { $0.schedule.memory = budget }
    io.setSavesMemory(budget.readsPlainly)
    journal.start(
      source: EngineJournal.Source(
        catalogEntries: { [self] ids in
          state.withLock { state in ids.compactMap { state.schedule.catalogEntry(of: $0) } }
        },
        resumeSnapshot: { [self] id, mark in state.withLock { $0.schedule.resumeSnapshot(of: id, since: mark) } },
        resumeSaved: { [self] id, mark in
          apply { schedule, _ in schedule.resumeSaved(id, mark) }
        },
        recordingFails: { [self] error in
          apply { $0.recordingFails(error.message, at: $1) }
        },
        publications: { [publications] in publications?.unsaved() ?? PublicationNotes() },
        publicationsSaved: { [publications] in publications?.saved($0) },
        recorded: { [self] entries in
          apply { $0.recorded(entries, at: $1) }
        },
        diskRound: { [self] in
          var step: DiskRounds.Step?
          change { state, _ in step = state.early == nil ? state.schedule.lookAtDiskRound() : nil }
          return step
        },
        diskRoundBegan: { [self] round in
          state.withLock { $0.schedule.diskRounds.began(isOfNewRows: round.isOfNewRows) }
        },
        isEverythingOnDisk: { [self] in state.withLock { $0.early == nil && $0.schedule.isEverythingOnDisk } },
        measure: { [self] id in
          guard let snapshot = contents.snapshot(of: id) else { return }
          apply { $0.measured(snapshot, at: $1) }
        },
        tick: { [self] in
          evictExpired(contents)
          keepRoom(contents)
          askAgain(contents)
          obeySpoolOrders(contents)
          io.sweep()
          watchMemory(io, availableMemory)
          sweepSessions()
          if state.withLock({ $0.schedule.changedCount > Self.changedFilesMax }) {
            whenManyHaveChanged.withLock { $0 }?()
          }
        }))
    let workers = ReadWorkers(
      contents: contents, io: io, counters: counters, threadCount: configuration.readThreads,
      priority: configuration.priority,
      queueCapacity: configuration.limits.buffers
        * max(1, configuration.limits.bufferBytes / UploadConstants.chunkBytesMin)
        + configuration.limits.smallBuffers + streamPool.capacity
    ) { [weak self] job, result in
      if let stream = job.stream { stream.readEnded(job, result) } else { self?.readEnded(job, result) }
    }
    let loader = WorkerThread("loader", .answering) { [self] in loadEarlierRuns() }
    parts.withLock {
      $0.loader = loader
      $0.io = io
      $0.workers = workers
    }
    let thread = WorkerThread("engine", .answering) { [self] in serve() }
    parts.withLock { $0.thread = thread }
  }

  /// From now on only what there is will be delivered. `whenDrained` is called each time that ``isDrained`` has become true,
  /// on whichever thread made it so and with no lock held.
  public func beginDraining(whenDrained: @escaping @Sendable () -> Void = {}) {
    state.withLock { $0.whenDrained = whenDrained }
    apply { $0.beginDraining(at: $1) }
  }

  /// Nothing is left that will be delivered without help: every file is delivered, held under a temporary name, or failed
  /// with a reason.
  public var isDrained: Bool { state.withLock { $0.schedule.isIdle } }

  /// What the reading side has done so far.
  public var pipelineStatistics: PipelineStatistics {
    var statistics = counters.snapshot
    statistics.buffers = pool.mappedCount
    return statistics
  }

  /// Writes a resume record for every upload that is under way and ends the engine's threads. Nothing is sent or read
  /// after this. The transport is stopped by its owner, before or after.
  public func stop() {
    isEnding.store(true, ordering: .releasing)
    bell.ring()
    // What was decided before is done.
    parts.withLock { $0.thread.take() }?.join()
    let uploads = state.withLock { state -> [FileID] in
      state.isStopped = true
      return state.schedule.files.values.compactMap { $0.hasResumableSession ? $0.id : nil }
    }
    for id in uploads { journal.saveResume(id) }
    waiters.endAll()
    set(.over)
    let (workers, loader) = parts.withLock { ($0.workers.take(), $0.loader.take()) }
    loader?.join()
    workers?.stop()
    names.stop()
    // Answers that came meanwhile change nothing any more, but for what the journal has to know of sessions.
    for event in inbox.takeAll() { event() }
    isClosed.store(true, ordering: .releasing)
    journal.stop()
    // What comes too late is dropped, with its references to this object.
    _ = inbox.takeAll()
  }

  // MARK: - FileEventSink

  /// Takes one event of the filesystem.
  public func handle(_ event: FileEvent) {
    switch event {
    case .evicted(let id), .removed(let id): parts.withLock { $0.io }?.forget(id)
    default: break
    }
    if waitsForEarlierRuns(.reported(event)) { return }
    guard let snapshot = event.found, state.withLock({ $0.schedule.mayComeAfterPublication(snapshot) }) else {
      return apply { $0.handle(event, at: $1) }
    }
    do throws(StorageError) {
      let former = try former(of: snapshot)
      apply { $0.handle(event, after: former, at: $1) }
    } catch {
      // As where the spool cannot say what the file is like: nothing of it goes out before that is known.
      logger.warning("\(error.message)", metadata: ["path": "\(snapshot.names.first?.displayText ?? "")"])
      metUnread.withLock { _ = $0.insert(snapshot.id) }
      apply { $0.handle(event.unread, at: $1) }
    }
  }

  /// Asks again what was published in the place of files that were met, and are as they were.
  private func askAgain(_ contents: any FileContents) {
    for id in metUnread.withLock({ $0.sorted() }) {
      if let snapshot = contents.snapshot(of: id), snapshot.wasFound, snapshot.epoch == 0, snapshot.writableOpens == 0 {
        do throws(StorageError) {
          let former = try former(of: snapshot)
          apply { $0.handle(.settled(snapshot), after: former, at: $1) }
        } catch {
          return
        }
      }
      metUnread.withLock { _ = $0.remove(id) }
    }
  }

  /// What was published last at the path of a file that was met.
  func former(of snapshot: FileSnapshot) throws(StorageError) -> FormerPublication? {
    let former = try publications?.former(at: snapshot.names, areCalledAsPaths: !names.areMade) {
      destination.publishedName(for: $0)
    }
    if let former, !former.isOf(snapshot.id), try isRenamedCapture(snapshot) { return nil }
    // What the capture itself is called counts, also where the catalog has lost it.
    if former != nil { try names.recall([snapshot.id]) }
    return former
  }

  /// It is no capture of this destination, and one of another: it was renamed to where it is found.
  private func isRenamedCapture(_ snapshot: FileSnapshot) throws(StorageError) -> Bool {
    guard let isKnownElsewhere = isKnownElsewhere.withLock({ $0 }), try catalog.known(snapshot.id) == nil else {
      return false
    }
    return try isKnownElsewhere(snapshot)
  }

  /// An earlier run has recorded the capture as it lies in the spool, under whatever name. Blocks.
  func hasRecorded(_ snapshot: FileSnapshot) throws(StorageError) -> Bool {
    guard knownIdentities[snapshot.inode] == snapshot.id, let known = try catalog.known(snapshot.id) else {
      return false
    }
    return known.sizeBytes == snapshot.sizeBytes && known.modifiedNanoseconds == snapshot.modifiedNanoseconds
  }

  /// Makes durable that an earlier receipt no longer covers the file.
  public func contentWillChange(_ id: FileID) -> Bool {
    // Whether the catalog has a receipt is not known yet; from now on it has none.
    let isEarly = waitsForEarlierRuns(.contentWillChange(id))
    var mustRecord = isEarly
    if !isEarly { apply { schedule, _ in mustRecord = schedule.contentWillChange(id) } }
    guard mustRecord || unrecorded.withLock({ $0.contains(id) }) else { return true }
    guard journal.markChanged(id) else {
      unrecorded.withLock { _ = $0.insert(id) }
      contentStays(id)
      return false
    }
    unrecorded.withLock { _ = $0.remove(id) }
    return true
  }

  /// What was said of the content that was to change holds again.
  public func contentStays(_ id: FileID) {
    if waitsForEarlierRuns(.contentStays(id)) { return }
    apply { $0.contentStays(id, at: $1) }
  }

  /// Delivered files whose local copy may go, oldest first.
  public func evictionCandidates() -> [EvictionCandidate] {
    state.withLock { $0.schedule.evictionCandidates(countMax: 64) }
  }

  /// Whether the local copy of a file may go as far as this engine is concerned.
  package func mayLose(_ candidate: EvictionCandidate) -> Bool {
    state.withLock { $0.early == nil && $0.schedule.mayLose(candidate) }
  }

  /// Whether a file in the spool may count as whole from now on as far as this engine is concerned.
  func mayCountAsWhole(_ id: FileID) -> Bool {
    state.withLock { $0.early == nil && $0.schedule.mayCountAsWhole(id) }
  }

  /// Chunks of files that are not delivered yet whose place on the disk may be given back.
  public func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate] {
    var candidates: [ReleaseCandidate] = []
    apply { candidates = $0.releaseCandidates(bytesMax: bytesMax, at: $1) }
    return candidates
  }

  /// Whether a delivery is under way whose end may let something be removed.
  public var mayFreeSpace: Bool { state.withLock { $0.early != nil || $0.schedule.mayFreeSpace } }

  /// How large a file may become to be delivered here.
  public func sizeLimit(of id: FileID) -> SizeLimit {
    state.withLock { $0.early == nil ? $0.schedule.sizeLimit(of: id) : .none }
  }

  /// Calls back when the epoch or a later one is delivered, or will not be by itself.
  public func awaitDelivery(
    of id: FileID, epoch: UInt64, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait {
    // Who does not know the file yet must not say that nobody will deliver it.
    waitWhileLoading()
    let wait = waiters.add(id, epoch: epoch, whenKnown)
    // It may have been known before.
    tellWaiters(of: id)
    return wait
  }

  /// Nobody waits any more.
  public func endWaiting(_ wait: DeliveryWait, for id: FileID) { waiters.remove(wait, for: id) }

  private func tellWaiters(of id: FileID) {
    guard waiters.isAwaited(id) else { return }
    let known = state.withLock { state -> (epoch: UInt64, outcome: DeliveryOutcome)? in
      state.isStopped ? (.max, .failed) : state.schedule.deliveryOutcome(of: id)
    }
    if let known { waiters.tell(id, upTo: known.epoch, known.outcome) }
  }

  // MARK: - StatusSource

  /// Everything about one file, as it is now.
  public func status(of id: FileID) -> FileStatus? {
    let clocks = configuration.clock.now()
    guard
      var status = state.withLock({
        $0.schedule.status(
          of: id, publishedName: { destination.publishedName(for: names.shownName(of: id, at: $0)) },
          at: $0.time.shown(clocks))
      })
    else { return nil }
    if status.state == .writing, let sizeBytes = parts.withLock({ $0.contents })?.sizeBytesSoon(of: id) {
      status.writtenBytes = sizeBytes
      status.totalBytes = sizeBytes
    }
    if let receipt = status.receipt, status.state == .complete { nameByRecord(&status, receipt) }
    return status
  }

  /// The receipt is that of another of its names: of a file with hard links the one that was published last, of one that has a temporary
  /// name by now the one before. Where it lies under this one the record of names says.
  private func nameByRecord(_ status: inout FileStatus, _ receipt: Receipt) {
    let isOfThisName = [receipt.name, receipt.publishedAs].contains {
      $0?.utf8.elementsEqual(status.publishedName.utf8) == true
    }
    guard !isOfThisName else { return }
    status.publishedName =
      publications?.published(status.publishedName, by: status.id) ?? receipt.publishedAs ?? receipt.name
  }

  /// The destination's address, without credentials.
  var displayURL: String { destination.displayURL }

  /// Counts are to be taken together with those of other engines; before ``start()``. `whenMany` is called on the journal's thread, with
  /// no lock held, once a second while more than ``changedFilesMax`` changes wait to be taken.
  func rememberChanges(whenMany: @escaping @Sendable () -> Void) {
    whenManyHaveChanged.withLock { $0 = whenMany }
    state.withLock { $0.schedule.rememberChanges() }
  }

  /// What has changed since the last time.
  func takeCounted() -> CountedFiles { state.withLock { $0.schedule.takeCounted() } }

  /// The mount as a whole, as it is now.
  public func summary() -> MountSummary {
    let clocks = configuration.clock.now()
    var summary = state.withLock { $0.schedule.summary(at: $0.time.shown(clocks)) }
    summary.destination = destination.displayURL
    for index in summary.endpoints.indices {
      summary.endpoints[index].url = destination.displayURL(of: EndpointID(index))
    }
    return summary
  }

  // MARK: - Deciding and acting

  /// Lock, ask, unlock; the engine's thread acts.
  func apply(_ event: (inout UploadSchedule, Moment) -> Void) {
    change { event(&$0.schedule, $1) }
  }

  func change(_ event: (inout State, Moment) -> Void) {
    let clocks = configuration.clock.now()
    var named: [FileID] = []
    var shown: [FileID] = []
    let (isCalled, whenDrained) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
      guard !state.isStopped else { return (false, nil) }
      event(&state, state.now(clocks))
      var isUrgent = false
      for action in state.schedule.takeActions() {
        if case .showNames(let id) = action {
          named.append(id)
          continue
        }
        state.outbox.append(action)
        switch action {
        case .showStatus(let id): shown.append(id)
        case .record(let id) where state.schedule.isAwaitingRecord(of: id): isUrgent = true
        default: isUrgent = isUrgent || !action.isPatient
        }
      }
      isUrgent = isUrgent || !state.outbox.isEmpty && !state.looksAgain
      let deadline = state.schedule.nextDeadline?.nanoseconds ?? .max
      return (isUrgent || deadline < state.sleepsUntil?.nanoseconds ?? .max, state.noteDrained())
    }
    for id in named { showNames(of: id) }
    // A call may wait for what is told with the status.
    if isCalled || shown.contains(where: { waiters.isAwaited($0) }) { bell.ring() }
    whenDrained?()
  }

  /// Leaves an event to the engine's thread. For lowered threads, which take no lock that others wait for.
  func post(_ event: @escaping @Sendable () -> Void) {
    guard !isClosed.load(ordering: .acquiring) else { return }
    inbox.put(event)
    bell.ring()
  }

  /// The engine's thread: hears what lowered threads have left, wakes the schedule at its deadlines, and acts.
  private func serve() {
    while true {
      // Before looking: what comes later rings again.
      let isLast = isEnding.load(ordering: .acquiring)
      for event in inbox.takeAll() { event() }
      let isDue = state.withLock { state in
        state.schedule.nextDeadline.map { state.time.clock(at: $0).nanoseconds <= monotonicNanoseconds() } ?? false
      }
      if isDue { apply { $0.woke(at: $1) } }
      let hasActed = act()
      if isLast { return }
      let deadline = state.withLock { state -> Int64? in
        state.sleepsUntil = state.schedule.nextDeadline
        // What has come since has not rung where it is patient.
        state.looksAgain = hasActed || !state.outbox.isEmpty
        let deadline = state.sleepsUntil.map { state.time.clock(at: $0).nanoseconds }
        guard state.looksAgain else { return deadline }
        return min(deadline ?? .max, monotonicNanoseconds() + Self.gatherNanoseconds)
      }
      if let deadline { bell.wait(untilNanoseconds: deadline) } else { bell.wait() }
    }
  }

  /// False where there was nothing to do.
  private func act() -> Bool {
    var hasActed = false
    while true {
      let actions = state.withLock { state -> [UploadAction] in
        guard !state.isStopped else { return [] }
        defer { state.outbox.removeAll() }
        return state.outbox
      }
      if actions.isEmpty { return hasActed }
      hasActed = true
      for action in actions { perform(action) }
    }
  }

  private func perform(_ action: UploadAction) {
    switch action {
    case .read(let order): if !isEnding.load(ordering: .acquiring) { read(order) }
    case .findHoles(let order): if !isEnding.load(ordering: .acquiring) { findHoles(order) }
    case .release(let read): release(read)
    case .resizeBuffers(let count): pool.resize(to: count)
    // No answer would be heard: what can be sent only once would be unclear.
    case .send(let orders): if !isEnding.load(ordering: .acquiring) { send(orders) }
    case .cancel(let request):
      if endUnstarted(request) { return }
      // What follows the last answer may wait to be started, where the transport knows nothing of it.
      if state.withLock({ $0.schedule.isUnderWay(request) }) { unwanted.withLock { _ = $0.insert(request) } }
      transport.cancel(request)
    case .cancelUnsent(let request, let bodyBytes):
      if endUnstarted(request) { return }
      guard let unsentBelow = sentCounters.withLock({ $0[request]?.unsentBelow(bodyBytes) }) else { return }
      transport.cancel(request, unsentBelow: unsentBelow)
    case .record(let id): journal.record(id, isAwaited: state.withLock { $0.schedule.isAwaitingRecord(of: id) })
    case .forget(let id):
      journal.forget(id)
      names.forget(id)
    case .forgetNames(let id): names.forget(id)
    case .forgetEntry(let id): journal.forget(id)
    case .saveResume(let id): journal.saveResume(id)
    case .removeResume(let id): journal.removeResume(id)
    case .noteDiscarded(let session): journal.note(discarded: session)
    case .forgetDiscarded(let id): journal.forget(discarded: id)
    case .measure(let id): journal.measure(id)
    case .lookAtGrowth(let id, let chunkBytes, let anew):
      let report = parts.withLock { $0.contents }?.growth(of: id, chunkBytes: chunkBytes, anew: anew)
      apply { $0.grew(id, report, at: $1) }
    case .renewConnections: transport.renewConnections()
    case .lookAtProgress: lookAtProgress()
    case .showNames(let id): showNames(of: id)
    case .showStatus(let id):
      statusTree.changed(id: id)
      tellWaiters(of: id)
    case .showSummary:
      statusTree.mountChanged()
      // Nothing else will be said of what the scan has not found.
      for id in waiters.awaitedFiles { tellWaiters(of: id) }
    case .hide(let id): statusTree.removeIfUnknown(id: id)
    case .askForLimits(let request): askForLimits(request)
    case .report(let report): logger.log(report)
    }
  }

  private func showNames(of id: FileID) {
    statusTree.show(id) { state.withLock { $0.schedule.shownPaths(of: id) } }
  }

  // MARK: - Reading

  private func findHoles(_ order: HoleOrder) {
    let (contents, workers, io) = parts.withLock { ($0.contents, $0.workers, $0.io) }
    if let contents, let workers, let io {
      let isTaken = workers.run { [weak self] in
        let chunks = HoleFinder(contents: contents, io: io).chunks(of: order)
        let digest = ChunkDigest(ofZeros: order.chunkBytes)
        self?.apply { $0.holesFound(order, chunks, digest, at: $1) }
      }
      if isTaken { return }
    }
    apply { $0.holesFound(order, [], ChunkDigest(sha256: [], crc32c: 0), at: $1) }
  }

  private func read(_ order: ReadOrder) {
    // The schedule counts buffers, so one is free; if it were not, the read fails and is tried again.
    let free = order.isSmall ? smallPool.tryAcquire() : pool.tryAcquire(order.bufferBytes)
    guard let buffer = free, let workers = parts.withLock({ $0.workers }) else {
      apply { $0.chunkRead(order.id, result: .failed(.system(errno: 0)), at: $1) }
      return
    }
    held.withLock { $0[order.id] = HeldChunk(buffer: buffer, plainBytes: order.byteCount) }
    let job = ReadJob(
      id: order.id.value, file: order.file, epoch: order.epoch, isOfGrowingFile: order.isOfGrowingFile,
      offset: order.offset, byteCount: order.byteCount,
      buffer: buffer, compression: order.compression)
    if !workers.submit(job) {
      apply { $0.chunkRead(order.id, result: .failed(.system(errno: 0)), at: $1) }
    }
  }

  private func readEnded(_ job: ReadJob, _ result: ReadResult) {
    let outcome: ReadOutcome
    var (savedBytes, encoding) = (0, ChunkEncoding.identity)
    switch result {
    case .success(let chunk):
      (savedBytes, encoding) = (chunk.savedBytes, chunk.encoding)
      held.withLock {
        $0[ReadID(job.id)]?.encoding = chunk.encoding
        guard chunk.leavesNoTrace || job.isOfGrowingFile else { return }
        $0[ReadID(job.id)]?.trace = CacheTrace(
          file: job.file, range: job.offset..<(job.offset + UInt64(job.byteCount)), isOfLargeFile: chunk.leavesNoTrace)
      }
      outcome = .success(chunk.digest)
    case .changed: outcome = .changed
    case .failed(let error): outcome = .failed(error)
    }
    apply { [savedBytes, encoding] in
      $0.chunkRead(ReadID(job.id), result: outcome, savedBytes: savedBytes, encoding: encoding, at: $1)
    }
  }

  private func release(_ read: ReadID) {
    held.withLock { $0.removeValue(forKey: read) }?.buffer.release()
  }

  // MARK: - Once a second

  /// Fewer buffers when memory is short, more when there is enough again (spec A2).
  private func watchMemory(_ io: HybridIOEngine, _ availableMemory: () -> UInt64?) {
    let budget = state.withLock { $0.schedule.memory }
      .next(availableBytes: availableMemory(), bufferBytes: configuration.limits.bufferBytes)
    io.setSavesMemory(budget.readsPlainly)
    apply { $0.memoryChanged(to: budget, at: $1) }
  }

  private func sweepSessions() {
    // Before that nobody knows which of them are gone on with.
    guard state.withLock({ $0.early == nil && $0.schedule.isScanned && !$0.isStopped }) else { return }
    let now = configuration.clock.now()
    sweep.tick(
      SessionSweep.Source(
        sessionsInUse: { [self] in state.withLock { $0.schedule.sessionsInUse } },
        endSessions: { [self] ids in apply { $0.endSessions(ids, at: $1) } },
        makeRequestID: { [self] in state.withLock { $0.schedule.makeRequestID() } }),
      nanoseconds: now.monotonic.nanoseconds, secondsSince1970: now.wallMilliseconds / 1000)
  }

  private func evictExpired(_ contents: any FileContents) {
    let clocks = configuration.clock.now()
    for candidate in state.withLock({ $0.schedule.expired(at: $0.time.shown(clocks)) }) {
      _ = contents.evict(candidate)
    }
  }

  /// Delivered copies go for what has to be recorded, as they go for writers.
  private func keepRoom(_ contents: any FileContents) {
    room?.restore { bytes in
      var removedBytes: UInt64 = 0
      for candidate in evictionCandidates() where removedBytes < bytes {
        let sizeBytes = contents.snapshot(of: candidate.id)?.sizeBytes ?? 0
        if contents.evict(candidate) { removedBytes += sizeBytes }
      }
      return removedBytes > 0
    }
  }

  func obeySpoolOrders(_ contents: any FileContents) {
    for order in state.withLock({ $0.schedule.takeSpoolOrders() }) {
      switch order {
      case .discard(let file):
        if contents.evict(file) { continue }
        state.withLock { $0.schedule.notDiscarded(file) }
      case .accept(let file, let interruption):
        contents.accept(file.id, interruption, ifUnchangedSince: file.epoch)
      }
    }
  }
}

public import FileModel
public import Logging
import Lookup
import Synchronization
import SystemMemory
import Threads
public import TransferModel

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
    var early: StartupEventBuffer? = StartupEventBuffer()
    var outbox: [UploadAction] = []
    var time = RunningTime()
    /// Until when the engine's thread sleeps, unless it is woken; nil for ever.
    var sleepsUntil: MonotonicTime?
    /// When the engine's thread, which sleeps, is to read the clock: where nothing is due a pause shows by that alone.
    var beatsAt: MonotonicTime?
    /// The engine's thread checks the outbox once more before it sleeps for longer: what is patient does not wake it.
    var looksAgain = false
    var isStopped = false
    var whenDrained: (@Sendable () -> Void)?
    var isDrained = false

    /// The time at which something happens. After a pause the schedule hears of that first.
    mutating func now(_ clocks: ClockReading) -> ClockReading {
      let (now, pause) = time.read(clocks, wantedAt: wokenAt)
      if let pause { schedule.resumed(after: pause, at: now) }
      return now
    }

    /// When something is to be done, if nothing happens before.
    var wokenAt: MonotonicTime? { [schedule.nextDeadline, beatsAt].compactMap { $0 }.min() }

    func isPast(_ time: MonotonicTime?) -> Bool {
      time.map { self.time.clock(at: $0).nanoseconds <= monotonicNanoseconds() } ?? false
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

  struct InFlightBody: Sendable {
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
    var searcher: NamedThread?
  }

  let configuration: EngineConfiguration
  let destination: any Destination
  let transport: any HTTPTransport
  private let statusTree: StatusTree
  let catalog: Catalog
  let resumeStore: ResumeStore
  let room: StateRoom?
  let journal: EngineJournal
  let names: PublishedNames
  /// Nil where the destination cannot tell whose a name is.
  let publications: PublicationIndex?
  let logger: Logger
  let pool: ChunkBufferPool
  let smallPool: ChunkBufferPool
  /// For files that are read while they are sent.
  let streamPool: ChunkBufferPool
  let state: Mutex<State>
  let parts: Mutex<Parts>
  let counters = PipelineCounters()
  let held: Mutex<[ReadID: HeldChunk]>
  /// How far the bodies in flight have come.
  let sentCounters = Mutex<LookupTable<HTTPRequestID, InFlightBody>>([:])
  /// Publications for which the spool is to be asked. Those that come while the disk is waited for go together.
  let unpublished = Mutex<[RequestOrder]>([])
  /// Publications for which the spool is being asked, and whether they were ended meanwhile.
  let notStarted = Mutex<LookupTable<HTTPRequestID, Bool>>([:])
  /// Compresses files together; nil before the first ones, and while a request has it.
  let framing = Mutex<ComputingThread?>(nil)
  let waiters = DeliveryWaiters()
  /// Files of which the catalog could not be told that they change.
  let unrecorded = Mutex<LookupSet<FileID>>([])
  /// Files that were met while the catalog could not be asked what was published in their place.
  let metUnread = Mutex<LookupSet<FileID>>([])
  /// What lowered threads have left for the engine's thread, which the bell wakes.
  private let inbox = Inbox<@Sendable () -> Void>()
  private let waker = ThreadWaker()
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
  static let changedFilesMax = 4096
  /// What the searcher is to do.
  let searches = Monitor<[Search]>([])
  /// Who is told that the catalog cannot be read.
  let whenCatalogFails = Mutex<(@Sendable (StorageError) -> Void)?>(nil)
  /// Whether another destination's catalog knows a capture as it lies; nil where there is no other one.
  let isKnownElsewhere = Mutex<(@Sendable (FileSnapshot) throws(StorageError) -> Bool)?>(nil)
  /// Inode numbers and identities that the catalog knows from earlier runs; for the filesystem.
  public let knownIdentities: KnownIdentities
  /// All that the catalog had at the start, until the rows of earlier runs have been read.
  let recordedFiles: Mutex<RecordedFiles?>
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
    let recorded = try catalog.recordedFiles()
    knownIdentities = recorded.byNumber
    recordedFiles = Mutex(recorded)
    knownCaptures = try KnownCaptures(catalog)
    if let damage = catalog.takeDamage() { logger.warning("\(damage)") }
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
    state.withLock { $0.schedule.begin(within: budget) }
    // Where several engines share the one copy of a file, one of them holding it would keep it for all.
    if engineCount == 1 { fitFiles(into: availableMemory()) }
    io.setSavesMemory(budget.readsPlainly)
    let housekeeping = Housekeeping(of: self, contents: contents, io: io, availableMemory: availableMemory)
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
          change { state, _ in step = state.early == nil ? state.schedule.checkDiskRound() : nil }
          return step
        },
        diskRoundBegan: { [self] round in
          state.withLock { $0.schedule.diskRoundBegan(isOfNewRows: round.isOfNewRows) }
        },
        isEverythingOnDisk: { [self] in state.withLock { $0.early == nil && $0.schedule.isEverythingOnDisk } },
        unloaded: { [self] entries in unloaded(entries, from: contents) },
        load: { [self] ids in load(ids, from: contents) },
        measure: { [self] id in
          guard let snapshot = contents.snapshot(of: id) else { return }
          apply { $0.measured(snapshot, at: $1) }
        },
        housekeeping: { housekeeping.run() }))
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
    apply { $0.began(at: $1) }
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

  /// Writes a resume record for every upload that is in progress and ends the engine's threads. Nothing is sent or read
  /// after this. The transport is stopped by its owner, before or after.
  public func stop() {
    isEnding.store(true, ordering: .releasing)
    waker.ring()
    // What was decided before is done.
    parts.withLock { $0.thread.take() }?.join()
    let uploads = state.withLock { state -> [FileID] in
      state.isStopped = true
      return state.schedule.files.values.compactMap { $0.hasResumableSession ? $0.id : nil }
    }
    for id in uploads { journal.saveResume(id) }
    waiters.endAll()
    set(.over)
    let (workers, loader, searcher) = parts.withLock { ($0.workers.take(), $0.loader.take(), $0.searcher.take()) }
    loader?.join()
    search(.end)
    searcher?.join()
    workers?.stop()
    names.stop()
    // Answers that came meanwhile change nothing any more, but for what the journal has to know of sessions.
    for event in inbox.takeAll() { event() }
    isClosed.store(true, ordering: .releasing)
    journal.stop()
    // What comes too late is dropped, with its references to this object.
    _ = inbox.takeAll()
  }

  // MARK: - Deciding and acting

  /// Lock, ask, unlock; the engine's thread acts.
  func apply(_ event: (inout UploadSchedule, ClockReading) -> Void) {
    change { event(&$0.schedule, $1) }
  }

  func change(_ event: (inout State, ClockReading) -> Void) {
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
    if isCalled || shown.contains(where: { waiters.isAwaited($0) }) { waker.ring() }
    whenDrained?()
  }

  /// Leaves an event to the engine's thread. For lowered threads, which take no lock that others wait for.
  func post(_ event: @escaping @Sendable () -> Void) {
    guard !isClosed.load(ordering: .acquiring) else { return }
    inbox.put(event)
    waker.ring()
  }

  /// The engine's thread: hears what lowered threads have left, wakes the schedule at its deadlines, and acts.
  private func serve() {
    var actedAt = monotonicNanoseconds()
    while true {
      // Before looking: what comes later rings again.
      let isLast = isEnding.load(ordering: .acquiring)
      notePause()
      for event in inbox.takeAll() { event() }
      let isDue = state.withLock { $0.isPast($0.schedule.nextDeadline) }
      if isDue { apply { $0.woke(at: $1) } }
      let hasActed = act()
      if isLast { return }
      let now = monotonicNanoseconds()
      if hasActed { actedAt = now }
      let isBeating = now - actedAt < Self.restNanoseconds
      let deadline = state.withLock { state -> Int64? in
        state.sleepsUntil = state.schedule.nextDeadline
        state.beatsAt = isBeating ? state.time.shown(configuration.clock.now()).monotonic + Self.beat : nil
        // What has come since has not rung where it is patient.
        state.looksAgain = hasActed || !state.outbox.isEmpty
        let deadline = state.wokenAt.map { state.time.clock(at: $0).nanoseconds }
        guard state.looksAgain else { return deadline }
        return min(deadline ?? .max, monotonicNanoseconds() + Self.gatherNanoseconds)
      }
      if let deadline { waker.wait(untilNanoseconds: deadline) } else { waker.wait() }
    }
  }

  /// Before anything else is done after the engine's thread has slept: where it should have read the clock long ago a pause is noticed.
  private func notePause() {
    if state.withLock({ $0.isPast($0.beatsAt) }) { change { _, _ in } }
    // While it is busy it may be late, as for a disk.
    state.withLock { $0.beatsAt = nil }
  }

  /// How often the clock is read, as long as connections may rest: libcurl closes those that have done so for 118 s.
  private static let beat: Duration = .seconds(2)
  private static let restNanoseconds: Int64 = 120_000_000_000

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
    case .checkGrowth(let id, let chunkBytes, let anew):
      let report = parts.withLock { $0.contents }?.growth(of: id, chunkBytes: chunkBytes, anew: anew)
      apply { $0.grew(id, report, at: $1) }
    case .renewConnections: transport.renewConnections()
    case .askForNames: askForNames()
    case .networkChanged: transport.networkChanged()
    case .checkProgress: checkProgress()
    case .showNames(let id): showNames(of: id)
    case .showStatus(let id):
      statusTree.changed(id: id)
      tellWaiters(of: id)
    case .showSummary:
      statusTree.mountChanged()
      // Nothing else will be said of what the scan has not found.
      for id in waiters.awaitedFiles { tellWaiters(of: id) }
    case .hide(let id): statusTree.removeIfUnknown(id: id)
    case .unload(let ids): journal.unload(ids)
    case .load(let ids): journal.load(ids)
    case .seek: search(.seek)
    case .askForLimits(let request): askForLimits(request)
    case .report(let report): logger.log(report)
    }
  }

  private func showNames(of id: FileID) {
    statusTree.show(id) { state.withLock { $0.schedule.shownPaths(of: id) } }
  }
}

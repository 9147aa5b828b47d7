public import FileModel
import Lookup
import OrderedCollections

/// Bounds and rates of an engine; validated by whoever makes them.
public struct UploadLimits: Hashable, Sendable {
  /// Chunk requests in flight, over all files.
  public var parallelChunks = UploadConstants.maxParallelChunkUploads
  /// Requests for whose chunks there is memory: those in flight, and those read ahead of them.
  public var buffers = UploadConstants.bufferPoolSize
  /// Requests in flight that carry no chunk: sessions, questions, commits.
  public var controlRequests = 8
  /// Large files with chunks in flight at the same time.
  public var activeLargeFiles = 16
  /// Files that are sent in one request each, and read or sent at the same time, beside the large ones.
  public var activeMediumFiles = 16
  /// Up to this size a file is small: it is read into a small buffer, and may travel with others.
  public var smallFileBytes = UploadConstants.smallFileBytes
  /// Small buffers. Together they are one more chunk buffer.
  public var smallBuffers = UploadConstants.smallBufferPoolSize
  /// Requests in flight with small files, while larger ones are at work or where one request carries several.
  public var parallelSmallRequests = 4
  /// The size of a chunk of a new session.
  public var chunkBytes = UploadConstants.chunkBytesDefault
  /// The chunk size of a new session follows from the speed of the link and the size of the file, and ``chunkBytes`` only
  /// says what is expected.
  public var adaptsChunkBytes = false
  /// Between the starts of two streams on a link that was idle.
  public var rampDelay = UploadConstants.parallelRampUpDelay
  /// The most that one request carries of chunks; no chunk of a new session may be longer. Together the buffers are ``buffers`` times
  /// as long.
  public var bufferBytes = UploadConstants.chunkBytesDefault
  /// Requests and streams follow what the line carries, where a destination takes chunks together.
  public var followsLine = false
  /// As much as a stream is there for, at least; a shorter request says nothing about the line.
  public var streamBytesLeast = UploadConstants.chunkBytesMin
  /// So much may always be on its way, however slow the line is.
  public var flightBytesLeast = UploadConstants.flightBytesLeast
  /// Requests are not made shorter than this for a server that refuses longer ones.
  public var requestBytesLeast = UploadConstants.chunkBytesMin
  /// A new file gets a session only once it has been open for this long: a tool that writes a small file and closes it
  /// at once would pay for a session that a whole-file request does not need.
  public var sessionOpenDelay: Duration = .milliseconds(20)
  /// How often the sizes of open files are looked at, to keep as many connections warm as their chunks will need.
  public var measureInterval: Duration = .seconds(1)
  /// How each file is treated, by its path.
  public var rules = FileRules()
  /// A chunk that has not been touched for so long is not expected to be, once the file goes on behind it.
  public var sealDelay: Duration = .milliseconds(40)
  /// How often growing files are looked at; less often while none of them grows.
  public var growthInterval: Duration = .milliseconds(20)
  /// Names that are kept back until they are renamed.
  public var temporaryNames = TemporaryNameRule.standard
  /// Removed and evicted files that stay visible in status.
  public var historyMax = 1000
  /// Files that are held in memory; of those beyond, the catalog alone knows what they are.
  public var filesInMemory = Int.max
  /// Of these, so many delivered ones.
  public var deliveredInMemory = Int.max
  /// Times and counts for experts.
  public var timing = UploadTiming()
  /// The destination is asked what it takes.
  public var asksForLimits = false
  /// After this long a delivered file's local copy is removed; nil keeps it until its space is needed.
  public var keepDelivered: Duration?

  /// The specification's values.
  public init() {}

  /// What of them holds for each path to the destination.
  var ofLink: LinkControl.Bounds {
    LinkControl.Bounds(
      rampDelay: rampDelay, streamBytesLeast: streamBytesLeast, flightBytesLeast: flightBytesLeast,
      requestsMax: parallelChunks)
  }

  /// A file shows under this name what it holds once it is complete.
  func publishes(_ path: RelativePath) -> Bool {
    !temporaryNames.matches(path) && rules.settings(for: path).upload != .never
  }

  /// What a file of these names is to this uploader if it never sends it; nil when it does.
  func leavesAlone(_ names: [RelativePath]) -> FileUpload.Phase? {
    guard let first = names.first else { return nil }
    guard names.allSatisfy({ rules.settings(for: $0).upload == .never }) else { return nil }
    return rules.isForAsker(first) ? .ignored : .routedElsewhere
  }
}

/// All files and whose turn it is. Pure: events come in with the time, actions go out; it reads no clock, does no I/O and
/// draws random numbers from a generator that it was given, so that a seed reproduces every run.
///
/// Fairness (spec E7): small, medium and large files wait in separate queues, so that none is held up by the others. Small
/// files have buffers of their own and are first come, first served; among the others at work the next buffer goes to the
/// one that was given the fewest bytes. Nothing waits for ever: each queue is first come, first served, and a file that
/// joins starts where the one stood that was served last.
public struct UploadSchedule: Sendable {
  /// What runs once at a time.
  enum Timer: Hashable, Sendable {
    /// One more stream may begin.
    case ramp
    /// Small files have waited for company for long enough.
    case gathering
    /// How far requests are.
    case progress
    /// As many streams as the line carries.
    case streams
    /// Connections for what is being written.
    case keepWarm
    /// The sizes of open files.
    case measuring
    /// What of growing files can be sent.
    case growth
    /// The request that tries the path has had its time.
    case pathTrial
  }

  /// What may have come up by a time.
  enum Deadline: Sendable {
    case file(FileID)
    case chunk(FileID, index: Int)
    case checkpoint(FileID)
    case abort
    case alarms
    case gate
    case doubt
    case publication(HTTPRequestID)
    case openSessions
    case scan
    case record
    case disk(FileID)
    case memory
  }

  let limits: UploadLimits
  /// The longest chunk: sessions of earlier runs may have longer ones than new ones.
  var chunkBytesMax: Int
  /// The destination's name for a path, nil while none is recorded; a receipt names what was published.
  let publishedName: @Sendable (FileID, RelativePath) -> String?
  /// Whose the sessions are that are opened here.
  let owner: SessionOwner?
  var policy: RetryPolicy
  var random: any RandomNumberGenerator & Sendable

  var files = FileTable()
  var memory: MemoryState
  var catalog = CatalogKnowledge()
  var spool = SpoolKnowledge()
  var queues: TurnQueues
  var openFiles = OpenFileTracking()
  var requests = InFlightRequests()
  var link: LinkControl
  var watchdog: TripleWatchdog
  var destination: DestinationState
  var timers = Timers<Timer, Deadline>()
  var steadyClock = SteadyClock()
  var totals = UploadTotals()
  var isDraining = false
  var actions: [UploadAction] = []

  /// A schedule with nothing to do but what an earlier run left.
  public init(
    limits: UploadLimits, abilities: DestinationAbilities, catalog: [CatalogEntry] = [], records: [ResumeRecord] = [],
    endpointCount: Int = 1, owner: SessionOwner? = nil,
    publishedName: (@Sendable (FileID, RelativePath) -> String?)? = nil,
    random: any RandomNumberGenerator & Sendable
  ) {
    self.limits = limits
    policy = RetryPolicy(limits.timing)
    watchdog = TripleWatchdog(limits.timing)
    chunkBytesMax = limits.bufferBytes
    memory = MemoryState(filesMax: limits.filesInMemory, deliveredMax: limits.deliveredInMemory)
    destination = DestinationState(abilities, endpointCount: endpointCount)
    self.publishedName = publishedName ?? { $1.displayText }
    self.owner = owner
    self.random = random
    link = LinkControl(limits.ofLink)
    queues = TurnQueues(limits)
    recover(RecoveredUploads(catalog: catalog, records: records))
  }

  /// Learns what earlier runs left, before any event.
  public mutating func recover(_ recoveredUploads: RecoveredUploads) {
    catalog.recovery.begin(with: recoveredUploads)
    for id in recoveredUploads.unread { memory.unloaded.insert(id, .unmet) }
    recover(recoveredUploads.discarded, at: recoveredUploads.atSeconds)
    policy.addressIsProven = policy.addressIsProven || recoveredUploads.provesAddress
    // What this run has measured is newer.
    if !catalog.recovery.isLate { link.recall(recoveredUploads.estimator) }
    chunkBytesMax = max(chunkBytesMax, recoveredUploads.chunkBytesMax)
  }

  /// What earlier runs left cannot be read yet, and what is captured meanwhile is delivered. Sessions with chunks of that length may
  /// have to be gone on with later.
  mutating func goOn(besideChunksOf chunkBytes: Int) {
    catalog.recovery.goOnWithoutThem()
    chunkBytesMax = max(chunkBytesMax, chunkBytes)
  }

  /// When ``woke(at:)`` is to be called; nil when nothing is waited for.
  public var nextDeadline: MonotonicTime? { timers.first }

  /// Takes the actions that have come up, in order.
  public mutating func takeActions() -> [UploadAction] {
    defer { actions.removeAll(keepingCapacity: true) }
    return actions
  }

  /// A point in time that was asked for has come.
  public mutating func woke(at now: ClockReading) {
    while let due = timers.popDue(at: now.monotonic) {
      switch due {
      case .timer(let timer): fired(timer, at: now)
      case .deadline(let deadline): passed(deadline, at: now)
      }
    }
    pump(at: now)
  }

  private mutating func fired(_ timer: Timer, at now: ClockReading) {
    switch timer {
    // What waited for them is sent behind them all.
    case .ramp, .gathering: break
    case .pathTrial: checkPlannedSessions(at: now)
    case .progress: checkProgress(at: now)
    case .streams: adjustStreams(at: now)
    case .keepWarm: keepWarm(at: now)
    case .measuring: measureOpenFiles(at: now)
    case .growth: checkGrowth(at: now)
    }
  }

  private mutating func passed(_ deadline: Deadline, at now: ClockReading) {
    switch deadline {
    case .file(let id):
      guard case .waiting(let until)? = files[id]?.phase, until <= now.monotonic else { return }
      makeReady(id, at: now)
    case .chunk(let id, let index): endRest(of: id, index, at: now)
    case .checkpoint(let id):
      guard var file = files[id] else { return }
      file.session?.isRecordPlanned = false
      checkpointInTime(&file, at: now)
      files[id] = file
    case .abort: abortDiscarded(at: now)
    case .alarms: raiseAlarms(at: now)
    // pump sends the probe; while nothing is to be sent but something is being written, warming is the probe.
    case .gate: warmForOpenFiles(at: now)
    case .doubt: requests.ambiguous.end(at: now.monotonic)
    case .publication(let request): noteSlowPublication(request, at: now)
    case .openSessions: openPlannedSessions(at: now)
    case .scan:
      spool.health.scanFailureLasts()
      actions.append(.showSummary)
    case .record:
      if spool.health.recordFailureLasts(after: Self.recordPatience, at: now.monotonic) { holdUnrecorded() }
    case .disk(let id): endDiskPatience(of: id, at: now)
    case .memory: checkMemory(at: now)
    }
  }

  /// Memory has become short, or there is enough again. What is in flight or read stays; with less memory nothing is added
  /// until enough of it has come back.
  public mutating func memoryChanged(to budget: MemoryBudget, at now: ClockReading) {
    guard budget != memory.budget else { return }
    memory.budget = budget
    actions.append(.resizeBuffers(min(limits.buffers, budget.buffers)))
    pump(at: now)
  }

  /// From now on only what there is will be delivered.
  public mutating func beginDraining(at now: ClockReading) {
    isDraining = true
    endSuccessions(at: now)
    pump(at: now)
  }

  /// A mistake of the schedule, or of what tells it, is said, and survived.
  mutating func sayContradictions() {
    for text in files.takeContradictionsToSay() { actions.append(.report(.contradiction(text))) }
  }

  // MARK: - Numbers

  mutating func makeRequestID() -> HTTPRequestID { requests.makeID() }

  mutating func makeNonce() -> [UInt8] {
    var nonce: [UInt8] = []
    nonce.reserveCapacity(32)
    for _ in 0..<4 {
      let word = random.next()
      for shift in stride(from: 0, to: 64, by: 8) { nonce.append(UInt8(truncatingIfNeeded: word >> UInt64(shift))) }
    }
    return nonce
  }

}

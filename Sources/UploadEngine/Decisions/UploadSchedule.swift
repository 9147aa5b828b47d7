public import FileModel
import Lookup
import OrderedCollections
public import TransferModel

/// Bounds and rates of an engine; the caller that creates them validates them.
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
  public var activeMediumFiles = 32
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
  /// The delay between the starts of two streams on a link that was idle.
  public var rampDelay = UploadConstants.parallelRampUpDelay
  /// The most that one request carries of chunks; no chunk of a new session may be longer. Together the buffers are ``buffers`` times
  /// as long.
  public var bufferBytes = UploadConstants.chunkBytesDefault
  /// Requests and streams follow what the line carries, where a destination takes chunks together.
  public var followsLine = false
  /// The least that a stream carries; a shorter request says nothing about the line.
  public var streamBytesLeast = UploadConstants.chunkBytesMin
  /// With all of the streams that a program may have, so many whole files beyond them may wait for their answers.
  public static let awaitedFilesMax = 12
  /// Bytes that may always be in flight, however slow the line is.
  public var flightBytesLeast = UploadConstants.flightBytesLeast
  /// Requests are not made shorter than this for a server that refuses longer ones.
  public var requestBytesLeast = UploadConstants.chunkBytesMin
  /// A new file gets a session only once it has been open for this long: a tool that writes a small file and closes it
  /// at once would pay for a session that a whole-file request does not need.
  public var sessionOpenDelay: Duration = .milliseconds(20)
  /// How often the sizes of open files are queried, to keep as many connections warm as their chunks will need.
  public var measureInterval: Duration = .seconds(1)
  /// How each file is treated, by its path.
  public var rules = FileRules()
  /// A chunk that has been unchanged for so long is expected to stay so, once the file grows behind it.
  public var sealDelay: Duration = .milliseconds(40)
  /// How often growing files are checked; less often while none of them grows.
  public var growthInterval: Duration = .milliseconds(20)
  /// Names that are kept back until they are renamed.
  public var temporaryNames = TemporaryNameRule.standard
  /// Files that are kept in memory; those beyond are known to the catalog alone.
  public var historyMax = 1000
  /// Files that are kept in memory; of those beyond, the catalog alone knows what they are.
  public var filesInMemory = Int.max
  /// Of these, so many delivered ones.
  public var deliveredInMemory = Int.max
  /// Times and counts for experts.
  public var timing = UploadTiming()
  /// The destination is asked for its limits.
  public var asksForLimits = false
  /// After this long a delivered file's local copy is removed; nil keeps it until its space is needed.
  public var keepDelivered: Duration?

  /// The specification's values.
  public init() {}

  /// The bounds that hold for each path to the destination.
  var ofLink: LinkControl.Bounds {
    LinkControl.Bounds(
      rampDelay: rampDelay, streamBytesLeast: streamBytesLeast, flightBytesLeast: flightBytesLeast,
      requestsMax: parallelChunks)
  }

  /// Whether a complete file is published under this name.
  func publishes(_ path: RelativePath) -> Bool {
    !temporaryNames.matches(path) && rules.settings(for: path).upload != .never
  }

  /// Why this uploader never sends a file with these names; nil when it does.
  func leavesAlone(_ names: [RelativePath]) -> FileUpload.Exclusion? {
    guard let first = names.first else { return nil }
    guard names.allSatisfy({ rules.settings(for: $0).upload == .never }) else { return nil }
    return rules.isForAsker(first) ? .ignored : .routedElsewhere
  }
}

/// All files and whose turn it is. Pure: events come in with the time, actions go out. The schedule reads no clock and
/// does no I/O. Random numbers come from a generator that is passed in, so that a seed reproduces every run.
///
/// Fairness (docs/design/scheduling.md#turns): small, medium and large files wait in separate queues, so that none
/// delays the others. Small files have buffers of their own and are first come, first served; among the others at work
/// the next buffer goes to the one that was given the fewest bytes. Nothing waits for ever: each queue is first come,
/// first served, and a joining file starts at the virtual time of the one that was served last.
public struct UploadSchedule: Sendable {
  /// Timers that run once at a time.
  enum Timer: Hashable, Sendable {
    /// When one more stream may begin.
    case ramp
    /// When small files have waited long enough for others.
    case gathering
    /// Polls the progress of requests.
    case progress
    /// Adjusts the streams to the line.
    case streams
    /// Warms connections for files that are being written.
    case keepWarm
    /// Queries the sizes of open files.
    case measuring
    /// Checks what of growing files can be sent.
    case growth
    /// The end of the time for the request that tries the path.
    case pathTrial
  }

  /// Events that may be due by a time.
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
  /// The owner of sessions that are opened here.
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

  /// The state of earlier runs cannot be read yet, and what is captured meanwhile is delivered. Sessions with chunks of
  /// that length may have to be continued later.
  mutating func goOn(besideChunksOf chunkBytes: Int) {
    catalog.recovery.goOnWithoutThem()
    chunkBytesMax = max(chunkBytesMax, chunkBytes)
  }

  /// When ``woke(at:)`` is to be called; nil when nothing is waited for.
  public var nextDeadline: MonotonicTime? { timers.first }

  /// Takes the pending actions, in order.
  public mutating func takeActions() -> [UploadAction] {
    defer { actions.removeAll(keepingCapacity: true) }
    return actions
  }

  /// A requested deadline has come.
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
    // What waited for these timers is sent after the switch.
    case .ramp, .gathering: break
    case .pathTrial: checkPlannedSessions(at: now)
    case .progress: checkProgress(at: now)
    case .streams: adjustStreams(at: now)
    case .keepWarm: prewarm(.keepAliveDue, at: now)
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
      file.session?.endPlannedRecord()
      checkpointInTime(&file, at: now)
      files[id] = file
    case .abort: abortDiscarded(at: now)
    case .alarms: raiseAlarms(at: now)
    // pump sends the probe; while nothing is to be sent but something is being written, warming is the probe.
    case .gate: prewarm(.changed, at: now)
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

  /// The memory budget of the start: nothing is read or sent yet that had to fit into another one.
  mutating func begin(within budget: MemoryBudget) { memory.begin(within: budget) }

  /// The memory budget has changed. What is in flight or read stays; with less memory nothing is added until enough of
  /// it has come back.
  public mutating func memoryChanged(to budget: MemoryBudget, at now: ClockReading) {
    guard memory.changes(to: budget) else { return }
    actions.append(.resizeBuffers(min(limits.buffers, budget.buffers)))
    pump(at: now)
  }

  /// From now on only existing files will be delivered.
  public mutating func beginDraining(at now: ClockReading) {
    isDraining = true
    endSuccessions(at: now)
    pump(at: now)
  }

  /// A mistake of the schedule, or of its caller, is reported, and the engine continues.
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

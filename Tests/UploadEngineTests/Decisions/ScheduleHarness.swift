import FileModel
import Integrity
import Lookup
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// Drives an ``UploadSchedule`` by hand: events in, actions out, time in the test's hand. It keeps the books that a
/// driver would keep and refuses what a driver would refuse: a buffer released twice, an unknown read, a request of which
/// nobody asked.
struct ScheduleHarness {
  var schedule: UploadSchedule
  var now = ClockReading(monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wallMilliseconds: 1_700_000_000_000)
  /// Reads that were ordered and not yet answered.
  var reads: [ReadOrder] = []
  /// Requests that were sent and not yet answered.
  var sent: [(id: HTTPRequestID, order: SendOrder)] = []
  /// Buffers that the schedule holds.
  var buffers: Set<ReadID> = []
  var smallBuffers: Set<ReadID> = []
  /// How long the others are.
  var bufferBytes: [ReadID: Int] = [:]
  /// Of each request that is answered some of its body has gone out.
  var hasSentBytes = true
  /// What each answer says that the server takes.
  var offers = DestinationOffers()
  var others: [UploadAction] = []
  /// The address to which each request went.
  var endpoints: [HTTPRequestID: EndpointID] = [:]
  /// Requests that have to go over a new connection.
  var connectingAnew: Set<HTTPRequestID> = []
  var buffersMax = 0
  var chunkRequestsMax = 0
  /// After each event the sums are compared with a walk over all files: too slow for a thousand of them.
  var checksSums = true
  /// Files of which something was chosen and not sent, and whether that is what is tried.
  var notSent: [RelativePath] = []
  var expectsNotSent = false

  static let chunkBytes = 1000

  static var standardLimits: UploadLimits {
    var limits = UploadLimits()
    limits.chunkBytes = chunkBytes
    limits.bufferBytes = chunkBytes
    limits.rampDelay = .zero
    return limits
  }

  init(
    limits: UploadLimits = standardLimits, wholeFileBytesMax: Int = chunkBytes, catalog: [CatalogEntry] = [],
    records: [ResumeRecord] = [], commitWaitsForChunks: Bool = false, endpointCount: Int = 1,
    owner: SessionOwner? = nil, abilities change: (inout DestinationAbilities) -> Void = { _ in }
  ) {
    var abilities = DestinationAbilities(
      parallelChunks: 12, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: wholeFileBytesMax,
      fileBytesMax: nil, commitWaitsForChunks: commitWaitsForChunks, durableChunks: true)
    abilities.ordersPublications = true
    change(&abilities)
    schedule = UploadSchedule(
      limits: limits, abilities: abilities, catalog: catalog, records: records, endpointCount: endpointCount,
      owner: owner, random: SplitMix(seed: 7))
  }

  private var events = 0

  mutating func apply(_ event: (inout UploadSchedule, ClockReading) -> Void) {
    event(&schedule, now)
    for action in schedule.takeActions() {
      switch action {
      case .read(let order):
        #expect(buffers.insert(order.id).inserted)
        if order.isSmall { smallBuffers.insert(order.id) } else { bufferBytes[order.id] = order.bufferBytes }
        #expect(order.isSmall || order.byteCount <= order.bufferBytes)
        #expect(!order.isSmall || order.byteCount <= schedule.limits.smallFileBytes)
        #expect(order.byteCount > 0 && order.byteCount <= schedule.chunkBytesMax)
        reads.append(order)
      case .release(let read):
        #expect(buffers.remove(read) != nil, "a buffer was released that is not in use")
        smallBuffers.remove(read)
        bufferBytes[read] = nil
      case .send(let orders):
        sent += orders.map { ($0.id, $0.order) }
        for order in orders {
          endpoints[order.id] = order.endpoint
          if order.opensConnection { connectingAnew.insert(order.id) }
        }
      case .report(.notSent(_, let path)):
        notSent.append(path)
        if !expectsNotSent { Issue.record("a chunk of \(path.displayText) was chosen and not sent") }
      default:
        others.append(action)
      }
    }
    buffersMax = max(buffersMax, buffers.count)
    chunkRequestsMax = max(chunkRequestsMax, sent.filter { $0.order.carriesChunk }.count)
    let limits = schedule.limits
    #expect(bufferBytes.count <= 1 || bufferBytes.values.reduce(0, +) <= limits.buffers * limits.bufferBytes)
    #expect(smallBuffers.count <= schedule.limits.smallBuffers)
    events += 1
    // Over many files a look takes as long as hundreds of events.
    if schedule.files.count <= 32 || events.isMultiple(of: 256) {
      let broken = schedule.brokenInvariants
      #expect(broken.isEmpty)
    }
    if checksSums { expectTrueSums() }
  }

  /// The summary's running sums are those of a walk over all files.
  private mutating func expectTrueSums() {
    let summary = schedule.summary(at: now)
    let files = Array(schedule.files.values)
    // What was removed undelivered counts as nothing.
    let shown = files.filter { !$0.phase.isRemoved || $0.phase == .removed(.delivered) }
    for state in FileStatus.State.allCases {
      let count = shown.filter { self.state($0.id) == state }.count
      #expect(summary.filesByState[state, default: 0] == count, "\(state)")
    }
    // What is counted together with other destinations is the same.
    var counted = schedule.takeCounted()
    counted.changed = files.map { ($0.id, FileStanding($0)) }
    var shared = SharedCounts(destinationCount: 1)
    let (filesByState, undeliveredCount) = shared.count([counted])
    #expect(filesByState == summary.filesByState.filter { $0.value != 0 })
    #expect(undeliveredCount == summary.undeliveredCount)
    let pending = files.filter(\.isPending)
    #expect(summary.oldestPendingSequence == pending.map(\.changeSequence).min())
    #expect(summary.pendingBytes <= pending.reduce(0) { $0 + $1.snapshot.sizeBytes })
    #expect(schedule.isIdle == (pending.isEmpty && (summary.isScanned || summary.isScanGivenUp)))
  }

  mutating func handle(_ event: FileEvent) { apply { $0.handle(event, at: $1) } }

  /// A tool writes the file and closes it.
  mutating func write(_ file: ImaginaryFile) {
    handle(file.opened)
    handle(file.settled)
  }

  /// The line is known to take so many bytes a second.
  mutating func know(lineOf bytesPerSecond: Double) {
    schedule.link.recall(.init(bytesPerSecond: bytesPerSecond, variance: bytesPerSecond, sampleCount: 5))
    schedule.link.adjust(at: now.monotonic)
  }

  mutating func advance(by duration: Duration) {
    now.monotonic = now.monotonic + duration
    now.wallMilliseconds += duration.wholeNanoseconds / 1_000_000
    apply { $0.woke(at: $1) }
  }

  /// Answers every read with digests that follow from file, epoch and offset.
  mutating func answerReads() {
    while !reads.isEmpty {
      let order = reads.removeFirst()
      apply { $0.chunkRead(order.id, result: .success(Self.digest(order)), at: $1) }
    }
  }

  static func digest(_ order: ReadOrder) -> ChunkDigest {
    digest(file: order.file, epoch: order.epoch, offset: order.offset)
  }

  static func digest(file: FileID, epoch: UInt64, offset: UInt64) -> ChunkDigest {
    let text = "\(file) \(epoch) \(offset)"
    return ChunkDigest(sha256: sha256(Array(text.utf8)), crc32c: UInt32(truncatingIfNeeded: offset))
  }

  /// Answers the oldest request that matches.
  @discardableResult
  mutating func answer(_ outcome: StepOutcome, where matches: (SendOrder) -> Bool) -> SendOrder? {
    guard let index = sent.firstIndex(where: { matches($0.order) }) else { return nil }
    return answer(outcome, at: index)
  }

  @discardableResult
  mutating func answer(_ outcome: StepOutcome, at index: Int) -> SendOrder {
    let request = sent.remove(at: index)
    let facts = HTTPConnectionMetrics(protocolName: "HTTP/1.1")
    let (offers, hasSentBytes) = (offers, hasSentBytes)
    apply {
      $0.requestCompleted(
        request.id, outcome: outcome, connection: facts, offers: offers, hasSentBytes: hasSentBytes, at: $1)
    }
    return request.order
  }

  /// Every request that was asked to end early has ended.
  mutating func endCancelled() {
    let cancelled = Set(cancelled)
    while let index = sent.firstIndex(where: { cancelled.contains($0.id) }) {
      _ = answer(StepFailure.connection(.cancelled), at: index)
    }
  }

  /// Answers the chunk request of this index.
  mutating func answerChunk(_ index: Int, _ outcome: StepOutcome) {
    let order = answer(outcome) { $0.isChunk(index) }
    #expect(order != nil, "chunk \(index) is not on its way")
  }

  /// The server opens the session that is asked for.
  mutating func openSession(chunkBytes: Int = Self.chunkBytes) {
    answer(.sessionOpened(id: "s", chunkBytes: chunkBytes, expiresAtSeconds: nil)) { $0.isOpenSession }
  }

  /// A file of whole chunks whose session is open and whose chunks are on their way, as far as there are streams.
  mutating func beginSending(_ file: ImaginaryFile) {
    write(file)
    answer(.warmed) { $0.isPrewarm }
    openSession()
    answerReads()
  }

  var commits: [SessionCommit] {
    sent.compactMap { request in
      if case .commit(let commit) = request.order { return commit }
      return nil
    }
  }

  /// Requests that were asked to end early.
  var cancelled: [HTTPRequestID] {
    others.compactMap {
      switch $0 {
      case .cancel(let request), .cancelUnsent(let request, _): request
      default: nil
      }
    }
  }

  /// A server to which everything succeeds; runs until nothing is left to do.
  mutating func succeed() {
    while true {
      answerReads()
      guard let request = sent.first else {
        if reads.isEmpty { record() }
        if reads.isEmpty, sent.isEmpty { return }
        continue
      }
      answer(Self.success(of: request.order)) { _ in true }
      record()
    }
  }

  /// The catalog writes what it was asked to write.
  mutating func record() {
    let ids = others.compactMap { action -> FileID? in
      if case .record(let id) = action { return id }
      return nil
    }
    others.removeAll { if case .record = $0 { true } else { false } }
    for id in ids {
      guard let entry = schedule.catalogEntry(of: id) else { continue }
      apply { $0.recorded(id, receipt: entry.receipt, at: $1) }
    }
  }

  static func success(of order: SendOrder) -> StepOutcome {
    switch order {
    case .prewarm: return .warmed
    case .openSession(let opening):
      return .sessionOpened(id: "s", chunkBytes: opening.chunkBytes, expiresAtSeconds: nil)
    case .querySession, .secureSession: return .held(digests: [:])
    case .chunk, .zeros: return .chunkStored
    case .run(let chunks): return .each(chunks.map { _ in .chunkStored })
    case .abort: return .ended
    case .commit(let commit):
      return .published(
        receipt(commit.path, commit.sizeBytes, root: Hex.encode(commit.merkleRoot), tip: Hex.encode(commit.chainTip)))
    case .wholeFile(let whole): return .published(receipt(whole.path, 0, root: "", tip: ""))
    case .bundle(let files): return .each(files.map { success(of: .wholeFile($0)) })
    }
  }

  static func receipt(_ path: RelativePath, _ size: UInt64, root: String, tip: String) -> Receipt {
    Receipt(
      id: "r", name: path.displayText, sizeBytes: size, merkleRoot: root, chainTip: tip, publishedAtMilliseconds: 1)
  }

  func state(_ id: FileID) -> FileStatus.State? { status(id)?.state }

  func status(_ id: FileID) -> FileStatus? {
    schedule.status(of: id, publishedName: { $0.displayText }, at: now)
  }

  var chunkRequests: [(index: Int, digest: ChunkDigest)] {
    sent.compactMap { request in
      if case .chunk(let one) = request.order { return (one.chunk.index, one.chunk.digest) }
      return nil
    }
  }
}

extension SendOrder {
  var carriesChunk: Bool { carriesBytes }
  var isChunk: Bool { if case .chunk = self { true } else { false } }
  func isChunk(_ index: Int) -> Bool { if case .chunk(let one) = self { one.chunk.index == index } else { false } }
  var isCommit: Bool { if case .commit = self { true } else { false } }
  var isQuerySession: Bool { if case .querySession = self { true } else { false } }
  var isOpenSession: Bool { if case .openSession = self { true } else { false } }
  var isQuery: Bool { if case .querySession = self { true } else { false } }
  var isSecuring: Bool { if case .secureSession = self { true } else { false } }
  var isWholeFile: Bool { if case .wholeFile = self { true } else { false } }
  var isPrewarm: Bool { if case .prewarm = self { true } else { false } }
}

/// A file as the filesystem would report it.
struct ImaginaryFile {
  var snapshot: FileSnapshot

  init(_ number: UInt64, _ name: String, size: UInt64, epoch: UInt64 = 1) {
    snapshot = FileSnapshot(
      id: FileID(high: 0, low: number), epoch: epoch, sizeBytes: size, modifiedNanoseconds: 5, mode: 0o644,
      inode: number, names: [RelativePath(name)], writableOpens: 0, mutationsInFlight: 0)
  }

  var id: FileID { snapshot.id }
  var opened: FileEvent { .opened(writing) }
  var changed: FileEvent { .changed(writing) }
  var settled: FileEvent { .settled(snapshot) }
  var found: FileEvent { .found(snapshot) }

  private var writing: FileSnapshot {
    var copy = snapshot
    copy.writableOpens = 1
    return copy
  }
}

extension StepFailure {
  static func connection(_ kind: TransportError.Kind) -> StepOutcome {
    .refused(StepFailure(.transport(kind), "no connection"))
  }
}

extension UploadSchedule {
  /// So many bytes of each request, whose bodies are as long as what they carry.
  mutating func progressed(_ sent: LookupTable<HTTPRequestID, UInt64>, at now: ClockReading) {
    progressed(sent.mapValues { SentBody(bytes: $0, of: 0) }, at: now)
  }

  /// A user goes through all files: what has failed or waits is tried again, and what was interrupted is published.
  mutating func retryAll(at now: ClockReading) {
    for file in Array(files.values) {
      switch file.phase {
      case .interrupted: publish(file.id, at: now)
      case .cancelled: break
      default: retry(file.id, at: now)
      }
    }
  }
}

public import FileModel
import Synchronization

/// What people are told when a file goes to several destinations.
extension EngineGroup {
  /// The file as it is where it has come the least far, with what each of its destinations has to say.
  public func status(of id: FileID) -> FileStatus? {
    guard members.count > 1 else { return members[0].engine.status(of: id) }
    let known = members.compactMap { member in
      member.engine.status(of: id).map {
        DestinationStatus(name: member.name, url: member.engine.displayURL, status: $0)
      }
    }
    let addressed = known.filter { $0.status.state != .ignored }
    let shown = addressed.isEmpty ? Array(known.prefix(1)) : addressed
    guard var status = shown.min(by: { $0.status.isBehind($1.status) })?.status else { return nil }
    status.destinations = shown
    return status
  }

  /// Some engine does not hold all files in memory.
  public var isBeyondMemory: Bool { members.contains { $0.engine.isBeyondMemory } }

  /// Loads the file at a path of the spool.
  public func load(at path: RelativePath) -> Bool { members.contains { $0.engine.load(at: path) } }

  /// What stands in a folder of the spool, where an engine does not hold all of it.
  public func spoolEntries(of folder: RelativePath) -> [SpoolEntry]? {
    members.lazy.compactMap { $0.engine.spoolEntries(of: folder) }.first
  }

  /// Of a single engine: several hold all files in memory.
  public func unloadedFiles(after id: FileID, countMax: Int) -> UnloadedPage? {
    members.count == 1 ? members[0].engine.unloadedFiles(after: id, countMax: countMax) : UnloadedPage()
  }

  /// The mount as a whole: a file counts once, where it has come the least far; bytes are those that go to all destinations.
  public func summary() -> MountSummary {
    guard members.count > 1 else { return members[0].engine.summary() }
    let parts = members.map { $0.engine.summary() }
    var whole = parts[0]
    for part in parts.dropFirst() { whole.add(part) }
    (whole.filesByState, whole.undeliveredCount) = takeCounts()
    whole.destinations = zip(members, parts).map { DestinationSummary(name: $0.name, summary: $1) }
    return whole
  }

  /// The engines are asked one after another under one lock, so that of two callers none counts what the other one has taken.
  @discardableResult
  func takeCounts() -> (filesByState: [FileStatus.State: Int], undeliveredCount: Int) {
    counts.withLock { counts in counts.count(members.map { $0.engine.takeCounted() }) }
  }

  /// What the reading sides of all engines have done.
  public var pipelineStatistics: PipelineStatistics {
    members.dropFirst().reduce(members[0].engine.pipelineStatistics) { $0 + $1.engine.pipelineStatistics }
  }
}

extension FileStatus {
  /// Has come less far than the other: what needs help comes first, then what has the least sent.
  fileprivate func isBehind(_ other: FileStatus) -> Bool {
    let (mine, theirs) = (state.distance, other.state.distance)
    guard mine == theirs else { return mine > theirs }
    return sentBytes < other.sentBytes
  }
}

extension FileStatus.State {
  /// How far a file in this state is from being delivered, in an order only.
  var distance: Int {
    switch self {
    case .complete, .ignored: 0
    case .uploading: 1
    case .queued: 2
    case .writing: 3
    case .held: 4
    case .waiting: 5
    case .cancelled: 6
    case .interrupted: 7
    case .failed: 8
    }
  }
}

extension MountSummary {
  /// Another destination's part. Sequences are each engine's own and cannot be added: a reader that waits looks at the parts.
  fileprivate mutating func add(_ other: MountSummary) {
    pendingBytes += other.pendingBytes
    acknowledgedBytes += other.acknowledgedBytes
    sentBytes += other.sentBytes
    bytesPerSecond += other.bytesPerSecond
    requestsInFlight += other.requestsInFlight
    retriedChunks += other.retriedChunks
    reusedChunks += other.reusedChunks
    outgrownFiles += other.outgrownFiles
    // Each destination is told of the same ones.
    filesRefusedByDisk = max(filesRefusedByDisk, other.filesRefusedByDisk)
    filesChangedInSpool = max(filesChangedInSpool, other.filesChangedInSpool)
    unprovenCount = max(unprovenCount, other.unprovenCount)
    unloadedFiles = max(unloadedFiles, other.unloadedFiles)
    isScanned = isScanned && other.isScanned
    isScanGivenUp = isScanGivenUp && other.isScanGivenUp
    isDraining = isDraining || other.isDraining
    endpoints += other.endpoints
    lastFailure = lastFailure ?? other.lastFailure
    nextAttemptMilliseconds = [nextAttemptMilliseconds, other.nextAttemptMilliseconds].compactMap { $0 }.min()
    fileFailure = fileFailure ?? other.fileFailure
    fileAttemptMilliseconds = [fileAttemptMilliseconds, other.fileAttemptMilliseconds].compactMap { $0 }.min()
    failedPaths = Array(Set(failedPaths + other.failedPaths).sorted().prefix(100))
  }
}

extension PipelineStatistics {
  fileprivate static func + (one: Self, other: Self) -> Self {
    var sum = one
    sum.blocksMapped += other.blocksMapped
    sum.buffers += other.buffers
    sum.windowsMapped += other.windowsMapped
    sum.chunksRead += other.chunksRead
    sum.bytesFromMappings += other.bytesFromMappings
    sum.bytesFromReads += other.bytesFromReads
    sum.bytesOfHoles += other.bytesOfHoles
    sum.chunksCompressed += other.chunksCompressed
    sum.bytesSaved += other.bytesSaved
    sum.bytesOfLZ4 = sum.bytesOfLZ4 + other.bytesOfLZ4
    sum.bytesOfZstandard = sum.bytesOfZstandard + other.bytesOfZstandard
    sum.compressionSeconds += other.compressionSeconds
    sum.faultsContained += other.faultsContained
    return sum
  }
}

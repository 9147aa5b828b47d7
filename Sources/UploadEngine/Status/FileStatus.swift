public import FileModel
public import TransferModel

/// Everything that `status/<path>.json` says about one file, as values. Rendered by ``StatusDocument``.
public struct FileStatus: Hashable, Sendable {
  /// The file's state, in the words of the status file.
  public enum State: String, Sendable, CaseIterable {
    /// A writer has it open, or it has not been closed since it changed.
    case writing
    /// Closed and safe in the spool, kept back; ``FileStatus/reason`` says why (a temporary name).
    case held
    /// A rule says that it is never uploaded; it is kept in the spool.
    case ignored
    /// Its writer did not finish it: killed, a write failed, or the mount died. Kept, and not published.
    case interrupted
    /// Complete, its turn has not come.
    case queued
    /// Bytes are on their way.
    case uploading
    /// Something failed that may pass; ``FileStatus/nextAttemptMilliseconds`` says when the next try is.
    case waiting
    /// Published and verified; there is a receipt.
    case complete
    /// Something failed that will not pass by itself; the file is safe in the spool and can be retried.
    case failed
    /// A user has cancelled the delivery, and the file is kept in the spool; or the file was removed before it was delivered.
    case cancelled
  }

  /// Counts of chunks.
  public struct Chunks: Hashable, Sendable {
    /// Chunks of the file as it is now.
    public var total = 0
    /// Acknowledged by the server.
    public var done = 0
    /// Being sent.
    public var inFlight = 0
    /// Sent again after a failure.
    public var retried = 0
    /// Not sent, because the server had stored the same bytes already.
    public var reused = 0

    /// All counts zero.
    public init() {}
  }

  /// The last failure.
  public struct Failure: Hashable, Sendable {
    /// A stable word for programs: `unauthorized`, `unknown-host`, `digest-mismatch`, …
    public var code: String
    /// A sentence for people: what failed and what to do.
    public var message: String
    /// When it happened, milliseconds since 1970.
    public var atMilliseconds: Int64

    /// Describes a failure.
    public init(code: String, message: String, atMilliseconds: Int64) {
      self.code = code
      self.message = message
      self.atMilliseconds = atMilliseconds
    }
  }

  /// How the way of the file was prepared while it was written.
  public struct Prewarm: Hashable, Sendable {
    /// How long the stages of the connection took that was opened first; nil where the first chunk found none.
    public var stages: ConnectionStages?
    /// How long the opening of the session took; nil where none was opened before the close.
    public var session: Duration?
    /// What the server offers beside (RFC 7838), as it writes it.
    public var alternatives: [String]

    /// Describes what was prepared.
    public init(stages: ConnectionStages?, session: Duration?, alternatives: [String] = []) {
      self.stages = stages
      self.session = session
      self.alternatives = alternatives
    }
  }

  /// The file's identity.
  public var id: FileID
  /// Its first name; for a file without a name the last one that it had.
  public var path: RelativePath
  /// Further hard links.
  public var otherPaths: [RelativePath] = []
  /// The name under which the destination publishes it.
  public var publishedName: String
  /// The state.
  public var state: State
  /// Why it is held, ignored, interrupted or cancelled; nil otherwise.
  public var reason: String?
  /// Counts complete contents of this file: 1 for the first.
  public var revision: UInt64
  /// Bytes in the spool.
  public var writtenBytes: UInt64
  /// Bytes that the server has acknowledged, of the present content.
  public var acknowledgedBytes: UInt64
  /// Bytes of the present content that are acknowledged, or that the network took. Less after a request has failed.
  public var sentBytes: UInt64 = 0
  /// Of these, what compression has saved, as far as this run of the daemon knows.
  public var savedBytes: UInt64 = 0
  /// Of the sent bytes, those that would go again if the connections broke, or either side ended, now; at most.
  public var atStakeBytes: UInt64 = 0
  /// How the latest of them that were compressed have travelled; nil where none were.
  public var encoding: ChunkEncoding?
  /// Bytes to deliver; grows while the file is being written.
  public var totalBytes: UInt64
  /// Sent bytes per second over the last ten seconds; 0 when nothing moves.
  public var bytesPerSecond: Double
  /// Seconds until everything is sent at the present rate; nil while that is not steady.
  public var etaSeconds: Double?
  /// Chunk counts.
  public var chunks = Chunks()
  /// Bytes of a chunk.
  public var chunkBytes: Int
  /// Consecutive failed attempts of the present upload.
  public var attempts: Int
  /// The last failure; stays visible until the file is complete.
  public var lastFailure: Failure?
  /// When the next try is, milliseconds since 1970; only while waiting.
  public var nextAttemptMilliseconds: Int64?
  /// The server's id of the session, when there is one.
  public var sessionID: String?
  /// Chunks covered by the last durable resume record.
  public var checkpointChunks: Int
  /// Merkle root, 64 hexadecimal digits, once every chunk has been hashed.
  public var merkleRoot: String?
  /// Tip of the commitment chain, likewise.
  public var chainTip: String?
  /// `HTTP/1.1`, `HTTP/2`; empty when nothing was sent yet.
  public var protocolName: String
  /// Requests of this file in flight.
  public var streams: Int
  /// The speed tier; `unknown` until it is estimated.
  public var tier = "unknown"
  /// The connection was warm before the first byte was sent.
  public var isPrewarmed: Bool
  /// How long that took; nil where nothing was prepared.
  public var prewarm: Prewarm?
  /// First seen, milliseconds since 1970.
  public var openedAtMilliseconds: Int64?
  /// Last writer closed it.
  public var closedAtMilliseconds: Int64?
  /// The first byte was sent.
  public var startedAtMilliseconds: Int64?
  /// The receipt arrived.
  public var completedAtMilliseconds: Int64?
  /// Proof of delivery.
  public var receipt: Receipt?
  /// False once the local copy was evicted.
  public var isLocal: Bool
  /// The spool's disk has the content and the names: a power cut takes nothing of the local copy.
  public var isOnDisk = false
  /// What is missing of the local copy, where that is not whole; nil where nothing is known to be.
  public var missing: MissingBytes?
  /// Whose it is, or was when it was last there; nil for a file of an earlier run that is gone.
  public var ownership: FileOwnership?
  /// Where the mount has several destinations: those that the file goes to.
  public var destinations: [DestinationStatus] = []

  /// A file of which only the name is known.
  public init(id: FileID, path: RelativePath, publishedName: String, state: State) {
    self.id = id
    self.path = path
    self.publishedName = publishedName
    self.state = state
    revision = 0
    writtenBytes = 0
    acknowledgedBytes = 0
    totalBytes = 0
    bytesPerSecond = 0
    chunkBytes = UploadConstants.chunkBytesDefault
    attempts = 0
    checkpointChunks = 0
    protocolName = ""
    streams = 0
    isPrewarmed = false
    isLocal = true
  }
}

/// What became of a file at one of several destinations.
public struct DestinationStatus: Hashable, Sendable {
  /// The destination's name.
  public var name: DestinationName
  /// Its address, without credentials.
  public var url: String
  /// The file as the destination's engine sees it.
  public var status: FileStatus

  /// Puts them together.
  public init(name: DestinationName, url: String, status: FileStatus) {
    self.name = name
    self.url = url
    self.status = status
  }
}

/// One of several destinations as a whole.
public struct DestinationSummary: Hashable, Sendable {
  /// The destination's name.
  public var name: DestinationName
  /// As if it were the only one.
  public var summary: MountSummary

  /// Puts them together.
  public init(name: DestinationName, summary: MountSummary) {
    self.name = name
    self.summary = summary
  }
}

/// What `.uploadfs/summary.json` says about the whole mount.
public struct MountSummary: Hashable, Sendable {
  /// Files by state.
  public var filesByState: [FileStatus.State: Int] = [:]
  /// Bytes not yet acknowledged, over all files that are not complete.
  public var pendingBytes: UInt64 = 0
  /// Bytes acknowledged since the daemon started.
  public var acknowledgedBytes: UInt64 = 0
  /// Acknowledged, or on its way, since the start. Less after a request has failed.
  public var sentBytes: UInt64 = 0
  /// Bytes per second of what was sent, over the last ten seconds.
  public var bytesPerSecond: Double = 0
  /// Chunk requests in flight.
  public var requestsInFlight = 0
  /// Chunks that were sent again after a failure, since the daemon started.
  public var retriedChunks: UInt64 = 0
  /// Chunks that were not sent because the server had stored the same bytes already, likewise.
  public var reusedChunks: UInt64 = 0
  /// Files that have outgrown what the server takes while they were written, likewise.
  public var outgrownFiles: UInt64 = 0
  /// Files that the spool's disk did not take when they were written, likewise.
  public var filesRefusedByDisk: UInt64 = 0
  /// Files that other programs changed in the spool, or took out of it before they were delivered, likewise.
  public var filesChangedInSpool: UInt64 = 0
  /// Every content change gets the next number; this is the last one given.
  public var changeSequence: UInt64 = 0
  /// The lowest number of a change that is not yet acknowledged; nil when there is none. Everything written before a
  /// moment is acknowledged once this is above the ``changeSequence`` of that moment. Held files do not count.
  public var oldestPendingSequence: UInt64?
  /// Files that memory does not hold; they are counted with the others.
  public var unloadedFiles = 0
  /// The scan of the spool has ended: files from before the start are all known.
  public var isScanned = false
  /// A folder of the spool could not be read for so long that no call waits for it any more.
  public var isScanGivenUp = false
  /// True once the daemon was asked to stop and is delivering what is left.
  public var isDraining = false
  /// The destination's address, without credentials.
  public var destination = ""
  /// The destination's addresses, in configured order.
  public var endpoints: [EndpointSummary] = []
  /// What is wrong with the destination at present; nil when nothing is.
  public var lastFailure: FileStatus.Failure?
  /// When the next try is, milliseconds since 1970.
  public var nextAttemptMilliseconds: Int64?
  /// Why the file waits whose next try comes first, and when that is; nil where none does.
  public var fileFailure: FileStatus.Failure?
  /// Milliseconds since 1970.
  public var fileAttemptMilliseconds: Int64?
  /// Files that failed and wait for a retry by hand, at most 100 names.
  public var failedPaths: [RelativePath] = []
  /// How many files are kept in the spool and will not be delivered by themselves: failed, interrupted, cancelled.
  public var undeliveredCount = 0
  /// Those of them of which nothing proves that they were finished.
  public var unprovenCount = 0
  /// Where there are several destinations: each by itself.
  public var destinations: [DestinationSummary] = []

  /// Nothing known yet.
  public init() {}

  /// What is wrong with the destination, or else with the file that is tried again first.
  public var shownFailure: FileStatus.Failure? { lastFailure ?? fileFailure }

  /// When that is tried again.
  public var shownAttemptMilliseconds: Int64? {
    nextAttemptMilliseconds ?? (lastFailure == nil ? fileAttemptMilliseconds : nil)
  }
}

/// How one of the destination's addresses does.
public struct EndpointSummary: Hashable, Sendable {
  /// The address, without credentials.
  public var url: String
  /// The part of the latest requests over it that were answered, 0…1.
  public var health: Double
  /// Requests go there at present.
  public var isInUse: Bool

  /// An address and its health.
  public init(url: String, health: Double, isInUse: Bool) {
    self.url = url
    self.health = health
    self.isInUse = isInUse
  }
}

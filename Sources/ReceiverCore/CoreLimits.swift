import ChunkProtocol

/// What the core holds requests and memory to.
public struct CoreLimits: Hashable, Sendable {
  /// The largest file.
  public var fileBytesMax: UInt64 = 100_000_000_000
  /// The smallest chunk size that a session may have.
  public var chunkBytesMin = 256 << 10
  /// The largest chunk, and the largest file that goes in one request.
  public var chunkBytesMax = 32 << 20
  /// The most chunks of one file.
  public var chunkCountMax = ProtocolLimits.chunkCountMax
  /// What stays free on the disk beside the bytes that are being accepted.
  public var headroomBytes: UInt64 = 205_000_000
  /// How long a session lives after the last request that changed it.
  public var sessionMaxAge: Milliseconds = ProtocolLimits.sessionLifetimeSeconds * 1000
  /// The longest that a commit waits for chunks that are on their way.
  public var commitWaitMax: Milliseconds = Milliseconds(ProtocolLimits.commitWaitSeconds) * 1000
  /// How long a commit waits while none of the chunks that it lacks has begun to arrive: the commit travels on a
  /// connection of its own and may overtake them.
  public var commitGrace: Milliseconds = 2000
  /// How long a request waits while its session's stored chunks are hashed after a restart.
  public var verificationWaitMax: Milliseconds = 15_000
  /// Sessions of one credential that are not yet published; one more ends the one that is idle for longest, or is refused
  /// with 429.
  public var openSessionsPerCredential = 1000
  /// No client's session is ended for a new one before it was idle for so long.
  public var idleSessionAgeMin: Milliseconds = 600_000
  /// Of one credential without a quota, what its sessions may hold that are kept until they are delivered. Beyond, no more is promised
  /// to be kept, and so their clients give up nothing more.
  public var durableBytesMax: UInt64 = 400_000_000_000
  /// Published sessions and whole-file receipts that can be asked for again; beyond, the oldest is forgotten.
  public var receiptsMax = 50_000
  /// Expired sessions that are told apart from those that never were; beyond, the oldest is forgotten.
  public var expiredSessionsMax = 10_000
  /// Requests that wait for one session's verification; one more is told to come back.
  public var parkedRequestsMax = 64
  /// The most chunk writes in one session for each chunk that the largest file has. A client that replaces chunks for
  /// ever cannot fill the disk with journal records.
  public var writesPerChunkMax = 16

  /// The specification's values.
  public init() {}
}

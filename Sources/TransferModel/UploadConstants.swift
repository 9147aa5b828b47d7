/// Every constant of the specification's section B, once. A test holds them against docs/design/constants.md.
public enum UploadConstants {
  /// Chunk requests in flight, over all files.
  public static let maxParallelChunkUploads = 12
  /// Between the starts of two streams while the parallelism ramps up: 12 are active within 120 ms.
  public static let parallelRampUpDelay: Duration = .milliseconds(10)
  /// How often the parallelism is re-evaluated.
  public static let parallelismAdjustInterval: Duration = .milliseconds(1500)
  /// Chunks read ahead of the network.
  public static let prefetchDepth = 3
  /// One buffer for each chunk in flight and each chunk read ahead.
  public static let bufferPoolSize = maxParallelChunkUploads + prefetchDepth
  /// Up to this size a file is read into a small buffer, and may travel with others.
  public static let smallFileBytes = 64 << 10
  /// So many small files are worth a request beside those in flight.
  public static let bundleFilesWanted = 16
  /// A small file does not wait for company for longer than this.
  public static let bundlePatience: Duration = .milliseconds(20)
  /// Small files that travel together have no more bytes than this; fewer on a slow link, as a chunk has.
  public static let bundleBytesMax = 4 << 20
  /// Small buffers; together as large as one for a chunk.
  public static let smallBufferPoolSize = 64
  /// The smallest chunk that can be configured.
  public static let chunkBytesMin = 256 << 10
  /// The chunk size while nothing is known of the link.
  public static let chunkBytesDefault = 4 << 20
  /// The largest chunk.
  public static let chunkBytesMax = 32 << 20
  /// The longest chunk where one request carries several of them …
  public static let runChunkBytesMax = 1 << 20
  /// … and files up to this size have chunks of ``chunkBytesMin`` there, unless the link is known to be fast.
  public static let shortChunkFileBytes: UInt64 = 64 << 20
  /// After a publication a file rests so many times as long as that took before its next content goes out …
  public static let successionPauseFactor = 4
  /// … and no longer than this.
  public static let successionPauseMax: Duration = .seconds(30)
  /// So many bytes may always be on their way, however slow the link is: two of the shortest chunks.
  public static let flightBytesLeast = 2 * chunkBytesMin
  /// A link is `normal` from this speed on, and `slow` below …
  public static let normalTierMegabitsPerSecond: Double = 3
  /// … `fast` from this …
  public static let fastTierMegabitsPerSecond: Double = 30
  /// … and `ultrafast` above this one.
  public static let ultrafastTierMegabitsPerSecond: Double = 200
  /// Below this two requests at the same time are enough; a line of 1 Mbit/s carries somewhat less than that of bodies.
  public static let fewStreamsMegabitsPerSecond = 0.8
  /// Chunk requests that are useful at the same time on a slow link; on fast ones it is ``maxParallelChunkUploads`` …
  public static let slowTierChunks = 4
  /// … and on a normal one.
  public static let normalTierChunks = 8
  /// The size of a chunk on a slow link; on a normal one it is ``chunkBytesDefault``, on an ultrafast one ``chunkBytesMax`` …
  public static let slowTierChunkBytes = 1 << 20
  /// … and on a fast one.
  public static let fastTierChunkBytes = 16 << 20
  /// Digests are computed over the bytes in blocks of this size, so that a block is still in the cache for the second.
  public static let hashBlockBytes = 128 << 10
  /// Files below this are mapped as a whole, larger ones in windows.
  public static let mmapWholeFileBytes: UInt64 = 512 << 20
  /// The length of a window.
  public static let mmapWindowBytes = 64 << 20
  /// Files above this are mapped in the smaller, sliding windows.
  public static let mmapSlidingFileBytes: UInt64 = 4 << 30
  /// The length of a sliding window.
  public static let mmapSlidingWindowBytes = 32 << 20
  /// What the kernel is asked to read ahead of a new mapping.
  public static let mmapWillNeedBytes = 4 << 20
  /// Larger files leave no trace in the page cache.
  public static let pageCacheFileBytes: UInt64 = 256 << 20
  /// One sample of this size …
  public static let compressionSampleBytes = 32 << 10
  /// … for each of these decides whether a chunk is compressed.
  public static let compressionSampleStride = 5 << 20
  /// The least that compression must save.
  public static let compressionBenefitThreshold = 0.10
  /// Samples are probed again when a chunk keeps more of its bytes than the first one after the probe did, by this part of them.
  public static let compressionGainLoss = 0.03
  /// A probe of samples may take this part of the time that the line takes for what it decides.
  public static let compressionProbeShare = 0.02
  /// Compression that would take more than one of so many cores to keep up with the line counts as slower than the line.
  public static let compressionCoreShare = 2.0
  /// A file of at most so many bytes is read as it is where the files of a request are compressed together; a longer one for itself,
  /// behind its filter.
  public static let sharedFrameFileBytes = 16 << 10
  /// Zstandard's level for files that are compressed together: stronger ones gain nothing there.
  public static let sharedFrameLevel = 1
  /// Of the ways to compress that get a chunk there as fast, by this part, the cheapest is used.
  public static let compressionTimeTolerance = 0.01
  /// The least that a chunk request may take.
  public static let chunkTimeoutBase: Duration = .seconds(30)
  /// The floor of the per-chunk deadline max(floor, 2 × bytes / expected rate).
  public static let chunkTimeoutMin: Duration = .seconds(10)
  /// From the start of a request to an established TLS connection.
  public static let connectionTimeout: Duration = .seconds(5)
  /// Below ``stallBytesPerSecond`` for this long, a request has failed.
  public static let stallDetection: Duration = .seconds(5)
  /// The speed that counts as a stall.
  public static let stallBytesPerSecond = 8192
  /// A request that hears nothing for this long is given up.
  public static let requestIdleTimeout: Duration = .seconds(20)
  /// The longest that one resource may take in all.
  public static let resourceTimeout: Duration = .seconds(7200)
  /// The shortest wait before a retry.
  public static let retryBaseDelay: Duration = .milliseconds(500)
  /// The longest wait before a retry.
  public static let retryMaxDelay: Duration = .seconds(15)
  /// The longest pause where each try costs a whole file.
  public static let fileRetryMaxDelay: Duration = .seconds(3600)
  /// Tries of a file that end with the same answer before it has failed.
  public static let fileTriesMax = 10
  /// Attempts for one chunk before its file pauses and the server is asked again.
  public static let chunkMaxRetries = 7
  /// A chunk, whole file or session makes no progress for this long: its file reconnects and asks the server.
  public static let watchdogSession: Duration = .seconds(60)
  /// Chunks are to be sent, and none is acknowledged for this long: all connect anew and ask the server, as often as that lasts.
  public static let watchdogGlobal: Duration = .seconds(300)
  /// After so long in which nothing was done (the machine slept, or the program did not run) connections that rest are not used again.
  public static let pauseMin: Duration = .seconds(5)
  /// Failures in a row that open an endpoint's circuit breaker.
  public static let breakerFailures = 5
  /// How long it stays open before one request is let through.
  public static let breakerOpenDuration: Duration = .seconds(30)
  /// Successes in a row that close it again.
  public static let breakerSuccesses = 2
  /// Samples before a speed estimate is trusted.
  public static let minSpeedSamples = 3
  /// Acknowledged chunks between two resume records.
  public static let resumeCheckpointInterval = 10
  /// The shortest time between two of these.
  public static let resumeCheckpointPause: Duration = .milliseconds(250)
  /// After this an upload session is not resumed.
  public static let sessionMaxAge: Duration = .seconds(604_800)
  /// The shortest time between two updates of a status file.
  public static let progressInterval: Duration = .milliseconds(33)
  /// The largest file that is taken, unless configured otherwise: 100 GB.
  public static let fileBytesMax: UInt64 = 100_000_000_000
  /// How often connections are kept warm while a file is open for writing.
  public static let keepAliveInterval: Duration = .seconds(15)
  /// TLS sessions older than this are not resumed.
  public static let tlsSessionMaxAge: Duration = .seconds(3600)
  /// Space that is kept free beside a file's own size: 5 MB, and a margin of 200 MB that can be configured.
  public static let diskHeadroomBytes: UInt64 = 5_000_000
  /// The configurable part of the headroom.
  public static let diskMarginBytes: UInt64 = 200_000_000

  /// Room on the spool's disk for the state, in case that the disk is full; on a small one a sixteenth of it.
  public static let stateRoomBytes = 8 << 20

  /// The largest response body that is accepted; a list of stored chunks of a 100 GB file fits.
  public static let responseBytesMax = 16 << 20
}

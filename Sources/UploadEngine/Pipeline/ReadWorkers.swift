import DequeModule
public import FileModel
import Integrity
import Threads
public import TransferModel

/// One chunk to read and hash.
public struct ReadJob: Sendable {
  /// The caller's number for this job.
  public var id: UInt64
  /// The file.
  public var file: FileID
  /// The epoch that the bytes must be of.
  public var epoch: UInt64
  /// The epoch is the chunk's own: the rest of the file may change meanwhile.
  public var isOfGrowingFile: Bool
  /// Where the chunk starts.
  public var offset: UInt64
  /// How many bytes it has.
  public var byteCount: Int
  /// Where the bytes go; nil to hash without keeping them, as when digests are compared after a restart.
  public var buffer: ChunkBuffer?
  /// How the bytes are compressed where that saves enough.
  public var compression: ChunkCompression
  /// Who is told of its end in place of the workers' owner.
  var stream: FileStream?

  /// A chunk of a file at an epoch.
  public init(
    id: UInt64, file: FileID, epoch: UInt64, isOfGrowingFile: Bool = false, offset: UInt64, byteCount: Int,
    buffer: ChunkBuffer?, compression: ChunkCompression = .none
  ) {
    self.isOfGrowingFile = isOfGrowingFile
    self.id = id
    self.file = file
    self.epoch = epoch
    self.offset = offset
    self.byteCount = byteCount
    self.buffer = buffer
    self.compression = compression
  }
}

/// A chunk that was read as one consistent whole.
public struct ReadChunk: Sendable {
  /// SHA-256 and CRC32C of the plain bytes.
  public var digest: ChunkDigest
  /// How many plain bytes were read: as many as were asked for.
  public var byteCount: Int
  /// The job's buffer, filled; nil when the job had none.
  public var buffer: ChunkBuffer?
  /// How the bytes lie in the buffer.
  public var encoding = ChunkEncoding.identity
  /// By how many bytes the buffer's are fewer than those.
  public var savedBytes: Int { encoding == .identity ? 0 : max(0, byteCount - (buffer?.count ?? byteCount)) }
  /// The file is large: once the receiver holds the chunk, ``ReadWorkers/release(_:)`` clears it from the page cache.
  public var leavesNoTrace = false

  /// A chunk as read.
  public init(digest: ChunkDigest, byteCount: Int, buffer: ChunkBuffer?) {
    self.digest = digest
    self.byteCount = byteCount
    self.buffer = buffer
  }
}

/// How a ``ReadJob`` ended. Unless it succeeded, the job's buffer holds nothing that may be used.
public enum ReadResult: Sendable {
  /// All bytes are of the epoch that was asked for.
  case success(ReadChunk)
  /// The file was changed before or while it was read, or has fewer bytes than asked for.
  case changed
  /// The bytes cannot be read.
  case failed(FileContentsError)
}

/// Threads that read chunks of captures and compute their digests in the same pass (docs/design/reading.md#reading).
///
/// There are two for each chunk in flight: one opens the file and asks the filesystem before and after, which takes locks that the
/// threads answering the kernel take; a lowered one reads, hashes and compresses meanwhile, and takes none.
public final class ReadWorkers: Sendable {
  private struct Queue {
    /// Jobs that wait. Their memory is allocated once.
    private var jobs: Deque<ReadJob>
    private let capacity: Int
    /// Threads that read.
    var readingCount = 0
    /// Work for when nothing is to be read, and before that where there is much of it.
    var releases = WaitingTraces()
    /// What is done before the next chunk is read.
    var errands: [@Sendable () -> Void] = []
    var isStopped = false

    init(capacity: Int) {
      self.capacity = capacity
      jobs = Deque(minimumCapacity: capacity)
    }

    var count: Int { jobs.count }

    mutating func append(_ job: ReadJob) -> Bool {
      guard count < capacity else { return false }
      jobs.append(job)
      return true
    }

    mutating func take() -> ReadJob? { jobs.popFirst() }
  }

  private enum Work {
    case read(ReadJob)
    case readPair(ReadJob, ReadJob)
    case release([CacheTrace])
    case errand(@Sendable () -> Void)
  }

  private static let errandsMax = 64
  /// How long a chunk waits for a second one while another thread reads. Two chunks of 4 MiB take some 6 ms.
  private static let pairingPatienceNanoseconds: Int64 = 10_000_000

  private let queue: Monitor<Queue>
  private let threads: [WorkerThread]

  /// One for each core, but at most 4, which saturate a disk's queue, and at least 2, so that one slow read does not
  /// hold up everything.
  public static func defaultThreadCount(cores: Int) -> Int {
    min(max(cores, 2), 4)
  }

  /// Starts the threads.
  ///
  /// - Parameters:
  ///   - contents: Where the bytes come from.
  ///   - io: How they are read.
  ///   - threadCount: How many pairs of threads; at least 1.
  ///   - priority: How far behind others the lowered ones come.
  ///   - queueCapacity: How many jobs may wait; ``submit(_:)`` refuses more.
  ///   - onResult: Called once for each accepted job that was begun, on a worker's thread; it must be quick and must not
  ///     call ``stop()``.
  init(
    contents: any FileContents, io: HybridIOEngine, counters: PipelineCounters, threadCount: Int,
    priority: UploadPriority = .low, queueCapacity: Int,
    onResult: @escaping @Sendable (ReadJob, ReadResult) -> Void
  ) {
    let queue = Monitor(Queue(capacity: max(queueCapacity, 1)))
    self.queue = queue
    // The threads hold the queue and not this object, whose `deinit` ends them.
    threads = (0..<max(threadCount, 1)).map { _ in
      WorkerThread("read", .answering) {
        var reader = ChunkReader(
          contents: contents, io: io, counters: counters, computing: ComputingThread("hash", .behind(priority)))
        while let work = Self.nextWork(of: queue) {
          switch work {
          case .read(let job):
            let result = reader.read(job)
            queue.withLock { queue, _ in queue.readingCount -= 1 }
            onResult(job, result)
          case .readPair(let first, let second):
            let results = reader.read(first, second)
            queue.withLock { queue, _ in queue.readingCount -= 1 }
            onResult(first, results.0)
            onResult(second, results.1)
          case .errand(let errand): errand()
          case .release(let traces):
            for trace in traces { io.acknowledged(trace) }
          }
        }
      }
    }
  }

  deinit { stop() }

  /// Queues a job; false when the queue is full or the workers were stopped, and the job is then untouched.
  public func submit(_ job: ReadJob) -> Bool {
    queue.withLock { queue, signal in
      guard !queue.isStopped, queue.append(job) else { return false }
      signal.signal()
      return true
    }
  }

  /// Has a worker do something else with a file; false when there is too much of that, or the workers were stopped.
  func run(_ errand: @escaping @Sendable () -> Void) -> Bool {
    queue.withLock { queue, signal in
      guard !queue.isStopped, queue.errands.count < Self.errandsMax else { return false }
      queue.errands.append(errand)
      signal.signal()
      return true
    }
  }

  /// The receiver holds these bytes: clears them from the page cache when there is nothing to read, or when they are many.
  func release(_ trace: CacheTrace) {
    queue.withLock { queue, signal in
      guard !queue.isStopped else { return }
      queue.releases.insert(trace)
      signal.signal()
    }
  }

  /// Ends the threads and waits for them. Jobs that were not begun are dropped with their buffers, without a result.
  public func stop() {
    dropWaitingJobs()
    for thread in threads { thread.join() }
  }

  /// The jobs' references go at this function's end and not under the lock: the last one to a buffer gives it back, which
  /// calls foreign code.
  private func dropWaitingJobs() {
    _ = queue.withLock { queue, signal in
      queue.isStopped = true
      signal.broadcast()
      var rest: [ReadJob] = []
      while let job = queue.take() { rest.append(job) }
      return rest
    }
  }

  /// Two chunks side by side take little longer than one. So a chunk that waits alone is left to the thread that is
  /// reading already, which comes for it and for the next one; not for longer than its read should take, since that thread may
  /// be waiting for a slow disk.
  private static func nextWork(of queue: Monitor<Queue>) -> Work? {
    var pairsBy: Int64?
    return queue.wait { queue in
      if queue.isStopped { return .done(nil) }
      if !queue.errands.isEmpty { return .done(.errand(queue.errands.removeFirst())) }
      if queue.releases.isDue { return .done(.release(queue.releases.takeAll())) }
      if ChunkHasherPair.isAvailable, queue.count == 1, queue.readingCount > 0 {
        let now = monotonicNanoseconds()
        let deadline = pairsBy ?? now + pairingPatienceNanoseconds
        pairsBy = deadline
        if now < deadline { return .againBy(nanoseconds: deadline) }
      }
      if let job = queue.take() {
        queue.readingCount += 1
        return .done(queue.take().map { .readPair(job, $0) } ?? .read(job))
      }
      pairsBy = nil
      guard !queue.releases.isEmpty else { return .again }
      return .done(.release(queue.releases.takeAll()))
    }
  }
}

import CLinux
public import FileModel
import Glibc
import Integrity

/// One chunk to read and hash.
public struct ReadJob: Sendable {
  /// The caller's number for this job.
  public var id: UInt64
  /// The file.
  public var file: FileID
  /// The epoch that the bytes must be of.
  public var epoch: UInt64
  /// Where the chunk starts.
  public var offset: UInt64
  /// How many bytes it has.
  public var byteCount: Int
  /// Where the bytes go; nil to hash without keeping them, as when digests are compared after a restart.
  public var buffer: ChunkBuffer?

  /// A chunk of a file at an epoch.
  public init(id: UInt64, file: FileID, epoch: UInt64, offset: UInt64, byteCount: Int, buffer: ChunkBuffer?) {
    self.id = id
    self.file = file
    self.epoch = epoch
    self.offset = offset
    self.byteCount = byteCount
    self.buffer = buffer
  }
}

/// A chunk that was read as one consistent whole.
public struct ReadChunk: Sendable {
  /// SHA-256 and CRC32C of the bytes.
  public var digest: ChunkDigest
  /// How many bytes were read: as many as were asked for.
  public var byteCount: Int
  /// The job's buffer, filled; nil when the job had none.
  public var buffer: ChunkBuffer?

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

/// Threads that read chunks of captures and compute their digests in the same pass (spec C2, C4).
public final class ReadWorkers: Sendable {
  /// A ring: its memory is allocated once, and a job that was taken is no longer referenced by it.
  private struct Queue {
    private var slots: [ReadJob?]
    private var head = 0
    private var count = 0
    var isStopped = false

    init(capacity: Int) {
      slots = Array(repeating: nil, count: capacity)
    }

    mutating func append(_ job: ReadJob) -> Bool {
      guard count < slots.count else { return false }
      slots[(head + count) % slots.count] = job
      count += 1
      return true
    }

    mutating func take() -> ReadJob? {
      guard count > 0, let job = slots[head] else { return nil }
      slots[head] = nil
      head = (head + 1) % slots.count
      count -= 1
      return job
    }
  }

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
  ///   - threadCount: How many threads; at least 1.
  ///   - queueCapacity: How many jobs may wait; ``submit(_:)`` refuses more.
  ///   - onResult: Called once for each accepted job that was begun, on a worker's thread; it must be quick and must not
  ///     call ``stop()``.
  public init(
    contents: any FileContents, threadCount: Int, queueCapacity: Int,
    onResult: @escaping @Sendable (ReadJob, ReadResult) -> Void
  ) {
    let queue = Monitor(Queue(capacity: max(queueCapacity, 1)))
    self.queue = queue
    // The threads hold the queue and not this object, whose `deinit` ends them.
    threads = (0..<max(threadCount, 1)).map { _ in
      WorkerThread {
        let reader = ChunkReader(contents: contents)
        while let job = Self.nextJob(of: queue) {
          onResult(job, reader.read(job))
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

  private static func nextJob(of queue: Monitor<Queue>) -> ReadJob? {
    queue.wait { queue in
      if queue.isStopped { return .done(nil) }
      return queue.take().map { .done($0) } ?? .again
    }
  }
}

/// Reads and hashes one chunk after the other; each worker has its own.
struct ChunkReader {
  private let contents: any FileContents
  private let scratch: ScratchBlock

  init(contents: any FileContents) {
    self.contents = contents
    scratch = ScratchBlock()
  }

  /// Reads a chunk and answers whether all of it is of the job's epoch: the epoch counts mutations, and each mutation
  /// raises it before its system call, so equal epochs and nothing in flight at both ends mean that nothing was written
  /// in between.
  func read(_ job: ReadJob) -> ReadResult {
    guard let before = contents.snapshot(of: job.file) else { return .failed(.gone) }
    guard Self.holds(before, job.epoch) else { return .changed }
    guard job.byteCount >= 0, job.buffer.map({ job.byteCount <= $0.capacity }) ?? true else {
      return .failed(.system(errno: EINVAL))
    }
    let digest: ChunkDigest?
    do {
      digest = try hash(job)
    } catch {
      return .failed(error)
    }
    guard let after = contents.snapshot(of: job.file) else { return .failed(.gone) }
    guard let digest, Self.holds(after, job.epoch) else { return .changed }
    job.buffer?.count = job.byteCount
    return .success(ReadChunk(digest: digest, byteCount: job.byteCount, buffer: job.buffer))
  }

  private static func holds(_ snapshot: FileSnapshot, _ epoch: UInt64) -> Bool {
    snapshot.epoch == epoch && snapshot.mutationsInFlight == 0
  }

  /// Nil when the file ended early.
  private func hash(_ job: ReadJob) throws(FileContentsError) -> ChunkDigest? {
    var hasher = ChunkHasher(blockBytes: UploadConstants.hashBlockBytes)
    let target = job.buffer?.mutableBytes(count: job.byteCount)
    var position = 0
    while position < job.byteCount {
      let blockBytes = min(UploadConstants.hashBlockBytes, job.byteCount - position)
      // Without a buffer every block goes through the same memory, which then never leaves the cache.
      let block =
        target.map { UnsafeMutableRawBufferPointer(rebasing: $0[position..<(position + blockBytes)]) }
        ?? UnsafeMutableRawBufferPointer(rebasing: scratch.bytes[..<blockBytes])
      let (offset, overflow) = job.offset.addingReportingOverflow(UInt64(position))
      guard !overflow else { return nil }
      guard try contents.read(job.file, at: offset, into: block) == blockBytes else { return nil }
      hasher.update(UnsafeRawBufferPointer(block))
      position += blockBytes
    }
    let (sha256, crc32c) = hasher.finalize()
    return ChunkDigest(sha256: sha256, crc32c: crc32c)
  }
}

/// One hash block of memory, wiped at the end: captures pass through it.
private final class ScratchBlock {
  let bytes: UnsafeMutableRawBufferPointer

  init() {
    bytes = .allocate(byteCount: UploadConstants.hashBlockBytes, alignment: 4096)
  }

  deinit {
    if let start = bytes.baseAddress { uploadfs_explicit_bzero(start, bytes.count) }
    bytes.deallocate()
  }
}

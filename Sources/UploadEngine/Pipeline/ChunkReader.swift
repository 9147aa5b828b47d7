import FileModel
import Glibc
import Integrity
import Synchronization
import Threads
import TransferModel

/// Reads and hashes chunks, one or two at a time; each worker has its own.
///
/// One pass over the bytes: a block is read into its place, hashed while it is in the cache, and sampled for compression. That is done
/// by a lowered thread, if there is one, unless it is little; what the filesystem is asked before and after takes its locks, and stays on
/// the caller's.
struct ChunkReader {
  private let contents: any FileContents
  private let io: HybridIOEngine
  private let counters: PipelineCounters
  private var compressor: ChunkCompressor
  /// Blocks of chunks that are only hashed go through these, which then never leave the cache.
  private let scratch: (ScratchBlock?, ScratchBlock?)
  private let computing: ComputingThread?

  /// A file whose times change while it is read is read again; after this many times its change is reported.
  private static let passesMax = 3
  /// So little is hashed in less time than it takes to wake another thread, and this one again.
  private static let bytesInPlaceMax = 64 << 10

  /// Without a thread for the pass it is made on the caller's.
  init(
    contents: any FileContents, io: HybridIOEngine, counters: PipelineCounters, computing: ComputingThread? = nil
  ) {
    self.computing = computing
    self.contents = contents
    self.io = io
    self.counters = counters
    compressor = ChunkCompressor(counters: counters)
    scratch = (
      ScratchBlock(byteCount: UploadConstants.hashBlockBytes), ScratchBlock(byteCount: UploadConstants.hashBlockBytes)
    )
  }

  /// Reads a chunk and answers whether all of it is of the job's epoch: the epoch counts mutations, and each mutation
  /// raises it before its system call, so equal epochs and nothing in flight at both ends mean that nothing was written
  /// in between. What changes the spool's file without the filesystem's knowledge shows in its identity. Of a growing file
  /// this holds for the chunk alone, and size and time say nothing.
  mutating func read(_ job: ReadJob) -> ReadResult {
    for _ in 0..<Self.passesMax {
      do throws(ChunkPass.Failure) {
        var attempt = begin(job, scratch.0)
        defer { attempt.end(io) }
        let digest = computed(job.byteCount) {
          var hasher = ChunkHasher(blockBytes: UploadConstants.hashBlockBytes)
          while let block = attempt.nextBlock(compressor) { hasher.update(block) }
          return hasher.finalize()
        }
        return success(try attempt.checked(contents), digest)
      } catch .timesChanged {
        continue
      } catch {
        return error.result
      }
    }
    return .changed
  }

  /// Reads two chunks side by side, which takes hardly longer to hash than one where the processor allows it.
  mutating func read(_ first: ReadJob, _ second: ReadJob) -> (ReadResult, ReadResult) {
    guard ChunkHasherPair.isAvailable else { return (read(first), read(second)) }
    var attempts = (begin(first, scratch.0), begin(second, scratch.1))
    defer {
      attempts.0.end(io)
      attempts.1.end(io)
    }
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    let digests = computed(first.byteCount + second.byteCount) {
      var hashers = ChunkHasherPair()
      while true {
        let blocks = (attempts.0.nextBlock(compressor), attempts.1.nextBlock(compressor))
        if blocks.0 == nil, blocks.1 == nil { break }
        hashers.update(blocks.0 ?? nothing, blocks.1 ?? nothing)
      }
      return hashers.finalize()
    }
    return (finish(first, attempts.0, digests.first), finish(second, attempts.1, digests.second))
  }

  private func computed<Result>(_ byteCount: Int, _ body: () -> Result) -> Result {
    guard let computing, byteCount > Self.bytesInPlaceMax else { return body() }
    return computing.run(body)
  }

  private func begin(_ job: ReadJob, _ scratch: ScratchBlock?) -> ChunkAttempt {
    do throws(ChunkPass.Failure) {
      return ChunkAttempt(pass: try ChunkPass(job, contents: contents, io: io, scratch: scratch))
    } catch {
      return ChunkAttempt(failure: error)
    }
  }

  private mutating func finish(
    _ job: ReadJob, _ attempt: ChunkAttempt, _ digest: (sha256: Digest32, crc32c: UInt32)
  ) -> ReadResult {
    do throws(ChunkPass.Failure) {
      return success(try attempt.checked(contents), digest)
    } catch .timesChanged {
      return read(job)
    } catch {
      return error.result
    }
  }

  private mutating func success(_ pass: ChunkPass, _ digest: (sha256: Digest32, crc32c: UInt32)) -> ReadResult {
    let job = pass.job
    counters.chunksRead.add(1, ordering: .relaxed)
    var chunk = ReadChunk(
      digest: ChunkDigest(sha256: digest.sha256, crc32c: digest.crc32c), byteCount: job.byteCount, buffer: job.buffer)
    chunk.leavesNoTrace = pass.file.plan.leavesNoTrace
    if let buffer = job.buffer {
      buffer.count = job.byteCount
      if !io.isSavingMemory { chunk.encoding = compressed(buffer, pass) }
    }
    return .success(chunk)
  }

  private mutating func compressed(_ buffer: ChunkBuffer, _ pass: ChunkPass) -> ChunkEncoding {
    let (job, samples, fileBytes) = (pass.job, pass.samples, pass.fileBytes)
    // Without Zstandard the samples have decided already.
    guard job.compression.zstd || samples.promiseGain else { return .identity }
    guard let computing else { return compressor.compress(buffer, of: job, samples, fileBytes: fileBytes) }
    return computing.run { compressor.compress(buffer, of: job, samples, fileBytes: fileBytes) }
  }
}

/// A pass over a chunk, as far as it has come. Its end, which takes a lock, is left to the thread that began it.
private struct ChunkAttempt {
  var pass: ChunkPass?
  var failure: ChunkPass.Failure?

  /// Nil at the end, and after a failure, so that another chunk goes on alone.
  mutating func nextBlock(_ compressor: ChunkCompressor) -> UnsafeRawBufferPointer? {
    guard failure == nil else { return nil }
    do throws(ChunkPass.Failure) {
      return try pass?.nextBlock(compressor)
    } catch {
      failure = error
      return nil
    }
  }

  /// The pass, which is over, and whose file still is the one that it was.
  func checked(_ contents: any FileContents) throws(ChunkPass.Failure) -> ChunkPass {
    if let failure { throw failure }
    guard let pass else { throw .changed }
    try pass.check(contents)
    return pass
  }

  func end(_ io: HybridIOEngine) { pass?.end(io) }
}

/// One chunk while it is being read.
struct ChunkPass {
  enum Failure: Error {
    /// The file is not what was asked for, or became something else.
    case changed
    /// Only its times are different, as after touch(1): its bytes may well be the same.
    case timesChanged
    case contents(FileContentsError)

    var result: ReadResult {
      switch self {
      case .changed, .timesChanged: .changed
      case .contents(let error): .failed(error)
      }
    }
  }

  let job: ReadJob
  let file: CaptureReading
  private(set) var samples = ChunkCompressor.Samples()
  /// Those of the file from the chunk on.
  let fileBytes: UInt64
  private let identity: FileIdentity
  private let believesHoles: Bool
  private let target: UnsafeMutableRawBufferPointer
  private var position = 0
  private let isLastChunk: Bool

  /// Opens the file and checks that it is the one that was asked for.
  init(_ job: ReadJob, contents: any FileContents, io: HybridIOEngine, scratch: ScratchBlock?) throws(Failure) {
    guard let before = contents.snapshot(of: job.file) else { throw .contents(.gone) }
    guard job.isCurrent(before, contents) else { throw .changed }
    try before.requireReadable()
    guard job.byteCount >= 0, job.buffer.map({ job.byteCount <= $0.capacity }) ?? true,
      let target = job.buffer?.mutableBytes(count: job.byteCount) ?? scratch?.bytes
    else { throw .contents(.system(errno: EINVAL)) }
    let (end, overflow) = job.offset.addingReportingOverflow(UInt64(job.byteCount))
    guard !overflow else { throw .changed }
    self.job = job
    self.target = target
    believesHoles = before.diskErrno == nil
    fileBytes = before.sizeBytes - min(before.sizeBytes, job.offset)
    // A growing file is another one with each write, so that there is no use in keeping it open.
    isLastChunk = end >= before.sizeBytes || job.isOfGrowingFile
    do throws(FileContentsError) {
      file = try io.begin(job.file, isKept: !isLastChunk || (job.offset != 0 && !job.isOfGrowingFile))
    } catch {
      throw .contents(error)
    }
    identity = file.opened
    guard identity.inode == before.inode, job.isOfGrowingFile || identity.sizeBytes == before.sizeBytes else {
      io.end(file, isLastChunk: true)
      throw .changed
    }
  }

  /// Reads the next block and looks at it; nil at the chunk's end.
  mutating func nextBlock(_ compressor: ChunkCompressor) throws(Failure) -> UnsafeRawBufferPointer? {
    let byteCount = min(UploadConstants.hashBlockBytes, job.byteCount - position)
    guard byteCount > 0 else { return nil }
    let start = job.buffer == nil ? 0 : position
    let block = UnsafeMutableRawBufferPointer(rebasing: target[start..<(start + byteCount)])
    let readBytes: Int
    do throws(FileContentsError) {
      readBytes = try file.read(at: job.offset + UInt64(position), into: block, believesHoles: believesHoles)
    } catch {
      throw .contents(error)
    }
    // It was as long as this when it was asked for.
    guard readBytes == byteCount else { throw .changed }
    let bytes = UnsafeRawBufferPointer(block)
    if job.compression.lz4, job.buffer != nil, job.byteCount >= ChunkCompressor.chunkBytesMin {
      compressor.sample(bytes, at: position, of: job.byteCount, into: &samples)
    }
    position += byteCount
    return bytes
  }

  /// After the last block: it still is the file that it was before the first.
  func check(_ contents: any FileContents) throws(Failure) {
    // First, because giving bytes back touches the file's times for a moment.
    if contents.isReleased(job.file, job.offset..<(job.offset + UInt64(job.byteCount))) { throw .contents(.released) }
    let now: FileIdentity
    do throws(FileContentsError) {
      now = try file.file.identity()
    } catch {
      throw .contents(error)
    }
    guard let after = contents.snapshot(of: job.file) else { throw .contents(.gone) }
    try after.requireReadable()
    guard job.isCurrent(after, contents), now.inode == identity.inode,
      job.isOfGrowingFile || now.sizeBytes == identity.sizeBytes
    else { throw .changed }
    guard job.isOfGrowingFile || now == identity else { throw .timesChanged }
  }

  func end(_ io: HybridIOEngine) {
    io.end(file, isLastChunk: isLastChunk)
  }
}

extension FileSnapshot {
  /// The spool's disk keeps what was written, as far as it has said anything: what is read may be trusted.
  fileprivate func requireReadable() throws(ChunkPass.Failure) {
    guard case .spoolFailing(let errno)? = interruption else { return }
    throw .contents(.system(errno: errno))
  }
}

extension ReadJob {
  /// What is to be read has the epoch that was asked for, and nothing is writing to it.
  fileprivate func isCurrent(_ snapshot: FileSnapshot, _ contents: any FileContents) -> Bool {
    guard !isOfGrowingFile else { return contents.stableEpoch(of: file, at: offset) == epoch }
    return snapshot.epoch == epoch && snapshot.mutationsInFlight == 0
  }
}

import FileModel
import Logging
import Lookup
import Synchronization
import SystemMemory
import Threads
import TransferModel

/// Bytes of files are read on threads of their own; decisions hear of it.
extension UploadEngine {
  func findHoles(_ order: HoleOrder) {
    let (contents, workers, io) = parts.withLock { ($0.contents, $0.workers, $0.io) }
    if let contents, let workers, let io {
      let isTaken = workers.run { [weak self] in
        let chunks = HoleFinder(contents: contents, io: io).chunks(of: order)
        let digest = ChunkDigest(ofZeros: order.chunkBytes)
        self?.apply { $0.holesFound(order, chunks, digest, at: $1) }
      }
      if isTaken { return }
    }
    apply { $0.holesFound(order, [], ChunkDigest(ofZeros: 0), at: $1) }
  }

  func read(_ order: ReadOrder) {
    // The schedule counts buffers, so one is free; if it were not, the read fails and is tried again.
    let free = order.isSmall ? smallPool.tryAcquire() : pool.tryAcquire(order.bufferBytes)
    guard let buffer = free, let workers = parts.withLock({ $0.workers }) else {
      apply { $0.chunkRead(order.id, result: .failed(.system(errno: 0)), at: $1) }
      return
    }
    held.withLock { $0[order.id] = HeldChunk(buffer: buffer, plainBytes: order.byteCount) }
    let job = ReadJob(
      id: order.id.value, file: order.file, epoch: order.epoch, isOfGrowingFile: order.isOfGrowingFile,
      offset: order.offset, byteCount: order.byteCount,
      buffer: buffer, compression: order.compression)
    if !workers.submit(job) {
      apply { $0.chunkRead(order.id, result: .failed(.system(errno: 0)), at: $1) }
    }
  }

  func readEnded(_ job: ReadJob, _ result: ReadResult) {
    let outcome: ReadOutcome
    var (savedBytes, encoding) = (0, ChunkEncoding.identity)
    switch result {
    case .success(let chunk):
      (savedBytes, encoding) = (chunk.savedBytes, chunk.encoding)
      held.withLock {
        $0[ReadID(job.id)]?.encoding = chunk.encoding
        guard chunk.leavesNoTrace || job.isOfGrowingFile else { return }
        $0[ReadID(job.id)]?.trace = CacheTrace(
          file: job.file, range: job.offset..<(job.offset + UInt64(job.byteCount)), isOfLargeFile: chunk.leavesNoTrace)
      }
      outcome = .success(chunk.digest)
    case .changed: outcome = .changed
    case .failed(let error): outcome = .failed(error)
    }
    apply { [savedBytes, encoding] in
      $0.chunkRead(ReadID(job.id), result: outcome, savedBytes: savedBytes, encoding: encoding, at: $1)
    }
  }

  func release(_ read: ReadID) {
    held.withLock { $0.removeValue(forKey: read) }?.buffer.release()
  }
}

import TransferModel

/// How far reading runs ahead of the network (docs/design/reading.md#memory).
///
/// Reading, hashing and sending overlap because each chunk has a buffer of its own from its first byte read to its
/// acknowledgement. The network never waits for a disk that is faster than it: while every allowed request is in flight,
/// ``UploadConstants/prefetchDepth`` more chunks are read or being read, and the next acknowledgement finds one of them
/// ready. Reading further ahead would only hold memory, and bytes that may still change.
struct PrefetchPipeline: Hashable, Sendable {
  /// Chunk requests that may be in flight now: what link, destination and memory allow.
  let parallelism: Int
  /// Bytes of buffers that may be in use: those of each request, and those ahead of them.
  let bufferBytes: Int
  /// Of these, bytes for chunks that are read ahead of the requests.
  let bytesReadAhead: Int

  init(limits: UploadLimits, destinationParallelism: Int, tierParallelism: Int = .max, memory: MemoryBudget) {
    parallelism = max(1, min(limits.parallelChunks, destinationParallelism, tierParallelism, memory.chunksInFlight))
    let requests = max(1, min(limits.buffers, parallelism + memory.chunksReadAhead(of: limits.timing.prefetch)))
    bufferBytes = requests * limits.bufferBytes
    bytesReadAhead = max(0, requests - parallelism) * limits.bufferBytes
  }

  /// Another chunk request may go out.
  func maySend(inFlight: Int) -> Bool { inFlight < parallelism }

  /// Whether another chunk of so many bytes may be read. `inUse` counts the buffers of what is being read, waits, and
  /// is in flight. A single chunk is always read, however long it is.
  func mayRead(_ byteCount: Int, inUse: Int) -> Bool { inUse == 0 || inUse + byteCount <= bufferBytes }
}

/// How far reading runs ahead of the network (spec C4).
///
/// Reading, hashing and sending overlap because each chunk has a buffer of its own from its first byte read to its
/// acknowledgement. The network never waits for a disk that is faster than it: while every allowed request is in flight,
/// ``UploadConstants/prefetchDepth`` more chunks are read or being read, and the next acknowledgement finds one of them
/// ready. Reading further ahead would only hold memory, and bytes that may still change.
struct PrefetchPipeline: Hashable, Sendable {
  /// Chunk requests that may be in flight now: what link, destination and memory allow.
  let parallelism: Int
  /// Buffers that may be in use: one for each request, and those ahead of them.
  let buffers: Int

  init(limits: UploadLimits, destinationParallelism: Int, tierParallelism: Int = .max, memory: MemoryBudget) {
    parallelism = max(1, min(limits.parallelChunks, destinationParallelism, tierParallelism, memory.chunksInFlight))
    buffers = max(1, min(limits.buffers, parallelism + memory.chunksReadAhead(of: limits.timing.prefetch)))
  }

  /// Another chunk request may go out.
  func maySend(inFlight: Int) -> Bool { inFlight < parallelism }

  /// Another chunk may be read. `inUse` counts what is being read, waits, and is in flight.
  func mayRead(inUse: Int) -> Bool { inUse < buffers }
}

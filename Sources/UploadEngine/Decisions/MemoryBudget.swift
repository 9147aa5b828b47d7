import TransferModel

/// How much memory the pipeline may use, from what is available (docs/design/reading.md#memory). Memory pressure makes
/// it smaller and never stops it.
public struct MemoryBudget: Hashable, Sendable {
  /// Chunk requests in flight at most.
  public let chunksInFlight: Int
  /// Chunks that may be read ahead of those requests.
  public let chunksReadAhead: Int
  /// No mappings: the kernel would evict their pages next.
  public let readsPlainly: Bool

  /// Buffers for the requests and the chunks read ahead.
  public var buffers: Int { chunksInFlight + chunksReadAhead }

  /// The same, where the mount's settings give the number.
  func chunksReadAhead(of prefetch: Int) -> Int { self == .full ? prefetch : min(prefetch, chunksInFlight / 2) }

  /// Enough memory, or none that could be measured.
  public static let full = MemoryBudget(chunksInFlight: UploadConstants.maxParallelChunkUploads, readsPlainly: false)

  /// Bytes available above which a budget holds, largest first.
  private static let steps: [(above: UInt64, budget: MemoryBudget)] = [
    (200_000_000, .full),
    (100_000_000, MemoryBudget(chunksInFlight: 8, readsPlainly: false)),
    (50_000_000, MemoryBudget(chunksInFlight: 4, readsPlainly: false)),
  ]
  static let smallest = MemoryBudget(chunksInFlight: 2, readsPlainly: true)

  private init(chunksInFlight: Int, readsPlainly: Bool) {
    self.chunksInFlight = chunksInFlight
    // Half of the requests, so that the smallest budgets are really small.
    chunksReadAhead = min(UploadConstants.prefetchDepth, chunksInFlight / 2)
    self.readsPlainly = readsPlainly
  }

  /// The budget for this much available memory; nil means that it is not known.
  public init(availableBytes: UInt64?) {
    guard let availableBytes else {
      self = .full
      return
    }
    self = Self.steps.first { availableBytes > $0.above }?.budget ?? Self.smallest
  }

  /// The budget after this one. A budget shrinks at once, and larger only when the additional buffers would leave it
  /// enough: otherwise the memory that a smaller pool gives back would make it grow again, each time.
  public func next(availableBytes: UInt64?, bufferBytes: Int) -> MemoryBudget {
    let wanted = MemoryBudget(availableBytes: availableBytes)
    guard wanted.chunksInFlight > chunksInFlight, let availableBytes else { return wanted }
    let candidates = (Self.steps.map(\.budget) + [Self.smallest])
      .filter { $0.chunksInFlight > chunksInFlight && $0.chunksInFlight <= wanted.chunksInFlight }
    return candidates.first { candidate in
      let (added, overflow) = UInt64(max(0, bufferBytes)).multipliedReportingOverflow(
        by: UInt64(candidate.buffers - buffers))
      guard !overflow, added < availableBytes else { return false }
      return MemoryBudget(availableBytes: availableBytes - added).chunksInFlight >= candidate.chunksInFlight
    } ?? self
  }
}

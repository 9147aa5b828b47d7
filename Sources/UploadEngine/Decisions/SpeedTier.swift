import TransferModel

/// What kind of link it is, by its estimated speed, and what follows from that.
public enum SpeedTier: String, Sendable, CaseIterable {
  /// Too few samples.
  case unknown
  /// Below ``UploadConstants/normalTierMegabitsPerSecond``.
  case slow
  /// Below ``UploadConstants/fastTierMegabitsPerSecond``.
  case normal
  /// Up to ``UploadConstants/ultrafastTierMegabitsPerSecond``.
  case fast
  /// Above.
  case ultrafast

  /// The tier of a speed; nil is one that is not known.
  public init(bytesPerSecond: Double?) {
    guard let bytesPerSecond else {
      self = .unknown
      return
    }
    switch bytesPerSecond * 8 / 1_000_000 {
    case ..<UploadConstants.normalTierMegabitsPerSecond: self = .slow
    case ..<UploadConstants.fastTierMegabitsPerSecond: self = .normal
    case ...UploadConstants.ultrafastTierMegabitsPerSecond: self = .fast
    default: self = .ultrafast
    }
  }

  /// Chunk requests that are useful at the same time.
  public var parallelChunks: Int {
    switch self {
    case .slow: UploadConstants.slowTierChunks
    case .normal: UploadConstants.normalTierChunks
    case .fast, .ultrafast, .unknown: UploadConstants.maxParallelChunkUploads
    }
  }

  /// The size of a chunk of a new session.
  public var chunkBytes: Int {
    switch self {
    case .slow: UploadConstants.slowTierChunkBytes
    case .normal, .unknown: UploadConstants.chunkBytesDefault
    case .fast: UploadConstants.fastTierChunkBytes
    case .ultrafast: UploadConstants.chunkBytesMax
    }
  }

  /// The chunk size of a new session for a file: the tier's, bounded by a buffer. A file has as many chunks as there
  /// are streams, unless they became shorter than a slow link's chunk. Nil is a size that is not known yet.
  func chunkBytes(forFileOf sizeBytes: UInt64?, streams: Int, bufferBytes: Int) -> Int {
    let most = max(1, min(chunkBytes, bufferBytes))
    guard let sizeBytes else { return most }
    let step: UInt64 = 64 << 10
    let share = sizeBytes / UInt64(max(1, streams))
    guard share < UInt64(most) else { return most }
    let even = Int(clamping: share / step * step + (share.isMultiple(of: step) ? 0 : step))
    return min(most, max(even, min(most, SpeedTier.slow.chunkBytes)))
  }
}

/// How a file of a known size is cut into chunks. All chunks but the last are equally long; an empty file has none.
public struct ChunkPlan: Hashable, Sendable {
  /// The file's size.
  public let sizeBytes: UInt64
  /// The length of every chunk but the last.
  public let chunkBytes: Int

  /// A plan for a file; a chunk size below 1 is taken as 1.
  public init(sizeBytes: UInt64, chunkBytes: Int) {
    self.sizeBytes = sizeBytes
    self.chunkBytes = max(1, chunkBytes)
  }

  /// The number of chunks.
  public var count: Int {
    let size = UInt64(chunkBytes)
    return Int(clamping: sizeBytes / size + (sizeBytes % size == 0 ? 0 : 1))
  }

  /// Where a chunk starts.
  public func offset(of index: Int) -> UInt64 { UInt64(index) * UInt64(chunkBytes) }

  /// How long a chunk is; 0 for one beyond the end.
  public func byteCount(of index: Int) -> Int {
    guard index >= 0, index < count else { return 0 }
    return Int(min(UInt64(chunkBytes), sizeBytes - offset(of: index)))
  }
}

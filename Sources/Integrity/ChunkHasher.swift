/// SHA-256 and CRC32C of a chunk in one pass over memory: each block is still in the cache for the second digest.
public struct ChunkHasher: ~Copyable, Sendable {
  private let blockBytes: Int
  private var hasher = SHA256Hasher()
  private var checksum: UInt32 = 0

  /// Starts both digests. `blockBytes` is at least 1; the caller passes 128 KiB.
  public init(blockBytes: Int) {
    self.blockBytes = max(1, blockBytes)
  }

  /// Adds bytes.
  public mutating func update(_ bytes: UnsafeRawBufferPointer) {
    var start = 0
    while start < bytes.count {
      let end = start + min(blockBytes, bytes.count - start)
      let block = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
      hasher.update(block)
      checksum = CRC32C.checksum(block, continuing: checksum)
      start = end
    }
  }

  /// The digests of everything added.
  public consuming func finalize() -> (sha256: Digest32, crc32c: UInt32) {
    let crc32c = checksum
    return (hasher.finalize(), crc32c)
  }
}

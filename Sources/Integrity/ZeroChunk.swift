import Synchronization

/// The digests of a chunk in which every byte is zero. They follow from its length alone: nothing is read, and each length is computed
/// once.
public struct ZeroChunk: Hashable, Sendable {
  /// SHA-256 of the zeros.
  public let sha256: Digest32
  /// CRC32C of the zeros.
  public let crc32c: UInt32

  /// Peers choose the lengths, so only so many are remembered.
  private static let knownMax = 64
  private static let known = Mutex<[Int: ZeroChunk]>([:])

  /// Of so many zeros.
  public init(byteCount: Int) {
    if let known = ZeroChunk.known.withLock({ $0[byteCount] }) {
      self = known
      return
    }
    self.init(hashing: byteCount)
    let computed = self
    ZeroChunk.known.withLock { known in
      if known.count >= ZeroChunk.knownMax { known = [:] }
      known[byteCount] = computed
    }
  }

  private init(hashing byteCount: Int) {
    let block = [UInt8](repeating: 0, count: min(max(0, byteCount), 128 << 10))
    var hasher = ChunkHasher(blockBytes: 128 << 10)
    block.withUnsafeBytes { block in
      var left = max(0, byteCount)
      while left > 0 {
        let count = min(left, block.count)
        hasher.update(UnsafeRawBufferPointer(rebasing: block[..<count]))
        left -= count
      }
    }
    let digests = hasher.finalize()
    sha256 = digests.sha256
    crc32c = digests.crc32c
  }
}

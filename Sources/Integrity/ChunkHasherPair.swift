import CSHA256

/// SHA-256 and CRC32C of two chunks side by side, each in one pass over memory. Two take hardly longer than one,
/// where the processor has SHA instructions.
public struct ChunkHasherPair: ~Copyable, Sendable {
  private var lanes: (uploadfs_sha256_lane, uploadfs_sha256_lane)
  private var checksums: (UInt32, UInt32) = (0, 0)

  /// Whether this processor has the instructions; where it has not, chunks are hashed one after the other.
  public static let isAvailable = uploadfs_sha256_lanes_available() == 1

  /// Starts both chunks. Only where ``isAvailable`` is true.
  public init() {
    precondition(Self.isAvailable, "this processor has no SHA instructions")
    lanes = (uploadfs_sha256_lane(), uploadfs_sha256_lane())
    uploadfs_sha256_lane_start(&lanes.0)
    uploadfs_sha256_lane_start(&lanes.1)
  }

  /// Adds bytes to both chunks. Give both the same number, a multiple of 64 small enough for the cache, as long as both
  /// have so many: only what they have in common is done side by side.
  public mutating func update(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) {
    uploadfs_sha256_lanes_update(
      &lanes.0, first.baseAddress, first.count, &lanes.1, second.baseAddress, second.count)
    checksums.0 = CRC32C.checksum(first, continuing: checksums.0)
    checksums.1 = CRC32C.checksum(second, continuing: checksums.1)
  }

  /// The digests of everything added.
  public consuming func finalize() -> (
    first: (sha256: Digest32, crc32c: UInt32), second: (sha256: Digest32, crc32c: UInt32)
  ) {
    ((Self.digest(of: &lanes.0), checksums.0), (Self.digest(of: &lanes.1), checksums.1))
  }

  private static func digest(of lane: inout uploadfs_sha256_lane) -> Digest32 {
    Digest32 { uploadfs_sha256_lane_finish(&lane, $0) }
  }
}

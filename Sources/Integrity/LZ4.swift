import CLZ4

/// LZ4 blocks (the raw block format: the plain length travels beside the block).
public enum LZ4 {
  /// The most bytes that so many plain bytes can become; 0 when a block cannot hold them.
  public static func compressedBytesMax(_ plainBytes: Int) -> Int {
    plainBytes < 0 ? 0 : uploadfs_lz4_bound(plainBytes)
  }

  /// Compresses a block into the front of `target`; the number of bytes written, nil when they do not fit.
  public static func compress(_ plain: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Int? {
    guard let source = plain.baseAddress, let start = target.baseAddress, !plain.isEmpty else { return nil }
    let count = uploadfs_lz4_compress(source, plain.count, start, target.count)
    return count > 0 ? count : nil
  }

  /// Decompresses a block that must fill `target` exactly; false when it is damaged or has another length. Whatever the
  /// block says, nothing outside of the two buffers is touched.
  public static func decompress(_ block: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Bool {
    guard let source = block.baseAddress, let start = target.baseAddress else { return false }
    return uploadfs_lz4_decompress(source, block.count, start, target.count) == 1
  }
}

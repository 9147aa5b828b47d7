import CISAL

/// CRC32C (Castagnoli) with the usual conventions: the checksum of "123456789" is 0xE3069283.
public enum CRC32C {
  /// The checksum of `previous`'s bytes followed by these; `previous` is 0 for none.
  public static func checksum(_ bytes: UnsafeRawBufferPointer, continuing previous: UInt32 = 0) -> UInt32 {
    uploadfs_crc32c(bytes.baseAddress, bytes.count, previous)
  }
}

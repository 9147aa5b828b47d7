import COpenSSL

/// Unpredictable bytes: nonces, keys, tokens.
public enum SecureRandom {
  /// Fresh random bytes. Throws when OpenSSL has none, as without entropy; to go on with predictable ones would be worse
  /// than not to go on.
  public static func bytes(_ count: Int) throws(IntegrityError) -> [UInt8] {
    guard count > 0 else { return [] }
    var isFilled = false
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { output, filled in
      isFilled = uploadfs_random_bytes(output.baseAddress, count) == 1
      // What was not filled is not initialized either.
      filled = isFilled ? count : 0
    }
    guard isFilled else { throw .library("OpenSSL has no random bytes") }
    return bytes
  }
}

import COpenSSL

/// Bytes that nobody can predict: nonces, keys, tokens.
public enum SecureRandom {
  /// Fresh random bytes.
  public static func bytes(_ count: Int) -> [UInt8] {
    guard count > 0 else { return [] }
    return [UInt8](unsafeUninitializedCapacity: count) { output, filled in
      // Going on with predictable bytes would be worse than stopping; OpenSSL fails only without entropy.
      guard uploadfs_random_bytes(output.baseAddress, count) == 1 else { fatalError("OpenSSL has no random bytes") }
      filled = count
    }
  }
}

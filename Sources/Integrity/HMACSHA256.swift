import COpenSSL

/// HMAC with SHA-256 (RFC 2104).
public enum HMACSHA256 {
  /// The authentication code of a message: 32 bytes.
  public static func authenticate(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: Int(UPLOADFS_SHA256_BYTES)) { output, count in
      let isDone = uploadfs_hmac_sha256(key, key.count, message, message.count, output.baseAddress)
      precondition(isDone == 1, "OpenSSL refused an HMAC-SHA256")
      count = Int(UPLOADFS_SHA256_BYTES)
    }
  }

  /// Whether two codes are equal, in a time that does not tell where they differ. Their lengths are no secret.
  public static func isEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    a.count == b.count && uploadfs_is_equal(a, b, a.count) == 1
  }

  /// Likewise, of two digests.
  public static func isEqual(_ a: Digest32, _ b: Digest32) -> Bool { isEqual(a.bytes, b.bytes) }
}

/// HKDF with SHA-256 (RFC 5869).
public enum HKDFSHA256 {
  /// The most that can be derived from one input.
  public static let byteCountMax = 255 * 32

  /// Extracts and expands: `byteCount` bytes, 1 to ``byteCountMax``, that are bound to salt and info.
  public static func derive(inputKey: [UInt8], salt: [UInt8], info: [UInt8], byteCount: Int) -> [UInt8] {
    precondition(byteCount > 0 && byteCount <= byteCountMax, "HKDF-SHA256 derives 1 to 8160 bytes, not \(byteCount)")
    // An empty salt stands for 32 zero bytes; HMAC pads a short key with zeros, so both are the same.
    let key = HMACSHA256.authenticate(inputKey, key: salt)
    var output: [UInt8] = []
    output.reserveCapacity(byteCount + 32)
    var block: [UInt8] = []
    var counter: UInt8 = 0
    while output.count < byteCount {
      counter += 1
      block = HMACSHA256.authenticate(block + info + [counter], key: key)
      output += block
    }
    return Array(output.prefix(byteCount))
  }
}

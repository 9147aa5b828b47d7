import COpenSSL

/// AES-256-GCM with a random nonce for each sealing. One key may seal about 2³² times; a resume record's key seals
/// some thousands.
public enum AES256GCM {
  private static let nonceBytes = Int(UPLOADFS_GCM_NONCE_BYTES)
  private static let tagBytes = Int(UPLOADFS_GCM_TAG_BYTES)
  private static let keyBytes = Int(UPLOADFS_AES256_KEY_BYTES)

  /// Nonce (12) ‖ ciphertext ‖ tag (16). `authenticating` is covered by the tag and not part of the result.
  public static func seal(_ plaintext: [UInt8], key: [UInt8], authenticating: [UInt8]) throws(IntegrityError)
    -> [UInt8]
  {
    guard key.count == keyBytes else { throw .keySize(expected: keyBytes, actual: key.count) }
    let nonce = try SecureRandom.bytes(nonceBytes)
    var sealed = nonce + [UInt8](repeating: 0, count: plaintext.count + tagBytes)
    let isSealed = sealed.withUnsafeMutableBytes { output -> Int32 in
      guard let start = output.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
      return uploadfs_aes256gcm_seal(
        key, nonce, authenticating, authenticating.count, plaintext, plaintext.count, start + nonceBytes,
        start + nonceBytes + plaintext.count)
    }
    guard isSealed == 1 else { throw .library("AES-256-GCM refused to seal \(plaintext.count) bytes") }
    return sealed
  }

  /// The plaintext that ``seal(_:key:authenticating:)`` was given; throws ``IntegrityError/notAuthentic`` for anything
  /// else.
  public static func open(_ sealed: [UInt8], key: [UInt8], authenticating: [UInt8]) throws(IntegrityError) -> [UInt8] {
    guard key.count == keyBytes else { throw .keySize(expected: keyBytes, actual: key.count) }
    let count = sealed.count - nonceBytes - tagBytes
    guard count >= 0 else { throw .notAuthentic }
    // One byte more than needed: an empty array may have no address, and OpenSSL takes that for something else.
    var plaintext = [UInt8](repeating: 0, count: count + 1)
    let isOpened = sealed.withUnsafeBytes { input -> Int32 in
      guard let start = input.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
      return uploadfs_aes256gcm_open(
        key, start, authenticating, authenticating.count, start + nonceBytes, count, start + nonceBytes + count,
        &plaintext)
    }
    guard isOpened == 1 else { throw .notAuthentic }
    plaintext.removeLast()
    return plaintext
  }
}

/// The MAC that binds a chunk to its place, its session and the sender's credential (docs/protocol.md#tags).
public enum ChunkMAC {
  /// The key that both sides derive from the credential that they share anyway, so that no second secret has to be
  /// handed out.
  public static func masterKey(credentialSecret: [UInt8]) -> [UInt8] {
    HKDFSHA256.derive(
      inputKey: credentialSecret, salt: [], info: Array("uploadfs master key v1".utf8), byteCount: 32)
  }

  /// The key of one session. For a whole-file request the session id is the text of its Idempotency-Key.
  public static func sessionKey(masterKey: [UInt8], nonce: [UInt8], sessionID: String) -> [UInt8] {
    HKDFSHA256.derive(
      inputKey: masterKey, salt: nonce, info: Array("uploadfs chunk hmac v1".utf8) + Array(sessionID.utf8),
      byteCount: 32)
  }

  /// The MAC of one chunk: 32 bytes.
  ///
  /// - Parameter sizeBytes: of the plain bytes, as the digest is.
  public static func mac(
    key: [UInt8], index: UInt32, sizeBytes: UInt64, chunkSHA256: Digest32, sessionID: String, nonce: [UInt8]
  ) -> [UInt8] {
    var message = withUnsafeBytes(of: index.littleEndian) { Array($0) }
    message += withUnsafeBytes(of: sizeBytes.littleEndian) { Array($0) }
    message += Array(Hex.encode(chunkSHA256).utf8)
    message += Array(sessionID.utf8)
    message += nonce
    return HMACSHA256.authenticate(message, key: key)
  }

  /// The MAC of ranges of chunks that are zeros, each of the session's chunk size: 32 bytes. What it begins with is the index of no
  /// chunk, so that no MAC of the one kind is one of the other.
  public static func zerosMAC(
    key: [UInt8], ranges: [(first: UInt32, last: UInt32)], chunkBytes: UInt64, chunkSHA256: Digest32,
    sessionID: String, nonce: [UInt8]
  ) -> [UInt8] {
    var message = Array("uploadfs zeros v1".utf8)
    message += withUnsafeBytes(of: chunkBytes.littleEndian) { Array($0) }
    message += Array(Hex.encode(chunkSHA256).utf8)
    message += withUnsafeBytes(of: UInt32(clamping: ranges.count).littleEndian) { Array($0) }
    for range in ranges {
      message += withUnsafeBytes(of: range.first.littleEndian) { Array($0) }
      message += withUnsafeBytes(of: range.last.littleEndian) { Array($0) }
    }
    message += Array(sessionID.utf8)
    message += nonce
    return HMACSHA256.authenticate(message, key: key)
  }
}

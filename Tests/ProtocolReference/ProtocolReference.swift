/// The computations of docs/protocol.md, written from its words and without any code of the product: what a test server
/// judges by, and what tests expect.
package enum ProtocolReference {
  package static func sha256(_ bytes: [UInt8]) -> [UInt8] { ReferenceSHA256.digest(bytes) }

  /// CRC-32 with the polynomial of Castagnoli, bit by bit.
  package static func crc32c(_ bytes: [UInt8]) -> UInt32 {
    var rest: UInt32 = ~0
    for byte in bytes {
      rest ^= UInt32(byte)
      for _ in 0..<8 { rest = rest & 1 == 1 ? rest >> 1 ^ 0x82f6_3b78 : rest >> 1 }
    }
    return ~rest
  }

  /// RFC 6962, section 2.1, word for word, over the digests of the chunks (P90).
  package static func merkleRoot(_ digests: some RandomAccessCollection<[UInt8]>) -> [UInt8] {
    guard let first = digests.first else { return sha256([]) }
    guard digests.count > 1 else { return sha256([0x00] + first) }
    // The largest power of two below the count.
    var left = 1
    while left * 2 < digests.count { left *= 2 }
    return sha256([0x01] + merkleRoot(Array(digests.prefix(left))) + merkleRoot(Array(digests.dropFirst(left))))
  }

  /// The commitment chain over the digests of the chunks (P91).
  package static func chainTip(sessionID: String, _ digests: some Sequence<[UInt8]>) -> [UInt8] {
    digests.reduce(sha256(Array("uploadfs-commitment-v1".utf8) + Array(sessionID.utf8))) { tip, digest in
      sha256(tip + digest)
    }
  }

  /// The MAC of a chunk with these bytes (P88).
  package static func mac(
    secret: String, nonce: [UInt8], sessionID: String, index: UInt32, _ bytes: [UInt8]
  ) -> [UInt8] {
    let session = Array(sessionID.utf8)
    let master = hkdf(Array(secret.utf8), salt: [], info: Array("uploadfs master key v1".utf8))
    let key = hkdf(master, salt: nonce, info: Array("uploadfs chunk hmac v1".utf8) + session)
    let message =
      littleEndian(index) + littleEndian(UInt64(bytes.count)) + Array(hex(sha256(bytes)).utf8) + session + nonce
    return hmac(key, message)
  }

  /// The MAC of ranges of chunks that are zeros (P89b).
  package static func zerosMAC(
    secret: String, nonce: [UInt8], sessionID: String, chunkBytes: Int, ranges: [(first: UInt32, last: UInt32)]
  ) -> [UInt8] {
    let session = Array(sessionID.utf8)
    let master = hkdf(Array(secret.utf8), salt: [], info: Array("uploadfs master key v1".utf8))
    let key = hkdf(master, salt: nonce, info: Array("uploadfs chunk hmac v1".utf8) + session)
    let digest = hex(sha256([UInt8](repeating: 0, count: chunkBytes)))
    let indices = ranges.flatMap { littleEndian($0.first) + littleEndian($0.last) }
    let message =
      Array("uploadfs zeros v1".utf8) + littleEndian(UInt64(chunkBytes)) + Array(digest.utf8)
      + littleEndian(UInt32(ranges.count)) + indices + session + nonce
    return hmac(key, message)
  }

  /// Lower-case hexadecimal digits.
  package static func hex(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef")
    return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
  }

  /// RFC 2104.
  package static func hmac(_ key: [UInt8], _ message: [UInt8]) -> [UInt8] {
    let short = key.count > 64 ? sha256(key) : key
    let padded = short + [UInt8](repeating: 0, count: 64 - short.count)
    return sha256(padded.map { $0 ^ 0x5c } + sha256(padded.map { $0 ^ 0x36 } + message))
  }

  /// RFC 5869, of one block.
  package static func hkdf(_ key: [UInt8], salt: [UInt8], info: [UInt8]) -> [UInt8] {
    hmac(hmac(salt, key), info + [1])
  }

  private static func littleEndian(_ number: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian) { Array($0) }
  }
}

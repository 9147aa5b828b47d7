/// The two hashes of RFC 6962, section 2.1.
enum MerkleHash {
  /// SHA-256 of nothing: the root of the empty tree.
  static let empty = SHA256Hasher().finalize()

  /// SHA-256(0x00 ‖ data).
  static func leaf(_ data: UnsafeRawBufferPointer) -> Digest32 {
    var hasher = SHA256Hasher()
    add(0x00, to: &hasher)
    hasher.update(data)
    return hasher.finalize()
  }

  /// SHA-256(0x01 ‖ left ‖ right).
  static func node(_ left: Digest32, _ right: Digest32) -> Digest32 {
    var hasher = SHA256Hasher()
    add(0x01, to: &hasher)
    left.withUnsafeBytes { hasher.update($0) }
    right.withUnsafeBytes { hasher.update($0) }
    return hasher.finalize()
  }

  private static func add(_ prefix: UInt8, to hasher: inout SHA256Hasher) {
    withUnsafeBytes(of: prefix) { hasher.update($0) }
  }
}

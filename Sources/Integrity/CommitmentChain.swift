/// A running hash over a session's chunk digests in index order; both sides hold the same tip (docs/protocol.md, P91).
/// For chunks that are acknowledged in any order there is ``CommitmentFrontier``.
public struct CommitmentChain: Sendable, Hashable {
  private var link: Digest32

  /// c₀ = SHA-256("uploadfs-commitment-v1" ‖ session id), then cᵢ₊₁ = SHA-256(cᵢ ‖ chunk SHA-256ᵢ).
  public var tip: [UInt8] { link.bytes }

  /// The chain of a session without chunks.
  public init(sessionID: String) {
    var hasher = SHA256Hasher()
    for bytes in [Array("uploadfs-commitment-v1".utf8), Array(sessionID.utf8)] {
      bytes.withUnsafeBytes { hasher.update($0) }
    }
    link = hasher.finalizeDigest()
  }

  /// A chain that was left at this tip.
  public init(tip: Digest32) {
    link = tip
  }

  /// Adds the next chunk's digest.
  public mutating func extend(with chunkSHA256: [UInt8]) {
    chunkSHA256.withUnsafeBytes { extend(with: $0) }
  }

  /// Adds the next chunk's digest.
  public mutating func extend(with chunkSHA256: Digest32) {
    chunkSHA256.withUnsafeBytes { extend(with: $0) }
  }

  private mutating func extend(with bytes: UnsafeRawBufferPointer) {
    var hasher = SHA256Hasher()
    link.withUnsafeBytes { hasher.update($0) }
    hasher.update(bytes)
    link = hasher.finalizeDigest()
  }
}

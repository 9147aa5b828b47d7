/// A running hash over a session's chunk digests in index order; both sides hold the same tip (docs/protocol.md, P91).
/// For chunks that are acknowledged in any order there is ``CommitmentFrontier``.
public struct CommitmentChain: Sendable, Hashable {
  /// c₀ = SHA-256("uploadfs-commitment-v1" ‖ session id), then cᵢ₊₁ = SHA-256(cᵢ ‖ chunk SHA-256ᵢ).
  public private(set) var tip: Digest32

  /// The chain of a session without chunks.
  public init(sessionID: String) {
    var hasher = SHA256Hasher()
    for bytes in [Array("uploadfs-commitment-v1".utf8), Array(sessionID.utf8)] {
      bytes.withUnsafeBytes { hasher.update($0) }
    }
    tip = hasher.finalize()
  }

  /// A chain that was left at this tip.
  public init(tip: Digest32) {
    self.tip = tip
  }

  /// Adds the next chunk's digest.
  public mutating func extend(with chunkSHA256: Digest32) {
    var hasher = SHA256Hasher()
    tip.withUnsafeBytes { hasher.update($0) }
    chunkSHA256.withUnsafeBytes { hasher.update($0) }
    tip = hasher.finalize()
  }
}

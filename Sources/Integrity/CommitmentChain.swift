/// A running hash over a session's chunk digests in index order; both sides hold the same tip (spec D4).
public struct CommitmentChain: Sendable, Hashable {
  /// c₀ = SHA-256("uploadfs-commitment-v1" ‖ session id), then cᵢ₊₁ = SHA-256(cᵢ ‖ chunk SHA-256ᵢ).
  public private(set) var tip: [UInt8]

  /// The chain of a session without chunks.
  public init(sessionID: String) {
    tip = sha256(Array("uploadfs-commitment-v1".utf8) + Array(sessionID.utf8))
  }

  /// Adds the next chunk's digest.
  public mutating func extend(with chunkSHA256: [UInt8]) {
    tip = sha256(tip + chunkSHA256)
  }
}

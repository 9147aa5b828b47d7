import Integrity

/// What a commit proves: the Merkle root and the commitment chain over a file's chunk digests (spec D3, D4).
struct CommitProof: Hashable, Sendable {
  let merkleRoot: [UInt8]
  let chainTip: [UInt8]

  init(sessionID: String, digests: [ChunkDigest]) {
    var tree = MerkleTree()
    var chain = CommitmentChain(sessionID: sessionID)
    for digest in digests {
      tree.append(chunkSHA256: digest.sha256)
      chain.extend(with: digest.sha256)
    }
    merkleRoot = tree.root
    chainTip = chain.tip
  }

  /// The digests of no bytes at all.
  static let emptyDigest = ChunkDigest(sha256: sha256([]), crc32c: 0)
}

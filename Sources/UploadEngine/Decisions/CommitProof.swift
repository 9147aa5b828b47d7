package import Integrity
package import TransferModel

/// What a commit proves: the Merkle root and the commitment chain over a file's chunk digests (docs/protocol.md, P90,
/// P91). Built in index order as digests become known, so that a commit costs no walk over them.
package struct CommitProof: Hashable, Sendable {
  let sessionID: String
  private(set) var chunkCount = 0
  private var tree = MerkleTree()
  private var chain: CommitmentChain

  /// The proof over no chunks.
  package init(sessionID: String) {
    self.sessionID = sessionID
    chain = CommitmentChain(sessionID: sessionID)
  }

  package mutating func append(_ digest: ChunkDigest) {
    tree.append(digest.sha256)
    chain.extend(with: digest.sha256)
    chunkCount += 1
  }

  package var merkleRoot: Digest32 { tree.root }
  package var chainTip: Digest32 { chain.tip }

  /// The digests of no bytes at all.
  static let emptyDigest = ChunkDigest(sha256: sha256([]), crc32c: 0)
}

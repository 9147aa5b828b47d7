import Integrity

/// Merkle root and chain tip of what a session holds, kept as its chunks come, so that a commit compares instead of hashing
/// every digest again: three hashes for each chunk, at any order.
///
/// A chunk that is taken back would cost as many hashes as there are chunks, here, where every request waits. So the proof
/// is given up then, and a commit computes it elsewhere (``CommitCheck``).
struct HeldProof: Sendable {
  private var tree = MerkleAccumulator()
  private var frontier: CommitmentFrontier

  init(sessionID: String) { frontier = CommitmentFrontier(sessionID: sessionID) }

  mutating func insert(_ chunkSHA256: Digest32, at index: UInt32) {
    tree.insert(chunkSHA256, at: Int(index))
    frontier.insert(chunkSHA256, at: Int(index))
  }

  /// Over the chunks from the first one on without a gap.
  var chainTip: Digest32 { frontier.tip }

  /// Whether the chunks are the file that the commit describes; nil when there are others than its chunks.
  func verdict(on commit: CommitParameters) -> CommitVerdict? {
    let count = Int(commit.chunkCount)
    guard let root = tree.root(leafCount: count), frontier.contiguousCount == count else { return nil }
    if root != commit.merkleRoot { return .otherRoot }
    return frontier.tip == commit.chainTip ? .match : .otherTip
  }
}

import Integrity
import TransferModel

extension WholeFileSending {
  /// The file's size.
  var sizeBytes: UInt64 { UInt64(clamping: stream?.byteCount ?? body?.bytes.count ?? 0) }

  /// Merkle root and chain tip over the file's one chunk.
  var proof: (merkleRoot: Digest32, chainTip: Digest32) {
    var tree = MerkleTree()
    var chain = CommitmentChain(sessionID: Hex.encode(nonce))
    if body != nil {
      tree.append(digest.sha256)
      chain.extend(with: digest.sha256)
    }
    return (tree.root, chain.tip)
  }
}

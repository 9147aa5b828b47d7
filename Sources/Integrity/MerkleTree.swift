/// The Merkle tree of RFC 6962 over a file's chunk digests, built in index order (docs/protocol.md, P90). For chunks
/// that come in any order there is ``MerkleAccumulator``.
///
/// Holds only the roots of the complete subtrees to the left, at most one for each bit of the leaf count.
public struct MerkleTree: Sendable, Hashable {
  private var carries: [Digest32] = []

  /// Leaves appended so far.
  public private(set) var leafCount = 0

  /// The empty tree.
  public init() {}

  /// Appends the leaf SHA-256(0x00 ‖ digest).
  public mutating func append(_ chunkSHA256: Digest32) {
    append(leafHash: chunkSHA256.withUnsafeBytes { MerkleHash.leaf($0) })
  }

  /// The same for a leaf that is hashed already.
  public mutating func append(leafHash: Digest32) {
    var node = leafHash
    var count = leafCount
    // Each trailing 1 bit of the old count is a complete subtree that this leaf completes into a larger one.
    while count & 1 == 1, let left = carries.popLast() {
      node = MerkleHash.node(left, node)
      count >>= 1
    }
    carries.append(node)
    leafCount += 1
  }

  /// The root over all leaves; SHA-256 of nothing for the empty tree.
  public var root: Digest32 {
    guard var node = carries.last else { return MerkleHash.empty }
    for left in carries.dropLast().reversed() {
      node = MerkleHash.node(left, node)
    }
    return node
  }
}

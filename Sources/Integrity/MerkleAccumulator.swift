/// The Merkle tree of RFC 6962 over chunk digests that arrive in any order (docs/protocol.md, P90).
///
/// Two complete subtrees of the same size that are siblings become their parent at once, so what is kept are the largest
/// complete subtrees over the leaves that are there. Leaves without a gap from the first on need one node for each 1 bit
/// of their count. Each gap adds the subtrees beside it: at most 2 × log₂ n for each run of leaves, and never more than
/// there are leaves. With twelve chunks on their way at once that is some log₂ n + 12 nodes, whatever the file's size.
///
/// A subtree cannot be taken apart without the leaves below it. So taking one leaf out asks the caller, who holds the
/// digests anyway, for the others below the same node; leaves that the caller does not give are missing from then on.
public struct MerkleAccumulator: Sendable, Hashable {
  /// Leaves have places from 0 to one less than this.
  public static let leafCountMax = 1 << 32

  /// A complete subtree: its root and where it lies.
  public struct Node: Sendable, Hashable {
    /// Its height; the subtree has 2^level leaves.
    public var level: Int
    /// Its place among the subtrees of this height: its first leaf is position × 2^level.
    public var position: Int
    /// SHA-256 of the leaf or of the two children.
    public var hash: Digest32

    /// A subtree at a place.
    public init(level: Int, position: Int, hash: Digest32) {
      self.level = level
      self.position = position
      self.hash = hash
    }
  }

  private struct Place: Sendable, Hashable {
    var level: UInt8
    var position: UInt32

    var sibling: Place { Place(level: level, position: position ^ 1) }
    var parent: Place { Place(level: level + 1, position: position >> 1) }
    var isRight: Bool { position & 1 == 1 }
    var leaves: Range<Int> {
      let first = Int(position) << Int(level)
      return first..<(first + 1 << Int(level))
    }
  }

  private static let levelMax = 32

  private var nodes: [Place: Digest32] = [:]

  /// Leaves that are there.
  public private(set) var leafCount = 0

  /// Subtrees that are kept.
  public var nodeCount: Int { nodes.count }

  /// Without leaves.
  public init() {}

  /// What ``nodesInOrder`` gave; nil unless they are subtrees side by side, none a sibling of another.
  public init?(nodes: some Sequence<Node>) {
    for node in nodes {
      guard (0...MerkleAccumulator.levelMax).contains(node.level),
        let position = UInt32(exactly: node.position),
        Int(position) < MerkleAccumulator.leafCountMax >> node.level
      else { return nil }
      let place = Place(level: UInt8(node.level), position: position)
      guard self.nodes.updateValue(node.hash, forKey: place) == nil else { return nil }
    }
    var end = 0
    for place in self.nodes.keys.sorted(by: { $0.leaves.lowerBound < $1.leaves.lowerBound }) {
      guard place.leaves.lowerBound >= end, self.nodes[place.sibling] == nil || place.level == 32 else { return nil }
      end = place.leaves.upperBound
      leafCount += place.leaves.count
    }
  }

  /// The subtrees that are kept, by their first leaf.
  public var nodesInOrder: [Node] {
    nodes.sorted { $0.key.leaves.lowerBound < $1.key.leaves.lowerBound }
      .map { Node(level: Int($0.key.level), position: Int($0.key.position), hash: $0.value) }
  }

  /// True when the leaf is there.
  public func contains(_ index: Int) -> Bool { place(over: index) != nil }

  /// Adds the leaf SHA-256(0x00 ‖ digest). False when there is one at this place already, or no such place: then nothing
  /// changes, and a leaf with another digest has to be removed first.
  @discardableResult
  public mutating func insert(_ chunkSHA256: Digest32, at index: Int) -> Bool {
    insert(leafHash: chunkSHA256.withUnsafeBytes { MerkleHash.leaf($0) }, at: index)
  }

  /// The same for a leaf that is hashed already.
  @discardableResult
  public mutating func insert(leafHash: Digest32, at index: Int) -> Bool {
    guard index >= 0, index < MerkleAccumulator.leafCountMax, place(over: index) == nil else { return false }
    var place = Place(level: 0, position: UInt32(truncatingIfNeeded: index))
    var hash = leafHash
    while let sibling = nodes.removeValue(forKey: place.sibling) {
      hash = place.isRight ? MerkleHash.node(sibling, hash) : MerkleHash.node(hash, sibling)
      place = place.parent
    }
    nodes[place] = hash
    leafCount += 1
    return true
  }

  /// Takes a leaf out. `digest` is asked for the other leaves below the node that held it: as many as the largest
  /// complete subtree around the leaf has, in the worst case all. Where it answers nil, the leaf is missing from then on.
  public mutating func remove(_ index: Int, rebuildingFrom digest: (Int) -> Digest32?) {
    guard let place = place(over: index) else { return }
    nodes[place] = nil
    leafCount -= place.leaves.count
    for other in place.leaves where other != index {
      if let digest = digest(other) { insert(digest, at: other) }
    }
  }

  /// The root over the leaves 0 ..< `leafCount`; nil while one of them is missing, or while there are leaves beyond.
  /// SHA-256 of nothing for no leaves.
  public func root(leafCount: Int) -> Digest32? {
    guard leafCount >= 0, leafCount == self.leafCount else { return nil }
    // From the right, where the subtrees are small: each is the right side of what lies to its left.
    var root: Digest32?
    var end = leafCount
    while end > 0 {
      let level = end.trailingZeroBitCount
      let start = end - 1 << level
      guard level <= MerkleAccumulator.levelMax, let position = UInt32(exactly: start >> level),
        let node = nodes[Place(level: UInt8(level), position: position)]
      else { return nil }
      root = root.map { MerkleHash.node(node, $0) } ?? node
      end = start
    }
    return root ?? MerkleHash.empty
  }

  /// The subtree that holds a leaf.
  private func place(over index: Int) -> Place? {
    guard index >= 0, index < MerkleAccumulator.leafCountMax, !nodes.isEmpty else { return nil }
    for level in 0...MerkleAccumulator.levelMax where 1 << level <= leafCount {
      let place = Place(level: UInt8(level), position: UInt32(truncatingIfNeeded: index >> level))
      if nodes[place] != nil { return place }
    }
    return nil
  }
}

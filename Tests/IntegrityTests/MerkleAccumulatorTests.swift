import Integrity
import SeededRandom
import Testing

@Suite struct MerkleAccumulatorTests {
  @Test func root_matchesThePublicVectorsInEveryOrderOfThreeLeavesAndInSomeOfEight() throws {
    let vectors = CertificateTransparencyVectors.self
    var random = SplitMix(seed: 6962)
    for count in 0...vectors.inputs.count {
      let orders =
        count <= 3 ? permutations(Array(0..<count)) : (0..<50).map { _ in (0..<count).shuffled(using: &random) }
      for order in orders {
        var accumulator = MerkleAccumulator()
        for index in order { accumulator.insert(leafHash: try leafHash(vectors.inputs[index]), at: index) }
        #expect(accumulator.root(leafCount: count)?.description == vectors.roots[count], "order \(order)")
      }
    }
  }

  @Test func nodes_matchThePublishedAuditPaths() throws {
    let vectors = CertificateTransparencyVectors.self
    for subtree in vectors.subtrees {
      var accumulator = MerkleAccumulator()
      for index in subtree.leaves.reversed() {
        accumulator.insert(leafHash: try leafHash(vectors.inputs[index]), at: index)
      }
      #expect(accumulator.nodesInOrder.map(\.hash.description) == [subtree.hash], "leaves \(subtree.leaves)")
    }
  }

  @Test func root_equalsTheTreeThatIsBuiltInOrder() {
    var random = SplitMix(seed: 1)
    var tree = MerkleTree()
    for count in 0...130 {
      if count > 0 { tree.append(chunkDigest(count - 1)) }
      for order in [Array(0..<count), (0..<count).reversed(), (0..<count).shuffled(using: &random)] {
        #expect(accumulated(order).root(leafCount: count) == tree.root, "order \(order)")
      }
    }
  }

  @Test func root_isOnlyGivenForExactlyTheLeavesThatAreThere() {
    let accumulator = accumulated(Array(0..<6))
    for count in [-1, 0, 5, 7, 8, Int.max] { #expect(accumulator.root(leafCount: count) == nil, "\(count)") }
    #expect(accumulator.root(leafCount: 6) != nil)
    // As many leaves as asked for, but not those.
    #expect(accumulated([0, 1, 3]).root(leafCount: 3) == nil)
    #expect(accumulated([1]).root(leafCount: 1) == nil)
  }

  // MARK: - Size

  private static let leafCount = 25_000
  private static let logarithm = 15

  @Test func inOrder_holdsOneNodeForEachBitOfTheCount() {
    let most = mostNodes(Array(0..<Self.leafCount)) { $0.nodeCount == $0.leafCount.nonzeroBitCount }
    #expect(most <= Self.logarithm)
  }

  @Test func inReverseOrder_holdsALogarithmicNumberOfNodes() {
    #expect(mostNodes((0..<Self.leafCount).reversed()) <= 2 * Self.logarithm)
  }

  @Test func shuffledWithinAWindow_holdsALogarithmicNumberOfNodesAndTheWindow() {
    var random = SplitMix(seed: 12)
    let window = 12
    var order: [Int] = []
    var flying: [Int] = []
    for index in 0..<Self.leafCount {
      flying.append(index)
      if flying.count == window { order.append(flying.remove(at: Int.random(in: 0..<window, using: &random))) }
    }
    order += flying.shuffled(using: &random)
    // One chunk may be overtaken by any number of others, so the bound is per gap; 12 gaps at most.
    #expect(mostNodes(order) <= Self.logarithm + 2 * Self.logarithm * window)
    #expect(mostNodes(blocks(of: window, &random)) <= Self.logarithm + window)
  }

  @Test func inRandomOrder_neverHoldsMoreNodesThanLeavesNorMoreThanTheGapsExplain() {
    var random = SplitMix(seed: 99)
    let count = 2000
    var isThere = [Bool](repeating: false, count: count)
    var accumulator = MerkleAccumulator()
    for index in (0..<count).shuffled(using: &random) {
      accumulator.insert(chunkDigest(index), at: index)
      isThere[index] = true
      let runs = isThere.indices.count { isThere[$0] && ($0 == 0 || !isThere[$0 - 1]) }
      #expect(accumulator.nodeCount <= min(accumulator.leafCount, runs * 2 * 11))
    }
    #expect(accumulator.nodeCount == count.nonzeroBitCount)
  }

  /// Blocks of leaves, one after the other, each in any order.
  private func blocks(of size: Int, _ random: inout SplitMix) -> [Int] {
    stride(from: 0, to: Self.leafCount, by: size).flatMap { start in
      (start..<min(start + size, Self.leafCount)).shuffled(using: &random)
    }
  }

  private func mostNodes(_ order: [Int], _ isRight: (MerkleAccumulator) -> Bool = { _ in true }) -> Int {
    var accumulator = MerkleAccumulator()
    var most = 0
    var wrong = 0
    for index in order {
      accumulator.insert(chunkDigest(index), at: index)
      most = max(most, accumulator.nodeCount)
      if !isRight(accumulator) { wrong += 1 }
    }
    #expect(wrong == 0)
    #expect(accumulator.root(leafCount: order.count) != nil)
    return most
  }

  // MARK: - Changing leaves

  @Test func aLeafThatIsThere_isNotReplacedUnasked() {
    var accumulator = accumulated([0, 1, 2])
    let before = accumulator
    let isInserted = accumulator.insert(chunkDigest(77), at: 1)
    #expect(!isInserted)
    #expect(accumulator == before)
  }

  @Test func aPlaceThatDoesNotExist_takesNoLeaf() {
    var accumulator = MerkleAccumulator()
    for index in [-1, Int.min, Int.max, MerkleAccumulator.leafCountMax] {
      let isInserted = accumulator.insert(chunkDigest(0), at: index)
      #expect(!isInserted)
      accumulator.remove(index) { _ in nil }
      #expect(!accumulator.contains(index))
    }
    #expect(accumulator == MerkleAccumulator())
    let isInserted = accumulator.insert(chunkDigest(0), at: MerkleAccumulator.leafCountMax - 1)
    #expect(isInserted)
  }

  @Test func aReplacedLeaf_givesTheRootOfTheNewLeaves() {
    let count = 77
    for replaced in 0..<count {
      var accumulator = accumulated(Array(0..<count))
      accumulator.remove(replaced) { chunkDigest($0) }
      #expect(accumulator.leafCount == count - 1)
      #expect(!accumulator.contains(replaced))
      #expect(accumulator.root(leafCount: count) == nil)
      accumulator.insert(chunkDigest(1000), at: replaced)
      var tree = MerkleTree()
      for index in 0..<count { tree.append(chunkDigest(index == replaced ? 1000 : index)) }
      #expect(accumulator.root(leafCount: count) == tree.root, "leaf \(replaced)")
    }
  }

  @Test func removing_asksOnlyForTheLeavesBelowTheSameNode() {
    var accumulator = accumulated(Array(0..<12))
    var asked: [Int] = []
    accumulator.remove(9) {
      asked.append($0)
      return chunkDigest($0)
    }
    #expect(asked == [8, 10, 11])
    accumulator.remove(9) { _ in
      Issue.record("a leaf that is not there has no neighbours to ask for")
      return nil
    }
  }

  @Test func leavesThatCannotBeRebuilt_areMissing() {
    var accumulator = accumulated(Array(0..<8))
    accumulator.remove(3) { $0 < 4 ? nil : chunkDigest($0) }
    #expect((0..<8).filter(accumulator.contains) == [4, 5, 6, 7])
    #expect(accumulator.leafCount == 4)
  }

  @Test func randomInsertionsAndRemovals_endAtTheSameState() {
    var random = SplitMix(seed: 4)
    var accumulator = MerkleAccumulator()
    var digests: [Int: Digest32] = [:]
    for step in 0..<4000 {
      let index = Int.random(in: 0..<64, using: &random)
      if digests[index] == nil {
        digests[index] = chunkDigest(step)
        accumulator.insert(chunkDigest(step), at: index)
      } else {
        digests[index] = nil
        accumulator.remove(index) { digests[$0] }
      }
      var expected = MerkleAccumulator()
      for (index, digest) in digests { expected.insert(digest, at: index) }
      #expect(accumulator == expected, "step \(step)")
    }
  }

  // MARK: - As stored

  @Test func nodes_restoreTheAccumulator() throws {
    let accumulator = accumulated([0, 1, 2, 3, 7, 8, 9, 20])
    let restored = try #require(MerkleAccumulator(nodes: accumulator.nodesInOrder))
    #expect(restored == accumulator)
    #expect(MerkleAccumulator(nodes: []) == MerkleAccumulator())
  }

  @Test func nodesThatDoNotFitTogether_restoreNothing() {
    typealias Node = MerkleAccumulator.Node
    let hash = chunkDigest(0)
    let bad: [[Node]] = [
      [Node(level: -1, position: 0, hash: hash)],
      [Node(level: 33, position: 0, hash: hash)],
      [Node(level: Int.max, position: 0, hash: hash)],
      [Node(level: 0, position: -1, hash: hash)],
      [Node(level: 0, position: Int.max, hash: hash)],
      [Node(level: 2, position: 1 << 30, hash: hash)],
      [Node(level: 0, position: 0, hash: hash), Node(level: 0, position: 0, hash: hash)],
      [Node(level: 0, position: 0, hash: hash), Node(level: 0, position: 1, hash: hash)],
      [Node(level: 3, position: 0, hash: hash), Node(level: 0, position: 5, hash: hash)],
      [Node(level: 0, position: 5, hash: hash), Node(level: 3, position: 0, hash: hash)],
    ]
    for nodes in bad { #expect(MerkleAccumulator(nodes: nodes) == nil, "\(nodes)") }
    #expect(MerkleAccumulator(nodes: [Node(level: 32, position: 0, hash: hash)])?.leafCount == 1 << 32)
  }

  // MARK: -

  private func accumulated(_ order: [Int]) -> MerkleAccumulator {
    var accumulator = MerkleAccumulator()
    for index in order {
      let isInserted = accumulator.insert(chunkDigest(index), at: index)
      #expect(isInserted)
    }
    return accumulator
  }

  private func leafHash(_ hex: String) throws -> Digest32 {
    let data = try #require(Hex.decode(hex))
    return sha256([0x00] + data)
  }

  private func permutations(_ items: [Int]) -> [[Int]] {
    if items.isEmpty { return [[]] }
    return items.indices.flatMap { position -> [[Int]] in
      var rest = items
      let first = rest.remove(at: position)
      return permutations(rest).map { [first] + $0 }
    }
  }
}

@Suite struct CommitmentFrontierTests {
  @Test func tip_isOverTheChunksWithoutAGap() {
    var frontier = CommitmentFrontier(sessionID: "s")
    var chain = CommitmentChain(sessionID: "s")
    #expect(frontier.tip == chain.tip)
    for index in [2, 1] { frontier.insert(chunkDigest(index), at: index) }
    #expect(frontier.tip == chain.tip)
    #expect(frontier.waitingCount == 2)
    frontier.insert(chunkDigest(0), at: 0)
    for index in 0..<3 { chain.extend(with: chunkDigest(index)) }
    #expect(frontier.tip == chain.tip)
    #expect(frontier.contiguousCount == 3)
    #expect(frontier.waitingCount == 0)
  }

  @Test func anyOrder_endsAtTheSameTip() {
    var random = SplitMix(seed: 3)
    var chain = CommitmentChain(sessionID: "s")
    for index in 0..<100 { chain.extend(with: chunkDigest(index)) }
    for _ in 0..<20 {
      var frontier = CommitmentFrontier(sessionID: "s")
      for index in (0..<100).shuffled(using: &random) { frontier.insert(chunkDigest(index), at: index) }
      #expect(frontier.tip == chain.tip)
    }
  }

  @Test func aChunkThatIsThere_isNotReplacedUnasked() {
    var frontier = CommitmentFrontier(sessionID: "s")
    for index in [0, 2] { frontier.insert(chunkDigest(index), at: index) }
    let before = frontier
    for index in [0, 2, -1, Int.min] {
      let isInserted = frontier.insert(chunkDigest(9), at: index)
      #expect(!isInserted, "\(index)")
    }
    #expect(frontier == before)
  }

  @Test func aReplacedChunk_givesTheTipOfTheNewChunks() {
    for replaced in 0..<20 {
      var frontier = CommitmentFrontier(sessionID: "s")
      // 15 is missing, so some are before the gap and some beyond.
      for index in 0..<20 where index != 15 { frontier.insert(chunkDigest(index), at: index) }
      frontier.remove(replaced) { chunkDigest($0) }
      #expect(frontier.contiguousCount == min(replaced, 15))
      frontier.insert(chunkDigest(99), at: replaced)
      frontier.insert(chunkDigest(15), at: 15)
      var chain = CommitmentChain(sessionID: "s")
      for index in 0..<20 { chain.extend(with: chunkDigest(index == replaced ? 99 : index)) }
      #expect(frontier.tip == chain.tip, "chunk \(replaced)")
      #expect(frontier.contiguousCount == 20)
    }
  }

  @Test func aChainLeftAtATip_goesOnFromThere() {
    var whole = CommitmentChain(sessionID: "s")
    whole.extend(with: chunkDigest(0))
    var rest = CommitmentChain(tip: whole.tip)
    whole.extend(with: chunkDigest(1))
    rest.extend(with: chunkDigest(1))
    #expect(rest == whole)
  }
}

@Suite struct Digest32Tests {
  @Test func bytes_areThoseThatItWasMadeOf() throws {
    let bytes = Array(0..<32) as [UInt8]
    let digest = try #require(Digest32(bytes))
    #expect(digest.bytes == bytes)
    #expect(digest == Digest32(Array([0xff] + bytes).dropFirst()))
    #expect(digest.description == Hex.encode(bytes))
    for position in bytes.indices {
      var other = bytes
      other[position] ^= 1
      #expect(Digest32(other) != digest)
    }
  }

  @Test func anotherCount_isNoDigest() {
    for count in [0, 31, 33] {
      let bytes = [UInt8](repeating: 0, count: count)
      #expect(Digest32(bytes) == nil)
      #expect(Digest32(hex: Hex.encode(bytes)) == nil)
    }
  }

  @Test func hexadecimalDigits_areReadInEitherCase() throws {
    let digest = sha256([1])
    #expect(Digest32(hex: digest.description) == digest)
    #expect(Digest32(hex: digest.description.uppercased()) == digest)
    for text in [String(repeating: "g", count: 64), "0x" + digest.description.dropFirst(2), digest.description + " "] {
      #expect(Digest32(hex: text) == nil, "\(text)")
    }
  }
}

/// The digest of a chunk that does not have to be made.
private func chunkDigest(_ number: Int) -> Digest32 {
  var hasher = SHA256Hasher()
  withUnsafeBytes(of: number.littleEndian) { hasher.update($0) }
  return hasher.finalize()
}

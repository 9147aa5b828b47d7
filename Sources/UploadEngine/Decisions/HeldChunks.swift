import Integrity
import Lookup
import TransferModel

/// What the server is known to hold of one session, and what of it has changed since a resume record was written.
///
/// A class for the same reason, and sound for the same reason, as ``ChunkTransfer``.
final class HeldChunks: @unchecked Sendable {
  /// Merkle tree and commitment chain over the acknowledged chunks.
  private struct Commitment {
    let sessionID: String
    var merkle = MerkleAccumulator()
    var frontier: CommitmentFrontier

    init(sessionID: String, over acknowledged: LookupTable<Int, ChunkDigest>) {
      self.sessionID = sessionID
      frontier = CommitmentFrontier(sessionID: sessionID)
      for (index, digest) in acknowledged.sorted() { insert(digest, at: index) }
    }

    mutating func insert(_ digest: ChunkDigest, at index: Int) {
      merkle.insert(digest.sha256, at: index)
      frontier.insert(digest.sha256, at: index)
    }
  }

  /// Changes that are remembered while no record can be written; beyond them the next record is a whole one.
  static let changesMax = 4096

  /// Digests by index of what the server acknowledged to us.
  private(set) var acknowledged: LookupTable<Int, ChunkDigest> = [:]
  /// SHA-256 by index of what the server reported when asked; CRC32C is not part of that answer.
  private var reported: LookupTable<Int, Digest32> = [:]
  /// What the server had acknowledged and, by its latest answer, lacks or holds with other bytes. Where the file has
  /// given it up only these bytes may replace it.
  private var lost: LookupTable<Int, ChunkDigest> = [:]
  /// The server's names for its chunks, where it assigns any.
  private var tokens: LookupTable<Int, String> = [:]
  /// Nil until it is needed, and after a chunk was replaced or removed: neither can be undone in a tree or a chain.
  private var commitment: Commitment?
  /// Indices in the order in which they changed, from change number ``firstChange`` on.
  private var changes: [Int] = []
  private var firstChange: UInt64 = 0

  /// Nothing is known to be stored, or only what an earlier run knew, until the server is asked.
  init(acknowledged: [ResumeRecord.AcknowledgedChunk] = []) {
    for chunk in acknowledged {
      self.acknowledged[chunk.index] = chunk.digest
      tokens[chunk.index] = chunk.token
    }
  }

  var isEmpty: Bool { acknowledged.isEmpty && reported.isEmpty }

  /// True when the server is known to hold these bytes at this index.
  func holds(_ digest: ChunkDigest, at index: Int) -> Bool {
    if let known = acknowledged[index] { return known == digest }
    return reported[index] == digest.sha256
  }

  /// The server is known to hold a chunk at this index, with these bytes or others.
  func hasAny(at index: Int) -> Bool { acknowledged[index] != nil || reported[index] != nil }

  /// The digest that the server reported at an index. Its CRC32C is not known. Nil where it contradicts what the server
  /// had acknowledged.
  func reportedDigest(of index: Int) -> ChunkDigest? {
    guard lost[index] == nil else { return nil }
    return reported[index].map { ChunkDigest(sha256: $0, crc32c: 0) }
  }

  /// The SHA-256 of what the server is known to hold at an index.
  func sha256(of index: Int) -> Digest32? { acknowledged[index]?.sha256 ?? reportedDigest(of: index)?.sha256 }

  /// What is acknowledged, and what was acknowledged and is lost: a later run has to know that older bytes there are
  /// not the file's.
  var everAcknowledged: LookupTable<Int, ChunkDigest> {
    var known = acknowledged
    for (index, digest) in lost.sorted() { known[index] = digest }
    return known
  }

  /// The server's name for a chunk.
  func token(of index: Int) -> String? { tokens[index] }

  /// The server's names, each once.
  var distinctTokens: [String] { tokens.values { $0 }.sorted() }

  /// A chunk of a sequence is acknowledged, this one or a later one.
  func hasAcknowledged(from index: Int, in sequence: Range<Int>) -> Bool {
    // All chunks are one sequence: they were acknowledged in their order.
    if sequence.upperBound == .max { return acknowledged.count > index }
    return (index..<sequence.upperBound).contains { acknowledged[$0] != nil }
  }

  /// Without a token, the known one stays.
  func acknowledge(_ digest: ChunkDigest, at index: Int, token: String? = nil) {
    let known = acknowledged.updateValue(digest, forKey: index)
    lost[index] = nil
    let isRenamed = token != nil && token != tokens[index]
    if let token { tokens[index] = token }
    guard known != digest else {
      if isRenamed { noteChange(of: index) }
      return
    }
    if known == nil { commitment?.insert(digest, at: index) } else { commitment = nil }
    noteChange(of: index)
  }

  /// The server's report replaces the earlier knowledge. What it names by the token that it assigned is what it took.
  /// What it had lost and has again, because the right copy was restored, counts again.
  func replace(with digests: LookupTable<Int, Digest32>, tokens: LookupTable<Int, String> = [:]) {
    let known = everAcknowledged
    acknowledged = known.filter { index, digest in
      if let sha256 = digests[index] { return sha256 == digest.sha256 }
      // The token of a lost chunk names other bytes.
      guard lost[index] == nil else { return false }
      return tokens[index].map { $0 == self.tokens[index] } ?? false
    }
    lost = known.filter { index, _ in acknowledged[index] == nil }
    reported = digests
    self.tokens = tokens
    commitment = nil
    forgetChanges()
  }

  /// The server holds these bytes, of a content that has changed since.
  func report(_ digest: ChunkDigest, at index: Int) {
    isOutdated(index)
    reported[index] = digest.sha256
  }

  /// The server still holds what it acknowledged, or has lost it, and the file has, or may have, other bytes there.
  /// True when the chunk was acknowledged.
  @discardableResult
  func isOutdated(_ index: Int) -> Bool {
    let wasLost = lost.removeValue(forKey: index) != nil
    guard let digest = acknowledged.removeValue(forKey: index) else {
      if wasLost { noteChange(of: index) }
      return wasLost
    }
    reported[index] = digest.sha256
    commitment = nil
    noteChange(of: index)
    return true
  }

  /// The server has reported the chunk missing.
  func lose(_ index: Int) {
    let digest = acknowledged[index]
    remove(index)
    guard let digest else { return }
    lost[index] = digest
    // A record of changes would omit it.
    forgetChanges()
  }

  func remove(_ index: Int) {
    reported[index] = nil
    tokens[index] = nil
    lost[index] = nil
    guard acknowledged.removeValue(forKey: index) != nil else { return }
    commitment = nil
    noteChange(of: index)
  }

  // MARK: - For resume records

  /// The number of changes so far.
  var changeCount: UInt64 { firstChange + UInt64(changes.count) }

  /// Chunks that have changed since this change number, each chunk once; nil when that is no longer known. Earlier
  /// changes are forgotten.
  func changes(since count: UInt64) -> [ResumeSnapshot.Change]? {
    guard count >= firstChange, count <= changeCount else { return nil }
    changes.removeFirst(Int(count - firstChange))
    firstChange = count
    return LookupSet(changes).sorted().map {
      ResumeSnapshot.Change(index: $0, digest: acknowledged[$0], token: tokens[$0])
    }
  }

  /// Merkle tree, tip and number of chunks without a gap, over what is acknowledged.
  func commitment(sessionID: String) -> (merkle: MerkleAccumulator, chainTip: Digest32, contiguousCount: Int) {
    let present =
      commitment.flatMap { $0.sessionID == sessionID ? $0 : nil }
      ?? Commitment(sessionID: sessionID, over: acknowledged)
    commitment = present
    return (present.merkle, present.frontier.tip, present.frontier.contiguousCount)
  }

  private func noteChange(of index: Int) {
    changes.append(index)
    if changes.count > Self.changesMax { forgetChanges() }
  }

  private func forgetChanges() {
    // One further, so that an earlier mark is no longer valid.
    firstChange = changeCount + 1
    changes = []
  }
}

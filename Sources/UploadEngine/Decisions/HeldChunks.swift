import Integrity
import Lookup

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
      guard let sha256 = Digest32(digest.sha256) else { return }
      merkle.insert(sha256, at: index)
      frontier.insert(sha256, at: index)
    }
  }

  /// Changes that are remembered while no record can be written; beyond them the next record is a whole one.
  static let changesMax = 4096

  /// Digests by index of what the server acknowledged to us.
  private(set) var acknowledged: LookupTable<Int, ChunkDigest> = [:]
  /// SHA-256 by index of what the server said when it was asked; CRC32C is not part of that answer.
  private var reported: LookupTable<Int, [UInt8]> = [:]
  /// What the server had acknowledged and has no more, or has other bytes in its place, since it was asked. Where the file has given it up
  /// nothing but these bytes may stand for it.
  private var lost: LookupTable<Int, ChunkDigest> = [:]
  /// By what the server knows its chunks, where it gives them names.
  private var tokens: LookupTable<Int, String> = [:]
  /// Nil until it is asked for, and after a chunk was replaced or taken out: neither can be undone in a tree or a chain.
  private var commitment: Commitment?
  /// Indices in the order in which they changed, from change number ``firstChange`` on.
  private var changes: [Int] = []
  private var firstChange: UInt64 = 0

  /// Nothing is known to be held; or what an earlier run knew, until the server is asked.
  init(acknowledged: [ResumeRecord.AcknowledgedChunk] = []) {
    for chunk in acknowledged {
      self.acknowledged[chunk.index] = chunk.digest
      tokens[chunk.index] = chunk.token
    }
  }

  var isEmpty: Bool { acknowledged.isEmpty && reported.isEmpty }

  /// True when the server is known to hold these bytes at this place.
  func holds(_ digest: ChunkDigest, at index: Int) -> Bool {
    if let known = acknowledged[index] { return known == digest }
    return reported[index] == digest.sha256
  }

  /// The server is known to hold something at this place: these bytes or others.
  func hasAny(at index: Int) -> Bool { acknowledged[index] != nil || reported[index] != nil }

  /// What the server said when it was asked that it holds at a place. Its CRC32C is not known.
  /// Nil where it contradicts what it had acknowledged.
  func reportedDigest(of index: Int) -> ChunkDigest? {
    guard lost[index] == nil else { return nil }
    return reported[index].map { ChunkDigest(sha256: $0, crc32c: 0) }
  }

  /// What the server is known to hold at a place.
  func sha256(of index: Int) -> [UInt8]? { acknowledged[index]?.sha256 ?? reportedDigest(of: index)?.sha256 }

  /// What is acknowledged, and what was and is lost: a later run is to know that older bytes in its place are not the file's.
  var everAcknowledged: LookupTable<Int, ChunkDigest> {
    var known = acknowledged
    for (index, digest) in lost.sorted() { known[index] = digest }
    return known
  }

  /// The name by which the server knows a chunk.
  func token(of index: Int) -> String? { tokens[index] }

  /// Each name once.
  var distinctTokens: [String] { tokens.values { $0 }.sorted() }

  /// A chunk of a sequence is acknowledged, this one or one behind it.
  func hasAcknowledged(from index: Int, in sequence: Range<Int>) -> Bool {
    // All chunks are one sequence: they were acknowledged in their order.
    if sequence.upperBound == .max { return acknowledged.count > index }
    return (index..<sequence.upperBound).contains { acknowledged[$0] != nil }
  }

  /// Without a token, the one that is known stays.
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

  /// The server's own word replaces whatever was believed. What it names by the token that it gave for it is what it took. What it had
  /// lost and has again, because the right copy of it was restored, counts again.
  func replace(with digests: LookupTable<Int, [UInt8]>, tokens: LookupTable<Int, String> = [:]) {
    let known = everAcknowledged
    acknowledged = known.filter { index, digest in
      if let sha256 = digests[index] { return sha256 == digest.sha256 }
      // The token of what is lost is that of other bytes.
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

  /// The server still holds what it acknowledged, or has lost it, and the file has, or may have, other bytes there. True when it was
  /// acknowledged.
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

  /// The server has said that it lacks it.
  func lose(_ index: Int) {
    let digest = acknowledged[index]
    remove(index)
    guard let digest else { return }
    lost[index] = digest
    // A record of changes would leave it out.
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

  /// What has changed since there were so many changes, each chunk once; nil when that is no longer known. Earlier changes
  /// are forgotten.
  func changes(since count: UInt64) -> [ResumeSnapshot.Change]? {
    guard count >= firstChange, count <= changeCount else { return nil }
    changes.removeFirst(Int(count - firstChange))
    firstChange = count
    return LookupSet(changes).sorted().map {
      ResumeSnapshot.Change(index: $0, digest: acknowledged[$0], token: tokens[$0])
    }
  }

  /// Merkle tree, tip and number of chunks without a gap, over what is acknowledged.
  func commitment(sessionID: String) -> (merkle: MerkleAccumulator, chainTip: [UInt8], contiguousCount: Int) {
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
    // One further, so that a mark of before is no mark any more.
    firstChange = changeCount + 1
    changes = []
  }
}

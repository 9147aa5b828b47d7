/// The commitment chain over chunks that are acknowledged in any order (docs/protocol.md, P91): its tip is over the
/// chunks from the first one on without a gap, and the digests beyond the first gap wait until it closes.
///
/// Waiting are never more than the chunks between the first that is missing and the last that is there.
public struct CommitmentFrontier: Sendable, Hashable {
  private let sessionID: String
  private var chain: CommitmentChain
  private var waiting: [Int: Digest32] = [:]

  /// Chunks from the first on without a gap.
  public private(set) var contiguousCount = 0

  /// Tip of the chain over the first ``contiguousCount`` chunks.
  public var tip: Digest32 { chain.tip }

  /// Digests beyond the first gap.
  public var waitingCount: Int { waiting.count }

  /// The chain of a session without chunks.
  public init(sessionID: String) {
    self.sessionID = sessionID
    chain = CommitmentChain(sessionID: sessionID)
  }

  /// Adds a chunk. False when there is one at this place already, or no such place: then nothing changes, and a chunk with
  /// another digest has to be removed first.
  @discardableResult
  public mutating func insert(_ chunkSHA256: Digest32, at index: Int) -> Bool {
    guard index >= contiguousCount, waiting[index] == nil else { return false }
    waiting[index] = chunkSHA256
    while let next = waiting.removeValue(forKey: contiguousCount) {
      chain.extend(with: next)
      contiguousCount += 1
    }
    return true
  }

  /// Takes a chunk out. A chain cannot be taken apart: for a chunk before the first gap it is built again from the first
  /// chunk on, with what `digest` answers for the others; where it answers nil, that chunk is missing from then on.
  public mutating func remove(_ index: Int, rebuildingFrom digest: (Int) -> Digest32?) {
    guard index >= 0, index < contiguousCount else {
      waiting[index] = nil
      return
    }
    let count = contiguousCount
    chain = CommitmentChain(sessionID: sessionID)
    contiguousCount = 0
    for other in 0..<count where other != index {
      if let digest = digest(other) { insert(digest, at: other) }
    }
  }
}

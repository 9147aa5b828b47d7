import Integrity
import Lookup
import TransferModel

/// Which chunks of a transfer the server has on its disk, and which of them were already given up in the spool.
struct ReleasableChunks: Sendable {
  /// Acknowledged chunks that are safe at the server and may be given back.
  private(set) var secured: LookupSet<Int> = []
  /// Chunks that were offered, or found released.
  private(set) var released: LookupSet<Int> = []
  /// A resume record of this change or a later one has all of ``secured``.
  private(set) var securedAt: UInt64 = 0

  var count: Int { secured.count + released.count }

  mutating func secure(_ index: Int) { if !released.contains(index) { secured.insert(index) } }

  mutating func secured(at change: UInt64) { securedAt = change }

  /// The lowest indices first: the latest recorded parts are most likely to be read.
  mutating func take(countMax: Int, of indices: Range<Int>) -> [Int] {
    let taken = secured.filter { indices.contains($0) }.sorted().prefix(countMax)
    secured.subtract(taken)
    released.formUnion(taken)
    return Array(taken)
  }

  mutating func noteReleased(_ index: Int) {
    secured.remove(index)
    released.insert(index)
  }

  /// The chunk's bytes are no longer what was sent.
  mutating func forget(_ index: Int) {
    secured.remove(index)
    released.remove(index)
  }
}

extension ChunkTransfer {
  /// Acknowledged chunks that the server may have in memory only.
  var hasUnsecured: Bool { doneCount > releasable.count }

  /// The server has these on its disk; a resume record of this change or a later one has them.
  func secure(_ digests: LookupTable<Int, Digest32>, knownAt change: UInt64) {
    for (index, digest) in digests.sorted() where states.indices.contains(index) {
      if case .done(let known) = states[index], known.sha256 == digest { releasable.secure(index) }
    }
    releasable.secured(at: change)
  }

  /// Takes chunks that may be given back. The last one stays: it changes its length when the file grows. While the file `isGrowing`, so do
  /// the first one and the one before the last: its writer may come back to them, and what is given back cannot be written.
  func takeSecured(bytesMax: UInt64, isGrowing: Bool) -> [Int] {
    let count = max(1, Int(clamping: bytesMax / UInt64(plan.chunkBytes)))
    let (first, kept) = isGrowing ? (FileGrowth.headChunks, 2) : (0, 1)
    return releasable.take(countMax: count, of: first..<max(first, states.count - kept))
  }

  func noteReleased(_ index: Int) { releasable.noteReleased(index) }
}

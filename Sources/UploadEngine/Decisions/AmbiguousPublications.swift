import FileModel
import Lookup
import TransferModel

/// Publications that may still take effect under a name although no request for them is in flight: one that ended
/// without an answer, and those that an earlier run had sent.
struct AmbiguousPublications: Sendable {
  /// One content of one file, until its time is over.
  private struct Candidate: Hashable, Sendable {
    var file: FileID
    var epoch: UInt64
    var until: MonotonicTime
  }

  private var candidates: LookupTable<RelativePath, [Candidate]> = [:]
  /// From this time on nothing that earlier runs have sent is in flight; nil before the first of their files was found.
  private(set) var earlierRunUntil: MonotonicTime?

  /// A content may still be published under the name.
  func mayCome(under path: RelativePath) -> Bool { candidates[path] != nil }

  /// Nothing but this content of the file may still be published under the name.
  func mayComeAlone(under path: RelativePath, _ file: FileID, epoch: UInt64) -> Bool {
    candidates[path]?.allSatisfy { $0.file == file && $0.epoch == epoch } ?? true
  }

  /// This content may be published under the name until then. It counts once.
  mutating func expect(_ file: FileID, epoch: UInt64, under path: RelativePath, until time: MonotonicTime) {
    var others = candidates[path] ?? []
    others.removeAll { $0.file == file && $0.epoch == epoch }
    candidates[path] = others + [Candidate(file: file, epoch: epoch, until: time)]
  }

  /// What was not published by now will not be.
  mutating func end(at now: MonotonicTime) {
    candidates = candidates.mapValues { $0.filter { $0.until > now } }.filter { !$1.isEmpty }
  }

  /// A file of an earlier run was found. With the first one the time begins in which a publication of that run may take
  /// effect.
  mutating func noteEarlierRun(patience: Duration, at now: MonotonicTime) -> MonotonicTime {
    let until = earlierRunUntil ?? now + patience
    earlierRunUntil = until
    return until
  }

  func isEarlierRunInDoubt(at now: MonotonicTime) -> Bool { earlierRunUntil.map { $0 > now } ?? false }
}

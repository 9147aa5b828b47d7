import FileModel
import Lookup

/// What may still come to be published under a name, although no request for it is in flight: one that has ended without an answer, and what
/// an earlier run had sent.
struct AmbiguousPublications: Sendable {
  /// One content of one file, until then.
  private struct Candidate: Hashable, Sendable {
    var file: FileID
    var epoch: UInt64
    var until: MonotonicTime
  }

  private var candidates: LookupTable<RelativePath, [Candidate]> = [:]
  /// By then nothing of what earlier runs have sent is in flight any more; nil before the first of their files was found.
  private(set) var earlierRunUntil: MonotonicTime?

  /// Something may come under the name.
  func mayCome(under path: RelativePath) -> Bool { candidates[path] != nil }

  /// Nothing but this content of the file may come under the name.
  func mayComeAlone(under path: RelativePath, _ file: FileID, epoch: UInt64) -> Bool {
    candidates[path]?.allSatisfy { $0.file == file && $0.epoch == epoch } ?? true
  }

  /// This content may come under the name until then, and counts once.
  mutating func expect(_ file: FileID, epoch: UInt64, under path: RelativePath, until time: MonotonicTime) {
    var others = candidates[path] ?? []
    others.removeAll { $0.file == file && $0.epoch == epoch }
    candidates[path] = others + [Candidate(file: file, epoch: epoch, until: time)]
  }

  /// What has not come by now will not come.
  mutating func end(at now: MonotonicTime) {
    candidates = candidates.mapValues { $0.filter { $0.until > now } }.filter { !$1.isEmpty }
  }

  /// A file of an earlier run was found: with the first one the time begins in which something may come of that run.
  mutating func noteEarlierRun(patience: Duration, at now: MonotonicTime) -> MonotonicTime {
    let until = earlierRunUntil ?? now + patience
    earlierRunUntil = until
    return until
  }

  func isEarlierRunInDoubt(at now: MonotonicTime) -> Bool { earlierRunUntil.map { $0 > now } ?? false }
}

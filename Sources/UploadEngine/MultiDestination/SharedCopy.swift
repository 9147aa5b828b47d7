package import FileModel
import Lookup

/// An uploader to one destination, as far as the local copies of its files are concerned.
package protocol CopyHolder {
  /// Delivered files whose local copy may go, oldest first, at most so many.
  func evictionCandidates(countMax: Int) -> [EvictionCandidate]
  /// Whether the local copy of a file may go as far as this destination is concerned.
  func mayLose(_ candidate: EvictionCandidate) -> Bool
}

/// What concerns the one copy of a file that goes to several destinations.
package enum SharedCopy {
  /// Files that the first destination which could spare them has, and that every other one can spare as well; at most so many.
  package static func candidates(_ holders: [some CopyHolder], countMax: Int) -> [EvictionCandidate] {
    var known: LookupSet<FileID> = []
    let all = holders.indices.flatMap { mine in
      sparedByOthers(holders, mine, countMax: countMax).filter { known.insert($0.id).inserted }
    }
    return Array(all.prefix(countMax))
  }

  /// What one has, and another one lacks, keeps nothing behind it from going.
  private static func sparedByOthers(
    _ holders: [some CopyHolder], _ mine: Int, countMax: Int
  ) -> [EvictionCandidate] {
    var askedMax = countMax
    while true {
      let candidates = holders[mine].evictionCandidates(countMax: askedMax)
      let spared = candidates.filter { candidate in
        holders.indices.allSatisfy { $0 == mine || holders[$0].mayLose(candidate) }
      }
      if spared.count >= countMax || candidates.count < askedMax { return spared }
      askedMax *= 4
    }
  }
}

package import FileModel
import Lookup

/// An uploader to one destination, as far as the local copies of its files are concerned.
package protocol CopyHolder {
  /// Delivered files whose local copy may go, oldest first.
  func evictionCandidates() -> [EvictionCandidate]
  /// Whether the local copy of a file may go as far as this destination is concerned.
  func mayLose(_ candidate: EvictionCandidate) -> Bool
}

/// What concerns the one copy of a file that goes to several destinations.
package enum SharedCopy {
  /// Files that the first destination which could spare them has, and that every other one can spare as well.
  package static func candidates(_ holders: [some CopyHolder]) -> [EvictionCandidate] {
    var known: LookupSet<FileID> = []
    return holders.indices.flatMap { mine in
      holders[mine].evictionCandidates().filter { candidate in
        holders.indices.allSatisfy { $0 == mine || holders[$0].mayLose(candidate) }
          && known.insert(candidate.id).inserted
      }
    }
  }
}

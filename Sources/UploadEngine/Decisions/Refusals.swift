import FileModel
import Lookup

/// What the destination has refused for now, and what was tried with it in vain: one refusal may be for what a file is, several in a row
/// are none of a file's.
struct Refusals: Sendable {
  /// Until then no session is opened, and after that one, to see.
  struct OpeningRest: Hashable, Sendable {
    var until: MonotonicTime
    /// The pause that led to it.
    var delay: Duration
    /// What is being written has its turn again.
    var isOver = false
  }

  /// Refused for now, and nothing of the kind was taken since.
  private var refused: LookupSet<FileID> = []
  /// What would have to be taken.
  private var refusedProof = DestinationGate.Proof.answers
  /// Files of which a request was the probe and did not succeed, since the gate closed.
  private var probedInVain: LookupSet<FileID> = []
  /// Files to which no session was given, in a row.
  private var openings: LookupSet<FileID> = []
  private(set) var openingRest: OpeningRest?

  /// So many in a row are a matter of the destination.
  private static let inARowMax = 3

  /// A request for these files, none for one that was for the destination itself, was refused. True where that concerns the destination.
  mutating func refuse(_ files: [FileID], wouldHaveProved proof: DestinationGate.Proof) -> Bool {
    for id in files { refused.insert(id) }
    refusedProof = max(refusedProof, proof)
    return files.isEmpty || refused.count >= Self.inARowMax
  }

  /// No session was given to a file. True where openings are to rest.
  mutating func refuseOpening(of id: FileID) -> Bool {
    openings.insert(id)
    return openings.count >= Self.inARowMax || openingRest != nil
  }

  /// None is opened for so long.
  mutating func restOpenings(for delay: Duration, at now: MonotonicTime) {
    openingRest = OpeningRest(until: now + delay, delay: delay)
  }

  /// What is being written has its turn again.
  mutating func endOpeningRest() { openingRest?.isOver = true }

  /// A request was answered that proves so much.
  mutating func proved(_ proof: DestinationGate.Proof) {
    if proof == .begins {
      openings = []
      openingRest = nil
    }
    if proof >= refusedProof {
      refused = []
      refusedProof = .answers
    }
  }

  /// A request for these files was the probe, and did not succeed.
  mutating func probedInVain(_ files: [FileID]) {
    for id in files { probedInVain.insert(id) }
  }

  /// The destination is to be had again.
  mutating func forgetProbes() { probedInVain = [] }

  func wasProbedInVain(_ id: FileID) -> Bool { probedInVain.contains(id) }

  /// Nothing is known here of the file.
  func knowsNothing(of id: FileID) -> Bool { !refused.contains(id) && !probedInVain.contains(id) }
}

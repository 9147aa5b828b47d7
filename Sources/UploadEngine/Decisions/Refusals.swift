import FileModel
import Lookup
import TransferModel

/// What the destination has refused for now, and which probes failed. One refusal may concern a single file; several in
/// a row concern the destination.
struct Refusals: Sendable {
  /// Until this time no session is opened, and after it one, as a trial.
  struct OpeningRest: Hashable, Sendable {
    var until: MonotonicTime
    /// The pause that led to it.
    var delay: Duration
    /// Files that are being written have their turn again.
    var isOver = false
  }

  /// Files refused for now, since the last success that proves as much.
  private var refused: LookupSet<FileID> = []
  /// What a success has to prove to end the refusals.
  private var refusedProof = DestinationGate.Proof.answers
  /// Files whose request was a probe and failed, since the gate closed.
  private var probedInVain: LookupSet<FileID> = []
  /// Files that got no session, in a row.
  private var openings: LookupSet<FileID> = []
  private(set) var openingRest: OpeningRest?

  /// So many refusals in a row concern the destination.
  private static let inARowMax = 3

  /// A request for these files, or for the destination itself when there are none, was refused. True where that
  /// concerns the destination.
  mutating func refuse(_ files: [FileID], wouldHaveProved proof: DestinationGate.Proof) -> Bool {
    for id in files { refused.insert(id) }
    refusedProof = max(refusedProof, proof)
    return files.isEmpty || refused.count >= Self.inARowMax
  }

  /// A file got no session. True where openings are to rest.
  mutating func refuseOpening(of id: FileID) -> Bool {
    openings.insert(id)
    return openings.count >= Self.inARowMax || openingRest != nil
  }

  /// No session is opened for so long.
  mutating func restOpenings(for delay: Duration, at now: MonotonicTime) {
    openingRest = OpeningRest(until: now + delay, delay: delay)
  }

  /// Files that are being written have their turn again.
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

  /// A request for these files was the probe, and failed.
  mutating func probedInVain(_ files: [FileID]) {
    for id in files { probedInVain.insert(id) }
  }

  /// The destination is available again.
  mutating func forgetProbes() { probedInVain = [] }

  func wasProbedInVain(_ id: FileID) -> Bool { probedInVain.contains(id) }

  /// Neither a refusal nor a failed probe of the file is known.
  func knowsNothing(of id: FileID) -> Bool { !refused.contains(id) && !probedInVain.contains(id) }
}

/// Which phase may follow which. A file whose phase follows from an event that is impossible in its present one shows a mistake of the
/// schedule, or of what told it: ``FileTable`` finds these at each change.
extension FileUpload.Phase {
  /// A phase without what it carries.
  enum Kind: CaseIterable, Hashable, Sendable {
    case writing, held, ignored, routedElsewhere, interrupted, ready, waiting, finishing, complete, failed, cancelled,
      removed
  }

  var kind: Kind {
    switch self {
    case .writing: .writing
    case .held: .held
    case .ignored: .ignored
    case .routedElsewhere: .routedElsewhere
    case .interrupted: .interrupted
    case .ready: .ready
    case .waiting: .waiting
    case .finishing: .finishing
    case .complete: .complete
    case .failed: .failed
    case .cancelled: .cancelled
    case .removed: .removed
    }
  }

  /// This phase may follow at once.
  func mayBecome(_ next: Kind) -> Bool {
    switch self {
    // What was not delivered may be anything next: a change, a name, a word of a user and a failure may come at any time.
    case .writing, .interrupted, .ready, .waiting, .failed, .cancelled: true
    // It fails only once it is due.
    case .held: next != .failed
    // Nothing of it is sent, and words do not apply to it.
    case .ignored, .routedElsewhere: ![.failed, .cancelled, .complete].contains(next)
    // It is delivered: only a change takes that back, and no word and no temporary name does.
    case .finishing: ![.held, .waiting, .cancelled].contains(next)
    case .complete: ![.held, .waiting, .failed, .cancelled].contains(next)
    // A file that comes back under its identity is a new one.
    case .removed: next == .removed
    }
  }
}

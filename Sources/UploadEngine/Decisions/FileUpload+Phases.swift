/// Which phase may follow which. A phase that follows from an event that is impossible in the present one shows a
/// mistake of the schedule, or of its caller: ``FileTable`` finds these at each change.
extension FileUpload.Phase {
  /// A phase without its associated values.
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
    // An undelivered file may take any phase next: changes, renames, commands and failures may come at any time.
    case .writing, .interrupted, .ready, .waiting, .failed, .cancelled: true
    // A held file fails only once it is due.
    case .held: next != .failed
    // Nothing of the file is sent, and commands do not apply to it.
    case .ignored, .routedElsewhere: ![.failed, .cancelled, .complete].contains(next)
    // The file is delivered. Only a change reverts that, and no command and no temporary name does.
    case .finishing: ![.held, .waiting, .cancelled].contains(next)
    case .complete: ![.held, .waiting, .failed, .cancelled].contains(next)
    // A file that returns under its identity is a new one.
    case .removed: next == .removed
    }
  }
}

import FileModel

/// How one file counts at one destination, apart from whether that can be reached.
struct FileStanding: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    /// The file does not go there, or is unknown there.
    case none
    case writing, held, ignored, interrupted, ready, working, waiting, finishing, complete, failed, cancelled
  }

  var kind: Kind
  /// The drain and calls wait for the file.
  var isPending: Bool

  /// The value of an unknown file.
  static let none = FileStanding(kind: .none, isPending: false)

  /// The state in ``MountSummary/filesByState``; while the destination is away what is ready waits.
  func state(whilePaused isPaused: Bool) -> FileStatus.State? {
    switch kind {
    case .none: nil
    case .writing: .writing
    case .held: .held
    case .ignored: .ignored
    case .interrupted: .interrupted
    case .ready: isPaused ? .waiting : .queued
    case .working: isPaused ? .waiting : .uploading
    case .waiting: .waiting
    case .finishing: .uploading
    case .complete: .complete
    case .failed: .failed
    case .cancelled: .cancelled
    }
  }

  /// The file is not delivered without a user's action (``MountSummary/undeliveredCount``).
  var isUndelivered: Bool {
    switch kind {
    case .failed, .cancelled: true
    case .interrupted, .ready, .working, .waiting: !isPending
    case .none, .writing, .held, .ignored, .finishing, .complete: false
    }
  }
}

extension FileStanding {
  init(_ file: FileUpload) {
    isPending = file.isPending
    kind =
      switch file.phase {
      case .writing: .writing
      case .held: .held
      case .ignored: .ignored
      case .routedElsewhere: .none
      case .interrupted: .interrupted
      case .ready: file.turn.isSmallAtWork ? .working : .ready
      case .waiting: .waiting
      case .finishing: .finishing
      case .complete: .complete
      case .failed: .failed
      case .cancelled: .cancelled
      // A file that was removed before its delivery counts in no state.
      case .removed(let removal): removal == .delivered ? .complete : .none
      }
  }
}

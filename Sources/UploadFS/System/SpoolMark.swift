import FileModel

/// What a spool file says of its content to the next run: that somebody was writing it when the mount ended, how
/// long it was when its writers had finished, or why its content is not whole.
enum SpoolMark: Hashable, Sendable {
  case none
  case writing
  /// Finished with this size. The disk learns of the mark no later than of the content: if the power is cut in between, the
  /// file is shorter than that when it is found in another instance of the spool.
  case closed(sizeBytes: UInt64, in: SpoolInstance)
  case interrupted(Interruption)

  private static let closedPrefix = "closed "

  /// What follows for whoever finds it on a file of this size.
  func interruption(sizeBytes: UInt64, in instance: SpoolInstance) -> Interruption? {
    switch self {
    case .none: nil
    case .writing: .mountDied
    // Within one instance nothing can be lost: somebody made it shorter by hand.
    case .closed(let closedBytes, let known):
      sizeBytes < closedBytes && (known.name == nil || known != instance) ? .notOnDisk : nil
    case .interrupted(let interruption): interruption
    }
  }

  /// What a mark's text says; `writing` for what is not understood.
  init(_ text: String) {
    let parts = text.split(separator: " ")
    if text.hasPrefix(Self.closedPrefix), parts.count >= 2, let sizeBytes = UInt64(parts[1]) {
      self = .closed(sizeBytes: sizeBytes, in: SpoolInstance(name: parts.count == 3 ? String(parts[2]) : nil))
    } else {
      self = Interruption(text).map { .interrupted($0) } ?? .writing
    }
  }

  /// What a file's label or the record holds; nil for none.
  var text: String? {
    switch self {
    case .none: nil
    case .writing: "writing"
    case .closed(let sizeBytes, let instance):
      "\(Self.closedPrefix)\(sizeBytes)" + (instance.name.map { " \($0)" } ?? "")
    case .interrupted(let interruption): interruption.text
    }
  }

  /// The content is not known to be whole.
  var isDoubt: Bool {
    switch self {
    case .none, .closed: false
    case .writing, .interrupted: true
    }
  }
}

import FileModel

/// What a spool file says of its content to the next run: that somebody was writing it when the mount ended, how
/// long it was when its writers had finished, or why its content is not whole.
enum SpoolMark: Hashable, Sendable {
  case none
  case writing
  /// Finished with this size, and not known to be on the disk. Found in another instance of the spool it proves nothing: what a
  /// power cut took of the content may read as zeros, with the size that it had.
  case closed(sizeBytes: UInt64, in: SpoolInstance)
  case interrupted(Interruption)

  private static let closedPrefix = "closed "

  /// What follows for whoever finds it on a file of this size.
  func interruption(sizeBytes: UInt64, in instance: SpoolInstance) -> Interruption? {
    switch self {
    case .none: nil
    case .writing: .mountDied
    // Within one instance nothing can be lost: who finds it shorter finds what another program has done. Nor can anything be lost of
    // what is empty.
    case .closed(let closedBytes, let known):
      instance.isThat(of: known) || (closedBytes == 0 && sizeBytes == 0) ? nil : .notOnDisk
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

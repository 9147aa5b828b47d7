import FileModel

/// What a spool file says of its content to the next run: that it was being written when the mount ended, how
/// long it was when its writers had finished, or why its content is not whole.
enum WriterStateXattr: Hashable, Sendable {
  case none
  /// It was being written in this instance of the spool. Found in another one, bytes may be missing anywhere. No writer makes
  /// that good that goes on at its end.
  case writing(in: SpoolInstance)
  /// Finished with this size, and not known to be on the disk. Found in another instance of the spool it proves nothing: what a
  /// power cut took of the content may read as zeros, with the size that it had.
  case closed(sizeBytes: UInt64, in: SpoolInstance)
  case interrupted(Interruption)
  /// For another reason than that bytes are missing, and not known to be on the disk. Found in another instance, they may be.
  indirect case ended(Interruption, in: SpoolInstance)

  /// What is not understood, and what an earlier version has left.
  static let unfinished = WriterStateXattr.writing(in: SpoolInstance(name: nil))

  private static let closedPrefix = "closed "
  private static let writingText = "writing"

  /// What follows for the start that finds it on a file of this size.
  func interruption(sizeBytes: UInt64, in instance: SpoolInstance) -> Interruption? {
    switch self {
    case .none: nil
    case .writing(let known): known.name == nil || instance.isThat(of: known) ? .mountDied : .notOnDisk
    // Within one instance nothing can be lost: where it is shorter, another program has cut it. Nor can anything be lost of
    // what is empty.
    case .closed(let closedBytes, let known):
      instance.isThat(of: known) || (closedBytes == 0 && sizeBytes == 0) ? nil : .notOnDisk
    case .interrupted(let interruption): interruption
    case .ended(let interruption, let known): instance.isThat(of: known) ? interruption : .notOnDisk
    }
  }

  /// What a mark's text says; ``unfinished`` for what is not understood.
  init(_ text: String) {
    let parts = text.split(separator: " ")
    if text.hasPrefix(Self.closedPrefix), parts.count >= 2, let sizeBytes = UInt64(parts[1]) {
      self = .closed(sizeBytes: sizeBytes, in: SpoolInstance(name: parts.count == 3 ? String(parts[2]) : nil))
    } else if parts.count == 2, parts[0] == Self.writingText {
      self = .writing(in: SpoolInstance(name: String(parts[1])))
    } else if let interruption = Interruption(text) {
      // Behind the word and its number.
      let place = interruption.text.split(separator: " ").count
      self =
        interruption.isLack || parts.count <= place
        ? .interrupted(interruption) : .ended(interruption, in: SpoolInstance(name: String(parts[place])))
    } else {
      self = .unfinished
    }
  }

  /// What a file's label or the record holds; nil for none.
  var text: String? {
    switch self {
    case .none: nil
    case .writing(let instance): Self.writingText + (instance.name.map { " \($0)" } ?? "")
    case .closed(let sizeBytes, let instance):
      "\(Self.closedPrefix)\(sizeBytes)" + (instance.name.map { " \($0)" } ?? "")
    case .interrupted(let interruption): interruption.text
    // Without the instance it would prove the bytes.
    case .ended(let interruption, let instance):
      instance.name.map { "\(interruption.text) \($0)" } ?? Interruption.notOnDisk.text
    }
  }

  var isWriting: Bool { if case .writing = self { true } else { false } }

  /// The content is settled, and the disk is not known to have it.
  var isUnproven: Bool {
    switch self {
    case .closed, .ended: true
    case .none, .writing, .interrupted: false
    }
  }

  /// The disk is known to have the bytes that the mark speaks of: it proves them, or lets a writer that goes on at their end make
  /// them whole.
  var isProof: Bool {
    switch self {
    case .none: true
    case .interrupted(let interruption): !interruption.isLack
    case .writing, .closed, .ended: false
    }
  }

  /// The content is not known to be whole.
  var isDoubt: Bool {
    switch self {
    case .none, .closed: false
    case .writing, .interrupted, .ended: true
    }
  }
}

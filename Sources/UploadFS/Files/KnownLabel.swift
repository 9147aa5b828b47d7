import FileModel

/// What a file's label says beside its mark, and what is no longer in the spool. Pure.
struct KnownLabel: Sendable {
  /// A class: one word in the many files that have nothing of it.
  private final class Rest: Sendable {
    let pointer: SessionPointer?
    let others: [String]

    init?(pointer: SessionPointer?, others: [String]) {
      guard pointer != nil || !others.isEmpty else { return nil }
      self.pointer = pointer
      self.others = others
    }
  }

  /// What the file was found with, until it is read.
  private(set) var found: SpoolLabel.Found?
  /// What the label says beside the identity, the mark and what is missing; nil where that is nothing.
  private var rest: Rest?
  /// What is no longer in the spool.
  @Boxed private(set) var released: ReleasedChunks?

  init(found: SpoolLabel.Found?) {
    self.found = found
  }

  /// The upload that holds what is missing here.
  var pointer: SessionPointer? { rest?.pointer }

  /// What the spool's file is to say of itself.
  func fileLabel(of id: FileID, _ mark: WriterStateXattr) -> FileLabel {
    FileLabel(id: id, mark: mark, released: released, pointer: pointer, others: rest?.others ?? [])
  }

  /// A file of an earlier run is met, whose label says this.
  mutating func takeOver(pointer: SessionPointer?, others: [String]) {
    rest = Rest(pointer: pointer, others: others)
  }

  /// What the file was found with is known by now.
  mutating func foundIsRead() { found = nil }

  /// An upload holds what is missing here.
  mutating func point(to pointer: SessionPointer?) {
    rest = Rest(pointer: pointer, others: rest?.others ?? [])
  }

  /// These chunks are missing, which may be none.
  mutating func lacks(_ released: ReleasedChunks) { self.released = released.isEmpty ? nil : released }
}

import FileModel

/// What became of a content in its writers' hands: as it is now, and as it was when it was last settled. Pure.
///
/// As long as no change has begun, what failed has left the content as it was settled.
struct RevisionIntegrity: Sendable {
  /// Of what the writers have made of the content by now.
  @BoxedUnlessDefault var present = ContentIntegrity()
  /// Of the content that was settled.
  @BoxedUnlessDefault private(set) var settled = ContentIntegrity()
  /// The present content was made empty first.
  private(set) var isWrittenAnew = false

  /// An earlier run knew this of the file.
  mutating func found(_ interruption: Interruption?) {
    present = ContentIntegrity(found: interruption)
    settled = present
  }

  /// Of the content that there is.
  func content(hasOpenRevision: Bool) -> ContentIntegrity { hasOpenRevision ? present : settled }

  /// A writer begins to change what was settled.
  mutating func revisionBegan() {
    isWrittenAnew = false
    present.revisionBegan()
  }

  /// A change begins.
  mutating func began(_ extent: ContentExtent) {
    if extent == .size(0) { isWrittenAnew = true }
  }

  /// The writers are gone. Without a revision, what failed has left the content as it was.
  mutating func settled(hasRevision: Bool) {
    if hasRevision { settled = present } else { present = settled }
  }

  /// The present content counts as settled as it is.
  mutating func settleAsItIs() { settled = present }

  /// The disk has lost some of the content; a settled one lacks it, whether or not a program has the file open.
  mutating func lostContent(_ cause: Interruption, hasOpenRevision: Bool) {
    present.lostContent(cause)
    if !hasOpenRevision { settled.lostContent(cause) }
  }
}

/// What other programs have done to a file of the spool, past the mount, and the sink is still to be told. Pure.
struct ChangesByHand: Hashable, Sendable {
  /// What was seen of a content while nothing was writing to it.
  struct Content: Hashable, Sendable {
    var epoch: UInt64
    var sizeBytes: UInt64
    /// 0 where the spool's filesystem says times of its own later.
    var modifiedNanoseconds: Int64
  }

  /// What the content was like while nothing was writing to it; nil until it was read.
  private var seen: Content?
  /// Another program has changed the content.
  private(set) var hasChangedContent = false
  /// Another program has put the file in the place of something that was known.
  private(set) var hasPutInPlace = false
  /// The file has not stood where it stood since then, on the monotonic clock.
  private(set) var missedSinceSeconds: Int?

  /// The spool has said what the content is like. Equal epochs mean that nothing was written through the mount since it was last seen.
  /// True where another program has changed it.
  mutating func saw(_ content: Content) -> Bool {
    defer { seen = content }
    guard let seen, seen.epoch == content.epoch, seen != content else { return false }
    hasChangedContent = true
    return true
  }

  /// The content is about to change through the mount, or its times are: nothing is compared with what it was like.
  mutating func forgetSeen() { seen = nil }

  /// A new content takes the place of the changed one, or the sink learns of it.
  mutating func forgetChange() { hasChangedContent = false }

  /// The file does not stand where it stood.
  mutating func missed(atSeconds now: Int) { missedSinceSeconds = missedSinceSeconds ?? now }

  /// The file stands there.
  mutating func found() { missedSinceSeconds = nil }

  /// The file stands in the place of another one. Of one that the sink knows nothing is published until the sink is told.
  mutating func putInPlace(isKnown: Bool) {
    hasPutInPlace = true
    if isKnown { hasChangedContent = true }
  }

  /// The sink learns where the file stands.
  mutating func forgetPlace() { hasPutInPlace = false }
}

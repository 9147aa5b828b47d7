/// How often what had been sent of one content was of no use, and had to go out again (spec E8).
///
/// Chunks that are acknowledged in between change nothing: a server that takes every chunk and forgets the upload at its end
/// would be sent the same bytes for ever. A new count begins with another content, with a retry, and with the delivery; with another
/// content, most of which may be the same bytes, the pauses go on.
struct Setbacks: Hashable, Sendable {
  /// Of the present content.
  private(set) var count = 0
  /// Those that the destination is to blame for. They are not counted by their reasons: two that take turns are no better
  /// than one.
  private(set) var tries = 0
  /// Those by which something was lost that the destination had acknowledged.
  private(set) var losses = 0
  /// When the latest one was noted. Requests that were sent before then belong to it.
  private(set) var notedAt: MonotonicTime?
  /// The pause that followed the latest one, also of an earlier content.
  var previousDelay: Duration?

  /// The destination has lost more than once what it had acknowledged. Once may be an accident; from now on little goes out before
  /// it is seen whether that lasts.
  var areRepeated: Bool { losses > 1 }

  /// What failed was sent after the latest one.
  func isAnother(sentAt: MonotonicTime) -> Bool { notedAt.map { sentAt > $0 } ?? true }

  /// Nothing of the content was of no use yet, nor of those before it.
  var areFirst: Bool { count <= 1 && previousDelay == nil }

  /// The file has another content.
  mutating func contentChanged() {
    let delay = previousDelay
    self = Setbacks()
    previousDelay = delay
  }

  /// What was sent before it was due is given up; what is sent when it is due has its own tries.
  mutating func earlySendingEnded() { tries = 0 }

  /// One more. `tries` is how often it was met before it was given up; 0 when nobody is to blame.
  mutating func note(tries: Int, isLoss: Bool = false, at now: MonotonicTime) {
    count += 1
    notedAt = now
    self.tries += tries
    if isLoss { losses += 1 }
  }
}

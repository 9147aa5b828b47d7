import TransferModel

/// How often what had been sent of one content was useless, and had to go out again (docs/design/scheduling.md#failures).
///
/// Chunks that are acknowledged in between change nothing: a server that takes every chunk and forgets the upload at
/// its end would get the same bytes for ever. A new count begins with another content, with a retry, and with the
/// delivery; with another content, most of which may be the same bytes, the pauses continue.
struct Setbacks: Hashable, Sendable {
  /// Setbacks of the present content.
  private(set) var count = 0
  /// Setbacks that the destination causes. They are not counted by their reasons: two alternating ones are no better
  /// than one.
  private(set) var tries = 0
  /// Setbacks that lost something that the destination had acknowledged.
  private(set) var losses = 0
  /// The time of the latest setback. Requests that were sent before then belong to it.
  private(set) var notedAt: MonotonicTime?
  /// The pause that followed the latest setback, also of an earlier content.
  private(set) var previousDelay: Duration?

  /// The destination has lost acknowledged bytes more than once. Once may be an accident. From now on little goes out
  /// before it is known whether that continues.
  var areRepeated: Bool { losses > 1 }

  /// The failed request was sent after the latest setback.
  func isAnother(sentAt: MonotonicTime) -> Bool { notedAt.map { sentAt > $0 } ?? true }

  /// The first setback of this content, and of those before it.
  var areFirst: Bool { count <= 1 && previousDelay == nil }

  /// The file has another content.
  mutating func contentChanged() {
    let delay = previousDelay
    self = Setbacks()
    previousDelay = delay
  }

  /// A retry or the delivery has ended the count.
  mutating func ended() { self = Setbacks() }

  /// The file pauses for so long.
  mutating func paused(for delay: Duration) { previousDelay = delay }

  /// Early sending is given up; sending when the file is due has its own attempts.
  mutating func earlySendingEnded() { tries = 0 }

  /// One more setback. `tries` is how often the failure had occurred before it; 0 when the destination is not its
  /// cause.
  mutating func note(tries: Int, isLoss: Bool = false, at now: MonotonicTime) {
    count += 1
    notedAt = now
    self.tries += tries
    if isLoss { losses += 1 }
  }
}

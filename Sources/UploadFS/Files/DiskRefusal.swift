import FileModel

/// A disk has refused what was written to a file (docs/semantics.md, S41d). The kernel tells of it once, and keeps the
/// pages for a while as if they had been written.
struct DiskRefusal: Sendable {
  /// What the disk said last.
  var error: SystemError
  /// How often the content was given to it again.
  var tries = 0
  /// When that is due next, on the monotonic clock, in seconds.
  var dueSeconds = 0
  /// All of the content is in memory, and stays there.
  var pages: PinnedPages?
  /// The content is no longer in memory between these places, the first byte and the end of the last.
  var lost: Range<UInt64>?

  /// Nothing is to be read of the file: it is unknown whether it is what was written.
  var holdsFile: Bool { pages == nil && lost == nil }

  init(_ error: SystemError) {
    self.error = error
  }

  /// The disk refused it again.
  mutating func refused(_ error: SystemError, atSeconds now: Int) {
    self.error = error
    tries += 1
    dueSeconds = now + min(1 << min(tries - 1, 5), DiskPause.secondsMax)
  }
}

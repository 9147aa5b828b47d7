/// What was read of a file from its disk, and not from memory, since the disk was known to have refused nothing of it.
///
/// A page that the disk refuses looks as if it were there until the kernel drops it. What is read in its place afterwards, zeros or
/// older bytes, looks the same. The kernel has recorded the failure before it can drop the page. So when it is asked after the read
/// and knows of none, what was read is what was written; when it knows of one, that cannot be told, and what was read is no
/// content.
struct DiskReads: Sendable {
  private var inFlight: [Range<UInt64>] = []
  private var ended: Range<UInt64>?

  /// All that is in doubt, from its first byte to the end of the last; nil when nothing is.
  var range: Range<UInt64>? { inFlight.reduce(ended) { Self.joined($0, $1) } }

  mutating func began(_ range: Range<UInt64>) { inFlight.append(range) }

  mutating func end(_ range: Range<UInt64>) {
    readNothing(range)
    ended = Self.joined(ended, range)
  }

  /// It failed before anything was asked of the disk.
  mutating func readNothing(_ range: Range<UInt64>) {
    if let index = inFlight.firstIndex(of: range) { inFlight.remove(at: index) }
  }

  /// The kernel may have read anything.
  mutating func mayHaveReadAll() { ended = 0..<UInt64.max }

  /// What had ended before the kernel is asked. Of what is in progress the next question says it.
  mutating func takeEnded() -> Range<UInt64>? {
    defer { ended = nil }
    return ended
  }

  /// The kernel knew of a failure.
  mutating func putBack(_ range: Range<UInt64>?) {
    if let range { ended = Self.joined(ended, range) }
  }

  static func joined(_ known: Range<UInt64>?, _ range: Range<UInt64>) -> Range<UInt64> {
    guard let known else { return range }
    return min(known.lowerBound, range.lowerBound)..<max(known.upperBound, range.upperBound)
  }
}

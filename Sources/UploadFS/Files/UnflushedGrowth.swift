/// How far a file has grown since it was last given to the disk while a writer had it open. Pure.
struct UnflushedGrowth: Hashable, Sendable {
  /// So much of a file may be in memory alone, or what was written in two seconds, if the disk takes it as fast.
  static let bytesMax: UInt64 = 64 << 20

  /// The epoch of what the disk had of the file then.
  private(set) var flushedEpoch: UInt64 = 0
  /// So many bytes were written since.
  private(set) var bytes: UInt64 = 0

  /// What follows from a write.
  enum Step: Hashable, Sendable {
    /// The file waits for its flush already.
    case none
    /// The file is to be flushed in its turn.
    case flush
    /// The flush does not wait for its second.
    case flushAtOnce
  }

  /// A writer has written so many bytes.
  mutating func wrote(_ writtenBytes: UInt64) -> Step {
    let (sum, isOver) = bytes.addingReportingOverflow(writtenBytes)
    bytes = isOver ? .max : sum
    guard bytes < Self.bytesMax else {
      bytes = 0
      return .flushAtOnce
    }
    return bytes == writtenBytes ? .flush : .none
  }

  /// A flush takes what there is.
  mutating func taken() { bytes = 0 }

  /// The disk has what the flush took.
  mutating func flushed(_ epoch: UInt64) { flushedEpoch = epoch }
}

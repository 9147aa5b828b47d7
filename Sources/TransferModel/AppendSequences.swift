/// Which chunks of a session a server takes only one after another, because each is appended to the one before it. Such a
/// sequence begins anew when one of its chunks has to be sent with other bytes.
public enum AppendSequences: Hashable, Sendable {
  /// Each chunk is on its own: in any order, and again with other bytes.
  case none
  /// All chunks of a session are one sequence, and with its last one the file is there.
  case one
  /// The first chunks are on their own, those behind them in ever longer sequences: so few that a commit can name each sequence of a
  /// file of any length.
  case growing

  /// Chunks that are on their own, where sequences grow.
  public static let single = 48
  /// Sequences until the file is twice as long.
  static let perDoubling = 12

  /// The sequence of a chunk.
  public func sequence(of index: Int) -> Range<Int> {
    switch self {
    case .none: return index..<(index &+ 1)
    case .one: return 0..<Int.max
    case .growing:
      guard index >= Self.single else { return index..<(index &+ 1) }
      // The chunks from single × 2^n to twice that are in sequences of the same length.
      let doublings = (index / Self.single)._binaryLogarithm()
      let first = Self.single << doublings
      let length = first / Self.perDoubling
      let start = first + (index - first) / length * length
      return start..<(start &+ length)
    }
  }
}

/// Where in its sequence a chunk is.
public struct AppendPosition: Hashable, Sendable {
  /// What the server acknowledged the chunk before it with; nil for the first of a sequence.
  public var after: String?
  /// Where in the sequence it begins.
  public var sequenceOffset: UInt64
  /// How long the sequence is.
  public var sequenceBytes: UInt64

  /// A place.
  public init(after: String? = nil, sequenceOffset: UInt64 = 0, sequenceBytes: UInt64 = 0) {
    self.after = after
    self.sequenceOffset = sequenceOffset
    self.sequenceBytes = sequenceBytes
  }
}

/// Which chunks of a session a server takes only one after another, because each is appended to the one before it. Such a
/// row begins anew when one of its chunks has to be sent with other bytes.
public enum ChunkRows: Hashable, Sendable {
  /// Each chunk is on its own: in any order, and again with other bytes.
  case none
  /// All chunks of a session are one row, and with its last one the file is there.
  case one
  /// The first chunks are on their own, those behind them in ever longer rows: so few that a commit can name each row of a
  /// file of any length.
  case growing

  /// Chunks that are on their own, where rows grow.
  public static let single = 48
  /// Rows until the file is twice as long.
  static let perDoubling = 12

  /// The row of a chunk.
  public func row(of index: Int) -> Range<Int> {
    switch self {
    case .none: return index..<(index &+ 1)
    case .one: return 0..<Int.max
    case .growing:
      guard index >= Self.single else { return index..<(index &+ 1) }
      // The chunks from single × 2^n to twice that are in rows of the same length.
      let doublings = (index / Self.single)._binaryLogarithm()
      let first = Self.single << doublings
      let length = first / Self.perDoubling
      let start = first + (index - first) / length * length
      return start..<(start &+ length)
    }
  }
}

/// Where in its row a chunk is.
public struct ChunkPlace: Hashable, Sendable {
  /// What the server acknowledged the chunk before it with; nil for the first of a row.
  public var after: String?
  /// Where in the row it begins.
  public var rowOffset: UInt64
  /// How long the row is.
  public var rowBytes: UInt64

  /// A place.
  public init(after: String? = nil, rowOffset: UInt64 = 0, rowBytes: UInt64 = 0) {
    self.after = after
    self.rowOffset = rowOffset
    self.rowBytes = rowBytes
  }
}

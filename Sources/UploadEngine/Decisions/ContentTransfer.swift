/// How the present content of a file travels, and how far it is.
struct ContentTransfer: Sendable {
  private(set) var chunks: ChunkTransfer?
  /// Chunk growth while the file is written and chunks may be sent already.
  private(set) var growth: FileGrowth?
  /// The present content goes in one request, not through a session.
  private(set) var isWhole = false
  /// The file is read while it is sent, because it is larger than a buffer.
  private(set) var isStreamed = false

  /// The complete content goes in one request, or not.
  mutating func plan(asWhole isWhole: Bool, isStreamed: Bool) {
    self.isWhole = isWhole
    self.isStreamed = isStreamed
  }

  /// The content is read and sent like this.
  mutating func begin(_ chunks: ChunkTransfer) { self.chunks = chunks }

  /// The content goes through a session before it is known how a complete one would travel.
  mutating func beginInSession(_ chunks: ChunkTransfer) {
    isWhole = false
    self.chunks = chunks
  }

  /// Chunks are sent while the file is written.
  mutating func grow(_ growth: FileGrowth) {
    self.growth = growth
    beginInSession(ChunkTransfer(growingBy: growth.chunkBytes))
  }

  /// The file is complete, or nothing more of it is sent before it is.
  mutating func endGrowth() { growth = nil }

  /// Nothing more is read of it; what was read is released by then.
  mutating func end() { chunks = nil }
}

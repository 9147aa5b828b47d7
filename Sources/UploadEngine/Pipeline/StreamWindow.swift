/// Which pieces of a file that is being streamed are read, and which is sent next. Pure.
///
/// Pieces are read ahead, no more of them than the window has places, and may become ready in any order; they are sent in
/// theirs.
struct StreamWindow: Hashable, Sendable {
  let plan: ChunkPlan
  /// Pieces in memory: read, being read, or being sent.
  let depth: Int
  /// The piece that is sent next.
  private(set) var nextToSend = 0
  private var nextToRead = 0
  private var ready: Set<Int> = []
  /// The latest that was given away is still being sent.
  private var isSending = false

  init(plan: ChunkPlan, depth: Int) {
    self.plan = plan
    self.depth = max(1, depth)
  }

  /// The piece to be read now; nil while there is no place for one, or none is left.
  mutating func takeRead() -> Int? {
    guard nextToRead < plan.count, nextToRead - nextToSend + (isSending ? 1 : 0) < depth else { return nil }
    defer { nextToRead += 1 }
    return nextToRead
  }

  /// The piece that was taken last could not be begun after all.
  mutating func putBackRead() { nextToRead -= 1 }

  /// A piece has been read.
  mutating func becameReady(_ index: Int) {
    if index >= nextToSend, index < nextToRead { ready.insert(index) }
  }

  /// What was given away last has been sent.
  mutating func sent() { isSending = false }

  /// The piece that follows; nil while it has not been read.
  mutating func takeReady() -> Int? {
    guard ready.remove(nextToSend) != nil else { return nil }
    defer { nextToSend += 1 }
    isSending = true
    return nextToSend
  }

  /// Nothing is being read, ready or sent.
  var isEmptyHanded: Bool { nextToRead == nextToSend && !isSending }

  /// Every piece was given away.
  var isDone: Bool { nextToSend == plan.count }
}

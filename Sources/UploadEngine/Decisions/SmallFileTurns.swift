import DequeModule
import FileModel
import TransferModel

/// Small files in the order in which they are read, and those whose bytes are in a buffer, in the order in which they are sent.
struct SmallFileTurns: Sendable {
  private var queue = FileQueue()
  /// Files that may go out: their bytes are read, or they are empty.
  private(set) var ready: [FileID] = []
  /// Since when the first of them waits for others; nil while there is none.
  private(set) var readySince: MonotonicTime?

  /// Waits for a buffer.
  mutating func join(_ id: FileID, goesFirst: Bool = false) { queue.append(id, goesFirst: goesFirst) }

  /// The file to read next.
  mutating func popFirst() -> FileID? { queue.popFirst() }

  /// The file's bytes are read.
  mutating func becameReady(_ id: FileID) { ready.append(id) }

  /// From now on the first of the ready files waits, unless it does already.
  mutating func beginGathering(at now: MonotonicTime) { readySince = ready.isEmpty ? nil : readySince ?? now }

  /// Some have been sent: the others wait from now on.
  mutating func gatherAnew(at now: MonotonicTime) { readySince = ready.isEmpty ? nil : now }

  /// Of the ready files these remain, in this order.
  mutating func keepReady(_ ids: [FileID]) { ready = ids }

  /// Files that wait to be read, the latest first.
  var latestFirst: ReversedCollection<Deque<FileID>> { queue.latestFirst }

  /// Removes files that will never be read.
  mutating func removeWaiting(where isGone: (FileID) -> Bool) { queue.removeAll(where: isGone) }
}

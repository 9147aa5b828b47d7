import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Files that programs have open, and those of which chunks are sent before they may be published. Tracks whose size is
/// asked for next, and whose turn to send early it is.
struct OpenFileTracking: Sendable {
  /// Files that are open for writing.
  private(set) var open: OrderedSet<FileID> = []
  /// The index of the open file whose size is asked for next.
  private var measuredNext = 0
  /// Files of which chunks are sent before they are complete, next turn first.
  private(set) var early: [FileID] = []
  /// How long growing files are left alone; longer while none of them grows.
  private var growthPause: Duration = .zero
  /// A check since the last round has found growth.
  private var hasGrown = false

  // MARK: - Open files

  mutating func opened(_ id: FileID) { open.append(id) }

  mutating func closed(_ id: FileID) { open.takeOut(id) }

  /// A part of the open files, where they are many: each query costs as much as a chunk, and most files are idle.
  mutating func takeFilesToMeasure(countMax: Int) -> [FileID] {
    let first = measuredNext < open.count ? measuredNext : 0
    let end = min(open.count, first + countMax)
    measuredNext = end
    return Array(open[first..<end])
  }

  // MARK: - Files that are sent early

  mutating func joinEarly(_ id: FileID) {
    if !early.contains(id) { early.append(id) }
  }

  mutating func leaveEarly(where isOver: (FileID) -> Bool) { early.removeAll(where: isOver) }

  /// The file at this index has its turn, and becomes the last one.
  mutating func takeEarlyTurn(at place: Int) -> FileID {
    let id = early.remove(at: place)
    early.append(id)
    return id
  }

  /// A growing file has grown.
  mutating func noteGrowth() { hasGrown = true }

  /// How long growing files are left alone now: for `interval` while they grow, longer the longer none does, and longer
  /// the more there are.
  mutating func takeGrowthPause(interval: Duration) -> Duration {
    growthPause = hasGrown ? interval : min(growthPause * 2, Self.growthPauseMax)
    growthPause = max(growthPause, interval * max(1, early.count / 16))
    hasGrown = false
    return growthPause
  }

  private static let growthPauseMax: Duration = .milliseconds(800)

  /// The violated invariants, in words.
  var brokenInvariants: [String] {
    LookupSet(early).count == early.count ? [] : ["an open file has two turns"]
  }
}

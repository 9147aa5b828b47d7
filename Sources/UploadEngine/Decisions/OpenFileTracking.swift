import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Files that programs have open, and those of which chunks are sent before they may be published. Tracks whose size is
/// asked for next, which get a session when, and whose turn to send early it is.
struct OpenFileTracking: Sendable {
  /// A file that gets a session when it stays open until `due`.
  struct PlannedSession: Hashable, Sendable {
    var id: FileID
    var due: MonotonicTime
  }

  /// Files that are open for writing.
  private(set) var open: OrderedSet<FileID> = []
  /// The index of the open file whose size is asked for next.
  private var measuredNext = 0
  /// Planned sessions by time.
  private(set) var planned: [PlannedSession] = []
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

  // MARK: - Sessions

  /// Plans a session for a file; true when it is the next one.
  mutating func plan(_ id: FileID, at due: MonotonicTime) -> Bool {
    let place = (planned.lastIndex { $0.due <= due }).map { $0 + 1 } ?? 0
    planned.insert(PlannedSession(id: id, due: due), at: place)
    return place == 0
  }

  /// The first planned files have their session, or need none any more.
  mutating func removeFirstPlanned(_ count: Int) { planned.removeFirst(count) }

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
    var broken: [String] = []
    if LookupSet(early).count != early.count { broken.append("an open file has two turns") }
    if zip(planned, planned.dropFirst()).contains(where: { $0.due > $1.due }) {
      broken.append("sessions are planned out of order")
    }
    return broken
  }
}

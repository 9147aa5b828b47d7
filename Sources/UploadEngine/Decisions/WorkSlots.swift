import DequeModule
import FileModel
import Lookup

/// A bounded number of slots for files that are read and sent side by side, and the files that wait for one: first
/// come, first served.
///
/// A file that no longer waits keeps its entry until its turn comes; the schedule checks its state then.
struct WorkSlots: Sendable {
  private let countMax: Int
  private var waiting = FileQueue()
  /// Files that have a slot, each once.
  private(set) var working: [FileID] = []
  /// The latest virtual time of those that have left a slot. A slot is handed on with it. Files that come one after the
  /// other without end would otherwise each begin before those that are active for long, and these would never have
  /// another turn.
  private(set) var handedOnTime: UInt64 = 0

  init(countMax: Int) { self.countMax = countMax }

  var hasWaiting: Bool { !waiting.isEmpty }

  /// Waits for a slot, unless the file has one.
  mutating func join(_ id: FileID, goesFirst: Bool) {
    if !working.contains(id) { waiting.append(id, goesFirst: goesFirst) }
  }

  /// The file whose turn a free slot is; nil where none is free, or no file waits.
  mutating func popForFreePlace() -> FileID? {
    guard working.count < countMax else { return nil }
    while let id = waiting.popFirst() { if !working.contains(id) { return id } }
    return nil
  }

  /// The file that ``popForFreePlace()`` has named takes the slot.
  mutating func take(_ id: FileID) { working.append(id) }

  /// A file that is done, or waits for something else, gives its slot back.
  mutating func leave(_ id: FileID, at virtualTime: UInt64) {
    working.removeAll { $0 == id }
    handedOnTime = max(handedOnTime, virtualTime)
  }

  /// Waiting files, the latest first.
  var latestFirst: ReversedCollection<Deque<FileID>> { waiting.latestFirst }

  /// Removes files that will never have a slot.
  mutating func removeWaiting(where isGone: (FileID) -> Bool) { waiting.removeAll(where: isGone) }

  /// The violated invariants, in words.
  var brokenInvariants: [String] {
    var broken: [String] = []
    if LookupSet(working).count != working.count { broken.append("a file has two places") }
    if working.count > countMax { broken.append("\(working.count) files have places, of \(countMax)") }
    return broken
  }
}

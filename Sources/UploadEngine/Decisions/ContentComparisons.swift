import FileModel
import Lookup

/// Files that differ in size or time from what was delivered of them. They are read and compared one after another.
struct ContentComparisons: Sendable {
  private var waiting = FileQueue()
  /// The file that is read.
  private(set) var current: FileID?

  mutating func add(_ id: FileID) {
    if current != id { waiting.append(id) }
  }

  /// The file that is read, or else the next one; nil where none is left.
  mutating func next() -> FileID? {
    if current == nil { current = waiting.popFirst() }
    return current
  }

  /// The file was read, or is not to be compared any more.
  mutating func end(_ id: FileID) {
    if current == id { current = nil }
  }

  mutating func removeWaiting(where isGone: (FileID) -> Bool) { waiting.removeAll(where: isGone) }
}

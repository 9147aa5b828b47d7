import DequeModule
import FileModel

/// Files that wait for their turn, first come, first served. Entries are not removed when a file no longer waits: the
/// caller that takes one checks.
struct FileQueue: Sendable {
  private var files: Deque<FileID> = []

  var isEmpty: Bool { files.isEmpty }

  /// Appends the file behind all that wait, or before them.
  mutating func append(_ id: FileID, goesFirst: Bool = false) {
    if goesFirst { files.prepend(id) } else { files.append(id) }
  }

  /// Waiting files, the latest first.
  var latestFirst: ReversedCollection<Deque<FileID>> { files.reversed() }

  mutating func popFirst() -> FileID? { files.popFirst() }

  /// Removes files that will never have their turn.
  mutating func removeAll(where isGone: (FileID) -> Bool) { files.removeAll(where: isGone) }
}

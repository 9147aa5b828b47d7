import FileModel

/// Files that wait for their turn, first come, first served. Entries are not removed when a file no longer waits: the
/// caller that takes one checks.
struct FileQueue: Sendable {
  private var files: [FileID] = []
  private var head = 0

  var isEmpty: Bool { head == files.count }

  /// Appends the file behind all that wait, or before them.
  mutating func append(_ id: FileID, goesFirst: Bool = false) {
    guard goesFirst else { return files.append(id) }
    guard head > 0 else { return files.insert(id, at: 0) }
    head -= 1
    files[head] = id
  }

  /// Waiting files, the latest first.
  var latestFirst: ReversedCollection<ArraySlice<FileID>> { files[head...].reversed() }

  mutating func popFirst() -> FileID? {
    guard head < files.count else { return nil }
    defer { compact() }
    head += 1
    return files[head - 1]
  }

  /// Removes files that will never have their turn.
  mutating func removeAll(where isGone: (FileID) -> Bool) {
    files.removeFirst(head)
    head = 0
    files.removeAll(where: isGone)
  }

  private mutating func compact() {
    guard head > 64, head * 2 > files.count else { return }
    files.removeFirst(head)
    head = 0
  }
}

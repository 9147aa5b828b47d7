import FileModel

/// Files that wait for their turn, first come, first served. Entries are not removed when a file no longer waits:
/// whoever takes one checks.
struct FileQueue: Sendable {
  private var files: [FileID] = []
  private var head = 0

  var isEmpty: Bool { head == files.count }

  /// Behind all that wait, or before them.
  mutating func append(_ id: FileID, goesFirst: Bool = false) {
    guard goesFirst else { return files.append(id) }
    guard head > 0 else { return files.insert(id, at: 0) }
    head -= 1
    files[head] = id
  }

  /// Those that wait, from the one that came last on.
  var latestFirst: ReversedCollection<ArraySlice<FileID>> { files[head...].reversed() }

  mutating func popFirst() -> FileID? {
    guard head < files.count else { return nil }
    defer { compact() }
    head += 1
    return files[head - 1]
  }

  /// Those that are never to have their turn.
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

import FileModel

/// Files that wait for their turn, first come, first served. Entries are not removed when a file no longer waits:
/// whoever takes one checks.
struct FileQueue: Sendable {
  private var files: [FileID] = []
  private var head = 0

  var isEmpty: Bool { head == files.count }

  mutating func append(_ id: FileID) { files.append(id) }

  mutating func popFirst() -> FileID? {
    guard head < files.count else { return nil }
    defer { compact() }
    head += 1
    return files[head - 1]
  }

  private mutating func compact() {
    guard head > 64, head * 2 > files.count else { return }
    files.removeFirst(head)
    head = 0
  }
}

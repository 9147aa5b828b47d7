import FileModel

/// All files, with their sums: what the summary of a mount with a hundred thousand files says must not take a walk over
/// them, since programs poll it.
struct FileTable: Sendable {
  /// A file has hundreds of bytes of facts. As a value it would lie in the dictionary itself, whose free places are as
  /// large as its taken ones, and be moved whenever that grows.
  ///
  /// An entry never changes, so that a copy of the schedule stays what it was.
  private final class Entry: Sendable {
    let file: FileUpload

    init(_ file: FileUpload) { self.file = file }
  }

  private var entries: [FileID: Entry] = [:]
  /// Files by phase.
  private(set) var counts = Counts()
  /// Sizes of the files that are still to be delivered.
  private(set) var pendingBytes: UInt64 = 0
  /// Files that need somebody's help.
  private(set) var failed: Set<FileID> = []
  /// Changes that are not acknowledged, lowest number first; entries whose file has moved on are dropped when they come
  /// to the top.
  private var sequences = MinimumHeap<UInt64, FileID>()

  /// How many files are in each phase.
  struct Counts: Hashable, Sendable {
    var writing = 0
    var held = 0
    var ready = 0
    var waiting = 0
    var finishing = 0
    var complete = 0
    var failed = 0
    var cancelled = 0

    var pending: Int { writing + ready + waiting + finishing }
  }

  subscript(id: FileID) -> FileUpload? {
    get { entries[id]?.file }
    set {
      let entry = entries[id]
      if let old = entry?.file { count(old, by: -1) }
      guard let newValue else {
        entries[id] = nil
        return
      }
      if newValue.isPending,
        entry.map({ !$0.file.isPending || $0.file.changeSequence != newValue.changeSequence }) ?? true
      {
        sequences.insert(id, at: newValue.changeSequence)
      }
      count(newValue, by: 1)
      entries[id] = Entry(newValue)
    }
  }

  /// Every file, in no order.
  var values: some Sequence<FileUpload> { entries.values.lazy.map(\.file) }

  /// The lowest number of a change that is not yet acknowledged.
  mutating func oldestPendingSequence() -> UInt64? {
    while let first = sequences.first {
      if let file = entries[first.value]?.file, file.isPending, file.changeSequence == first.key { return first.key }
      sequences.removeFirst()
    }
    return nil
  }

  private mutating func count(_ file: FileUpload, by step: Int) {
    switch file.phase {
    case .writing: counts.writing += step
    case .held: counts.held += step
    case .ready: counts.ready += step
    case .waiting: counts.waiting += step
    case .finishing: counts.finishing += step
    case .complete: counts.complete += step
    case .failed:
      counts.failed += step
      if step > 0 { failed.insert(file.id) } else { failed.remove(file.id) }
    case .cancelled: counts.cancelled += step
    case .removed:
      if file.wasDelivered { counts.complete += step } else { counts.cancelled += step }
    }
    guard file.isPending else { return }
    pendingBytes = step > 0 ? pendingBytes &+ file.snapshot.sizeBytes : pendingBytes &- file.snapshot.sizeBytes
  }
}

/// The captures that earlier runs knew by the inode numbers of their files: three words for each, and no more.
///
/// It never changes, so that all who need it share one copy. What becomes of a number later is kept beside it.
public struct KnownIdentities: Hashable, Sendable {
  private struct Entry: Hashable, Sendable {
    var inode: UInt64
    var id: FileID
  }

  /// By rising numbers, each once.
  private let entries: [Entry]

  /// None.
  public init() { entries = [] }

  /// These. Of several captures that had one number the youngest has it.
  public init(_ numbers: some Sequence<(inode: UInt64, id: FileID)>) {
    var sorted = numbers.map { Entry(inode: $0.inode, id: $0.id) }
    sorted.sort { ($0.inode, $0.id) < ($1.inode, $1.id) }
    var count = 0
    for entry in sorted {
      if count > 0, sorted[count - 1].inode == entry.inode { count -= 1 }
      sorted[count] = entry
      count += 1
    }
    sorted.removeLast(sorted.count - count)
    entries = sorted
  }

  /// These.
  public init(_ known: [UInt64: FileID]) {
    // In no order: they are sorted.
    self.init(known.lazy.map { (inode: $0.key, id: $0.value) })
  }

  /// How many there are.
  public var count: Int { entries.count }

  /// All identities, in the order of their numbers.
  public var identities: [FileID] { entries.map(\.id) }

  /// The capture that had the number.
  public subscript(inode: UInt64) -> FileID? {
    var (start, end) = (0, entries.count)
    while start < end {
      let middle = (start + end) / 2
      if entries[middle].inode < inode { start = middle + 1 } else { end = middle }
    }
    return start < entries.count && entries[start].inode == inode ? entries[start].id : nil
  }

  /// With those that another one knows; where both know a number this one is right.
  public func merging(_ other: KnownIdentities) -> KnownIdentities {
    let further = other.entries.filter { self[$0.inode] == nil }
    return KnownIdentities((entries + further).map { (inode: $0.inode, id: $0.id) })
  }
}

import FileModel
import Glibc

/// The entries of a directory as they were when the listing began, so that an entry's position is a cookie that stays
/// true while files come and go. Reading from the start again makes a new listing, as rewinddir(3) asks for.
struct DirectoryListing: Equatable, Sendable {
  /// The names one after the other, each with its NUL.
  private(set) var names: [CChar] = []
  private var entries: [Entry] = []

  private struct Entry: Equatable {
    var nameOffset: Int
    var inode: UInt64
    var mode: mode_t
  }

  var count: Int { entries.count }

  /// What it takes in memory.
  var byteCount: Int { names.count + entries.count * MemoryLayout<Entry>.stride }

  /// Listings in which each cookie stands for the same name have the same one.
  var digest: Int {
    var hasher = Hasher()
    names.withUnsafeBytes { hasher.combine(bytes: $0) }
    return hasher.finalize()
  }

  /// The file type bits (S_IFMT) and inode number of one entry.
  func facts(at index: Int) -> (inode: UInt64, mode: mode_t) { (entries[index].inode, entries[index].mode) }

  /// The name of one entry as a C string; nil only for a listing without entries.
  func withName<Result>(at index: Int, _ body: (UnsafePointer<CChar>) -> Result) -> Result? {
    names.withUnsafeBufferPointer { buffer in
      buffer.baseAddress.map { body($0 + entries[index].nameOffset) }
    }
  }

  mutating func append(name: EntryName, inode: UInt64, mode: mode_t) {
    entries.append(Entry(nameOffset: names.count, inode: inode, mode: mode))
    names += name.cString
  }
}

import CLinux
import Glibc
import Integrity
import ReceiverCore
import Synchronization

/// What publications know of names together: several credentials may publish in one folder.
final class PublishedNames: Sendable {
  /// A name in a folder, whichever path leads to it. Compared byte by byte, which `String` does not do.
  struct Key: Hashable, Sendable {
    var folder: FolderIdentity
    var name: [UInt8]

    init(_ name: String, in folder: FolderIdentity) {
      self.folder = folder
      self.name = Array(name.utf8)
    }
  }

  /// A file's content in chunks of a size.
  struct Content: Hashable, Sendable {
    var stamp: DataStamp
    var chunkBytes: UInt32
  }

  private static let numbersMax = 10_000
  private static let rootsMax = 1_000

  /// Between the last check of a name and the rename no other publication takes it.
  private let locks = (0..<64).map { _ in NameLock() }
  /// The next number of a name, so that of thousands of captures of one name each does not try the numbers of all before it. A
  /// hint: what became free below it stays unused. Without it, after a start, numbers are tried from 2 on, in steps that double once they are
  /// many.
  private let numbers = Mutex<[Key: Int]>([:])
  /// The Merkle roots of files that say nothing of themselves: each is read once.
  private let roots = Mutex<[Content: Digest32]>([:])

  private final class NameLock: Sendable {
    let mutex = Mutex(())
  }

  func withLock<Result: Sendable>(
    on key: Key, _ body: () throws(StoreFailure) -> Result
  ) throws(StoreFailure) -> Result {
    try locks[Int(UInt(bitPattern: key.hashValue) % UInt(locks.count))].mutex.withLock { (_) throws(StoreFailure) in
      try body()
    }
  }

  /// The number to be tried first.
  func nextNumber(of key: Key) -> Int { numbers.withLock { $0[key] ?? 2 } }

  func noteTaken(_ number: Int, of key: Key) {
    numbers.withLock { numbers in
      if numbers[key] == nil, numbers.count >= PublishedNames.numbersMax { numbers = [:] }
      numbers[key] = max(numbers[key] ?? 2, number + 1)
    }
  }

  /// The root of a file's content, which `compute` reads where it is not known; nil where it cannot.
  func root(of content: Content, _ compute: () -> Digest32?) -> Digest32? {
    if let known = roots.withLock({ $0[content] }) { return known }
    guard let root = compute() else { return nil }
    roots.withLock { roots in
      if roots.count >= PublishedNames.rootsMax { roots = [:] }
      roots[content] = root
    }
    return root
  }
}

/// A folder itself, whichever path leads to it.
struct FolderIdentity: Hashable, Sendable {
  private var device: UInt64
  private var inode: UInt64

  init(_ folder: FileDescriptor) throws(StoreFailure) {
    let status = try folder.status()
    device = UInt64(status.st_dev)
    inode = UInt64(status.st_ino)
  }
}

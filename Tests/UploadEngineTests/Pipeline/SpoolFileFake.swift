import FileModel
import Glibc
import Synchronization

@testable import UploadEngine

/// One real file, so that it can be mapped, locked and truncated under its reader.
///
/// Strict: another file than this one does not exist, and whatever is opened counts until it is closed.
final class SpoolFileFake: FileContents {
  static let id = FileID(high: 7, low: 7)

  struct State {
    var epoch: UInt64 = 1
    var openings = 0
    var isOpen = 0
    var afterIdentity: (number: Int, change: @Sendable () -> Void)?
    var identities = 0
    /// As where the disk has refused some of the file.
    var keepsPages = false
    /// Given back to the disk.
    var released: Range<UInt64>?
    /// What else is to be said of it.
    var changeSnapshot: (@Sendable (inout FileSnapshot) -> Void)?
  }

  let bytes: [UInt8]
  private let folder: ScratchFolder
  private let state = Mutex(State())

  /// A file of `bytes` in a folder of its own.
  init(_ bytes: [UInt8]) throws {
    self.bytes = bytes
    folder = try ScratchFolder()
    write(bytes)
  }

  var path: String { folder("capture") }

  func write(_ bytes: [UInt8]) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    var done = 0
    while done < bytes.count {
      let count = bytes[done...].withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(done)) }
      guard count > 0 else { break }
      done += count
    }
    fsync(descriptor)
    close(descriptor)
  }

  /// Does something to the file right after its reader has looked at it for the given time.
  func afterIdentity(_ number: Int, _ change: @escaping @Sendable () -> Void) {
    state.withLock { $0.afterIdentity = ($0.identities + number, change) }
  }

  func set(_ change: @Sendable (inout State) -> Void) { state.withLock { change(&$0) } }
  var openings: Int { state.withLock { $0.openings } }
  var isOpen: Int { state.withLock { $0.isOpen } }

  fileprivate var keepsPages: Bool { state.withLock { $0.keepsPages } }

  fileprivate func lookedAt() {
    let change = state.withLock { state -> (@Sendable () -> Void)? in
      state.identities += 1
      guard let (number, change) = state.afterIdentity, number == state.identities else { return nil }
      state.afterIdentity = nil
      return change
    }
    change?()
  }

  fileprivate func closed() { state.withLock { $0.isOpen -= 1 } }

  func snapshot(of id: FileID) -> FileSnapshot? {
    var status = stat()
    guard id == Self.id, stat(path, &status) == 0 else { return nil }
    var snapshot = FileSnapshot(
      id: id, epoch: state.withLock { $0.epoch }, sizeBytes: UInt64(status.st_size),
      modifiedNanoseconds: Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec), mode: 0o600,
      inode: UInt64(status.st_ino), names: [RelativePath("capture")], writableOpens: 0, mutationsInFlight: 0)
    state.withLock { $0.changeSnapshot }?(&snapshot)
    return snapshot
  }

  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? { nil }
  func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64? { nil }
  func isChangedOutsideMount(_ id: FileID) -> Bool { false }
  func sizeBytesSoon(of id: FileID) -> UInt64? { snapshot(of: id)?.sizeBytes }
  func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool {
    state.withLock { $0.released?.overlaps(range) ?? false }
  }

  func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile {
    let number = id == Self.id ? open(path, O_RDONLY | O_CLOEXEC) : -1
    guard number >= 0 else { throw .gone }
    state.withLock {
      $0.openings += 1
      $0.isOpen += 1
    }
    return SpoolFileOpening(number, self)
  }

  func evict(_ candidate: EvictionCandidate) -> Bool { false }
  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {}
}

private final class SpoolFileOpening: ReadableFile {
  private let number: Int32
  private let owner: SpoolFileFake
  var descriptor: Int32? { number }

  init(_ number: Int32, _ owner: SpoolFileFake) {
    self.number = number
    self.owner = owner
  }

  deinit {
    close(number)
    owner.closed()
  }

  func identity() throws(FileContentsError) -> FileIdentity {
    var status = stat()
    guard fstat(number, &status) == 0 else { throw .system(errno: errno) }
    defer { owner.lookedAt() }
    return FileIdentity(
      inode: UInt64(status.st_ino), sizeBytes: UInt64(status.st_size),
      modifiedNanoseconds: Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec))
  }

  func mayDropPageCache() -> Bool { !owner.keepsPages }

  func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileContentsError) -> Int {
    let count = pread(number, buffer.baseAddress, buffer.count, off_t(offset))
    guard count >= 0 else { throw .system(errno: errno) }
    return count
  }
}

extension [UInt8] {
  /// The same as `(0..<count).map(byte)`, which allocates for each element in an unoptimised build: under the address
  /// sanitizer a megabyte took longer than all other tests.
  init(count: Int, byte: (Int) -> UInt8) {
    self.init(unsafeUninitializedCapacity: count) { buffer, filled in
      while filled < count {
        buffer[filled] = byte(filled)
        filled += 1
      }
    }
  }
}

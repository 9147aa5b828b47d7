import FileModel
import Glibc
import Synchronization

/// One capture that is open for reading, with what is mapped of it.
///
/// A shared flock(2) is held as long as it is open. Tools that lock a file in the mount lock the mount's file and not this
/// one; the lock is for people and programs that work on the spool itself: while a program holds it exclusively, nothing
/// is read.
final class CaptureReading: Sendable {
  private struct Mappings {
    /// Two workers may be in neighbouring windows.
    var windows: [MappedWindow] = []
    /// A page was not there, or the system would not map: plain reads from then on.
    var isPlain = false
  }

  private static let windowsMax = 2

  let id: FileID
  let file: any ReadableFile
  /// What the file was when it was opened.
  let opened: FileIdentity
  let plan: ReadingPlan
  private let counters: PipelineCounters
  private let mappings: Mutex<Mappings>
  /// Of a file that has fewer bytes on its disk than it is long.
  private let holes: SpoolHoles?

  init(
    id: FileID, file: any ReadableFile, method: ReadingMethod, savesMemory: Bool, counters: PipelineCounters
  ) throws(FileContentsError) {
    self.id = id
    self.file = file
    self.counters = counters
    opened = try file.identity()
    plan = ReadingPlan(sizeBytes: opened.sizeBytes, method: method, savesMemory: savesMemory)
    mappings = Mutex(Mappings())
    holes = CaptureReading.holes(of: file, opened)
    // Some network filesystems know no locks; then no program is kept out.
    if let descriptor = file.descriptor, flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK {
      throw .locked
    }
  }

  deinit {
    // Closing would do, were it not for a child that is being started and holds a copy until it executes its program.
    if let descriptor = file.descriptor { _ = flock(descriptor, LOCK_UN) }
  }

  /// Shorter files are read faster than they are asked for holes.
  private static let sparseBytesMin: UInt64 = 1 << 20

  private static func holes(of file: any ReadableFile, _ opened: FileIdentity) -> SpoolHoles? {
    var found = stat()
    guard opened.sizeBytes >= sparseBytesMin, let descriptor = file.descriptor, fstat(descriptor, &found) == 0,
      UInt64(clamping: found.st_blocks) * 512 < opened.sizeBytes
    else { return nil }
    return SpoolHoles(of: descriptor)
  }

  /// Fills a block of at most ``UploadConstants/hashBlockBytes``; returns the bytes read, fewer only at the end of the file. What is a hole
  /// takes no place in the page cache; where the disk has refused bytes, they may be in pages that a hole of the disk's lies under
  /// (`believesHoles`).
  func read(
    at offset: UInt64, into block: UnsafeMutableRawBufferPointer, believesHoles: Bool = true
  ) throws(FileContentsError) -> Int {
    let (end, isOver) = offset.addingReportingOverflow(UInt64(block.count))
    if let holes, believesHoles, !isOver, end <= opened.sizeBytes, holes.cover(offset..<end) {
      block.initializeMemory(as: UInt8.self, repeating: 0)
      counters.bytesOfHoles.add(UInt64(block.count), ordering: .relaxed)
      return block.count
    }
    if let window = window(at: offset, count: block.count) {
      if file.readMapped({ window.copy(at: offset, into: block) }) {
        counters.bytesFromMappings.add(UInt64(block.count), ordering: .relaxed)
        return block.count
      }
      counters.faultsContained.add(1, ordering: .relaxed)
      giveUpMapping()
    }
    let count = try file.read(at: offset, into: block)
    counters.bytesFromReads.add(UInt64(count), ordering: .relaxed)
    return count
  }

  /// Takes acknowledged pages out of this process, so that the page cache can drop them.
  func letGo(of range: Range<UInt64>) {
    for window in mappings.withLock({ $0.windows }) { window.letGo(of: range) }
  }

  private func window(at offset: UInt64, count: Int) -> MappedWindow? {
    guard let descriptor = file.descriptor, let range = plan.window(at: offset, sizeBytes: opened.sizeBytes),
      UInt64(count) <= range.upperBound - offset
    else { return nil }
    // What falls out is unmapped at this function's end, not under the lock.
    let (window, _) = mappings.withLock { mappings -> (MappedWindow?, MappedWindow?) in
      guard !mappings.isPlain else { return (nil, nil) }
      if let known = mappings.windows.first(where: { $0.range == range }) { return (known, nil) }
      guard let new = MappedWindow(descriptor: descriptor, range: range) else {
        mappings.isPlain = true
        return (nil, nil)
      }
      counters.windowsMapped.add(1, ordering: .relaxed)
      let dropped = mappings.windows.count >= Self.windowsMax ? mappings.windows.removeFirst() : nil
      mappings.windows.append(new)
      return (new, dropped)
    }
    return window
  }

  private func giveUpMapping() {
    _ = mappings.withLock { mappings -> [MappedWindow] in
      defer { mappings.windows = [] }
      mappings.isPlain = true
      return mappings.windows
    }
  }
}

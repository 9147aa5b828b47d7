import CLinux
import Glibc
import Synchronization

/// The pages of a file, kept in memory until this is let go of: what a disk has refused is nowhere else. One that was dropped a
/// moment before is read from the disk, so that the caller compares them with what they were.
final class PinnedPages: @unchecked Sendable {
  // Sound because nothing is read or written through the mapping, and its place and length never change.
  private let base: UnsafeMutableRawPointer
  private let byteCount: Int

  /// Pages of all files together that may be kept: a quarter of the machine's memory.
  private static let byteCountMax = sysconf(Int32(_SC_PHYS_PAGES)) / 4 * sysconf(Int32(_SC_PAGESIZE))
  private static let pinnedBytes = Atomic<Int>(0)

  /// Keeps the first bytes of a file that is in memory. Nil where too much is kept already, or the system refuses it
  /// (RLIMIT_MEMLOCK).
  init?(of descriptor: FileDescriptor, byteCount: Int) {
    guard byteCount > 0, descriptor.isReadable else { return nil }
    let total = Self.pinnedBytes.add(byteCount, ordering: .relaxed).newValue
    let mapping =
      total <= Self.byteCountMax ? mmap(nil, byteCount, PROT_READ, MAP_SHARED, descriptor.number, 0) : MAP_FAILED
    guard let mapping, mapping != MAP_FAILED else {
      Self.pinnedBytes.subtract(byteCount, ordering: .relaxed)
      return nil
    }
    self.base = mapping
    self.byteCount = byteCount
    // On failure the initializer ends the mapping by deinit.
    guard mlock(mapping, byteCount) == 0 else { return nil }
  }

  deinit {
    munmap(base, byteCount)
    Self.pinnedBytes.subtract(byteCount, ordering: .relaxed)
  }
}

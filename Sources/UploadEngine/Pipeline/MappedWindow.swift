import CLinux
import Glibc
import TransferModel

/// A piece of a file that is mapped for reading; unmapped when its last user lets go of it.
///
/// - Note: `@unchecked Sendable` is sound because address and size never change, the pages are only ever read, and they
///   are read by ``copy(at:into:)`` alone, which stands their vanishing.
final class MappedWindow: @unchecked Sendable {
  /// The bytes of the file that are mapped.
  let range: Range<UInt64>
  private let start: UnsafeMutableRawPointer

  /// Maps a piece that starts at a multiple of the page size; nil when the system refuses.
  init?(descriptor: Int32, range: Range<UInt64>) {
    guard let byteCount = Int(exactly: range.upperBound - range.lowerBound), byteCount > 0,
      let offset = off_t(exactly: range.lowerBound), uploadfs_contain_sigbus() == 0,
      let start = mmap(nil, byteCount, PROT_READ, MAP_SHARED, descriptor, offset), start != MAP_FAILED
    else { return nil }
    self.range = range
    self.start = start
    _ = madvise(start, byteCount, MADV_SEQUENTIAL)
    _ = madvise(start, min(byteCount, UploadConstants.mmapWillNeedBytes), MADV_WILLNEED)
    _ = madvise(start, byteCount, MADV_DONTDUMP)
  }

  deinit {
    munmap(start, Int(range.upperBound - range.lowerBound))
  }

  /// Copies a block that lies in ``range``; false when a page is not there.
  func copy(at offset: UInt64, into block: UnsafeMutableRawBufferPointer) -> Bool {
    guard let target = block.baseAddress, let position = position(of: offset, count: block.count) else { return false }
    return uploadfs_copy_mapped(target, start + position, block.count) == 1
  }

  /// Takes pages out of this process: mapped pages stay in the page cache whatever advice is given, and count as its
  /// memory. A thread that still reads them gets them again.
  func letGo(of part: Range<UInt64>) {
    let page: UInt64 = 4096
    let common = part.clamped(to: range)
    let first = (common.lowerBound + page - 1) / page * page
    guard first < common.upperBound, let position = position(of: first, count: 0) else { return }
    _ = madvise(start + position, Int(common.upperBound - first), MADV_DONTNEED)
  }

  private func position(of offset: UInt64, count: Int) -> Int? {
    guard offset >= range.lowerBound, offset <= range.upperBound,
      UInt64(count) <= range.upperBound - offset
    else { return nil }
    return Int(offset - range.lowerBound)
  }
}

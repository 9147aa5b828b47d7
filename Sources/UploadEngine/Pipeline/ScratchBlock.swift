import CLinux
import Glibc

/// A worker's own memory through which captures pass; taken once and wiped at the end.
final class ScratchBlock {
  let bytes: UnsafeMutableRawBufferPointer

  /// Nil when there is no memory.
  init?(byteCount: Int) {
    guard byteCount > 0,
      let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), start != MAP_FAILED
    else { return nil }
    // A core dump must not carry captures.
    _ = madvise(start, byteCount, MADV_DONTDUMP)
    bytes = UnsafeMutableRawBufferPointer(start: start, count: byteCount)
  }

  deinit {
    // Pages that are given back reach their next owner as zeros.
    if let start = bytes.baseAddress { munmap(start, bytes.count) }
  }

  /// Wipes a prefix that captures have passed through.
  func wipe(_ byteCount: Int) {
    if let start = bytes.baseAddress { uploadfs_explicit_bzero(start, min(max(byteCount, 0), bytes.count)) }
  }
}

import CLinux
import Glibc
import ReceiverCore

/// What a file has no bytes for.
extension FileDescriptor {
  /// Makes ranges zeros, each as a hole where the filesystem has such, and the file at least as long as they are. Others may write
  /// behind and before them meanwhile, so the file is made longer by a byte of its own, and never cut.
  func makeZeros(_ ranges: [Range<UInt64>]) throws(StoreFailure) {
    guard let end = ranges.last?.upperBound else { return }
    let formerEnd = UInt64(clamping: try status().st_size)
    if formerEnd < end { try write([0], at: end - 1) }
    for range in ranges where !punch(range) {
      guard errno == EOPNOTSUPP || errno == ENOSYS else { throw StoreFailure.last("fallocate") }
      // What lies behind the former end is zeros already.
      if range.lowerBound < formerEnd { try overwrite(range.lowerBound..<min(range.upperBound, formerEnd)) }
    }
  }

  private func punch(_ range: Range<UInt64>) -> Bool {
    guard let start = off_t(exactly: range.lowerBound), let length = off_t(exactly: range.upperBound - range.lowerBound)
    else {
      errno = EFBIG
      return false
    }
    return uploadfs_fallocate(raw, uploadfs_falloc_punch_hole | uploadfs_falloc_keep_size, start, length) == 0
  }

  /// Writes zeros over what has bytes.
  private func overwrite(_ range: Range<UInt64>) throws(StoreFailure) {
    let zeros = [UInt8](repeating: 0, count: 1 << 20)
    var position = range.lowerBound
    while let data = firstData(from: position), data < range.upperBound {
      let count = min(UInt64(zeros.count), range.upperBound - data)
      try write(Array(zeros[..<Int(count)]), at: data)
      position = data + count
    }
  }

  private func write(_ bytes: [UInt8], at offset: UInt64) throws(StoreFailure) {
    try FileStore.write(bytes, to: self, at: offset)
  }

  /// The first byte from there on that is no hole; nil where there is none up to the file's end. Where the filesystem knows no holes,
  /// everything has bytes.
  func firstData(from offset: UInt64) -> UInt64? {
    guard let start = off_t(exactly: offset) else { return nil }
    let found = lseek(raw, start, uploadfs_seek_data)
    if found >= 0 { return UInt64(found) }
    return errno == ENXIO ? nil : offset
  }

  /// The first hole behind there; nil where the filesystem names none. The end of a file counts as one.
  func firstHole(from offset: UInt64) -> UInt64? {
    guard let start = off_t(exactly: offset) else { return nil }
    let found = lseek(raw, start, uploadfs_seek_hole)
    return found > start ? UInt64(found) : nil
  }

  /// A range lies within the file, and nothing of it is to be read.
  func isHole(_ range: Range<UInt64>) -> Bool {
    var found = stat()
    guard fstat(raw, &found) == 0, range.upperBound <= UInt64(clamping: found.st_size) else { return false }
    return (firstData(from: range.lowerBound) ?? range.upperBound) >= range.upperBound
  }
}

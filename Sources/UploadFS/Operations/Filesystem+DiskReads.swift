import CLinux
import FileModel
import Glibc
import Synchronization

/// Reading and changing files so that it is known what came from the disk meanwhile (``DiskReads``). What is in memory costs nothing
/// more than the call itself.
extension Filesystem {
  /// ``readFully(_:at:into:)``; what is not in memory is noted before it is read.
  func readNoting(
    _ file: CapturedFile, _ descriptor: FileDescriptor, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer
  ) throws(SystemError) -> Int {
    guard offset >= 0 else { return 0 }
    let inMemory = try readCached(descriptor, at: offset, into: buffer)
    guard let known = inMemory else { return try readFromDisk(file, descriptor, at: offset, 0, into: buffer) }
    guard known.count < buffer.count, !known.isEnd else { return known.count }
    return try readFromDisk(file, descriptor, at: offset, known.count, isRefused: known.isRefused, into: buffer)
  }

  /// What the page cache has from the offset on; nil where that cannot be told.
  private func readCached(
    _ descriptor: FileDescriptor, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer
  ) throws(SystemError) -> (count: Int, isEnd: Bool, isRefused: Bool)? {
    guard let base = buffer.baseAddress, knowsMemory.load(ordering: .relaxed) else { return nil }
    var done = 0
    while done < buffer.count {
      let count = uploadfs_read_cached(
        descriptor.number, base + done, buffer.count - done, off_t(offset &+ Int64(done)))
      if count == 0 { return (done, true, false) }
      guard count < 0 else {
        done += count
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN: return (done, false, false)
      case EOPNOTSUPP, ENOSYS, EINVAL:
        knowsMemory.store(false, ordering: .relaxed)
        return nil
      default:
        // The ordinary read says what is wrong.
        return (done, false, true)
      }
    }
    return (done, false, false)
  }

  /// The kernel reads ahead, and does not say how far.
  private func readFromDisk(
    _ file: CapturedFile, _ descriptor: FileDescriptor, at offset: Int64, _ done: Int, isRefused: Bool = false,
    into buffer: UnsafeMutableRawBufferPointer
  ) throws(SystemError) -> Int {
    let range = Self.pageStart(UInt64(offset) + UInt64(done))..<UInt64.max
    file.diskReads.withLock { $0.began(range) }
    let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
    if isRefused {
      do throws(SystemError) {
        try Self.readFirstByte(descriptor, at: offset &+ Int64(done))
      } catch {
        file.diskReads.withLock { $0.readNothing(range) }
        throw error
      }
    }
    defer { file.diskReads.withLock { $0.end(range) } }
    return try done + Self.readFully(descriptor, at: offset &+ Int64(done), into: rest)
  }

  /// A filesystem that does not even say what is in memory has refused the read as such, as one does that an error has shut down: where
  /// the ordinary read fails too, nothing has come from the disk, and what is in memory is in no doubt.
  private static func readFirstByte(_ descriptor: FileDescriptor, at offset: Int64) throws(SystemError) {
    var byte: UInt8 = 0
    _ = try retryingInterrupts { pread(descriptor.number, &byte, 1, off_t(offset)) }
  }

  /// A change that begins or ends within a page: the kernel reads the rest of that page from the disk where it does not have it.
  func changing<Result>(
    _ file: CapturedFile, _ descriptor: FileDescriptor, edges: [UInt64], _ change: () throws(SystemError) -> Result
  ) throws(SystemError) -> Result {
    let page = UInt64(getpagesize())
    let ranges = edges.filter { $0 % page != 0 && !isInMemory(descriptor, around: $0) }.map {
      Self.pageStart($0)..<Self.pageStart($0) + page
    }
    guard !ranges.isEmpty else { return try change() }
    file.diskReads.withLock { reads in for range in ranges { reads.began(range) } }
    defer { file.diskReads.withLock { reads in for range in ranges { reads.end(range) } } }
    return try change()
  }

  /// The bytes on both sides of an offset, as far as the file has them.
  private func isInMemory(_ descriptor: FileDescriptor, around offset: UInt64) -> Bool {
    withUnsafeTemporaryAllocation(byteCount: 2, alignment: 1) { bytes in
      guard knowsMemory.load(ordering: .relaxed), let base = bytes.baseAddress else { return false }
      // Behind the end it has none.
      return uploadfs_read_cached(descriptor.number, base, 1, off_t(clamping: offset - 1)) >= 0
        && uploadfs_read_cached(descriptor.number, base, 1, off_t(clamping: offset)) >= 0
    }
  }

  private static func pageStart(_ offset: UInt64) -> UInt64 { offset / UInt64(getpagesize()) * UInt64(getpagesize()) }
}

/// A captured file that the uploader reads.
final class SpoolReader: ReadableFile {
  private let filesystem: Filesystem
  private let file: CapturedFile
  private let opened: FileDescriptor

  init(_ opened: FileDescriptor, of file: CapturedFile, in filesystem: Filesystem) {
    self.opened = opened
    self.file = file
    self.filesystem = filesystem
  }

  var descriptor: Int32? { opened.number }

  func identity() throws(FileContentsError) -> FileIdentity { try opened.identity() }

  func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileContentsError) -> Int {
    guard let start = Int64(exactly: offset) else { return 0 }
    do throws(SystemError) {
      return try filesystem.readNoting(file, opened, at: start, into: buffer)
    } catch {
      throw FileContentsError(error)
    }
  }

  /// A page that is not there is read by the kernel, which does not say so.
  func readMapped<Result>(_ read: () -> Result) -> Result {
    let all = 0..<UInt64.max
    file.diskReads.withLock { $0.began(all) }
    defer { file.diskReads.withLock { $0.end(all) } }
    return read()
  }

  /// Where the disk has refused any of it there is no other copy.
  func mayDropPageCache() -> Bool {
    file.state.withLock { state in
      filesystem.noteWriteBack(of: file, &state)
      return !state.writeBack.isRefused
    }
  }
}

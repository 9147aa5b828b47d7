import ReceiverCore
import CLinux
import Glibc

/// An open file or directory that closes itself. Sendable: the number never changes, and the calls made with it are
/// safe from several threads.
///
/// Not that of the mount (UploadFS/System), whose calls fail with an errno for the kernel; only the closing would be
/// shared.
final class FileDescriptor: Sendable {
  let raw: CInt

  private init(raw: CInt) { self.raw = raw }

  deinit { close(raw) }

  /// Opens a path; `directory` nil means relative to the working directory.
  static func open(
    _ path: String, in directory: FileDescriptor? = nil, _ flags: CInt, mode: mode_t = 0
  ) throws(StoreFailure) -> FileDescriptor {
    let raw = uploadfs_openat(directory?.raw ?? AT_FDCWD, path, flags | O_CLOEXEC, mode)
    guard raw >= 0 else { throw StoreFailure.last("open") }
    return FileDescriptor(raw: raw)
  }

  /// A stream of this machine, not connected yet.
  static func socket() throws(StoreFailure) -> FileDescriptor {
    let raw = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard raw >= 0 else { throw StoreFailure.last("socket") }
    return FileDescriptor(raw: raw)
  }

  /// Like ``open(_:in:_:mode:)``, but nil when there is no such file.
  static func openIfPresent(
    _ path: String, in directory: FileDescriptor, _ flags: CInt
  ) throws(StoreFailure) -> FileDescriptor? {
    try openIfPresent(EntryName(path), in: directory, flags)
  }

  static func openIfPresent(
    _ name: EntryName, in directory: FileDescriptor, _ flags: CInt
  ) throws(StoreFailure) -> FileDescriptor? {
    let raw = uploadfs_openat(directory.raw, name.characters, flags | O_CLOEXEC, 0)
    if raw < 0, errno == ENOENT { return nil }
    guard raw >= 0 else { throw StoreFailure.last("open") }
    return FileDescriptor(raw: raw)
  }

  /// Opens a file of the receiver's own state: no link, no pipe, no device. What another program has put in its place must not be read,
  /// written through, or waited for.
  static func openOwn(
    _ name: String, in directory: FileDescriptor, _ flags: CInt, mode: mode_t = 0
  ) throws(StoreFailure) -> FileDescriptor {
    let raw = uploadfs_openat(directory.raw, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode)
    guard raw >= 0 else {
      switch errno {
      case ELOOP: throw .damaged("\(name) is a symbolic link")
      case EISDIR: throw .damaged("\(name) is a folder")
      case ENXIO: throw .damaged("\(name) is a pipe or a socket")
      default: throw StoreFailure.last("open \(name)")
      }
    }
    let file = FileDescriptor(raw: raw)
    if let kind = try file.status().kindOfNoFile { throw .damaged("\(name) is \(kind)") }
    return file
  }

  /// Opens a published file to look at it; nil where its mode or the disk does not allow that, and where it is no file or gone by now.
  static func openPublished(
    _ name: String, in directory: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor? {
    let raw = uploadfs_openat(directory.raw, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0)
    guard raw >= 0 else {
      switch errno {
      case ENOENT, ELOOP, ENXIO, EACCES, EPERM, EIO: return nil
      default: throw .last("open")
      }
    }
    let file = FileDescriptor(raw: raw)
    return try file.status().kindOfNoFile == nil ? file : nil
  }

  /// lstat(2) of an entry; nil only where there is none. What could not be read is neither there nor gone.
  static func statusIfPresent(
    _ name: String, in directory: FileDescriptor
  ) throws(StoreFailure) -> stat? {
    try statusIfPresent(EntryName(name), in: directory)
  }

  static func statusIfPresent(
    _ name: EntryName, in directory: FileDescriptor
  ) throws(StoreFailure) -> stat? {
    var found = stat()
    if fstatat(directory.raw, name.characters, &found, AT_SYMLINK_NOFOLLOW) == 0 { return found }
    if errno == ENOENT { return nil }
    throw StoreFailure.last("fstatat")
  }

  /// Of what kind an entry is, as `S_IFREG`; nil where there is none.
  static func kind(of name: String, in directory: FileDescriptor) throws(StoreFailure) -> mode_t? {
    try statusIfPresent(name, in: directory).map { $0.st_mode & S_IFMT }
  }

  func status() throws(StoreFailure) -> stat {
    var status = stat()
    guard fstat(raw, &status) == 0 else { throw StoreFailure.last("fstat") }
    return status
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StoreFailure) {
    guard let position = off_t(exactly: offset) else { throw .io("pwrite: the offset is too large") }
    guard let base = bytes.baseAddress else { return }
    let written = uploadfs_pwrite_all(raw, base, bytes.count, position)
    guard written == bytes.count else { throw StoreFailure.last("pwrite") }
  }

  /// Reads up to the buffer's size; less only at the end of the file.
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(StoreFailure) -> Int {
    guard let start = off_t(exactly: offset), let base = buffer.baseAddress else { return 0 }
    let count = uploadfs_pread_all(raw, base, buffer.count, start)
    guard count == buffer.count || errno == 0 else { throw StoreFailure.last("pread") }
    return count
  }

  func truncate(to size: UInt64) throws(StoreFailure) {
    guard let length = off_t(exactly: size) else { throw .io("ftruncate: the size is too large") }
    guard ftruncate(raw, length) == 0 else { throw StoreFailure.last("ftruncate") }
  }

  /// Has the disk begin with what was written, so that a later sync waits less, and shares its journal's commit with those
  /// of other files.
  func beginWriting() { _ = uploadfs_begin_writing(raw) }

  /// Data and metadata.
  func sync() throws(StoreFailure) {
    guard fsync(raw) == 0 else { throw .lastSync("fsync") }
  }

  /// Data, and what is needed to read it.
  func syncData() throws(StoreFailure) {
    guard fdatasync(raw) == 0 else { throw .lastSync("fdatasync") }
  }

  /// Makes the next read come from the disk, as far as nothing waits to be written.
  func dropCache() { _ = posix_fadvise(raw, 0, 0, POSIX_FADV_DONTNEED) }

  func setMode(_ mode: UInt32) throws(StoreFailure) {
    guard fchmod(raw, mode_t(mode & 0o777)) == 0 else { throw StoreFailure.last("fchmod") }
  }

  func setModified(nanoseconds: Int64) throws(StoreFailure) {
    let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    // Before 1970 the remainder is negative, and the kernel wants 0 to 999,999,999.
    let time =
      rest < 0
      ? timespec(tv_sec: Int(seconds) - 1, tv_nsec: Int(rest) + 1_000_000_000)
      : timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
    guard futimens(raw, [timespec(tv_sec: 0, tv_nsec: Int(UTIME_OMIT_VALUE)), time]) == 0 else {
      throw StoreFailure.last("futimens")
    }
  }

  /// Reserves space where the filesystem can.
  func preallocate(_ bytes: UInt64) throws(StoreFailure) -> SpaceReservation {
    guard bytes > 0, let length = off_t(exactly: bytes) else { return .none }
    if uploadfs_fallocate(raw, CInt(FALLOC_FL_KEEP_SIZE_VALUE), 0, length) == 0 { return .reserved }
    if errno == EOPNOTSUPP || errno == ENOSYS { return .none }
    throw StoreFailure.last("fallocate")
  }

  /// Whether it lies on a filesystem in memory. Told by the mount table: statfs(2), which knows it, too, cannot be
  /// imported.
  func isInMemory() throws(StoreFailure) -> Bool {
    let device = try status().st_dev
    let table = try FileDescriptor.open("/proc/self/mountinfo", O_RDONLY)
    let text = String(decoding: try table.readToEnd(limit: 4 << 20), as: UTF8.self)
    return FileDescriptor.filesystem(of: device, mountinfo: text) == "tmpfs"
  }

  /// The filesystem's type: a line is `ID PARENT MAJOR:MINOR … - TYPE SOURCE OPTIONS` (proc(5)).
  static func filesystem(of device: dev_t, mountinfo: String) -> Substring? {
    // As makedev(3) packs them.
    let major = (device >> 8) & 0xfff | (device >> 32) & ~0xfff
    let minor = device & 0xff | (device >> 12) & ~0xff & 0xffff_ffff
    let number = "\(major):\(minor)"
    for line in mountinfo.split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count > 3, words[2] == number, let dash = words.firstIndex(of: "-"), dash + 1 < words.count else {
        continue
      }
      return words[dash + 1]
    }
    return nil
  }

  /// All of a file that does not know its size, as those of /proc.
  private func readToEnd(limit: Int) throws(StoreFailure) -> [UInt8] {
    var bytes: [UInt8] = []
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    defer { buffer.deallocate() }
    while bytes.count < limit {
      let count = try read(into: buffer, at: UInt64(bytes.count))
      bytes.append(contentsOf: buffer[..<count])
      if count < buffer.count { break }
    }
    return bytes
  }

  /// All of a small file.
  func readAll(limit: Int) throws(StoreFailure) -> [UInt8] {
    let size = min(limit, Int(clamping: try status().st_size))
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, size), alignment: 16)
    defer { buffer.deallocate() }
    let count = try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<size]), at: 0)
    return Array(buffer[..<count])
  }
}

/// Macros of linux/stat.h and linux/falloc.h, which are part of the kernel's interface and never change.
private let UTIME_OMIT_VALUE = (1 << 30) - 2
private let FALLOC_FL_KEEP_SIZE_VALUE = 1

extension stat {
  /// The time of the last change, by the clock.
  var modified: Milliseconds { Milliseconds(st_mtim.tv_sec) * 1000 + Milliseconds(st_mtim.tv_nsec) / 1_000_000 }

  /// What it is, where it is no file; nil when it is one.
  var kindOfNoFile: String? {
    switch st_mode & S_IFMT {
    case S_IFREG: nil
    case S_IFLNK: "a symbolic link"
    case S_IFDIR: "a folder"
    case S_IFIFO: "a pipe"
    default: "no file"
    }
  }

  /// Nothing of the session whose data it is was said to be on the disk.
  var isUntold: Bool { st_mode & 0o7777 == FileStore.untoldMode }

  /// Who else can change the file, by what is known of it; nil where it is the receiver's alone. That may pass: a backup has linked it.
  func othersWords(owner: uid_t) -> String? {
    if st_nlink > 1 { return "has a second name, through which it can be changed" }
    return st_uid == geteuid() || st_uid == owner ? nil : "belongs to another user"
  }
}

/// What changes with every change of a file's content, and where another file has its name.
struct DataStamp: Hashable, Sendable {
  private var inode: UInt64
  private var size: Int64
  private var modified: [Int]
  private var changed: [Int]

  /// Nil where the disk does not say it: then it is not known what the file is, and it has to be read.
  init?(_ file: FileDescriptor) {
    var status = stat()
    guard fstat(file.raw, &status) == 0 else { return nil }
    self.init(status)
  }

  init(_ status: stat) {
    inode = UInt64(status.st_ino)
    size = Int64(status.st_size)
    modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
    changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
  }
}

extension StoreFailure {
  /// What the sync that just failed says: also where the disk is full, it is unknown what of the bytes is on it.
  static func lastSync(_ call: String) -> StoreFailure {
    .io("\(call): \(String(cString: strerror(errno)))")
  }

  /// What the call that just failed says through errno.
  static func last(_ call: String) -> StoreFailure {
    let code = errno
    return switch code {
    case ENOSPC, EDQUOT: .full
    case EMFILE: .tooManyOpen("\(call): this process has as many files open as it may (ulimit -Hn, LimitNOFILE=)")
    case ENFILE: .tooManyOpen("\(call): this machine has as many files open as it may (fs.file-max)")
    default: .io("\(call): \(String(cString: strerror(code)))")
    }
  }
}

import CLinux
import FileModel
import Glibc
import Synchronization

/// The marks that stand on no file, in one file of the spool's state, `.state/marks`: of files whose attribute the disk did not take or
/// the daemon's user may not change, and of all files where the spool's filesystem has no attributes. Where it names a file, it
/// decides, because it is written after the attribute.
///
/// Files are named by inode number and by identity. A number that is used again is forgotten when the new file is made, and one that the
/// scan has not met when the scan ends. In a spool that was moved the identities count.
///
/// Its lock is the innermost one, and is held while the local disk is waited for.
final class MarkRecord: Sendable {
  private struct State {
    var recorded = RecordedMarks()
    /// From another place, until the scan has met every file.
    var former: [FileID: WriterStateXattr] = [:]
    /// The record, opened for appending; nil until it is needed.
    var file: FileDescriptor?
    var byteCount = 0
    /// A failed append has left a part of its line, which could not be cut off.
    var endsInPart = false
    /// Lines were appended and not synced.
    var isUnsynced = false
    /// A sync has failed, which the disk says once: what was appended may not be there, and a later sync would not say so.
    var isDoubtful = false
    /// The record was made or replaced, and its folder not synced.
    var isNameUnsynced = false
    /// When more lines than that are there, the record is written anew.
    var lineCountMax = MarkRecord.linesMin
  }

  private static let name = "marks"
  private static let temporaryName = "marks.new"
  private static let bytesMax = 256 << 20
  /// The record is not written anew below this, nor before it has four lines for each mark.
  private static let linesMin = 1024

  /// `.state/` of the spool.
  private let directory: FileDescriptor
  /// Gives back the room on a full disk that is kept for what has to be recorded; false when there is none.
  private let giveRoom: @Sendable () -> Bool
  private let state: Mutex<State>

  /// Reads what earlier runs have recorded.
  init(in directory: FileDescriptor, giveRoom: @escaping @Sendable () -> Bool = { false }) throws(SystemError) {
    self.directory = directory
    self.giveRoom = giveRoom
    var state = State()
    if let bytes = try Self.read(in: directory) {
      state.recorded = RecordedMarks(String(decoding: bytes, as: UTF8.self))
      state.byteCount = bytes.count
      state.endsInPart = !bytes.isEmpty && bytes.last != UInt8(ascii: "\n")
    }
    self.state = Mutex(state)
  }

  /// Lines of earlier runs that name no file, as after damage.
  var unreadableLineCount: Int { state.withLock { $0.recorded.unreadableLineCount } }

  /// What is recorded of a file; nil where its attribute decides.
  func mark(of inode: UInt64) -> WriterStateXattr? { state.withLock { $0.recorded.marks[inode] } }

  /// Whether what is recorded of an inode number may be of a capture: false where it is of another one.
  func mayBe(of id: FileID, _ inode: UInt64) -> Bool {
    state.withLock { $0.recorded.ids[inode].map { $0 == id } ?? true }
  }

  /// What was recorded of a capture where the spool lay before.
  func formerMark(of id: FileID) -> WriterStateXattr? { state.withLock { $0.former[id] } }

  /// The spool lies elsewhere than it did when this was recorded.
  func wasMoved() {
    state.withLock { $0.former = $0.recorded.takeByIdentity() }
  }

  /// Every file of a spool that was moved says by now what was recorded of it.
  func forgetFormerPlace() throws(SystemError) {
    try state.withLock { (state) throws(SystemError) in
      state.former = [:]
      try replace(&state)
    }
  }

  /// Records a mark; durable on return if that is asked for, and otherwise after the next ``synchronize()``. When it fails,
  /// what was recorded before stands.
  func keep(_ mark: WriterStateXattr, of inode: UInt64, as id: FileID? = nil, durably: Bool) throws(SystemError) {
    try state.withLock { (state) throws(SystemError) in
      let isKnown = state.recorded.marks[inode] == mark && state.recorded.ids[inode] == id
      if !isKnown { try append(mark, of: inode, as: id, &state) }
      // Also where it was recorded before and that failed to become durable.
      if durably { try synchronize(&state) }
      if !isKnown { replaceIfLong(&state) }
    }
  }

  /// The file's attribute decides from now on. Not durable: what comes back after a power cut is the careful answer.
  func forget(_ inode: UInt64) throws(SystemError) {
    try state.withLock { (state) throws(SystemError) in
      guard state.recorded.marks[inode] != nil else { return }
      try append(nil, of: inode, &state)
      replaceIfLong(&state)
    }
  }

  /// Forgets every file that is not there any more.
  func retain(_ isThere: (UInt64) -> Bool) throws(SystemError) {
    try state.withLock { (state) throws(SystemError) in
      for inode in state.recorded.marks.keys where !isThere(inode) { try append(nil, of: inode, &state) }
      replaceIfLong(&state)
    }
  }

  /// Makes durable what was recorded so far.
  func synchronize() throws(SystemError) {
    try state.withLock { (state) throws(SystemError) in try synchronize(&state) }
  }

  /// The disk has every attribute of files that was set before, without what was written to these files. A journal is written in
  /// order, and this writes it up to a change of its own; filesystems that copy on write (btrfs) change the bytes of a file and
  /// its attributes together.
  func commitEarlier() throws(SystemError) {
    let times = [timespec(tv_sec: 0, tv_nsec: uploadfs_utime_omit), timespec(tv_sec: 0, tv_nsec: uploadfs_utime_now)]
    try check(futimens(directory.number, times))
    try check(fsync(directory.number))
  }

  private func synchronize(_ state: inout State) throws(SystemError) {
    if state.isDoubtful {
      try replace(&state)
    } else if state.isUnsynced, let file = state.file {
      do throws(SystemError) {
        try check(fdatasync(file.number))
      } catch {
        state.isDoubtful = true
        throw error
      }
      state.isUnsynced = false
    }
    if state.isNameUnsynced {
      try check(fsync(directory.number))
      state.isNameUnsynced = false
    }
  }

  private func append(
    _ mark: WriterStateXattr?, of inode: UInt64, as id: FileID? = nil, _ state: inout State
  ) throws(SystemError) {
    do throws(SystemError) {
      try appendOnce(mark, of: inode, as: id, &state)
    } catch {
      guard error.isOfSpace, giveRoom() else { throw error }
      try appendOnce(mark, of: inode, as: id, &state)
    }
  }

  private func appendOnce(
    _ mark: WriterStateXattr?, of inode: UInt64, as id: FileID?, _ state: inout State
  ) throws(SystemError) {
    let file = try opened(&state)
    var changed = state.recorded
    let line = Array(((state.endsInPart ? "\n" : "") + changed.set(mark, of: inode, as: id)).utf8)
    do throws(SystemError) {
      try Self.write(line, to: file)
    } catch {
      state.endsInPart = ftruncate(file.number, off_t(state.byteCount)) != 0
      throw error
    }
    state.endsInPart = false
    state.byteCount += line.count
    state.recorded = changed
    state.isUnsynced = true
  }

  private func opened(_ state: inout State) throws(SystemError) -> FileDescriptor {
    if let file = state.file { return file }
    let number = try check(
      uploadfs_openat(
        directory.number, Self.name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600))
    let file = FileDescriptor(owning: number, isReadable: false, isWritable: true)
    state.file = file
    state.isNameUnsynced = true
    return file
  }

  /// A long record is replaced by the shortest one that says the same. When that fails the long one stays, and is tried again
  /// when it has become twice as long.
  private func replaceIfLong(_ state: inout State) {
    // The lines of the former place are still needed.
    guard state.former.isEmpty, state.recorded.lineCount > max(state.lineCountMax, 4 * state.recorded.marks.count)
    else {
      return
    }
    do throws(SystemError) {
      try replace(&state)
    } catch {
      state.lineCountMax = 2 * state.recorded.lineCount
    }
  }

  /// A new file takes the record's place, and is durable but for its name.
  private func replace(_ state: inout State) throws(SystemError) {
    let text = state.recorded.text
    let file = try replace(by: Array(text.utf8))
    state.recorded = RecordedMarks(text)
    state.byteCount = text.utf8.count
    state.endsInPart = false
    state.isUnsynced = false
    state.isDoubtful = false
    state.isNameUnsynced = true
    state.lineCountMax = Self.linesMin
    state.file = file
  }

  private func replace(by bytes: [UInt8]) throws(SystemError) -> FileDescriptor {
    let flags = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
    // What lies there is of a daemon that died, or no file.
    unlinkat(directory.number, Self.temporaryName, 0)
    let number = try check(uploadfs_openat(directory.number, Self.temporaryName, flags, 0o600))
    let file = FileDescriptor(owning: number, isReadable: false, isWritable: true)
    try Self.write(bytes, to: file)
    try check(fsync(number))
    try check(renameat(directory.number, Self.temporaryName, directory.number, Self.name))
    return file
  }

  private static func write(_ bytes: [UInt8], to file: FileDescriptor) throws(SystemError) {
    var done = 0
    while done < bytes.count {
      let rest = bytes[done...]
      done += try retryingInterrupts { rest.withUnsafeBytes { Glibc.write(file.number, $0.baseAddress, $0.count) } }
    }
  }

  /// Nil where there is none.
  private static func read(in directory: FileDescriptor) throws(SystemError) -> [UInt8]? {
    let number = uploadfs_openat(directory.number, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0)
    guard number >= 0 else {
      let error = SystemError.last
      guard error == .notFound else { throw error }
      return nil
    }
    let file = FileDescriptor(owning: number, isReadable: true, isWritable: false)
    let status = try file.status()
    guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= bytesMax else { throw .invalid }
    var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
    var done = 0
    while done < bytes.count {
      let count = try retryingInterrupts {
        bytes[done...].withUnsafeMutableBytes { Glibc.read(number, $0.baseAddress, $0.count) }
      }
      if count == 0 { break }
      done += count
    }
    return Array(bytes.prefix(done))
  }
}

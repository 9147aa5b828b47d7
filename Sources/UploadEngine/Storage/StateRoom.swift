import CLinux
import Glibc
public import Logging
import Synchronization
import TransferModel

/// Room on the spool's disk that is the state's own: a file of that size, which goes when the disk is full, so that what has to be
/// recorded has a place. It is made again once there is space, for which delivered copies go.
///
/// It has as many bytes as the disk gives it, up to a bound: twice the log that SQLite lets grow before it empties it.
public final class StateRoom: Sendable {
  private struct State {
    /// What the file takes on the disk.
    var heldBytes: Int
    /// Why it cannot be made at all, whatever space there is: an errno.
    var failure: Int32?
    /// A thread is making it again.
    var isWanted = false
    /// It is less than it is to be, which has been said.
    var isShort = false
    /// Files that go before delivered copies do.
    var dispensable: [String] = []
  }

  private let path: String
  private let bytesMax: Int
  private let folder: String
  private let logger: Logger
  private let state: Mutex<State>

  /// The room in a folder, as an earlier run has left it; where there is none it is made, if there is space.
  public init(in folder: String, logger: Logger) {
    path = folder + "/room"
    self.folder = folder
    bytesMax = Self.bytesMax(on: folder)
    self.logger = logger
    state = Mutex(State(heldBytes: 0))
    grow()
  }

  /// The disk gives it all that it is to have.
  var isWhole: Bool { state.withLock { $0.heldBytes >= bytesMax } }

  /// Gives the room to whatever is written next. False when there is none to give.
  public func giveBack() -> Bool {
    let (given, isNew) = state.withLock { state in
      guard state.heldBytes > 0, Self.free(path) else { return (0, false) }
      defer { (state.heldBytes, state.isShort) = (0, true) }
      return (state.heldBytes, !state.isShort)
    }
    guard given > 0 else { return false }
    if isNew {
      logger.warning(
        "the spool's disk is full: the state uses the room that was kept for it, and delivered copies go",
        metadata: ["bytes": "\(given)"])
    }
    flush()
    return true
  }

  /// Makes the room whole again. Where the disk has no space for that, `makeSpace` is asked to remove so many bytes of what may go, and
  /// says whether it has removed any. One caller at a time; others go their way.
  func restore(makeSpace: (_ bytes: UInt64) -> Bool) {
    let isMine = state.withLock { state in
      guard state.heldBytes < bytesMax, !state.isWanted else { return false }
      state.isWanted = true
      return true
    }
    guard isMine else { return }
    defer { state.withLock { $0.isWanted = false } }
    // Some filesystems give the blocks of removed files back only when their journal is written.
    if !grow(), removeDispensable() {
      flush()
      grow()
    }
    let lacksSpace = state.withLock { $0.heldBytes < bytesMax && $0.failure == nil }
    if lacksSpace, makeSpace(UInt64(bytesMax)) {
      flush()
      grow()
    }
    say()
  }

  /// From now on this file goes first where there is no space; it is one that can be made again.
  func letGo(_ path: String) { state.withLock { $0.dispensable.append(path) } }

  private func removeDispensable() -> Bool {
    state.withLock { $0.dispensable }.reduce(false) { hasRemoved, path in unlink(path) == 0 || hasRemoved }
  }

  /// As much as there is space for. True when it is whole then.
  @discardableResult
  private func grow() -> Bool {
    state.withLock { state in
      (state.heldBytes, state.failure) = Self.take(path, bytesMax: bytesMax)
      return state.heldBytes >= bytesMax
    }
  }

  private func say() {
    let (held, failure, isNew) = state.withLock { state in
      let isShort = state.heldBytes < bytesMax
      defer { state.isShort = isShort }
      return (state.heldBytes, state.failure, isShort != state.isShort)
    }
    guard isNew else { return }
    if let failure {
      logger.warning(
        "the room that is kept for the state cannot be made: move away what lies in its place",
        metadata: ["path": "\(path)", "reason": "\(String(cString: strerror(failure)))"])
    } else if held < bytesMax {
      logger.warning(
        "the spool's disk has no space for the room that is kept for the state",
        metadata: ["bytes": "\(held)", "wanted": "\(bytesMax)"])
    } else {
      logger.info("there is room for the state again", metadata: ["bytes": "\(held)"])
    }
  }

  private func flush() {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return }
    // What cannot be written back is told to its writers.
    _ = uploadfs_syncfs(descriptor)
    close(descriptor)
  }

  /// Its blocks are free when this returns true. Of a file that is only removed XFS gives them back later, on a thread of its own.
  /// What is to be written in their place may find none by then. No other program reads the room.
  private static func free(_ path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return unlink(path) == 0 }
    defer { close(descriptor) }
    let isEmptied = ftruncate(descriptor, 0) == 0
    // An empty one that cannot be removed is as good: it is made as long again as one that is not there.
    return unlink(path) == 0 || isEmptied
  }

  /// Makes the file as large as the disk lets it become; what it takes then. The errno says why it cannot be made whatever space there is:
  /// a folder, a link or another user's file stands in its place. Nil where space alone is missing.
  private static func take(_ path: String, bytesMax: Int) -> (bytes: Int, failure: Int32?) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return (0, errno == ENOSPC || errno == EDQUOT ? nil : errno) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return (0, errno) }
    guard status.st_mode & S_IFMT == S_IFREG else { return (0, EEXIST) }
    var bytes = bytesMax
    while bytes >= bytesMax / 8 {
      if fstat(descriptor, &status) == 0, Int(status.st_blocks) * 512 >= bytes { return (bytes, nil) }
      if posix_fallocate(descriptor, 0, bytes) == 0 { return (bytes, nil) }
      bytes /= 2
    }
    // Less is of no use, and a file that could not become so large may have taken some of it.
    unlink(path)
    return (0, nil)
  }

  private static func bytesMax(on folder: String) -> Int {
    var numbers = statvfs()
    // What cannot be asked may have any size.
    guard statvfs(folder, &numbers) == 0 else { return UploadConstants.stateRoomBytes }
    let (diskBytes, isOver) = UInt64(numbers.f_blocks).multipliedReportingOverflow(by: UInt64(numbers.f_frsize))
    return isOver
      ? UploadConstants.stateRoomBytes : min(UploadConstants.stateRoomBytes, Int(clamping: diskBytes / 16) & ~0xffff)
  }
}

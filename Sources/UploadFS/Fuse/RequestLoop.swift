import CFuse
import Glibc
import Synchronization
import Threads

/// Receives the kernel's requests, and has libfuse call back for each of them on one of several threads.
///
/// Libfuse's own loop gives every request to the thread that comes next: with a disk that hangs all of them soon wait for it, and
/// no thread answers what needs no disk (docs/semantics.md, S41i). Threads are started when they are needed.
final class RequestLoop: Sendable {
  // Libfuse's session, whose functions that receive and process are made for several threads. The mount that owns it outlives this.
  private struct Session: @unchecked Sendable { let pointer: OpaquePointer }

  private let session: Session
  private let filesystem: Filesystem
  private let turns: Mutex<RequestTurns<HeldRequest>>
  private let started = Mutex<[NamedThread]>([])

  init(session: OpaquePointer, filesystem: Filesystem, diskThreadsMax: Int) {
    self.session = Session(pointer: session)
    self.filesystem = filesystem
    turns = Mutex(RequestTurns(diskThreadsMax: diskThreadsMax))
  }

  /// Answers on this thread and on further ones, until the session has ended and all of them are done.
  func run() {
    serve()
    // One that was started last is in the list before the one that started it ends.
    while let thread = started.withLock({ $0.popLast() }) { thread.join() }
  }

  private func serve() {
    var buffer = fuse_buf()
    defer { free(buffer.mem) }
    var request = uploadfs_request()
    // A session ends for all threads: one that waits for a request is told so by the kernel. Other errors it does not have.
    while fuse_session_exited(session.pointer) == 0,
      uploadfs_session_receive(session.pointer, &buffer, &request) == 1
    {
      if turns.withLock({ $0.received() }) { startThread() }
      if mayBeHeldUp(request) {
        answerAtDisk(&buffer, bytes: request.bytes)
      } else {
        fuse_session_process_buf(session.pointer, &buffer)
      }
      turns.withLock { $0.receives() }
    }
  }

  /// Or later, by another thread, where as many as may are there.
  private func answerAtDisk(_ buffer: inout fuse_buf, bytes: Int) {
    let begins = turns.withLock { turns in
      guard !turns.begins(bytes: bytes) else { return true }
      guard let held = HeldRequest(&buffer) else {
        // No memory for it elsewhere.
        turns.beginsAnyway()
        return true
      }
      turns.waits(held, bytes: bytes)
      return false
    }
    guard begins else { return }
    fuse_session_process_buf(session.pointer, &buffer)
    while let next = turns.withLock({ $0.ended() }) { next.process(session.pointer) }
  }

  /// Whether the answer can take as long as the spool's disk does. What does not is asked of a disk through ``DiskInquiry`` alone.
  private func mayBeHeldUp(_ request: uploadfs_request) -> Bool {
    let node = NodeID(rawValue: request.node)
    return switch request.kind {
    case UPLOADFS_REQUEST_OF_THE_SESSION: false
    case UPLOADFS_REQUEST_LOOKUP: !(node.isVirtual || request.name.map { isReserved($0, in: node) } ?? false)
    case UPLOADFS_REQUEST_LOOK: !(node.isVirtual || node == .root)
    case UPLOADFS_REQUEST_READ: !node.isVirtual
    // Words that are written to a status are recorded before the call returns.
    default: true
    }
  }

  private func isReserved(_ name: UnsafePointer<CChar>, in node: NodeID) -> Bool {
    node == .root && filesystem.isReserved(DirectoryEntry(directory: node, name: EntryName(cString: name)))
  }

  private func startThread() {
    started.withLock { started in
      guard let thread = NamedThread("fuse", .answering, { [self] in serve() }) else {
        return turns.withLock { $0.hasNotStarted() }
      }
      started.append(thread)
    }
  }
}

/// A request that waits for its turn.
private final class HeldRequest: @unchecked Sendable {
  // Sound because the bytes never change, and one thread processes them.
  private var buffer = fuse_buf()

  /// Takes it out of a thread's buffer; nil where there is no memory for that.
  init?(_ received: inout fuse_buf) {
    guard uploadfs_take_request(&received, &buffer) else {
      buffer.mem = nil
      return nil
    }
  }

  deinit { free(buffer.mem) }

  func process(_ session: OpaquePointer) { fuse_session_process_buf(session, &buffer) }
}

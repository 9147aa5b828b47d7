public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Lookup
import Synchronization

/// When what is not published is on the disk.
extension FileStore {
  func noteWritten(_ files: SessionFiles, _ id: SessionID) throws(StoreFailure) {
    let isNoted = openFiles.withLock { open in
      if open.written[id] == nil, open.written.count >= openSessionsMax / 2 { return false }
      open.written[id] = files
      return true
    }
    if !isNoted { try sync(files, id) }
  }

  /// Brings to the disk what was written before the call. A failure is remembered by the session that it befell, which is
  /// then not published before its bytes were read from the disk again.
  public func syncWritten() throws(StoreFailure) {
    let written = openFiles.withLock { open in
      defer { open.written = [:] }
      return open.written
    }
    var failure: StoreFailure?
    for (id, files) in written {
      do throws(StoreFailure) { try sync(files, id) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  /// Whatever ``syncWritten()`` is doing meanwhile, this returns only when the disk has it.
  public func secure(_ session: SessionID) throws(StoreFailure) {
    try requireState()
    let files = try ownFiles(of: session)
    let isUntold = try files.data.status().isUntold
    try openFiles.withLock { (open) throws(StoreFailure) in
      FileStore.compare(files, session, &open)
      if isUntold { try FileStore.setTold(files, session, &open) }
    }
    // Before the sync that brings it to the disk: from the answer on its client may give up its own copy.
    if !files.isReliance.load(ordering: .acquiring) {
      try files.journal.append(JournalRecord.reliedUpon.bytes)
      files.isReliance.store(true, ordering: .releasing)
    }
    try sync(files, session, withMode: isUntold)
    if openFiles.withLock({ $0.failed.contains(session) }) { throw .io("an earlier write did not reach the disk") }
  }

  /// From the next sync on a session without a journal is a damaged one.
  private static func setTold(
    _ files: SessionFiles, _ id: SessionID, _ open: inout OpenFiles
  ) throws(StoreFailure) {
    guard fchmod(files.data.raw, 0o600) == 0 else { throw StoreFailure.last("fchmod") }
    if open.writing[id] == nil, open.stamps[id] != nil { open.stamps[id] = DataStamp(files.data) }
  }

  func sync(_ files: SessionFiles, _ id: SessionID, withMode: Bool = false) throws(StoreFailure) {
    try syncLock(of: id).withLock { () throws(StoreFailure) in
      do throws(StoreFailure) {
        try beforeSync(.data)
        if withMode { try files.data.sync() } else { try files.data.syncData() }
        try files.journal.sync()
        try root(files)
      } catch {
        openFiles.withLock { _ = $0.failed.insert(id) }
        throw error
      }
    }
  }

  /// One sync of a session at a time. The kernel tells a failure once for each descriptor: of two that sync the same bytes, one
  /// would hear of it, and the other one publish them before the first has said so.
  func syncLock(of id: SessionID) -> SyncLock {
    syncLocks[id.text.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xffff } % syncLocks.count]
  }

  /// Brings the session's folder and its name to the disk, once.
  func root(_ files: SessionFiles) throws(StoreFailure) {
    guard !files.isRooted.load(ordering: .acquiring) else { return }
    try beforeSync(.sessionFolder)
    try files.directory.sync()
    try beforeSync(.sessionsFolder)
    try sessions.sync()
    files.isRooted.store(true, ordering: .releasing)
  }
}

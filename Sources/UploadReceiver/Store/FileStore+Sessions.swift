public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Lookup
import Synchronization

/// Which files a session has, and which of them are open.
extension FileStore {
  /// Makes the session's files; a session that a crash leaves without its first record is removed at the next start.
  public func create(_ facts: SessionRecord) throws(StoreFailure) -> SpaceReservation {
    try requireState()
    guard mkdirat(sessions.raw, facts.id, 0o700) == 0 else { throw .last("mkdir") }
    let directory = try FileDescriptor.open(facts.id, in: sessions, O_RDONLY | O_DIRECTORY)
    let data = try FileDescriptor.open("data", in: directory, O_RDWR | O_CREAT | O_EXCL, mode: FileStore.untoldMode)
    let file = try FileDescriptor.open(
      "journal", in: directory, O_RDWR | O_APPEND | O_CREAT | O_EXCL, mode: 0o600)
    let reservation = isInMemory ? .none : try data.preallocate(facts.opening.sizeBytes ?? 0)
    let files = try SessionFiles(directory: directory, data: data, journal: file, beforeSync: beforeSync)
    _ = try files.journal.append([JournalRecord.session(facts).bytes, JournalRecord.reliesWhenSaid.bytes])
    keepOpen(files, for: facts.sessionID)
    try noteWritten(files, facts.sessionID)
    return reservation
  }

  private func keepOpen(_ files: SessionFiles, for id: SessionID) {
    openFiles.withLock { open in
      if open.sessions.updateValue(files, forKey: id) == nil { open.order.append(id) }
      // A request that uses the oldest one's files keeps them alive until it is done.
      while open.order.count > openSessionsMax { open.sessions[open.order.removeFirst()] = nil }
    }
  }

  func close(_ id: SessionID) {
    openFiles.withLock { open in
      open.sessions[id] = nil
      open.written[id] = nil
      open.order.removeAll { $0 == id }
    }
  }

  private func files(of id: SessionID) throws(StoreFailure) -> SessionFiles {
    if let files = openFiles.withLock({ $0.sessions[id] }) { return files }
    guard
      let directory = try FileDescriptor.openIfPresent(id.text, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    else { throw try gone(id) }
    if try checkOwn(directory, id) == nil {
      // Taken away: nothing of what was there is stored.
      openFiles.withLock { _ = $0.failed.insert(id) }
    } else if let data = try FileDescriptor.statusIfPresent("data", in: directory), data.st_mode & 0o7777 != 0o600,
      !data.isUntold
    {
      // A publication that did not come to its end may have left the mode of the published file. Where that cannot be taken back the
      // open below fails.
      _ = fchmodat(directory.raw, "data", 0o600, 0)
    }
    let files = try SessionFiles(
      directory: directory, data: try FileDescriptor.openOwn("data", in: directory, O_RDWR | O_CREAT, mode: 0o600),
      journal: try FileDescriptor.openOwn("journal", in: directory, O_RDWR | O_APPEND), beforeSync: beforeSync)
    keepOpen(files, for: id)
    return files
  }

  /// The session's folder is not there, and the folder of all sessions is.
  private func gone(_ id: SessionID) throws(StoreFailure) -> StoreFailure {
    try requireState()
    return .sessionGone("the folder of the upload session \(id.text) is gone")
  }

  /// Fails where a session's folder holds something else than what the receiver has put there, through which it must neither write
  /// nor publish; the inodes of its data and of its journal, nil where there is no data.
  func checkOwn(
    _ directory: FileDescriptor, _ id: SessionID
  ) throws(StoreFailure) -> (data: UInt64, journal: UInt64)? {
    guard let journal = try ownFile("journal", in: directory, id) else {
      throw .damaged("the upload session \(id.text) has no journal")
    }
    return try ownFile("data", in: directory, id).map { ($0, journal) }
  }

  private func ownFile(
    _ name: String, in directory: FileDescriptor, _ id: SessionID
  ) throws(StoreFailure) -> UInt64? {
    guard let found = try FileDescriptor.statusIfPresent(name, in: directory) else { return nil }
    if let kind = found.kindOfNoFile { throw .damaged("\(name) of the upload session \(id.text) is \(kind)") }
    if let words = found.othersWords(owner: owner) { throw .io("\(name) of the upload session \(id.text) \(words)") }
    return UInt64(found.st_ino)
  }

  /// The session's files, which are still those that lie in its folder. Of data that was taken away or exchanged nothing is believed
  /// before it has been read.
  func ownFiles(of id: SessionID) throws(StoreFailure) -> SessionFiles {
    let files = try files(of: id)
    guard let folder = try FileDescriptor.statusIfPresent(id.text, in: sessions) else {
      close(id)
      throw try gone(id)
    }
    guard UInt64(folder.st_ino) == files.identity.directory else {
      close(id)
      throw .damaged("another folder is in the place of that of the upload session \(id.text)")
    }
    let found: (data: UInt64, journal: UInt64)?
    do throws(StoreFailure) {
      found = try checkOwn(files.directory, id)
    } catch {
      close(id)
      throw error
    }
    if let found, found.data == files.identity.data, found.journal == files.identity.journal { return files }
    close(id)
    openFiles.withLock { open in
      open.failed.insert(id)
      open.stamps[id] = nil
    }
    throw .io("another program has taken away or exchanged files of the upload session \(id.text)")
  }

  /// Likewise, or those that are in their place by now.
  func presentFiles(of id: SessionID) throws(StoreFailure) -> SessionFiles {
    do throws(StoreFailure) { return try ownFiles(of: id) } catch .io { return try ownFiles(of: id) }
  }
}

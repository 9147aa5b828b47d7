import CLinux
import FileModel
import Glibc
import Synchronization

/// What lay in the spool at the start.
extension Filesystem {
  /// Walks the spool on the caller's thread and says `found` of each regular file that nobody has open for writing, then
  /// `scanEnded`. Safe while mounted and while writers work; a file that a writer made meanwhile is not mentioned.
  ///
  /// What cannot be read is neither empty nor gone: such a folder is read again, with growing pauses, and until then the scan has
  /// not ended. Returns without that once ``stopFlushing()`` was called.
  public func scanSpool() {
    do throws(SystemError) {
      // The daemon before may have been killed after it had set marks and before the disk had them.
      try markRecord.commitEarlier()
    } catch {
      // A disk that does not even take this is asked for each file.
    }
    movedDuringScan.withLock { $0 = [] }
    var scan = Scan()
    var pauseSeconds = 1
    while true {
      walk(&scan)
      if !scan.unread.isEmpty {
        for (node, error) in scan.unread { sink.handle(.scanFailing(path(of: node), errno: error.code)) }
        guard flushes.waitUnlessClosed(seconds: pauseSeconds) else { return }
        pauseSeconds = min(2 * pauseSeconds, DiskPause.secondsMax)
        scan.pending = scan.unread.map(\.node)
        scan.unread = []
        continue
      }
      let moved = movedDuringScan.withLock { moved -> [NodeID] in
        guard let waiting = moved, !waiting.isEmpty else {
          moved = nil
          return []
        }
        moved = []
        return waiting
      }
      if moved.isEmpty { break }
      for node in moved { take(node, into: &scan.pending) }
    }
    // Every name is known now.
    for file in scan.linked { announceFound(file) }
    forgetRecordedMarksOfMissing()
    leaveStamp()
    sink.handle(.scanEnded)
  }

  /// How far the walk has come.
  private struct Scan {
    var pending = [NodeID.root]
    var linked: [CapturedFile] = []
    /// Folders that could not be read as a whole; they are counted in the node table until they are.
    var unread: [(node: NodeID, error: SystemError)] = []
  }

  private func walk(_ scan: inout Scan) {
    while let next = scan.pending.popLast() {
      // The count keeps the directory in the table until its entries are.
      do throws(SystemError) {
        try walk(next, &scan)
        forget(next, count: 1)
      } catch  where error.isAbsence {
        // Taken away meanwhile.
        forget(next, count: 1)
      } catch {
        scan.unread.append((next, error))
      }
    }
  }

  /// What can be read of a folder that fails half-way is found all the same.
  private func walk(_ directory: NodeID, _ scan: inout Scan) throws(SystemError) {
    let (names, failure) = try entryNames(of: directory)
    var firstFailure = failure
    for name in names {
      do throws(SystemError) {
        try take(DirectoryEntry(directory: directory, name: name), into: &scan)
      } catch  where error.isAbsence {
        continue
      } catch {
        firstFailure = firstFailure ?? error
      }
    }
    if let firstFailure { throw firstFailure }
  }

  private func take(_ entry: DirectoryEntry, into scan: inout Scan) throws(SystemError) {
    let found = try namespaceLock.shared { () throws(SystemError) -> (node: NodeID, kind: NodeKind, links: UInt64)? in
      let status = try location(of: entry).status()
      guard status.kind != .other else { return nil }
      return (try adopt(status, at: entry, counting: status.kind == .directory), status.kind, UInt64(status.st_nlink))
    }
    guard let found else { return }
    if found.kind == .directory {
      scan.pending.append(found.node)
    } else if let file = file(of: found.node) {
      if found.links > 1 { scan.linked.append(file) } else { announceFound(file) }
    }
  }

  /// Something that moved during the scan is looked at again.
  private func take(_ node: NodeID, into pending: inout [NodeID]) {
    let file = withNodes { namespace -> CapturedFile? in
      if namespace.table[node]?.kind == .directory { namespace.table.countLookup(node) }
      return namespace.table[node]?.file
    }
    if let file {
      announceFound(file)
    } else if nodes.withLock({ $0.table[node]?.kind == .directory }) {
      pending.append(node)
    }
  }

  private func announceFound(_ file: CapturedFile) {
    if adoptSurvivingWriter(of: file) { return }
    announce(file) { state in
      guard !state.foundAnnounced, !state.wasCreatedHere, !state.activity.isGone, state.activity.isQuiet else {
        return nil
      }
      state.foundAnnounced = true
      readMark(of: file, &state)
      return .found
    }
  }

  /// The names that could be read, and what the folder failed with after them.
  private func entryNames(of directory: NodeID) throws(SystemError) -> (names: [EntryName], failure: SystemError?) {
    let number = try openDirectory(directory)
    defer { release(number) }
    guard let descriptor = try directoryHandle(number).descriptor else { return ([], nil) }
    var names: [EntryName] = []
    do throws(SystemError) {
      try Self.forEachEntry(of: descriptor) { name, _, _ in
        if !name.isDot, directory != .root || !reservedNames.contains(name) { names.append(name) }
      }
      return (names, nil)
    } catch {
      return (names, error)
    }
  }

  private func path(of directory: NodeID) -> RelativePath {
    let components = nodes.withLock { $0.table.components(of: directory) } ?? []
    return components.reduce(.root) { $0.appending($1.bytes) }
  }
}

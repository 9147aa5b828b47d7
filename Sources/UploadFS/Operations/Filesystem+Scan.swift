import CLinux
import FileModel
import Glibc
import Synchronization

/// What lay in the spool at the start.
extension Filesystem {
  /// Walks the spool on the caller's thread and says `found` of each regular file that no process has open for writing, then
  /// `scanEnded`. Safe while mounted and while writers work; a file that a writer made meanwhile is not mentioned.
  ///
  /// What cannot be read is neither empty nor gone: such a folder is read again, with growing pauses, and until then the scan has
  /// not ended. Returns without that once ``stopFlushing()`` was called.
  public func scanSpool() {
    do throws(SystemError) {
      // The daemon before may have been killed after it had set marks and before the disk had them.
      try marks.record.commitEarlier()
    } catch {
      // A disk that does not even take this is asked for each file.
    }
    movedDuringScan.withLock { $0 = [] }
    var scan = Scan()
    var pauseSeconds = 1
    while true {
      walk(&scan)
      if !scan.unread.isEmpty {
        for (folder, error) in scan.unread { sink.handle(.scanFailing(path(of: folder), errno: error.code)) }
        guard flushes.waitUnlessClosed(seconds: pauseSeconds) else { return }
        // A name that cannot be read for so long holds up no file elsewhere that may have it.
        if pauseSeconds >= Self.linksPauseSeconds { announceLinked(&scan) }
        pauseSeconds = min(2 * pauseSeconds, DiskPause.secondsMax)
        scan.pending = scan.unread.map(\.folder)
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
    announceLinked(&scan)
    forgetRecordedMarksOfMissing()
    spool.history.end(captures: root)
    sink.handle(.scanEnded)
  }

  /// The fourth pause: a quarter of a minute after the first look.
  private static let linksPauseSeconds = 8

  private func announceLinked(_ scan: inout Scan) {
    for file in scan.linked { announceFound(file) }
    scan.linked = []
  }

  /// How far the walk has come.
  private struct Scan {
    var pending = [Folder(node: .root)]
    var linked: [CapturedFile] = []
    /// Folders that could not be read as a whole; they are counted in the node table until they are.
    var unread: [(folder: Folder, error: SystemError)] = []
  }

  private struct Folder {
    var node: NodeID
    /// What is left to be checked; nil for all of it.
    var names: [EntryName]?
  }

  private func walk(_ scan: inout Scan) {
    while let next = scan.pending.popLast() {
      // The count keeps the directory in the table until its entries are.
      do throws(SystemError) {
        guard let rest = try walk(next, &scan) else {
          forget(next.node, count: 1)
          continue
        }
        scan.unread.append(rest)
      } catch  where error.isAbsence {
        // Taken away meanwhile.
        forget(next.node, count: 1)
      } catch {
        scan.unread.append((next, error))
      }
    }
  }

  /// What can be read of a folder that fails half-way is found all the same. What is left of it, and why; nil for nothing.
  private func walk(
    _ folder: Folder, _ scan: inout Scan
  ) throws(SystemError) -> (folder: Folder, error: SystemError)? {
    let (names, failure) =
      if let rest = folder.names { (rest, nil as SystemError?) } else { try entryNames(of: folder.node) }
    var unread: [EntryName] = []
    var firstFailure = failure
    for name in names {
      do throws(SystemError) {
        try take(DirectoryEntry(directory: folder.node, name: name), into: &scan)
      } catch  where error.isAbsence {
        continue
      } catch {
        unread.append(name)
        firstFailure = firstFailure ?? error
      }
    }
    guard let firstFailure else { return nil }
    return (Folder(node: folder.node, names: failure == nil ? unread : nil), firstFailure)
  }

  private func take(_ entry: DirectoryEntry, into scan: inout Scan) throws(SystemError) {
    sink.waitForRoom()
    let found = try namespaceLock.shared { () throws(SystemError) -> (node: NodeID, kind: NodeKind, links: UInt64)? in
      let place = try location(of: entry)
      let status = try place.status()
      guard status.kind != .other else { return nil }
      let node = try adopt(status, at: entry, place, counting: status.kind == .directory)
      return (node, status.kind, UInt64(status.st_nlink))
    }
    guard let found else { return }
    if found.kind == .directory {
      scan.pending.append(Folder(node: found.node))
    } else if let file = file(of: found.node) {
      if found.links > 1 { scan.linked.append(file) } else { announceFound(file) }
    }
  }

  /// Something that moved during the scan is checked again.
  private func take(_ node: NodeID, into pending: inout [Folder]) {
    let file = withNodes { namespace -> CapturedFile? in
      if namespace.table[node]?.kind == .directory { namespace.table.countLookup(node) }
      return namespace.table[node]?.file
    }
    if let file {
      announceFound(file)
    } else if nodes.withLock({ $0.table[node]?.kind == .directory }) {
      pending.append(Folder(node: node))
    }
  }

  /// Says of a file that was not made here that it is there, once, or `again`.
  func announceFound(_ file: CapturedFile, again: Bool = false) {
    if adoptSurvivingWriter(of: file) { return }
    announce(file) { state in
      guard again || state.announcement.isToBeFound, !state.activity.isGone, state.activity.isQuiet
      else { return nil }
      state.announcement.found()
      readMark(of: file, &state)
      return .found
    }
  }

  /// The names that could be read, and what the folder failed with after them.
  func entryNames(of directory: NodeID) throws(SystemError) -> (names: [EntryName], failure: SystemError?) {
    let number = try openDirectory(directory)
    defer { release(number) }
    guard let descriptor = try directoryHandle(number).descriptor else { return ([], nil) }
    var names: [EntryName] = []
    do throws(SystemError) {
      try Self.forEachEntry(of: descriptor) { name, _, _ in
        if !name.isDot, directory != .root || !virtual.reservedNames.contains(name) { names.append(name) }
      }
      return (names, nil)
    } catch {
      return (names, error)
    }
  }

  /// Of the one name in a folder that could not be examined, or of the folder.
  private func path(of folder: Folder) -> RelativePath {
    let components = nodes.withLock { $0.table.components(of: folder.node) } ?? []
    let path = components.reduce(RelativePath.root) { $0.appending($1.bytes) }
    guard let names = folder.names, names.count == 1 else { return path }
    return path.appending(names[0].bytes)
  }
}

public import FileModel
import Glibc
import Synchronization

/// Files that the sink has forgotten for want of memory. What is kept of such a file here goes as well, once the kernel does not know it any
/// more and the disk has all of it: then its label says all that there is to say, as after a restart.
extension Filesystem {
  /// Comes upon what stands at a path, as the search does.
  public func rescan(at path: RelativePath) -> RescanResult {
    do throws(SystemError) {
      guard let file = try find(path) else { return .missing }
      if sink.isUnloaded(file.id) { announceFound(file, again: true) }
      // It may have gone from memory meanwhile, and be another object now.
      return self.file(of: file.id) === file ? .found(file.id) : .unreadable
    } catch  where error.isAbsence {
      return .missing
    } catch {
      return .unreadable
    }
  }

  /// What is about to happen to a file is told after it, of a file that the sink knows: it keeps the one that is returned until it is told
  /// that it need not.
  func keepLoaded(_ node: NodeID) -> FileID? {
    guard let file = file(of: node) else { return nil }
    sink.keep(file.id)
    if sink.isUnloaded(file.id) { announceFound(file, again: true) }
    return file.id
  }

  private func find(_ path: RelativePath) throws(SystemError) -> CapturedFile? {
    var counted: [NodeID] = []
    // The count keeps a folder in the table until what is in it is.
    defer { for node in counted { forget(node, count: 1) } }
    for component in path.components {
      let entry = DirectoryEntry(directory: counted.last ?? .root, name: EntryName(bytes: Array(component)))
      guard !isReserved(entry), let found = try come(upon: entry) else { return nil }
      if let file = found.file { return counted.count + 1 == path.components.count ? file : nil }
      counted.append(found.node)
    }
    return nil
  }

  /// What stands at an entry, a folder counted: no thread lets go of a file between the look and the answer.
  private func come(upon entry: DirectoryEntry) throws(SystemError) -> (node: NodeID, file: CapturedFile?)? {
    try namespaceLock.shared { () throws(SystemError) -> (node: NodeID, file: CapturedFile?)? in
      let place = try location(of: entry)
      let status = try place.status()
      guard status.kind != .other else { return nil }
      let node = try adopt(status, at: entry, place, counting: status.kind == .directory)
      return (node, status.kind == .regular ? file(of: node) : nil)
    }
  }

  /// Comes upon every file below a folder of which this is wanted. False where not everything could be checked, or the mount ends.
  public func rescanAll(below folder: RelativePath, where isWanted: (FileID) -> Bool) -> Bool {
    do throws(SystemError) {
      var counted: [NodeID] = []
      defer { for node in counted { forget(node, count: 1) } }
      for component in folder.components {
        let entry = DirectoryEntry(directory: counted.last ?? .root, name: EntryName(bytes: Array(component)))
        guard let found = try come(upon: entry), found.file == nil else { return true }
        counted.append(found.node)
      }
      return try rescanAll(below: counted.last ?? .root, isWanted)
    } catch {
      return error.isAbsence
    }
  }

  private func rescanAll(below folder: NodeID, _ isWanted: (FileID) -> Bool) throws(SystemError) -> Bool {
    var pending = [folder]
    var counted: [NodeID] = []
    defer { for node in counted { forget(node, count: 1) } }
    var hasLookedAtAll = true
    while let next = pending.popLast() {
      let (names, failure) = try entryNames(of: next)
      if failure != nil { hasLookedAtAll = false }
      for name in names {
        guard !flushes.hasClosed else { return false }
        do throws(SystemError) {
          guard let found = try come(upon: DirectoryEntry(directory: next, name: name)) else { continue }
          if let file = found.file {
            guard isWanted(file.id) else {
              letGoIfUnmet(file)
              continue
            }
            sink.waitForRoom()
            announceFound(file, again: true)
          } else {
            pending.append(found.node)
            counted.append(found.node)
          }
        } catch  where error.isAbsence {
          continue
        } catch {
          hasLookedAtAll = false
        }
      }
    }
    return hasLookedAtAll
  }

  /// What was come upon, and the sink does not hold, is not kept for that.
  private func letGoIfUnmet(_ file: CapturedFile) {
    guard marksWriters, sink.isUnloaded(file.id) else { return }
    withNodes { $0.table.setUnneeded(file.node) }
    letGo(of: file)
  }

  /// What stands in a folder of the spool, in no order.
  public func entries(of folder: RelativePath) -> [SpoolEntry]? {
    do throws(SystemError) {
      let components = folder.components.map { EntryName(bytes: Array($0)) }
      let number = try SpoolLocation(root: root.number, components: components).open(O_RDONLY | O_DIRECTORY)
      let descriptor = FileDescriptor(owning: number, isReadable: true, isWritable: false)
      var entries: [SpoolEntry] = []
      try Self.forEachEntry(of: descriptor) { name, _, type in
        guard !name.isDot, folder != .root || !virtual.reservedNames.contains(name) else { return }
        if type == DT_DIR || type == DT_REG { entries.append(SpoolEntry(name: name.bytes, isFolder: type == DT_DIR)) }
      }
      return entries
    } catch {
      return nil
    }
  }

  // MARK: - Letting go

  /// What is kept of these files may go, until they are met again.
  public func unload(_ ids: [FileID]) {
    // Elsewhere their labels would not say who they are.
    guard marksWriters else { return }
    for id in ids {
      guard let file = file(of: id) else { continue }
      withNodes { $0.table.setUnneeded(file.node) }
      letGo(of: file)
    }
  }

  /// Of a file that may go something has ended that kept it.
  func letGoIfUnneeded(_ file: CapturedFile) {
    if nodes.withLock({ $0.table[file.node]?.isUnneeded == true }) { letGo(of: file) }
  }

  /// Lets go of the file, unless something is in progress with it. Whatever is told of it is told under its ``CapturedFile/order``, so that it
  /// stays forgotten meanwhile; and while the namespace is locked alone no call is about to use what is kept of it.
  private func letGo(of file: CapturedFile) {
    let entries = file.order.withLock { _ -> [NoticeQueue.RemovedEntry] in
      guard sink.isUnloaded(file.id) else {
        withNodes { $0.table.setUnneeded(file.node, false) }
        return []
      }
      return namespaceLock.exclusive {
        guard file.openings.load(ordering: .acquiring) == 0, file.state.withLock({ $0.isAsItsLabelSays }) else {
          return []
        }
        return withNodes { namespace in
          guard let node = namespace.table[file.node] else { return [] }
          guard node.lookups == 0 else {
            return node.names.map { NoticeQueue.RemovedEntry(entry: $0, node: file.node) }
          }
          if namespace.table.letGo(of: file.node) { namespace.knownIdentities.keep(file.id, for: file.key.inode) }
          return []
        }
      }
    }
    for entry in entries { notices.entryIsUnneeded(entry) }
  }
}

extension CapturedFile.State {
  /// The disk has it, no program has it open, and nothing was found out, or is to be said, that its label does not say.
  fileprivate var isAsItsLabelSays: Bool {
    let isAtRest =
      activity.isQuiet && activity.isSettled && !activity.isGone && handles.count == 0 && handles.descriptor == nil
      && handles.backing == nil && !handles.hasPassthroughWriter && !announcement.isTmpfile
      && !announcement.isOpenedPending
    let isOnDisk = disk.isAtRest && writeBack.asking == nil
    let isUnquestioned =
      !writeBack.isRefused && doubt == nil && label.released == nil && contentIntegrity.interruption == nil
      && !byHand.hasChangedContent && byHand.missedSinceSeconds == nil
    return isAtRest && isOnDisk && isUnquestioned
  }
}

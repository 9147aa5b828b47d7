import CLinux
import FileModel
import Glibc
import Synchronization

/// Looking up, making and removing names.
extension Filesystem {
  /// Finds an entry and counts it for the kernel; nil when there is none.
  func lookup(_ entry: DirectoryEntry) throws(SystemError) -> FoundEntry? {
    if entry.directory.isVirtual || isReserved(entry) { return try lookupVirtual(entry) }
    return try namespaceLock.shared { () throws(SystemError) in
      var isThere = false
      do throws(SystemError) {
        let place = try location(of: entry)
        let status = try place.status()
        isThere = true
        let node = try adopt(status, at: entry, place, counting: true)
        return FoundEntry(node: node, status: shown(status, of: node))
      } catch  where error == .notFound && !isThere {
        noteTakenAway(entry)
        return nil
      }
    }
  }

  func forget(_ node: NodeID, count: UInt64) {
    if node.isVirtual {
      virtual.nodes.withLock { $0.forget(node, count: count) }
    } else {
      let unneeded = withNodes { namespace -> CapturedFile? in
        namespace.table.forget(node, count: count)
        guard let known = namespace.table[node], known.isUnneeded, known.lookups == 0 else { return nil }
        return known.file
      }
      if let unneeded { letGoIfUnneeded(unneeded) }
    }
  }

  func makeDirectory(_ entry: DirectoryEntry, mode: mode_t, caller: Caller) throws(SystemError) -> FoundEntry {
    let found = try make(entry, caller: caller, removal: AT_REMOVEDIR) { (place) throws(SystemError) in
      try check(mkdirat(place.directory, place.path, mode & 0o7777))
    }
    virtual.recentAccess.withLock { $0.changed() }
    if let path = path(of: entry) { noteCome(path) }
    return found
  }

  func makeSymbolicLink(_ entry: DirectoryEntry, target: UnsafePointer<CChar>, caller: Caller) throws(SystemError)
    -> FoundEntry
  {
    try make(entry, caller: caller) { (place) throws(SystemError) in
      try check(symlinkat(target, place.directory, place.path))
    }
  }

  /// Makes a regular file, FIFO or socket; devices are refused.
  func makeNode(_ entry: DirectoryEntry, mode: mode_t, caller: Caller) throws(SystemError) -> FoundEntry {
    let type = mode & S_IFMT
    guard type == S_IFREG || type == S_IFIFO || type == S_IFSOCK || type == 0 else { throw .notPermitted }
    if type == S_IFREG || type == 0 { try requireAccepting() }
    let found = try make(entry, caller: caller) { (place) throws(SystemError) in
      try check(mknodat(place.directory, place.path, mode, 0))
    }
    if let file = file(of: found.node) {
      announce(file) { state in state.activity.madeWithoutWriter().map { PendingEvent($0) } }
    }
    return found
  }

  private func make(
    _ entry: DirectoryEntry, caller: Caller, removal: Int32 = 0,
    _ makeIt: (borrowing SpoolLocation) throws(SystemError) -> Void
  ) throws(SystemError) -> FoundEntry {
    try requireFree(entry)
    return try space.withRoomForOne(from: self) { () throws(SystemError) in
      try namespaceLock.exclusive { () throws(SystemError) in
        let place = try location(of: entry)
        try makeIt(place)
        let status = try orUnmake(place, removal) { (place) throws(SystemError) in
          try giveToCaller(place, in: entry.directory, caller)
          return try place.status()
        }
        forgetRecordedMark(of: status.key)
        return FoundEntry(
          node: adoptNew(status, at: entry, counting: true), status: spool.shownInodes.shown(status))
      }
    }
  }

  /// What was made a moment ago and cannot be used goes again: its maker is told that it is not there, and no other process knows of
  /// it. The namespace lock is held alone.
  func orUnmake(
    _ place: borrowing SpoolLocation, _ removal: Int32 = 0, _ use: (borrowing SpoolLocation) throws(SystemError) -> stat
  ) throws(SystemError) -> stat {
    do throws(SystemError) {
      return try use(place)
    } catch {
      // Where that fails as well, the next start finds it, and a file as one whose writer did not finish it.
      _ = unlinkat(place.directory, place.path, removal)
      throw error
    }
  }

  /// A daemon that runs as root makes things for others: they get the owner that they would have on a local directory.
  func giveToCaller(_ place: borrowing SpoolLocation, in directory: NodeID, _ caller: Caller) throws(SystemError) {
    guard isPrivileged, caller.user != 0 || caller.group != 0 else { return }
    let made = try place.status()
    let group = try group(of: made, in: directory, caller)
    try check(fchownat(place.directory, place.path, caller.user, group, AT_SYMLINK_NOFOLLOW))
    // chown(2) takes set-ID bits away, which making the file does not.
    if made.hasSetIDBits { try place.setMode(made.st_mode) }
  }

  /// The same for a file without a name.
  func giveToCaller(_ descriptor: FileDescriptor, in directory: NodeID, _ caller: Caller) throws(SystemError) {
    guard isPrivileged, caller.user != 0 || caller.group != 0 else { return }
    let made = try descriptor.status()
    try check(fchown(descriptor.number, caller.user, try group(of: made, in: directory, caller)))
    if made.hasSetIDBits { try check(fchmod(descriptor.number, made.st_mode & 0o7777)) }
  }

  /// Below a set-group-ID directory the spool has already given the directory's group.
  private func group(of made: stat, in directory: NodeID, _ caller: Caller) throws(SystemError) -> gid_t {
    try location(of: directory).status().st_mode & S_ISGID != 0 ? made.st_gid : caller.group
  }

  func makeLink(to node: NodeID, at entry: DirectoryEntry) throws(SystemError) -> FoundEntry {
    if node.isVirtual { throw .crossDevice }
    try requireFree(entry)
    let (found, isFirst) = try namespaceLock.exclusive { () throws(SystemError) -> (FoundEntry, Bool) in
      guard let known = nodes.withLock({ $0.table[node] }) else { throw .notFound }
      if known.names.isEmpty { return (try giveFirstName(entry, to: node, known), true) }
      let old = try location(of: node)
      let new = try location(of: entry)
      try check(linkat(old.directory, old.path, new.directory, new.path, 0))
      let status = try orUnmake(new) { (new) throws(SystemError) in try new.status() }
      // A name is a change: the time is the spool's.
      return (
        FoundEntry(node: try adopt(status, at: entry, counting: true), status: spool.shownInodes.shown(status)), false
      )
    }
    if let file = file(of: found.node) {
      if isFirst { announceFirstName(of: file) } else { announceNames(of: file) }
    }
    return found
  }

  func unlink(_ entry: DirectoryEntry) throws(SystemError) {
    try requireRemovable(entry)
    // Holds the inode until the lock is released: giving back the blocks of a huge file takes long.
    let removed = try namespaceLock.exclusive { () throws(SystemError) -> Removed in
      let place = try location(of: entry)
      let removed = try prepareRemoval(of: entry, at: place)
      try check(unlinkat(place.directory, place.path, 0))
      finishRemoval(removed, isReplaced: false) { $0.table.removeName(entry) }
      return removed
    }
    virtual.recentAccess.withLock { $0.changed() }
    if let file = removed.file { announceNames(of: file) }
  }

  func removeDirectory(_ entry: DirectoryEntry) throws(SystemError) {
    try requireRemovable(entry)
    let path = path(of: entry)
    let status = try namespaceLock.exclusive { () throws(SystemError) -> stat in
      let place = try location(of: entry)
      let removed = try prepareRemoval(of: entry, at: place)
      let status = try removed.pin.status()
      try check(unlinkat(place.directory, place.path, AT_REMOVEDIR))
      finishRemoval(removed, isReplaced: false) { $0.table.removeName(entry) }
      return status
    }
    virtual.recentAccess.withLock { $0.changed() }
    if let path { noteGone(path, status) }
  }

  /// Below the mount's root; nil for what is not known.
  private func path(of entry: DirectoryEntry) -> RelativePath? {
    let folders = nodes.withLock { $0.table.components(of: entry.directory) }
    return folders.map { names in
      names.reduce(RelativePath.root) { $0.appending($1.bytes) }.appending(entry.name.bytes)
    }
  }

  /// Of an unlinked file more is not held.
  private static let pinnedBytesMax: UInt64 = 1 << 20

  /// What is about to lose a name.
  struct Removed: Sendable {
    let node: NodeID
    let file: CapturedFile?
    let pin: FileDescriptor
  }

  /// Learns what stands at a name and takes hold of it. The namespace lock is held alone.
  func prepareRemoval(of entry: DirectoryEntry, at place: borrowing SpoolLocation) throws(SystemError) -> Removed {
    let pin = try place.pin()
    let node = try adopt(try pin.status(), at: entry)
    return Removed(node: node, file: file(of: node), pin: pin)
  }

  /// Takes the name out of the table after the spool has removed it.
  ///
  /// What has no name stays reachable for as long as the kernel knows it: it may be a process's current directory, or named by a
  /// descriptor that does not open it (O_PATH). Of a file that was replaced the kernel may have looked up the name already and
  /// open it only now; with ESTALE it tries but once more, which fails again where the name is replaced all the time. The kernel
  /// forgets what is not used within milliseconds. A large file that is unlinked gives its space back before the call returns: its writer
  /// may have removed it to make room. One that has further names, not looked up yet, waits for them under its number.
  func finishRemoval(_ removed: Removed, isReplaced: Bool, _ removeName: (inout Namespace) -> Void) {
    var (hasOtherNames, isLarge) = (true, true)
    do throws(SystemError) {
      let status = try removed.pin.status()
      (hasOtherNames, isLarge) = (status.st_nlink > 0, UInt64(clamping: status.st_blocks) * 512 > Self.pinnedBytesMax)
    } catch {
      // A name that turns up has to become this node again.
    }
    let isPinned = removed.file == nil || isReplaced || hasOtherNames || !isLarge
    withNodes { namespace in
      if namespace.table[removed.node]?.names.count == 1 {
        if isPinned { namespace.table.pin(removed.node, by: removed.pin) }
        if removed.file != nil, hasOtherNames { namespace.table.keepReachable(removed.node) }
      }
      removeName(&namespace)
    }
  }

  /// Renames with the flags of renameat2(2); only NOREPLACE and EXCHANGE are known.
  func rename(_ from: DirectoryEntry, to: DirectoryEntry, flags: UInt32) throws(SystemError) {
    try requireRemovable(from)
    try requireRemovable(to)
    guard flags == 0 || flags == uploadfs_rename_noreplace || flags == uploadfs_rename_exchange else { throw .invalid }
    let isExchange = flags == uploadfs_rename_exchange
    let paths = (old: path(of: from), new: path(of: to))
    // What was at each of the two.
    var before: (old: stat?, new: stat?) = (nil, nil)
    let (moved, replaced) = try namespaceLock.exclusive { () throws(SystemError) -> ([CapturedFile], Removed?) in
      let old = try location(of: from)
      let new = try location(of: to)
      let status = try old.status()
      let source = try adopt(status, at: from)
      let target = try new.isTaken() ? try prepareRemoval(of: to, at: new) : nil
      before = (status, try target?.pin.status())
      try check(uploadfs_renameat2(old.directory, old.path, new.directory, new.path, flags))
      // Two names of one inode: rename(2) leaves both.
      if target?.node == source { return ([], nil) }
      if isExchange {
        withNodes { $0.table.exchange(from, to) }
      } else if let target {
        finishRemoval(target, isReplaced: true) { _ = $0.table.move(from, to: to) }
      } else {
        _ = withNodes { $0.table.move(from, to: to) }
      }
      noteMove(of: source)
      if isExchange, let target { noteMove(of: target.node) }
      return nodes.withLock { namespace in
        var moved = namespace.table.files(below: source)
        if isExchange, let target { moved += namespace.table.files(below: target.node) }
        return (moved, isExchange ? nil : target)
      }
    }
    virtual.recentAccess.withLock { $0.changed() }
    if let file = replaced?.file { announceNames(of: file) }
    for file in moved { announceNames(of: file) }
    if before.old?.kind == .directory, let path = paths.new { sink.folderMoved(to: path) }
    if isExchange, before.new?.kind == .directory, let path = paths.old { sink.folderMoved(to: path) }
    if let path = paths.old, let status = before.old { noteGone(path, status) }
    if let path = paths.new {
      if let status = before.new { noteGone(path, status) } else if before.old?.kind == .directory { noteCome(path) }
    }
  }

  /// A scan that is walking the spool may already have passed the place that something moved to.
  private func noteMove(of node: NodeID) {
    movedDuringScan.withLock { moved in
      guard let count = moved?.count else { return }
      // Too many to remember: everything is checked again.
      if count >= 65536 { moved = [.root] } else { moved?.append(node) }
    }
  }

  /// The target of a symbolic link, NUL-terminated.
  func readLink(_ node: NodeID) throws(SystemError) -> [CChar] {
    if node.isVirtual { return try readVirtualLink(node) }
    var target = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
    let length = try namespaceLock.shared { () throws(SystemError) -> Int in
      let length: Int
      if let pin = nodes.withLock({ $0.table[node]?.pin }) {
        length = readlinkat(pin.number, "", &target, target.count - 1)
      } else {
        let place = try location(of: node)
        length = readlinkat(place.directory, place.path, &target, target.count - 1)
      }
      guard length >= 0 else { throw .last }
      return length
    }
    target[length] = 0
    return target
  }
}

extension stat {
  fileprivate var hasSetIDBits: Bool { st_mode & S_IFMT == S_IFREG && st_mode & (S_ISUID | S_ISGID) != 0 }
}

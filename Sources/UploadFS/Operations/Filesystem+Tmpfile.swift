import CLinux
import FileModel
import Glibc
import Synchronization

/// Files that are made without a name (O_TMPFILE) and get one with linkat(2) once they are whole, if ever.
///
/// As long as they have none, only their opener knows of them: nothing is announced and nothing is sent, and when the
/// last descriptor is closed, or this daemon ends, the spool has forgotten them.
extension Filesystem {
  func createTmpfile(in directory: NodeID, mode: mode_t, flags: Int32, caller: Caller) throws(SystemError)
    -> (found: FoundEntry, opened: Opened)
  {
    if directory.isVirtual { throw .notSupported }
    try requireAccepting()
    return try space.withRoomForOne(from: self) { () throws(SystemError) in
      try makeTmpfile(in: directory, mode: mode, flags: flags, caller: caller)
    }
  }

  private func makeTmpfile(in directory: NodeID, mode: mode_t, flags: Int32, caller: Caller) throws(SystemError)
    -> (found: FoundEntry, opened: Opened)
  {
    try namespaceLock.shared { () throws(SystemError) in
      try openCaptures.requireRoom()
      let number = try location(of: directory).open(O_RDWR | uploadfs_o_tmpfile, mode: mode & 0o7777)
      let descriptor = FileDescriptor(owning: number, isReadable: true, isWritable: true)
      // It may be linked before anything else is known of it. Where the disk refuses, the first change tries it again.
      let id = FileID.new()
      let isMarked = marksWriters && SpoolLabel.put(FileLabel(id: id, mark: .writing(in: instance)), on: descriptor)
      try giveToCaller(descriptor, in: directory, caller)
      let status = try descriptor.status()
      let pin = FileDescriptor(
        owning: try check(uploadfs_openat(AT_FDCWD, descriptor.reopenPath, uploadfs_o_path | O_CLOEXEC, 0)),
        isReadable: false, isWritable: false)
      forgetRecordedMark(of: status.key)
      let file = adoptTmpfile(status, as: id, pin: pin)
      let opened = file.state.withLock { state in
        state.handles.share(descriptor)
        state.announcement.madeWithoutName()
        _ = state.activity.openedForWriting()
        if isMarked { state.disk.doubted(.writing(in: instance)) }
        // The kernel opens such a file for writing only.
        let request = Request(
          reads: flags & O_ACCMODE == O_RDWR, writes: true, isNewContent: true, opener: caller.thread)
        return register(file, &state, descriptor, mode: status.st_mode, request)
      }
      return (FoundEntry(node: file.node, status: spool.shownInodes.shown(status)), opened)
    }
  }

  private func adoptTmpfile(_ status: stat, as id: FileID, pin: FileDescriptor) -> CapturedFile {
    withNodes { namespace in
      namespace.knownIdentities.forget(status.key.inode)
      return namespace.table.adoptTmpfile(status.key, pin: pin) { node in
        CapturedFile(id: id, node: node, key: status.key, isNew: true)
      }
    }
  }

  /// linkat(2) of a node without a name: one that has lost its last name gets none again. The namespace lock is held alone.
  func giveFirstName(_ entry: DirectoryEntry, to node: NodeID, _ known: NodeTable.Node) throws(SystemError)
    -> FoundEntry
  {
    guard let file = known.file,
      let holder = file.state.withLock({ $0.announcement.isTmpfile ? $0.handles.descriptor ?? known.pin : nil })
    else { throw .notFound }
    let place = try location(of: entry)
    try check(linkat(AT_FDCWD, holder.reopenPath, place.directory, place.path, AT_SYMLINK_FOLLOW))
    let status = try orUnmake(place) { (place) throws(SystemError) in try place.status() }
    withNodes { $0.table.giveFirstName(entry, to: node) }
    file.state.withLock { state in
      state.announcement.gotFirstName(isOpenForWriting: state.activity.writableOpens > 0)
    }
    return FoundEntry(node: node, status: spool.shownInodes.shown(status))
  }

  /// What its writers have done to it so far was not reported. The caller holds none of the locks.
  func announceFirstName(of file: CapturedFile) {
    announce(file) { state in state.activity.isSettled ? .settled : nil }
  }
}

import CLinux
import FileModel
import Glibc
import Synchronization

/// What the next run has to know of a content: whether it was being written, how long it was when it was closed, why it is not
/// whole. It stands on the spool's file (``SpoolLabel``), or in the spool's record where the disk does not take that
/// (``MarkRecord``).
extension Filesystem {
  /// Keeps a mark where it can be kept; without it the caller changes nothing.
  func keep(
    _ mark: WriterStateXattr, of file: CapturedFile, _ state: inout CapturedFile.State, on descriptor: FileDescriptor
  ) throws(SystemError) {
    // What the label says is not known, and would be written over.
    guard state.disk.mark != nil else { throw state.doubt ?? .inputOutput }
    state.disk.noteProven(sizeBytes: state.lastKnown.sizeBytes, wasOnDisk: state.disk.isSynchronized)
    try marks.keep(mark, of: file.key.inode, as: file.id) {
      put(state.label.fileLabel(of: file.id, mark), &state, on: descriptor)
    }
  }

  /// What the file's label says becomes what is known of it now. False, with errno, where the disk does not take it.
  func putLabel(of file: CapturedFile, _ state: inout CapturedFile.State, on descriptor: FileDescriptor) -> Bool {
    guard let mark = state.disk.mark else { return false }
    return put(state.label.fileLabel(of: file.id, mark), &state, on: descriptor)
  }

  /// False, with errno, where the disk does not take it.
  func put(_ label: FileLabel, _ state: inout CapturedFile.State, on descriptor: FileDescriptor) -> Bool {
    state.changeTime.keep(over: descriptor) { SpoolLabel.put(label, on: descriptor) }
  }

  /// A file of an earlier run is met for the first time: what its mark says. The file's lock and the namespace lock are held.
  func readMark(of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard state.disk.mark == nil else { return }
    do throws(SystemError) {
      let place = try location(of: file.node)
      let found = try label(of: file, state, at: place)
      let facts = CapturedFile.KnownAttributes(try place.status())
      let sizeBytes = facts.sizeBytes
      let mark = take(found, of: file, &state, facts)
      state.label.foundIsRead()
      state.disk.found(mark)
      state.integrity.found(mark.interruption(sizeBytes: sizeBytes, in: instance))
      if !state.disk.isOnDisk { flushes.add(file) }
    } catch {
      // It may not stand there now, and be back in a moment with whatever mark it has.
      state.doubt = error
    }
  }

  /// Before the system call of a mutation: tried at each until the mark stands, and without it nothing may change. A file that is
  /// changed without being open has no writer.
  func markWriting(
    _ file: CapturedFile, _ state: inout CapturedFile.State, _ extent: ContentExtent, through descriptor: FileDescriptor
  ) throws(SystemError) {
    let wasOnDisk = state.disk.isSynchronized
    state.disk.contentIsNotThere()
    beginAsking(&state, of: descriptor)
    let writing = state.markWhileWriting(in: instance)
    state.disk.noteProven(sizeBytes: state.lastKnown.sizeBytes, wasOnDisk: wasOnDisk)
    if state.activity.writableOpens > 0 {
      if state.disk.mark != writing {
        try keep(writing, of: file, &state, on: descriptor)
        state.disk.isWritten(writing)
      }
      try commitMark(&state, before: extent)
      return
    }
    if case .size(let sizeBytes) = extent { state.disk.sizeChangesUnmarked(to: sizeBytes) }
    if state.disk.mark != writing, state.disk.mark?.isUnproven == true, !writing.isWriting {
      // As it is, it proves of the changed content as little as of this one.
      try keep(writing, of: file, &state, on: descriptor)
      state.disk.doubted(writing)
    }
  }

  /// The file's lock is held.
  private func commitMark(
    _ state: inout CapturedFile.State, before extent: ContentExtent
  ) throws(SystemError) {
    guard state.disk.needsMark(before: extent) else { return }
    try marks.record.commitEarlier()
    state.disk.marksAreCommitted()
  }

  /// Something of the content is missing, or in memory alone: should the mount die, neither is it whole, nor does a later writer who
  /// goes on make that good. Where it cannot be put, the mark that was there stands. The file's lock is held.
  func markLack(of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard let known = state.disk.mark, let descriptor = state.handles.descriptor ?? state.writeBack.asking?.descriptor
    else {
      return
    }
    let wanted = state.markWhileWriting(in: instance)
    guard wanted.isDoubt, !wanted.isWriting, wanted != known else { return }
    do throws(SystemError) {
      try keep(wanted, of: file, &state, on: descriptor)
      state.disk.doubted(wanted)
    } catch {
      // It is tried again with the next change, at the close, and each time that the content is given to the disk again.
    }
  }

  /// The mark becomes what is known of the content now. False when the disk refuses to know it; then the one before stands, which
  /// doubts the content, and the flush tries again.
  @discardableResult
  func keepMark(of file: CapturedFile, _ state: inout CapturedFile.State, through descriptor: FileDescriptor) -> Bool {
    do throws(SystemError) {
      guard let mark = state.disk.mark else { return true }
      let wanted = try state.markOnceClosed(in: instance) { () throws(SystemError) in
        UInt64(clamping: try descriptor.status().st_size)
      }
      if wanted.isUnproven { flushes.add(file) }
      guard mark != wanted else { return true }
      try keep(wanted, of: file, &state, on: descriptor)
      state.disk.settled(wanted)
      // What its writer has made durable must not be found interrupted after a power cut.
      guard wanted == .none, state.disk.isSynchronized else { return true }
      try check(fsync(descriptor.number))
      try marks.record.synchronize()
      state.disk.markIsSynced()
      return true
    } catch {
      state.disk.markWasRefused()
      flushes.add(file)
      return false
    }
  }

  /// The file of this inode is gone, or is a new one with the number of one that was.
  func forgetRecordedMark(of key: SpoolKey) {
    do throws(SystemError) {
      try marks.record.forget(key.inode)
    } catch {
      // A file that is there is marked before its first change, which fails where this fails again.
    }
  }

  /// The scan has met every file.
  func forgetRecordedMarksOfMissing() {
    // A file that is made in between has a mark and is not known: so none is.
    namespaceLock.exclusive {
      let known = nodes.withLock { Set($0.table.allFiles.map(\.key.inode)) }
      do throws(SystemError) {
        try marks.record.retain { known.contains($0) }
        if stamp.isMoved { try marks.record.forgetFormerPlace() }
      } catch {
        // What is left doubts a file that may get the number, until that is made.
      }
    }
  }

  /// The open file that its handles share, or another one. The file's lock and the namespace lock are held.
  func openForMarks(_ file: CapturedFile, _ state: CapturedFile.State) throws(SystemError) -> FileDescriptor {
    if let shared = state.handles.descriptor { return shared }
    return try openByName(file)
  }
}

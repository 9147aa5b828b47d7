import CLinux
import FileModel
import Glibc
import Synchronization

/// Makes durable what was closed without an fsync(2), about a second later and beside everything else: a power cut after that
/// costs nothing. Uploading does not wait for it.
///
/// The mark goes once the disk has the content, and the disk counts as having the file once it has that, too: a mark that a power
/// cut brings back proves nothing. Delivered files are flushed as well: what a power cut left of one would look like its content.
extension Filesystem {
  /// Up to so many files are flushed one by one. With more, writing back all of the spool's filesystem is cheaper, although
  /// that takes what others are still writing along.
  static let filesFlushedAloneMax = 32

  /// Flushes until ``stopFlushing()``, and then what is left. For a thread of its own: it waits for the disk.
  public func flushClosedFiles() {
    while let files = flushes.next() { flush(files) }
    flush(flushes.takeAll())
    flushes.noteEmptied()
  }

  /// The orderly end: what was closed is on the disk, and its mark says so. A disk that does not take it is not waited for for ever;
  /// then the marks stay, and the next run goes on. False when it was not.
  @discardableResult
  public func endFlushing(within seconds: Int = 10) -> Bool {
    stopFlushing()
    return flushes.waitUntilEmptied(seconds: seconds)
  }

  /// Ends ``flushClosedFiles()`` and ``flushGrowingFiles()``. What the disk does not take by then keeps its mark.
  public func stopFlushing() {
    flushes.close()
    growing.close()
  }

  func flush(_ files: [CapturedFile]) {
    announceChangesByHand(of: files)
    for file in files {
      askAgain(file)
      markAgain(file)
      watch(file)
    }
    // What is forgotten below may come back after a power cut, which is the careful answer, but not for long.
    defer { synchronizeRecord(of: files) }
    let closed = files.compactMap { file in closedContent(of: file).map { (file: file, content: $0) } }
    // A failure may have been told to the one before, or to another program. So each file is asked after it, and one that cannot be
    // asked is synced by itself.
    let areTogether = closed.count > Self.filesFlushedAloneMax && synchronizeAll()
    noteOnDisk(
      closed.filter { file, content in
        areTogether && content.canBeAsked ? noteContentOnDisk(file, content) : flush(file, content)
      })
  }

  /// The contents are on the disk. Once it has the marks that say so, a power cut takes nothing of these files any more.
  private func noteOnDisk(_ files: [(file: CapturedFile, content: ClosedContent)]) {
    do throws(SystemError) {
      try marks.record.synchronize()
    } catch {
      for (file, _) in files { flushes.add(file) }
      return
    }
    let unsynced = files.filter { file, _ in file.state.withLock { $0.disk.isMarkUnsynced } }
    let areTogether = unsynced.count > Self.filesFlushedAloneMax && synchronizeAll()
    if !areTogether {
      for (file, _) in unsynced where !synchronizeMark(of: file) {
        flushes.add(file)
      }
    }
    for (file, content) in files { noteOnDisk(file, content, isMarkSynced: areTogether) }
  }

  /// False when the disk does not take it.
  private func synchronizeMark(of file: CapturedFile) -> Bool {
    do throws(SystemError) {
      let descriptor = try namespaceLock.shared { () throws(SystemError) in try openForSync(file) }
      let mark = file.state.withLock { $0.disk.mark }
      try check(fsync(descriptor.number))
      file.state.withLock { state in if state.disk.mark == mark { state.disk.markIsSynced() } }
      return true
    } catch {
      return error.isAbsence
    }
  }

  /// The disk is asked for a file that a writer has open each second, or in turns while nothing is written, and gets one again that it has
  /// refused.
  private func watch(_ file: CapturedFile) {
    let isRefused = file.state.withLock { state in
      if state.activity.writableOpens > 0 {
        noteWriteBack(of: file, &state)
        checkOpenFile(file, &state)
        state.idle.check()
        let isSeen = !state.handles.hasPassthroughWriter && !state.writeBack.isRefused && state.doubt == nil
        if state.idle.isIdle, isSeen { flushes.addIdle(file) } else { flushes.add(file) }
        if state.handles.hasPassthroughWriter { growing.add(file) }
      }
      return state.writeBack.isRefused
    }
    if isRefused { saveAgain(file) }
  }

  private func flush(_ file: CapturedFile, _ content: ClosedContent) -> Bool {
    do throws(SystemError) {
      try synchronize(file, try namespaceLock.shared { () throws(SystemError) in try openForSync(file) })
    } catch {
      // Taken away meanwhile, or refused; a folder that cannot be read is asked for again.
      let isRefused = file.state.withLock { $0.writeBack.isRefused }
      if isRefused { saveAgain(file) } else if !error.isAbsence { flushes.add(file) }
      return false
    }
    return noteContentOnDisk(file, content)
  }

  /// Never the one that is asked: what it is told, no other opening would be. The namespace lock is held.
  func openForSync(_ file: CapturedFile) throws(SystemError) -> FileDescriptor {
    let asking = file.state.withLock { $0.writeBack.asking?.descriptor }
    guard let asking, !asking.isWritable else { return try openByName(file) }
    return try asking.reopenedForReading()
  }

  /// The content, and the names under which it is found.
  private func synchronize(_ file: CapturedFile, _ descriptor: FileDescriptor) throws(SystemError) {
    do throws(SystemError) {
      // The mark as well, which fdatasync(2) leaves out where the size was on the disk already.
      try check(fsync(descriptor.number))
    } catch {
      file.state.withLock { noteRefusal(of: file, &$0, error) }
      throw error
    }
    try synchronizeFolders(of: file)
  }

  /// So many files wait for the disk that no more are kept open.
  func synchronizeBeforeClosing(_ file: CapturedFile, _ descriptor: FileDescriptor) {
    guard let content = closedContent(of: file) else { return }
    do throws(SystemError) {
      try synchronize(file, descriptor)
    } catch {
      // In the queue, as every file that was closed.
      return
    }
    if noteContentOnDisk(file, content) { noteOnDisk([(file, content)]) }
  }

  /// Of a file of which the spool could not say what it is like the sink is told again as soon as it can.
  private func askAgain(_ file: CapturedFile) {
    let isReadable = namespaceLock.shared {
      file.state.withLock { state -> Bool? in
        guard state.doubt != nil, !state.activity.isGone, state.activity.isQuiet else { return nil }
        return canBeRead(file, state)
      }
    }
    guard let isReadable else { return }
    guard isReadable else { return flushes.add(file) }
    announce(file) { state in state.activity.isGone || !state.activity.isQuiet ? nil : .settled }
  }

  /// Of a settled file the disk did not take the mark.
  private func markAgain(_ file: CapturedFile) {
    namespaceLock.shared {
      file.state.withLock { state in
        guard state.disk.isMarkOutdated, !state.activity.isGone, state.activity.isQuiet else { return }
        do throws(SystemError) {
          keepMark(of: file, &state, through: try openForMarks(file, state))
        } catch  where error.isAbsence {
          state.disk.markIsOutdated(false)
        } catch {
          flushes.add(file)
        }
      }
    }
  }

  private func synchronizeRecord(of files: [CapturedFile]) {
    do throws(SystemError) {
      try marks.record.synchronize()
    } catch {
      if let file = files.first { flushes.add(file) }
    }
  }

  /// What was closed, and under which names.
  private struct ClosedContent {
    var epoch: UInt64
    var nameChanges: UInt64
    /// The kernel says of this file whether its disk has refused any of it, or there is nothing to ask for.
    var canBeAsked: Bool
  }

  /// Of a file that was closed and that the disk may not have as a whole; nil for all others.
  private func closedContent(of file: CapturedFile) -> ClosedContent? {
    file.state.withLock { state in
      // What is in progress may get to the file after the sync, and be over when that is: its end brings the file here again.
      guard !state.writeBack.isRefused, !state.activity.isGone, state.activity.mutationsInFlight == 0 else {
        return nil
      }
      let isClosed = state.disk.mark?.isUnproven == true && !state.disk.isSynchronized
      let isSettled = state.activity.isSettled && !state.announcement.isTmpfile
      guard isClosed || (isSettled && !state.disk.isOnDisk && state.disk.mark != nil) else { return nil }
      let isEmpty = state.announcement.wasCreatedHere && state.activity.epoch <= 1
      return ClosedContent(
        epoch: state.activity.epoch, nameChanges: state.disk.nameChanges,
        canBeAsked: state.writeBack.asking != nil || state.disk.isSynchronized || isEmpty)
    }
  }

  /// Makes the names of a file durable, and those of the folders that it lies in.
  func synchronizeFolders(of file: CapturedFile) throws(SystemError) {
    let folders = try namespaceLock.shared { () throws(SystemError) in
      var folders: [NodeID: FileDescriptor] = [:]
      var pending = nodes.withLock { $0.table[file.node]?.names.map(\.directory) ?? [] }
      while let folder = pending.popLast() {
        guard folders[folder] == nil else { continue }
        let number = try location(of: folder).open(O_RDONLY | O_DIRECTORY)
        folders[folder] = FileDescriptor(owning: number, isReadable: true, isWritable: false)
        if folder != .root { pending += nodes.withLock { $0.table[folder]?.names.map(\.directory) ?? [] } }
      }
      return folders
    }
    for folder in folders.values { try check(fsync(folder.number)) }
  }

  /// What is on the disk needs no mark. False when it has changed since, or the mark stays.
  private func noteContentOnDisk(_ file: CapturedFile, _ content: ClosedContent) -> Bool {
    namespaceLock.shared {
      file.state.withLock { state in
        noteWriteBack(of: file, &state)
        guard state.activity.epoch == content.epoch, !state.writeBack.isRefused else { return false }
        state.disk.synchronized(true)
        defer { state.writeBack.endAsking() }
        return removeMark(of: file, &state)
      }
    }
  }

  private func noteOnDisk(_ file: CapturedFile, _ content: ClosedContent, isMarkSynced: Bool) {
    announce(file) { state in
      guard state.activity.epoch == content.epoch, !state.writeBack.isRefused, state.disk.isSynchronized else {
        return nil
      }
      if isMarkSynced { state.disk.markIsSynced() }
      guard state.activity.isSettled, !state.disk.isOnDisk, !state.disk.isMarkUnsynced else { return nil }
      guard state.disk.nameChanges == content.nameChanges else {
        flushes.add(file)
        return nil
      }
      state.disk.everythingIsThere()
      return .onDisk
    }
    letGoIfUnneeded(file)
  }

  /// Of a file that was found cut short the disk has what is there, and the mark says from now on that something is missing. The
  /// file's lock and the namespace lock are held.
  private func removeMark(of file: CapturedFile, _ state: inout CapturedFile.State) -> Bool {
    guard let wanted = state.markToReplaceOnDisk else { return true }
    do throws(SystemError) {
      try keep(wanted, of: file, &state, on: try descriptorWithName(of: file, state))
      state.disk.proved(wanted)
      return true
    } catch {
      // The mark that stays proves nothing after a power cut: it is tried again, unless the file does not stand there any more.
      if error.isAbsence { noteMissing(file, &state) } else { flushes.add(file) }
      return false
    }
  }

  /// An opening of a file that stands where it is known to. The one that asks is spared another: a mark takes no failure from it.
  private func descriptorWithName(
    of file: CapturedFile, _ state: CapturedFile.State
  ) throws(SystemError) -> FileDescriptor {
    guard state.handles.descriptor == nil, let asking = state.writeBack.asking?.descriptor else {
      return try openForMarks(file, state)
    }
    guard file.matches(try location(of: file.node).status()) else { throw .stale }
    return asking
  }
}

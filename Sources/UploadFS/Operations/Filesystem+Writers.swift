import CLinux
public import FileModel
import Glibc
import Synchronization

/// What becomes of files whose writers do not finish them (docs/semantics.md, S39, S40).
///
/// Before the first change of a revision the spool file gets a mark, and loses it when its writers have closed it: a file
/// that is found with one was being written when the mount ended. close(2) returns after FLUSH, and RELEASE comes later;
/// so the mark goes at the FLUSH already when no process is left that could write.
extension Filesystem {
  /// One descriptor of a handle was closed, by a living thread or by a dying one. Everything that was written is in the
  /// spool already, and only the release of the last descriptor says that a writer has finished. What it gives is to be
  /// waited for, by rule.
  func flush(_ number: UInt64, closer: pid_t = 0) throws(SystemError) -> AwaitedDelivery? {
    guard case .file(let handle)? = handles.withLock({ $0[number] }), handle.writes else { return nil }
    // What was not changed is as whole as it was, whatever became of its writers: since it was settled, or since this
    // handle was opened, when the close of the one before had returned and its release was on its way.
    let isChanged = handle.file.state.withLock { state in
      state.activity.hasOpenRevision
        && (handle.wholeEpoch != state.activity.epoch || state.handles.hasPassthroughWriter)
    }
    // Who opens a file only to pass the descriptor on closes it before anything is changed. What an fsync(2) has settled
    // is waited for as well: its own wait may have been refused.
    let hasChanged = handle.hasChanged.load(ordering: .relaxed)
    let close = isChanged || hasChanged ? settings(of: handle.file)?.close : nil
    let isAwaited = hasChanged && close == .wait
    let exitState = isChanged || isAwaited ? ProcessExitState(of: closer) : .alive
    if isChanged, exitState.signal == 0 { noteOwnLimit(of: closer, handle) }
    let isOwner = (isChanged || isAwaited) && ProcessExitState.isOwner(closer, ofDescriptorOpenedBy: handle.opener)
    if isAwaited, isOwner, exitState == .alive {
      return settleForDelivery(handle.file, through: handle.descriptor) { state in
        rest(handle, &state)
        return state.areWritersResting
      }
    }
    let isDurable = close == .synced && exitState == .alive ? makeDurableWithName(handle) : nil
    let isMarkDurable = handle.file.state.withLock { state in
      // The last descriptor that is closed decides.
      handle.killingSignal.store(exitState.signal, ordering: .relaxed)
      rest(handle, &state)
      // A duplicate may go on past the daemon, unseen: only the release says that such a writer has ended.
      guard isOwner, exitState.signal == 0, state.areWritersResting, !state.handles.hasPassthroughWriter else {
        return true
      }
      return keepMark(of: handle.file, &state, through: handle.descriptor)
    }
    if let isDurable, !isDurable || !isMarkDurable { throw .inputOutput }
    return nil
  }

  /// Everything that a power cut must not take. When it fails, the file's status says so.
  private func makeDurableWithName(_ handle: FileHandle) -> Bool {
    do throws(SystemError) {
      try makeDurable(handle, dataOnly: false)
      try synchronizeFolders(of: handle.file)
      handle.file.state.withLock { $0.disk.namesAreSynced() }
      return true
    } catch {
      handle.file.state.withLock { $0.integrity.present.lostContent(.writeFailed(errno: error.code)) }
      return false
    }
  }

  private func rest(_ handle: FileHandle, _ state: inout CapturedFile.State) {
    guard !handle.isResting.exchange(true, ordering: .sequentiallyConsistent) else { return }
    state.handles.writerRested()
    if handle.choice.route == .direct { state.caching.rested() }
  }

  /// Something is about to be changed through a handle. What is emptied is not waited for.
  func willChange(through handle: FileHandle, empties: Bool = false) {
    if handle.isResting.load(ordering: .relaxed) { resume(handle) }
    if !empties, !handle.hasChanged.load(ordering: .relaxed) { handle.hasChanged.store(true, ordering: .relaxed) }
  }

  /// A descriptor of the handle was closed, and another one goes on.
  private func resume(_ handle: FileHandle) {
    handle.file.state.withLock { state in
      guard handle.isResting.exchange(false, ordering: .sequentiallyConsistent) else { return }
      state.handles.writerResumed()
      guard handle.choice.route == .direct else { return }
      if state.caching.cachedHandles > 0 { handle.writesBehindPages.store(true, ordering: .relaxed) }
      state.caching.resumed()
    }
  }

  /// A handle is released. The file's lock is held.
  func closed(_ handle: FileHandle, _ state: inout CapturedFile.State) -> PendingEvent? {
    let signal = handle.killingSignal.load(ordering: .relaxed)
    if signal != 0, state.activity.hasOpenRevision { state.integrity.present.writerKilled(signal: signal) }
    if handle.isResting.load(ordering: .sequentiallyConsistent) { state.handles.writerResumed() }
    let hasRevision = state.activity.hasOpenRevision
    let pendingEvent = state.activity.closedForWriting()
    noteSettled(handle.file, pendingEvent, hasRevision: hasRevision, &state, through: handle.descriptor)
    return pendingEvent.map { PendingEvent($0) }
  }

  /// The end of something may have been the last of a revision. The file's lock is held.
  func noteSettled(
    _ file: CapturedFile, _ pendingEvent: WriterActivity.PendingEvent?, hasRevision: Bool,
    _ state: inout CapturedFile.State, through descriptor: FileDescriptor
  ) {
    guard pendingEvent == .settled else { return }
    noteWriteBack(of: file, &state)
    if hasRevision { state.forgetWhatWasSaved() }
    if state.writeBack.isRefused || !state.disk.isOnDisk { flushes.add(file) }
    state.integrity.settled(hasRevision: hasRevision)
    if hasRevision || state.disk.mark != WriterStateXattr.none { keepMark(of: file, &state, through: descriptor) }
  }

  /// A write failed before or in its system call.
  func writeFailed(_ file: CapturedFile, at offset: Int64, count: Int, _ error: SystemError) {
    let start = UInt64(clamping: offset)
    var limit = configuration.fileBytesMax
    if settings(of: file)?.tooLarge == .refuse, case .bytes(let taken) = sink.sizeLimit(of: file.id) {
      limit = min(limit, taken)
    }
    let cause: Interruption = error == .tooLarge ? .writeRefused(limitBytes: limit) : .writeFailed(errno: error.code)
    noteFailedWrite(file, start..<(start &+ UInt64(clamping: count)), cause)
  }

  private func noteFailedWrite(_ file: CapturedFile, _ bytes: Range<UInt64>, _ cause: Interruption) {
    announce(file) { state in
      let known = state.integrity.present.interruption
      state.integrity.present.writeFailed(bytes, cause)
      return state.integrity.present.interruption == known ? nil : .writeFailed(cause)
    }
  }

  /// The kernel refuses by itself what goes beyond the writer's own limit: the writer alone is told. What it was to write is missing
  /// behind a file that ends exactly there.
  private func noteOwnLimit(of closer: pid_t, _ handle: FileHandle) {
    guard let limit = FileSizeLimit(of: closer) else { return }
    let file = handle.file
    do throws(SystemError) {
      let size = UInt64(clamping: try handle.descriptor.status().st_size)
      guard limit.mayHaveCut(sizeBytes: size) else { return }
      if handle.choice.writesUnseen {
        // A duplicate may go on, and only the release tells how far.
        handle.cutBytes.store(size, ordering: .relaxed)
      } else {
        noteCut(file, at: size)
      }
    } catch {
      file.state.withLock { $0.integrity.present.lostContent(.writeFailed(errno: error.code)) }
    }
  }

  /// What a limit of its writer has cut off is made good as any other write that failed.
  func noteCut(_ file: CapturedFile, at size: UInt64) {
    noteFailedWrite(file, size..<(size &+ 1), .writeFailed(errno: EFBIG))
  }

  /// The rule for a file; nil when no rule needs to be looked up, or the file has no name.
  func settings(of file: CapturedFile) -> FileSettings? {
    guard looksUpRules else { return nil }
    return nodes.withLock { $0.table.paths(of: file.node) }.first.map { configuration.rules.settings(for: $0) }
  }

  /// Settles what was written so far, before its last writer is gone, because that one waits for its delivery.
  private func settleForDelivery(
    _ file: CapturedFile, through descriptor: FileDescriptor, _ isPossible: (inout CapturedFile.State) -> Bool
  ) -> AwaitedDelivery? {
    var awaited: AwaitedDelivery?
    announce(file) { state in
      // Who writes past the daemon has done so only when its handle is released, which comes after its close.
      guard isPossible(&state), !state.handles.hasPassthroughWriter else { return nil }
      awaited = AwaitedDelivery(file: file.id, epoch: state.activity.epoch)
      let pendingEvent = state.activity.settledForDelivery()
      noteSettled(file, pendingEvent, hasRevision: true, &state, through: descriptor)
      return pendingEvent.map { PendingEvent($0) }
    }
    return awaited
  }

  /// write(2) with the flags that its descriptor has. Past its page cache the kernel leaves O_SYNC and O_DSYNC to the daemon;
  /// through it, fsync(2) follows by itself.
  func write(
    _ number: UInt64, at offset: Int64, _ bytes: UnsafeRawBufferPointer, flags: Int32
  ) throws(SystemError) -> Int {
    if case .virtual(let handle) = try handle(number) {
      return try writeVirtual(handle, at: offset, bytes, appends: flags & O_APPEND != 0)
    }
    let count = try write(number, at: offset, bytes)
    if flags & O_DSYNC != 0, count > 0, case .file(let handle) = try handle(number), handle.choice.route.isDirect {
      try makeDurable(handle, dataOnly: flags & O_SYNC != O_SYNC)
    }
    return count
  }

  /// fsync(2) of a handle.
  func synchronize(_ handle: FileHandle, dataOnly: Bool) throws(SystemError) -> AwaitedDelivery? {
    try makeDurable(handle, dataOnly: dataOnly)
    let file = handle.file
    guard settings(of: file)?.fsync == .remote else { return nil }
    // A reader does not know whether what others write is whole.
    return settleForDelivery(file, through: handle.descriptor) { state in
      handle.writes || state.activity.writableOpens == 0
    }
  }

  /// When it fails, it is unknown what of the earlier writes is on the disk.
  func makeDurable(_ handle: FileHandle, dataOnly: Bool) throws(SystemError) {
    let file = handle.file
    handle.hasSynchronized.store(true, ordering: .relaxed)
    // Nil while another thread's change is in progress, which may get to the file after the sync.
    let epoch = try file.state.withLock { (state) throws(SystemError) in
      // The kernel says it once.
      if let refusal = state.writeBack.refusal { throw refusal.error }
      if let code = state.integrity.present.lossErrno { throw SystemError(code: code) }
      return state.activity.mutationsInFlight == 0 ? state.activity.epoch : nil
    }
    do throws(SystemError) {
      try check(dataOnly ? fdatasync(handle.descriptor.number) : fsync(handle.descriptor.number))
      // All handles share the description, and another thread's call may have been told instead of this one.
      try file.state.withLock { (state) throws(SystemError) in
        noteWriteBack(of: file, &state)
        if let refusal = state.writeBack.refusal { throw refusal.error }
      }
    } catch {
      noteFailedSync(of: file, error)
      throw error
    }
    file.state.withLock { state in
      guard !state.writeBack.isRefused else { return }
      state.disk.synchronized(state.activity.epoch == epoch && state.activity.mutationsInFlight == 0)
    }
  }

  /// The kernel says it once, to the first that asks. What is being written may still be made good by its writers. What is
  /// settled is given to the disk again, and nothing of it counts until that has taken it.
  private func noteFailedSync(of file: CapturedFile, _ error: SystemError) {
    announce(file) { state in
      guard !state.activity.hasOpenRevision, !state.activity.isGone else {
        state.integrity.present.lostContent(.writeFailed(errno: error.code))
        markLack(of: file, &state)
        return nil
      }
      noteRefusal(of: file, &state, error)
      return .unsettled
    }
  }

  /// A user wants an interrupted file as it is.
  public func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {
    guard let file = file(of: id) else { return }
    namespaceLock.shared {
      file.state.withLock { state in
        let snapshot = snapshotLocked(of: file, &state)
        guard state.activity.epoch == epoch, state.activity.isQuiet, !state.byHand.hasChangedContent else { return }
        // What was found to be lost since then the user has not seen.
        if let present = snapshot.interruption, present.lostBytes != nil, present != interruption { return }
        state.integrity.present.accepted()
        state.integrity.settleAsItIs()
        do throws(SystemError) {
          keepMark(of: file, &state, through: try openForMarks(file, state))
        } catch {
          // Until the mark can be put, the next start asks for the word again.
        }
      }
    }
  }
}

/// A content for whose delivery a call waits.
struct AwaitedDelivery: Hashable, Sendable {
  var file: FileID
  var epoch: UInt64
}

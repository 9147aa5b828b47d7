import CLinux
import FileModel
import Glibc
import Synchronization

extension Filesystem {
  /// What the sink is to be told of a file.
  enum PendingEvent: Hashable, Sendable {
    case opened
    case changed
    case settled
    case unsettled
    case namesChanged
    case attributesChanged
    case onDisk
    case found
    case removed
    case vanished
    case evicted
    case writeFailed(Interruption)

    /// The sink learns from it whether the content is whole, or that it will.
    fileprivate var tellsOfContent: Bool {
      switch self {
      case .opened, .changed, .settled, .unsettled, .found, .removed, .vanished, .evicted: true
      case .namesChanged, .attributesChanged, .onDisk, .writeFailed: false
      }
    }

    init(_ pendingEvent: WriterActivity.PendingEvent) {
      switch pendingEvent {
      case .opened: self = .opened
      case .changed: self = .changed
      case .settled: self = .settled
      }
    }
  }

  /// Decides under the file's lock and tells the sink, so that the events of one file keep their order.
  ///
  /// The caller holds none of the locks. `decide` runs with the namespace lock held shared, so that it may use paths.
  func announce<Failure: Error>(
    _ file: CapturedFile, _ decide: (inout CapturedFile.State) throws(Failure) -> PendingEvent?
  ) throws(Failure) {
    try file.order.withLock { (_) throws(Failure) in
      try announceInOrder(file, decide)
    }
  }

  /// ``announce(_:_:)`` for a caller that holds the file's `order`.
  func announceInOrder<Failure: Error>(
    _ file: CapturedFile, _ decide: (inout CapturedFile.State) throws(Failure) -> PendingEvent?
  ) throws(Failure) {
    let events = try namespaceLock.shared { () throws(Failure) -> Events in
      try file.state.withLock { (state) throws(Failure) -> Events in
        let earlierDoubt = state.doubt
        state.doubt = nil
        readMark(of: file, &state)
        var pendingEvent: PendingEvent?
        do throws(Failure) {
          pendingEvent = try decide(&state)
        } catch {
          state.doubt = state.doubt ?? earlierDoubt
          throw error
        }
        // Only what says how the content is ends it; until then it is asked for each second.
        if pendingEvent?.tellsOfContent != true { state.doubt = state.doubt ?? earlierDoubt }
        let openedIsPending = state.announcement.takeOpened()
        var chunks = ChunkChangeTracker()
        if pendingEvent == .settled { swap(&chunks, &state.chunks) }
        guard openedIsPending || pendingEvent != nil else { return Events() }
        let snapshot = snapshotLocked(of: file, &state)
        if state.doubt != nil { flushes.add(file) }
        // The last name was taken away a moment ago, and the call that did it is about to say so.
        if snapshot.names.isEmpty, pendingEvent != .removed, pendingEvent != .vanished { return Events() }
        // A file that lost its name before its first event was said never had one for the sink.
        let opens = openedIsPending && !snapshot.names.isEmpty
        return Events(
          opened: opens ? .opened(snapshot) : nil,
          grown: chunks.takeReports(of: file.id, sizeBytes: snapshot.sizeBytes),
          announced: pendingEvent.map { event($0, file.id, snapshot) })
      }
    }
    if let opened = events.opened { sink.handle(opened) }
    for report in events.grown { sink.handle(.grown(report)) }
    if let announced = events.announced { sink.handle(announced) }
  }

  /// What one decision has to say, in this order.
  private struct Events {
    var opened: FileEvent?
    var grown: [GrowthReport] = []
    var announced: FileEvent?
  }

  private func event(_ pendingEvent: PendingEvent, _ id: FileID, _ snapshot: FileSnapshot) -> FileEvent {
    switch pendingEvent {
    case .opened: .opened(snapshot)
    case .changed: .changed(snapshot)
    case .settled: .settled(snapshot)
    case .unsettled: .unsettled(snapshot)
    case .namesChanged: .namesChanged(snapshot)
    case .attributesChanged: .attributesChanged(snapshot)
    case .onDisk: .onDisk(snapshot)
    case .found: .found(snapshot)
    case .removed: .removed(id)
    case .vanished: .vanished(id)
    case .evicted: .evicted(id)
    case .writeFailed(let cause): .writeFailed(id, cause)
    }
  }

  /// The facts of this instant. The file's lock and the namespace lock are held. Of a file that was taken away by hand the last
  /// known facts stand in. Where the disk cannot say what it is like, they do as well, and the content does not count as whole.
  func snapshotLocked(of file: CapturedFile, _ state: inout CapturedFile.State) -> FileSnapshot {
    let names = nodes.withLock { $0.table.paths(of: file.node) }
    do throws(SystemError) {
      state.lastKnown = CapturedFile.KnownAttributes(try statusLocked(of: file, state))
      noteContent(of: file, &state)
    } catch  where error.isAbsence && state.handles.descriptor == nil {
      // As it was. What has gone, or is another file, before it was ever looked at was something: it is not known what.
      if !names.isEmpty { noteMissing(file, &state) }
      if !state.lastKnown.areKnown {
        state.doubt = error
        flushes.add(file)
      }
    } catch {
      state.doubt = error
      flushes.add(file)
    }
    // Before everything else: nothing is to be read or decided meanwhile, whatever else is known of the file.
    let refusal = state.writeBack.refusal.flatMap {
      $0.holdsFile ? Interruption.spoolFailing(errno: $0.error.code) : nil
    }
    let doubt = state.doubt.map { Interruption.spoolUnreadable(errno: $0.code) }
    if refusal == nil, doubt == nil { noteLack(of: file, &state) }
    var snapshot = FileSnapshot(
      id: file.id, epoch: state.activity.epoch, sizeBytes: state.lastKnown.sizeBytes,
      modifiedNanoseconds: state.lastKnown.modifiedNanoseconds, mode: state.lastKnown.mode, inode: file.key.inode,
      names: names,
      writableOpens: state.activity.isSettled ? 0 : state.activity.writableOpens,
      mutationsInFlight: state.activity.mutationsInFlight,
      interruption: refusal ?? doubt ?? state.contentIntegrity.interruption,
      // What could not be read may say that it is.
      isPartlyReleased: state.label.released != nil || state.disk.mark == nil, pointer: state.label.pointer,
      user: state.lastKnown.user, group: state.lastKnown.group,
      diskErrno: state.writeBack.refusal?.error.code,
      isOnDisk: state.disk.isOnDisk && state.doubt == nil && !state.writeBack.isRefused && state.activity.isSettled,
      missing: state.lack?.missing, isPutInPlace: file.isPutInPlace)
    snapshot.wasFound = !state.announcement.wasCreatedHere
    snapshot.isWrittenAnew = state.integrity.isWrittenAnew
    snapshot.released = state.label.released
    return snapshot
  }

  /// The spool says what the file is like; also of one that was taken away. The file's lock and the namespace lock are held.
  func canBeRead(_ file: CapturedFile, _ state: CapturedFile.State) -> Bool {
    do throws(SystemError) {
      _ = try statusLocked(of: file, state)
      if state.disk.mark == nil { _ = try label(of: file, state, at: location(of: file.node)) }
      return true
    } catch {
      return error.isAbsence && state.handles.descriptor == nil
    }
  }

  /// The file's lock and the namespace lock are held.
  func statusLocked(of file: CapturedFile, _ state: CapturedFile.State) throws(SystemError) -> stat {
    if let descriptor = state.handles.descriptor { return try descriptor.status() }
    let status = try location(of: file.node).status()
    guard file.matches(status) else { throw .stale }
    return status
  }

  /// After a file lost or gained a name. The caller holds none of the locks.
  func announceNames(of file: CapturedFile) {
    announce(file) { state in
      guard !state.activity.isGone else { return nil }
      if nodes.withLock({ $0.table.isNamed(file.node) }) {
        state.disk.namesChanged()
        flushes.add(file)
        return .namesChanged
      }
      state.lostLastName()
      forgetRecordedMark(of: file.key)
      return .removed
    }
  }

  // MARK: The bracket around a mutation of the content

  /// Makes a mutation known before its system call on the descriptor. Every call that does not fail is followed by
  /// ``endMutation(_:of:through:writtenBytes:)``. Fails, and nothing may change, when it cannot be made durable that a receipt no
  /// longer counts, or be marked that the file is being written.
  func beginMutation(
    of file: CapturedFile, _ extent: ContentExtent, through descriptor: FileDescriptor
  ) throws(SystemError) -> ContentMutation {
    let begun = try file.state.withLock { (state) throws(SystemError) -> ContentMutation? in
      guard !state.activity.needsNewRevision else { return nil }
      try markWriting(file, &state, extent, through: descriptor)
      if state.idle.changed() { flushes.add(file) }
      return state.beginMutation(extent).mutation
    }
    if let begun { return begun }
    return try file.order.withLock { (_) throws(SystemError) in
      // The mark first: where it cannot be put nothing changes, and what is known of the content stays so.
      try announceInOrder(file) { (state) throws(SystemError) in
        // What an earlier run has left on the file is not known, and would be written over.
        guard state.disk.mark != nil else { throw state.doubt ?? .inputOutput }
        try markWriting(file, &state, extent, through: descriptor)
        return nil
      }
      // Other writers of this file wait here until the sink has made durable that a receipt no longer counts.
      let isFirst = file.state.withLock { $0.activity.needsNewRevision }
      if isFirst, !sink.contentWillChange(file.id) { throw .inputOutput }
      var mutation = ContentMutation(extent, epoch: 0)
      do throws(SystemError) {
        try announceInOrder(file) { (state) throws(SystemError) in
          // What an earlier run has left on the file is not known, and would be written over.
          guard state.disk.mark != nil else { throw state.doubt ?? .inputOutput }
          try markWriting(file, &state, extent, through: descriptor)
          return beginRevision(of: file, &state, &mutation)
        }
      } catch {
        // The sink expects a change, and where no process has the file open, no close says that there was none.
        if isFirst {
          sink.contentStays(file.id)
          announceInOrder(file) { $0.activity.isQuiet && !$0.activity.isGone ? .settled : nil }
        }
        throw error
      }
      return mutation
    }
  }

  /// ``beginMutation(of:_:through:)`` where nothing can refuse the change.
  @discardableResult
  func beginUnrefusableMutation(
    of file: CapturedFile, _ extent: ContentExtent, through descriptor: FileDescriptor
  ) -> ContentMutation {
    file.order.withLock { _ in
      let isFirst = file.state.withLock { $0.activity.needsNewRevision }
      // What it cannot record it says in its log.
      if isFirst { _ = sink.contentWillChange(file.id) }
      var mutation = ContentMutation(extent, epoch: 0)
      announceInOrder(file) { state in
        do throws(SystemError) {
          try markWriting(file, &state, extent, through: descriptor)
        } catch {
          state.integrity.present.lostContent(.writeFailed(errno: error.code))
        }
        return beginRevision(of: file, &state, &mutation)
      }
      return mutation
    }
  }

  /// The file's lock is held.
  private func beginRevision(
    of file: CapturedFile, _ state: inout CapturedFile.State, _ mutation: inout ContentMutation
  ) -> PendingEvent? {
    if state.activity.needsNewRevision {
      state.integrity.revisionBegan()
      state.byHand.forgetChange()
      state.forgetWhatWasSaved()
    }
    // Its disk is asked each second from now on.
    _ = state.idle.changed()
    flushes.add(file)
    let pendingEvent: WriterActivity.PendingEvent?
    (mutation, pendingEvent) = state.beginMutation(mutation.extent)
    return pendingEvent.map { PendingEvent($0) }
  }

  /// After a mutation's system call; `writtenBytes` is nil when it failed.
  func endMutation(
    _ mutation: ContentMutation, of file: CapturedFile, through descriptor: FileDescriptor, writtenBytes: UInt64?
  ) {
    let isEnded = file.state.withLock { state in
      state.changeTime.changed()
      state.chunks.end(mutation, writtenBytes: writtenBytes)
      if let writtenBytes {
        state.integrity.present.ended(mutation, writtenBytes: writtenBytes)
        noteGrowth(of: file, &state, writtenBytes: writtenBytes)
      }
      if writtenBytes != nil, case .size(let sizeBytes) = mutation.extent {
        cutReleased(of: file, &state, at: sizeBytes, through: descriptor)
        state.forgetWhatWasSaved()
        // Nothing is left of what another program has put there.
        if sizeBytes == 0 { state.byHand.forgetChange() }
      }
      guard state.activity.endsMutationsSilently else { return false }
      _ = state.activity.endMutation()
      return true
    }
    if isEnded { return }
    announce(file) { state in
      let hasRevision = state.activity.hasOpenRevision
      let pendingEvent = state.activity.endMutation()
      noteSettled(file, pendingEvent, hasRevision: hasRevision, &state, through: descriptor)
      return pendingEvent.map { PendingEvent($0) }
    }
  }
}

extension CapturedFile.State {
  fileprivate mutating func beginMutation(
    _ extent: ContentExtent
  ) -> (mutation: ContentMutation, pendingEvent: WriterActivity.PendingEvent?) {
    let pendingEvent = activity.beginMutation()
    integrity.began(extent)
    let mutation = ContentMutation(extent, epoch: activity.epoch)
    chunks.begin(mutation)
    return (mutation, pendingEvent)
  }
}

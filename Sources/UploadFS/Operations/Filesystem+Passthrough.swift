import CLinux
import FileModel
import Glibc
import Synchronization

/// Opens that pass the daemon, and what it has to do because it does not see what they write.
///
/// For all other code such a writer is one mutation that lasts from before its open is answered until it is released: the
/// content counts as changing all the time, so that nothing of it is read as if it could be trusted.
extension Filesystem {
  /// Room that has to be there for a writer that the daemon does not stop at the reserve: what a fast disk takes between two looks.
  static let unseenSpareBytesMin: UInt64 = 4 << 30

  /// Decides how a handle is opened, and gives the file to the kernel where it is to pass. The namespace lock and the
  /// file's lock are held.
  func chooseRoute(
    of file: CapturedFile, _ state: inout CapturedFile.State, _ descriptor: FileDescriptor,
    _ wanted: CachingPolicy.Opening, isNewContent: Bool
  ) -> CachingPolicy.Choice {
    // Where a call waits for the disk or the delivery, it has to be known what was written until then; a reader of a file of
    // which parts may be given back has to be told so, and a writer that its file has become too large. What a quota refuses has to
    // be known as well.
    guard let backingFiles = passthrough.backingFiles, state.label.released == nil,
      passthrough.knownQuotas.allowPassthrough,
      settings(of: file).map({ !$0.holdsCalls && $0.whenFull == .refuse && $0.tooLarge == .record }) ?? true
    else { return state.caching.choice(for: wanted) }
    var opening = wanted
    opening.mayPassThrough = true
    // A file that is only opened to be read or changed in places keeps its revision until something is written.
    opening.mayWriteUnseen =
      configuration.passthrough == .on && wanted.writes && (isNewContent || !state.activity.needsNewRevision)
      && hasNoSubscriber(file)
      && space.spareBytes() >= Self.unseenSpareBytesMin
    let choice = state.caching.choice(for: opening)
    guard choice.route.isPassthrough, state.handles.backing == nil else { return choice }
    state.handles.gave(openBacking(descriptor, to: backingFiles))
    return state.handles.backing == nil ? state.caching.choice(for: wanted) : choice
  }

  /// The kernel opens the file anew for each handle, and keeps what it was given as long as anything refers to the mount, also after
  /// the daemon's death: one that may write would look like a writer that has survived (``adoptSurvivingWriter(of:)``).
  private func openBacking(_ descriptor: FileDescriptor, to backingFiles: any BackingFiles) -> BackingID? {
    do throws(SystemError) {
      return backingFiles.openBacking(try descriptor.reopenedForReading())
    } catch {
      return nil
    }
  }

  /// By every name that the file has, it is sent only once it is closed, and no call waits for that. What name a file will
  /// get that has none is not known.
  private func hasNoSubscriber(_ file: CapturedFile) -> Bool {
    let paths = nodes.withLock { $0.table.paths(of: file.node) }
    return !paths.isEmpty
      && paths.allSatisfy { path in
        let settings = configuration.rules.settings(for: path)
        return settings.upload != .whileWriting && !settings.holdsCalls && settings.tooLarge == .record
      }
  }

  /// No handle passes any more. The file's lock is held.
  func returnBacking(_ state: inout CapturedFile.State) {
    guard let backing = state.handles.takeBacking() else { return }
    passthrough.backingFiles?.closeBacking(backing)
  }

  /// Whether the kernel has to ask for a file's attributes each time. The namespace lock is not needed.
  func changesUnseen(_ node: NodeID) -> Bool {
    guard !node.isVirtual, passthrough.writers.withLock({ !$0.isEmpty }) else { return false }
    return file(of: node)?.state.withLock { $0.handles.hasPassthroughWriter } ?? false
  }

  /// Before the open is answered: from now on the file may change at any time.
  func beginUnseenWriting(_ number: UInt64) throws(SystemError) {
    let handle = try fileHandle(number)
    beginUnseenMutation(of: handle.file, through: handle.descriptor)
    passthrough.writers.withLock { $0.opened(handle.file.node) }
    notices.checkEverySecond(true)
  }

  /// Its chunks can no longer be followed: a caller that asks is told so as long as there is an unseen writer.
  private func beginUnseenMutation(of file: CapturedFile, through descriptor: FileDescriptor) {
    beginUnrefusableMutation(of: file, .size(0), through: descriptor)
    file.state.withLock { $0.chunks = ChunkChangeTracker() }
  }

  /// The handle is released, and with it every descriptor. What it wrote is only now checked against the limits.
  func endUnseenWriting(_ handle: FileHandle) {
    let file = handle.file
    do throws(SystemError) {
      let end = Int64(try handle.descriptor.status().st_size)
      if UInt64(clamping: end) == handle.cutBytes.load(ordering: .relaxed) { noteCut(file, at: UInt64(clamping: end)) }
      if UInt64(clamping: end) > configuration.fileBytesMax { writeFailed(file, at: 0, count: Int(end), .tooLarge) }
    } catch {
      doubtContent(of: file, error)
    }
    doubtWrites(of: [file])
    var left: PassthroughWriters.Left?
    if handle.choice.mayLeaveMapping {
      do throws(SystemError) {
        // Whether a mapping is left can be told when this handle's own descriptor is closed: at the next look.
        left = PassthroughWriters.Left(file: file, descriptor: try handle.descriptor.reopenedForReading())
      } catch {
        // A mapping that is left could not be waited for.
        doubtContent(of: file, error)
      }
    }
    passthrough.writers.withLock { [left] in $0.released(file.node, leaving: left) }
    notices.attributesChanged(of: file.node)
    guard left == nil else { return }
    if handle.choice.mayLeaveMapping { file.state.withLock { $0.caching.mappingIsGone() } }
    if handle.hasSynchronized.load(ordering: .relaxed) { settleSynchronized(handle) }
    finishUnseenWriting(of: file, through: handle.descriptor)
  }

  /// What such a writer has done cannot be asked.
  private func doubtContent(of file: CapturedFile, _ error: SystemError) {
    file.state.withLock { $0.integrity.present.lostContent(.writeFailed(errno: error.code)) }
  }

  /// Who made the content durable before its close must not find the file interrupted after a power cut. What the writer did
  /// after its fsync(2) is not known, so that the disk is asked again.
  private func settleSynchronized(_ handle: FileHandle) {
    do throws(SystemError) {
      try makeDurable(handle, dataOnly: false)
    } catch {
      // It is part of the content's integrity now.
      return
    }
    handle.file.state.withLock { state in
      if state.handles.passthroughWriters == 1, state.activity.mutationsInFlight == 1 { state.disk.synchronized(true) }
    }
  }

  /// The disk may have refused a write that the daemon has not seen, of each writer that had its file open when the reserve was
  /// touched, or when the disk had quotas by now: what they have written may lack something.
  private func doubtWrites(of files: [CapturedFile]) {
    guard !files.isEmpty, let code = possibleRefusal() else { return }
    for file in files { file.state.withLock { $0.integrity.present.lostContent(.writeFailed(errno: code)) } }
  }

  /// What the spool's disk may have told a writer of which the daemon does not know; nil where it had no reason to refuse anything.
  private func possibleRefusal() -> Int32? {
    let known = passthrough.lookAtQuotas(of: root)
    if space.spareBytes(refreshing: true) == 0 { return ENOSPC }
    return known.allowPassthrough ? nil : EDQUOT
  }

  private func finishUnseenWriting(of file: CapturedFile, through descriptor: FileDescriptor) {
    file.state.withLock { $0.handles.passthroughWriterEnded() }
    endMutation(.unseen, of: file, through: descriptor, writtenBytes: nil)
  }

  /// Once a second while there are such writers: makes room for them, and lets go of those of which nothing is left.
  func checkPassthroughWriters() {
    let unseen = passthrough.writers.withLock { $0 }
    doubtWrites(of: unseen.open.keys.compactMap { file(of: $0) } + unseen.left.map(\.file))
    if passthrough.writers.withLock({ !$0.open.isEmpty }) { space.makeRoom(for: Self.unseenSpareBytesMin, from: self) }
    let gone = passthrough.writers.withLock { unseen in
      unseen.takeLeft { isWrittenByOthers($0.file, $0.descriptor) != true }
    }
    for left in gone {
      // A mapping that cannot be asked for cannot be waited for.
      if isWrittenByOthers(left.file, left.descriptor) == nil { doubtContent(of: left.file, .inputOutput) }
      left.file.state.withLock { $0.caching.mappingIsGone() }
      finishUnseenWriting(of: left.file, through: left.descriptor)
      notices.attributesChanged(of: left.file.node)
    }
    notices.checkEverySecond(passthrough.writers.withLock { !$0.isEmpty })
  }

  /// Whether another process may write to the spool's file: by a mapping whose descriptors are closed, or by a descriptor that
  /// was opened through a mount whose daemon has died, and which the kernel goes on serving.
  ///
  /// Can be told only while no handle is open; as long as one is, its program may write. Nil where the system does not say it.
  private func isWrittenByOthers(_ file: CapturedFile, _ reader: FileDescriptor) -> Bool? {
    file.state.withLock { isWrittenByOthers($0, reader) }
  }

  private func isWrittenByOthers(_ state: CapturedFile.State, _ reader: FileDescriptor) -> Bool? {
    state.handles.count == 0 ? passthrough.isOpenForWriting(reader) : true
  }

  /// Before the daemon opens a file that the scan has not come to: its own descriptor may write, so that afterwards it cannot be told
  /// whether another program writes it through a mount whose daemon has died. The file's lock and the namespace lock are held.
  func askForSurvivingWriter(of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard passthrough.mayHaveLentFiles, state.handles.count == 0,
      state.announcement.survivingWriter == nil, state.announcement.isToBeFound
    else { return }
    do throws(SystemError) {
      state.announcement.askedForSurvivingWriter(.init(passthrough.isOpenForWriting(try openByName(file))))
    } catch {
      // The scan meets the same.
      return
    }
  }

  /// At the start: a file that a process still writes through a mount whose daemon has died is open for writing until it is
  /// let go of. True when it is.
  func adoptSurvivingWriter(of file: CapturedFile) -> Bool {
    guard passthrough.mayHaveLentFiles else { return false }
    let isNew = file.state.withLock { state in
      state.announcement.isToBeFound && !state.activity.isGone && state.activity.isQuiet
    }
    guard isNew else { return false }
    let reader: FileDescriptor
    do throws(SystemError) {
      reader = try namespaceLock.shared { () throws(SystemError) in try openByName(file) }
    } catch {
      if !error.isAbsence { doubtSurvivingWriter(of: file) }
      return false
    }
    // The daemon's own descriptor, for a program that opens or truncates it, may write, too: what was asked before that is the answer.
    // Under one lock, so that no such descriptor comes between the two questions.
    let answer = file.state.withLock { state in
      state.announcement.survivingWriter ?? .init(isWrittenByOthers(state, reader))
    }
    switch answer {
    case .some: break
    case .none: return false
    case .untold:
      doubtSurvivingWriter(of: file)
      return false
    }
    namespaceLock.shared {
      file.state.withLock { state in
        readMark(of: file, &state)
        state.announcement.found()
        state.handles.passthroughWriterBegan()
        state.caching.leftMapping()
        do throws(SystemError) {
          try keep(.writing(in: instance), of: file, &state, on: reader)
          state.disk.doubted(.writing(in: instance))
        } catch {
          // What it is now, an interrupted content, is known to this run; the flush tries it again.
          state.disk.markIsOutdated()
          flushes.add(file)
        }
      }
    }
    beginUnseenMutation(of: file, through: reader)
    // Whether it finishes or is killed, is unknown.
    file.state.withLock { $0.integrity.present.lostContent(.mountDied) }
    passthrough.writers.withLock { $0.found(PassthroughWriters.Left(file: file, descriptor: reader)) }
    notices.checkEverySecond(true)
    return true
  }
}

extension Filesystem {
  /// The system does not say whether it is being written.
  private func doubtSurvivingWriter(of file: CapturedFile) {
    namespaceLock.shared {
      file.state.withLock { state in
        readMark(of: file, &state)
        state.integrity.present.lostContent(.mountDied)
        state.integrity.settleAsItIs()
      }
    }
  }
}

extension FileDescriptor {
  /// Whether any description of the file can write to it, by whether the system gives a lease for reading; nil where it does neither
  /// that nor say so.
  func isOpenForWriting() -> Bool? {
    let answer = uploadfs_is_open_for_writing(number)
    return answer < 0 ? nil : answer == 1
  }

  /// Another description of the same file, which counts as no writer.
  func reopenedForReading() throws(SystemError) -> FileDescriptor {
    FileDescriptor(
      owning: try check(uploadfs_openat(AT_FDCWD, reopenPath, O_RDONLY | O_CLOEXEC, 0)), isReadable: true,
      isWritable: false)
  }
}

import CLinux
import FileModel
import Glibc
import Synchronization

/// What becomes of a file that the spool's disk did not take (docs/semantics.md, S41d).
///
/// The kernel writes pages to the disk some time after write(2) has returned. When the disk refuses them, it keeps them for a while
/// as if they had been written. Under memory pressure it drops them, and reads zeros in their place from then on. It tells of the
/// failure once, to each file description that was open by then. So it is asked before anything of a file counts: each second while
/// the file is written, before and after each chunk that is read, at the last close, and by the flush after that. Until the disk
/// has taken the pages that are still there, nothing is read of the file. What was read from the disk before the kernel was asked
/// is no longer what was written, as far as can be told (``DiskReads``).
extension Filesystem {
  /// Asks whether the disk has refused anything of the file since this was last asked. The file's lock is held.
  func noteWriteBack(of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard let descriptor = state.writeBack.asking?.descriptor ?? state.handles.descriptor else { return }
    let read = file.diskReads.withLock { $0.takeEnded() }
    let error = writeBackErrors(descriptor)
    if error != nil || state.writeBack.isRefused { file.diskReads.withLock { $0.putBack(read) } }
    guard let error else { return }
    // Known from here on, the handles' own description need not tell of it once more when the disk has taken everything.
    if let shared = state.handles.descriptor, shared !== descriptor { _ = writeBackErrors(shared) }
    noteRefusal(of: file, &state, error)
  }

  /// The disk has refused something of the file. The file's lock is held.
  func noteRefusal(of file: CapturedFile, _ state: inout CapturedFile.State, _ error: SystemError) {
    state.disk.contentIsNotThere()
    state.writeBack.refused(error)
    // What the kernel reads for passthrough handles is not seen.
    if state.caching.passthroughHandles > 0 { file.diskReads.withLock { $0.mayHaveReadAll() } }
    markLack(of: file, &state)
    flushes.add(file)
  }

  /// Before the first change that the disk does not have: from now on the kernel tells of failures. The file's lock is held.
  func beginAsking(_ state: inout CapturedFile.State, of descriptor: FileDescriptor) {
    guard state.writeBack.asking == nil else { return }
    state.writeBack.beginAsking(through: keptDescriptors.keep(descriptor))
  }

  /// Gives what is in memory of a refused file to its disk again, if that is due.
  func saveAgain(_ file: CapturedFile) {
    guard let saving = beginSaving(file) else { return }
    let content = Content(descriptor: saving.descriptor, released: saving.released)
    var failure: SystemError?
    do throws(SystemError) {
      try rewrite(file, content)
      try check(fsync(content.descriptor.number))
    } catch .wouldBlock {
      // Its writers are at it.
      return flushes.add(file)
    } catch {
      failure = error
    }
    let pages = failure == nil ? nil : pinnedPages(content, saving)
    announce(file) { [failure] state in
      // Another thread's fsync(2) may have been told instead of this one.
      noteWriteBack(of: file, &state)
      guard var refusal = state.writeBack.refusal, !state.activity.isGone else { return nil }
      let failed = failure ?? (state.writeBack.refusals == saving.refusals ? nil : refusal.error)
      let heldFile = refusal.holdsFile
      // What was written meanwhile is on its way to the disk, and the kernel will tell of it.
      let isSame = state.activity.epoch == saving.epoch
      if let failed {
        refusal.refused(failed, atSeconds: Self.monotonicSeconds())
        flushes.add(file)
      }
      let lost = lostBytes(of: file, content, saving, isPinned: refusal.pages != nil)
      // A user may want it as it is after the first time.
      let isNewlyLost = lost != nil && refusal.lost == nil
      if let lost, isNewlyLost {
        refusal.lost = lost
        state.lostContent(.lostInWriteBack(errno: refusal.error.code, lost))
        markLack(of: file, &state)
      } else if lost == nil, failed != nil, refusal.pages == nil, state.activity.isSettled, isSame {
        refusal.pages = pages
      }
      state.writeBack.savingEnded(leaving: failed == nil ? nil : refusal)
      if !state.writeBack.isRefused {
        _ = file.diskReads.withLock { $0.takeEnded() }
        if !isSame { flushes.add(file) }
      }
      guard state.activity.isSettled else { return nil }
      if isSame { noteSaved(of: file, &state, through: content.descriptor) }
      if isNewlyLost { return .unsettled }
      guard heldFile || !state.writeBack.isRefused else { return nil }
      return state.writeBack.refusal?.holdsFile == true ? .unsettled : .settled
    }
  }

  /// What was in memory no longer, or may have been read from the disk again before it was checked. What is pinned was whole.
  private func lostBytes(
    of file: CapturedFile, _ content: Content, _ saving: Saving, isPinned: Bool
  ) -> Range<UInt64>? {
    let lost = content.lost.withLock { $0 }
    guard !isPinned, let read = file.diskReads.withLock({ $0.range })?.clamped(to: 0..<saving.sizeBytes), !read.isEmpty
    else { return lost }
    return DiskReads.joined(lost, read)
  }

  /// Its pages, when they are the ones that were just given to the disk: one that was dropped since is read from the disk by pinning it.
  private func pinnedPages(_ content: Content, _ saving: Saving) -> PinnedPages? {
    guard saving.isSettled, !saving.isPinned, content.lost.withLock({ $0 == nil }),
      let pages = PinnedPages(of: content.descriptor, byteCount: Int(clamping: saving.sizeBytes))
    else { return nil }
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceBytes, alignment: Int(getpagesize()))
    defer { piece.deallocate() }
    do throws(SystemError) {
      for rewritten in content.pieces.withLock({ $0 }) {
        guard try rewritten.isStill(in: content.descriptor, through: piece) else {
          content.lose(rewritten.range)
          return nil
        }
      }
    } catch {
      // Not there as a whole: tried again with the next writing.
      return nil
    }
    return pages
  }

  /// Bytes that were in memory, and were given to the disk again.
  struct RewrittenPiece: Sendable {
    let range: Range<UInt64>
    private let digest: Int

    init(at offset: UInt64, _ bytes: UnsafeRawBufferPointer) {
      range = offset..<offset + UInt64(bytes.count)
      digest = Filesystem.digest(of: bytes)
    }

    /// Whether the file holds them, by what is read of it into a buffer that has room for them.
    func isStill(
      in file: FileDescriptor, through buffer: UnsafeMutableRawBufferPointer
    ) throws(SystemError) -> Bool {
      let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[..<range.count])
      let count = try Filesystem.readFully(file, at: Int64(range.lowerBound), into: bytes)
      return count == bytes.count && Filesystem.digest(of: UnsafeRawBufferPointer(bytes)) == digest
    }
  }

  /// For comparing within this process.
  fileprivate static func digest(of bytes: UnsafeRawBufferPointer) -> Int {
    var hasher = Hasher()
    hasher.combine(bytes: bytes)
    return hasher.finalize()
  }

  /// A settled file was given to its disk again.
  private func noteSaved(
    of file: CapturedFile, _ state: inout CapturedFile.State, through descriptor: FileDescriptor
  ) {
    let mark = state.markOnceSaved
    do throws(SystemError) {
      try keep(mark, of: file, &state, on: descriptor)
      state.disk.saved(mark)
    } catch {
      state.disk.markIsOutdated()
      flushes.add(file)
    }
    guard !state.writeBack.isRefused else { return }
    state.disk.synchronized(true)
    state.writeBack.endAsking()
  }

  /// The file as it was when that began.
  private struct Saving: Sendable {
    var descriptor: FileDescriptor
    var released: ReleasedChunks?
    var epoch: UInt64
    var refusals: UInt64
    var isSettled: Bool
    var isPinned: Bool
    var sizeBytes: UInt64
  }

  /// What is read and written again.
  private final class Content: Sendable {
    let descriptor: FileDescriptor
    let released: ReleasedChunks?
    /// From the first byte that was in memory no longer to the last.
    let lost = Mutex<Range<UInt64>?>(nil)
    /// What was in memory.
    let pieces = Mutex<[RewrittenPiece]>([])

    init(descriptor: FileDescriptor, released: ReleasedChunks?) {
      self.descriptor = descriptor
      self.released = released
    }

    func lose(_ bytes: Range<UInt64>) {
      guard released?.intersects(bytes) != true else { return }
      lost.withLock { $0 = DiskReads.joined($0, bytes) }
    }
  }

  /// Nil when there is nothing to save, or not now; then the file is in the queue again.
  private func beginSaving(_ file: CapturedFile) -> Saving? {
    namespaceLock.shared {
      file.state.withLock { state in
        // What it has refused by now is what is to be saved.
        noteWriteBack(of: file, &state)
        guard let refusal = state.writeBack.refusal else { return nil }
        guard !state.activity.isGone else {
          state.leaveToItsWriters()
          return nil
        }
        do throws(SystemError) {
          // Where the kernel writes by itself, what is read here may be old by the time it is written again.
          guard refusal.dueSeconds <= Self.monotonicSeconds(), !state.handles.hasPassthroughWriter else {
            flushes.add(file)
            return nil
          }
          let descriptor = try descriptorForSaving(file, &state)
          _ = writeBackErrors(descriptor)
          return Saving(
            descriptor: descriptor, released: state.label.released, epoch: state.activity.epoch,
            refusals: state.writeBack.refusals, isSettled: state.activity.isSettled, isPinned: refusal.pages != nil,
            sizeBytes: UInt64(clamping: try descriptor.status().st_size))
        } catch {
          state.writeBack.savingFailed(error, atSeconds: Self.monotonicSeconds())
          flushes.add(file)
          return nil
        }
      }
    }
  }

  private func descriptorForSaving(
    _ file: CapturedFile, _ state: inout CapturedFile.State
  ) throws(SystemError) -> FileDescriptor {
    if let known = state.handles.descriptor, known.isReadable, known.isWritable { return known }
    return FileDescriptor(
      owning: try openSpoolFile(file, &state, O_RDWR), isReadable: true, isWritable: true)
  }

  private static let pieceBytes = 1 << 20

  /// Piece by piece, each while no process can change the file.
  private func rewrite(_ file: CapturedFile, _ content: Content) throws(SystemError) {
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceBytes, alignment: Int(getpagesize()))
    defer { piece.deallocate() }
    var offset: UInt64 = 0
    while true {
      let next = try file.state.withLock { (state) throws(SystemError) -> UInt64? in
        guard state.activity.mutationsInFlight == 0, !state.activity.isGone else { throw .wouldBlock }
        return try rewritePiece(at: offset, content, through: piece)
      }
      guard let next else { return }
      offset = next
    }
  }

  /// Returns where the next piece begins; nil at the end of the file. Its times stay as they are.
  private func rewritePiece(
    at offset: UInt64, _ content: Content, through piece: UnsafeMutableRawBufferPointer
  ) throws(SystemError) -> UInt64? {
    let before = try content.descriptor.status()
    let end = min(UInt64(clamping: before.st_size), offset + UInt64(piece.count))
    guard offset < end, let base = piece.baseAddress else { return nil }
    let position = off_t(offset)
    let count = uploadfs_read_cached(content.descriptor.number, base, Int(end - offset), position)
    guard count > 0 else {
      let page = UInt64(getpagesize())
      let next = min(end, (offset / page + 1) * page)
      content.lose(offset..<next)
      return next
    }
    try Self.writeAll(content.descriptor, at: position, UnsafeRawBufferPointer(start: base, count: count))
    let times = [timespec(tv_sec: 0, tv_nsec: Int(uploadfs_utime_omit)), before.st_mtim]
    try check(futimens(content.descriptor.number, times))
    let rewritten = RewrittenPiece(at: offset, UnsafeRawBufferPointer(start: base, count: count))
    content.pieces.withLock { $0.append(rewritten) }
    return rewritten.range.upperBound
  }

  private static func writeAll(
    _ descriptor: FileDescriptor, at offset: off_t, _ bytes: UnsafeRawBufferPointer
  ) throws(SystemError) {
    var done = 0
    while done < bytes.count, let base = bytes.baseAddress {
      done += try retryingInterrupts {
        pwrite(descriptor.number, base + done, bytes.count - done, offset + off_t(done))
      }
    }
  }

  static func monotonicSeconds() -> Int {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec
  }
}

extension CapturedFile.State {
  /// Another content takes the place of the one that the disk refuses.
  mutating func forgetWhatWasSaved() {
    writeBack.forgetWhatWasSaved(keepingLoss: integrity.present.lossErrno != nil)
  }
}

extension FileDescriptor {
  /// What earlier writes failed with on their way to the disk; each failure once. Waits for nothing.
  func takeWriteBackError() -> SystemError? {
    guard uploadfs_take_write_back_error(number) != 0 else { return nil }
    return SystemError.last.asRefusal
  }
}

extension SystemError {
  /// What was asked for refusals fails with this; nil where that says nothing of a disk.
  var asRefusal: SystemError? {
    // The call itself, on a filesystem that does not know it or in a container that does not let it through. Everything else is what
    // a disk has said: there are more such errors than one knows.
    [EBADF, EINVAL, ESPIPE, ENOSYS, EPERM].contains(code) ? nil : self
  }
}

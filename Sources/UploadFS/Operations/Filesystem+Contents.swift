import CLinux
public import FileModel
import Glibc
import Synchronization

/// What the uploader may ask: facts, bytes, and room.
extension Filesystem {
  /// The file as it is now; nil when it has no name and no process holds it open.
  public func snapshot(of id: FileID) -> FileSnapshot? {
    guard let file = file(of: id) else { return nil }
    return namespaceLock.shared {
      file.state.withLock { state in
        noteWriteBack(of: file, &state)
        var snapshot = snapshotLocked(of: file, &state)
        // Until it is said that the content is another one, nothing of it is read.
        if state.byHand.hasChangedContent { snapshot.mutationsInFlight += 1 }
        guard snapshot.names.isEmpty, state.handles.count == 0 else { return snapshot }
        noteMissing(file, &state)
        return nil
      }
    }
  }

  /// How long the file is now; nil where the disk does not say it soon.
  public func sizeBytesSoon(of id: FileID) -> UInt64? {
    inquiry.ask { [weak self] in self?.snapshot(of: id)?.sizeBytes } ?? nil
  }

  /// What this user may still write on the spool's disk; nil where it does not say so soon.
  public func freeBytesSoon() -> UInt64? {
    inquiry.ask { [root] () -> UInt64? in
      var numbers = uploadfs_space()
      return uploadfs_get_space(root.number, &numbers) == 0 ? numbers.availableBytes : nil
    } ?? nil
  }

  /// What has happened to the chunks of a file that is open for writing since this was last asked.
  public func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? {
    growth(of: id, chunkBytes: chunkBytes, anew: anew, for: .only)
  }

  func growth(of id: FileID, chunkBytes: Int, anew: Bool, for subscriber: SubscriberID) -> GrowthReport? {
    guard let file = file(of: id) else { return nil }
    return file.state.withLock { state in
      guard state.activity.writableOpens > 0, !state.handles.hasPassthroughWriter, !state.activity.isGone,
        let descriptor = state.handles.descriptor
      else {
        return nil
      }
      let sizeBytes: UInt64
      do throws(SystemError) {
        sizeBytes = UInt64(clamping: try descriptor.status().st_size)
      } catch {
        // Nothing of unknown size is sent early.
        return nil
      }
      let activity = state.activity
      return state.chunks.takeReport(
        for: subscriber, of: id, chunkBytes: chunkBytes, anew: anew, sizeBytes: sizeBytes
      ) {
        ChunkActivity(
          chunkBytes: chunkBytes, written: Self.dataRanges(of: descriptor, sizeBytes: sizeBytes), epoch: activity.epoch,
          mutationsInFlight: activity.mutationsInFlight)
      }
    }
  }

  /// Where the spool's file has data. Behind so many pieces that it would take long the rest counts as not written.
  private static func dataRanges(of descriptor: FileDescriptor, sizeBytes: UInt64) -> [Range<UInt64>] {
    let number = descriptor.number
    var ranges: [Range<UInt64>] = []
    var end: UInt64 = 0
    while end < sizeBytes, ranges.count < 256 {
      // Reads and writes state their offsets, so that the descriptor's own is not needed.
      let data = lseek(number, off_t(end), uploadfs_seek_data)
      guard data >= 0 else { break }
      let hole = lseek(number, data, uploadfs_seek_hole)
      guard hole > data else { break }
      end = min(UInt64(hole), sizeBytes)
      guard UInt64(data) < end else { break }
      ranges.append(UInt64(data)..<end)
    }
    return ranges
  }

  /// The epoch of the last mutation that touched the chunk at an offset; nil while one is in progress.
  public func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64? {
    stableEpoch(of: id, at: offset, for: .only)
  }

  func stableEpoch(of id: FileID, at offset: UInt64, for subscriber: SubscriberID) -> UInt64? {
    file(of: id)?.state.withLock { state in
      state.byHand.hasChangedContent ? nil : state.chunks.stableEpoch(for: subscriber, at: offset)
    }
  }

  /// Opens the file for reading. Access times stay as they are where the system allows it.
  public func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile {
    guard let file = file(of: id) else { throw .gone }
    do throws(SystemError) {
      return SpoolReader(try descriptorForReading(file), of: file, in: self)
    } catch {
      throw FileContentsError(error)
    }
  }

  /// Removes the local copy of a delivered file, unless it was opened, changed or renamed since it was chosen. True when removed.
  public func evict(_ candidate: EvictionCandidate) -> Bool {
    guard let file = file(of: candidate.id) else { return false }
    return file.order.withLock { _ in
      let (removed, hasOtherNames) = namespaceLock.exclusive { () -> (Evicted?, hasOtherNames: Bool) in
        // Opening needs the namespace lock, so no process can open it while this is decided and done.
        let isIdle = file.state.withLock { state in
          _ = snapshotLocked(of: file, &state)
          return !state.byHand.hasChangedContent && state.activity.epoch == candidate.epoch && state.activity.isQuiet
            && state.handles.count == 0
            && !state.activity.isGone
        }
        guard isIdle else { return (nil, false) }
        guard candidate.names == nodes.withLock({ $0.table.paths(of: file.node) }) else { return (nil, true) }
        return (removeEveryName(of: file), false)
      }
      // Under another name it is still to be delivered. The sink does not know of one that was made in the spool by hand.
      if hasOtherNames { announceInOrder(file) { state in state.activity.isGone ? nil : .namesChanged } }
      guard let removed else { return false }
      sink.handle(.evicted(candidate.id))
      space.evictedFiles.add(file, bytes: removed.bytes)
      for entry in removed.entries { notices.entryRemoved(entry) }
      return true
    }
  }

  func file(of id: FileID) -> CapturedFile? {
    nodes.withLock { namespace in
      namespace.table.node(of: id).flatMap { namespace.table[$0]?.file }
    }
  }

  private func descriptorForReading(_ file: CapturedFile) throws(SystemError) -> FileDescriptor {
    do throws(SystemError) {
      return try namespaceLock.shared { () throws(SystemError) in try openForReading(file) }
    } catch  where error == .accessDenied && !isPrivileged {
      // A file that denies its owner to read, in the spool of an ordinary user's daemon: it has to be delivered all the
      // same. Alone in the namespace, so that no stat(2) sees the mode in between.
      return try namespaceLock.exclusive { () throws(SystemError) in
        let place = try location(of: file.node)
        let mode = try place.status().st_mode & 0o7777
        try place.setMode(mode | S_IRUSR)
        let opened = Result { () throws(SystemError) in try openForReading(file) }
        try place.setMode(mode)
        return try opened.get()
      }
    }
  }

  /// A description of the reader's own, so that its lock and its advice are its own; the one that handles share only
  /// where the file cannot be reached by a name. The namespace lock is held.
  private func openForReading(_ file: CapturedFile) throws(SystemError) -> FileDescriptor {
    do throws(SystemError) {
      return try openByName(file)
    } catch  where error == .stale || error == .notFound {
      guard let shared = file.state.withLock({ $0.handles.descriptor }), shared.isReadable else { throw error }
      return shared
    }
  }

  func openByName(_ file: CapturedFile) throws(SystemError) -> FileDescriptor {
    let place = try location(of: file.node)
    let number: Int32
    do throws(SystemError) {
      number = try open(file, at: place, O_RDONLY | uploadfs_o_noatime)
    } catch .notPermitted {
      number = try open(file, at: place, O_RDONLY)
    }
    file.openings.add(1, ordering: .acquiringAndReleasing)
    return FileDescriptor(owning: number, isReadable: true, isWritable: false) { [weak file] in
      file?.openings.subtract(1, ordering: .acquiringAndReleasing)
    }
  }

  /// What an eviction took away, and the hold on the inode: its blocks are given back outside of the lock.
  private struct Evicted: Sendable {
    var entries: [NoticeQueue.RemovedEntry]
    var pin: FileDescriptor
    var bytes: UInt64
  }

  /// The namespace lock is held alone. Nil when the file has to stay: it has names that are not known yet, so that
  /// removing the known ones would free nothing, or a name cannot be removed.
  private func removeEveryName(of file: CapturedFile) -> Evicted? {
    guard let node = nodes.withLock({ $0.table[file.node] }), !node.names.isEmpty else { return nil }
    let pin: FileDescriptor
    let bytes: UInt64
    do throws(SystemError) {
      let status = try statusInSpool(of: file.node)
      guard Int(status.st_nlink) == node.names.count else { return nil }
      bytes = UInt64(clamping: status.st_blocks) &* 512
      pin = try location(of: file.node).pin()
    } catch {
      // What cannot be examined stays.
      return nil
    }
    for entry in node.names {
      do throws(SystemError) {
        let place = try location(of: entry)
        guard try place.status().key == file.key else { return nil }
        try check(unlinkat(place.directory, place.path, 0))
      } catch {
        return nil
      }
      withNodes { _ = $0.table.removeName(entry) }
    }
    file.state.withLock { $0.lostLastName() }
    forgetRecordedMark(of: file.key)
    let entries = node.lookups == 0 ? [] : node.names.map { NoticeQueue.RemovedEntry(entry: $0, node: file.node) }
    return Evicted(entries: entries, pin: pin, bytes: bytes)
  }
}

extension FileDescriptor {
  func identity() throws(FileContentsError) -> FileIdentity {
    do throws(SystemError) {
      let status = try status()
      let known = CapturedFile.KnownAttributes(status)
      return FileIdentity(
        inode: UInt64(status.st_ino), sizeBytes: known.sizeBytes, modifiedNanoseconds: known.modifiedNanoseconds)
    } catch {
      throw FileContentsError(error)
    }
  }
}

extension FileContentsError {
  init(_ error: SystemError) {
    self = error == .stale || error == .notFound ? .gone : .system(errno: error.code)
  }
}

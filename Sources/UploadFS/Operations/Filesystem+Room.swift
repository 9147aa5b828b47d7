import CLinux
import FileModel
import Glibc
import Synchronization

/// Space for what is to be written: delivered files go for it.
extension Filesystem {
  /// How many of `bytes` may be written, making room if need be. When a part is no use, nothing is removed unless all of
  /// it can be had.
  ///
  /// While deliveries are in flight that may free some, a writer is slowed down before it is refused: by pauses that have an
  /// end, whatever the network does.
  func admit(_ bytes: UInt64, at offset: Int64, through handle: FileHandle, isPartEnough: Bool) -> UInt64 {
    var attempt = Attempt()
    var admitted = admitAtOnce(bytes, isPartEnough: isPartEnough, &attempt)
    if admitted == bytes { return bytes }
    let owned = ownedBytes(of: bytes, at: offset, in: handle.descriptor)
    // The rest is the next write's, which may have to wait for it.
    if owned == bytes || owned > 0 && isPartEnough { return min(bytes, owned + admitted) }
    let isReleasing = canRelease.load(ordering: .relaxed) && settings(of: handle.file)?.whenFull == .release
    var backoff = WriteBackoff(
      permits: backoffPermits, countMax: isReleasing ? WriteBackoff.countMaxWhileReleasing : WriteBackoff.countMax)
    while isPartEnough ? admitted == 0 : admitted < bytes,
      NeededRoom.mayCome(
        isDelivering: attempt.isLoading || sink.mayFreeSpace, heldBytes: attempt.heldBytes), backoff.take()
    {
      attempt.begin()
      admitted = admitAtOnce(bytes, isPartEnough: isPartEnough, &attempt)
    }
    return admitted
  }

  /// What one call has tried to make room, and what was on its way when the last look was taken at it: the next look may find it there.
  private struct Attempt {
    /// What cannot go is not tried after each pause, but now and then: it may have been read for a moment.
    var turns = EvictionTurns()
    private var count = 0
    /// What had not come back of removed files.
    var heldBytes: UInt64 = 0
    /// Delivered files that the sink has forgotten were coming.
    var isLoading = false

    mutating func begin() {
      count += 1
      if count % 5 == 0 { turns = EvictionTurns() }
      heldBytes = 0
      isLoading = false
    }
  }

  private func admitAtOnce(_ bytes: UInt64, isPartEnough: Bool, _ attempt: inout Attempt) -> UInt64 {
    space.admit(bytes) { headroom in
      // Files without a name that the kernel might still open are worth less than a write.
      withNodes { $0.table.unpinFiles() }
      let room = NeededRoom(bytes: bytes)
      let missingBytes = room.missingBytes(headroom())
      if missingBytes == 0 || !isPartEnough && !isAttainable(missingBytes) { return }
      let found = evict(for: room, &attempt.turns, headroom)
      attempt.heldBytes = found.heldBytes
      guard !found.isEnough else { return }
      attempt.isLoading = sink.loadCandidates()
      if !attempt.isLoading { releaseChunks(for: bytes) }
    }
  }

  /// Both at one moment: what comes back in between would count twice, or not at all.
  private func headroomAndHeld(_ headroom: () -> Headroom) -> (headroom: Headroom, heldBytes: UInt64) {
    while true {
      let heldBytes = evictedFiles.heldBytes
      let found = headroom()
      if evictedFiles.heldBytes == heldBytes { return (found, heldBytes) }
    }
  }

  /// So much would come back from all delivered files together.
  private func isAttainable(_ bytes: UInt64) -> Bool {
    var turns = EvictionTurns()
    var (attainable, isOver) = evictedFiles.heldBytes.addingReportingOverflow(sink.unloadedBytes)
    while !isOver, attainable < bytes, let candidate = turns.next(among: sink.evictionCandidates) {
      turns.stays()
      (attainable, isOver) = attainable.addingReportingOverflow(snapshot(of: candidate.id)?.sizeBytes ?? 0)
    }
    return isOver || attainable >= bytes
  }

  /// Removes the next one of them that can go; false when there is none.
  private func evictOne(_ turns: inout EvictionTurns) -> Bool {
    while let candidate = turns.next(among: sink.evictionCandidates) {
      if evict(candidate) { return true }
      turns.stays()
    }
    return false
  }

  /// Removes delivered files, oldest first, until so much is free, or comes back in a moment.
  @discardableResult
  private func evict(
    for room: NeededRoom, _ turns: inout EvictionTurns, _ headroom: () -> Headroom
  ) -> (isEnough: Bool, heldBytes: UInt64) {
    while true {
      let found = headroomAndHeld(headroom)
      if room.isOnItsWay(found.headroom, heldBytes: found.heldBytes) { return (true, found.heldBytes) }
      guard evictOne(&turns) else { return (false, found.heldBytes) }
    }
  }

  /// Makes something in the spool. Where the disk has no place for it, which may be a matter of inodes, delivered files go, oldest
  /// first, until it has, or enough have gone in vain. The caller holds none of the locks.
  func withRoomForOne<Made>(_ make: () throws(SystemError) -> Made) throws(SystemError) -> Made {
    var failure: SystemError
    do throws(SystemError) {
      return try make()
    } catch {
      guard error.isOfSpace else { throw error }
      failure = error
    }
    // An inode may be what is lacking, and be held for a file without a name.
    withNodes { $0.table.unpinFiles() }
    do throws(SystemError) {
      return try make()
    } catch {
      guard error.isOfSpace else { throw error }
      failure = error
    }
    var removedCount = 0
    var turns = EvictionTurns()
    var backoff = WriteBackoff(permits: backoffPermits)
    while removedCount < Self.removedForOneMax {
      guard evictOne(&turns) else {
        if sink.loadCandidates(), backoff.take() { continue }
        break
      }
      removedCount += 1
      do throws(SystemError) {
        return try make()
      } catch {
        guard error.isOfSpace else { throw error }
        failure = error
      }
    }
    guard removedCount > 0 else { throw failure }
    // Some filesystems give back what removed files had only when their journal is written. What that fails with each file is asked for.
    _ = uploadfs_syncfs(root.number)
    return try make()
  }

  private static let removedForOneMax = 8

  /// Removes delivered files until so much may be written, or none is left.
  func makeRoom(for bytes: UInt64) {
    guard space.spareBytes(refreshing: true) < bytes else { return }
    withNodes { $0.table.unpinFiles() }
    var turns = EvictionTurns()
    evict(for: NeededRoom(bytes: bytes), &turns) { space.headroom(refreshing: true) }
  }

  /// How many bytes of a range, from its start on, a file has the space of already, so that writing them takes none: what lies before
  /// the end of one without holes, or what the spool's filesystem says so of. Space that was reserved behind the end counts, and what
  /// lies between holes.
  private func ownedBytes(of bytes: UInt64, at offset: Int64, in descriptor: FileDescriptor) -> UInt64 {
    let (end, isOver) = offset.addingReportingOverflow(Int64(clamping: bytes))
    guard offset >= 0, !isOver else { return 0 }
    let status: stat
    do throws(SystemError) {
      status = try descriptor.status()
    } catch {
      // Then room is asked for.
      return 0
    }
    func count(upTo position: Int64) -> UInt64 { UInt64(max(0, min(position, end) - offset)) }
    let hasHoles = Int64(status.st_blocks) < Int64(status.st_size) / 512
    let written = hasHoles ? 0 : count(upTo: Int64(status.st_size))
    guard written < UInt64(end - offset) else { return written }
    let said = uploadfs_space_from(descriptor.number, UInt64(offset), UInt64(end))
    guard said < 0 else { return max(written, UInt64(said)) }
    // tmpfs has no such question. One that knows of no holes calls all of a file data, and this one has some.
    guard hasHoles, lseek(descriptor.number, 0, uploadfs_seek_hole) < status.st_size else { return written }
    return count(upTo: Int64(lseek(descriptor.number, off_t(offset), uploadfs_seek_hole)))
  }
}

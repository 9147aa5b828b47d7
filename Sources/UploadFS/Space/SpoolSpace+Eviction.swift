import CLinux
import FileModel

/// What can go for something that is to be written, as the filesystem and its sink know it. No lock of the filesystem is held when this is
/// called.
protocol RoomGiving: Sendable {
  /// Files without a name that the kernel might still open are let go of: they are worth less than a write.
  func unpinFiles()
  /// Delivered files, oldest first, so many at most.
  func evictionCandidates(countMax: Int) -> [EvictionCandidate]
  /// Removes a delivered file, unless it was opened, changed or renamed since it was chosen. True when removed.
  func evict(_ candidate: EvictionCandidate) -> Bool
  /// How long a file is; 0 where it is gone.
  func sizeBytes(of candidate: EvictionCandidate) -> UInt64
  /// What delivered files take that the sink has forgotten.
  var unloadedBytes: UInt64 { get }
  /// Delivered files that the sink has forgotten come back; false where there are none.
  func loadCandidates() -> Bool
  /// Deliveries are in flight that may free some.
  var mayFreeSpace: Bool { get }
  /// Gives chunks back that a server holds, so that so much may be written.
  func releaseChunks(for bytes: UInt64)
}

/// Space for what is to be written: delivered files go for it.
extension SpoolSpace {
  /// How many of `bytes` may be written, making room if need be. When a part is no use, nothing is removed unless all of
  /// it can be had.
  ///
  /// While deliveries are in flight that may free some, a writer is slowed down before it is refused: by pauses that have an
  /// end, whatever the network does.
  ///
  /// - Parameters:
  ///   - ownedBytes: How many of them the file has the space of already; asked where there is no room.
  ///   - pausesMax: How many pauses the writer makes at most; asked where it has to.
  func admit(
    _ bytes: UInt64, isPartEnough: Bool, from files: some RoomGiving, ownedBytes: () -> UInt64, pausesMax: () -> Int
  ) -> UInt64 {
    var attempt = Attempt()
    var admitted = admitAtOnce(bytes, isPartEnough: isPartEnough, from: files, &attempt)
    if admitted == bytes { return bytes }
    let owned = ownedBytes()
    // The rest is the next write's, which may have to wait for it.
    if owned == bytes || owned > 0 && isPartEnough { return min(bytes, owned + admitted) }
    var backoff = WriteBackoff(permits: backoffPermits, countMax: pausesMax())
    while isPartEnough ? admitted == 0 : admitted < bytes,
      NeededRoom.mayCome(
        isDelivering: attempt.isLoading || files.mayFreeSpace, heldBytes: attempt.heldBytes), backoff.take()
    {
      attempt.begin()
      admitted = admitAtOnce(bytes, isPartEnough: isPartEnough, from: files, &attempt)
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

  private func admitAtOnce(
    _ bytes: UInt64, isPartEnough: Bool, from files: some RoomGiving, _ attempt: inout Attempt
  ) -> UInt64 {
    admit(bytes) { headroom in
      files.unpinFiles()
      let room = NeededRoom(bytes: bytes)
      let missingBytes = room.missingBytes(headroom())
      if missingBytes == 0 || !isPartEnough && !isAttainable(missingBytes, from: files) { return }
      let found = evict(for: room, from: files, &attempt.turns, headroom)
      attempt.heldBytes = found.heldBytes
      guard !found.isEnough else { return }
      attempt.isLoading = files.loadCandidates()
      if !attempt.isLoading { files.releaseChunks(for: bytes) }
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
  private func isAttainable(_ bytes: UInt64, from files: some RoomGiving) -> Bool {
    var turns = EvictionTurns()
    var (attainable, isOver) = evictedFiles.heldBytes.addingReportingOverflow(files.unloadedBytes)
    while !isOver, attainable < bytes, let candidate = turns.next(among: files.evictionCandidates) {
      turns.stays()
      (attainable, isOver) = attainable.addingReportingOverflow(files.sizeBytes(of: candidate))
    }
    return isOver || attainable >= bytes
  }

  /// Removes the next one of them that can go; false when there is none.
  private func evictOne(from files: some RoomGiving, _ turns: inout EvictionTurns) -> Bool {
    while let candidate = turns.next(among: files.evictionCandidates) {
      if files.evict(candidate) { return true }
      turns.stays()
    }
    return false
  }

  /// Removes delivered files, oldest first, until so much is free, or comes back in a moment.
  @discardableResult
  private func evict(
    for room: NeededRoom, from files: some RoomGiving, _ turns: inout EvictionTurns, _ headroom: () -> Headroom
  ) -> (isEnough: Bool, heldBytes: UInt64) {
    while true {
      let found = headroomAndHeld(headroom)
      if room.isOnItsWay(found.headroom, heldBytes: found.heldBytes) { return (true, found.heldBytes) }
      guard evictOne(from: files, &turns) else { return (false, found.heldBytes) }
    }
  }

  /// Makes something in the spool. Where the disk has no place for it, which may be a matter of inodes, delivered files go, oldest
  /// first, until it has, or enough have gone in vain. The caller holds none of the locks.
  func withRoomForOne<Made>(
    from files: some RoomGiving, _ make: () throws(SystemError) -> Made
  ) throws(SystemError) -> Made {
    var failure: SystemError
    do throws(SystemError) {
      return try make()
    } catch {
      guard error.isOfSpace else { throw error }
      failure = error
    }
    // An inode may be what is lacking, and be held for a file without a name.
    files.unpinFiles()
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
      guard evictOne(from: files, &turns) else {
        if files.loadCandidates(), backoff.take() { continue }
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
    synchronizeDisk()
    return try make()
  }

  private static let removedForOneMax = 8

  /// Removes delivered files until so much may be written, or none is left.
  func makeRoom(for bytes: UInt64, from files: some RoomGiving) {
    guard spareBytes(refreshing: true) < bytes else { return }
    files.unpinFiles()
    var turns = EvictionTurns()
    evict(for: NeededRoom(bytes: bytes), from: files, &turns) { headroom(refreshing: true) }
  }
}

import CLinux
import Glibc
import Synchronization

/// Keeps the reserve of the spool's filesystem free: admits writes, and makes room before it refuses one.
final class SpoolSpace: Sendable {
  /// Asks for the numbers of the spool's filesystem.
  typealias Source = @Sendable () throws(SystemError) -> uploadfs_space

  private let directory: FileDescriptor
  private let source: Source?
  private let ledger: Mutex<SpaceLedger>
  /// One thread makes room at a time; the others wait for it instead of evicting twice as much. The outermost lock of those that are taken
  /// meanwhile.
  private let roomTurn = Mutex<Void>(())
  /// Removed files whose place the disk has not got back, behind a lock of its own.
  let evictedFiles = EvictedFiles()
  /// How many writers may pause at once.
  let backoffPermits: BackoffPermits

  /// `source` stands in for statvfs(2) of the spool in tests.
  init(
    directory: FileDescriptor, reserveBytes: UInt64, backoffPermits: BackoffPermits, source: Source? = nil
  ) {
    self.directory = directory
    self.source = source
    self.backoffPermits = backoffPermits
    ledger = Mutex(SpaceLedger(reserveBytes: reserveBytes))
  }

  /// Admits up to `bytes` and returns how many; fewer when the reserve leaves no more, 0 when there is no room at all.
  ///
  /// `makeRoom` is called at most once and only when room is short. It removes files until `headroom`, which asks the
  /// system each time, returns enough or nothing more can go.
  func admit(_ bytes: UInt64, makeRoom: (_ headroom: () -> Headroom) -> Void) -> UInt64 {
    if admitAll(bytes, refreshing: false) { return bytes }
    return roomTurn.withLock { _ in
      if admitAll(bytes, refreshing: true) { return bytes }
      makeRoom { self.headroom(refreshing: true) }
      if admitAll(bytes, refreshing: true) { return bytes }
      // Some filesystems give the blocks of removed files back only when their journal is written. What it fails with each
      // file is asked for.
      synchronizeDisk()
      if admitAll(bytes, refreshing: true) { return bytes }
      // A local filesystem writes what still fits; whole pages keep the next writes aligned.
      let part = spareBytes(refreshing: false) & ~0xfff
      return part > 0 && part < bytes && admitAll(part, refreshing: false) ? part : 0
    }
  }

  /// Writes back what the spool's filesystem has; what fails each file is asked for.
  func synchronizeDisk() { _ = uploadfs_syncfs(directory.number) }

  /// What statvfs(2) says of the spool, less the reserve; never negative.
  func statistics() throws(SystemError) -> uploadfs_space {
    var numbers = try systemStatistics()
    let block = max(numbers.block_bytes, 1)
    let reserve = ledger.withLock { $0.reserveBytes }
    let reserveBlocks = reserve / block + (reserve % block == 0 ? 0 : 1)
    numbers.available_blocks = numbers.available_blocks > reserveBlocks ? numbers.available_blocks - reserveBlocks : 0
    numbers.free_blocks = numbers.free_blocks > reserveBlocks ? numbers.free_blocks - reserveBlocks : 0
    numbers.name_bytes_max = 255
    return numbers
  }

  private func admitAll(_ bytes: UInt64, refreshing: Bool) -> Bool {
    ledger.withLock { ledger in
      refresh(&ledger, always: refreshing)
      return ledger.admit(bytes)
    }
  }

  /// What may still be written before the reserve is touched.
  func spareBytes(refreshing: Bool = false) -> UInt64 { headroom(refreshing: refreshing).spareBytes }

  /// That, or what the reserve lacks.
  func headroom(refreshing: Bool) -> Headroom {
    ledger.withLock { ledger in
      refresh(&ledger, always: refreshing)
      return ledger.headroom
    }
  }

  private func refresh(_ ledger: inout SpaceLedger, always: Bool) {
    var clock = timespec()
    clock_gettime(CLOCK_MONOTONIC, &clock)
    let now = UInt64(clamping: clock.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: clock.tv_nsec)
    guard always || ledger.isStale(at: now) else { return }
    do throws(SystemError) {
      ledger.refresh(availableBytes: try systemStatistics().availableBytes, at: now)
    } catch {
      // What was known last stands; the write that follows shows the disk's own error.
    }
  }

  private func systemStatistics() throws(SystemError) -> uploadfs_space {
    if let source { return try source() }
    var numbers = uploadfs_space()
    try check(uploadfs_get_space(directory.number, &numbers))
    return numbers
  }
}

extension uploadfs_space {
  /// What ordinary users may still write.
  var availableBytes: UInt64 {
    let (bytes, isOver) = available_blocks.multipliedReportingOverflow(by: block_bytes)
    return isOver ? .max : bytes
  }
}

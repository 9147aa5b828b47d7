import ReceiverCore
import CLinux
import Glibc
import Synchronization

/// An append-only file of records (``JournalFraming``). What a crash tore in mid-write is cut off when it is read.
final class Journal: Sendable {
  private struct State {
    /// What an earlier process has appended counts as one record that is not on the disk yet.
    var appended: UInt64 = 1
    var synced: UInt64 = 0
    /// A sync up to here has failed. The kernel tells that once, and every waiter for the same records has to hear it.
    var lost: UInt64 = 0
  }

  /// Journals of a session are bounded by the writes that it may make.
  static let fileBytesMax = 1 << 30

  private let file: FileDescriptor
  private let beforeSync: @Sendable () throws(StoreFailure) -> Void
  private let state = Mutex(State())
  /// Held during fdatasync, so that waiting threads find their records synced by the one before.
  private let syncing = Mutex(())

  init(
    appendingTo file: FileDescriptor, beforeSync: @escaping @Sendable () throws(StoreFailure) -> Void = {}
  ) {
    self.file = file
    self.beforeSync = beforeSync
  }

  /// The position after the record, for ``sync(to:)``.
  @discardableResult
  func append(_ payload: [UInt8]) throws(StoreFailure) -> UInt64 { try append([payload]) }

  /// Appends records in one write; the position after them.
  func append(_ payloads: [[UInt8]]) throws(StoreFailure) -> UInt64 {
    let bytes = JournalFraming.bytes(of: payloads)
    return try state.withLock { (state) throws(StoreFailure) -> UInt64 in
      try appendLocked(bytes)
      state.appended += 1
      return state.appended
    }
  }

  /// Records that the disk had no room for must not stay in part: everything after them would be cut off with them.
  private func appendLocked(_ records: [UInt8]) throws(StoreFailure) {
    let written = uploadfs_write_all(file.raw, records, records.count)
    guard written < records.count else { return }
    let failure = StoreFailure.last("write")
    let size = UInt64(clamping: try file.status().st_size)
    if written > 0 { try file.truncate(to: size - min(size, UInt64(written))) }
    throw failure
  }

  /// Returns when everything that was appended before the call is on the disk.
  func sync() throws(StoreFailure) {
    try sync(to: state.withLock { $0.appended })
  }

  /// Returns when everything up to the position is on the disk; one sync serves all who wait for it.
  func sync(to position: UInt64) throws(StoreFailure) {
    try syncing.withLock { (_) throws(StoreFailure) in
      let target = try state.withLock { (state) throws(StoreFailure) -> UInt64? in
        guard position > state.lost else { throw .io("fdatasync: failed before, and these records may be lost") }
        return state.synced >= position ? nil : state.appended
      }
      guard let target else { return }
      do throws(StoreFailure) {
        try beforeSync()
        try file.syncData()
      } catch {
        // What was appended since it began may have been part of it.
        state.withLock { $0.lost = $0.appended }
        throw error
      }
      state.withLock { $0.synced = max($0.synced, target) }
    }
  }

  /// What is read of it afterwards is what the disk has: memory may hold records that the disk has refused.
  func rereadFromDisk() throws(StoreFailure) {
    try syncing.withLock { (_) throws(StoreFailure) in
      try file.syncData()
      file.dropCache()
      state.withLock { $0.lost = 0 }
    }
  }

  /// Reads a journal and cuts off what is torn. Nothing is cut off where not one record is whole.
  static func recover(_ file: FileDescriptor) throws(StoreFailure) -> [ArraySlice<UInt8>] {
    let bytes = try file.readAll(limit: fileBytesMax)
    let contents = JournalFraming.read(bytes)
    if contents.validBytes < bytes.count, contents.validBytes > 0 {
      try file.truncate(to: UInt64(contents.validBytes))
    }
    return contents.payloads
  }
}

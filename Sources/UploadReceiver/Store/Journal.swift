import ReceiverCore
import CLinux
import Glibc
import Integrity
import Synchronization

/// An append-only file of records, each with its length and CRC32C. A record is complete or it is not there: a torn
/// tail, from a crash in mid-write, is cut off when the journal is read.
///
/// Layout of a record: length of the payload (UInt32 LE), CRC32C of the payload (UInt32 LE), payload.
final class Journal: Sendable {
  private struct State {
    var appended: UInt64 = 0
    var synced: UInt64 = 0
  }

  private static let headerBytes = 8
  private static let recordBytesMax = 64 << 10
  /// Journals of a session are bounded by the writes that it may make.
  static let fileBytesMax = 1 << 30

  private let file: FileDescriptor
  private let beforeSync: @Sendable () throws(StoreFailure) -> Void
  private let state = Mutex(State())
  /// Held during fdatasync, so that those who wait find their records synced by the one before.
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
    var records: [UInt8] = []
    records.reserveCapacity(payloads.reduce(0) { $0 + Journal.headerBytes + $1.count })
    for payload in payloads {
      let checksum = payload.withUnsafeBytes { CRC32C.checksum($0) }
      withUnsafeBytes(of: UInt32(truncatingIfNeeded: payload.count).littleEndian) { records.append(contentsOf: $0) }
      withUnsafeBytes(of: checksum.littleEndian) { records.append(contentsOf: $0) }
      records.append(contentsOf: payload)
    }
    let bytes = records
    return try state.withLock { (state) throws(StoreFailure) -> UInt64 in
      try appendLocked(bytes)
      state.appended += 1
      return state.appended
    }
  }

  /// Records that the disk had no room for must not stay in part: everything after them would be cut off with them.
  private func appendLocked(_ records: [UInt8]) throws(StoreFailure) {
    var written = 0
    while written < records.count {
      let count = records.withUnsafeBytes {
        Glibc.write(file.raw, $0.baseAddress?.advanced(by: written), $0.count - written)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        let failure = StoreFailure.last("write")
        let size = UInt64(clamping: try file.status().st_size)
        if written > 0 { try file.truncate(to: size - min(size, UInt64(written))) }
        throw failure
      }
      written += count
    }
  }

  /// Returns when everything that was appended before the call is on the disk.
  func sync() throws(StoreFailure) {
    try sync(to: state.withLock { $0.appended })
  }

  /// Returns when everything up to the position is on the disk; one sync serves all who wait for it.
  func sync(to position: UInt64) throws(StoreFailure) {
    try syncing.withLock { (_) throws(StoreFailure) in
      let target = state.withLock { $0.synced >= position ? nil : $0.appended }
      guard let target else { return }
      try beforeSync()
      try file.syncData()
      state.withLock { $0.synced = max($0.synced, target) }
    }
  }

  /// The payloads of the complete records, and where they end.
  static func read(_ bytes: [UInt8]) -> (payloads: [ArraySlice<UInt8>], validBytes: Int) {
    var payloads: [ArraySlice<UInt8>] = []
    var position = 0
    while bytes.count - position >= headerBytes {
      let length = Int(littleEndian(bytes[position..<position + 4]))
      let start = position + headerBytes
      guard length <= recordBytesMax, bytes.count - start >= length else { break }
      let payload = bytes[start..<start + length]
      guard payload.withUnsafeBytes({ CRC32C.checksum($0) }) == littleEndian(bytes[position + 4..<start]) else { break }
      payloads.append(payload)
      position = start + length
    }
    return (payloads, position)
  }

  /// Reads a journal and cuts off what is torn.
  static func recover(_ file: FileDescriptor) throws(StoreFailure) -> [ArraySlice<UInt8>] {
    let bytes = try file.readAll(limit: fileBytesMax)
    let (payloads, validBytes) = read(bytes)
    if validBytes < bytes.count { try file.truncate(to: UInt64(validBytes)) }
    return payloads
  }

  private static func littleEndian(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }
}

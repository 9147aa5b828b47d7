import Integrity

/// How records lie in a journal: each with its length and CRC32C. A record is complete or it is not there: a torn tail,
/// from a crash in mid-write, ends the journal.
///
/// Layout of a record: length of the payload (UInt32 LE), CRC32C of the payload (UInt32 LE), payload.
package enum JournalFraming {
  package static let headerBytes = 8
  package static let recordBytesMax = 64 << 10

  /// Records as they are appended to a journal.
  package static func bytes(of payloads: [[UInt8]]) -> [UInt8] {
    var records: [UInt8] = []
    records.reserveCapacity(payloads.reduce(0) { $0 + headerBytes + $1.count })
    for payload in payloads {
      let checksum = payload.withUnsafeBytes { CRC32C.checksum($0) }
      withUnsafeBytes(of: UInt32(truncatingIfNeeded: payload.count).littleEndian) { records.append(contentsOf: $0) }
      withUnsafeBytes(of: checksum.littleEndian) { records.append(contentsOf: $0) }
      records.append(contentsOf: payload)
    }
    return records
  }

  /// What a journal holds.
  package struct Contents {
    /// The payloads of the records that are whole.
    package var payloads: [ArraySlice<UInt8>] = []
    /// Where the last of them ends. What follows was torn by a crash.
    package var validBytes = 0
    /// Between them, what a disk has damaged.
    package var damagedBytes = 0
  }

  /// A record that is damaged costs itself and not those behind it: what is recorded proves itself.
  package static func read(_ bytes: [UInt8]) -> Contents {
    var contents = Contents()
    var position = 0
    while let (payload, start) = nextRecord(bytes, from: position) {
      contents.payloads.append(payload)
      contents.damagedBytes += start - position
      position = payload.endIndex
    }
    contents.validBytes = position
    return contents
  }

  /// There are as many bytes as the first record is to have, whatever they are: a crash has not torn it.
  package static func isWhole(_ bytes: [UInt8]) -> Bool {
    guard bytes.count >= headerBytes else { return false }
    return bytes.count - headerBytes >= Int(littleEndian(bytes[..<4]))
  }

  /// The record at a position, or the first behind what is none.
  private static func nextRecord(
    _ bytes: [UInt8], from position: Int
  ) -> (payload: ArraySlice<UInt8>, start: Int)? {
    if let payload = record(bytes, at: position) { return (payload, position) }
    // A damaged record is no longer than any other one.
    let end = min(position + headerBytes + recordBytesMax, bytes.count - headerBytes)
    var start = position + 1
    while start <= end {
      // An empty one is eight zeros, which may be anything.
      if let payload = record(bytes, at: start), !payload.isEmpty { return (payload, start) }
      start += 1
    }
    return nil
  }

  private static func record(_ bytes: [UInt8], at position: Int) -> ArraySlice<UInt8>? {
    guard bytes.count - position >= headerBytes else { return nil }
    let length = Int(littleEndian(bytes[position..<position + 4]))
    let start = position + headerBytes
    guard length <= recordBytesMax, bytes.count - start >= length else { return nil }
    let payload = bytes[start..<start + length]
    let checksum = payload.withUnsafeBytes { CRC32C.checksum($0) }
    return checksum == littleEndian(bytes[position + 4..<start]) ? payload : nil
  }

  private static func littleEndian(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }
}

import Integrity

/// How records lie in a journal: each with its length and CRC32C. A record is complete or it is not there: a torn tail,
/// from a crash in mid-write, ends the journal.
///
/// Layout of a record: length of the payload (UInt32 LE), CRC32C of the payload (UInt32 LE), payload.
package enum JournalFraming {
  private static let headerBytes = 8
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

  /// The payloads of the complete records, and where they end.
  package static func read(_ bytes: [UInt8]) -> (payloads: [ArraySlice<UInt8>], validBytes: Int) {
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

  private static func littleEndian(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }
}

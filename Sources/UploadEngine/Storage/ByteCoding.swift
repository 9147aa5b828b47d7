import Integrity

/// Puts little-endian numbers and counted bytes together.
struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  init(capacity: Int = 0) {
    bytes.reserveCapacity(capacity)
  }

  mutating func append(_ more: [UInt8]) {
    bytes += more
  }

  mutating func append(_ digest: Digest32) {
    digest.withUnsafeBytes { bytes.append(contentsOf: $0) }
  }

  mutating func append<Number: FixedWidthInteger>(_ number: Number) {
    withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
  }

  /// Appends a count that has to fit.
  mutating func append<Number: FixedWidthInteger>(count: Int, as type: Number.Type) throws(StorageError) {
    guard let number = Number(exactly: count) else {
      throw StorageError(.invalid, "\(count) does not fit into a resume record")
    }
    append(number)
  }

  mutating func appendCounted<Number: FixedWidthInteger>(_ more: [UInt8], as type: Number.Type) throws(StorageError) {
    try append(count: more.count, as: type)
    append(more)
  }
}

/// Takes apart what ``ByteWriter`` put together; nil when there are not enough bytes. Nothing is allocated before it is
/// known that the bytes are there.
struct ByteReader {
  private let bytes: [UInt8]
  private(set) var position = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  var count: Int { bytes.count }
  var remaining: Int { bytes.count - position }

  mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
    guard count >= 0, count <= remaining else { return nil }
    defer { position += count }
    return bytes[position..<(position + count)]
  }

  mutating func take<Number: FixedWidthInteger>(_ type: Number.Type) -> Number? {
    guard let slice = take(MemoryLayout<Number>.size) else { return nil }
    return slice.withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(as: Number.self)) }
  }

  mutating func takeCounted<Number: FixedWidthInteger>(as type: Number.Type) -> [UInt8]? {
    guard let number = take(type), let count = Int(exactly: number), let slice = take(count) else { return nil }
    return Array(slice)
  }
}

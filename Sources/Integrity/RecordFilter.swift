/// Rearranges the bytes of samples that lie side by side, so that a compressor finds what is alike about them.
///
/// The bytes are taken in blocks of ``blockBytes``, the last one shorter, and a block in records of ``stride`` bytes. Each record
/// is replaced by its differences from the one before it, word by word. Then all first bytes of the records are put together, all
/// second ones, and so on. What is left of a record behind its last whole word keeps its bytes; what is left of a block behind
/// its last whole record is not touched. Nothing becomes longer, and everything can be undone.
public struct RecordFilter: Hashable, Sendable {
  /// Bytes that are rearranged together, and the memory that this takes beside them.
  public static let blockBytes = 256 << 10
  /// The lengths that a record may have.
  public static let strides = 1...64
  /// The lengths of words of which there are differences.
  public static let wordLengths = [1, 2, 4, 8]

  /// The length of a record.
  public let stride: Int
  /// The length of a word of which there are differences; 0 where there are none.
  public let difference: Int

  /// Changes nothing.
  public static let none = RecordFilter()

  private init() {
    stride = 1
    difference = 0
  }

  /// Nil where there is no such filter: a word is no longer than its record.
  public init?(stride: Int, difference: Int = 0) {
    guard Self.strides.contains(stride), difference <= stride, difference == 0 || Self.wordLengths.contains(difference)
    else { return nil }
    self.stride = stride
    self.difference = difference
  }

  /// Rearranges the bytes in their place. `scratch` has room for a block, or for as many bytes as there are.
  public func apply(to bytes: UnsafeMutableRawBufferPointer, scratch: UnsafeMutableRawBufferPointer) {
    forEachBlock(of: bytes, scratch) { block, copy, recordCount in
      replaceByDifferences(copy, block, recordCount)
      transpose(recordCount) { record, place in
        block.storeBytes(of: copy.load(fromByteOffset: record, as: UInt8.self), toByteOffset: place, as: UInt8.self)
      }
    }
  }

  /// Undoes ``apply(to:scratch:)``.
  public func undo(in bytes: UnsafeMutableRawBufferPointer, scratch: UnsafeMutableRawBufferPointer) {
    forEachBlock(of: bytes, scratch) { block, copy, recordCount in
      transpose(recordCount) { record, place in
        block.storeBytes(of: copy.load(fromByteOffset: place, as: UInt8.self), toByteOffset: record, as: UInt8.self)
      }
      replaceBySums(block, recordCount)
    }
  }

  /// Each block with a copy of its records.
  private func forEachBlock(
    of bytes: UnsafeMutableRawBufferPointer, _ scratch: UnsafeMutableRawBufferPointer,
    _ body: (_ block: UnsafeMutableRawPointer, _ copy: UnsafeMutableRawPointer, _ recordCount: Int) -> Void
  ) {
    guard self != .none, let start = bytes.baseAddress, let copy = scratch.baseAddress else { return }
    precondition(scratch.count >= min(bytes.count, Self.blockBytes), "no room for a block")
    var position = 0
    while position < bytes.count {
      let byteCount = min(Self.blockBytes, bytes.count - position)
      let recordCount = byteCount / stride
      copy.copyMemory(from: start + position, byteCount: recordCount * stride)
      body(start + position, copy, recordCount)
      position += byteCount
    }
  }

  /// Tells of each byte where it is in the records and where among its like. The records are taken a few at a time, so that they
  /// are still in the nearest cache for their last byte.
  @inline(__always)
  private func transpose(_ recordCount: Int, _ move: (_ record: Int, _ place: Int) -> Void) {
    let tile = max(1, 4096 / stride)
    var first = 0
    while first < recordCount {
      let end = min(recordCount, first + tile)
      for byte in 0..<stride {
        for record in first..<end { move(record &* stride &+ byte, byte &* recordCount &+ record) }
      }
      first = end
    }
  }

  /// Of a copy, of which `records` is the original.
  private func replaceByDifferences(
    _ copy: UnsafeMutableRawPointer, _ records: UnsafeMutableRawPointer, _ recordCount: Int
  ) {
    switch difference {
    case 1: combine(records, into: copy, recordCount, UInt8.self) { $0 &- $1 }
    case 2: combine(records, into: copy, recordCount, UInt16.self) { $0 &- $1 }
    case 4: combine(records, into: copy, recordCount, UInt32.self) { $0 &- $1 }
    case 8: combine(records, into: copy, recordCount, UInt64.self) { $0 &- $1 }
    default: break
    }
  }

  private func replaceBySums(_ records: UnsafeMutableRawPointer, _ recordCount: Int) {
    switch difference {
    case 1: combine(records, into: records, recordCount, UInt8.self) { $0 &+ $1 }
    case 2: combine(records, into: records, recordCount, UInt16.self) { $0 &+ $1 }
    case 4: combine(records, into: records, recordCount, UInt32.self) { $0 &+ $1 }
    case 8: combine(records, into: records, recordCount, UInt64.self) { $0 &+ $1 }
    default: break
    }
  }

  /// Writes, from the second record on, what comes of each word and the same word of the record before; least significant byte
  /// first. Where records consist of words they are one row, which the compiler takes several at a time.
  @inline(__always)
  private func combine<Word: FixedWidthInteger & BitwiseCopyable>(
    _ records: UnsafeMutableRawPointer, into target: UnsafeMutableRawPointer, _ recordCount: Int, _ type: Word.Type,
    _ combine: (_ word: Word, _ before: Word) -> Word
  ) {
    let wordBytes = MemoryLayout<Word>.size
    let rest = stride % wordBytes
    let rows = rest == 0 ? 1 : recordCount
    let rowBytes = rest == 0 ? recordCount * stride : stride
    for row in (rest == 0 ? 0 : 1)..<max(1, rows) {
      let end = row * rowBytes + rowBytes - rest
      var offset = row * rowBytes + (rest == 0 ? stride : 0)
      while offset < end {
        let word = Word(littleEndian: records.loadUnaligned(fromByteOffset: offset, as: type))
        let before = Word(littleEndian: records.loadUnaligned(fromByteOffset: offset &- stride, as: type))
        target.storeBytes(of: combine(word, before).littleEndian, toByteOffset: offset, as: type)
        offset &+= wordBytes
      }
    }
  }
}

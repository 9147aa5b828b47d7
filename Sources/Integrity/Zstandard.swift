import CZSTD

/// Zstandard frames (RFC 8878) as they travel: one frame without a dictionary, whose plain length is known beside it.
public enum Zstandard {
  /// The largest window that a frame may ask for.
  public static let windowBytesMax = 8 << 20
  /// Blocks beyond these cost a receiver time without bringing it bytes: one for so many plain bytes …
  static let plainBytesPerBlockMin = 512
  /// … and these, for what is shorter.
  static let blocksBeside = 8

  /// Decompresses a frame that must fill `target` exactly; false when it is damaged, has another length, or asks for more than
  /// ``ZstandardFrame`` allows. Whatever the frame says, nothing outside of the two buffers is touched.
  public static func decompress(_ frame: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Bool {
    guard ZstandardFrame.isAcceptable(frame, plainBytes: target.count) else { return false }
    guard let source = frame.baseAddress, let start = target.baseAddress else { return false }
    return uploadfs_zstd_decompress(source, frame.count, start, target.count) == 1
  }

  /// As ``decompress(_:into:)``, with the filter undone.
  public static func decompress(
    _ frame: UnsafeRawBufferPointer, undoing filter: RecordFilter, into target: UnsafeMutableRawBufferPointer
  ) -> Bool {
    guard decompress(frame, into: target) else { return false }
    guard filter != .none else { return true }
    withUnsafeTemporaryAllocation(
      byteCount: min(target.count, RecordFilter.blockBytes), alignment: MemoryLayout<UInt64>.alignment
    ) { filter.undo(in: target, scratch: $0) }
    return true
  }
}

/// What a frame says of itself before it is decoded.
enum ZstandardFrame {
  private static let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]

  /// It is one frame and nothing else, for exactly these plain bytes as far as it names them, without a dictionary, with a window
  /// and a number of blocks that are worth decoding.
  static func isAcceptable(_ frame: UnsafeRawBufferPointer, plainBytes: Int) -> Bool {
    guard frame.count > 5, frame.prefix(4).elementsEqual(magic) else { return false }
    let descriptor = frame[4]
    let isOneSegment = descriptor & 0x20 != 0
    let hasChecksum = descriptor & 0x04 != 0
    // The reserved bit, and the dictionary's.
    guard descriptor & 0x0B == 0 else { return false }
    var position = 5
    if !isOneSegment {
      guard windowBytes(frame[position]) <= UInt64(Zstandard.windowBytesMax) else { return false }
      position += 1
    }
    let sizeBytes = [isOneSegment ? 1 : 0, 2, 4, 8][Int(descriptor >> 6)]
    guard position + sizeBytes <= frame.count else { return false }
    if sizeBytes > 0 {
      let size = number(frame, position, sizeBytes) &+ (sizeBytes == 2 ? 256 : 0)
      guard size == UInt64(plainBytes) else { return false }
      guard !isOneSegment || plainBytes <= Zstandard.windowBytesMax else { return false }
      position += sizeBytes
    }
    guard let end = endOfBlocks(frame, from: position, plainBytes: plainBytes) else { return false }
    return end + (hasChecksum ? 4 : 0) == frame.count
  }

  private static func windowBytes(_ descriptor: UInt8) -> UInt64 {
    let base = UInt64(1) << (10 + UInt64(descriptor >> 3))
    return base + base / 8 * UInt64(descriptor & 7)
  }

  /// Where the last block ends; nil when there is none, or there are too many.
  private static func endOfBlocks(_ frame: UnsafeRawBufferPointer, from start: Int, plainBytes: Int) -> Int? {
    var position = start
    var left = plainBytes / Zstandard.plainBytesPerBlockMin + Zstandard.blocksBeside
    while left > 0, position + 3 <= frame.count {
      let head = Int(number(frame, position, 3))
      position += 3
      // A repeated byte is written once.
      position += head >> 1 & 3 == 1 ? 1 : head >> 3
      guard position <= frame.count else { return nil }
      if head & 1 != 0 { return position }
      left -= 1
    }
    return nil
  }

  /// Least significant byte first.
  private static func number(_ bytes: UnsafeRawBufferPointer, _ position: Int, _ count: Int) -> UInt64 {
    (0..<count).reduce(0) { $0 | UInt64(bytes[position + $1]) << UInt64(8 * $1) }
  }
}

/// Compresses into Zstandard frames, and keeps its memory from one to the next. Not for two threads at once.
public final class ZstandardCompressor {
  /// Windows are no longer than this: what captures repeat is near, and a compressor's memory grows with its window.
  public static let windowLog: Int32 = 20

  private let compressor: OpaquePointer

  /// Nil when there is no memory.
  public init?() {
    guard let compressor = uploadfs_zstd_compressor_make() else { return nil }
    self.compressor = compressor
  }

  deinit { uploadfs_zstd_compressor_free(compressor) }

  /// Compresses into the front of `target`; the number of bytes written, nil when they do not fit.
  public func compress(
    _ plain: UnsafeRawBufferPointer, level: Int, into target: UnsafeMutableRawBufferPointer
  ) -> Int? {
    guard let source = plain.baseAddress, let start = target.baseAddress, !plain.isEmpty else { return nil }
    let count = uploadfs_zstd_compress(
      compressor, Int32(clamping: level), Self.windowLog, source, plain.count, start, target.count)
    return count > 0 ? count : nil
  }
}

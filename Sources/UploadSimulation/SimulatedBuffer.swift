import Integrity
import TransferModel
import UploadEngine

/// A chunk's bytes at a fixed address. The bytes are wiped when the buffer is given back, so that a request that still
/// sends from it is detected.
///
/// - Note: `@unchecked Sendable` is sound because a simulation runs in one thread, and the pointer never changes.
final class SimulatedBuffer: PinnedBytes, @unchecked Sendable {
  /// The read that filled it.
  let order: ReadOrder
  let plainBytes: Int
  /// The encoding of the bytes.
  let encoding: ChunkEncoding
  private let memory: UnsafeMutableRawBufferPointer
  private let count: Int

  /// Bytes that do not get enough shorter are not compressed.
  init(_ plain: [UInt8], of order: ReadOrder, as wanted: ChunkCompression) {
    self.order = order
    let compressed = wanted.zstd ? Self.frame(of: plain) : wanted.lz4 ? Self.block(of: plain) : nil
    let content = compressed ?? plain
    encoding = compressed == nil ? .identity : wanted.zstd ? .zstd(.none) : .lz4
    plainBytes = plain.count
    count = content.count
    memory = .allocate(byteCount: max(1, content.count), alignment: 1)
    memory.copyBytes(from: content)
  }

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

  func wipe() { memory.initializeMemory(as: UInt8.self, repeating: 0) }

  deinit { memory.deallocate() }

  private static func block(of plain: [UInt8]) -> [UInt8]? {
    shorter(plain) { LZ4.compress($0, into: $1) }
  }

  private static func frame(of plain: [UInt8]) -> [UInt8]? {
    guard let compressor = ZstandardCompressor() else { return nil }
    return shorter(plain) { compressor.compress($0, level: UploadConstants.sharedFrameLevel, into: $1) }
  }

  private static func shorter(
    _ plain: [UInt8], by compress: (UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer) -> Int?
  ) -> [UInt8]? {
    let limit = plain.count - Int(Double(plain.count) * UploadConstants.compressionBenefitThreshold) - 1
    guard limit > 0 else { return nil }
    var target = [UInt8](repeating: 0, count: limit)
    let count = plain.withUnsafeBytes { source in target.withUnsafeMutableBytes { compress(source, $0) } }
    return count.map { Array(target.prefix($0)) }
  }
}

import Integrity
import UploadEngine

/// A chunk's bytes at an address that stays. Wiped when it is given back, so that a request that still sends from it is found out.
///
/// - Note: `@unchecked Sendable` is sound because a simulation runs in one thread, and the pointer never changes.
final class SimulatedBuffer: PinnedBytes, @unchecked Sendable {
  /// What was read into it.
  let order: ReadOrder
  let plainBytes: Int
  /// The bytes are one LZ4 block.
  let isCompressed: Bool
  private let memory: UnsafeMutableRawBufferPointer
  private let count: Int

  init(_ plain: [UInt8], of order: ReadOrder, mayCompress: Bool) {
    self.order = order
    let block = mayCompress ? Self.compressed(plain) : nil
    let content = block ?? plain
    isCompressed = block != nil
    plainBytes = plain.count
    count = content.count
    memory = .allocate(byteCount: max(1, content.count), alignment: 1)
    memory.copyBytes(from: content)
  }

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

  func wipe() { memory.initializeMemory(as: UInt8.self, repeating: 0) }

  deinit { memory.deallocate() }

  /// Nil when that does not save enough (spec C5).
  private static func compressed(_ plain: [UInt8]) -> [UInt8]? {
    let limit = plain.count - Int(Double(plain.count) * UploadConstants.compressionBenefitThreshold) - 1
    guard limit > 0 else { return nil }
    var block = [UInt8](repeating: 0, count: limit)
    let count = plain.withUnsafeBytes { source in block.withUnsafeMutableBytes { LZ4.compress(source, into: $0) } }
    return count.map { Array(block.prefix($0)) }
  }
}

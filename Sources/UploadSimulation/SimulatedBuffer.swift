import UploadEngine

/// A chunk's bytes at an address that stays. Wiped when it is given back, so that whoever still sends from it is found out.
///
/// - Note: `@unchecked Sendable` is sound because a simulation runs in one thread, and the pointer never changes.
final class SimulatedBuffer: PinnedBytes, @unchecked Sendable {
  private let memory: UnsafeMutableRawBufferPointer

  init(_ content: [UInt8]) {
    memory = .allocate(byteCount: max(1, content.count), alignment: 1)
    memory.copyBytes(from: content)
    count = content.count
  }

  private let count: Int

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

  func wipe() { memory.initializeMemory(as: UInt8.self, repeating: 0) }

  deinit { memory.deallocate() }
}

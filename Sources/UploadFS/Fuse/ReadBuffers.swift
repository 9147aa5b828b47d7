import Synchronization

/// Buffers for the answers to reads, as many as there are threads: allocating a megabyte anew for each read would have
/// the kernel clear its pages every time.
final class ReadBuffers: Sendable {
  static let bytes = 1 << 20

  // Pointers are not Sendable; a buffer belongs to the thread that took it and is handed over under the lock.
  private struct Idle: @unchecked Sendable {
    var buffers: [UnsafeMutableRawBufferPointer] = []
  }

  private let idle = Mutex(Idle())
  private let idleMax: Int

  init(idleMax: Int) {
    self.idleMax = idleMax
  }

  deinit {
    idle.withLock { for buffer in $0.buffers { buffer.deallocate() } }
  }

  /// A buffer of at least `size` bytes.
  func take(atLeast size: Int) -> UnsafeMutableRawBufferPointer {
    if size <= Self.bytes, let reused = idle.withLock({ TakenBuffer(buffer: $0.buffers.popLast()) }).buffer {
      return reused
    }
    return .allocate(byteCount: max(size, Self.bytes), alignment: 4096)
  }

  /// Keeps a buffer for the next read, or frees it when there are enough.
  func give(back buffer: UnsafeMutableRawBufferPointer) {
    let given = TakenBuffer(buffer: buffer)
    let isKept = idle.withLock { idle in
      guard let buffer = given.buffer, buffer.count == Self.bytes, idle.buffers.count < idleMax else { return false }
      idle.buffers.append(buffer)
      return true
    }
    if !isKept { buffer.deallocate() }
  }

  // Carries a pointer across the lock's border; sound because the buffer has exactly one owner on either side.
  private struct TakenBuffer: @unchecked Sendable {
    var buffer: UnsafeMutableRawBufferPointer?
  }
}

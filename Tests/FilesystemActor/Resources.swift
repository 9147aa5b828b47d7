import FilesystemCalls
import Glibc
import Synchronization

/// What an actor has open, by the names that the test gave.
final class Resources: Sendable {
  struct Mapping: @unchecked Sendable {
    // Memory of this process; unmapped by one call, after which the slot is empty.
    let start: UnsafeMutableRawPointer
    let count: Int
  }

  struct Stream: @unchecked Sendable {
    // Used by one call at a time: tests do not share streams among threads.
    let pointer: OpaquePointer
  }

  private struct State {
    var descriptors: [Slot: Int32] = [:]
    var mappings: [Slot: Mapping] = [:]
    var streams: [Slot: Stream] = [:]
  }

  private let state = Mutex(State())

  /// After fork(2): the copy has the same descriptors and mappings.
  func copy(into other: Resources) {
    let copy = state.withLock { $0 }
    other.state.withLock { $0 = copy }
  }

  func descriptor(_ slot: Slot) throws(Errno) -> Int32 {
    guard let descriptor = state.withLock({ $0.descriptors[slot] }) else { throw Errno.noSuchSlot }
    return descriptor
  }

  func keep(_ descriptor: Int32, as slot: Slot) {
    let before = state.withLock { $0.descriptors.updateValue(descriptor, forKey: slot) }
    if let before { Glibc.close(before) }
  }

  func take(_ slot: Slot) throws(Errno) -> Int32 {
    guard let descriptor = state.withLock({ $0.descriptors.removeValue(forKey: slot) }) else { throw Errno.noSuchSlot }
    return descriptor
  }

  func mapping(_ slot: Slot) throws(Errno) -> Mapping {
    guard let mapping = state.withLock({ $0.mappings[slot] }) else { throw Errno.noSuchSlot }
    return mapping
  }

  func keep(_ mapping: Mapping, as slot: Slot) { state.withLock { $0.mappings[slot] = mapping } }

  func takeMapping(_ slot: Slot) throws(Errno) -> Mapping {
    guard let mapping = state.withLock({ $0.mappings.removeValue(forKey: slot) }) else { throw Errno.noSuchSlot }
    return mapping
  }

  func stream(_ slot: Slot) throws(Errno) -> OpaquePointer {
    guard let stream = state.withLock({ $0.streams[slot] }) else { throw Errno.noSuchSlot }
    return stream.pointer
  }

  func keep(_ stream: Stream, as slot: Slot) { state.withLock { $0.streams[slot] = stream } }

  func takeStream(_ slot: Slot) throws(Errno) -> OpaquePointer {
    guard let stream = state.withLock({ $0.streams.removeValue(forKey: slot) }) else { throw Errno.noSuchSlot }
    return stream.pointer
  }
}

/// The result of a system call, or its errno.
@discardableResult
func checked<Number: SignedInteger>(_ result: Number) throws(Errno) -> Number {
  if result < 0 { throw Errno(errno) }
  return result
}

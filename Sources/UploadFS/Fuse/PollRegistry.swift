import CFuse
import Synchronization

/// The callers that wait in poll(2) for a virtual file to change, one for each open handle.
final class PollRegistry: Sendable {
  // Pointers are not Sendable; a poll handle belongs to the thread that took it out of the table, which happens under the lock.
  private struct Waiting: @unchecked Sendable {
    var handles: [UInt64: OpaquePointer] = [:]
  }

  private struct Taken: @unchecked Sendable {
    var handles: [OpaquePointer] = []
  }

  private let waiting = Mutex(Waiting())

  /// Keeps the kernel's handle for one open file in place of an earlier one: one notification wakes every waiter.
  func keep(_ handle: OpaquePointer, for number: UInt64) {
    let kept = Taken(handles: [handle])
    let replaced = waiting.withLock { waiting in
      Taken(handles: kept.handles.compactMap { waiting.handles.updateValue($0, forKey: number) })
    }
    for handle in replaced.handles { uploadfs_pollhandle_destroy(handle) }
  }

  /// The file is closed.
  func forget(_ number: UInt64) {
    let taken = waiting.withLock { Taken(handles: $0.handles.removeValue(forKey: number).map { [$0] } ?? []) }
    for handle in taken.handles { uploadfs_pollhandle_destroy(handle) }
  }

  /// Wakes the waiters whose file `isReady`.
  func wake(_ isReady: (UInt64) -> Bool) {
    let numbers = waiting.withLock { Array($0.handles.keys) }
    let ready = numbers.filter(isReady)
    let taken = waiting.withLock { waiting in
      Taken(handles: ready.compactMap { waiting.handles.removeValue(forKey: $0) })
    }
    for handle in taken.handles {
      fuse_lowlevel_notify_poll(handle)
      uploadfs_pollhandle_destroy(handle)
    }
  }

  deinit {
    for handle in waiting.withLock({ Taken(handles: Array($0.handles.values)) }).handles {
      uploadfs_pollhandle_destroy(handle)
    }
  }
}

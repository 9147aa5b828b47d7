import FileModel
import Glibc
import Synchronization

/// Brings files to the disk while they are written, in the order in which they grow: what a power cut leaves of one is its beginning.
/// A thread of its own does it, because files that are closed do not wait until the disk has taken a large one.
extension Filesystem {
  /// Flushes until ``stopFlushing()``. For a thread of its own: it waits for the disk.
  public func flushGrowingFiles() {
    while let files = growing.next() { flushGrowing(files) }
  }

  func flushGrowing(_ files: [CapturedFile]) {
    for file in files { flushGrowing(file) }
  }

  /// A file that a writer has open has changed. The file's lock is held.
  func noteGrowth(of file: CapturedFile, _ state: inout CapturedFile.State, writtenBytes: UInt64) {
    guard state.activity.writableOpens > 0 else { return }
    switch state.growth.wrote(writtenBytes) {
    case .none: break
    case .flush: growing.add(file)
    case .flushAtOnce:
      growing.add(file)
      growing.hurry()
    }
  }

  private func flushGrowing(_ file: CapturedFile) {
    let epoch = file.state.withLock { state -> UInt64? in
      state.growth.taken()
      // What was closed is flushed with its names.
      guard state.activity.writableOpens > 0, !state.activity.isGone, !state.writeBack.isRefused else { return nil }
      guard state.growth.flushedEpoch != state.activity.epoch || state.handles.hasPassthroughWriter else { return nil }
      return state.activity.epoch
    }
    guard let epoch else { return }
    do throws(SystemError) {
      let descriptor = try namespaceLock.shared { () throws(SystemError) in try openForSync(file) }
      try check(fdatasync(descriptor.number))
      file.state.withLock { $0.growth.flushed(epoch) }
    } catch {
      // The kernel tells the descriptors that have it open as well, which are asked each second.
    }
  }
}

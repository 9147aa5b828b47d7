import FileModel
import Synchronization

/// What is left open when the kernel has let go of the mount.
extension Filesystem {
  /// No call comes any more, and every thread that answered one has ended.
  ///
  /// A mount that was taken out of the tree goes with its last open file, and the kernel drops that file's release on the way. Its
  /// close has returned nevertheless, so that it has finished. A file that was not closed since it was last written had
  /// its connection cut: it is as one of which the mount has died.
  func releaseEverything() {
    for (number, handle) in handles.withLock({ $0.all }) {
      if case .file(let handle) = handle, handle.writes, !handle.isResting.load(ordering: .sequentiallyConsistent) {
        handle.file.state.withLock { state in
          if state.activity.hasOpenRevision { state.integrity.present.lostContent(.mountDied) }
        }
      }
      release(number)
    }
  }
}

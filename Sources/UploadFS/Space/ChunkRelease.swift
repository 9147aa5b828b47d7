import CLinux
import Glibc
import Synchronization

/// Whether chunks may be given back to the spool's disk, and how.
final class ChunkRelease: Sendable {
  /// The disk that chunks are given back to.
  let disk: HoleMaking
  /// By some rule chunks may be given back, and the spool's filesystem has not refused that so far.
  private let mayRelease: Atomic<Bool>

  init(isWanted: Bool, disk: HoleMaking) {
    mayRelease = Atomic(isWanted)
    self.disk = disk
  }

  var isPossible: Bool { mayRelease.load(ordering: .relaxed) }

  /// The spool's filesystem does not do it.
  func wasRefused() { mayRelease.store(false, ordering: .relaxed) }
}

/// What giving chunks back asks of the spool's disk.
struct HoleMaking: Sendable {
  /// What stands on the file, its label included, outlives a power cut.
  var synchronize: @Sendable (FileDescriptor) throws(SystemError) -> Void
  /// Gives bytes back to the disk, which reads as zeros in their place.
  var punch: @Sendable (FileDescriptor, Range<UInt64>) throws(SystemError) -> Void

  static let system = HoleMaking(
    synchronize: { (file) throws(SystemError) in try check(fsync(file.number)) },
    punch: { (file, bytes) throws(SystemError) in
      let mode = uploadfs_falloc_punch_hole | uploadfs_falloc_keep_size
      try check(uploadfs_fallocate(file.number, mode, off_t(bytes.lowerBound), off_t(bytes.count)))
    })
}

import CLinux
import FileModel
import Glibc
import Synchronization

/// What the filesystem gives up for a write for which the spool has no room; `SpoolSpace` decides how much, and in which order.
extension Filesystem: RoomGiving {
  /// How many of `bytes` may be written through a handle, making room if need be.
  func admit(_ bytes: UInt64, at offset: Int64, through handle: FileHandle, isPartEnough: Bool) -> UInt64 {
    space.admit(
      bytes, isPartEnough: isPartEnough, from: self,
      ownedBytes: { Self.ownedBytes(of: bytes, at: offset, in: handle.descriptor) },
      pausesMax: {
        let isReleasing = chunkRelease.isPossible && settings(of: handle.file)?.whenFull == .release
        return isReleasing ? WriteBackoff.countMaxWhileReleasing : WriteBackoff.countMax
      })
  }

  func unpinFiles() { withNodes { $0.table.unpinFiles() } }

  func evictionCandidates(countMax: Int) -> [EvictionCandidate] { sink.evictionCandidates(countMax: countMax) }

  func sizeBytes(of candidate: EvictionCandidate) -> UInt64 { snapshot(of: candidate.id)?.sizeBytes ?? 0 }

  var unloadedBytes: UInt64 { sink.unloadedBytes }

  func loadCandidates() -> Bool { sink.loadCandidates() }

  var mayFreeSpace: Bool { sink.mayFreeSpace }

  /// How many bytes of a range, from its start on, a file has the space of already, so that writing them takes none: what lies before
  /// the end of one without holes, or what the spool's filesystem says so of. Space that was reserved behind the end counts, and what
  /// lies between holes.
  private static func ownedBytes(of bytes: UInt64, at offset: Int64, in descriptor: FileDescriptor) -> UInt64 {
    let (end, isOver) = offset.addingReportingOverflow(Int64(clamping: bytes))
    guard offset >= 0, !isOver else { return 0 }
    let status: stat
    do throws(SystemError) {
      status = try descriptor.status()
    } catch {
      // Then room is asked for.
      return 0
    }
    func count(upTo position: Int64) -> UInt64 { UInt64(max(0, min(position, end) - offset)) }
    let hasHoles = Int64(status.st_blocks) < Int64(status.st_size) / 512
    let written = hasHoles ? 0 : count(upTo: Int64(status.st_size))
    guard written < UInt64(end - offset) else { return written }
    let said = uploadfs_space_from(descriptor.number, UInt64(offset), UInt64(end))
    guard said < 0 else { return max(written, UInt64(said)) }
    // tmpfs has no such question. One that knows of no holes calls all of a file data, and this one has some.
    guard hasHoles, lseek(descriptor.number, 0, uploadfs_seek_hole) < status.st_size else { return written }
    return count(upTo: Int64(lseek(descriptor.number, off_t(offset), uploadfs_seek_hole)))
  }
}

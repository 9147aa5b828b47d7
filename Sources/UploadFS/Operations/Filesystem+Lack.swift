import CLinux
import FileModel
import Glibc

/// What is missing of contents that are not whole, for people who are to decide what becomes of them.
extension Filesystem {
  /// Behind so many places the rest is not looked for: it would take long, and no user reads them.
  private static let holesMax = 4096

  /// Of a settled content that is not whole: where nothing was ever written on the disk, and what the disk is known to have lost. The
  /// file's lock and the namespace lock are held.
  func noteLack(of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard state.activity.isSettled, let cause = state.integrity.present.interruption else {
      state.lack = nil
      return
    }
    if let known = state.lack, known.epoch == state.activity.epoch, known.cause == cause { return }
    do throws(SystemError) {
      let descriptor = try openForMarks(file, state)
      var places = try Self.holes(of: descriptor)
      // Where a program has read them since, the system calls them data. Nothing of them is on its way to the disk as long as nothing
      // has changed.
      if cause == .notOnDisk, state.activity.epoch == 0 {
        places += Self.unwrittenPlaces(of: descriptor, sizeBytes: state.lastKnown.sizeBytes)
      }
      if let lost = cause.lostBytes { places.append(lost) }
      state.lack = CapturedFile.KnownLack(
        epoch: state.activity.epoch, cause: cause, missing: MissingBytes(places, besides: state.label.released))
    } catch {
      // It is checked again when it is next asked for.
      state.lack = nil
    }
  }

  /// Where blocks were kept and never written; nothing where the filesystem does not say it.
  private static func unwrittenPlaces(of descriptor: FileDescriptor, sizeBytes: UInt64) -> [Range<UInt64>] {
    var places: [Range<UInt64>] = []
    var (start, end): (UInt64, UInt64) = (0, 0)
    while places.count < holesMax {
      // A place that cannot be asked for is not listed: the list proves nothing by what it lacks.
      guard uploadfs_next_unwritten_bytes(descriptor.number, end, sizeBytes, &start, &end) == 1, start < end else {
        break
      }
      places.append(start..<end)
    }
    return places
  }

  /// Where a file has no bytes on its disk, and none on their way there: also space that was kept for some.
  private static func holes(of descriptor: FileDescriptor) throws(SystemError) -> [Range<UInt64>] {
    let size = try descriptor.status().st_size
    var holes: [Range<UInt64>] = []
    var end: off_t = 0
    while end < size, holes.count < holesMax {
      // Reads and writes state their offsets, so that the descriptor's own is free.
      let hole = lseek(descriptor.number, end, uploadfs_seek_hole)
      guard hole >= 0 else { throw .last }
      guard hole < size else { break }
      let data = lseek(descriptor.number, hole, uploadfs_seek_data)
      // Nothing but a hole is left.
      guard data >= 0 || errno == ENXIO else { throw .last }
      end = data < 0 ? size : min(data, size)
      guard end > hole else { break }
      holes.append(UInt64(hole)..<UInt64(end))
    }
    return holes
  }
}

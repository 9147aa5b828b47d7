import CLinux
import Glibc

/// The spool's folders on disk: made, checked and locked before anything is mounted.
struct SpoolDirectory {
  /// The spool's own folder.
  let folder: FileDescriptor
  /// `captures/`, locked against a second mount.
  let captures: FileDescriptor
  let status: stat
  /// The marks that stand on no capture.
  let marks: MarkRecord
  let stamp: SpoolStamp

  var key: SpoolKey { status.key }

  static func open(_ configuration: FilesystemConfiguration) throws(MountError) -> SpoolDirectory {
    let place = try SpoolFolder(checking: configuration)
    _ = try place.make()
    let captures = place.path + "/captures"
    // No user gets at the captures through the spool itself, so with other users on the mount its root may be open to
    // them; who may write there is then said by chmod(1) on the mount.
    let isNew = mkdir(captures, configuration.allowOther ? 0o755 : 0o700) == 0
    guard isNew || errno == EEXIST else { throw place.unusable(captures, "cannot be made") }
    let number = uploadfs_openat(AT_FDCWD, captures, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0)
    guard number >= 0 else { throw failure(place, captures) }
    let descriptor = FileDescriptor(owning: number, isReadable: true, isWritable: false)
    guard access(captures, W_OK | X_OK) == 0 else { throw place.unusable(captures, "cannot be written") }
    guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
      throw MountError(
        .spoolUnusable, "spool \(place.path) is used by another mount; unmount that one or choose another --spool")
    }
    let status: stat
    do throws(SystemError) {
      status = try descriptor.status()
    } catch {
      errno = error.code
      throw place.unusable(captures, "cannot be read")
    }
    let marks = try markRecord(of: place, configuration.giveRoom)
    do throws(SystemError) {
      let number = try check(uploadfs_openat(AT_FDCWD, place.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0))
      let folder = FileDescriptor(owning: number, isReadable: true, isWritable: false)
      let stamp = try SpoolStamp(in: folder, captures: descriptor)
      if stamp.isMoved { marks.wasMoved() }
      if isNew, !stamp.isThere { leaveStamp(in: folder, descriptor) }
      return SpoolDirectory(folder: folder, captures: descriptor, status: status, marks: marks, stamp: stamp)
    } catch {
      errno = error.code
      throw place.unusable(place.path, "cannot be looked at")
    }
  }

  /// Nothing lies here that would have to be met first, and a backup of the first second is one of a spool.
  private static func leaveStamp(in folder: FileDescriptor, _ captures: FileDescriptor) {
    do throws(SystemError) {
      try SpoolStamp.put(in: folder, captures: captures)
    } catch {
      // The end of the first search tries it again.
    }
  }

  private static func markRecord(
    of place: SpoolFolder, _ giveRoom: @escaping @Sendable () -> Bool
  ) throws(MountError) -> MarkRecord {
    let state = place.path + "/.state"
    if mkdir(state, 0o700) != 0, errno != EEXIST { throw place.unusable(state, "cannot be made") }
    let number = uploadfs_openat(AT_FDCWD, state, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0)
    guard number >= 0 else { throw place.unusable(state, "cannot be opened") }
    do throws(SystemError) {
      return try MarkRecord(
        in: FileDescriptor(owning: number, isReadable: true, isWritable: false), giveRoom: giveRoom)
    } catch {
      throw MountError(
        .spoolUnusable,
        "\(state)/marks, which says which captures were not finished, cannot be read (\(String(cString: strerror(error.code)))); "
          + "try again, or check the spool's disk; without it (moved away) captures that it names count as finished")
    }
  }

  private static func failure(_ place: SpoolFolder, _ captures: String) -> MountError {
    let isLink = errno == ENOTDIR || errno == ELOOP
    guard isLink else { return place.unusable(captures, "cannot be opened") }
    return MountError(
      .spoolUnusable,
      "spool \(captures) is no directory of the spool's own, and what it leads to may be open to others; move it away, "
        + "or give as --spool the folder in which captures are to lie")
  }
}

import CLinux
import Glibc

/// The spool's folders on disk: made, checked and locked before anything is mounted.
struct SpoolDirectory {
  /// `captures/`, locked against a second mount.
  let captures: FileDescriptor
  let key: SpoolKey

  static func open(_ configuration: FilesystemConfiguration) throws(MountError) -> SpoolDirectory {
    let spool = configuration.spoolDirectory
    guard !spool.isEmpty else { throw MountError(.spoolUnusable, "no spool directory was given") }
    try requireApart(spool: spool, mountPoint: configuration.mountPoint)
    try make(spool)
    let captures = spool + "/captures"
    // Nobody gets at the captures through the spool itself, so with other users on the mount its root may be open to
    // them; who may write there is then said by chmod(1) on the mount.
    try make(captures, mode: configuration.allowOther ? 0o755 : 0o700)
    let number = uploadfs_openat(AT_FDCWD, captures, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard number >= 0 else { throw unusable(captures, "cannot be opened") }
    let descriptor = FileDescriptor(owning: number, isReadable: true, isWritable: false)
    guard access(captures, W_OK | X_OK) == 0 else { throw unusable(captures, "cannot be written") }
    guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
      throw MountError(
        .spoolUnusable, "spool \(spool) is used by another mount; unmount that one or choose another --spool")
    }
    guard let status = try? descriptor.status() else { throw unusable(captures, "cannot be read") }
    return SpoolDirectory(captures: descriptor, key: status.key)
  }

  /// Makes a folder, and its parents for nobody else to read.
  private static func make(_ path: String, mode: mode_t = 0o700) throws(MountError) {
    var status = stat()
    if stat(path, &status) == 0 {
      guard status.st_mode & S_IFMT == S_IFDIR else {
        throw MountError(.spoolUnusable, "spool \(path) is no directory; remove it or choose another --spool")
      }
      return
    }
    let failure = errno
    guard failure == ENOENT else { throw unusable(path, "cannot be reached") }
    if let slash = path.lastIndex(of: "/"), slash != path.startIndex { try make(String(path[..<slash])) }
    if mkdir(path, mode) != 0, errno != EEXIST { throw unusable(path, "cannot be made") }
  }

  private static func unusable(_ path: String, _ what: String) -> MountError {
    let reason = String(cString: strerror(errno))
    return MountError(
      .spoolUnusable, "spool \(path) \(what) (\(reason)); choose a directory that this user can write")
  }

  /// A spool inside its own mount would wait for itself; a mount inside the captures would capture itself.
  private static func requireApart(spool: String, mountPoint: String) throws(MountError) {
    let spoolPath = resolved(spool)
    let mountPath = resolved(mountPoint)
    if isAt(spoolPath, orBelow: mountPath) || isAt(mountPath, orBelow: spoolPath + "/captures") {
      throw MountError(
        .spoolInsideMount,
        "the spool \(spool) and the mount point \(mountPoint) lie inside each other; keep the spool elsewhere")
    }
  }

  private static func isAt(_ path: String, orBelow parent: String) -> Bool {
    path == parent || path.hasPrefix(parent == "/" ? "/" : parent + "/")
  }

  /// An absolute path without symbolic links, as far as the path exists. The last component is not entered: it may be a
  /// mount whose daemon is dead.
  static func resolved(_ path: String) -> String {
    var trimmed = path
    while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
    if let buffer = realpath(trimmed, nil) {
      defer { free(buffer) }
      return String(cString: buffer)
    }
    guard trimmed != "/", trimmed != ".", !trimmed.isEmpty else { return "/" }
    guard let slash = trimmed.lastIndex(of: "/") else {
      let parent = resolved(".")
      return parent == "/" ? "/" + trimmed : parent + "/" + trimmed
    }
    let parent = resolved(slash == trimmed.startIndex ? "/" : String(trimmed[..<slash]))
    let last = trimmed[trimmed.index(after: slash)...]
    return parent == "/" ? "/" + last : parent + "/" + last
  }
}

import CLinux
import Glibc

/// The directory to mount on: what it must be like, and how mounts are taken off it.
struct MountPoint: Hashable, Sendable {
  /// Absolute and without symbolic links, so that it means the same after chdir(2) and through a dead mount.
  let path: String

  /// Checks everything that can be said before mounting, and takes away a mount whose daemon has died.
  init(checking configured: String) throws(MountError) {
    guard !configured.isEmpty else { throw MountError(.mountPointMissing, "no mount point was given") }
    path = try Self.text(ofPlace: configured)
    // What looks into such a folder waits until the mount is there, and so would this process.
    if !isAutomount {
      try clearDeadMounts()
      try requireEmptyDirectory()
    }
    try requireDevice()
  }

  // MARK: Checks

  /// The place that a path leads to. As a text, one that is no UTF-8 would be another place, with U+FFFD in it.
  private static func text(ofPlace configured: String) throws(MountError) -> String {
    let bytes = SpoolFolder.resolvedBytes(configured)
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    throw MountError(
      .mountPointNotDirectory,
      "mount point \(configured) leads to \(escaped(bytes)), by a link or the current directory, which is no UTF-8; "
        + "choose a directory whose whole path is")
  }

  /// For people: what is no ASCII as `\xHH`, so that the bytes can be told.
  private static func escaped(_ bytes: [UInt8]) -> String {
    bytes.map { byte in
      guard byte >= 0x80 else { return String(UnicodeScalar(byte)) }
      return "\\x" + String(byte, radix: 16)
    }.joined()
  }

  /// Whether the mount is made because a program looks into its place (autofs, x-systemd.automount).
  private var isAutomount: Bool {
    UploadMounts.mountinfo.flatMap { MountIdentity.kind(at: path, in: $0) } == "autofs"
  }

  /// A few, because dead mounts can lie on top of each other.
  private func clearDeadMounts() throws(MountError) {
    for _ in 0..<8 where isDead { detach() }
    guard isDead else { return }
    throw MountError(
      .deadMountNotRemovable,
      "a dead mount at \(path) cannot be removed; run `fusermount3 -uz \(path)` as its owner or `umount -l \(path)` as root"
    )
  }

  /// Whether a mount without a daemon lies here. stat(2) would not do: the kernel may still answer it from its memory.
  private var isDead: Bool {
    let number = uploadfs_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard number < 0 else {
      close(number)
      return false
    }
    return errno == ENOTCONN || errno == ECONNABORTED
  }

  private func requireEmptyDirectory() throws(MountError) {
    var status = stat()
    guard stat(path, &status) == 0 else {
      switch errno {
      case ENOENT:
        throw MountError(.mountPointMissing, "mount point \(path) does not exist; create it with `mkdir -p \(path)`")
      case EACCES:
        throw MountError(
          .noPermission,
          "mount point \(path) cannot be reached by this user: its parent, or another user's mount, denies it")
      case ENOTDIR:
        throw MountError(.mountPointNotDirectory, "mount point \(path) leads through something that is no directory")
      default:
        throw MountError(.system(errno: errno), "mount point \(path): \(String(cString: strerror(errno)))")
      }
    }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      throw MountError(.mountPointNotDirectory, "mount point \(path) is not a directory; choose an empty directory")
    }
    if isMounted(status) {
      throw MountError(
        .mountPointNotEmpty, "something is mounted at \(path) already; unmount it or choose another directory")
    }
    guard let stream = opendir(path) else {
      throw MountError(.noPermission, "mount point \(path) cannot be read by this user; choose another directory")
    }
    defer { closedir(stream) }
    guard uploadfs_next_child(stream) == nil else {
      throw MountError(
        .mountPointNotEmpty,
        "mount point \(path) is not empty; move its files away (mounting would hide them) or choose another directory")
    }
    guard geteuid() == 0 || access(path, W_OK) == 0 else {
      throw MountError(
        .noPermission, "mount point \(path) is not writable by this user; mount on a directory that you own")
    }
  }

  private func isMounted(_ status: stat) -> Bool {
    var parent = stat()
    guard path != "/", stat(path + "/..", &parent) == 0 else { return true }
    return parent.st_dev != status.st_dev
  }

  private func requireDevice() throws(MountError) {
    var status = stat()
    guard stat("/dev/fuse", &status) == 0 else {
      throw MountError(
        .deviceMissing,
        "/dev/fuse is missing; load the module with `modprobe fuse`, or give the container that device (--device /dev/fuse)"
      )
    }
    guard geteuid() != 0 else { return }
    guard Self.isInstalled("fusermount3") else {
      throw MountError(
        .fusermountMissing, "fusermount3 is not installed; run `apt-get install fuse3`, or mount as root")
    }
    guard access("/dev/fuse", R_OK | W_OK) == 0 else {
      throw MountError(
        .noPermission, "this user may not open /dev/fuse; have root run `chmod 0666 /dev/fuse`, or mount as root")
    }
  }

  static func isInstalled(_ program: String) -> Bool {
    let search = getenv("PATH").map { String(cString: $0) } ?? ""
    return (search.split(separator: ":").map(String.init) + ["/usr/bin", "/bin"]).contains { folder in
      access(folder + "/" + program, X_OK) == 0
    }
  }

  // MARK: Unmounting

  /// A place that was a mount point before.
  private init(at path: String) {
    self.path = path
  }

  /// Where a mount is by now that was made here: another one may have been moved, or mounted, here since. Nil when it is nowhere.
  func followed(_ place: MountIdentity?) -> MountPoint? {
    guard let place, let mountinfo = UploadMounts.mountinfo else { return self }
    return place.path(in: mountinfo).map { MountPoint(at: $0) }
  }

  /// False while files of the mount are in use.
  func unmount() -> Bool {
    if geteuid() == 0 {
      if uploadfs_umount2(path, 0) == 0 { return true }
      if errno == EBUSY { return false }
    }
    return uploadfs_run("fusermount3", "-u", path, nil) == 0
  }

  /// Takes the mount away from the tree; processes that use its files go on until they close them.
  @discardableResult
  func detach() -> Bool {
    if geteuid() == 0, uploadfs_umount2(path, Int32(MNT_DETACH)) == 0 { return true }
    return uploadfs_run("fusermount3", "-u", "-z", path) == 0
  }
}

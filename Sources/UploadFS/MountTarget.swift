import Glibc

/// Where a mount is to be made: its mount point and its spool. Everything that can be refused is refused before anything is
/// made, so that a mount that is refused leaves nothing behind.
public struct MountTarget {
  private let spool: SpoolFolder

  /// Looks at both. A mount whose daemon has died is taken away from the mount point.
  public init(checking configuration: FilesystemConfiguration) throws(MountError) {
    let mountPoint = try MountPoint(checking: configuration.mountPoint)
    spool = try SpoolFolder(checking: configuration)
    if configuration.allowOther, geteuid() != 0, !FuseSupport.current.allowsOthers {
      throw MountError(
        .noPermission,
        "mounting at \(mountPoint.path) for other users is not permitted: allow_other needs `user_allow_other` in /etc/fuse.conf"
      )
    }
  }

  /// Makes the spool's folder. True when it was there, open to other users, and is closed to them now.
  public func makeSpool() throws(MountError) -> Bool {
    try spool.make()
  }
}

/// Why there is no mount.
public struct MountError: Error, Hashable, Sendable {
  /// What is wrong, for a program that has to choose an exit code.
  public enum Kind: Hashable, Sendable {
    /// The mount point does not exist.
    case mountPointMissing
    case mountPointNotDirectory
    /// The mount point holds files, or something is mounted there.
    case mountPointNotEmpty
    /// A mount whose daemon has died is still there and cannot be taken away.
    case deadMountNotRemovable
    /// The kernel's FUSE device is not there.
    case deviceMissing
    /// This user may not mount here, or not at all.
    case noPermission
    /// An ordinary user needs fusermount3, which is not installed.
    case fusermountMissing
    /// The spool cannot be made, reached or written, or another mount uses it.
    case spoolUnusable
    /// The spool lies inside the mount point, or the mount point inside the spool's captures.
    case spoolInsideMount
    /// A system call failed.
    case system(errno: Int32)
  }

  /// What is wrong.
  public var kind: Kind
  /// One line for people: what is wrong and what to do about it.
  public var message: String

  /// A reason with its explanation.
  public init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }
}

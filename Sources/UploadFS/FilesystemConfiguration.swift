public import FileModel

/// What a mount is made of. Plain values; what is wrong with them shows when the filesystem is made or mounted.
public struct FilesystemConfiguration: Sendable {
  /// The empty directory that captures are written into.
  public var mountPoint: String
  /// The directory that holds `captures/`, in which every capture lies as a plain file under its own name.
  public var spoolDirectory: String
  /// Lets users other than the mount's owner use it (allow_other). Permission bits are checked by the kernel either way.
  public var allowOther = false
  /// Bytes that stay free on the spool's filesystem.
  public var reserveBytes: UInt64 = 0
  /// The largest file that may be written.
  public var fileBytesMax: UInt64 = .max
  /// How files are treated; here only whether the daemon has to know which of their bytes are written, and when, and whose
  /// close(2) and fsync(2) wait for the delivery.
  public var rules = FileRules()
  /// Which files the kernel may read and write past the daemon.
  public var passthrough = Passthrough.off
  /// Gives back the room that is kept on a full disk for what has to be recorded, such as marks; false when there is none.
  public var giveRoom: @Sendable () -> Bool = { false }
  /// The most captures that are open at once; nil for what this process's limit leaves.
  var openCapturesMax: Int?
  /// What open captures leave of the descriptors for connections, what is read to be sent, the state, the log, and what is opened for a
  /// moment.
  public var descriptorsForDelivery = 96
  /// Threads that answer what the disk of the spool can hold up; two more answer the rest.
  public var threadCount = 6
  /// The identities of files that an earlier run knew, by the spool file's inode number.
  public var knownIdentities = KnownIdentities()
  /// What an earlier run knew of the captures.
  public var knownCaptures = KnownCaptures()

  /// A mount without limits: those of the product are its configuration's (MountConfiguration).
  public init(mountPoint: String, spoolDirectory: String) {
    self.mountPoint = mountPoint
    self.spoolDirectory = spoolDirectory
  }
}

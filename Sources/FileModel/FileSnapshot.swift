/// What is known of one file at one instant, taken under the inode's lock.
public struct FileSnapshot: Hashable, Sendable {
  /// The file's identity.
  public var id: FileID
  /// Counts content mutations since the daemon started; bumped before each mutation's system call. Two equal epochs
  /// with nothing in flight mean equal bytes.
  public var epoch: UInt64
  /// The size in bytes.
  public var sizeBytes: UInt64
  /// Last content change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits (07777).
  public var mode: UInt32
  /// The owner.
  public var user: UInt32
  /// The owning group.
  public var group: UInt32
  /// The spool file's inode number; the key by which a restarted daemon finds the file again.
  public var inode: UInt64
  /// It was put past the mount in the place of the capture whose identity it has, or copied there with its spool: whatever its inode number
  /// says, it is another file.
  public var isPutInPlace: Bool
  /// It was not made through this mount: an earlier one has left it, or it was put there past the mount.
  public var wasFound = false
  /// Its writer has made it empty before it wrote this content: what it was before says nothing of what it is.
  public var isWrittenAnew = false
  /// Every name that the file has below the root, oldest first; empty once it is unlinked.
  public var names: [RelativePath]
  /// Writable handles, counted from before the reply to open or create until its release is processed.
  public var writableOpens: Int
  /// Mutations whose system call has not returned yet.
  public var mutationsInFlight: Int
  /// Why the content is not whole, as far as is known by now; nil when nothing speaks against it.
  public var interruption: Interruption?
  /// Parts of it are no longer in the spool.
  public var isPartlyReleased: Bool
  /// The upload that holds these parts, as far as the spool's file says it.
  @Boxed public var pointer: SessionPointer?
  /// Which these are, and what they contained, as far as the spool's file says it.
  @Boxed package var released: ReleasedChunks?
  /// Where bytes of a content that is not whole are missing, as far as is known.
  @Boxed public var missing: MissingBytes?
  /// What the spool's disk refuses the content with, which is in memory alone; nil when it takes it.
  public var diskErrno: Int32?
  /// The spool's disk has the content and the names: a power cut takes nothing of it.
  public var isOnDisk: Bool

  /// Collects the facts of one instant.
  public init(
    id: FileID, epoch: UInt64, sizeBytes: UInt64, modifiedNanoseconds: Int64, mode: UInt32, inode: UInt64,
    names: [RelativePath], writableOpens: Int, mutationsInFlight: Int, interruption: Interruption? = nil,
    isPartlyReleased: Bool = false, pointer: SessionPointer? = nil, user: UInt32 = 0, group: UInt32 = 0,
    diskErrno: Int32? = nil, isOnDisk: Bool = false, missing: MissingBytes? = nil, isPutInPlace: Bool = false
  ) {
    self.isPutInPlace = isPutInPlace
    self.isOnDisk = isOnDisk
    self.diskErrno = diskErrno
    self.user = user
    self.group = group
    self.id = id
    self.epoch = epoch
    self.sizeBytes = sizeBytes
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.inode = inode
    self.names = names
    self.writableOpens = writableOpens
    self.mutationsInFlight = mutationsInFlight
    self.interruption = interruption
    self.isPartlyReleased = isPartlyReleased
    self.pointer = pointer
    self.missing = missing
  }

  /// No writer has it open, no mutation is in progress and it has a name: the file can be read as one consistent whole.
  public var isSettled: Bool {
    writableOpens == 0 && mutationsInFlight == 0 && !names.isEmpty
  }
}

/// Why the bytes of a file cannot be read.
public enum FileContentsError: Error, Hashable, Sendable {
  /// No such file any more: unlinked, evicted or never known.
  case gone
  /// These bytes were given back to the disk because a server had them.
  case released
  /// Another program holds an exclusive lock on the spool's file.
  case locked
  /// The system call failed with this errno.
  case system(errno: Int32)
}

/// Reads the bytes of captured files for an uploader. Blocking calls; never made from a filesystem thread.
public protocol FileContents: Sendable {
  /// The file as it is now; nil when it no longer exists.
  func snapshot(of id: FileID) -> FileSnapshot?

  /// How long the file is now, for requests that have to be answered soon; nil where that cannot be said soon.
  func sizeBytesSoon(of id: FileID) -> UInt64?

  /// What has happened to the chunks of a file that is open for writing since this was last asked; from the first time on
  /// they are followed. Nil when no writer has it open, or it cannot be followed. `anew` forgets what was asked
  /// before: the answer then names every chunk.
  ///
  /// Takes no lock but the file's own, so that it may also be asked from within ``FileEventSink/handle(_:)``.
  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport?

  /// The epoch of the last mutation that touched the chunk at an offset of a file whose chunks are followed. Nil while one
  /// is in progress, and when it is not known.
  ///
  /// Equal epochs before and after reading a chunk mean that its bytes did not change in between.
  func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64?

  /// Whether another program has changed the file in the spool, or taken it away there, since it was read: asked once more before
  /// what was read of it is published.
  func isChangedOutsideMount(_ id: FileID) -> Bool

  /// Whether any byte of a range was given back to the disk, so that zeros are read in its place. Asked after reading.
  func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool

  /// Opens the file for reading. The caller keeps it open only while it reads: an open file's blocks are not given back
  /// when it is evicted or unlinked.
  ///
  /// The caller compares ``FileSnapshot/epoch`` before and after reading: equal epochs and no mutation in flight at both
  /// mean that the bytes are those of that epoch.
  func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile

  /// Comes upon what stands at a path, as the search does: ``FileEvent/found(_:)`` is said of it, also if it was before. Not from within
  /// ``FileEventSink/handle(_:)``.
  func rescan(at path: RelativePath) -> RescanResult

  /// Comes upon every file below a folder of which this is wanted, while there is room (``FileEventSink/waitForRoom()``). False where not everything could
  /// be checked, or the mount ends. Takes time for every file of the folder.
  func rescanAll(below folder: RelativePath, where isWanted: (FileID) -> Bool) -> Bool

  /// The sink has forgotten these files, until they are met again: what is kept of them may go.
  func unload(_ ids: [FileID])

  /// What stands in a folder, in no order; nil where there is none, or the disk does not say it.
  func entries(of folder: RelativePath) -> [SpoolEntry]?

  /// Removes the local copy of a delivered file, unless it was opened, changed or renamed since it was chosen. True when removed.
  ///
  /// Waits for an event of this file that is being delivered, and delivers one itself: never called while holding a lock
  /// that ``FileEventSink/handle(_:)`` takes.
  func evict(_ candidate: EvictionCandidate) -> Bool

  /// A user wants a file as it is that was interrupted for this reason: from now on, and after a restart, its content counts as whole. Where
  /// the disk has lost some of it for another reason, it does not.
  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64)
}

/// What was come upon at a path of the spool.
public enum RescanResult: Hashable, Sendable {
  /// This file is there, and that was said, unless a program writes to it: then what becomes of it will be.
  case found(FileID)
  /// No file stands there.
  case missing
  /// The disk does not say it.
  case unreadable
}

/// What stands in a folder of the spool.
public struct SpoolEntry: Hashable, Sendable {
  /// Its name.
  public var name: [UInt8]
  /// A folder, and not a file.
  public var isFolder: Bool

  /// A name and what it is.
  public init(name: [UInt8], isFolder: Bool) {
    self.name = name
    self.isFolder = isFolder
  }
}

extension FileContents {
  /// There is no other file than those that were told of.
  public func rescan(at path: RelativePath) -> RescanResult { .missing }
  /// Likewise.
  public func rescanAll(below folder: RelativePath, where isWanted: (FileID) -> Bool) -> Bool { true }
  /// Nothing is kept that could go.
  public func unload(_ ids: [FileID]) {}
  /// Nothing stands anywhere.
  public func entries(of folder: RelativePath) -> [SpoolEntry]? { nil }
}

/// A captured file that is open for reading, whatever happens to its names; closed when the last reference goes.
public protocol ReadableFile: AnyObject, Sendable {
  /// A read-only descriptor of the file, for mappings, locks and advice; valid as long as this object lives. Nil when the
  /// bytes lie in no file: then they can only be read.
  var descriptor: Int32? { get }

  /// What the file is now.
  func identity() throws(FileContentsError) -> FileIdentity

  /// Fills `buffer` from `offset`; returns the bytes read, fewer only at the end of the file.
  func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileContentsError) -> Int

  /// Reads by a mapping of ``descriptor``: the bytes come past ``read(at:into:)``.
  func readMapped<Result>(_ read: () -> Result) -> Result

  /// Whether the kernel may let go of what it has of the file in memory, because the disk has not refused any of it.
  func mayDropPageCache() -> Bool
}

extension ReadableFile {
  /// Of a file whose reads are not recorded.
  public func readMapped<Result>(_ read: () -> Result) -> Result { read() }

  /// They are on no disk that could refuse them.
  public func mayDropPageCache() -> Bool { true }
}

/// What tells that a file in the spool was replaced or changed behind the filesystem's back.
public struct FileIdentity: Hashable, Sendable {
  /// The spool file's inode number.
  public var inode: UInt64
  /// The size in bytes.
  public var sizeBytes: UInt64
  /// Last content change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64

  /// The facts of one instant.
  public init(inode: UInt64, sizeBytes: UInt64, modifiedNanoseconds: Int64) {
    self.inode = inode
    self.sizeBytes = sizeBytes
    self.modifiedNanoseconds = modifiedNanoseconds
  }
}

/// Why the bytes of a file cannot be read.
public enum FileContentsError: Error, Hashable, Sendable {
  /// No such file any more: unlinked, evicted or never known.
  case gone
  /// The system call failed with this errno.
  case system(errno: Int32)
}

/// Reads the bytes of captured files for an uploader. Blocking calls; never made from a filesystem thread.
public protocol FileContents: Sendable {
  /// The file as it is now; nil when it no longer exists.
  func snapshot(of id: FileID) -> FileSnapshot?

  /// Fills `buffer` from `offset`; returns the bytes read, fewer only at the end of the file.
  ///
  /// The caller compares ``FileSnapshot/epoch`` before and after: equal epochs and no mutation in flight at both mean
  /// that the bytes are those of that epoch.
  func read(_ id: FileID, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileContentsError)
    -> Int

  /// Removes the local copy of a delivered file, unless it was opened or changed since `epoch`. True when removed.
  ///
  /// Waits for an event of this file that is being delivered, and delivers one itself: never called while holding a lock
  /// that ``FileEventSink/handle(_:)`` takes.
  func evict(_ id: FileID, ifUnchangedSince epoch: UInt64) -> Bool
}

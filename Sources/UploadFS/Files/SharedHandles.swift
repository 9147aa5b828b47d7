import FileModel

/// The handles that programs have of a file, and what these share.
struct SharedHandles: Sendable {
  /// Open handles, readers included.
  private(set) var count = 0
  /// The open file that all handles share; present while there is a handle.
  private(set) var descriptor: FileDescriptor?
  /// The same file as the kernel knows it; present while a handle passes the daemon.
  private(set) var backing: BackingID?
  /// Handles through which the file may change without the daemon's knowledge, and mappings that they have left.
  private(set) var passthroughWriters = 0
  /// Writable handles of which a descriptor was closed and through which nothing was written since.
  private var resting = 0

  var hasPassthroughWriter: Bool { passthroughWriters > 0 }

  /// No writer writes, and every one has closed a descriptor since it last did.
  func areWritersResting(in activity: WriterActivity) -> Bool {
    // A writer that passes the daemon is one mutation as long as it has the file open.
    resting == activity.writableOpens && activity.mutationsInFlight == passthroughWriters
  }

  // MARK: Opening and releasing

  /// The handles share this one from now on.
  mutating func share(_ descriptor: FileDescriptor) { self.descriptor = descriptor }

  /// A program gets a handle. True when it is the only one.
  mutating func opened() -> Bool {
    count += 1
    return count == 1
  }

  /// A handle is released. True when it was the last one.
  mutating func released() -> Bool {
    count -= 1
    return count == 0
  }

  /// The last handle is gone. Who takes the descriptor closes it without the file's lock.
  mutating func takeDescriptor() -> FileDescriptor? {
    defer { descriptor = nil }
    return descriptor
  }

  // MARK: Past the daemon

  /// The kernel has been given the file, or has not taken it.
  mutating func gave(_ backing: BackingID?) { self.backing = backing }

  /// No handle passes any more.
  mutating func takeBacking() -> BackingID? {
    defer { backing = nil }
    return backing
  }

  /// A writer begins that the daemon does not see.
  mutating func passthroughWriterBegan() { passthroughWriters += 1 }

  /// Nothing is left of such a writer.
  mutating func passthroughWriterEnded() { passthroughWriters -= 1 }

  // MARK: Resting

  /// A descriptor of a writer was closed.
  mutating func writerRested() { resting += 1 }

  /// A writer that had rested writes again, or is released.
  mutating func writerResumed() { resting -= 1 }
}

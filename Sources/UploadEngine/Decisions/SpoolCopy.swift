import FileModel
import TransferModel

/// What is known of a file's copy in the spool, and of the disk that has it.
struct SpoolCopy: Sendable {
  /// The failure to read the copy; nil while it can be read.
  @Boxed private(set) var unreadable: Unreadable?
  /// The disk's refusal of the content; nil while the spool's disk takes it.
  @Boxed private(set) var diskFailure: FileStatus.Failure?
  /// Until when calls wait for the file although its disk does not report, or has not taken, what it holds; nil once
  /// that is over.
  @Boxed private(set) var diskPatience: MonotonicTime?
  private(set) var isLocal = true
  /// Parts of the present content were named to be given up in the spool.
  private(set) var mayLackParts = false
  /// The file was found while the spool could not report what it holds, and that is not known yet.
  private(set) var isMetUnread = false

  /// The disk fails, or denies the daemon access.
  struct Unreadable: Hashable, Sendable {
    let since: MonotonicTime
    /// The read was repeated meanwhile. Without another attempt, as with all buffers full, nothing is known of it.
    fileprivate(set) var isRepeated = false
    /// The failure has lasted for so long that the drain and calls no longer wait for the file.
    fileprivate(set) var isLasting = false

    /// The read was repeated meanwhile, and calls wait no longer.
    func beginsToLast(after patience: Duration, at now: MonotonicTime) -> Bool {
      isRepeated && !isLasting && since + patience <= now
    }
  }

  /// It has left the spool.
  mutating func leave() { isLocal = false }

  /// It is there, and has another content.
  mutating func contentChanged(lacksParts: Bool) {
    isLocal = true
    isMetUnread = false
    mayLackParts = lacksParts
    unreadable = nil
  }

  /// It was found, and the spool cannot describe it.
  mutating func metUnread() { isMetUnread = true }

  /// The spool describes it.
  mutating func described() { isMetUnread = false }

  /// Parts of it are named to be given up, or may be.
  mutating func partsMayGo() { mayLackParts = true }

  /// Parts chosen while the file was written are given up by now, or stay; what was truncated is not missing.
  mutating func settled(lacksParts: Bool) { mayLackParts = lacksParts }

  /// A read has failed for the first time.
  mutating func becameUnreadable(at now: MonotonicTime) { unreadable = Unreadable(since: now) }

  /// Another read has failed.
  mutating func readFailedAgain() { unreadable?.isRepeated = true }

  /// No call waits for it any longer.
  mutating func staysUnreadable() { unreadable?.isLasting = true }

  /// It can be read, or something else keeps the file.
  mutating func becameReadable() { unreadable = nil }

  mutating func refusedByDisk(_ failure: FileStatus.Failure) { diskFailure = failure }

  mutating func takenByDisk() { diskFailure = nil }

  /// Calls wait for the disk until then.
  mutating func awaitDisk(until time: MonotonicTime) { diskPatience = time }

  mutating func awaitDiskNoLonger() { diskPatience = nil }
}

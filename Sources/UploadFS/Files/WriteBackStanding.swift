import FileModel

/// What became of a file's way to its disk after write(2) had returned, and how the kernel is asked for it.
struct WriteBackStanding: Sendable {
  /// What the disk has refused of the file; nil when everything that it was asked to keep is there, as far as is known.
  @Boxed private(set) var refusal: DiskRefusal?
  /// Counts what was noticed of that.
  private(set) var refusals: UInt64 = 0
  /// Another opening of the file, from its first change until the disk has all of it. The kernel tells of a failure those who had the
  /// file open by then, and each of them once: so nothing is synced through this one, and only ``Filesystem/noteWriteBack(of:_:)``
  /// asks it. Nil where no more can be kept.
  private(set) var asking: KeptDescriptor?

  var isRefused: Bool { refusal != nil }

  /// From now on the kernel tells this opening of failures.
  mutating func beginAsking(through asking: KeptDescriptor?) { self.asking = asking }

  /// The disk has all of the file, or it is not kept.
  mutating func endAsking() { asking = nil }

  /// The disk has refused some of the file.
  mutating func refused(_ error: SystemError) {
    if refusal == nil { refusal = DiskRefusal(error) }
    refusal?.error = error
    refusals += 1
  }

  /// The content could not be given to the disk again.
  mutating func savingFailed(_ error: SystemError, atSeconds now: Int) {
    refusal?.refused(error, atSeconds: now)
  }

  /// The content was given to the disk again; nil where the disk has taken it.
  mutating func savingEnded(leaving refusal: DiskRefusal?) { self.refusal = refusal }

  /// Another content takes the place of the one that the disk refuses. That all of that one is in memory, or that what is lost of it
  /// is known, says nothing of this one: until the disk has taken it, nothing is read.
  mutating func forgetWhatWasSaved(keepingLoss isLost: Bool) {
    refusal?.pages = nil
    if !isLost { refusal?.lost = nil }
  }

  /// What the disk has refused is not given to it again.
  mutating func takeRefusal() -> DiskRefusal? {
    defer { refusal = nil }
    return refusal
  }
}

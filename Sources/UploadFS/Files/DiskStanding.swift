import FileModel

/// What the spool's disk is known to have of a file: its content, its mark and its names. Pure.
///
/// The mark goes before the content changes, and comes back once the disk has the content: a mark on the disk that proves a content
/// must not stand over another one.
struct DiskStanding: Hashable, Sendable {
  /// What the spool file is marked with; nil until it was read.
  private(set) var mark: WriterStateXattr?
  /// The disk did not take the mark of the content that was settled.
  private(set) var isMarkOutdated = false
  /// The disk is not known to have the mark that says that it has the content.
  private(set) var isMarkUnsynced = false
  /// The disk has everything that was written.
  private(set) var isSynchronized = false
  /// It has the names and the mark as well.
  private(set) var isOnDisk = false
  /// So many bytes the disk may still hold under no mark, which would prove them: it is not known to have any that was put since.
  private(set) var provenBytes: UInt64?
  /// Counts changes of the file's names.
  private(set) var nameChanges: UInt64 = 0

  init(mark: WriterStateXattr?) {
    self.mark = mark
  }

  /// Nothing of the file is on its way to the disk, and no mark says anything of it.
  var isAtRest: Bool {
    isOnDisk && isSynchronized && mark == WriterStateXattr.none && !isMarkOutdated && !isMarkUnsynced
  }

  // MARK: The content

  /// The content is about to change, or the disk has refused some of it.
  mutating func contentIsNotThere() {
    isSynchronized = false
    isOnDisk = false
  }

  /// Whether the disk has taken all of the present content.
  mutating func synchronized(_ isSynchronized: Bool) { self.isSynchronized = isSynchronized }

  // MARK: The names

  /// The file has lost or gained a name: its folders are to be synced.
  mutating func namesChanged() {
    isOnDisk = false
    nameChanges += 1
  }

  /// The folders of all names are synced.
  mutating func namesAreSynced() { isOnDisk = isSynchronized }

  /// The disk has the content, the names, and the mark that says so.
  mutating func everythingIsThere() { isOnDisk = true }

  // MARK: The mark

  /// A file of an earlier run is met. Without a mark that run has brought it to the disk.
  mutating func found(_ mark: WriterStateXattr) {
    self.mark = mark
    isOnDisk = mark == .none
    isSynchronized = mark == .none
    // The run that put it may have ended before the disk had it: there any other may stand, over any other length.
    if mark != .none, !mark.isProof { provenBytes = .max }
  }

  /// The file has a mark that doubts its content.
  mutating func doubted(_ mark: WriterStateXattr) { self.mark = mark }

  /// The file has the mark of a content that a writer has open.
  mutating func isWritten(_ mark: WriterStateXattr) {
    self.mark = mark
    isMarkUnsynced = false
  }

  /// The file has the mark of the content that was settled; the disk may not have it yet.
  mutating func settled(_ mark: WriterStateXattr) {
    self.mark = mark
    isMarkOutdated = false
    isMarkUnsynced = true
  }

  /// The file has the mark of a content that its disk had refused.
  mutating func saved(_ mark: WriterStateXattr) {
    self.mark = mark
    isMarkOutdated = false
  }

  /// The disk has the content, and the file's mark says so.
  mutating func proved(_ mark: WriterStateXattr) {
    self.mark = mark
    isMarkUnsynced = true
  }

  /// The disk has the mark.
  mutating func markIsSynced() { isMarkUnsynced = false }

  /// Whether the mark is to be put again.
  mutating func markIsOutdated(_ isOutdated: Bool = true) { isMarkOutdated = isOutdated }

  /// The disk has not taken the mark of the content that was settled.
  mutating func markWasRefused() {
    isOnDisk = false
    isMarkOutdated = true
  }

  // MARK: What is proven

  /// Another mark is about to be put. What the mark proves that stands now is proven on the disk until that has the one that comes after
  /// it, whatever that says.
  mutating func noteProven(sizeBytes: UInt64, wasOnDisk: Bool) {
    guard mark == WriterStateXattr.none ? wasOnDisk : mark?.isProof == true else { return }
    provenBytes = sizeBytes
  }

  /// The size changes without a mark: until the disk has the mark that comes after it, the file has its new length there under none.
  mutating func sizeChangesUnmarked(to sizeBytes: UInt64) {
    if let provenBytes { self.provenBytes = max(provenBytes, sizeBytes) }
  }

  /// Whether the disk must have the mark before such a change: it may get other bytes in the place of those that it has before it gets the
  /// mark, which would prove what is neither the one content nor the other. What only adds bytes, or cuts them off, is in the journal
  /// after the mark.
  func needsMark(before extent: ContentExtent) -> Bool {
    provenBytes.map { extent.changesBytes(ofSize: $0) } ?? false
  }

  /// The disk has every mark that was put.
  mutating func marksAreCommitted() { provenBytes = nil }
}

import FileModel

/// Complete files that wait for their turn, or have it (docs/design/scheduling.md#turns). Small, medium and large ones
/// are separate, so that none delays the others. Among active files the next buffer goes to the one that was given the
/// fewest bytes.
struct TurnQueues: Sendable {
  var small = SmallFileTurns()
  /// Files that go in one request each.
  var medium: WorkSlots
  /// Files that go in chunks, or are streamed.
  var large: WorkSlots
  var passedOver = PassedOverFiles()
  /// The virtual time of the file that was last given a chunk's buffer: the bytes given to each, counted from a common
  /// start. A joining file starts there.
  private(set) var virtualTime: UInt64 = 0
  /// ``FileTable/readyChanges`` when slots were last assigned.
  private var changesSeen: UInt64 = 0

  init(_ limits: UploadLimits) {
    medium = WorkSlots(countMax: limits.activeMediumFiles)
    large = WorkSlots(countMax: limits.activeLargeFiles)
  }

  /// Files that have a slot.
  var working: [FileID] { medium.working + large.working }

  /// The file has a slot.
  func isWorking(_ id: FileID) -> Bool { medium.working.contains(id) || large.working.contains(id) }

  /// A file at this virtual time is given a buffer.
  mutating func served(at time: UInt64) { virtualTime = max(virtualTime, time) }

  /// Whether files have become ready, or ceased to be, since this was asked last.
  mutating func hasChanged(since changes: UInt64) -> Bool {
    defer { changesSeen = changes }
    return changes != changesSeen
  }

  /// Files that are no longer in memory have no turn.
  mutating func removeWaiting(where isGone: (FileID) -> Bool) {
    small.removeWaiting(where: isGone)
    medium.removeWaiting(where: isGone)
    large.removeWaiting(where: isGone)
  }

  /// The violated invariants, in words.
  var brokenInvariants: [String] {
    medium.brokenInvariants.map { "medium files: \($0)" } + large.brokenInvariants.map { "large files: \($0)" }
  }
}

import FileModel

/// What the spool's disk does not do at present: give its folders, take what the catalog records, have room.
struct SpoolHealth: Sendable {
  /// A folder, or the catalog, that cannot be read.
  struct ScanFailure: Sendable {
    var path: RelativePath
    var failure: FileStatus.Failure
    /// It has lasted for so long that neither a call nor the drain waits for it.
    var isLasting: Bool
  }

  /// What was delivered cannot be recorded.
  struct RecordFailure: Sendable {
    var failure: FileStatus.Failure
    /// What is said of a revision that waits for the catalog.
    var ofRevision: FileStatus.Failure
    var since: MonotonicTime
    /// It has lasted for so long that neither a call nor the drain waits for it.
    var isLasting = false
  }

  private(set) var scan: ScanFailure?
  private(set) var record: RecordFailure?
  /// A writer has found no space a moment ago.
  private var spaceIsShortUntil: MonotonicTime?

  // MARK: - The search of the spool

  /// True where that was not known yet, or another reason was.
  mutating func scanFails(at path: RelativePath, _ failure: FileStatus.Failure) -> (isFirst: Bool, isNews: Bool) {
    let known = scan
    scan = ScanFailure(path: path, failure: failure, isLasting: known?.isLasting ?? false)
    return (known == nil, known?.failure.message != failure.message)
  }

  mutating func scanFailureLasts() { scan?.isLasting = true }

  mutating func scanEnded() { scan = nil }

  // MARK: - The catalog

  /// True where that was not known yet.
  mutating func recordFails(
    _ failure: FileStatus.Failure, ofRevision: FileStatus.Failure, at now: MonotonicTime
  ) -> Bool {
    let known = record
    record = RecordFailure(
      failure: failure, ofRevision: ofRevision, since: known?.since ?? now, isLasting: known?.isLasting ?? false)
    return known == nil
  }

  /// True where it has lasted for so long.
  mutating func recordFailureLasts(after patience: Duration, at now: MonotonicTime) -> Bool {
    guard let since = record?.since, since + patience <= now else { return false }
    record?.isLasting = true
    return true
  }

  /// The catalog takes what it is to record, or nothing waits for it. True where it did not before.
  @discardableResult
  mutating func recordSucceeds() -> Bool { record.take() != nil }

  // MARK: - Space

  mutating func spaceIsShort(until time: MonotonicTime) { spaceIsShortUntil = time }

  mutating func isSpaceShort(at now: MonotonicTime) -> Bool {
    guard let until = spaceIsShortUntil else { return false }
    if until <= now { spaceIsShortUntil = nil }
    return until > now
  }
}

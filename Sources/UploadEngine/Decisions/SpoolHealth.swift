import FileModel
import TransferModel

/// The present failures of the spool's disk: to return its folders, to take catalog records, to have room.
struct SpoolHealth: Sendable {
  /// A folder, or the catalog, that cannot be read.
  struct ScanFailure: Sendable {
    var path: RelativePath
    var failure: FileStatus.Failure
    /// The failure has lasted for so long that neither a call nor the drain waits for it.
    var isLasting: Bool
  }

  /// A delivery that cannot be recorded.
  struct RecordFailure: Sendable {
    var failure: FileStatus.Failure
    /// The failure of a revision that waits for the catalog.
    var ofRevision: FileStatus.Failure
    var since: MonotonicTime
    /// The failure has lasted for so long that neither a call nor the drain waits for it.
    var isLasting = false
  }

  private(set) var scan: ScanFailure?
  private(set) var record: RecordFailure?
  /// A writer has recently found no space.
  private var spaceIsShortUntil: MonotonicTime?

  // MARK: - The search of the spool

  /// True where no failure, or another reason, was known.
  mutating func scanFails(at path: RelativePath, _ failure: FileStatus.Failure) -> (isFirst: Bool, isNews: Bool) {
    let known = scan
    scan = ScanFailure(path: path, failure: failure, isLasting: known?.isLasting ?? false)
    return (known == nil, known?.failure.message != failure.message)
  }

  mutating func scanFailureLasts() { scan?.isLasting = true }

  mutating func scanEnded() { scan = nil }

  // MARK: - The catalog

  /// True where the failure was not known yet.
  mutating func recordFails(
    _ failure: FileStatus.Failure, ofRevision: FileStatus.Failure, at now: MonotonicTime
  ) -> Bool {
    let known = record
    record = RecordFailure(
      failure: failure, ofRevision: ofRevision, since: known?.since ?? now, isLasting: known?.isLasting ?? false)
    return known == nil
  }

  /// True once, when the failure has lasted for so long.
  mutating func recordFailureLasts(after patience: Duration, at now: MonotonicTime) -> Bool {
    guard let since = record?.since, since + patience <= now else { return false }
    record?.isLasting = true
    return true
  }

  /// The catalog takes its records, or none is waiting. True where it did not before.
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

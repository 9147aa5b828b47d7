package import FileModel
import Lookup

/// Of which captures the spool's disk is not known to have what the catalog says, in rounds.
///
/// A closed capture is on the disk some time after the catalog has its row. Writing the row again for that would cost
/// as much as delivering a small file. So one number covers all rows: when a round begins it is that of the last row
/// written. Once the disk has all that was missing by then, it has what the rows up to that number describe. A file
/// that is changing or not whole does not delay a round: its row says so. Nor does a file that the disk refuses for
/// half a minute: its row is written again, and belongs to the next round.
package struct DiskRounds: Sendable {
  package enum Step: Hashable, Sendable {
    /// Begin the first round, or one after a rest.
    case begin
    /// The round is over, and another one begins.
    case next
  }

  private enum Phase: Hashable, Sendable {
    /// No round was begun. Exits: ``running``.
    case resting
    /// A round waits until the disk has everything that is ``awaited``; `looks` counts the checks. Exits: ``over``.
    case running(looks: Int)
    /// The disk has everything. Rows that record later states of other files may still wait to be written, before the
    /// round ends. Exits: ``running``, and ``resting`` where no rows were written since the round began.
    case over
  }

  private var phase = Phase.resting
  /// Closed contents that the disk is not known to have, now and when the round began.
  private var missing: LookupSet<FileID> = []
  private var awaited: LookupSet<FileID> = []

  /// A disk that keeps up has a file within this many checks, one a second.
  static let looksMax = 30
  /// More files than that are no exceptions: the disk is slow, and rows for each of them would not make it faster.
  static let laggardsMax = 256

  package init() {}

  /// The disk is not known to have a closed content, or has it, or need not have it.
  package mutating func note(_ id: FileID, isMissing: Bool) {
    if isMissing {
      missing.insert(id)
    } else {
      missing.remove(id)
      awaited.remove(id)
    }
  }

  /// The disk is known to have every capture without a writer.
  package var isNothingMissing: Bool { missing.isEmpty }

  /// The next step of the round; called once a second.
  package mutating func poll() -> Step? {
    switch phase {
    case .resting: return .begin
    case .running(let looks):
      phase = awaited.isEmpty ? .over : .running(looks: looks + 1)
      return nil
    case .over: return .next
    }
  }

  /// Files that hold the round up for too long. They are left to the next one, before which their rows are written
  /// again.
  mutating func takeLaggards() -> [FileID] {
    guard case .running(let looks) = phase, looks >= Self.looksMax, awaited.count <= Self.laggardsMax else { return [] }
    defer { awaited = [] }
    return awaited.sorted()
  }

  /// The catalog has begun a round, or has no rows for another one.
  package mutating func began(isOfNewRows: Bool) {
    awaited = isOfNewRows ? missing : []
    phase = isOfNewRows ? .running(looks: 0) : .resting
  }
}

extension UploadSchedule {
  /// Notes what an event means for the file's row in the catalog.
  mutating func noteDiskRound(of id: FileID) {
    guard let file = files.entry(id)?.file, file.isLocal, !file.phase.isRemoved, file.phase != .writing else {
      return spool.rounds.note(id, isMissing: false)
    }
    // A file that is open and unchanged is as it was; the disk may have it by now.
    guard !file.isOpen || file.snapshot.isOnDisk else { return }
    spool.rounds.note(id, isMissing: file.snapshot.interruption == nil && !file.snapshot.isOnDisk)
  }

  /// The next step of the catalog's round. While the spool is scanned more files exist than are known.
  mutating func checkDiskRound() -> DiskRounds.Step? {
    guard spool.isScanned else { return nil }
    for id in spool.rounds.takeLaggards() { actions.append(.record(id)) }
    return spool.rounds.poll()
  }

  /// The catalog has begun a round, or has no rows for another one.
  mutating func diskRoundBegan(isOfNewRows: Bool) { spool.rounds.began(isOfNewRows: isOfNewRows) }

  /// At the end of the run, when everything is written.
  var isEverythingOnDisk: Bool { spool.isScanned && spool.rounds.isNothingMissing }
}

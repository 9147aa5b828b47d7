package import FileModel
import Lookup

/// Of which captures the spool's disk is not known to have what the catalog says, in rounds.
///
/// A closed capture is on the disk some time after the catalog has its row, and a row that is written again for that would cost as much as
/// the delivery of a small file. So one number says it of all rows: when a round begins it is that of the last row that was written, and
/// once the disk has all that it was not known to have by then, it has what the rows up to that number describe. What is being changed,
/// or not whole, does not hold a round up: its row says so. Nor does what the disk does not take for half a minute: its row is written
/// again, and is one of the next round.
package struct DiskRounds: Sendable {
  package enum Step: Hashable, Sendable {
    /// The first one, or one after a rest.
    case begin
    /// The one that was begun is over, and another one begins.
    case next
  }

  private enum Phase: Hashable, Sendable {
    /// No round was begun. Exits: ``running``.
    case resting
    /// A round waits until the disk has everything that is ``awaited``, at the so many-th look. Exits: ``over``.
    case running(looks: Int)
    /// It has. Rows that say what has become of others meanwhile may still wait to be written: they are before the round ends. Exits: ``running``, and ``resting`` where no rows were written since it began.
    case over
  }

  private var phase = Phase.resting
  /// Closed contents that the disk is not known to have, now and when the round began.
  private var missing: LookupSet<FileID> = []
  private var awaited: LookupSet<FileID> = []

  /// A disk that keeps up has a file within that; it is asked once a second.
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

  /// What is to be done, asked once a second.
  package mutating func poll() -> Step? {
    switch phase {
    case .resting: return .begin
    case .running(let looks):
      phase = awaited.isEmpty ? .over : .running(looks: looks + 1)
      return nil
    case .over: return .next
    }
  }

  /// What holds the round up for too long: it is left to the next one, before which its rows are to be written again.
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
  /// What an event means for the file's row in the catalog.
  mutating func noteDiskRound(of id: FileID) {
    guard let file = files.entry(id)?.file, file.isLocal, !file.phase.isRemoved, file.phase != .writing else {
      return spool.rounds.note(id, isMissing: false)
    }
    // What is open and was not changed is as it was; the disk may have it by now.
    guard !file.isOpen || file.snapshot.isOnDisk else { return }
    spool.rounds.note(id, isMissing: file.snapshot.interruption == nil && !file.snapshot.isOnDisk)
  }

  /// What is to be done about the catalog's round. As long as the spool is searched there is more than is known.
  mutating func checkDiskRound() -> DiskRounds.Step? {
    guard spool.isScanned else { return nil }
    for id in spool.rounds.takeLaggards() { actions.append(.record(id)) }
    return spool.rounds.poll()
  }

  /// At the end of the run, when everything is written.
  var isEverythingOnDisk: Bool { spool.isScanned && spool.rounds.isNothingMissing }
}

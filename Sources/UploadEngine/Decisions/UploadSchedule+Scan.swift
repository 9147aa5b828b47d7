import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// The scan of the spool, and what it has not found.
extension UploadSchedule {
  /// No file is dropped and no session ended because of it: the scan continues.
  mutating func scanFailing(_ path: RelativePath, errno: Int32, at now: ClockReading) {
    scanFailing(path, FileStatus.Failure(unreadableFolder: path, errno: errno, at: now), at: now)
  }

  /// The scan of the spool waits until the state that earlier runs left of its files is known.
  mutating func searchWaits(reason: String, at now: ClockReading) {
    scanFailing(.root, FileStatus.Failure(unreadableCatalog: reason, at: now), at: now)
    pump(at: now)
  }

  mutating func scanFailing(_ path: RelativePath, _ failure: FileStatus.Failure, at now: ClockReading) {
    let (isFirst, isNews) = spool.health.scanFails(at: path, failure)
    if isFirst { timers.insert(.scan, at: now.monotonic + Self.scanPatience) }
    if isNews { actions.append(.report(.scanFailing(path, failure))) }
    actions.append(.showSummary)
  }

  /// The longest that calls and the drain wait for what the disk cannot report.
  private static let scanPatience: Duration = .seconds(10)

  mutating func scanEnded(at now: ClockReading) {
    spool.isScanned = true
    endUnmet()
    spool.health.scanEnded()
    catalog.recovery.searchEnded()
    actions.append(.showSummary)
    if let count = catalog.recovery.takeUnknownCount(), count > 0 {
      actions.append(.report(.forgotten(count, compared: files.values.count { $0.progress.delivered != nil })))
    }
    if files.counts.unproven > 0 { actions.append(.report(.unproven(files.counts.unproven))) }
    let missed = catalog.recovery.entries { files[$0] == nil && memory.unloaded[$0] == nil }
    endMissed(missed)
    let putOff = missed.filter(isPutOff)
    let putOffFiles = LookupSet(putOff.map(\.id))
    for id in catalog.recovery.filesWithRecords {
      // Without the file, or its catalog entry, the server may hold the only copy.
      guard files[id] != nil || catalog.recovery.entry(of: id) != nil && !putOffFiles.contains(id) else { continue }
      endRecord(of: id, at: now)
    }
    // An event may be about to come of a file that memory does not hold.
    catalog.recovery.keepEntries(putOff + catalog.recovery.entries { memory.unloaded[$0] != nil })
    endRecovered(at: now)
  }

  /// No session continues from an earlier run's record of an upload.
  mutating func endRecord(of id: FileID, at now: ClockReading) {
    guard let record = catalog.recovery.takeRecord(of: id), files[id]?.session?.id != record.sessionID
    else { return }
    // The file is gone: nothing else ends its session. The session of a delivered file is published.
    if files[id]?.receipt == nil {
      discard(SessionIdentity(id: record.sessionID, nonce: record.nonce), of: record.owner, at: now)
    }
    actions.append(.removeResume(id))
  }

  /// Catalog entries of files that are not in the spool.
  mutating func endMissed(_ missed: [CatalogEntry]) {
    let taken = missed.contains { $0.state == .complete } ? namesThatAreTaken() : []
    for entry in missed {
      switch entry.state {
      case .complete where taken.contains(entry.path):
        // Another capture was moved over it, and the mount died before the catalog recorded that.
        actions.append(.forget(entry.id))
      case .complete, .evicted:
        // The file was removed by hand while nothing was mounted, or evicted: a delivered one stays visible.
        adoptHistory(entry)
        if entry.state == .complete { actions.append(.forgetNames(entry.id)) }
      case .pending, .failed:
        actions.append(.report(.missingFromSpool(entry.id, entry.path)))
        if !isPutOff(entry) { actions.append(.forget(entry.id)) }
      case .removed:
        actions.append(.forget(entry.id))
      }
    }
  }

  /// The entry of the missing file is kept: the file may come back, and may be the only whole copy.
  func isPutOff(_ entry: CatalogEntry) -> Bool {
    [.pending, .failed].contains(entry.state) && mayHavePartsElsewhere(entry)
  }

  /// The names of the files in the spool.
  private func namesThatAreTaken() -> LookupSet<RelativePath> {
    LookupSet(files.values.filter(\.isLocal).flatMap(\.snapshot.names))
  }

  /// Parts of a file that is not in the spool may be at the server alone, in the session that the catalog or its record
  /// names. A user who moved the rest away may restore it, or its disk is not mounted.
  private func mayHavePartsElsewhere(_ entry: CatalogEntry) -> Bool {
    if entry.pointer != nil { return true }
    guard let record = catalog.recovery.record(of: entry.id), !record.acknowledged.isEmpty else { return false }
    return entry.failureCode == FileUpload.partsAtServerCode || limits.rules.haveReleases
  }

  private mutating func adoptHistory(_ entry: CatalogEntry) {
    let snapshot = FileSnapshot(
      id: entry.id, epoch: 0, sizeBytes: entry.sizeBytes, modifiedNanoseconds: entry.modifiedNanoseconds, mode: 0,
      inode: entry.inode, names: [], writableOpens: 0, mutationsInFlight: 0)
    var file = FileUpload(snapshot: snapshot, phase: .complete, isOpen: false, changeSequence: 0)
    file.recall(path: entry.path)
    file.takePast(from: entry)
    files[entry.id] = file
    actions.append(.showNames(entry.id))
    remember(entry.id)
  }
}

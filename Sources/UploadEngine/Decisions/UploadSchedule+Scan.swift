import FileModel
import Lookup
import OrderedCollections

/// The search of the spool, and what it has not found.
extension UploadSchedule {
  /// Nothing is forgotten and no session ended because of it: the scan goes on.
  mutating func scanFailing(_ path: RelativePath, errno: Int32, at now: ClockReading) {
    scanFailing(path, FileStatus.Failure(unreadableFolder: path, errno: errno, at: now), at: now)
  }

  /// The search of the spool waits until it is known what earlier runs knew of the files that it will find.
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

  /// Calls and the drain wait for what the disk cannot say no longer than that.
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
      // Without the file, or what the catalog knew of it, the server may hold what is nowhere else.
      guard files[id] != nil || catalog.recovery.entry(of: id) != nil && !putOffFiles.contains(id) else { continue }
      endRecord(of: id, at: now)
    }
    // Of one that memory does not hold an event may be about to come.
    catalog.recovery.keepEntries(putOff + catalog.recovery.entries { memory.unloaded[$0] != nil })
    endRecovered(at: now)
  }

  /// Nothing goes on with what an earlier run has recorded of an upload.
  mutating func endRecord(of id: FileID, at now: ClockReading) {
    guard let record = catalog.recovery.takeRecord(of: id), files[id]?.session?.id != record.sessionID
    else { return }
    // Of a file that is gone: nothing else ends it. That of a delivered one is published.
    if files[id]?.receipt == nil {
      discard(SessionIdentity(id: record.sessionID, nonce: record.nonce), of: record.owner, at: now)
    }
    actions.append(.removeResume(id))
  }

  /// What the catalog says of files that are not in the spool.
  mutating func endMissed(_ missed: [CatalogEntry]) {
    let taken = missed.contains { $0.state == .complete } ? namesThatAreTaken() : []
    for entry in missed {
      switch entry.state {
      case .complete where taken.contains(entry.path):
        // Another capture was moved over it, and the mount died before the catalog knew.
        actions.append(.forget(entry.id))
      case .complete, .evicted:
        // Removed by hand while nothing was mounted, or evicted: what was delivered stays visible.
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

  /// What is known of the missing file is kept: it may come back, and be nowhere else as a whole.
  func isPutOff(_ entry: CatalogEntry) -> Bool {
    [.pending, .failed].contains(entry.state) && mayHavePartsElsewhere(entry)
  }

  /// The names under which files lie in the spool.
  private func namesThatAreTaken() -> LookupSet<RelativePath> {
    LookupSet(files.values.filter(\.isLocal).flatMap(\.snapshot.names))
  }

  /// Parts of a file that is not in the spool may be at the server alone, in the session that the catalog or its record names: a user
  /// who moved the rest away may put it back, or its disk is not mounted.
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
    file.path = entry.path
    file.takePast(from: entry)
    file.isLocal = false
    files[entry.id] = file
    actions.append(.showNames(entry.id))
    remember(entry.id)
  }
}

extension FileUpload {
  /// What the catalog says of the file's past, where the file itself is not there to be looked at.
  mutating func takePast(from entry: CatalogEntry) {
    revision = entry.revision
    receipt = entry.receipt
    completedAt = entry.completedAtMilliseconds
    openedAt = entry.openedAtMilliseconds
    closedAt = entry.closedAtMilliseconds
  }
}

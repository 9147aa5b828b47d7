import FileModel
import Lookup
import OrderedCollections

/// The search of the spool, and what it has not found.
extension UploadSchedule {
  /// Nothing is forgotten and no session ended because of it: the scan goes on.
  mutating func scanFailing(_ path: RelativePath, errno: Int32, at now: Moment) {
    scanFailing(path, FileStatus.Failure(unreadableFolder: path, errno: errno, at: now), at: now)
  }

  /// The search of the spool waits until it is known what earlier runs knew of the files that it will find.
  mutating func searchWaits(reason: String, at now: Moment) {
    scanFailing(.root, FileStatus.Failure(unreadableCatalog: reason, at: now), at: now)
    pump(at: now)
  }

  mutating func scanFailing(_ path: RelativePath, _ failure: FileStatus.Failure, at now: Moment) {
    if scanFailure == nil { timers.insert(.scan, at: now.monotonic + Self.scanPatience) }
    if scanFailure?.failure.message != failure.message { actions.append(.report(.scanFailing(path, failure))) }
    actions.append(.showSummary)
    scanFailure = ScanFailure(path: path, failure: failure, isLasting: scanFailure?.isLasting ?? false)
  }

  /// Calls and the drain wait for what the disk cannot say no longer than that.
  private static let scanPatience: Duration = .seconds(10)

  mutating func scanEnded(at now: Moment) {
    isScanned = true
    endUnmet()
    scanFailure = nil
    goneUnfound = []
    actions.append(.showSummary)
    if let count = foundForgotten.take(), count > 0 {
      actions.append(.report(.forgotten(count, compared: files.values.count { $0.progress.delivered != nil })))
    }
    if files.counts.unproven > 0 { actions.append(.report(.unproven(files.counts.unproven))) }
    var kept: LookupTable<FileID, CatalogEntry> = [:]
    // In an order, so that a run can be played again.
    let missed = inherited.sorted().filter { files[$0.key] == nil && unloaded[$0.key] == nil }.map(\.value)
    endMissed(missed)
    for entry in missed where isPutOff(entry) { kept[entry.id] = entry }
    for (id, _) in inheritedRecords.sorted() {
      // Without the file, or what the catalog knew of it, the server may hold what is nowhere else.
      guard files[id] != nil || inherited[id] != nil && kept[id] == nil else { continue }
      endRecord(of: id, at: now)
    }
    // Of one that memory does not hold an event may be about to come.
    for (id, entry) in inherited.sorted() where unloaded[id] != nil { kept[id] = entry }
    inherited = kept
    endInherited(at: now)
  }

  /// Nothing goes on with what an earlier run has recorded of an upload.
  mutating func endRecord(of id: FileID, at now: Moment) {
    guard let record = inheritedRecords.removeValue(forKey: id), files[id]?.session?.id != record.sessionID
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
    guard let record = inheritedRecords[entry.id], !record.acknowledged.isEmpty else { return false }
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

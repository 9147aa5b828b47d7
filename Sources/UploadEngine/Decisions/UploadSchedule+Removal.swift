import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Files that leave the spool: removed, evicted, moved away by another program.
extension UploadSchedule {
  mutating func removed(_ id: FileID, endsUnfound: Bool = true, at now: ClockReading) {
    openFiles.closed(id)
    let wasUnloaded = memory.unloaded[id] != nil
    restoreUnloaded(id)
    if endsUnfound, files[id] == nil { endUnfound(id, hasRow: wasUnloaded, at: now) }
    if let entry = catalog.recovery.takeEntry(of: id) { doubtEarlierRun(entry, at: now) }
    catalog.claims.forget(id)
    guard var file = files[id] else {
      if !spool.isScanned {
        catalog.recovery.noteRemovedUnfound(id)
        actions.append(.showStatus(id))
      }
      return
    }
    guard file.phase != .routedElsewhere else { return forgetElsewhere(id) }
    doubtEarlierRun(file, of: file.snapshot.names, at: now)
    giveUp(&file, at: now)
    file.leaveSpool(as: file.receipt == nil ? .undelivered : .delivered)
    file.writers.ended()
    file.loseCopy()
    files[id] = file
    actions.append(.forget(id))
    actions.append(.removeResume(id))
    actions.append(.showNames(id))
    actions.append(.showStatus(id))
    remember(id)
  }

  /// A file that the scan had not found was removed in the mount: its upload ends like any other.
  /// Its row may be one that could not be read.
  private mutating func endUnfound(_ id: FileID, hasRow: Bool, at now: ClockReading) {
    if hasRow || catalog.recovery.entry(of: id) != nil { actions.append(.forget(id)) }
    guard let record = catalog.recovery.takeRecord(of: id) else { return }
    discard(SessionIdentity(id: record.sessionID, nonce: record.nonce), of: record.owner, at: now)
    actions.append(.removeResume(id))
  }

  /// A delivered file stays delivered, as after an unlink. An undelivered one is reported.
  mutating func vanished(_ id: FileID, at now: ClockReading) {
    restoreUnloaded(id)
    let file = files[id]
    let isLost = file.map { $0.receipt == nil && $0.phase != .routedElsewhere && $0.phase != .ignored } ?? false
    // Parts that are at the server alone are known here only; the file may have been renamed there.
    if isLost, file?.lacksParts == true { return interrupted(id, .changedInSpool, at: now) }
    removed(id, endsUnfound: false, at: now)
    guard isLost, let file else { return }
    totals.filesChangedInSpool += 1
    files[id]?.note(
      FileStatus.Failure(
        code: "removed-from-spool",
        message:
          "Another program took the file out of the spool before it was delivered. Remove captures in the mount.",
        at: now))
    actions.append(.report(.missingFromSpool(id, file.path)))
    actions.append(.showStatus(id))
  }

  /// Ends all reads and requests of a file. Its buffers come back as its requests and reads are answered. A session
  /// that is still being opened is ended when the answer gives its name. A session that holds what is no longer in the
  /// spool is kept with the file.
  mutating func giveUp(_ file: inout FileUpload, keepsParts: Bool = false, at now: ClockReading) {
    leaveTransfer(&file)
    for (request, underway) in requests where underway.file == file.id {
      if case .openSession = underway.order { continue }
      endEarly(request, underway)
    }
    abortSession(&file, endsParts: !keepsParts, at: now)
  }

  mutating func evicted(_ id: FileID, at now: ClockReading) {
    restoreUnloaded(id)
    guard var file = files[id] else { return }
    catalog.claims.forgetUnconfirmed(id)
    guard file.phase != .interrupted else { return discarded(id, at: now) }
    guard file.phase != .routedElsewhere else { return forgetElsewhere(id) }
    switch file.phase {
    case .complete, .finishing, .ignored, .removed, .interrupted, .routedElsewhere: break
    case .writing, .held, .ready, .waiting, .failed, .cancelled:
      // Whatever was still to be done with the file, nothing of it is left here. A delivered file stays delivered.
      guard file.receipt != nil else { return removed(id, at: now) }
      openFiles.closed(id)
      giveUp(&file, at: now)
      file.complete()
      file.writers.ended()
      actions.append(.removeResume(id))
    }
    file.loseCopy()
    files[id] = file
    actions.append(.record(id))
    actions.append(.forgetNames(id))
    actions.append(.showNames(id))
    actions.append(.showStatus(id))
    remember(id)
  }

  /// The state of a file that went to other destinations only is reported by those.
  private mutating func forgetElsewhere(_ id: FileID) {
    files[id] = nil
    actions.append(.forget(id))
    actions.append(.hide(id))
  }

  /// Keeps a bounded number of files visible that are no longer in the spool.
  mutating func remember(_ id: FileID) {
    files.history.append(id)
    while files.history.count > min(limits.historyMax, memory.fit.filesMax / 4) {
      let oldest = files.history.removeFirst()
      guard let file = files[oldest], !file.isLocal else { continue }
      files[oldest] = nil
      actions.append(.hide(oldest))
    }
  }

  /// A removed capture is in the spool again, restored by hand, and names itself: its content is to be determined.
  mutating func forgetHistory(of id: FileID) {
    if files.entry(id)?.file.isLocal == false { files[id] = nil }
  }
}

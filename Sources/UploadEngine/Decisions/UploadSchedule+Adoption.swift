import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Files that were not created through this mount: an earlier run has left them, or a user has put them into the spool.
extension UploadSchedule {
  /// A file from an earlier run, or one that was put into the spool by hand.
  mutating func adopt(
    _ snapshot: FileSnapshot, after former: FormerPublication? = nil, goingOnWith session: UploadSession? = nil,
    at now: ClockReading
  ) {
    let facts = memory.unloaded[snapshot.id]
    let wasUnloaded = facts?.isMet == true
    var entry = catalog.recovery.takeEntry(of: snapshot.id)
    let known = entry
    if known == nil, former == nil, snapshot.wasFound { catalog.recovery.noteUnknown() }
    if case .spoolUnreadable? = snapshot.interruption {
      catalog.claims.leaveUnconfirmed(entry, of: snapshot.id)
      entry = nil
    }
    var file = FileUpload(
      snapshot: snapshot, phase: phaseWhileOpen(snapshot), isOpen: snapshot.writableOpens > 0,
      changeSequence: takeSequence(of: snapshot.id))
    if case .spoolUnreadable? = snapshot.interruption { file.copy.metUnread() }
    file.writers.recall(openedAt: entry?.openedAtMilliseconds, closedAt: entry?.closedAtMilliseconds)
    var isKnownDelivered = known?.isDelivered == true
    // A file that was never finished keeps revision 0.
    file.recall(revision: entry?.revision == 0 && snapshot.interruption != nil ? 0 : max(1, entry?.revision ?? 1))
    if let entry, let former, entry.isReplaced(by: former, in: snapshot), snapshot.interruption == nil,
      file.phase != .routedElsewhere, publishedName(file.id, former.origin.path).map({ $0 == former.name }) ?? true
    {
      file.judge(.olderThanDelivered)
      isKnownDelivered = false
    } else if let entry, entry.isToResend, file.phase != .routedElsewhere, entry.describes(snapshot) {
      if snapshot.mayBeRemains { findUnproven(&file, of: entry, isToResend: true) }
    } else if let entry, entry.isDelivered, entry.describes(snapshot),
      file.phase == .routedElsewhere || !entry.mayBeLeft(in: snapshot)
    {
      file.becomeDelivered(as: entry)
      file.publication.recall(keptSince: facts?.keptSince)
    } else if let entry, entry.isDelivered, snapshot.interruption == nil, !snapshot.isPartlyReleased {
      findOther(&file, than: entry)
    } else if let entry, entry.mayBeLeft(in: snapshot), file.phase != .routedElsewhere {
      findRest(&file, of: entry, at: now)
    } else if let entry, entry.isDelivered, snapshot.mayBeRemains, file.phase != .routedElsewhere {
      findUnproven(&file, of: entry)
    } else if let entry, file.phase != .routedElsewhere, entry.recordsCancellation(of: snapshot) {
      file.cancel(
        FileStatus.Failure(code: FileUpload.cancelledCode, message: entry.failureMessage ?? "", at: now))
    } else if let entry, file.phase != .routedElsewhere, destination.abilities.atMostOnceScope != .nothing,
      entry.failureCode == FileUpload.unclearAfterCrash.code, entry.state == .failed, entry.describes(snapshot)
    {
      file.fail(
        FileStatus.Failure(code: FileUpload.unclearAfterCrash.code, message: entry.failureMessage ?? "", at: now))
    } else if let former, file.phase != .routedElsewhere {
      findPublished(&file, former, besides: entry)
      isKnownDelivered = catalog.claims.unconfirmedEntry(of: file.id) != nil
    } else {
      // What an entry records of an earlier content does not apply to this one, however alike the two are.
      if let entry, entry.state == .failed, entry.describes(snapshot),
        let known = entry.failureCode.flatMap({ Interruption($0) }), !known.isOfSpool
      {
        file.judge(snapshot.interruption ?? known)
      }
      // What was closed in this run was changed afterwards, past the mount.
      if wasUnloaded, snapshot.epoch == 0, snapshot.writableOpens == 0, let entry, entry.state == .pending,
        !entry.describes(snapshot)
      {
        file.judge(snapshot.interruption ?? .changedInSpool)
      }
      file.origin.found(
        mayBeAtServer: snapshot.wasFound && snapshot.interruption == nil && known?.isDelivered != true
          && file.revision <= 1)
      if let entry, entry.describes(snapshot) { file.progress.recordSeal(entry.seal) }
      if let userRequest = entry?.userRequest(for: snapshot) {
        file.progress.request(userRequest)
      }
    }
    if isKnownDelivered, file.receipt == nil {
      catalog.claims.supersede(file.id)
    } else {
      catalog.claims.endSuperseding(file.id)
    }
    // Also for a file that is held back: a user may want it as it is. For a cancelled or failed one, as long as parts
    // of it are at the server alone.
    let goesOn = file.receipt == nil && (file.lacksParts || file.phase != .cancelled && file.phase != .failed)
    if goesOn, let session {
      file.session = session
    } else if goesOn, let pointer = pointerToParts(of: file, entry) {
      // Of two uploads the catalog's session has the parts, whatever a record of another time names.
      keepSession(pointer.sessionID)
      file.session = UploadSession(pointer, at: now)
      file.session?.mayHaveTried(snapshot.names)
    } else if goesOn, let record = catalog.recovery.takeRecord(of: snapshot.id) {
      file.session = resumedSession(record, of: file)
      file.session?.recall(isOfFirstWriting: record.epochRevision == 0 && (entry?.revision ?? 0) == 0)
    } else if let session {
      // The session of a delivered file is published.
      if file.receipt == nil, let identity = session.identity { discard(identity, of: session.owner, at: now) }
      actions.append(.removeResume(snapshot.id))
    }
    if goesOn, session == nil { notePossiblePublication(&file, by: known) }
    if file.session != nil { file.progress.resumed() }
    if file.progress.userRequest != nil, file.receipt == nil { acceptInterruption(of: &file, snapshot.interruption) }
    files[snapshot.id] = file
    // The content was about to change and stays: the catalog may have dropped its record.
    let isToStay = catalog.claims.isChanging(snapshot.id)
    catalog.claims.endChange(of: snapshot.id)
    if file.phase == .routedElsewhere, entry != nil {
      forgetEntry(of: file)
    } else if isToStay || entry.map({ !$0.knows(snapshot) }) ?? false {
      actions.append(.record(snapshot.id))
    }
    actions.append(.showNames(snapshot.id))
    actions.append(.showStatus(snapshot.id))
    switch file.phase {
    case .complete:
      if !publishFurther(snapshot.id, at: now) { dropDeliveredParts(snapshot.id) }
    case .cancelled, .failed, .finishing: break
    default: if !file.isOpen { settleName(snapshot.id, at: now) }
    }
  }

  /// The spool can now describe a file that was found: it is what its entry describes, or what was published at its
  /// path, or another content. True when the file was unconfirmed, and every decision is made.
  mutating func confirm(_ snapshot: FileSnapshot, after former: FormerPublication?, at now: ClockReading) -> Bool {
    if case .spoolUnreadable? = snapshot.interruption { return false }
    let entry = catalog.claims.takeUnconfirmed(snapshot.id)
    guard var file = files[snapshot.id], file.snapshot.epoch == snapshot.epoch,
      entry != nil || former != nil && file.copy.isMetUnread
    else { return false }
    leaveTransfer(&file)
    files[snapshot.id] = nil
    if let entry { catalog.recovery.expect(entry) } else { catalog.recovery.forgetEntry(of: snapshot.id) }
    adopt(snapshot, after: former, goingOnWith: file.session, at: now)
    return true
  }

  /// Parts of the file are at a server alone, and the record that names their upload is gone, or names another one.
  /// Where the disk may still return it later, nothing is decided. The upload keeps its own chunks, however long those
  /// of the settings are.
  private mutating func pointerToParts(of file: FileUpload, _ entry: CatalogEntry?) -> SessionPointer? {
    guard file.snapshot.isPartlyReleased, !catalog.recovery.lacksRecords,
      let pointer = file.snapshot.pointer ?? entry?.pointer,
      pointer.chunkBytes <= UploadConstants.chunkBytesMax,
      catalog.recovery.record(of: file.id)?.sessionID != pointer.sessionID
    else { return nil }
    chunkBytesMax = max(chunkBytesMax, pointer.chunkBytes)
    return pointer
  }

  /// The session of an earlier run may have published the content that is found, unless the catalog records a later
  /// change: neither the file nor the record need be as new as that. After a power cut nor is the catalog, unless it
  /// records what was closed, and what the session has published may have been replaced since.
  private func notePossiblePublication(_ file: inout FileUpload, by entry: CatalogEntry?) {
    guard let session = file.session else { return }
    let isSettled = entry.map { $0.doubt == nil && $0.describes(file.snapshot) } ?? false
    let isKnown = !file.snapshot.mayBeRemains || file.progress.seal != nil
    let isOfContent = isKnown && (isSettled || entry?.session.map { $0 == session.id } ?? true)
    let epoch = file.snapshot.epoch
    file.session?.mayHavePublished(isOfContent ? .content(epoch) : .earlier)
    if isOfContent { file.progress.mayBePublished(epoch: epoch) }
  }

  /// The session that a record names. Whether it exists is reported by the server when it is asked.
  private func resumedSession(_ record: ResumeRecord, of file: FileUpload) -> UploadSession {
    var session = UploadSession(record, bindsName: destination.abilities.bindsNameAtOpening)
    session.mayHaveTried(file.snapshot.names)
    // A session of another kind of server: it is kept for that server, and no name of this one belongs to it.
    if file.lacksParts { session.unbind() }
    session.recall(
      trustsServer: file.snapshot.isPartlyReleased && file.snapshot.pointer?.sessionID == record.sessionID)
    return session
  }
}

extension CatalogEntry {
  /// A user wanted the file delivered again, before the restart.
  fileprivate var isToResend: Bool { isDelivered && failureCode == FileUpload.remainsToResendCode }

  /// This content was cancelled before the restart.
  fileprivate func recordsCancellation(of snapshot: FileSnapshot) -> Bool {
    guard state == .failed else { return false }
    // A copy of the spool may have other times.
    let isCopy = inode != snapshot.inode && sizeBytes == snapshot.sizeBytes
    return failureCode == FileUpload.cancelledCode && (describes(snapshot) || isCopy)
      || failureCode == FileUpload.cancelledOpenCode
  }

  /// The entry names the file. A moved spool has other inodes; the file may have been renamed just before a kill; and
  /// an evicted file lies there again.
  fileprivate func knows(_ snapshot: FileSnapshot) -> Bool {
    inode == snapshot.inode && snapshot.names.contains(path) && state != .evicted
  }

  /// Parts of the delivered file were given up. A file of the same size under its name does not describe itself.
  func mayBeLeft(in snapshot: FileSnapshot) -> Bool {
    lackedParts && snapshot.interruption == .unproven && !snapshot.isPartlyReleased && sizeBytes == snapshot.sizeBytes
  }

  /// Parts of the delivered file had been given up when this was written, or an earlier version has not recorded what
  /// it lacked.
  var lackedParts: Bool {
    let isOfDisk = failureCode == FileUpload.diskRemainsCode || failureCode == FileUpload.remainsToResendCode
    return isDelivered && doubt == .unproven && !isOfDisk
  }

  /// A user's request for this content from before the restart. The request does not apply to what a power cut has left
  /// since.
  fileprivate func userRequest(for snapshot: FileSnapshot) -> FileUpload.UserRequest? {
    guard describes(snapshot), var code = failureCode else { return nil }
    if code.hasSuffix(FileUpload.ofRemainsSuffix) {
      code.removeLast(FileUpload.ofRemainsSuffix.count)
    } else if snapshot.mayBeRemains {
      return nil
    }
    switch code {
    case FileUpload.publishedAsIsCode: return .asIs
    case FileUpload.publishedAsNamedCode: return snapshot.names.contains(path) ? .named(path) : .asIs
    default: return nil
    }
  }

  /// True when the spool holds the content that was known of this file: same size and time of change. The file's
  /// identity shows that it is the same file, wherever the spool lies now.
  func describes(_ snapshot: FileSnapshot) -> Bool {
    sizeBytes == snapshot.sizeBytes && modifiedNanoseconds == snapshot.modifiedNanoseconds
  }
}

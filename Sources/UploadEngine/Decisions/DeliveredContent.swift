import FileModel
import Integrity
import Lookup
import TransferModel

/// What was delivered of a capture that differs when the spool is scanned: touched, copied without its times, changed
/// by hand, or restored from a backup. The capture is read and compared before anything of it is sent. The same content
/// is not sent again, and an older one does not replace a later one.
struct DeliveredContent: Hashable, Sendable {
  /// Nil where the catalog records none; then every content differs.
  var root: Digest32?
  /// The root depends on the length of the chunks.
  var chunkBytes: Int
  /// What the present content is where the contents differ.
  var otherwise: Otherwise

  enum Otherwise: Hashable, Sendable {
    case laterRevision
    case older
    /// The remainder of a recording whose parts were given up.
    case rest
    /// What the disk has left of the file, or another file: nothing says which.
    case doubtful
  }
}

extension Interruption {
  /// The disk may have left nothing but zeros, or a part of what was closed.
  var mayBeRemains: Bool {
    switch self {
    case .notOnDisk, .lostInWriteBack, .unproven: true
    case .writeRefused, .writeFailed, .changeRefused, .writerKilled, .mountDied, .changedInSpool, .olderThanDelivered,
      .spoolUnreadable, .spoolFailing:
      false
    }
  }
}

extension FileSnapshot {
  /// Nothing proves that the disk has all of the file.
  var mayBeRemains: Bool { interruption?.mayBeRemains == true && !isPartlyReleased }
}

extension CatalogEntry {
  /// The spool knows what the destination has of it.
  var isDelivered: Bool { (state == .complete || state == .evicted) && receipt != nil }

  /// The file of the capture itself was changed after its delivery. A file that has replaced it has another inode, or
  /// is known not to be the one that had its number.
  fileprivate func isRevised(in snapshot: FileSnapshot) -> Bool {
    state == .complete && inode == snapshot.inode && !snapshot.isPutInPlace
      && modifiedNanoseconds < snapshot.modifiedNanoseconds
  }
}

extension FileUpload {
  /// The content is what the entry says was delivered.
  mutating func becomeDelivered(as entry: CatalogEntry) {
    complete()
    publication.found(entry, names: snapshot.names)
  }
}

extension UploadSchedule {
  /// A file differs from what was delivered of it. Until its content is known, the catalog keeps the delivery: a later
  /// start finds the same, or what was restored.
  mutating func findOther(_ file: inout FileUpload, than entry: CatalogEntry, isRevised: Bool? = nil) {
    let isRevised = isRevised ?? entry.isRevised(in: file.snapshot)
    if file.snapshot.sizeBytes == 0, entry.sizeBytes == 0 {
      file.becomeDelivered(as: entry)
      actions.append(.record(file.id))
      return
    } else if let delivered = contentToCompare(file, with: entry, otherwise: isRevised ? .laterRevision : .older) {
      file.progress.compare(with: delivered)
    } else if !isRevised {
      file.judge(.olderThanDelivered)
    } else {
      return
    }
    keepDelivered(entry, of: file)
    guard file.snapshot.isPutInPlace || entry.state == .evicted, entry.inode == file.snapshot.inode else { return }
    catalog.claims.inodeIsNoProof(of: file.id)
    actions.append(.record(file.id))
  }

  /// A copy of the spool without attributes and times has a delivered capture that says nothing of itself. It is the
  /// remainder, with zeros for the parts that were given up, or a replacement, or the whole, whose disk was not known
  /// to have it. Until that is known, and where it is not whole, nothing of it is sent and the catalog keeps the
  /// delivery.
  mutating func findRest(_ file: inout FileUpload, of entry: CatalogEntry, at now: ClockReading) {
    guard file.snapshot.sizeBytes > 0 else {
      // Nothing can be missing.
      file.becomeDelivered(as: entry)
      actions.append(.record(file.id))
      return
    }
    keepDelivered(entry, of: file)
    file.progress.compare(with: contentToCompare(file, with: entry, otherwise: .rest))
    // A file that cannot be compared may be whole: it stays here.
    if file.progress.delivered == nil { failAsRest(&file, of: entry, isCompared: false, at: now) }
  }

  /// The same for a capture of which nothing was given up, as far as the catalog knows. A power cut, here or before the
  /// spool was copied, may have left zeros or a part of it, or something else was put there. A file that is not what
  /// was delivered is held, and the delivery stays known.
  mutating func findUnproven(_ file: inout FileUpload, of entry: CatalogEntry, isToResend: Bool = false) {
    guard file.snapshot.sizeBytes > 0 || entry.sizeBytes > 0 else {
      // Nothing can be missing.
      file.becomeDelivered(as: entry)
      actions.append(.record(file.id))
      return
    }
    keepDelivered(entry, of: file)
    file.progress.compare(with: contentToCompare(file, with: entry, otherwise: .doubtful), resends: isToResend)
  }

  /// The recorded delivery of a file that may be what its disk has left of that. The file replaces the whole by no
  /// command and no rule.
  func deliveryOfRemains(_ file: FileUpload) -> CatalogEntry? {
    guard file.snapshot.mayBeRemains, let entry = catalog.claims.unconfirmedEntry(of: file.id), entry.isDelivered else {
      return nil
    }
    return entry
  }

  /// The catalog keeps the delivery.
  private mutating func keepDelivered(_ entry: CatalogEntry, of file: FileUpload) {
    var entry = entry
    entry.state = .complete
    if !file.snapshot.names.contains(entry.path) { entry.path = file.path }
    catalog.claims.leaveUnconfirmed(entry, of: file.id)
  }

  /// What lies here is not what was delivered. As long as its size and time match the delivery it is the remainder, and
  /// is removed.
  private mutating func isRest(_ file: inout FileUpload, of entry: CatalogEntry, at now: ClockReading) {
    guard entry.describes(file.snapshot) else { return failAsRest(&file, of: entry, at: now) }
    catalog.claims.forgetUnconfirmed(file.id)
    catalog.claims.endSuperseding(file.id)
    file.becomeDelivered(as: entry)
    file.copy.partsMayGo()
  }

  /// Nil where the sizes show that the content is another one, or where the length of its chunks is unknown.
  private mutating func contentToCompare(
    _ file: FileUpload, with entry: CatalogEntry, otherwise: DeliveredContent.Otherwise
  ) -> DeliveredContent? {
    guard let chunkBytes = chunkBytesToCompare(file, with: entry),
      let root = Hex.decode(entry.receipt?.merkleRoot ?? "")
    else { return nil }
    return DeliveredContent(root: Digest32(root), chunkBytes: chunkBytes, otherwise: otherwise)
  }

  private mutating func chunkBytesToCompare(_ file: FileUpload, with entry: CatalogEntry) -> Int? {
    let sizeBytes = file.snapshot.sizeBytes
    guard entry.sizeBytes == sizeBytes, entry.receipt?.sizeBytes == sizeBytes else { return nil }
    // A file that fits into the shortest chunk was a single one, however long that could have been.
    let usual = limits.adaptsChunkBytes ? UploadConstants.chunkBytesMin : limits.chunkBytes
    let known =
      entry.receipt?.chunkBytes ?? (!limits.adaptsChunkBytes || sizeBytes <= UInt64(usual) ? usual : nil)
    guard let known, known > 0 else { return nil }
    // A longer chunk is as long as the file.
    let chunkBytes = min(known, Int(clamping: sizeBytes))
    guard chunkBytes <= UploadConstants.chunkBytesMax else { return nil }
    // The settings may ask for shorter chunks by now.
    chunkBytesMax = max(chunkBytesMax, chunkBytes)
    return chunkBytes
  }

  /// Another content is to be published than the catalog records as delivered. Nothing of it is sent before the catalog
  /// has ceased to do so. Should the former content be restored, it would count as delivered where this one is
  /// published.
  mutating func awaitSuperseding(_ id: FileID) {
    files.update(id) { $0.becomeReady() }
    actions.append(.record(id))
    actions.append(.showStatus(id))
  }

  /// The catalog records no content of this file as delivered.
  mutating func deliveryIsSuperseded(_ id: FileID, at now: ClockReading) {
    guard catalog.claims.unconfirmedEntry(of: id) == nil, catalog.claims.isSuperseded(id) else { return }
    let waits = files.entry(id).map { isRevisionToRecord($0.file) } ?? false
    catalog.claims.endSuperseding(id)
    guard waits else { return }
    if files[id]?.lastFailure?.code == FileUpload.notRecordedCode { files[id]?.forgetFailure() }
    makeReady(id, at: now)
  }

  /// The file waits for nothing but the catalog.
  func isRevisionToRecord(_ file: FileUpload) -> Bool {
    guard catalog.claims.isSuperseded(file.id) else { return false }
    return file.phase == .ready && file.progress.delivered == nil
      || file.phase == .failed && file.lastFailure?.code == FileUpload.notRecordedCode
  }

  /// Revisions that wait for the catalog, and that calls wait for.
  var revisionsToRecord: [FileID] {
    guard catalog.claims.haveSuperseded else { return [] }
    return files.values.filter { $0.phase == .ready && isRevisionToRecord($0) }.map(\.id)
  }

  /// The file waits for its turn to be read.
  mutating func beginComparing(_ id: FileID) {
    files.update(id) { $0.becomeReady() }
    spool.comparisons.add(id)
    actions.append(.showStatus(id))
  }

  /// The file of which the next chunk is read to be compared; nil when none is to be read.
  mutating func nextFileToCompare() -> FileID? {
    while let id = spool.comparisons.next(), !isToBeCompared(id) { spool.comparisons.end(id) }
    guard let id = spool.comparisons.current, let file = files.entry(id)?.file, let delivered = file.progress.delivered
    else {
      return nil
    }
    if file.transfer == nil {
      let plan = ChunkPlan(sizeBytes: file.snapshot.sizeBytes, chunkBytes: delivered.chunkBytes)
      files[id]?.content.begin(ChunkTransfer(plan: plan))
    }
    guard let file = files.entry(id)?.file, let transfer = file.transfer else { return nil }
    return nextPending(of: file, transfer) == nil ? nil : id
  }

  private func isToBeCompared(_ id: FileID) -> Bool {
    guard let file = files.entry(id)?.file else { return false }
    return file.phase == .ready && file.progress.delivered != nil
  }

  /// A chunk was read. With the last one the content is known.
  mutating func endComparing(_ id: FileID, at now: ClockReading) {
    guard var file = files[id], let delivered = file.progress.delivered, let transfer = file.transfer else { return }
    guard isToBeCompared(id) else {
      // Another chunk of the file could not be read, and is tried again. What was read stays.
      if file.isWaiting { return }
      // The file is about to change. Should it stay, it is compared anew.
      leaveTransfer(&file)
      files[id] = file
      spool.comparisons.end(id)
      return
    }
    var proof = CommitProof(sessionID: "")
    for state in transfer.states {
      guard let digest = state.digest else { return }
      proof.append(digest)
    }
    leaveTransfer(&file)
    spool.comparisons.end(id)
    let entry = catalog.claims.takeUnconfirmed(id)
    if let entry, proof.merkleRoot == delivered.root {
      catalog.claims.endSuperseding(id)
      // An upload of another content, which the present one has replaced.
      abortSession(&file, at: now)
      // The content was proven whole, whatever the file says of itself.
      if let doubt = file.snapshot.interruption, doubt.mayBeRemains {
        acceptInterruption(of: &file, doubt)
        settleLostPlaces(of: &file)
      }
      file.becomeDelivered(as: entry)
      // As a delivery it counts once it is recorded: a later start may have shorter chunks, and cannot compare it.
      file.beginFinishing()
      files[id] = file
      if file.progress.isToResend, deliverAgain(id, at: now) { return }
      files[id]?.progress.endResending()
      actions.append(.record(id))
      actions.append(.showStatus(id))
      return
    }
    file.progress.endComparing()
    switch delivered.otherwise {
    case .laterRevision: break
    case .older:
      catalog.claims.leaveUnconfirmed(entry, of: id)
      file.judge(.olderThanDelivered)
    case .doubtful: catalog.claims.leaveUnconfirmed(entry, of: id)
    case .rest:
      catalog.claims.leaveUnconfirmed(entry, of: id)
      if let entry { isRest(&file, of: entry, at: now) }
    }
    files[id] = file
    guard delivered.otherwise == .rest else { return settleName(id, at: now) }
    actions.append(.showStatus(id))
    if file.phase == .complete {
      if !publishFurther(id, at: now) { dropDeliveredParts(id) }
      return
    }
    if let failure = file.lastFailure { actions.append(.report(.failed(id, file.path, failure))) }
  }
}

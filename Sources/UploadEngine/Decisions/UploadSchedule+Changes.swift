public import FileModel
import Lookup
public import TransferModel

/// What is known of a content when it is about to change.
struct KnownContent: Sendable {
  var phase: FileUpload.PhaseBeforeChange?
  var receipt: Receipt?
  var publishedPaths: [RelativePath] = []
  var seal: ContentSeal?
  /// The entry of a file of an earlier run that the scan has not found yet, or that the spool cannot describe yet.
  var entry: CatalogEntry?
}

extension CatalogEntry {
  /// The entry describes the content itself.
  fileprivate var describesContent: Bool { state == .complete || state == .failed || seal != nil }
}

/// Contents that are about to change: their catalog records are withdrawn first.
extension UploadSchedule {
  /// The content of a settled file is about to change. True when the catalog has to record that first, because its
  /// entry concerns the present content: a receipt, the session that may have published it, or why it is not delivered.
  /// From now on ``catalogEntry(of:)`` omits all of that.
  public mutating func contentWillChange(_ id: FileID) -> Bool {
    if let entry = catalog.recovery.entry(of: id), entry.describesContent || entry.session != "" {
      catalog.claims.beginChange(of: id, KnownContent(entry: entry))
      catalog.recovery.contentChanges(of: id)
      return true
    }
    if let entry = catalog.claims.unconfirmedEntry(of: id), entry.describesContent {
      catalog.claims.beginChange(of: id, KnownContent(phase: files[id]?.phaseBeforeChange, entry: entry))
      catalog.claims.forgetUnconfirmed(id)
      files[id]?.beginWriting()
      return true
    }
    // The row of an unloaded file that could not be read may have a receipt.
    guard var file = files[id] else { return memory.unloaded[id] != nil && catalog.recovery.entry(of: id) == nil }
    let known = KnownContent(
      phase: file.phaseBeforeChange, receipt: file.receipt, publishedPaths: file.publishedPaths,
      seal: file.progress.seal)
    switch file.phase {
    case .complete, .finishing, .interrupted, .failed, .cancelled: file.beginWriting()
    case .writing, .held, .ignored, .routedElsewhere, .ready, .waiting, .removed:
      guard file.receipt != nil || file.mayBePublished || file.progress.seal != nil else { return false }
    }
    catalog.claims.beginChange(of: id, known)
    file.progress.recordSeal(nil)
    file.publication.contentWillChange()
    files[id] = file
    return true
  }

  /// After ``contentWillChange(_:)``: the content does not change, and is what it was. The catalog, which may have
  /// recorded otherwise, is updated; only then does the delivery count again.
  public mutating func contentStays(_ id: FileID, at now: ClockReading) {
    defer { pump(at: now) }
    guard let known = catalog.claims.changingContent(of: id) else { return }
    if let entry = known.entry, let before = known.phase {
      catalog.claims.endChange(of: id)
      catalog.claims.leaveUnconfirmed(entry, of: id)
      // A rename may have come in between, which overrides this.
      guard files.entry(id)?.file.phase == .writing else { return actions.append(.record(id)) }
      files[id]?.stay(as: before, isToBeRecorded: false)
      if case .waiting(let until) = before.phase {
        // The file's timer may have fired meanwhile, without effect.
        timers.insert(.file(id), at: until)
      } else if before.phase == .ready, files[id]?.progress.delivered != nil {
        makeReady(id, at: now)
      }
      actions.append(.record(id))
      return
    }
    if let entry = known.entry {
      // The entry is known until the scan finds the file, and is recorded then.
      return catalog.recovery.contentStays(entry)
    }
    catalog.claims.endChange(of: id)
    guard var file = files[id], file.receipt == nil else { return }
    if let before = known.phase { file.stay(as: before, isToBeRecorded: true) }
    file.publication.contentStays(known.receipt, under: known.publishedPaths)
    file.progress.recordSeal(known.seal)
    files[id] = file
    actions.append(.record(id))
    actions.append(.showStatus(id))
  }
}

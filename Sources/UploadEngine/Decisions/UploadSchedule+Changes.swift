public import FileModel
import Lookup

/// What is known of a content, for the moment in which it is about to change.
struct KnownContent: Sendable {
  var phase: FileUpload.Phase?
  var receipt: Receipt?
  var publishedPaths: [RelativePath] = []
  var seal: ContentSeal?
  /// Of a file of an earlier run that the scan has not come to, or that the spool cannot say yet what it is like.
  var entry: CatalogEntry?
}

extension CatalogEntry {
  /// It says something of the content itself.
  fileprivate var saysOfContent: Bool { state == .complete || state == .failed || seal != nil }
}

/// Contents that are about to change: what the catalog says of them goes first.
extension UploadSchedule {
  /// The content of a settled file is about to change. True when the catalog has to be told first, because what it says is of
  /// the present content: a receipt, the session that may have published it, or why it is not delivered. From now on
  /// ``catalogEntry(of:)`` says none of that.
  public mutating func contentWillChange(_ id: FileID) -> Bool {
    if let entry = catalog.recovery.entry(of: id), entry.saysOfContent || entry.session != "" {
      catalog.claims.beginChange(of: id, KnownContent(entry: entry))
      catalog.recovery.contentChanges(of: id)
      return true
    }
    if let entry = catalog.claims.unconfirmedEntry(of: id), entry.saysOfContent {
      catalog.claims.beginChange(of: id, KnownContent(phase: files[id]?.phase, entry: entry))
      catalog.claims.forgetUnconfirmed(id)
      files[id]?.beginWriting()
      return true
    }
    guard var file = files[id] else { return false }
    let known = KnownContent(
      phase: file.phase, receipt: file.receipt, publishedPaths: file.publishedPaths, seal: file.progress.seal)
    switch file.phase {
    case .complete, .finishing, .interrupted, .failed, .cancelled: file.beginWriting()
    case .writing, .held, .ignored, .routedElsewhere, .ready, .waiting, .removed:
      guard file.receipt != nil || file.mayBePublished || file.progress.seal != nil else { return false }
    }
    catalog.claims.beginChange(of: id, known)
    file.progress.seal = nil
    file.forgetReceipt()
    file.publishedPaths = []
    files[id] = file
    return true
  }

  /// After ``contentWillChange(_:)``: it does not change, and is what it was. The catalog, which may have been told otherwise, is
  /// told so, and only then does what was delivered count as delivered again.
  public mutating func contentStays(_ id: FileID, at now: ClockReading) {
    defer { pump(at: now) }
    guard let known = catalog.claims.changingContent(of: id) else { return }
    if let entry = known.entry, let phase = known.phase {
      catalog.claims.endChange(of: id)
      catalog.claims.leaveUnconfirmed(entry, of: id)
      // A rename may have come in between, which says more.
      guard files.entry(id)?.file.phase == .writing else { return actions.append(.record(id)) }
      files[id]?.goBack(to: phase)
      if case .waiting(let until) = phase {
        // Its time may have come meanwhile, and went by.
        timers.insert(.file(id), at: until)
      } else if phase == .ready, files[id]?.progress.delivered != nil {
        makeReady(id, at: now)
      }
      actions.append(.record(id))
      return
    }
    if let entry = known.entry {
      // Known until the scan comes to it, and is recorded then.
      return catalog.recovery.contentStays(entry)
    }
    catalog.claims.endChange(of: id)
    guard var file = files[id], file.receipt == nil else { return }
    if file.phase == .writing, let phase = known.phase { file.goBack(to: phase == .complete ? .finishing : phase) }
    file.receipt = known.receipt
    file.publishedPaths = known.publishedPaths
    file.progress.seal = known.seal
    files[id] = file
    actions.append(.record(id))
    actions.append(.showStatus(id))
  }
}

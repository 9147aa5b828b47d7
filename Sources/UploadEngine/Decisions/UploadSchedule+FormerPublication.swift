public import FileModel
import Lookup
import TransferModel

extension FormerPublication {
  /// The catalog entry that this file would have if it were what was published.
  func entry(of file: FileUpload) -> CatalogEntry {
    CatalogEntry(
      id: file.id, path: origin.path, inode: file.snapshot.inode, sizeBytes: publication.sizeBytes,
      modifiedNanoseconds: origin.modifiedNanoseconds, revision: file.revision, state: .complete,
      publishedPaths: [origin.path],
      receipt: Receipt(
        id: publication.receiptID ?? "", name: name, sizeBytes: publication.sizeBytes,
        merkleRoot: publication.merkleRoot, chainTip: "", publishedAtMilliseconds: publishedAtMilliseconds,
        publishedAs: publication.publishedAs, fileID: publication.fileID, chunkBytes: publication.chunkBytes),
      openedAtMilliseconds: file.writers.openedAt, closedAtMilliseconds: file.writers.closedAt)
  }
}

extension UploadSchedule {
  /// The publication at the path of a found file counts: nothing else tells what its content is. What a writer has
  /// closed is as the catalog records it.
  public func mayComeAfterPublication(_ snapshot: FileSnapshot) -> Bool {
    guard snapshot.interruption == nil || isUnknownAndUnproven(snapshot), !snapshot.isPartlyReleased,
      limits.leavesAlone(snapshot.names) == nil
    else { return false }
    if let file = files.entry(snapshot.id)?.file, file.isLocal {
      return file.copy.isMetUnread && (catalog.claims.unconfirmedEntry(of: snapshot.id)?.mayBeBehind(snapshot) ?? true)
    }
    return catalog.recovery.entry(of: snapshot.id)?.mayBeBehind(snapshot) ?? true
  }

  /// In a copy of the spool that does not say what it is, what a power cut has left of a capture has the size of none
  /// that is known.
  private func isUnknownAndUnproven(_ snapshot: FileSnapshot) -> Bool {
    snapshot.interruption == .unproven && catalog.recovery.entry(of: snapshot.id) == nil
      && catalog.claims.unconfirmedEntry(of: snapshot.id) == nil
  }

  /// An older content replaces nothing by itself, and the same one is not sent again. A newer one of another length is
  /// treated as if nothing were published. Of the same length it may be a copy without its time.
  ///
  /// Where a later content was still to be sent, or something was sent, its publication is uncertain; a power cut may
  /// have lost that record. There no content counts as delivered.
  ///
  /// A renamed capture replaces nothing there, and is not there.
  mutating func findPublished(_ file: inout FileUpload, _ former: FormerPublication, besides known: CatalogEntry?) {
    guard publishedName(file.id, former.origin.path).map({ $0 == former.name }) ?? true else { return }
    let (entry, isNewer) = (former.entry(of: file), former.isBefore(file.snapshot))
    if file.snapshot.mayBeRemains {
      if former.isLast, known == nil { findUnproven(&file, of: entry) }
      return
    }
    guard former.isLast, known == nil else {
      // Where the time of that change is unknown, what the catalog records of this capture is compared instead.
      let isTimeKnown = former.origin.modifiedNanoseconds < .max
      let time = isTimeKnown ? entry.modifiedNanoseconds : known?.modifiedNanoseconds ?? .max
      if file.snapshot.modifiedNanoseconds < time {
        file.judge(.olderThanDelivered)
      }
      return
    }
    guard !isNewer || entry.sizeBytes == file.snapshot.sizeBytes else { return }
    guard entry.describes(file.snapshot) else { return findOther(&file, than: entry, isRevised: isNewer) }
    file.becomeDelivered(as: entry)
    // As a delivery it counts once it is recorded: in a copy of the spool the catalog alone may know it.
    file.beginFinishing()
    actions.append(.record(file.id))
  }

  /// The server reports what it has published of a found capture of whose delivery nothing here knows: the catalog was
  /// lost. Before anything is sent its content is read and compared, whatever its time. The same one is not sent again,
  /// and an older one is held. A newer one is sent. What is published stays, for nothing shows that it is this spool's.
  mutating func findAtServer(_ id: FileID, _ published: FormerPublication, at now: ClockReading) {
    guard var file = files[id], file.origin.mayBeAtServer else { return }
    file.origin.serverReported()
    files[id] = file
    let path = file.snapshot.names.first {
      limits.publishes($0) && publishedName(id, $0).map { $0 == published.name } ?? ($0 == published.origin.path)
    }
    guard file.phase == .ready, !file.isOpen, file.receipt == nil, file.publishing == nil, !file.lacksParts,
      file.snapshot.sizeBytes > 0, catalog.claims.unconfirmedEntry(of: id) == nil, published.publication.fileID == id,
      let path
    else { return }
    var published = published
    published.origin.path = path
    findOther(&file, than: published.entry(of: file), isRevised: published.isBefore(file.snapshot))
    guard catalog.claims.unconfirmedEntry(of: id) != nil else { return }
    catalog.claims.supersede(id)
    leaveTransfer(&file)
    files[id] = file
    settleName(id, at: now)
  }
}

extension CatalogEntry {
  /// The spool holds something else than the entry describes, which does not say what was delivered. Or the described
  /// file was restored, and something else may have been published at its path since.
  fileprivate func mayBeBehind(_ snapshot: FileSnapshot) -> Bool {
    describes(snapshot) ? isPutBack(as: snapshot) : !isDelivered
  }

  /// The file was evicted, or removed by hand, which a killed mount did not record, and is there again as another file;
  /// or the spool was moved.
  private func isPutBack(as snapshot: FileSnapshot) -> Bool {
    isDelivered && (state == .evicted || inode != snapshot.inode)
  }

  /// A restored file is not what the destination has: something newer has been published there since.
  func isReplaced(by former: FormerPublication, in snapshot: FileSnapshot) -> Bool {
    guard isPutBack(as: snapshot), describes(snapshot), former.publication.fileID != id else { return false }
    return publishedPaths.contains(former.origin.path) && former.origin.modifiedNanoseconds < .max
      && modifiedNanoseconds < former.origin.modifiedNanoseconds
  }
}

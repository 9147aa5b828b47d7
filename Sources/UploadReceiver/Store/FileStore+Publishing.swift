public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Lookup
import Synchronization

/// From a session's data to a published file, and forward from there.
extension FileStore {
  /// Publishes a session's data; what lies beyond the receipt's size is cut off. Once the file has its name there is only
  /// forward: the session's descriptors, which are the published file's now, are dropped, and where the disk fails after
  /// that, the same call again goes on from there.
  public func publish(
    _ session: SessionID, _ publication: Publication
  ) throws(StoreFailure) -> PublicationResult {
    try requireState()
    let tree = try tree(of: publication.credential)
    let earlier = openFiles.withLock { $0.renamed[session] }
    let renamed: Renamed
    var folder: PublishedTree.Folder?
    if let earlier {
      renamed = earlier
    } else {
      (renamed, folder) = try rename(session, publication, in: tree)
    }
    do throws(StoreFailure) {
      if let folder { try tree.sync(folder) } else { try syncAgain(renamed, session, tree) }
      let directory = try FileDescriptor.open(session.text, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      try beforeSync(.sessionFolder)
      try directory.sync()
      try reach(.renamed)
      // Moved away since, the file is not where its receipt would say.
      try tree.folder.requireInPlace()
      let file = try FileDescriptor.openOwn("journal", in: directory, O_RDWR | O_APPEND)
      do throws(StoreFailure) {
        _ = try Journal(appendingTo: file).append(JournalRecord.published.bytes)
        try shorten(file, in: directory, of: session)
      } catch {
        // Without this record the next start checks the target, and the journal may stay as long as it is; a full disk must not undo a
        // publication.
      }
      try reach(.publishedRecorded)
      openFiles.withLock { open in
        open.renamed[session] = nil
        open.stamps[session] = nil
      }
      return PublicationResult(
        replacedBytes: renamed.replacedBytes, publishedAs: renamed.receipt.publishedAs,
        nameHolder: renamed.nameHolder, takenFrom: renamed.takenFrom)
    } catch {
      guard !isStopped, openFiles.withLock({ $0.renamed[session] != nil }) else { throw error }
      throw .unsynced(error.words)
    }
  }

  /// The receipt of an upload that a client relied upon is kept beyond its age; what its chunks were is of no use any more.
  private func shorten(
    _ journal: FileDescriptor, in directory: FileDescriptor, of session: SessionID
  ) throws(StoreFailure) {
    var mayHoldOnlyCopy = false
    let kept = try Journal.recover(journal).filter { payload in
      switch JournalRecord(payload) {
      case .chunk, .zeros: return false
      case .reliedUpon:
        mayHoldOnlyCopy = true
        return true
      default: return true
      }
    }
    guard mayHoldOnlyCopy else { return }
    try Self.delete(session.text, in: incoming)
    let short = try FileDescriptor.open(
      session.text, in: incoming, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, mode: 0o600)
    let shortJournal = Journal(appendingTo: short)
    _ = try shortJournal.append(kept.map { Array($0) })
    try shortJournal.sync()
    guard renameat(incoming.raw, session.text, directory.raw, "journal") == 0 else { throw .last("rename") }
  }

  /// With fresh descriptors, and only if the name still belongs to this very file.
  private func syncAgain(
    _ renamed: Renamed, _ session: SessionID, _ tree: PublishedTree
  ) throws(StoreFailure) {
    guard try !tree.holds(renamed.receipt, inode: renamed.inode) else { return }
    openFiles.withLock { $0.renamed[session] = nil }
    throw .io("\(renamed.receipt.name) was replaced or removed before it was known to be on the disk")
  }

  /// Gives a session's data its name, in a place that is looked for again where others were there first, or have taken the folder
  /// away (a curator).
  private func rename(
    _ session: SessionID, _ publication: Publication, in tree: PublishedTree
  ) throws(StoreFailure) -> (Renamed, PublishedTree.Folder) {
    var place = try tree.makePlace(for: publication)
    let files = try ownFiles(of: session)
    do throws(StoreFailure) {
      let inode = try finish(files, session, publication)
      var move = PublishedTree.Move.overtaken
      for _ in 0..<PublishedTree.placesMax {
        var receipt = publication.receipt
        receipt.publishedAs = place.publishedAs
        try recordIntent(.init(receipt: receipt, inode: inode), files, session)
        // Another program may have put something else in its place meanwhile.
        _ = try ownFiles(of: session)
        move = try tree.move("data", from: files.directory, to: place, publication)
        if case .done(let replacedBytes) = move {
          let renamed = Renamed(
            receipt: receipt, inode: inode, replacedBytes: replacedBytes, nameHolder: place.holder,
            takenFrom: place.takenFrom)
          openFiles.withLock { $0.renamed[session] = renamed }
          close(session)
          return (renamed, place.folder)
        }
        place = try tree.makePlace(for: publication)
      }
      throw move.failure
    } catch {
      // The session goes on, and a receiver that is not root must be able to open the file again.
      if !isStopped { goOn(with: files, session) }
      if case .io = error { openFiles.withLock { _ = $0.failed.insert(session) } }
      throw error
    }
  }

  /// Brings a session's data to the disk as it is to be published; its inode.
  private func finish(
    _ files: SessionFiles, _ session: SessionID, _ publication: Publication
  ) throws(StoreFailure) -> UInt64 {
    guard !openFiles.withLock({ $0.failed.contains(session) }) else {
      throw .io("the data must be read again before it is published")
    }
    try requireOwnContent(files, session, sizeBytes: publication.receipt.sizeBytes)
    let inode = try syncLock(of: session).withLock { () throws(StoreFailure) in
      guard !openFiles.withLock({ $0.failed.contains(session) }) else {
        throw .io("fdatasync: failed before, the data must be read again")
      }
      do throws(StoreFailure) {
        return try finishData(files.data, publication)
      } catch {
        if case .io = error { openFiles.withLock { _ = $0.failed.insert(session) } }
        throw error
      }
    }
    try root(files)
    return inode
  }

  /// Brings to the disk under which name the data is about to lie. Of several such records the last one counts, and only where that
  /// very file has the name.
  private func recordIntent(
    _ intent: JournalRecord.Committing, _ files: SessionFiles, _ session: SessionID
  ) throws(StoreFailure) {
    let position = try files.journal.append(JournalRecord.committing(intent).bytes)
    try syncLock(of: session).withLock { () throws(StoreFailure) in
      try files.journal.sync(to: position)
      guard !openFiles.withLock({ $0.failed.contains(session) }) else {
        throw .io("fdatasync: failed meanwhile, the data must be read again")
      }
    }
    try reach(.intentRecorded)
  }

  private func goOn(with files: SessionFiles, _ id: SessionID) {
    fchmod(files.data.raw, 0o600)
    openFiles.withLock { $0.stamps[id] = DataStamp(files.data) }
  }

  private func finishData(_ file: FileDescriptor, _ publication: Publication) throws(StoreFailure) -> UInt64 {
    try file.truncate(to: publication.receipt.sizeBytes)
    try file.setAttributes(of: publication)
    let inode = try syncData(file)
    try reach(.dataSynced)
    return inode
  }

  /// Returns the file's inode when its content and attributes are on the disk.
  func syncData(_ file: FileDescriptor) throws(StoreFailure) -> UInt64 {
    try beforeSync(.data)
    try file.sync()
    return UInt64(try file.status().st_ino)
  }

  /// Publishes whole files from memory.
  public func publish(_ files: [WholeFilePublication]) -> [Result<PublicationResult, StoreFailure>] {
    var batch = WholeFileBatch(files, in: self)
    return batch.publish()
  }

  /// That files are gone from there is on the disk afterwards.
  func syncIncoming() throws(StoreFailure) {
    try beforeSync(.incomingFolder)
    try incoming.sync()
  }

  /// Forgets receipts that no client asks for any more.
  public func forgetReceipts(before: Milliseconds) {
    receipts.forget(before: before)
  }

  /// The bytes of all files under the credential's root.
  public func usedBytes(of credential: CredentialID) throws(StoreFailure) -> UInt64 {
    try tree(of: credential).usedBytes()
  }
}

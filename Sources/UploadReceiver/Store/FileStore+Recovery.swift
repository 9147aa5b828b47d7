public import ReceiverCore
import CLinux
import Glibc
import Lookup
import Synchronization

extension FileStore {
  /// Finds everything again after an end of any kind, and sweeps away what was never finished. Called once, before the
  /// first request.
  public func recover() throws(StoreFailure) -> RecoveredState {
    var state = RecoveredState()
    for name in try DirectoryListing.names(in: sessions) { recoverSession(name, into: &state) }
    try recoverWholeFiles(into: &state)
    return state
  }

  /// One that could not be read is neither there nor gone: it stays as it is until the next start.
  private func recoverSession(_ name: String, into state: inout RecoveredState) {
    do throws(StoreFailure) {
      switch try found(name) {
      case .stray: state.strays.append(name)
      case .neverBegun: remove(SessionID(name))
      case .open(let session): state.open.append(session)
      case .published(let facts, let receipt): state.published.append((facts, receipt))
      case .unreadable(let why): state.setAside.append((SessionID(name), why))
      }
    } catch {
      state.setAside.append((SessionID(name), error.words))
    }
  }

  /// What lies among the sessions under a name.
  private enum Found {
    /// Whatever an operator or a backup has put there: it is not the receiver's to delete, and nobody's upload.
    case stray
    /// A crash came before its first record, or what it had published was deleted or replaced: the client begins anew.
    case neverBegun
    case open((facts: SessionFacts, lastChange: Milliseconds, recordedChunks: LookupTable<UInt32, UInt32>))
    case published(SessionFacts, ReceiptFacts)
    case unreadable(String)
  }

  private func found(_ name: String) throws(StoreFailure) -> Found {
    guard try FileDescriptor.kind(of: name, in: sessions) == S_IFDIR,
      let directory = try FileDescriptor.openIfPresent(name, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    else { return .stray }
    switch try FileDescriptor.kind(of: "journal", in: directory) {
    case nil: return try isOnlyOurs(directory) ? .neverBegun : .stray
    case S_IFREG: break
    default: return .stray
    }
    let journal = try FileDescriptor.open("journal", in: directory, O_RDWR | O_APPEND | O_NOFOLLOW)
    let lastChange = try journal.status()
    var facts: SessionFacts?
    var committing: JournalRecord.Committing?
    var isPublished = false
    var chunks: LookupTable<UInt32, UInt32> = [:]
    for payload in try Journal.recover(journal) {
      switch JournalRecord(payload) {
      case .session(let found): facts = found
      case .committing(let found): committing = found
      case .published: isPublished = true
      case .chunk(let index, let chunk): chunks[index] = chunk.sizeBytes
      default: break
      }
    }
    guard let facts, facts.id == name else {
      // The first record is written before anything else; one that is torn was acknowledged to nobody.
      let isTorn = chunks.isEmpty && committing == nil && !isPublished && facts == nil
      let isWhole = try JournalFraming.isWhole(journal.readAll(limit: Journal.fileBytesMax))
      return isTorn && !isWhole ? .neverBegun : .unreadable("the record of its opening is damaged")
    }
    if isPublished, let committing { return .published(facts, committing.receipt) }
    if try FileDescriptor.statusIfPresent("data", in: directory) != nil {
      let milliseconds =
        Milliseconds(lastChange.st_mtim.tv_sec) * 1000 + Milliseconds(lastChange.st_mtim.tv_nsec) / 1_000_000
      return .open((facts, milliseconds, chunks))
    }
    // Someone deleted or replaced what may have been published: the client has to send it again.
    guard let committing, try isTarget(committing, of: facts) else { return .neverBegun }
    // The crash came between the rename and the journal.
    try Journal(appendingTo: journal).append(JournalRecord.published.bytes)
    return .published(facts, committing.receipt)
  }

  /// Nothing lies in it but what a session has.
  private func isOnlyOurs(_ directory: FileDescriptor) throws(StoreFailure) -> Bool {
    try DirectoryListing.names(in: directory).allSatisfy { $0 == "data" }
  }

  private func isTarget(_ committing: JournalRecord.Committing, of facts: SessionFacts) throws(StoreFailure) -> Bool {
    guard let tree = trees.withLock({ $0[facts.credentialID] }) else { return false }
    return try tree.holds(committing.receipt, inode: committing.inode)
  }

  private func recoverWholeFiles(into state: inout RecoveredState) throws(StoreFailure) {
    var intents: [String: JournalRecord.WholeFile] = [:]
    for record in try receipts.readEarlier() {
      switch record {
      case .wholeFile(let file): intents[file.receipt.id] = file
      case .wholeFilePublished(let finished):
        guard let file = intents.removeValue(forKey: finished.receiptID) else { break }
        state.wholeFiles.append((file.record, file.receipt))
      default: break
      }
    }
    let unfinished = Set(try DirectoryListing.names(in: incoming))
    for (id, file) in intents where !unfinished.contains(id) {
      // The crash came between the rename and the journal, or the target has changed since.
      guard let tree = trees.withLock({ $0[CredentialID(file.record.credential)] }),
        try tree.holds(file.receipt, inode: file.inode)
      else { continue }
      try receipts.record([.wholeFile(file), .wholeFilePublished(.init(receiptID: id))])
      state.wholeFiles.append((file.record, file.receipt))
    }
    for name in unfinished { unlinkat(incoming.raw, name, 0) }
    state.wholeFiles.sort { $0.receipt.publishedAt < $1.receipt.publishedAt }
  }
}

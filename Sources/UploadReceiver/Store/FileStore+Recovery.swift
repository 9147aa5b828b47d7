public import ReceiverCore
import CLinux
import Glibc
import Lookup

extension FileStore {
  /// Finds everything again after an end of any kind, and sweeps away what was never finished. Called once, before the
  /// first request.
  public func recover() throws(StoreFailure) -> RecoveredState {
    var state = RecoveredState()
    for name in try DirectoryListing.names(in: sessions) { try recoverSession(name, into: &state) }
    try recoverWholeFiles(into: &state)
    return state
  }

  private func recoverSession(_ name: String, into state: inout RecoveredState) throws(StoreFailure) {
    let id = SessionID(name)
    // Whatever an operator or a backup has put there: it is not the receiver's to delete, and nobody's upload.
    guard isOfKind(S_IFDIR, name, in: sessions),
      let directory = try FileDescriptor.openIfPresent(name, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
      isOfKind(S_IFREG, "journal", in: directory) || isOfKind(0, "journal", in: directory)
    else { return state.strays.append(name) }
    guard
      let journal = try FileDescriptor.openIfPresent("journal", in: directory, O_RDWR | O_APPEND | O_NOFOLLOW)
    else {
      remove(id)
      if isOfKind(S_IFDIR, name, in: sessions) { state.strays.append(name) }
      return
    }
    let lastChange = try journal.status().st_mtim
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
    guard let facts, facts.id == name else { return remove(id) }
    if isPublished, let committing {
      state.published.append((facts, committing.receipt))
      return
    }
    var data = stat()
    if fstatat(directory.raw, "data", &data, AT_SYMLINK_NOFOLLOW) == 0 {
      let milliseconds = Milliseconds(lastChange.tv_sec) * 1000 + Milliseconds(lastChange.tv_nsec) / 1_000_000
      state.open.append((facts, milliseconds, chunks))
    } else if let committing, try isTarget(committing, of: facts) {
      // The crash came between the rename and the journal.
      try Journal(appendingTo: journal).append(JournalRecord.published.bytes)
      state.published.append((facts, committing.receipt))
    } else {
      // Someone deleted or replaced what may have been published: the client has to send it again.
      remove(id)
    }
  }

  /// 0 is the kind of what is not there.
  private func isOfKind(_ kind: mode_t, _ name: String, in directory: FileDescriptor) -> Bool {
    var found = stat()
    guard fstatat(directory.raw, name, &found, AT_SYMLINK_NOFOLLOW) == 0 else { return kind == 0 }
    return found.st_mode & S_IFMT == kind
  }

  private func isTarget(_ committing: JournalRecord.Committing, of facts: SessionFacts) throws(StoreFailure) -> Bool {
    guard let tree = trees[facts.credentialID] else { return false }
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
      guard let tree = trees[CredentialID(file.record.credential)],
        try tree.holds(file.receipt, inode: file.inode)
      else { continue }
      try receipts.record([.wholeFile(file), .wholeFilePublished(.init(receiptID: id))])
      state.wholeFiles.append((file.record, file.receipt))
    }
    for name in unfinished { unlinkat(incoming.raw, name, 0) }
    state.wholeFiles.sort { $0.receipt.publishedAt < $1.receipt.publishedAt }
  }
}

public import ReceiverCore
import CLinux
import Glibc
import Synchronization

extension FileStore {
  /// Finds everything again after an end of any kind, and sweeps away what was never finished. Called once, before the
  /// first request.
  public func recover(receiptsMax: Int = CoreLimits().receiptsMax) throws(StoreFailure) -> RecoveredState {
    var state = RecoveredState()
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    let now = Milliseconds(time.tv_sec) * 1000 + Milliseconds(time.tv_nsec) / 1_000_000
    (state.pause, state.lastRun) = (max(0, now - lastRun), lastRun)
    pause.store(Int(state.pause), ordering: .relaxed)
    for name in try DirectoryListing.names(in: sessions) { recoverSession(name, into: &state) }
    try recoverWholeFiles(into: &state, countMax: receiptsMax)
    recoverSpools(into: &state)
    state.strayReceipts = receipts.strays.withLock { $0 }
    return state
  }

  /// Looks again at sessions that were set aside.
  public func recover(_ ids: [SessionID]) throws(StoreFailure) -> RecoveredState {
    try requireState()
    var state = RecoveredState()
    for id in ids {
      close(id)
      recoverSession(id.text, into: &state)
    }
    return state
  }

  /// One that could not be read is neither there nor gone: it stays as it is, and is checked again.
  private func recoverSession(_ name: String, into state: inout RecoveredState) {
    do throws(StoreFailure) {
      switch try found(name) {
      case .stray: state.strays.append(name)
      case .neverBegun: remove(SessionID(name))
      case .open(let session): state.open.append(session)
      case .published(let facts, let receipt, let mayHoldOnlyCopy):
        state.published.append((facts, receipt, mayHoldOnlyCopy))
      case .damaged(let why): state.quarantined.append(.init(id: SessionID(name), why: why, isDamaged: true))
      case .gone: break
      }
    } catch {
      let isDamaged = if case .damaged = error { true } else { false }
      state.quarantined.append(.init(id: SessionID(name), why: error.words, isDamaged: isDamaged))
    }
  }

  /// What lies among the sessions under a name.
  private enum Found {
    /// Whatever an operator or a backup has put there: it is not the receiver's to delete, and no upload.
    case stray
    /// A crash came before its first record, or what it had published was deleted or replaced: the client begins anew.
    case neverBegun
    case open(RecoveredSession)
    case published(SessionRecord, PublicationReceipt, mayHoldOnlyCopy: Bool)
    /// What it holds cannot be told; it is never removed for that.
    case damaged(String)
    case gone
  }

  private func found(_ name: String) throws(StoreFailure) -> Found {
    guard let kind = try FileDescriptor.kind(of: name, in: sessions) else { return .gone }
    guard kind == S_IFDIR,
      let directory = try FileDescriptor.openIfPresent(name, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    else { return .stray }
    switch try FileDescriptor.kind(of: "journal", in: directory) {
    case nil:
      if try holdsData(directory) {
        if try isUntold(directory), try isOnlyOurs(directory) { return .neverBegun }
        return .damaged("its journal is gone, and its data is there")
      }
      return try isOnlyOurs(directory) ? .neverBegun : .stray
    case S_IFREG: break
    default: return try holdsData(directory) ? .damaged("its journal is no file") : .stray
    }
    let journal = try FileDescriptor.openOwn("journal", in: directory, O_RDWR | O_APPEND)
    let lastChange = try journal.status()
    var facts: SessionRecord?
    var committing: JournalRecord.Committing?
    var isPublished = false
    var chunks = ChunkTable()
    var (saysReliance, mayHoldOnlyCopy) = (false, false)
    for payload in try Journal.recover(journal) {
      switch JournalRecord(payload) {
      case .session(let found): facts = found
      case .committing(let found): committing = found
      case .published: isPublished = true
      case .chunk(let index, let chunk): chunks.insert(chunk, at: index)
      case .zeros(let first, let last):
        chunks.insertZeros(first..<(last + 1), of: .zeros(facts?.opening.chunkBytes ?? 0))
      case .reliesWhenSaid: saysReliance = true
      case .reliedUpon: mayHoldOnlyCopy = true
      default: break
      }
    }
    guard let facts, facts.id == name else {
      let isTorn = chunks.isEmpty && committing == nil && !isPublished && facts == nil
      if try holdsData(directory) {
        // A power cut in its first second: nothing was said to be on the disk.
        if isTorn, try isUntold(directory), try isOnlyOurs(directory) { return .neverBegun }
        return .damaged("the record of its opening is missing or damaged")
      }
      // The first record is written before anything else; one that is torn was never acknowledged.
      let isWhole = try JournalFraming.isWhole(journal.readAll(limit: Journal.fileBytesMax))
      return isTorn && !isWhole ? .neverBegun : .damaged("the record of its opening is damaged")
    }
    if isPublished, let committing { return .published(facts, committing.receipt, mayHoldOnlyCopy: mayHoldOnlyCopy) }
    let saidReliedUpon = mayHoldOnlyCopy
    // The journal of an earlier version does not say it.
    mayHoldOnlyCopy = mayHoldOnlyCopy || (!saysReliance && !chunks.isEmpty)
    if let data = try FileDescriptor.statusIfPresent("data", in: directory) {
      if let kind = data.kindOfNoFile { return .damaged("its data is \(kind)") }
      // A removal was cut off when this had taken the place of what it contained (or a power cut came before that was said to be on the disk).
      if saysReliance, mayHoldOnlyCopy, !chunks.isEmpty, data.st_size == 0, data.isUntold { return .neverBegun }
      if let committing, UInt64(data.st_ino) == committing.inode, try isTarget(committing, of: facts) {
        // A power cut in the middle of the rename left both names (btrfs); the other one is the file's.
        let published = try finish(journal, facts, committing, mayHoldOnlyCopy: saidReliedUpon)
        // Where it stays, it goes with the session.
        unlinkat(directory.raw, "data", 0)
        return published
      }
      _ = try checkOwn(directory, facts.sessionID)
      let milliseconds = younger(journal, lastChange.modified)
      return .open(
        .init(facts: facts, lastChange: milliseconds, recordedChunks: chunks, mayHoldOnlyCopy: mayHoldOnlyCopy))
    }
    if let committing, try isTarget(committing, of: facts) {
      return try finish(journal, facts, committing, mayHoldOnlyCopy: saidReliedUpon)
    }
    // What its data was may be nowhere else, and can be put back to its journal.
    if mayHoldOnlyCopy, committing == nil { return .damaged("its data is gone, and a client relies upon it") }
    // What may have been published was deleted or replaced by hand: the client has to send it again.
    return .neverBegun
  }

  /// The crash came between the rename and the journal.
  private func finish(
    _ journal: FileDescriptor, _ facts: SessionRecord, _ committing: JournalRecord.Committing, mayHoldOnlyCopy: Bool
  ) throws(StoreFailure) -> Found {
    try Journal(appendingTo: journal).append(JournalRecord.published.bytes)
    return .published(facts, committing.receipt, mayHoldOnlyCopy: mayHoldOnlyCopy)
  }

  /// When a session was changed last, were there no time in which no receiver ran. It is left on the disk, for the next start.
  private func younger(_ journal: FileDescriptor, _ time: Milliseconds) -> Milliseconds {
    let pause = Milliseconds(pause.load(ordering: .relaxed))
    // What was changed since the last sign of life is no older than that.
    let shifted = max(time, min(time, lastRun) + pause)
    guard shifted - time > 60_000 else { return time }
    do throws(StoreFailure) {
      try journal.setModified(nanoseconds: shifted * 1_000_000)
    } catch {
      // It looks older at the next start than it is, by one pause.
    }
    return shifted
  }

  /// Whether there are bytes that a client may have given up.
  private func holdsData(_ directory: FileDescriptor) throws(StoreFailure) -> Bool {
    guard let data = try FileDescriptor.statusIfPresent("data", in: directory) else { return false }
    return data.st_mode & S_IFMT == S_IFREG && data.st_size > 0
  }

  /// No client was told that anything of it is on the disk: what there is of it its client has, too.
  private func isUntold(_ directory: FileDescriptor) throws(StoreFailure) -> Bool {
    try FileDescriptor.statusIfPresent("data", in: directory).map { $0.isUntold } ?? false
  }

  /// Nothing lies in it but what a session has.
  private func isOnlyOurs(_ directory: FileDescriptor) throws(StoreFailure) -> Bool {
    try DirectoryListing.names(in: directory).allSatisfy { $0 == "data" || $0 == "journal" }
  }

  private func isTarget(_ committing: JournalRecord.Committing, of facts: SessionRecord) throws(StoreFailure) -> Bool {
    guard let tree = trees.withLock({ $0[facts.credentialID] }) else { return false }
    return try tree.holds(committing.receipt, inode: committing.inode)
  }

  private func recoverWholeFiles(into state: inout RecoveredState, countMax: Int) throws(StoreFailure) {
    let earlier = try receipts.readEarlier(countMax: countMax)
    state.wholeFiles = earlier.published
    let unfinished = Set(try DirectoryListing.names(in: incoming))
    for file in earlier.begun {
      // The crash came between the rename and the journal, also where a power cut left both names; or the target has changed since.
      guard let tree = trees.withLock({ $0[CredentialID(file.record.credential)] }),
        try tree.holds(file.receipt, inode: file.inode)
      else { continue }
      try receipts.record([.wholeFile(file), .wholeFilePublished(.init(receiptID: file.receipt.id))])
      state.wholeFiles.append(RecoveredWholeFile(file.record, file.receipt))
    }
    for name in unfinished { unlinkat(incoming.raw, name, 0) }
    state.wholeFiles.sort { $0.publishedAt < $1.publishedAt }
  }
}

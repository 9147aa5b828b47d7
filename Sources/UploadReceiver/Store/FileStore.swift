public import Lookup
public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Synchronization

/// What stands between two steps of a publication; tests stop there to see what a crash leaves behind.
enum StoreStep: CaseIterable, Sendable {
  case dataSynced
  case intentRecorded
  case renamed
  case publishedRecorded
}

/// Uploads in plain files:
///
///     ROOT/.uploads/lock                     held while a receiver runs
///     ROOT/.uploads/sessions/ID/data         the file in the making, chunks in their places
///     ROOT/.uploads/sessions/ID/journal      the session, its chunks' digests, its receipt
///     ROOT/.uploads/incoming/RECEIPT         a whole file before its publication
///     ROOT/.uploads/receipts/N.journal       whole files and their receipts
///     ROOT/.uploads/spools                   the last start of each spool
///
/// Publication: data on the disk → the session's folder and its name on the disk → intent, with the receipt, in the
/// journal and on the disk → rename → every folder on the way to the target on the disk → done in the journal. Only then is
/// the receipt given. A crash between two of these is told from the others at the next start: by whether the data file is
/// still there, and whether the target is that very file.
///
/// Chunks are acknowledged when they are with the kernel, which a crash of this process does not touch, and are on the disk
/// about a second later (``syncWritten()``). After a power cut each chunk is believed only if its bytes are there.
public final class FileStore: UploadStore {
  /// A session's open files.
  private final class SessionFiles: Sendable {
    let directory: FileDescriptor
    let data: FileDescriptor
    let journal: Journal
    let identity: Identity
    /// Whether the folder and its name are known to be on the disk.
    let isRooted = Atomic(false)
    /// Whether the journal says that a client relies upon it.
    let isReliance = Atomic(false)

    /// Which files these are.
    struct Identity {
      var directory: UInt64
      var data: UInt64
      var journal: UInt64
    }

    init(
      directory: FileDescriptor, data: FileDescriptor, journal: FileDescriptor, beforeSync: @escaping BeforeSync
    ) throws(StoreFailure) {
      self.directory = directory
      self.data = data
      self.journal = Journal(
        appendingTo: journal, beforeSync: { () throws(StoreFailure) in try beforeSync(.sessionJournal) })
      identity = Identity(
        directory: UInt64(try directory.status().st_ino), data: UInt64(try data.status().st_ino),
        journal: UInt64(try journal.status().st_ino))
    }
  }

  private struct OpenFiles {
    var sessions: [SessionID: SessionFiles] = [:]
    var order: [SessionID] = []
    /// Written to since the last ``syncWritten()``. When there are too many, whoever writes to one more syncs it.
    var written: [SessionID: SessionFiles] = [:]
    /// A sync has failed: the kernel reports that once, and then shows bytes from memory that the disk does not have.
    var failed: Set<SessionID> = []
    /// Published under their names, which could not be brought to the disk.
    var renamed: [SessionID: Renamed] = [:]
    /// What the data of those looked like that this process has written to, after its last write; and how many writes run.
    var stamps: [SessionID: DataStamp] = [:]
    var writing: [SessionID: Int] = [:]
  }

  /// Several sessions may share one; whoever holds it takes no other.
  private final class SyncLock: Sendable {
    private let mutex = Mutex(())

    func withLock<Result: Sendable>(_ body: () throws(StoreFailure) -> Result) throws(StoreFailure) -> Result {
      try mutex.withLock { (_) throws(StoreFailure) in try body() }
    }
  }

  /// A publication that only goes forward.
  private struct Renamed {
    var receipt: ReceiptFacts
    var inode: UInt64
    var replacedBytes: UInt64
    var nameHolder: String?
    var takenFrom: String?
  }

  /// Of a session's data before it was said that anything of it is on the disk. The mode is as durable as the file, and outlives its
  /// journal; a receiver of an earlier version makes 0600 of it, which says less.
  static let untoldMode: mode_t = 0o1600

  let state: FileDescriptor
  let sessions: FileDescriptor
  let incoming: FileDescriptor
  private let lock: FileDescriptor
  /// Whose the sessions' folder is: an earlier receiver may have run as that user.
  private let owner: uid_t
  /// When a receiver ran here last, by the clock.
  let lastRun: Milliseconds
  /// How long no receiver ran before this one.
  let pause = Atomic(0)
  private let nextSign = Atomic(0)
  /// Reserving space in memory fills it, while the client waits.
  private let isInMemory: Bool
  let receipts: ReceiptJournal
  let trees: Mutex<[CredentialID: PublishedTree]>
  let names = PublishedNames()
  /// What is looked at before anything is taken, and how that was the last time that it was said.
  let stateFolders: [ConfiguredFolder]
  let knownPlaces = Mutex(KnownPlaces())
  private let openFiles = Mutex(OpenFiles())
  private let syncLocks = (0..<64).map { _ in SyncLock() }
  /// How many uploads' files are kept open; half as many others may wait for their sync.
  private let openSessionsMax: Int
  private let mayPass: @Sendable (StoreStep) -> Bool
  let beforeSync: BeforeSync
  /// What was remembered of spools could not be read, and stays as it is.
  let keepsSpools = Atomic(false)
  private let stopped = Atomic(false)

  /// Opens the state folder below `root`, and each credential's folder, making what is missing; fails when another
  /// receiver holds it.
  public convenience init(
    root: String, publishing roots: [CredentialID: String]
  ) throws(StoreOpeningError) {
    try self.init(
      root: root, publishing: roots, openSessionsMax: DescriptorShares(limit: DescriptorShares.limit).sessions,
      mayPass: { _ in true })
  }

  init(
    root: String, publishing roots: [CredentialID: String], openSessionsMax: Int = 256,
    mayPass: @escaping @Sendable (StoreStep) -> Bool, beforeSync: @escaping BeforeSync = { _ in }
  ) throws(StoreOpeningError) {
    self.openSessionsMax = openSessionsMax
    self.mayPass = mayPass
    self.beforeSync = beforeSync
    do throws(StoreFailure) {
      let directory = try FileStore.makeDirectories(root)
      state = try FileStore.makeDirectory(".uploads", in: directory, mode: 0o700)
      lock = try FileDescriptor.openOwn("lock", in: state, O_RDWR | O_CREAT, mode: 0o600)
    } catch .damaged(let words) {
      throw .root("\(root)/.uploads: \(words); take it away, nothing depends on it")
    } catch {
      throw .root("\(root): \(error.words)")
    }
    guard FileStore.take(lock) else { throw .locked(root) }
    do throws(StoreFailure) {
      lastRun = try lock.status().modified
      isInMemory = try state.isInMemory()
      sessions = try FileStore.makeDirectory("sessions", in: state, mode: 0o700)
      owner = try sessions.status().st_uid
      incoming = try FileStore.makeDirectory("incoming", in: state, mode: 0o700)
      let receiptFolder = try FileStore.makeDirectory("receipts", in: state, mode: 0o700)
      receipts = try ReceiptJournal(receiptFolder, beforeSync: beforeSync)
      let path = root.utf8.last == UInt8(ascii: "/") ? "\(root).uploads" : "\(root)/.uploads"
      stateFolders = [
        ConfiguredFolder(path: path, descriptor: state),
        ConfiguredFolder(path: "\(path)/sessions", descriptor: sessions),
        ConfiguredFolder(path: "\(path)/incoming", descriptor: incoming),
        ConfiguredFolder(path: "\(path)/receipts", descriptor: receiptFolder),
      ]
    } catch {
      throw .root("\(root)/.uploads: \(error.words)")
    }
    var trees: [CredentialID: PublishedTree] = [:]
    for (credential, path) in roots { trees[credential] = try FileStore.tree(path, beside: state, names, beforeSync) }
    self.trees = Mutex(trees)
  }

  /// A rename is atomic within one filesystem only, and what is published must not reach the state folder.
  static func tree(
    _ path: String, beside state: FileDescriptor, _ names: PublishedNames, _ beforeSync: @escaping BeforeSync
  ) throws(StoreOpeningError) -> PublishedTree {
    do throws(StoreFailure) {
      let root = try makeDirectories(path)
      try checkUsable(root, beside: state)
      return PublishedTree(
        ConfiguredFolder(path: path, descriptor: root), names: names, beforeSync: beforeSync)
    } catch {
      throw .credentialRoot("\(path): \(error.words)")
    }
  }

  private static func checkUsable(_ root: FileDescriptor, beside state: FileDescriptor) throws(StoreFailure) {
    let (rootStatus, stateStatus) = (try root.status(), try state.status())
    guard rootStatus.st_dev == stateStatus.st_dev else {
      throw StoreFailure.io(
        "is on another filesystem than the receiver's root; files could not be published atomically")
    }
    try checkSeparate(root, from: state)
  }

  /// The folder that stands in the place of one that was moved away or removed. Nothing is made: an empty place may be that of a
  /// filesystem that is to be mounted there.
  func renewed(_ tree: PublishedTree) throws(StoreFailure) -> PublishedTree {
    try requireState()
    let root = try FileDescriptor.open(tree.folder.path, O_RDONLY | O_DIRECTORY)
    try FileStore.checkUsable(root, beside: state)
    return PublishedTree(
      ConfiguredFolder(path: tree.folder.path, descriptor: root), names: names, beforeSync: beforeSync)
  }

  /// Climbs from the state folder up, and from the credential's root up: neither may meet the other.
  private static func checkSeparate(_ root: FileDescriptor, from state: FileDescriptor) throws(StoreFailure) {
    let rootStatus = try root.status()
    let stateStatus = try state.status()
    let isAbove = try isAncestor(rootStatus, of: state)
    let isBelow = try isAncestor(stateStatus, of: root)
    guard !isAbove, !isBelow else {
      throw StoreFailure.io("holds the receiver's own state; choose a folder of its own below it")
    }
  }

  private static func isAncestor(_ ancestor: stat, of directory: FileDescriptor) throws(StoreFailure) -> Bool {
    var current = directory
    while true {
      let status = try current.status()
      if status.st_ino == ancestor.st_ino, status.st_dev == ancestor.st_dev { return true }
      let parent = try FileDescriptor.open("..", in: current, O_RDONLY | O_DIRECTORY)
      let parentStatus = try parent.status()
      if parentStatus.st_ino == status.st_ino, parentStatus.st_dev == status.st_dev { return false }
      current = parent
    }
  }

  /// Makes what is missing of a path that the configuration names.
  private static func makeDirectories(_ path: String) throws(StoreFailure) -> FileDescriptor {
    var directory = try FileDescriptor.open(path.utf8.first == UInt8(ascii: "/") ? "/" : ".", O_RDONLY | O_DIRECTORY)
    for component in PublishedName.components(of: path) { directory = try makeDirectory(component, in: directory) }
    return directory
  }

  /// Takes the lock; a receiver that is ending holds it for a moment longer.
  private static func take(_ lock: FileDescriptor) -> Bool {
    for _ in 0..<20 {
      if flock(lock.raw, LOCK_EX | LOCK_NB) == 0 { return true }
      poll(nil, 0, 50)
    }
    return false
  }

  private static func makeDirectory(
    _ path: String, in parent: FileDescriptor? = nil, mode: mode_t = 0o755
  ) throws(StoreFailure) -> FileDescriptor {
    if mkdirat(parent?.raw ?? AT_FDCWD, path, mode) == 0 {
      try parent?.sync()
    } else if errno != EEXIST {
      throw .last("mkdir")
    }
    return try FileDescriptor.open(path, in: parent, O_RDONLY | O_DIRECTORY)
  }

  /// Tests stop here, as a crash would: nothing is tidied up behind it.
  func reach(_ step: StoreStep) throws(StoreFailure) {
    guard !mayPass(step) else { return }
    stopped.store(true, ordering: .relaxed)
    throw .io("stopped at \(step)")
  }

  var isStopped: Bool { stopped.load(ordering: .relaxed) }

  /// Leaves on the disk that a receiver runs, about once a minute: what has happened before ages from there on.
  public func signOfLife() {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    guard time.tv_sec >= nextSign.load(ordering: .relaxed) else { return }
    nextSign.store(time.tv_sec + 60, ordering: .relaxed)
    // Where the disk refuses it, things look younger than they are.
    futimens(lock.raw, nil)
  }

  /// What is free for ordinary users of the disk.
  public func freeBytes() throws(StoreFailure) -> UInt64 {
    var status = statvfs()
    guard fstatvfs(state.raw, &status) == 0 else { throw .last("fstatvfs") }
    return UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize)).partialValue
  }

  // MARK: Sessions

  /// Makes the session's files; a session that a crash leaves without its first record is removed at the next start.
  public func create(_ facts: SessionFacts) throws(StoreFailure) -> SpaceReservation {
    try requireState()
    guard mkdirat(sessions.raw, facts.id, 0o700) == 0 else { throw .last("mkdir") }
    let directory = try FileDescriptor.open(facts.id, in: sessions, O_RDONLY | O_DIRECTORY)
    let data = try FileDescriptor.open("data", in: directory, O_RDWR | O_CREAT | O_EXCL, mode: FileStore.untoldMode)
    let file = try FileDescriptor.open(
      "journal", in: directory, O_RDWR | O_APPEND | O_CREAT | O_EXCL, mode: 0o600)
    let reservation = isInMemory ? .none : try data.preallocate(facts.opening.sizeBytes ?? 0)
    let files = try SessionFiles(directory: directory, data: data, journal: file, beforeSync: beforeSync)
    _ = try files.journal.append([JournalRecord.session(facts).bytes, JournalRecord.reliesWhenSaid.bytes])
    keepOpen(files, for: facts.sessionID)
    try noteWritten(files, facts.sessionID)
    return reservation
  }

  private func keepOpen(_ files: SessionFiles, for id: SessionID) {
    openFiles.withLock { open in
      if open.sessions.updateValue(files, forKey: id) == nil { open.order.append(id) }
      // Whoever uses the oldest one's files keeps them alive until done.
      while open.order.count > openSessionsMax { open.sessions[open.order.removeFirst()] = nil }
    }
  }

  func close(_ id: SessionID) {
    openFiles.withLock { open in
      open.sessions[id] = nil
      open.written[id] = nil
      open.order.removeAll { $0 == id }
    }
  }

  private func files(of id: SessionID) throws(StoreFailure) -> SessionFiles {
    if let files = openFiles.withLock({ $0.sessions[id] }) { return files }
    guard
      let directory = try FileDescriptor.openIfPresent(id.text, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    else { throw try gone(id) }
    if try checkOwn(directory, id) == nil {
      // Taken away: nothing of what was there is held.
      openFiles.withLock { _ = $0.failed.insert(id) }
    } else if let data = try FileDescriptor.statusIfPresent("data", in: directory), data.st_mode & 0o7777 != 0o600,
      !data.isUntold
    {
      // A publication that did not come to its end may have left the mode of the published file. Where that cannot be taken back the
      // open below fails.
      _ = fchmodat(directory.raw, "data", 0o600, 0)
    }
    let files = try SessionFiles(
      directory: directory, data: try FileDescriptor.openOwn("data", in: directory, O_RDWR | O_CREAT, mode: 0o600),
      journal: try FileDescriptor.openOwn("journal", in: directory, O_RDWR | O_APPEND), beforeSync: beforeSync)
    keepOpen(files, for: id)
    return files
  }

  /// The session's folder is not there, and the folder of all sessions is.
  private func gone(_ id: SessionID) throws(StoreFailure) -> StoreFailure {
    try requireState()
    return .sessionGone("the folder of the upload session \(id.text) is gone")
  }

  /// Fails where a session's folder holds something else than what the receiver has put there, through which it must neither write
  /// nor publish; the inodes of its data and of its journal, nil where there is no data.
  func checkOwn(
    _ directory: FileDescriptor, _ id: SessionID
  ) throws(StoreFailure) -> (data: UInt64, journal: UInt64)? {
    guard let journal = try ownFile("journal", in: directory, id) else {
      throw .damaged("the upload session \(id.text) has no journal")
    }
    return try ownFile("data", in: directory, id).map { ($0, journal) }
  }

  private func ownFile(
    _ name: String, in directory: FileDescriptor, _ id: SessionID
  ) throws(StoreFailure) -> UInt64? {
    guard let found = try FileDescriptor.statusIfPresent(name, in: directory) else { return nil }
    if let kind = found.kindOfNoFile { throw .damaged("\(name) of the upload session \(id.text) is \(kind)") }
    if let words = found.othersWords(owner: owner) { throw .io("\(name) of the upload session \(id.text) \(words)") }
    return UInt64(found.st_ino)
  }

  /// The session's files, which are still those that lie in its folder. Of data that was taken away or exchanged nothing is believed
  /// before it has been read.
  private func ownFiles(of id: SessionID) throws(StoreFailure) -> SessionFiles {
    let files = try files(of: id)
    guard let folder = try FileDescriptor.statusIfPresent(id.text, in: sessions) else {
      close(id)
      throw try gone(id)
    }
    guard UInt64(folder.st_ino) == files.identity.directory else {
      close(id)
      throw .damaged("another folder is in the place of that of the upload session \(id.text)")
    }
    let found: (data: UInt64, journal: UInt64)?
    do throws(StoreFailure) {
      found = try checkOwn(files.directory, id)
    } catch {
      close(id)
      throw error
    }
    if let found, found.data == files.identity.data, found.journal == files.identity.journal { return files }
    close(id)
    openFiles.withLock { open in
      open.failed.insert(id)
      open.stamps[id] = nil
    }
    throw .io("another program has taken away or exchanged files of the upload session \(id.text)")
  }

  /// Data first, then the record: a record never tells of bytes that were not written.
  public func write(
    _ body: any BodyBytes, to session: SessionID, index: UInt32, offset: UInt64, facts: ChunkFacts
  ) throws(StoreFailure) {
    try requireState()
    let files = try ownFiles(of: session)
    beginWriting(files, session)
    let written = Result { () throws(StoreFailure) in try FileStore.write(body, to: files.data, at: offset) }
    endWriting(files, session)
    try written.get()
    try files.journal.append(JournalRecord.chunk(index: index, facts).bytes)
    try noteWritten(files, session)
  }

  /// Likewise: the holes first.
  public func writeZeros(
    to session: SessionID, _ chunks: IndexRanges, chunkBytes: UInt64
  ) throws(StoreFailure) {
    try requireState()
    let files = try ownFiles(of: session)
    beginWriting(files, session)
    let written = Result { () throws(StoreFailure) in
      try files.data.makeZeros(
        chunks.ranges.map { UInt64($0.lowerBound) * chunkBytes..<UInt64($0.upperBound) * chunkBytes })
    }
    endWriting(files, session)
    try written.get()
    _ = try files.journal.append(
      chunks.ranges.map { JournalRecord.zeros(first: $0.lowerBound, last: $0.upperBound - 1).bytes })
    try noteWritten(files, session)
  }

  /// Likewise, or those that are in their place by now.
  private func presentFiles(of id: SessionID) throws(StoreFailure) -> SessionFiles {
    do throws(StoreFailure) { return try ownFiles(of: id) } catch .io { return try ownFiles(of: id) }
  }

  /// Another program has changed the data since this one wrote to it last: it is read again before it is published.
  private func beginWriting(_ files: SessionFiles, _ id: SessionID) {
    openFiles.withLock { open in
      FileStore.compare(files, id, &open)
      open.writing[id, default: 0] += 1
    }
  }

  /// While this process writes there is nothing to compare with.
  private static func compare(_ files: SessionFiles, _ id: SessionID, _ open: inout OpenFiles) {
    guard open.writing[id] == nil, let known = open.stamps[id] else { return }
    if DataStamp(files.data) != known { open.failed.insert(id) }
  }

  /// While others write there is nothing to compare with. Under the lock, so that no stamp is older than the last write.
  private func endWriting(_ files: SessionFiles, _ id: SessionID) {
    openFiles.withLock { open in
      let running = open.writing[id, default: 1] - 1
      open.writing[id] = running > 0 ? running : nil
      if running == 0 { open.stamps[id] = DataStamp(files.data) }
    }
  }

  /// Reads the data again where another program has changed it, or may have.
  private func requireOwnContent(
    _ files: SessionFiles, _ id: SessionID, sizeBytes: UInt64
  ) throws(StoreFailure) {
    let isKnown = openFiles.withLock { open in open.stamps[id].map { $0 == DataStamp(files.data) } ?? false }
    guard !isKnown else { return }
    let (recorded, facts) = try recordedChunks(files)
    let chunkBytes = UInt64(clamping: facts?.opening.chunkBytes ?? 0)
    let held = try verify(files, id)
    let isPublished = { (index: UInt32) in
      let start = UInt64(index).multipliedReportingOverflow(by: chunkBytes)
      return !start.overflow && start.partialValue < sizeBytes
    }
    guard !recorded.keys.contains(where: { held[$0] == nil && isPublished($0) }) else {
      openFiles.withLock { _ = $0.failed.insert(id) }
      throw .io("another program has changed the data of the upload session \(id.text)")
    }
  }

  static func write(
    _ body: any BodyBytes, to file: FileDescriptor, at offset: UInt64
  ) throws(StoreFailure) {
    var position = offset
    try body.forEachPiece { (piece) throws(StoreFailure) in
      try file.write(piece, at: position)
      position &+= UInt64(piece.count)
    }
  }

  /// Hashes what the journal tells of. The journal is not synced with the data, so after a power cut either may be
  /// missing; only what matches counts.
  public func verify(_ session: SessionID) throws(StoreFailure) -> ChunkTable {
    let files = try presentFiles(of: session)
    if let held = try takeBase(files, session) { return held }
    return try verify(files, session)
  }

  private func verify(_ files: SessionFiles, _ session: SessionID) throws(StoreFailure) -> ChunkTable {
    let stamp = DataStamp(files.data)
    try syncLock(of: session).withLock { () throws(StoreFailure) in
      // What memory holds may be lost on the disk, and who was told of it may have been an earlier process: only what is read from
      // the disk counts. What is not written back stays in memory.
      try files.data.syncData()
      files.data.dropCache()
      try files.journal.rereadFromDisk()
      openFiles.withLock { _ = $0.failed.remove(session) }
    }
    let (chunks, facts) = try recordedChunks(files)
    let chunkBytes = UInt64(clamping: facts?.opening.chunkBytes ?? 0)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { buffer.deallocate() }
    var held = ChunkTable()
    for (index, chunk) in chunks.written.sorted() {
      let start = UInt64(index).multipliedReportingOverflow(by: chunkBytes)
      guard !start.overflow else { continue }
      if try FileStore.isPresent(chunk, at: start.partialValue, in: files.data, buffer) {
        held.insert(chunk, at: index)
      }
    }
    let zero = ChunkFacts.zeros(Int(clamping: chunkBytes))
    for range in chunks.zeros.ranges {
      for zeros in try FileStore.presentZeros(zero, range, in: files.data, buffer) { held.insertZeros(zeros, of: zero) }
    }
    // As it was before the first byte was read: what changes it meanwhile shows.
    openFiles.withLock { open in if open.writing[session] == nil { open.stamps[session] = stamp } }
    return held
  }

  /// What the journal tells of.
  private func recordedChunks(
    _ files: SessionFiles
  ) throws(StoreFailure) -> (chunks: ChunkTable, facts: SessionFacts?) {
    var chunks = ChunkTable()
    var opened: SessionFacts?
    let journal = try FileDescriptor.openOwn("journal", in: files.directory, O_RDWR)
    for payload in try Journal.recover(journal) {
      switch JournalRecord(payload) {
      case .session(let facts): opened = facts
      case .chunk(let index, let chunk): chunks.insert(chunk, at: index)
      case .zeros(let first, let last):
        chunks.insertZeros(first..<(last + 1), of: .zeros(opened?.opening.chunkBytes ?? 0))
      default: break
      }
    }
    return (chunks, opened)
  }

  private static let recordsAtOnceMax = 1000

  /// Begins a session that holds nothing yet with what is published of its file; nil where it does not.
  private func takeBase(_ files: SessionFiles, _ session: SessionID) throws(StoreFailure) -> ChunkTable? {
    let (recorded, facts) = try recordedChunks(files)
    guard let facts, facts.opening.takesBase == true, recorded.isEmpty else { return nil }
    beginWriting(files, session)
    let copied = Result { () throws(StoreFailure) in try copyBase(of: facts, into: files.data) }
    endWriting(files, session)
    // What it begins with is a help: what cannot be had of it is sent.
    guard case .success(let held) = copied, !held.isEmpty else { return nil }
    // A file may have a hundred thousand chunks.
    var records: [[UInt8]] = []
    for (index, chunk) in held.written.sorted() {
      records.append(JournalRecord.chunk(index: index, chunk).bytes)
      guard records.count == FileStore.recordsAtOnceMax else { continue }
      _ = try files.journal.append(records)
      records.removeAll(keepingCapacity: true)
    }
    _ = try files.journal.append(records)
    try noteWritten(files, session)
    return held
  }

  /// Of chunks that are recorded as zeros, those that are. What is a hole is not read.
  private static func presentZeros(
    _ zero: ChunkFacts, _ chunks: Range<UInt32>, in file: FileDescriptor, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(StoreFailure) -> [Range<UInt32>] {
    let chunkBytes = UInt64(zero.sizeBytes)
    let fileBytes = UInt64(clamping: try file.status().st_size)
    guard chunkBytes > 0 else { return [] }
    var present: [Range<UInt32>] = []
    var index = chunks.lowerBound
    while index < chunks.upperBound, (UInt64(index) + 1) * chunkBytes <= fileBytes {
      let data = file.firstData(from: UInt64(index) * chunkBytes) ?? fileBytes
      let end = max(index, min(chunks.upperBound, UInt32(clamping: min(data, fileBytes) / chunkBytes)))
      if end > index {
        present.append(index..<end)
        index = end
      } else {
        if try isPresent(zero, at: UInt64(index) * chunkBytes, in: file, buffer) { present.append(index..<(index + 1)) }
        index += 1
      }
    }
    return present
  }

  private static func isPresent(
    _ chunk: ChunkFacts, at start: UInt64, in file: FileDescriptor, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(StoreFailure) -> Bool {
    var hasher = ChunkHasher(blockBytes: 128 << 10)
    var done: UInt64 = 0
    while done < UInt64(chunk.sizeBytes) {
      let count = Int(min(UInt64(buffer.count), UInt64(chunk.sizeBytes) - done))
      let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
      guard try file.read(into: piece, at: start &+ done) == count else { return false }
      hasher.update(UnsafeRawBufferPointer(piece))
      done += UInt64(count)
    }
    let digests = hasher.finalize()
    return Digest32(digests.sha256) == chunk.sha256 && digests.crc32c == chunk.crc32c
  }

  /// What is left of a session that is removed when the receiver is killed after each step, a start sweeps away, or finds as it was: never
  /// data without a journal that a client may rely upon, nor a journal that says so without its data.
  enum Removal: CaseIterable {
    case reliance, journal, data, folder
  }

  /// Deletes what there is of a session.
  public func remove(_ session: SessionID) { remove(session, Removal.allCases) }

  func remove(_ session: SessionID, _ steps: [Removal]) {
    close(session)
    openFiles.withLock { open in
      open.failed.remove(session)
      open.renamed[session] = nil
      open.stamps[session] = nil
    }
    do throws(StoreFailure) {
      let directory = try FileDescriptor.open(session.text, in: sessions, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      for step in steps { try perform(step, in: directory, of: session) }
    } catch {
      // What is left of it is found again at the next start, and expires.
    }
  }

  private func perform(
    _ step: Removal, in directory: FileDescriptor, of session: SessionID
  ) throws(StoreFailure) {
    switch step {
    case .reliance:
      guard let data = try FileDescriptor.statusIfPresent("data", in: directory) else { return }
      guard data.st_mode & S_IFMT == S_IFREG else { return try Self.delete("data", in: directory) }
      // Under its other name it may be published, and keeps its mode.
      guard data.st_nlink == 1 else { return try replaceData(in: directory, of: session) }
      guard fchmodat(directory.raw, "data", FileStore.untoldMode, 0) == 0 else { throw .last("fchmodat") }
    // A folder in its place is not the receiver's.
    case .journal: try Self.delete("journal", in: directory, or: EISDIR)
    case .data: try Self.delete("data", in: directory)
    // Fails as long as anything is left in it.
    case .folder: unlinkat(sessions.raw, session.text, AT_REMOVEDIR)
    }
  }

  /// By an empty file that says of nothing that it is on the disk. At no moment is there none: a journal that a client relies upon would say
  /// that it was taken away.
  private func replaceData(in directory: FileDescriptor, of session: SessionID) throws(StoreFailure) {
    try Self.delete(session.text, in: incoming)
    _ = try FileDescriptor.open(
      session.text, in: incoming, O_WRONLY | O_CREAT | O_EXCL, mode: FileStore.untoldMode)
    guard renameat(incoming.raw, session.text, directory.raw, "data") == 0 else { throw .last("rename") }
  }

  private static func delete(
    _ name: String, in directory: FileDescriptor, or tolerated: Int32 = ENOENT
  ) throws(StoreFailure) {
    guard unlinkat(directory.raw, name, 0) == 0 || [ENOENT, tolerated].contains(errno) else { throw .last("unlinkat") }
  }

  // MARK: Durability of what is not published

  private func noteWritten(_ files: SessionFiles, _ id: SessionID) throws(StoreFailure) {
    let isNoted = openFiles.withLock { open in
      if open.written[id] == nil, open.written.count >= openSessionsMax / 2 { return false }
      open.written[id] = files
      return true
    }
    if !isNoted { try sync(files, id) }
  }

  /// Brings to the disk what was written before the call. A failure is remembered by the session that it befell, which is
  /// then not published before its bytes were read from the disk again.
  public func syncWritten() throws(StoreFailure) {
    let written = openFiles.withLock { open in
      defer { open.written = [:] }
      return open.written
    }
    var failure: StoreFailure?
    for (id, files) in written {
      do throws(StoreFailure) { try sync(files, id) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  /// Whatever ``syncWritten()`` is doing meanwhile, this returns only when the disk has it.
  public func secure(_ session: SessionID) throws(StoreFailure) {
    try requireState()
    let files = try ownFiles(of: session)
    let isUntold = try files.data.status().isUntold
    try openFiles.withLock { (open) throws(StoreFailure) in
      FileStore.compare(files, session, &open)
      if isUntold { try FileStore.setTold(files, session, &open) }
    }
    // Before the sync that brings it to the disk: from the answer on its client may give up its own copy.
    if !files.isReliance.load(ordering: .acquiring) {
      try files.journal.append(JournalRecord.reliedUpon.bytes)
      files.isReliance.store(true, ordering: .releasing)
    }
    try sync(files, session, withMode: isUntold)
    if openFiles.withLock({ $0.failed.contains(session) }) { throw .io("an earlier write did not reach the disk") }
  }

  /// From the next sync on a session without a journal is a damaged one.
  private static func setTold(
    _ files: SessionFiles, _ id: SessionID, _ open: inout OpenFiles
  ) throws(StoreFailure) {
    guard fchmod(files.data.raw, 0o600) == 0 else { throw StoreFailure.last("fchmod") }
    if open.writing[id] == nil, open.stamps[id] != nil { open.stamps[id] = DataStamp(files.data) }
  }

  private func sync(_ files: SessionFiles, _ id: SessionID, withMode: Bool = false) throws(StoreFailure) {
    try syncLock(of: id).withLock { () throws(StoreFailure) in
      do throws(StoreFailure) {
        try beforeSync(.data)
        if withMode { try files.data.sync() } else { try files.data.syncData() }
        try files.journal.sync()
        try root(files)
      } catch {
        openFiles.withLock { _ = $0.failed.insert(id) }
        throw error
      }
    }
  }

  /// One sync of a session at a time. The kernel tells a failure once for each descriptor: of two that sync the same bytes, one
  /// would hear of it, and the other one publish them before the first has said so.
  private func syncLock(of id: SessionID) -> SyncLock {
    syncLocks[id.text.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xffff } % syncLocks.count]
  }

  /// Brings the session's folder and its name to the disk, once.
  private func root(_ files: SessionFiles) throws(StoreFailure) {
    guard !files.isRooted.load(ordering: .acquiring) else { return }
    try beforeSync(.sessionFolder)
    try files.directory.sync()
    try beforeSync(.sessionsFolder)
    try sessions.sync()
    files.isRooted.store(true, ordering: .releasing)
  }

  // MARK: Publication

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
        // Without this record the next start looks at the target, and the journal may stay as long as it is; a full disk must not undo a
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
    var isReliedUpon = false
    let kept = try Journal.recover(journal).filter { payload in
      switch JournalRecord(payload) {
      case .chunk, .zeros: return false
      case .reliedUpon:
        isReliedUpon = true
        return true
      default: return true
      }
    }
    guard isReliedUpon else { return }
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

  /// Forgets receipts that nobody asks for any more.
  public func forgetReceipts(before: Milliseconds) {
    receipts.forget(before: before)
  }

  /// The bytes of all files under the credential's root.
  public func usedBytes(of credential: CredentialID) throws(StoreFailure) -> UInt64 {
    try tree(of: credential).usedBytes()
  }
}

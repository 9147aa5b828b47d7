import Lookup
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
///     ROOT/.uploads/format                   how all of it is written, where that is a later format than the first one
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
  final class SessionFiles: Sendable {
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

  struct OpenFiles {
    var sessions: [SessionID: SessionFiles] = [:]
    var order: [SessionID] = []
    /// Written to since the last ``syncWritten()``. When there are too many, the writer of one more syncs it.
    var written: [SessionID: SessionFiles] = [:]
    /// A sync has failed: the kernel reports that once, and then shows bytes from memory that the disk does not have.
    var failed: Set<SessionID> = []
    /// Published under their names, which could not be brought to the disk.
    var renamed: [SessionID: Renamed] = [:]
    /// What the data of those looked like that this process has written to, after its last write; and how many writes run.
    var stamps: [SessionID: DataStamp] = [:]
    var writing: [SessionID: Int] = [:]
  }

  /// Several sessions may share one; its holder takes no other.
  final class SyncLock: Sendable {
    private let mutex = Mutex(())

    func withLock<Result: Sendable>(_ body: () throws(StoreFailure) -> Result) throws(StoreFailure) -> Result {
      try mutex.withLock { (_) throws(StoreFailure) in try body() }
    }
  }

  /// A publication that only goes forward.
  struct Renamed {
    var receipt: PublicationReceipt
    var inode: UInt64
    var replacedBytes: UInt64
    var nameHolder: String?
    var takenFrom: String?
  }

  /// Of a session's data before it was said that anything of it is on the disk. The mode is as durable as the file, and outlives its
  /// journal; a receiver of an earlier version makes 0600 of it, which says less.
  static let untoldMode: mode_t = 0o1600

  /// How the state is written. A version whose records an earlier one would misread has a higher number here, and leaves it in `format`
  /// before it writes the first of them; without that file it is this one.
  static let format: UInt32 = 1

  /// That of the state, and of the key of `--development`.
  private let root: FileDescriptor
  let state: FileDescriptor
  let sessions: FileDescriptor
  let incoming: FileDescriptor
  let lock: FileDescriptor
  /// Whose the sessions' folder is: an earlier receiver may have run as that user.
  let owner: uid_t
  /// When a receiver ran here last, by the clock.
  let lastRun: Milliseconds
  /// How long no receiver ran before this one.
  let pause = Atomic(0)
  private let nextSign = Atomic(0)
  /// Reserving space in memory fills it, while the client waits.
  let isInMemory: Bool
  let receipts: ReceiptJournal
  let trees: Mutex<[CredentialID: PublishedTree]>
  let names = PublishedNames()
  /// What is checked before anything is taken, and how that was the last time that it was said.
  let stateFolders: [ConfiguredFolder]
  let knownPlaces = Mutex(KnownLocations())
  let openFiles = Mutex(OpenFiles())
  let syncLocks = (0..<64).map { _ in SyncLock() }
  /// How many uploads' files are kept open; half as many others may wait for their sync.
  let openSessionsMax: Int
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
      self.root = try FileStore.makeDirectories(root)
      state = try FileStore.makeDirectory(".uploads", in: self.root, mode: 0o700)
      lock = try FileDescriptor.openOwn("lock", in: state, O_RDWR | O_CREAT, mode: 0o600)
    } catch .damaged(let words) {
      throw .root("\(root)/.uploads: \(words); take it away, nothing depends on it")
    } catch {
      throw .root("\(root): \(error.words)")
    }
    guard FileStore.take(lock) else { throw .locked(root) }
    do throws(StoreFailure) {
      try FileStore.refuseNewerFormat(in: state)
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
    let own = OwnFolders(root: self.root, state: state)
    for (credential, path) in roots { trees[credential] = try FileStore.tree(path, beside: own, names, beforeSync) }
    self.trees = Mutex(trees)
  }

  /// The folders of the receiver itself, which nothing is published in.
  struct OwnFolders {
    var root: FileDescriptor
    var state: FileDescriptor
  }

  var ownFolders: OwnFolders { OwnFolders(root: root, state: state) }

  private static func refuseNewerFormat(in state: FileDescriptor) throws(StoreFailure) {
    guard try FileDescriptor.kind(of: "format", in: state) != nil else { return }
    let bytes = try FileDescriptor.openOwn("format", in: state, O_RDONLY).readAll(limit: 64)
    let line = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    let found = DecimalText.unsigned(line, as: UInt32.self)
    if let found, found <= format { return }
    let shown = found.map { String($0) } ?? "?"
    throw .io("a newer version has written it, in format \(shown), and this one knows \(format): use that version")
  }

  /// A rename is atomic within one filesystem only, and what is published must not reach the receiver's own folders.
  static func tree(
    _ path: String, beside own: OwnFolders, _ names: PublishedNames, _ beforeSync: @escaping BeforeSync
  ) throws(StoreOpeningError) -> PublishedTree {
    do throws(StoreFailure) {
      let root = try makeDirectories(path)
      try checkUsable(root, beside: own)
      return PublishedTree(
        ConfiguredFolder(path: path, descriptor: root), names: names, beforeSync: beforeSync)
    } catch {
      throw .credentialRoot("\(path): \(error.words)")
    }
  }

  private static func checkUsable(_ root: FileDescriptor, beside own: OwnFolders) throws(StoreFailure) {
    let (rootStatus, stateStatus) = (try root.status(), try own.state.status())
    guard rootStatus.st_dev == stateStatus.st_dev else {
      throw StoreFailure.io(
        "is on another filesystem than the receiver's root; files could not be published atomically")
    }
    guard try !meets(root, own.state) else {
      throw StoreFailure.io("holds the receiver's own state; choose a folder of its own below it")
    }
    guard let development = try developmentFolder(in: own.root), try meets(root, development) else { return }
    throw StoreFailure.io(
      "is \(DevelopmentSetup.folderName), which holds the receiver's own key, or lies within it or around it; choose another folder"
    )
  }

  /// The folder that stands in the place of one that was moved away or removed. Nothing is made: an empty place may be that of a
  /// filesystem that is to be mounted there.
  func renewed(_ tree: PublishedTree) throws(StoreFailure) -> PublishedTree {
    try requireState()
    let root = try FileDescriptor.open(tree.folder.path, O_RDONLY | O_DIRECTORY)
    try FileStore.checkUsable(root, beside: ownFolders)
    return PublishedTree(
      ConfiguredFolder(path: tree.folder.path, descriptor: root), names: names, beforeSync: beforeSync)
  }

  /// The folder of the receiver's own key, wherever a link in its place leads. Nil where there is none, or one that this process may not
  /// open: then it can publish nothing in it either.
  private static func developmentFolder(in root: FileDescriptor) throws(StoreFailure) -> FileDescriptor? {
    do throws(StoreFailure) {
      return try FileDescriptor.openIfPresent(DevelopmentSetup.folderName, in: root, O_RDONLY | O_DIRECTORY)
    } catch {
      guard [ENOTDIR, ELOOP, EACCES].contains(errno) else { throw error }
      return nil
    }
  }

  /// Climbs from both: whether one is the other, or lies within it, whatever paths led to them.
  private static func meets(_ folder: FileDescriptor, _ other: FileDescriptor) throws(StoreFailure) -> Bool {
    if try isAncestor(try folder.status(), of: other) { return true }
    return try isAncestor(try other.status(), of: folder)
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
}

import CLinux
public import FileModel
import Glibc
import Synchronization

/// A directory of plain files that tells what happens to them.
///
/// Behaves as a local directory: every operation is carried out on the spool at once, on the caller's thread. It knows
/// inodes, names, writers and epochs, and nothing of FUSE (see ``FuseMount``) or of uploads (see ``FileEventSink``).
///
/// Lock order: a file's `order`, the namespace lock, a file's `state`, the node table. None is held while waiting for
/// anything but the local disk, and the sink is called under a file's `order` only.
public final class Filesystem: Sendable, FileContents {
  // MARK: What never changes, and whom it speaks to

  let configuration: FilesystemConfiguration
  /// Called under a file's `order` at most.
  let sink: any FileEventSink
  /// Rules say more than when a file is sent, so that they are looked up when it is opened, closed or synchronised.
  let looksUpRules: Bool
  let isPrivileged: Bool

  // MARK: The spool

  /// Where the captures lie; behind locks of its own.
  let spool: Spool
  /// `captures/` of the spool.
  var root: FileDescriptor { spool.captures }
  var stamp: SpoolStamp { spool.history.stamp }
  var instance: SpoolInstance { spool.instance }
  /// Until when the spool's filesystem keeps what its disk has not got yet; nil where that cannot be told.
  public var instanceName: String? { instance.name }

  // MARK: Marks

  /// Where marks stand, and the labels that files have; behind a lock of its own.
  let marks: MarkStore
  /// The spool's filesystem keeps marks on files, so that one that was being written when the mount ended is known after
  /// a restart. Without, all marks stand in the spool's record.
  public var marksWriters: Bool { marks.areOnFiles }

  // MARK: Names and handles

  /// Held shared while a path is used, alone while names change.
  let namespaceLock = ReadWriteLock()
  /// Taken below a file's `state`.
  let nodes: Mutex<Namespace>
  /// Its lock is an innermost one.
  let handles = Mutex(HandleTable<OpenHandle>())
  /// Directories and files that moved while the scan was walking; nil when no scan runs. Its lock is an innermost one.
  let movedDuringScan = Mutex<[NodeID]?>(nil)
  /// What the mount shows beside the captures; behind locks of its own.
  let virtual: VirtualFiles
  /// What open folders show; behind a lock of its own.
  let listingCopies = ListingCopies()

  // MARK: Writing

  /// Admits what is written, and makes room for it; behind locks of its own, of which one is taken before any of a file.
  let space: SpoolSpace
  let chunkRelease: ChunkRelease
  /// Writable handles, counted without a lock.
  let openWriters = OpenWriters()
  /// Handles that pass the daemon; behind locks of its own.
  let passthrough: PassthroughStanding
  /// How many captures may be open, and how many files to ask the disk through; counted without a lock.
  let openCaptures: OpenCaptures
  let keptDescriptors = KeptDescriptors()

  // MARK: The disk

  /// Files that were closed. Its lock is an innermost one, as that of each queue.
  let flushes = FlushQueue()
  /// Files that are open and have changed.
  let growing = FlushQueue()
  /// What the kernel is to be told.
  let notices = NoticeQueue()
  /// What the disk has refused of an open file since this was last asked through it.
  let writeBackErrors: WriteBackErrors
  /// The spool's filesystem says what it has in memory.
  let knowsMemory = Atomic<Bool>(true)
  /// Asks a disk that may hang, on a thread of its own.
  let inquiry = DiskInquiry()

  /// The node table and the identities that are still to be given out.
  struct Namespace {
    var table: NodeTable
    var knownIdentities: SpoolIdentities
    let device: UInt64

    /// The identity that an earlier run gave to this file, or a new one. Each is given out once: a file that later gets
    /// the same inode number is another file.
    mutating func identity(of key: SpoolKey, _ claim: Filesystem.Claim) -> FileID {
      let known = key.device == device ? knownIdentities.take(key.inode) : nil
      guard let id = (claim.usesInode ? known : nil) ?? claim.id, table.node(of: id) == nil else { return .new() }
      return id
    }
  }

  /// Opens the spool, making what is missing of it.
  public convenience init(
    configuration: FilesystemConfiguration, sink: any FileEventSink, virtualTree: any VirtualTree
  ) throws(MountError) {
    try self.init(
      configuration: configuration, sink: sink, virtualTree: virtualTree, spaceSource: nil, instance: nil)
  }

  typealias WriteBackErrors = @Sendable (FileDescriptor) -> SystemError?

  /// Tests replace what the system says:
  ///
  /// - Parameters:
  ///   - spaceSource: statvfs(2) of the spool.
  ///   - instance: What a power cut ends.
  ///   - pause: The pauses of writers that find no space.
  ///   - writeBackErrors: The kernel's memory of failed write-back.
  ///   - isOpenForWriting: What a lease tells.
  ///   - quotas: Those of the spool's filesystem.
  ///   - holeMaking: The disk that chunks are given back to.
  ///   - labelReading: What files say of themselves.
  init(
    configuration: FilesystemConfiguration, sink: any FileEventSink, virtualTree: any VirtualTree,
    spaceSource: SpoolSpace.Source?, instance: SpoolInstance?, pause: BackoffPermits.Pause? = nil,
    writeBackErrors: @escaping WriteBackErrors = { $0.takeWriteBackError() },
    isOpenForWriting: @escaping PassthroughStanding.OpenForWriting = { $0.isOpenForWriting() },
    quotas: @escaping PassthroughStanding.QuotaQuestion = { SpoolQuotas(of: $0) }, holeMaking: HoleMaking = .system,
    labelReading: @escaping SpoolLabel.Reading = { (place) throws(SystemError) in try SpoolLabel.read(at: place) }
  ) throws(MountError) {
    let opened = try SpoolDirectory.open(configuration)
    var kept = configuration
    // They are in the namespace.
    kept.knownIdentities = KnownIdentities()
    self.configuration = kept
    self.sink = sink
    openCaptures = OpenCaptures(
      countMax: configuration.openCapturesMax, reserve: configuration.descriptorsForDelivery)
    self.writeBackErrors = writeBackErrors
    passthrough = PassthroughStanding(spool: opened.captures, isOpenForWriting: isOpenForWriting, quotas: quotas)
    virtual = VirtualFiles(of: virtualTree)
    looksUpRules =
      configuration.rules.haveHeldCalls || configuration.rules.haveReleases || configuration.rules.haveRefusals
    isPrivileged = geteuid() == 0
    do {
      marks = MarkStore(
        areOnFiles: try SpoolLabel.areKept(in: opened.captures), record: opened.marks, reading: labelReading)
    } catch {
      throw MountError(
        .spoolUnusable,
        "spool \(configuration.spoolDirectory) cannot be asked for extended attributes "
          + "(\(String(cString: strerror(error.code)))): see what is wrong with its disk, or choose another --spool")
    }
    spool = Spool(opened, of: configuration, instance: instance)
    chunkRelease = ChunkRelease(isWanted: marks.areOnFiles && configuration.rules.haveReleases, disk: holeMaking)
    nodes = Mutex(
      Namespace(
        table: NodeTable(root: opened.key), knownIdentities: SpoolIdentities(configuration.knownIdentities),
        device: opened.key.device))
    space = SpoolSpace(
      directory: opened.captures, reserveBytes: configuration.reserveBytes,
      backoffPermits: BackoffPermits(atOnceMax: max(1, configuration.threadCount / 2), pause: pause),
      source: spaceSource)
  }

  deinit {
    // Closing would do, were it not for a child that is being started and holds a copy until it executes its program.
    flock(root.number, LOCK_UN)
  }

  /// Draining: from now on new writable opens and creates fail with EROFS; open writers go on. `whenLastIsGone` is called on the
  /// thread that ends the last of them, with no lock held.
  public func stopAcceptingWriters(whenLastIsGone: @escaping @Sendable () -> Void = {}) {
    openWriters.drain(whenLastIsGone: whenLastIsGone)
  }

  /// Writable handles that are open now.
  public var writableOpenCount: Int { openWriters.count }

  /// Handles that pass the daemon now.
  public var passthroughHandles: Int { passthrough.handles }

  /// Why no file passes the daemon, although that is set; nil where that is possible as far as the spool's filesystem goes.
  public var passthroughRefusal: String? {
    configuration.passthrough == .off ? nil : passthrough.knownQuotas.refusal
  }

  /// Makes everything that was written durable. Blocks on the local disk.
  public func syncSpool() {
    // What cannot be written is asked for file by file, and keeps its mark.
    _ = synchronizeAll()
  }

  /// Writes back everything that the spool's filesystem has. False when the disk refused any of it, which the kernel says once.
  func synchronizeAll() -> Bool { uploadfs_syncfs(root.number) == 0 }

  // MARK: Shared by the operations

  func requireAccepting() throws(SystemError) { try openWriters.requireAccepting() }

  /// Changes or reads the node table. Descriptors that fall out of it are closed after the lock is released: closing the
  /// last one of a huge unlinked file can take long.
  func withNodes<Result: Sendable>(_ body: (inout Namespace) -> Result) -> Result {
    let (result, _) = nodes.withLock { namespace in
      let result = body(&namespace)
      return (result, namespace.table.takeReleased())
    }
    return result
  }

  /// Learns what stands at a name. Fails where nothing tells which capture a file is that is met. The namespace lock is held, and no
  /// file's lock.
  func adopt(_ status: stat, at entry: DirectoryEntry, counting: Bool = false) throws(SystemError) -> NodeID {
    let claim = isMet(status) ? try claim(of: status.key, at: entry, location(of: entry)) : Claim()
    return adopt(status, at: entry, isNew: false, claim, counting: counting)
  }

  /// The same, of an entry of which the place is at hand.
  func adopt(
    _ status: stat, at entry: DirectoryEntry, _ place: borrowing SpoolLocation, counting: Bool
  ) throws(SystemError) -> NodeID {
    let claim = isMet(status) ? try claim(of: status.key, at: entry, place) : Claim()
    return adopt(status, at: entry, isNew: false, claim, counting: counting)
  }

  private func isMet(_ status: stat) -> Bool {
    status.kind == .regular && nodes.withLock { $0.table.node(of: status.key) == nil }
  }

  /// Learns what was made there a moment ago. The namespace lock is held, and no file's lock.
  func adoptNew(
    _ status: stat, at entry: DirectoryEntry, as id: FileID? = nil, counting: Bool = false
  ) -> NodeID {
    adopt(status, at: entry, isNew: true, Claim(id: id ?? .new(), usesInode: false), counting: counting)
  }

  private func adopt(
    _ status: stat, at entry: DirectoryEntry, isNew: Bool, _ claim: Claim, counting: Bool
  ) -> NodeID {
    let displaced = nodes.withLock { namespace -> NodeID? in
      guard let known = namespace.table.child(of: entry.directory, named: entry.name) else { return nil }
      return isNew || !namespace.table.matches(known, status.key, status.kind) ? known : nil
    }
    if let displaced, !isNew, noteExchange(of: displaced, with: status, at: entry) {
      // Both are known.
      return learn(status, at: entry, isNew: false, Claim(), counting: counting)
    }
    // Taken away by hand: the spool has given its number to another file.
    let former = isNew ? nodes.withLock { $0.table.file(of: status.key) } : nil
    let gone = displaced.map { displaced in nodes.withLock { $0.table.files(below: displaced) } } ?? []
    let node = learn(status, at: entry, isNew: isNew, claim, counting: counting)
    if displaced != nil { noteReplaced(gone, by: isNew ? nil : node) }
    if let former { noteReplaced([former], by: nil) }
    return node
  }

  private func learn(
    _ status: stat, at entry: DirectoryEntry, isNew: Bool, _ claim: Claim, counting: Bool
  ) -> NodeID {
    withNodes { namespace in
      let key = status.key
      if isNew {
        namespace.knownIdentities.forget(key.inode)
        namespace.table.numberIsGivenAnew(key)
      }
      var identity: FileID?
      if status.kind == .regular, namespace.table.node(of: key) == nil {
        identity = namespace.identity(of: key, claim)
      }
      let id = namespace.table.adopt(key, kind: status.kind, at: entry) { node in
        CapturedFile(
          id: identity ?? .new(), node: node, key: key, isNew: isNew, found: claim.found,
          isPutInPlace: claim.isPutInPlace && identity == claim.id)
      }
      if counting { namespace.table.countLookup(id) }
      return id
    }
  }

  func file(of node: NodeID) -> CapturedFile? {
    nodes.withLock { $0.table[node]?.file }
  }

  /// Where an entry stands. The namespace lock is held.
  func location(of entry: DirectoryEntry) throws(SystemError) -> SpoolLocation {
    guard var components = nodes.withLock({ $0.table.components(of: entry.directory) }) else { throw .stale }
    components.append(entry.name)
    return try SpoolLocation(root: root.number, components: components)
  }

  /// Where a node stands by its oldest name. The namespace lock is held.
  func location(of node: NodeID) throws(SystemError) -> SpoolLocation {
    guard let components = nodes.withLock({ $0.table.components(of: node) }) else { throw .stale }
    return try SpoolLocation(root: root.number, components: components)
  }

  /// What the spool says of a node, wherever it is: open, named, or unlinked and still known. The namespace lock is held.
  func statusInSpool(of node: NodeID) throws(SystemError) -> stat {
    guard let known = nodes.withLock({ $0.table[node] }) else { throw .stale }
    if let descriptor = known.file?.state.withLock({ $0.handles.descriptor }) { return try descriptor.status() }
    if node != .root, known.names.isEmpty {
      guard let pin = known.pin else { throw .stale }
      return try pin.status()
    }
    let status: stat
    do throws(SystemError) {
      status = try location(of: node).status()
    } catch {
      // The kernel's name for it is out of date: it has to look again.
      throw error == .notFound ? .stale : error
    }
    guard status.key == known.key, status.kind == known.kind else { throw .stale }
    return status
  }

  func handle(_ number: UInt64) throws(SystemError) -> OpenHandle {
    guard let handle = handles.withLock({ $0[number] }) else { throw .badDescriptor }
    return handle
  }

  func fileHandle(_ number: UInt64) throws(SystemError) -> FileHandle {
    guard case .file(let handle) = try handle(number) else { throw .badDescriptor }
    return handle
  }

  /// Names in the root that belong to the virtual tree.
  func isReserved(_ entry: DirectoryEntry) -> Bool {
    entry.directory == .root && virtual.reservedNames.contains(entry.name)
  }

  /// Refuses to make something in the virtual tree, or in the place of its roots.
  func requireFree(_ entry: DirectoryEntry) throws(SystemError) {
    if entry.directory.isVirtual { throw .readOnly }
    if isReserved(entry) { throw .exists }
  }

  /// Refuses to take away anything of the virtual tree.
  func requireRemovable(_ entry: DirectoryEntry) throws(SystemError) {
    if entry.directory.isVirtual { throw .readOnly }
    if isReserved(entry) { throw .notPermitted }
  }
}

/// Who makes a call.
struct Caller: Hashable, Sendable {
  var user: uid_t
  var group: gid_t
  /// The thread; 0 when it cannot be seen from here.
  var thread: pid_t = 0
}

/// What a lookup found, counted once for the kernel.
struct FoundEntry: Sendable {
  var node: NodeID
  var status: stat
}

extension FileID {
  static func new() -> FileID {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    var generator = SystemRandomNumberGenerator()
    return .ordered(
      atNanosecondsSince1970: Int64(now.tv_sec) &* 1_000_000_000 &+ Int64(now.tv_nsec), using: &generator)
  }
}

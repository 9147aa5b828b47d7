import FileModel
import Lookup
import TransferModel
import UploadEngine

/// The captures on the client's disk and the mount in front of them, as ``UploadFS`` reports them: the same transitions
/// (``WriterActivity``), the same order of events, and no kernel.
final class SimulatedCapture {
  final class File {
    fileprivate(set) var inode: UInt64
    /// The identity, stored on the file from before its first change.
    var id: FileID
    /// What the writers have written, whatever became of it on the disk.
    var bytes: [UInt8] = []
    var activity: WriterActivity
    /// The integrity of the content by its writers, now and when it was last settled.
    var integrity = ContentIntegrity()
    var settledIntegrity = ContentIntegrity()
    /// The content that a user wants published as it is, under any later name.
    var wanted: [UInt8]?
    var names: [RelativePath] = []
    var modifiedNanoseconds: Int64 = 0
    var mode: UInt32 = 0o644
    /// When the last writer closed the file, or its names changed after that.
    var settledAt: Int64 = 0
    fileprivate var chunks: ChunkActivity?
    /// Parts that the spool no longer has.
    var released: ReleasedChunks?
    /// The latest reads, by their offset.
    var readPieces: LookupTable<Int, [UInt8]> = [:]
    fileprivate(set) var isPartlyDelivered = false
    /// Epochs of mutations that the planted mistake `hideRewrites` has hidden from ``chunks``.
    fileprivate var hiddenEpochs: LookupSet<UInt64> = []
    fileprivate var isFoundAnnounced = false
    fileprivate var isCreatedHere = true

    // What the daemon knows of the file's disk, as `CapturedFile.State` has it.
    var pages = SimulatedPages()
    var isWriteBackDue = false
    /// What the disk has of the file's size, its mark and its content.
    var metadata = SimulatedMetadata()
    /// A power cut, or a copy that has lost its label, has left something else than was written.
    var isRemains = false
    /// What the writers have closed, whatever a power cut has left of it; until it changes.
    var closed: [UInt8]?
    /// The earlier closed content and its modification time: a backup has it.
    var former: (bytes: [UInt8], modifiedNanoseconds: Int64)?
    /// The content that the disk had lost when a daemon died without a report of that, and its modification time.
    var lostUnseen: (bytes: [UInt8], modifiedNanoseconds: Int64)?
    fileprivate var closedNanoseconds: Int64 = 0
    /// The modification time of the content that was replaced by an older one.
    fileprivate var latestNanoseconds: Int64 = 0
    /// The latest time of all its contents that were settled.
    fileprivate var greatestNanoseconds = Int64.min
    /// Under an earlier name the file looked older than what was there before; until it is settled again.
    fileprivate var lookedOlder = false
    /// The file was restored by hand; until it changes.
    var isPutBack = false
    /// Another file has replaced it, or it was copied, since it was last written.
    fileprivate(set) var isReplaced = false
    /// The filesystem has ended since the last write, so its description of the file may be doubted.
    var mayBeDoubted = false
    /// The file was copied without its label.
    var hasLostLabel = false
    /// As ``FileSnapshot/isPutInPlace``, until the next start.
    var isPutInPlace = false
    /// The file was taken for another one, which had its name just before.
    var isMistaken = false
    /// The file was delivered as it is.
    var isDelivered = false
    /// How often the file was changed by hand, restoring included.
    fileprivate(set) var handEdits = 0
    /// The content that was delivered whole, under a name that still shows it; a user wanted its remains here, which go
    /// to further names.
    fileprivate(set) var wholeDelivery: [UInt8]?
    /// The location of the released parts by the file's label.
    var pointer: SessionPointer?
    /// The mark on the spool file for the next run, and whether this one has read it.
    var mark = Mark.none
    var isMarkKnown = true
    /// The disk did not take the mark; the client's catalog may have its content.
    var isMarkOutdated = false
    /// Parts of the file were known to be lost, whether or not a mark records it.
    var isLost = false
    /// The planted mistake `forgetUnreadMarks`.
    var isMarkOverlooked = false
    /// The spool could not describe the file at the latest event to the client.
    var isDoubtful = false
    var lastKnown = KnownAttributes()
    var refusal: Refusal?
    var isSynchronized = false
    /// As `CapturedFile.State.provenBytes`.
    var provenBytes: UInt64?
    /// The open file that the writers share, which is kept until the disk has what they wrote.
    var descriptor: SimulatedPages.Description?
    var kept: SimulatedPages.Description?

    fileprivate init(inode: UInt64, id: FileID, activity: WriterActivity) {
      self.inode = inode
      self.id = id
      self.activity = activity
    }

    /// As `Filesystem.stableEpoch`.
    func stableEpoch(at offset: UInt64) -> UInt64? { chunks?.stableEpoch(at: offset) }

    /// As `CapturedFile.State.contentIntegrity`.
    var contentIntegrity: ContentIntegrity { activity.hasOpenRevision ? integrity : settledIntegrity }

    var attributes: KnownAttributes {
      KnownAttributes(sizeBytes: UInt64(bytes.count), modifiedNanoseconds: modifiedNanoseconds, mode: mode)
    }

    /// As `Filesystem.snapshotLocked`.
    var snapshot: FileSnapshot {
      let facts = isDoubtful ? lastKnown : attributes
      let doubt: Interruption? = isDoubtful ? .spoolUnreadable(errno: Refusal.errno) : nil
      let refused: Interruption? = refusal?.holdsFile == true ? .spoolFailing(errno: Refusal.errno) : nil
      var snapshot = FileSnapshot(
        id: id, epoch: activity.epoch, sizeBytes: facts.sizeBytes, modifiedNanoseconds: facts.modifiedNanoseconds,
        mode: facts.mode, inode: inode, names: names, writableOpens: activity.writableOpens,
        mutationsInFlight: activity.mutationsInFlight,
        interruption: refused ?? doubt ?? (isMarkKnown ? contentIntegrity.interruption : nil),
        isPartlyReleased: released != nil || !isMarkKnown, pointer: released == nil || !isMarkKnown ? nil : pointer,
        diskErrno: refusal.map { _ in Refusal.errno })
      snapshot.released = isMarkKnown ? released : nil
      snapshot.isPutInPlace = isPutInPlace
      return snapshot
    }
  }

  /// The latest modification time seen under a name.
  private struct GreatestTime {
    var nanoseconds: Int64
    var file: FileID
    /// Another file had the same time under the name.
    var isOfSeveral: Bool
  }

  unowned let world: World
  private var byName: LookupTable<RelativePath, File> = [:]
  private var byID: LookupTable<FileID, File> = [:]
  private(set) var byInode: LookupTable<UInt64, File> = [:]
  private var handEdits: Int64 = 0
  /// The latest time of all contents that were settled under a name.
  private var greatestNanoseconds: LookupTable<RelativePath, GreatestTime> = [:]
  /// The instance of the spool's filesystem: it ends with the power.
  var instance = 0
  /// The latest copy of the spool has the times of its files.
  var copiesKeepTimes = true
  /// Files that the flush checks next, by their inodes.
  var flushes: LookupSet<UInt64> = []
  var isFlushDue = false
  /// The daemon; nil while nothing is mounted.
  weak var sink: (any CaptureSink)?
  /// The number of mounts: a writer's handles of an earlier one are gone.
  private(set) var mount = 0
  private(set) var isScanned = false
  /// Something could not be read, and is to be read again.
  var isScanFailing: Bool { scanFailsSince != nil }
  /// When the scan began to fail, in nanoseconds; nil while it does not.
  private(set) var scanFailsSince: Int64?

  init(_ world: World) {
    self.world = world
    world.hasPartsAlone = { [unowned self] in file(withPartsIn: $0) != nil }
    world.wasPublished = { [unowned self] in file(withPartsIn: $0)?.isPartlyDelivered = true }
  }

  var isMounted: Bool { sink != nil }
  var names: [RelativePath] { byName.keys.sorted() }
  /// The files that have a name, ordered.
  var ids: [FileID] { byInode.sorted().map(\.value).filter { !$0.names.isEmpty }.map(\.id) }
  func file(named name: RelativePath) -> File? { byName[name] }
  func file(_ id: FileID) -> File? { byID[id] }

  // MARK: The life of a mount

  /// The daemon is gone, with every handle.
  func unmounted() {
    sink = nil
    mount += 1
    isScanned = false
    scanFailsSince = nil
    flushes = []
    isFlushDue = false
    for file in byInode.sorted().map(\.value) {
      if file.names.isEmpty {
        byInode[file.inode] = nil
      } else {
        forgetDisk(of: file)
        file.activity = .found
        file.chunks = nil
        file.isCreatedHere = false
        file.isFoundAnnounced = false
        noteSettled(file)
      }
    }
    byID = [:]
  }

  /// A user changes the spool behind the daemon's back, while nothing is mounted.
  func editByHand() {
    for name in names where world.strikes(world.scenario.handEdits) {
      guard let file = byName[name] else { continue }
      world.trace("by hand: \(name.displayText)")
      let before = file.bytes
      defer { if file.bytes != before { file.handEdits += 1 } }
      let way = Int.random(in: 0..<7, using: &world.random)
      if way > 4, putBack(file) { continue }
      switch way {
      case 0: unlink(name)
      case 1: rename(name, to: RelativePath("by hand \(file.inode)"))
      case 2: file.bytes += world.random.bytes(Int.random(in: 1...200, using: &world.random))
      default:
        file.bytes = world.random.bytes(file.bytes.count)
        file.released = nil
      }
      if file.bytes != before {
        file.pages.begin(with: file.bytes)
        noteMetadata(of: file)
        noteSynced(file)
        // No two edits have the same time, as they could once an older content with its time was restored in between.
        handEdits += 1
        file.modifiedNanoseconds = max(file.modifiedNanoseconds, world.time.wallNanoseconds) + 3_000_000_000 + handEdits
        // A clock that was set back makes a present edit older than the delivery.
        file.isPutBack = file.isPutBack && file.modifiedNanoseconds <= file.latestNanoseconds
        file.wholeDelivery = nil
      }
      noteSettled(file)
    }
  }

  /// An older content is restored from a backup, into the file or as a new one. False when there is none.
  private func putBack(_ file: File) -> Bool {
    guard let former = file.former, former.bytes != file.bytes, !file.isRemains,
      former.modifiedNanoseconds < file.modifiedNanoseconds
    else { return false }
    (file.bytes, file.modifiedNanoseconds, file.released) = (former.bytes, former.modifiedNanoseconds, nil)
    file.isPutBack = true
    if world.random.happens(0.5) { giveNewNumber(to: file) }
    file.pages.begin(with: file.bytes)
    noteMetadata(of: file)
    noteSynced(file)
    noteSettled(file)
    return true
  }

  /// The file is copied, or replaced.
  func giveNewNumber(to file: File) {
    let inode = newNumber()
    byInode[file.inode] = nil
    file.inode = inode
    file.isReplaced = true
    byInode[inode] = file
  }

  private func newNumber() -> UInt64 {
    var inode: UInt64 = 100
    while byInode[inode] != nil { inode += 1 }
    return inode
  }

  /// The planted mistake `overlookHandEdits`: any content of a file counts as what its entry describes.
  func overlooking(_ entry: CatalogEntry) -> CatalogEntry {
    guard let file = byInode[entry.inode] else { return entry }
    var entry = entry
    entry.sizeBytes = UInt64(file.bytes.count)
    entry.modifiedNanoseconds = file.modifiedNanoseconds
    return entry
  }

  /// The planted mistake `deliverOlder`.
  func forgettingDelivered(_ entry: CatalogEntry) -> CatalogEntry {
    guard byInode.sorted().contains(where: { $1.id == entry.id && $1.isPutBack }), entry.state == .complete else {
      return entry
    }
    var entry = entry
    (entry.state, entry.receipt) = (.pending, nil)
    return entry
  }

  /// As `Filesystem.evict`: not what was opened, changed or renamed since.
  func evict(_ candidate: EvictionCandidate) -> Bool {
    let id = candidate.id
    guard let file = byID[id], file.activity.epoch == candidate.epoch, file.activity.isQuiet, !file.activity.isGone,
      file.names == candidate.names
    else { return false }
    world.trace("evicts \(file.snapshot.brief)")
    if file.released == nil, world.oracles[0].areHeldBack(file.names) {
      world.fail(.eviction, "\(id) is removed, and is published under no name that it has")
    }
    // The remains of a copy are expected to hold no more.
    for oracle in world.oracles where !file.isRemains && !file.isMistaken {
      oracle.evicted(file.bytes, names: file.names) { sink?.publishedName(of: id, at: $0) ?? "" }
    }
    for name in file.names { byName[name] = nil }
    file.names = []
    file.activity.lostLastName()
    byID[id] = nil
    byInode[file.inode] = nil
    sink?.handle(.evicted(id))
    return true
  }

  /// As `Filesystem` gives chunks up. The bytes stay here as the file's intended content; no program reads them.
  func release(_ candidate: ReleaseCandidate) {
    guard let file = byID[candidate.id], !file.activity.isGone else { return }
    for chunk in candidate.chunks {
      let offset = UInt64(chunk.index) * UInt64(candidate.chunkBytes)
      let isStill =
        candidate.isGrowing
        ? file.chunks?.chunkBytes == candidate.chunkBytes && file.stableEpoch(at: offset) == chunk.epoch
        : file.activity.epoch == chunk.epoch && file.activity.isQuiet
      var released = file.released ?? ReleasedChunks(chunkBytes: candidate.chunkBytes)
      guard isStill, released.chunkBytes == candidate.chunkBytes,
        released.insert(chunk.index, digest: chunk.digest)
      else { continue }
      world.trace("gives up chunk \(chunk.index) of \(file.snapshot.brief)")
      file.released = released
      if let pointer = candidate.pointer, world.bug != .releaseUnrecorded { file.pointer = pointer }
      let start = min(file.bytes.count, Int(clamping: offset))
      let range = start..<min(file.bytes.count, start + candidate.chunkBytes)
      // What was read and sent is all that exists of the part now, whatever the disk had for it by then.
      if let sent = file.readPieces[start], sent.count == range.count {
        file.bytes.replaceSubrange(range, with: sent)
      }
      file.pages.punch(range, of: file.bytes)
      // A hole is punched where the disk has the bytes, and so the size.
      file.metadata.commit()
    }
  }

  /// Parts that were given up belong to a published file now, and to no session any more.
  func delivered(_ id: FileID) {
    byID[id]?.isDelivered = true
    if let file = byID[id], file.released != nil { file.isPartlyDelivered = true }
  }

  /// Whether a change needs parts that were given up; its writer gets an error.
  func refuses(_ extent: ContentExtent, of file: File) -> Bool {
    guard file.released?.isNeeded(for: extent) == true else { return false }
    file.integrity.lostContent(.changeRefused)
    sink?.handle(.writeFailed(file.id, .changeRefused))
    return true
  }

  /// A daemon has mounted. Each file has its identity in its label, and one that has got the inode number of another is
  /// not that one.
  func mounted(_ daemon: any CaptureSink, knowing storage: SimulatedJournal.Storage, hiding hidden: LookupSet<FileID>) {
    sink = daemon
    takeUnlabelled(knownTo: storage)
    // What the disk has refused while nothing was mounted is unknown.
    for file in byInode.sorted().map(\.value) where world.mayRefuse {
      forgetRefused(of: file)
      noteSettled(file)
    }
    for file in byInode.sorted().map(\.value) { byID[file.id] = file }
    scan(byInode.sorted().map(\.value).filter { !hidden.contains($0.id) }, thenAfter: .seconds(1))
  }

  /// As `Filesystem.scanSpool`: what could not be read is read again, and until then the scan has not ended.
  private func scan(_ files: [File], thenAfter pause: Duration) {
    let mount = mount
    var delay = Duration.zero
    var unread: [File] = []
    var crowded: [File] = []
    for file in files {
      delay += world.random.duration(.microseconds(10)...(.milliseconds(20)))
      if world.bug == .forgetFileAtRestart, world.random.happens(0.5) { continue }
      world.time.after(delay) { [self] in
        guard self.mount == mount, isMounted else { return }
        guard sink?.hasRoomForFiles == true else { return crowded.append(file) }
        if fails(.look) { unread.append(file) } else { announceFound(file) }
      }
    }
    world.time.after(delay) { [self] in
      guard self.mount == mount, isMounted else { return }
      // The scan waits until there is room again.
      guard crowded.isEmpty else {
        return world.time.after(.milliseconds(50)) { [self] in
          if self.mount == mount, isMounted { scan(unread + crowded, thenAfter: pause) }
        }
      }
      guard let first = unread.first, world.bug != .endFailedScan else {
        isScanned = true
        scanFailsSince = nil
        sink?.handle(.scanEnded)
        return
      }
      scanFailsSince = scanFailsSince ?? world.time.nanoseconds
      if world.bug != .hideScanFailure {
        sink?.handle(.scanFailing(first.names.first?.parent ?? .root, errno: Refusal.errno))
      }
      world.time.after(pause) { [self] in
        if self.mount == mount, isMounted { scan(unread, thenAfter: min(pause * 2, .seconds(30))) }
      }
    }
  }

  /// As `Filesystem.unload`: the daemon drops a file's state, unless the kernel still knows the file, or its disk is
  /// being queried.
  func unload(_ id: FileID) {
    guard sink?.isUnloaded(id) == true, let file = byID[id], file.activity.isQuiet, !file.activity.isGone,
      file.names.count == 1,
      file.refusal == nil, !file.isDoubtful, !file.isMarkOutdated, world.random.happens(0.7)
    else { return }
    if world.scenario.losesSpool || world.mayRefuse {
      guard file.isSynchronized, file.mark == .none, file.integrity.interruption == nil else { return }
    }
    world.trace("lets go of \(file.snapshot.brief)")
    forgetDisk(of: file)
    file.activity = .found
    file.chunks = nil
    file.isCreatedHere = false
    noteSettled(file)
  }

  /// As `Filesystem.rescan`: a file is found again.
  func rescan(at path: RelativePath) -> RescanResult {
    guard let file = byName[path] else { return .missing }
    if fails(.look) { return .unreadable }
    announceFound(file, again: true)
    return .found(file.id)
  }

  /// A program that queries a file makes the daemon find it.
  func rescanIfUnloaded(_ file: File) {
    guard sink?.isUnloaded(file.id) == true else { return }
    announceFound(file, again: true)
  }

  private func announceFound(_ file: File, again: Bool = false) {
    guard again || !file.isFoundAnnounced && !file.isCreatedHere, !file.activity.isGone, file.activity.isQuiet else {
      return
    }
    file.isFoundAnnounced = true
    var snapshot = facts(of: file, isAnswer: true)
    if world.bug == .forgetDeadWriters { snapshot.interruption = nil }
    sink?.handle(.found(snapshot))
  }

  // MARK: What programs do

  /// Opens for writing, creating the file if there is none.
  func open(_ name: RelativePath) -> File {
    let file = byName[name] ?? create(name)
    file.descriptor = file.descriptor ?? file.pages.open()
    tell(file, file.activity.openedForWriting())
    return file
  }

  private func create(_ name: RelativePath) -> File {
    // As on a real disk, the inode number of a removed file is given to a new one.
    let inode = newNumber()
    let file = File(inode: inode, id: FileID.random(using: &world.random), activity: .created)
    file.names = [name]
    touch(file)
    file.mark = .writing(instance)
    noteMetadata(of: file)
    file.metadata.commit()
    byName[name] = file
    byID[file.id] = file
    byInode[inode] = file
    awaitFlush(file)
    return file
  }

  /// A call waits until the file's content is delivered.
  func wait(for file: File) {
    if file.activity.isQuiet, !file.activity.isGone { sink?.wait(for: file) }
  }

  func close(_ file: File) {
    let hasRevision = file.activity.hasOpenRevision
    let pendingEvent = file.activity.closedForWriting()
    if pendingEvent == .settled { noteSettled(file, hasRevision: hasRevision) }
    if file.activity.writableOpens == 0 { keepDescriptor(of: file) }
    tell(file, pendingEvent)
  }

  /// The program that had the file open is killed.
  func kill(_ file: File) {
    world.trace("writer of \(file.snapshot.brief) is killed")
    if file.activity.hasOpenRevision { file.integrity.writerKilled(signal: 9) }
    close(file)
  }

  /// A user wants a file as it is: from now on its content may be published. The same holds for a file that is open and
  /// unchanged; one that is being changed is settled first.
  func want(_ id: FileID) {
    guard let file = byID[id], file.activity.isQuiet || file.activity.needsNewRevision else { return }
    // Pages whose refusal an fsync has reported are not kept.
    if file.refusal == nil, file.pages.isRefused { loseRefused(file) }
    file.wanted = file.shown
    noteMixed(file)
    for oracle in world.oracles { oracle.wanted(file.shown, names: file.names) }
  }

  /// A restored content is not to replace what the catalog records as delivered.
  func notePutBack(knownTo entries: [CatalogEntry], _ oracle: Oracle) {
    let known = LookupTable(entries.map { ($0.id, $0) })
    oracle.forgetOlder()
    for file in byInode.sorted().map(\.value) where file.isPutBack {
      guard let entry = known[file.id], entry.state == .complete, entry.receipt != nil,
        file.integrity.interruption == nil,
        file.modifiedNanoseconds < entry.modifiedNanoseconds || file.inode != entry.inode,
        oracle.bytes(ofReceipt: entry.receipt?.id ?? "") != file.bytes
      else { continue }
      oracle.isOlder(file.bytes, names: file.names)
    }
  }

  /// As `Filesystem.accept`.
  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {
    guard let file = byID[id], file.activity.epoch == epoch, file.activity.isQuiet else { return }
    if let present = file.contentIntegrity.interruption, present.lostBytes != nil, present != interruption { return }
    file.integrity.accepted()
    file.settledIntegrity = file.integrity
    file.isLost = false
    if file.isRemains, file.isDelivered { file.wholeDelivery = file.closed }
    file.isRemains = false
    file.bytes = file.shown
    file.pages.accept()
    keepMark(of: file)
    noteSettled(file)
  }

  /// Announces a change; the content changes until ``endMutation(_:of:writtenBytes:)``. Nil when nothing may change, or
  /// the daemon has died during it.
  func beginMutation(of file: File, _ extent: ContentExtent) -> ContentMutation? {
    let isFirst = file.activity.needsNewRevision
    if isFirst { readMark(of: file) }
    guard !isFirst || file.isMarkKnown, markWriting(file, extent) else { return refuse(extent, of: file) }
    if isFirst, world.bug != .dropContentWillChange, sink?.contentWillChange(file.id) == false {
      return refuse(extent, of: file)
    }
    if isFirst { world.contentChanges(file.id) }
    guard isMounted else { return nil }
    if isFirst {
      file.integrity.revisionBegan()
      file.isDelivered = false
      file.wholeDelivery = nil
      (file.isPutBack, file.isReplaced) = (false, false)
      file.mayBeDoubted = false
      file.isMarkOverlooked = false
      file.refusal?.forgetWhatWasSaved(file.integrity)
    }
    awaitFlush(file)
    let pendingEvent = file.activity.beginMutation()
    let mutation = ContentMutation(extent, epoch: file.activity.epoch)
    if world.bug == .hideRewrites, case .bytes(let range) = extent, range.lowerBound < UInt64(file.bytes.count) {
      file.hiddenEpochs.insert(mutation.epoch)
    } else {
      file.chunks?.begin(mutation)
    }
    if world.bug != .skipEpochCheck { tell(file, pendingEvent) }
    return mutation
  }

  func write(_ file: File, _ bytes: [UInt8], at offset: Int) {
    if file.bytes.count < offset + bytes.count {
      file.bytes += [UInt8](repeating: 0, count: offset + bytes.count - file.bytes.count)
    }
    file.bytes.replaceSubrange(offset..<offset + bytes.count, with: bytes)
    noteWritten(file, offset..<offset + bytes.count)
    noteRemains(of: file)
    touch(file)
    noteMetadata(of: file)
  }

  func truncate(_ file: File, to count: Int) {
    file.bytes =
      count <= file.bytes.count
      ? Array(file.bytes[..<count]) : file.bytes + [UInt8](repeating: 0, count: count - file.bytes.count)
    file.pages.cut(to: count)
    if count == 0 { (file.isRemains, file.isMistaken) = (false, false) }
    file.integrity.truncated(to: UInt64(count))
    file.refusal?.forgetWhatWasSaved(file.integrity)
    noteRemains(of: file)
    file.released?.cut(at: UInt64(count))
    if file.released?.isEmpty == true {
      file.released = nil
      file.isPartlyDelivered = false
    }
    touch(file)
    noteMetadata(of: file)
  }

  func endMutation(_ mutation: ContentMutation, of file: File, writtenBytes: Int = 0) {
    if file.hiddenEpochs.remove(mutation.epoch) == nil {
      file.chunks?.end(mutation, writtenBytes: UInt64(writtenBytes))
    }
    if writtenBytes > 0 { file.integrity.ended(mutation, writtenBytes: UInt64(writtenBytes)) }
    let hasRevision = file.activity.hasOpenRevision
    let pendingEvent = file.activity.endMutation()
    if pendingEvent == .settled { noteSettled(file, hasRevision: hasRevision) }
    tell(file, pendingEvent)
  }

  // MARK: What an uploader asks

  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? {
    guard let file = byID[id], file.activity.writableOpens > 0, !file.activity.isGone else { return nil }
    if anew || file.chunks?.chunkBytes != chunkBytes {
      file.chunks = ChunkActivity(
        chunkBytes: chunkBytes, written: file.bytes.isEmpty ? [] : [0..<UInt64(file.bytes.count)],
        epoch: file.activity.epoch,
        mutationsInFlight: file.activity.mutationsInFlight)
    }
    return file.chunks?.takeReport(of: id, sizeBytes: UInt64(file.bytes.count))
  }

  func setAttributes(of name: RelativePath, mode: UInt32) {
    guard let file = byName[name] else { return }
    rescanIfUnloaded(file)
    file.mode = mode
    if !file.activity.isGone { sink?.handle(.attributesChanged(facts(of: file, isAnswer: false))) }
  }

  func link(_ name: RelativePath, as other: RelativePath) {
    guard let file = byName[name], byName[other] == nil else { return }
    file.names.append(other)
    byName[other] = file
    announceNames(of: file)
  }

  func rename(_ from: RelativePath, to target: RelativePath) {
    guard let file = byName[from], byName[target] !== file else { return }
    let replaced = byName[target]
    file.lookedOlder = looksOlder(file)
    if let replaced { replaced.names.removeAll { $0 == target } }
    byName[from] = nil
    byName[target] = file
    if let index = file.names.firstIndex(of: from) { file.names[index] = target }
    if let replaced { announceNames(of: replaced) }
    announceNames(of: file)
  }

  func unlink(_ name: RelativePath) {
    guard let file = byName.removeValue(forKey: name) else { return }
    file.names.removeAll { $0 == name }
    announceNames(of: file)
  }

  // MARK: Telling

  private func touch(_ file: File) {
    let unit = max(1, world.scenario.timeUnit.nanoseconds)
    file.modifiedNanoseconds = world.time.wallNanoseconds / unit * unit
  }

  private func announceNames(of file: File) {
    guard !file.activity.isGone else { return }
    if file.names.isEmpty {
      file.activity.lostLastName()
      leaveToItsWriters(file)
      file.kept = nil
      byID[file.id] = nil
      if file.activity.isQuiet { byInode[file.inode] = nil }
      sink?.handle(.removed(file.id))
      if world.bug == .speakOfRemoved { sink?.handle(.changed(facts(of: file, isAnswer: false))) }
    } else {
      // Names outlive every power cut here.
      file.metadata.commitMark()
      noteSettled(file)
      sink?.handle(.namesChanged(facts(of: file, isAnswer: false)))
    }
  }

  func tell(_ file: File, _ pendingEvent: WriterActivity.PendingEvent?) {
    if file.activity.isGone, file.activity.isQuiet { byInode[file.inode] = nil }
    noteSettled(file)
    guard let pendingEvent, !file.names.isEmpty else {
      if pendingEvent == .settled { file.chunks = nil }
      return
    }
    let snapshot = facts(of: file, isAnswer: pendingEvent == .settled)
    switch pendingEvent {
    case .opened: sink?.handle(.opened(snapshot))
    case .changed: sink?.handle(.changed(snapshot))
    case .settled:
      var chunks = file.chunks.take()
      if let report = chunks?.takeReport(of: file.id, sizeBytes: snapshot.sizeBytes) {
        sink?.handle(.grown(report))
      }
      guard isMounted else { return }
      sink?.handle(.settled(snapshot))
    }
  }

  func noteSettled(_ file: File) {
    noteTime(of: file)
    for oracle in world.oracles { for name in file.names { oracle.taken(name) } }
    // A file that is compared with its delivery is proven, and may be published under another name.
    if [.notOnDisk, .unproven].contains(file.integrity.interruption), let content = file.closed {
      for oracle in world.oracles { oracle.mayBeFoundAgain(content, names: file.names) }
    }
    // What a dead writer left may not be published.
    guard file.activity.isQuiet, !file.names.isEmpty else { return }
    noteMixed(file)
    guard file.integrity.interruption == nil && !file.isRemains || file.wanted == file.bytes else { return }
    file.settledAt = world.time.nanoseconds
    if let closed = file.closed, closed != file.bytes { file.former = (closed, file.closedNanoseconds) }
    if file.closed != file.bytes || file.closedNanoseconds != file.modifiedNanoseconds { file.lookedOlder = false }
    file.closed = file.bytes
    file.closedNanoseconds = file.modifiedNanoseconds
    if !file.isPutBack { file.latestNanoseconds = file.modifiedNanoseconds }
    for oracle in world.oracles {
      oracle.settled(file.bytes, names: file.names)
      if !file.isPutBack, !file.isReplaced { oracle.isLater(file.bytes, names: file.names) }
    }
    sink?.settled(file)
  }

  private func noteTime(of file: File) {
    let time = file.modifiedNanoseconds
    file.greatestNanoseconds = max(file.greatestNanoseconds, time)
    for name in file.names {
      let before = greatestNanoseconds[name]
      if let before, before.nanoseconds > time { continue }
      let isShared = before.map { $0.nanoseconds == time && ($0.isOfSeveral || $0.file != file.id) } ?? false
      greatestNanoseconds[name] = GreatestTime(nanoseconds: time, file: file.id, isOfSeveral: isShared)
    }
  }

  /// A content with a later time was there before: time went back, or a user has set a future time. A later write then
  /// looks older to a start that knows only what was published. So does another file from the same moment of a coarse
  /// clock. What a start has held for that stays held under the next name.
  func looksOlder(_ file: File) -> Bool {
    let time = file.modifiedNanoseconds
    return file.lookedOlder || time < file.greatestNanoseconds
      || file.names.contains { name in
        greatestNanoseconds[name].map { $0.nanoseconds > time || $0.nanoseconds == time && $0.isOfSeveral } ?? false
      }
  }
}

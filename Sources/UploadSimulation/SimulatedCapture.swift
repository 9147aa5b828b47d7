import FileModel
import Lookup
import UploadEngine

/// The captures on the client's disk and the mount in front of them, as ``UploadFS`` reports them: the same transitions
/// (``WriterActivity``), the same order of events, and no kernel.
final class SimulatedCapture {
  final class File {
    let inode: UInt64
    fileprivate(set) var id: FileID
    fileprivate(set) var bytes: [UInt8] = []
    fileprivate(set) var activity: WriterActivity
    /// What became of the content in its writers' hands; a mark in the spool says it to the next run.
    fileprivate(set) var fate = ContentFate()
    /// What of it somebody wants published as it is, however it is called later.
    fileprivate var wanted: [UInt8]?
    fileprivate(set) var names: [RelativePath] = []
    fileprivate(set) var modifiedNanoseconds: Int64 = 0
    fileprivate(set) var mode: UInt32 = 0o644
    /// When its last writer was done with it, or its names changed after that.
    fileprivate(set) var settledAt: Int64 = 0
    fileprivate var chunks: ChunkActivity?
    /// What the spool no longer has.
    fileprivate(set) var released: ReleasedChunks?
    fileprivate(set) var isPartlyDelivered = false
    /// Epochs of mutations that the planted mistake of `hideRewrites` has kept from ``chunks``.
    fileprivate var hiddenEpochs: LookupSet<UInt64> = []
    fileprivate var isFoundAnnounced = false
    fileprivate var isCreatedHere = true

    fileprivate init(inode: UInt64, id: FileID, activity: WriterActivity) {
      self.inode = inode
      self.id = id
      self.activity = activity
    }

    /// As `Filesystem.quietEpoch`.
    func quietEpoch(at offset: UInt64) -> UInt64? { chunks?.quietEpoch(at: offset) }

    var snapshot: FileSnapshot {
      FileSnapshot(
        id: id, epoch: activity.epoch, sizeBytes: UInt64(bytes.count), modifiedNanoseconds: modifiedNanoseconds,
        mode: mode, inode: inode, names: names, writableOpens: activity.writableOpens,
        mutationsInFlight: activity.mutationsInFlight, interruption: fate.interruption,
        isPartlyReleased: released != nil)
    }
  }

  private unowned let world: World
  private var byName: LookupTable<RelativePath, File> = [:]
  private var byID: LookupTable<FileID, File> = [:]
  private var byInode: LookupTable<UInt64, File> = [:]
  /// The daemon; nil while nothing is mounted.
  weak var sink: (any CaptureSink)?
  /// Counts mounts: what a writer held through an earlier one is gone.
  private(set) var mount = 0
  private(set) var isScanned = false

  init(_ world: World) { self.world = world }

  var isMounted: Bool { sink != nil }
  var names: [RelativePath] { byName.keys.sorted() }
  /// Of every file that has a name, in an order.
  var ids: [FileID] { byInode.sorted().map(\.value).filter { !$0.names.isEmpty }.map(\.id) }
  func file(named name: RelativePath) -> File? { byName[name] }
  func file(_ id: FileID) -> File? { byID[id] }

  // MARK: The life of a mount

  /// The daemon is gone, and with it every handle.
  func unmounted() {
    sink = nil
    mount += 1
    isScanned = false
    for file in byInode.sorted().map(\.value) {
      if file.names.isEmpty {
        byInode[file.inode] = nil
      } else {
        if file.activity.writableOpens > 0, file.activity.hasOpenRevision {
          file.fate = ContentFate(found: file.fate.interruption ?? .mountDied)
        }
        file.activity = .found
        file.chunks = nil
        file.isCreatedHere = false
        file.isFoundAnnounced = false
        noteSettled(file)
      }
    }
    byID = [:]
  }

  /// Somebody changes the spool behind the daemon's back, while nothing is mounted.
  func editByHand() {
    for name in names where world.strikes(world.scenario.handEdits) {
      guard let file = byName[name] else { continue }
      world.trace("by hand: \(name.displayText)")
      let before = file.bytes
      switch Int.random(in: 0..<5, using: &world.random) {
      case 0: unlink(name)
      case 1: rename(name, to: RelativePath("by hand \(file.inode)"))
      case 2: file.bytes += world.random.bytes(Int.random(in: 1...200, using: &world.random))
      default:
        file.bytes = world.random.bytes(file.bytes.count)
        file.released = nil
      }
      if file.bytes != before {
        file.modifiedNanoseconds = max(file.modifiedNanoseconds, world.time.wallNanoseconds) + 3_000_000_000
      }
      noteSettled(file)
    }
  }

  /// The planted mistake of `overlookHandEdits`: whatever a file holds is what its entry says.
  func overlooking(_ entry: CatalogEntry) -> CatalogEntry {
    guard let file = byInode[entry.inode] else { return entry }
    var entry = entry
    entry.sizeBytes = UInt64(file.bytes.count)
    entry.modifiedNanoseconds = file.modifiedNanoseconds
    return entry
  }

  /// As `Filesystem.evict`: not what was opened, changed or renamed since.
  func evict(_ candidate: EvictionCandidate) -> Bool {
    let id = candidate.id
    guard let file = byID[id], file.activity.epoch == candidate.epoch, file.activity.isQuiet, !file.activity.isGone,
      file.names == candidate.names
    else { return false }
    world.trace("evicts \(file.snapshot.brief)")
    for oracle in world.oracles {
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

  /// As `Filesystem` gives chunks back to the disk. The bytes stay here as what the file ought to hold; nobody reads them.
  func release(_ candidate: ReleaseCandidate) {
    guard let file = byID[candidate.id], !file.activity.isGone else { return }
    for chunk in candidate.chunks {
      let offset = UInt64(chunk.index) * UInt64(candidate.chunkBytes)
      let isStill =
        candidate.isGrowing
        ? file.chunks?.chunkBytes == candidate.chunkBytes && file.quietEpoch(at: offset) == chunk.epoch
        : file.activity.epoch == chunk.epoch && file.activity.isQuiet
      var released = file.released ?? ReleasedChunks(chunkBytes: candidate.chunkBytes)
      guard isStill, released.chunkBytes == candidate.chunkBytes, released.insert(chunk.index) else { continue }
      world.trace("gives up chunk \(chunk.index) of \(file.snapshot.brief)")
      file.released = released
    }
  }

  /// What was given up belongs to a published file now, and to no session any more.
  func delivered(_ id: FileID) {
    if let file = byID[id], file.released != nil { file.isPartlyDelivered = true }
  }

  /// Whether a change needs what was given up; its writer is told so.
  func refuses(_ extent: ContentExtent, of file: File) -> Bool {
    guard file.released?.isNeeded(for: extent) == true else { return false }
    file.fate.lostContent(.changeRefused)
    sink?.handle(.writeFailed(file.id, .changeRefused))
    return true
  }

  /// A daemon has mounted; `identities` are those that it remembers.
  func mounted(_ daemon: any CaptureSink, identities: LookupTable<UInt64, FileID>, hiding hidden: LookupSet<FileID>) {
    sink = daemon
    for file in byInode.sorted().map(\.value) {
      file.id = identities[file.inode] ?? FileID.random(using: &world.random)
      byID[file.id] = file
    }
    let mount = mount
    var delay = Duration.zero
    for file in byInode.sorted().map(\.value) {
      delay += world.random.duration(.microseconds(10)...(.milliseconds(20)))
      if world.bug == .forgetFileAtRestart, world.random.happens(0.5) { continue }
      if hidden.contains(file.id) { continue }
      world.time.after(delay) { [self] in
        guard self.mount == mount, isMounted else { return }
        announceFound(file)
      }
    }
    world.time.after(delay) { [self] in
      guard self.mount == mount, isMounted else { return }
      isScanned = true
      sink?.handle(.scanEnded)
    }
  }

  private func announceFound(_ file: File) {
    guard !file.isFoundAnnounced, !file.isCreatedHere, !file.activity.isGone, file.activity.isQuiet else { return }
    file.isFoundAnnounced = true
    var snapshot = file.snapshot
    if world.bug == .forgetDeadWriters { snapshot.interruption = nil }
    sink?.handle(.found(snapshot))
  }

  // MARK: What programs do

  /// Opens for writing, making the file if there is none.
  func open(_ name: RelativePath) -> File {
    let file = byName[name] ?? create(name)
    tell(file, file.activity.openedForWriting())
    return file
  }

  private func create(_ name: RelativePath) -> File {
    // As on a real disk, the number of a file that is gone is given to a new one.
    var inode: UInt64 = 100
    while byInode[inode] != nil { inode += 1 }
    let file = File(inode: inode, id: FileID.random(using: &world.random), activity: .created)
    file.names = [name]
    touch(file)
    byName[name] = file
    byID[file.id] = file
    byInode[inode] = file
    return file
  }

  /// A call waits until the file's content is delivered.
  func wait(for file: File) {
    if file.activity.isQuiet, !file.activity.isGone { sink?.wait(for: file) }
  }

  func close(_ file: File) { tell(file, file.activity.closedForWriting()) }

  /// The program that had it open is killed.
  func kill(_ file: File) {
    world.trace("writer of \(file.snapshot.brief) is killed")
    if file.activity.hasOpenRevision { file.fate.writerKilled(signal: 9) }
    close(file)
  }

  /// Somebody wants a file as it is: from now on its content may be published. One that is open is settled first.
  func want(_ id: FileID) {
    guard let file = byID[id], file.activity.isQuiet else { return }
    file.wanted = file.bytes
    for oracle in world.oracles { oracle.wanted(file.bytes, names: file.names) }
  }

  /// As `Filesystem.accept`.
  func accept(_ id: FileID, ifUnchangedSince epoch: UInt64) {
    guard let file = byID[id], file.activity.epoch == epoch, file.activity.isQuiet else { return }
    file.fate.accepted()
    noteSettled(file)
  }

  /// Announces a change; the content changes until ``endMutation(_:of:writtenBytes:)``.
  func beginMutation(of file: File, _ extent: ContentExtent) -> ContentMutation {
    if file.activity.needsNewRevision, world.bug != .dropContentWillChange { _ = sink?.contentWillChange(file.id) }
    guard isMounted else { return ContentMutation(extent, epoch: 0) }
    if file.activity.needsNewRevision { file.fate.revisionBegan() }
    let announcement = file.activity.beginMutation()
    let mutation = ContentMutation(extent, epoch: file.activity.epoch)
    if world.bug == .hideRewrites, case .bytes(let range) = extent, range.lowerBound < UInt64(file.bytes.count) {
      file.hiddenEpochs.insert(mutation.epoch)
    } else {
      file.chunks?.begin(mutation)
    }
    if world.bug != .skipEpochCheck { tell(file, announcement) }
    return mutation
  }

  func write(_ file: File, _ bytes: [UInt8], at offset: Int) {
    if file.bytes.count < offset + bytes.count {
      file.bytes += [UInt8](repeating: 0, count: offset + bytes.count - file.bytes.count)
    }
    file.bytes.replaceSubrange(offset..<offset + bytes.count, with: bytes)
    touch(file)
  }

  func truncate(_ file: File, to count: Int) {
    file.bytes =
      count <= file.bytes.count
      ? Array(file.bytes[..<count]) : file.bytes + [UInt8](repeating: 0, count: count - file.bytes.count)
    file.fate.truncated(to: UInt64(count))
    file.released?.cut(at: UInt64(count))
    if file.released?.isEmpty == true {
      file.released = nil
      file.isPartlyDelivered = false
    }
    touch(file)
  }

  func endMutation(_ mutation: ContentMutation, of file: File, writtenBytes: Int = 0) {
    if file.hiddenEpochs.remove(mutation.epoch) == nil {
      file.chunks?.end(mutation, writtenBytes: UInt64(writtenBytes))
    }
    tell(file, file.activity.endMutation())
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
    file.mode = mode
    if !file.activity.isGone { sink?.handle(.attributesChanged(file.snapshot)) }
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
      byID[file.id] = nil
      if file.activity.isQuiet { byInode[file.inode] = nil }
      sink?.handle(.removed(file.id))
    } else {
      noteSettled(file)
      sink?.handle(.namesChanged(file.snapshot))
    }
  }

  private func tell(_ file: File, _ announcement: WriterActivity.Announcement?) {
    if file.activity.isGone, file.activity.isQuiet { byInode[file.inode] = nil }
    noteSettled(file)
    guard let announcement, !file.names.isEmpty else {
      if announcement == .settled { file.chunks = nil }
      return
    }
    let snapshot = file.snapshot
    switch announcement {
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

  private func noteSettled(_ file: File) {
    for oracle in world.oracles { for name in file.names { oracle.taken(name) } }
    // What a dead writer left may not be published.
    guard file.activity.isQuiet, !file.names.isEmpty else { return }
    guard file.fate.interruption == nil || file.wanted == file.bytes else { return }
    file.settledAt = world.time.nanoseconds
    for oracle in world.oracles { oracle.settled(file.bytes, names: file.names) }
    sink?.settled(file)
  }
}

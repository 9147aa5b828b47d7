import FileModel
import Integrity
import Lookup
import UploadEngine

/// The client's catalog and resume records, written as `EngineJournal` writes them: one at a time, named by file, with
/// the content fetched when it is written. The catalog is a database, so a batch is there or not. Resume records go
/// through the real coding to a disk that can tear and lose them.
final class SimulatedJournal {
  private enum CatalogWork { case record, forget }
  private enum ResumeWork { case save, remove }

  /// Entries that were read and are about to be written.
  private struct Window {
    var entries: [CatalogEntry]
    var forgotten: [FileID]
    var discarded: LookupTable<String, DiscardedSession?>
    /// Files that are unloaded after their entries are written.
    var unloads: LookupSet<FileID> = []
  }

  /// The state that outlives the process.
  final class Storage {
    let disk = SimulatedDisk()
    var catalog: LookupTable<FileID, CatalogEntry> = [:]
    /// Sessions that are to be ended.
    fileprivate var discarded: LookupTable<String, DiscardedSession> = [:]
    /// The order in which the rows were written, and up to which the spool's disk has what they describe.
    private var changes: LookupTable<FileID, Int64> = [:]
    private var lastChange: Int64 = 0
    private var onDiskThrough: Int64 = 0
    /// The instance of the spool's filesystem in which rows were written, after this one.
    private var instance = 0
    private var instanceSince: Int64 = 0
    private(set) var masterKey: [UInt8]

    init(masterKey: [UInt8]) { self.masterKey = masterKey }

    var entries: [CatalogEntry] { catalog.sorted().map(\.value) }

    var discardedSessions: [DiscardedSession] { discarded.sorted().map(\.value) }

    /// The entries in the order of their latest recording.
    var entriesByChange: [CatalogEntry] { entries.sorted { (changes[$0.id] ?? 0) < (changes[$1.id] ?? 0) } }

    func put(_ entry: CatalogEntry) {
      catalog[entry.id] = entry
      lastChange += 1
      changes[entry.id] = lastChange
    }

    /// The spool's disk was known to have what the row describes.
    func isOnDisk(_ id: FileID) -> Bool { !isOfRemains(id) && changes[id].map { $0 <= onDiskThrough } ?? false }

    private func isOfRemains(_ id: FileID) -> Bool { catalog[id]?.failureCode == "remains" }

    /// As `Catalog.begin(in:)`.
    func begin(in instance: Int) {
      guard self.instance != instance else { return }
      (self.instance, instanceSince) = (instance, lastChange)
    }

    /// The row was written in this instance.
    func isRecorded(_ id: FileID, in instance: Int) -> Bool {
      !isOfRemains(id) && self.instance == instance && changes[id].map { $0 > instanceSince } ?? false
    }

    /// As `Catalog.beginDiskRound`.
    func beginDiskRound(endingThat number: Int64?) -> (number: Int64, isOfNewRows: Bool) {
      onDiskThrough = max(onDiskThrough, number ?? 0)
      return (lastChange, lastChange > onDiskThrough)
    }

    /// The records that can be read; damaged ones are set aside.
    func records() -> [ResumeRecord] {
      disk.paths(below: "resume/").compactMap { path in
        guard !path.hasSuffix(".tmp"), let bytes = disk.bytes(path) else { return nil }
        return try? ResumeRecordCoding.decode(bytes, masterKey: masterKey).record
      }
    }

    /// As the engine reads them at a start: what the disk cannot return is read again a few times, and then there may be more.
    func load(_ world: World) -> (records: [ResumeRecord], isIncomplete: Bool) {
      let all = records()
      guard world.mayRefuse else { return (all, false) }
      for _ in 0..<3 {
        let readable = all.filter { _ in !world.fails(.recall, of: .client) }
        if readable.count == all.count { return (all, false) }
        world.trace("client: \(all.count - readable.count) records cannot be read")
        if world.random.happens(0.5) { return (readable, world.bug != .forgetUnreadRecords) }
      }
      return ([], world.bug != .forgetUnreadRecords)
    }

    func hasRecord(of id: FileID) -> Bool { session(of: id) != nil }

    /// The session that a file's record names.
    func session(of id: FileID) -> String? {
      disk.bytes(SimulatedJournal.path(id)).flatMap {
        (try? ResumeRecordCoding.decode($0, masterKey: masterKey).record)?.sessionID
      }
    }

    /// The sessions that records name.
    var sessions: LookupSet<String> { LookupSet(records().map(\.sessionID)) }

    /// The files whose records cannot be read.
    func unreadableRecords() -> LookupSet<FileID> {
      let readable = LookupSet(records().map(\.fileID))
      let paths = disk.paths(below: "resume/").filter { !$0.hasSuffix(".tmp") }
      return LookupSet(paths.compactMap { FileID(String($0.dropFirst("resume/".count))) }).subtracting(readable)
    }

    func wipe(_ id: FileID) { disk.unlink(SimulatedJournal.path(id)) }

    /// The spool's state is lost, or was not copied with it.
    func lose() {
      catalog = [:]
      discarded = [:]
      for path in disk.paths(below: "resume/") { disk.unlink(path) }
    }

    /// The damage since the last start.
    func suffer(_ world: World) {
      if world.strikes(world.scenario.lostKeys) {
        world.trace("client: another master key")
        masterKey = world.random.bytes(32)
      }
      for path in disk.paths(below: "resume/") where world.strikes(world.scenario.damagedRecords) {
        world.trace("client: \(path) is damaged")
        disk.damage(path, using: &world.random)
      }
    }
  }

  private unowned let world: World
  private unowned let client: SimulatedClient
  private let storage: Storage
  private var catalog: [(id: FileID, work: CatalogWork)] = []
  private var resume: [(id: FileID, work: ResumeWork)] = []
  private var measures: [FileID] = []
  private var unloads: [FileID] = []
  /// Sessions that are to be ended; nil for those that no longer are.
  private var discarded: LookupTable<String, DiscardedSession?> = [:]
  private var logs: LookupTable<FileID, Log> = [:]
  private var isRunning = false
  private var isDead = false
  /// The number of windows whose entries are to be written again.
  private var refusedWindows = 0
  private var window: Window?
  private var rounds = DiskRounds()
  private var round: Int64?
  private var hasNewRows = true
  /// Files that the rounds know.
  private var inRounds: LookupSet<FileID> = []

  init(_ world: World, _ client: SimulatedClient, _ storage: Storage) {
    self.world = world
    self.client = client
    self.storage = storage
  }

  var isQuiet: Bool {
    !isRunning && unloads.isEmpty && catalog.isEmpty && resume.isEmpty && discarded.isEmpty && window == nil
  }

  func die() { isDead = true }

  func record(_ id: FileID) { set(&catalog, id, .record) }
  func forget(_ id: FileID) { set(&catalog, id, .forget) }
  func unload(_ ids: [FileID]) {
    unloads += ids
    wake()
  }
  func saveResume(_ id: FileID) { set(&resume, id, .save) }
  func removeResume(_ id: FileID) { set(&resume, id, .remove) }
  func note(discarded session: DiscardedSession) { note(session.id, session) }
  func forget(discarded id: String) { note(id, nil) }

  private func note(_ id: String, _ session: DiscardedSession?) {
    discarded[id] = .some(session)
    wake()
  }

  func measure(_ id: FileID) {
    if !measures.contains(id) { measures.append(id) }
    wake()
  }

  private func set<Work>(_ list: inout [(id: FileID, work: Work)], _ id: FileID, _ work: Work) {
    list.removeAll { $0.id == id }
    list.append((id, work))
    wake()
  }

  /// Durable on return. A batch that has been read is written first, or it would bring the receipt back.
  /// False when it cannot be written.
  func markChanged(_ id: FileID) -> Bool {
    if window != nil { commitWindow() }
    guard !isDead, client.admits(.catalog) else { return isDead }
    guard var entry = storage.catalog[id] else { return true }
    entry.contentChanges()
    storage.catalog[id] = entry
    return true
  }

  /// Durable on return: the entry as it is now. False when it is not.
  func recordNow(_ id: FileID) -> Bool {
    if window != nil { commitWindow() }
    guard !isDead, let entry = client.catalogEntry(of: id), client.admits(.catalog) else { return false }
    storage.put(entry)
    hasNewRows = true
    client.checkCatalog([entry])
    client.waits?.recorded([entry])
    return true
  }

  private func wake() {
    guard !isRunning else { return }
    isRunning = true
    next()
  }

  private func next() {
    world.time.after(world.random.duration(.microseconds(5)...(.milliseconds(30)))) { [self] in
      guard !isDead else { return }
      step()
    }
  }

  private func step() {
    if !measures.isEmpty {
      let ids = measures
      measures = []
      for id in ids { client.measure(id) }
    }
    // The catalog first: a record is of no use without the entry that names its file.
    if !catalog.isEmpty || !discarded.isEmpty || !unloads.isEmpty {
      return readWindow()
    } else if let work = resume.first {
      resume.removeFirst()
      switch work.work {
      case .remove:
        logs[work.id] = nil
        storage.disk.unlink(Self.path(work.id))
      case .save: return save(work.id)
      }
    }
    finishStep()
  }

  private func finishStep() {
    if measures.isEmpty, resume.isEmpty, catalog.isEmpty, discarded.isEmpty, unloads.isEmpty {
      isRunning = false
    } else {
      next()
    }
  }

  // MARK: Resume records

  fileprivate static func path(_ id: FileID) -> String { "resume/\(id)" }

  /// What this process has written of a file's record, so that the next save can append to it.
  private struct Log {
    var mark: ResumeSnapshot.Mark
    var envelope: ResumeRecordCoding.Envelope
    var segmentCount: UInt64
  }

  private func save(_ id: FileID) {
    let log = logs.removeValue(forKey: id)
    guard let snapshot = client.resumeSnapshot(of: id, since: log?.mark) else { return finishStep() }
    let steps: [SimulatedStore.Step]
    do {
      steps = try self.steps(of: snapshot, log)
    } catch {
      world.fail(.resumeRecord, "a record cannot be encoded")
      return
    }
    write(steps[...], of: id)
  }

  /// The steps of a save, as `ResumeStore` makes them: changes are appended, everything else replaces the file.
  private func steps(of snapshot: ResumeSnapshot, _ log: Log?) throws -> [SimulatedStore.Step] {
    let id = snapshot.record.fileID
    let path = Self.path(id)
    let disk = storage.disk
    if let changes = snapshot.changes, var log {
      let bytes = try ResumeRecordCoding.segment(log.segmentCount, of: snapshot.record, changes, in: log.envelope)
      log.segmentCount += 1
      log.mark = snapshot.mark
      let next = log
      return [{ try disk.append(path, bytes) }, { try disk.sync(path) }, noting(next, id)]
    }
    let envelope = try ResumeRecordCoding.makeEnvelope(
      sessionID: world.bug == .endlessSessionName ? String(repeating: "x", count: 1 << 16) : snapshot.record.sessionID,
      masterKey: storage.masterKey)
    let bytes = try ResumeRecordCoding.encode(snapshot.record, in: envelope)
    let next = Log(mark: snapshot.mark, envelope: envelope, segmentCount: 1)
    let temporary = path + ".tmp"
    let saved = noting(next, id)
    return [
      {
        disk.unlink(temporary)
        try disk.create(temporary)
        try disk.write(temporary, bytes, at: 0)
      },
      { try disk.sync(temporary) },
      { try disk.rename(temporary, to: path) },
      { try disk.syncNames() },
      saved,
    ]
  }

  private func noting(_ log: Log, _ id: FileID) -> SimulatedStore.Step {
    { [self] in
      logs[id] = log
      if refusedWindows == 0 { client.resumeSaved(id, log.mark) }
    }
  }

  private func write(_ steps: ArraySlice<SimulatedStore.Step>, of id: FileID) {
    guard let step = steps.first else { return finishStep() }
    do {
      try step()
    } catch {
      if error as? DiskFailure == .crashed { return }
      storage.disk.unlink(Self.path(id) + ".tmp")
      return finishStep()
    }
    world.time.after(.microseconds(300)) { [self] in
      if !isDead { write(steps.dropFirst(), of: id) }
    }
  }

  // MARK: Catalog

  private func readWindow() {
    var entries: [CatalogEntry] = []
    var forgotten: [FileID] = []
    for (id, work) in catalog {
      if work == .record, let entry = client.catalogEntry(of: id) {
        entries.append(entry)
      } else if work == .forget {
        forgotten.append(id)
      }
    }
    let further = unloads.filter { id in !catalog.contains { $0.id == id } }
    entries += further.compactMap { client.catalogEntry(of: $0) }
    catalog = []
    window = Window(
      entries: entries, forgotten: forgotten, discarded: discarded, unloads: LookupSet(unloads))
    unloads = []
    discarded = [:]
    world.time.after(world.random.duration(.microseconds(50)...(.milliseconds(20)))) { [self] in
      guard !isDead else { return }
      if window != nil { commitWindow() }
      if !isDead { finishStep() }
    }
  }

  private func commitWindow() {
    guard let window else { return }
    self.window = nil
    guard client.admits(.catalog) else { return retry(window) }
    let (entries, forgotten) = (window.entries, window.forgotten)
    for (id, session) in window.discarded.sorted() { storage.discarded[id] = session }
    for entry in entries { storage.put(entry) }
    hasNewRows = true
    for id in forgotten { storage.catalog[id] = nil }
    client.publications.save()
    client.checkCatalog(entries)
    client.waits?.recorded(entries)
    if !window.unloads.isEmpty {
      let unloaded = entries.filter { window.unloads.contains($0.id) }
      world.time.after(.microseconds(2)) { [self] in if !isDead { client.unloaded(unloaded) } }
    }
    for entry in entries {
      world.time.after(.microseconds(1)) { [self] in
        if !isDead { client.recorded(entry.id, entry.receipt) }
      }
    }
  }

  /// Later entries replace what could not be written.
  private func retry(_ window: Window) {
    world.trace("client: the catalog cannot be written")
    refusedWindows += 1
    if !window.unloads.isEmpty { client.unloaded([]) }
    world.time.after(.seconds(1)) { [self] in
      guard !isDead else { return }
      refusedWindows -= 1
      for (id, session) in window.discarded.sorted() where discarded[id] == nil { note(id, session) }
      for entry in window.entries where !catalog.contains(where: { $0.id == entry.id }) { record(entry.id) }
      for id in window.forgotten where !catalog.contains(where: { $0.id == id }) { forget(id) }
    }
  }

  /// As `EngineJournal`, once a second.
  func checkDisk(_ capture: SimulatedCapture) {
    guard capture.isScanned, refusedWindows == 0 else { return }
    noteDisk(capture)
    guard let step = rounds.poll(), hasNewRows || step == .next else { return }
    hasNewRows = false
    let begun = storage.beginDiskRound(endingThat: step == .next ? round : nil)
    round = begun.number
    rounds.began(isOfNewRows: begun.isOfNewRows)
  }

  /// At an orderly end, when everything is written.
  func endDisk(_ capture: SimulatedCapture) {
    guard capture.isScanned, refusedWindows == 0, isQuiet else { return }
    noteDisk(capture)
    guard rounds.isNothingMissing else { return }
    _ = storage.beginDiskRound(endingThat: storage.beginDiskRound(endingThat: nil).number)
  }

  private func noteDisk(_ capture: SimulatedCapture) {
    let files = capture.onDisk
    let there = LookupSet(files.map { $0.id })
    for id in inRounds.subtracting(there).sorted() { rounds.note(id, isMissing: false) }
    for (id, isMissing) in files { rounds.note(id, isMissing: isMissing) }
    inRounds = there
  }

  /// At an orderly end: everything waiting is written, as far as the disk allows.
  func flush(resuming uploads: [FileID]) {
    for id in uploads where !isDead {
      guard let snapshot = client.resumeSnapshot(of: id, since: nil),
        let steps = try? steps(of: snapshot, nil)
      else { continue }
      for step in steps where (try? step()) == nil { break }
    }
    if window == nil, !catalog.isEmpty || !discarded.isEmpty, !isDead { readWindow() }
    if window != nil { commitWindow() }
  }
}

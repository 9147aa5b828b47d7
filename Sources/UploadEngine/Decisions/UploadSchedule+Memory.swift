public import FileModel
import Lookup

/// Which files go from memory and come back is looked at from time to time.
struct MemoryFit: Sendable {
  /// Files that are held in memory.
  var filesMax: Int
  /// Of these, delivered ones, however much room there is: they only wait to be looked at, and come back when a program does.
  var deliveredMax: Int
  /// Files whose entries are being made durable.
  var going: LookupSet<FileID> = []
  /// Files that are being looked at in the spool.
  var coming: LookupSet<FileID> = []
  /// Files that were not found where they should be, or of which the disk says nothing; until when they are left alone, and since when that is so.
  var absent: LookupTable<FileID, Absence> = [:]
  /// Of these the ones for which `wait` and the drain wait no longer.
  var lasting: LookupSet<FileID> = []
  /// Since when a search for those that were not found is under way.
  var seekingSince: MonotonicTime?
  /// When the next look is taken.
  var lookAt: MonotonicTime?
  /// The place in the table at which the next look goes on.
  var place = Int.max
  /// Files that were looked at in this round over all of them, and whether some could go, or were delivered and could.
  var lookedAtCount = 0
  var hasRoundFiles = false
  var hasRoundDelivered = false
  /// The last round has found delivered files that could go: before they have, none that waits does.
  var hadDelivered = true
  /// A round has found nothing that could go; so often in a row.
  var looksInVain = 0
  /// Files to which something is about to happen, and how often: they stay.
  var kept: LookupTable<FileID, Int> = [:]
  /// Files that programs ask of, until they may go.
  var asked: LookupTable<FileID, MonotonicTime> = [:]
  /// Delivered files are to come back, those that were delivered by then (``FileUpload/deliveredAt``), and stay until that time.
  var deliveredWantedBy: Int64?
  var deliveredStay: MonotonicTime?
  /// Of those that are being looked at, the ones that are to be removed.
  var deliveredComing: LookupSet<FileID> = []

  /// Delivered files that are to be removed are on their way back.
  var isLoadingDelivered: Bool { deliveredWantedBy != nil || !deliveredComing.isEmpty }
  /// It was said that there are more files than memory holds.
  var isSaid = false

  init(filesMax: Int, deliveredMax: Int) {
    self.filesMax = filesMax
    self.deliveredMax = deliveredMax
  }

  /// An unloaded file that could not be met.
  struct Absence: Hashable, Sendable {
    /// It was not met for the first time.
    let firstAt: MonotonicTime
    /// The next search for it counts from then.
    var since: MonotonicTime
    var until: MonotonicTime
    /// Nothing stood there; otherwise the disk did not say it.
    var isMissing: Bool
    /// A search that could not look at everything has not found it either.
    var wasSought = false
  }

  /// The pause before the next look: longer, while too many files are there and none of them can go, and short where not all were looked at.
  func pause(hasSurplus: Bool) -> Duration {
    if !hasSurplus { return Self.lookInterval }
    return lookedAtCount > 0 ? Self.goingOnInterval : Self.lookInterval * (1 << min(looksInVain, 6))
  }

  private static let lookInterval: Duration = .milliseconds(100)
  private static let goingOnInterval: Duration = .milliseconds(10)
}

/// Which files are held in memory (spec A6). Beyond ``MemoryFit/filesMax`` a file that rests is known to the catalog alone: it is *unloaded*,
/// which is as if the mount had been started anew and had not come upon it yet. What happens to it loads it, and so does room.
///
/// Delivered files go first. Of those that are to be delivered the ones go that would have their turn last, and the one whose change is the
/// earliest comes back first.
extension UploadSchedule {
  /// Files that go, or come back, in one go: a transaction of the catalog is for many.
  private static let goingMax = 1024
  private static let comingMax = 256
  /// A look is taken under the lock that each call of a program takes: it goes over so many files, and the next one goes on from there.
  private static let lookedAtMax = 4096
  /// So many files that are to be delivered are in memory, whatever else is, unless that is for fewer than four times as many.
  private var pendingLeast: Int { min(64, max(1, memory.fit.filesMax / 4)) }
  /// What could not be looked at is looked at again after this long.
  private static let comingRest: Duration = .seconds(1)
  /// So long a file stays of which a program asks, and so long delivered ones do for which space was short.
  private static let askedRest: Duration = .seconds(10)

  /// More files may be met: those that are too many have not piled up, or none of them can go.
  public func hasRoomForFiles(at now: ClockReading) -> Bool {
    if !isOverfull { return true }
    return memory.fit.looksInVain > 0 && !isEarlierRunInDoubt(at: now)
  }

  /// Likewise for a file of which a program asks: delivered ones alone keep none waiting, since they go ten seconds after the last question.
  public func hasRoomForAsked(at now: ClockReading) -> Bool { !exceedsMemory || hasRoomForFiles(at: now) }

  /// Of those that are too many more have piled up than they may.
  private var isOverfull: Bool {
    exceedsMemory || files.counts.complete - memory.fit.deliveredMax > memory.fit.deliveredMax / 8
  }

  private var exceedsMemory: Bool { files.count - memory.fit.filesMax > memory.fit.filesMax / 8 }

  private var hasSurplus: Bool {
    files.count >= memory.fit.filesMax || files.counts.complete > memory.fit.deliveredMax
  }

  /// Something may still come of what an earlier run has sent.
  private func isEarlierRunInDoubt(at now: ClockReading) -> Bool {
    requests.ambiguous.isEarlierRunInDoubt(at: now.monotonic)
  }

  /// Plans the next look, where there is something to be looked at.
  mutating func planMemoryCheck(at now: ClockReading) {
    guard
      hasSurplus || memory.unloaded.pendingCount > 0 || memory.fit.deliveredWantedBy != nil
        || !memory.fit.absent.isEmpty,
      memory.fit.lookAt == nil
    else { return }
    planMemoryCheck(within: memory.fit.pause(hasSurplus: hasSurplus), at: now)
  }

  private mutating func planMemoryCheck(within pause: Duration, at now: ClockReading) {
    let time = now.monotonic + pause
    guard memory.fit.lookAt.map({ time < $0 }) ?? true else { return }
    memory.fit.lookAt = time
    timers.insert(.memory, at: time)
  }

  mutating func checkMemory(at now: ClockReading) {
    // Of a look that was planned earlier there is a deadline more.
    guard let time = memory.fit.lookAt, time <= now.monotonic else { return }
    memory.fit.lookAt = nil
    memory.fit.asked = memory.fit.asked.filter { $1 > now.monotonic }
    if !hasSurplus { memory.fit.looksInVain = 0 }
    if hasSurplus, memory.fit.going.isEmpty { unloadSurplus(at: now) }
    loadWhereRoom(at: now)
    seekAbsent(at: now)
    planMemoryCheck(at: now)
  }

  // MARK: - Going

  private mutating func unloadSurplus(at now: ClockReading) {
    // What has just come so that something can be delivered does not go at once.
    let surplus = max(0, min(files.count - memory.fit.filesMax, Self.goingMax, files.counts.pending - pendingLeast))
    let deliveredStay = memory.fit.deliveredStay.map { $0 > now.monotonic } ?? false
    let found = checkFiles(at: now)
    let isRoundOver = memory.fit.lookedAtCount >= files.count
    var batch = deliveredStay ? [] : found.delivered
    if !batch.isEmpty { memory.fit.hasRoundDelivered = true }
    // Delivered ones may be among those that were not looked at yet.
    if isRoundOver || !memory.fit.hadDelivered || isOverfull {
      batch += latestWaiting(countMax: surplus - batch.count, at: now)
      // What waits for its turn is in a queue, and should it be in none it goes as well.
      if batch.isEmpty { batch = Array(found.pending.prefix(surplus)) }
    }
    if !batch.isEmpty {
      memory.fit.hasRoundFiles = true
      memory.fit.going = LookupSet(batch)
      actions.append(.unload(batch))
    }
    if isRoundOver { endRound() }
  }

  private mutating func endRound() {
    if !memory.fit.hasRoundFiles { memory.fit.looksInVain += 1 }
    memory.fit.hadDelivered = memory.fit.hasRoundDelivered
    memory.fit.hasRoundFiles = false
    memory.fit.hasRoundDelivered = false
    memory.fit.lookedAtCount = 0
  }

  /// Of the files whose turn to be looked at it is, those that may go.
  private mutating func checkFiles(at now: ClockReading) -> (delivered: [FileID], pending: [FileID]) {
    var delivered: [FileID] = []
    var pending: [FileID] = []
    if files.count <= Self.lookedAtMax { memory.fit.place = .max }
    let start = min(memory.fit.place, files.count - 1)
    var count = 0
    for file in files.files(from: start, countMax: Self.lookedAtMax) {
      count += 1
      guard mayUnload(file, at: now) else { continue }
      if file.phase == .complete { delivered.append(file.id) } else { pending.append(file.id) }
      if delivered.count >= Self.goingMax { break }
    }
    memory.fit.lookedAtCount += count
    memory.fit.place = start >= count ? start - count : start - count + files.count
    return (delivered, pending)
  }

  /// Of the files that wait for their turn and may go, those whose change is the latest.
  private func latestWaiting(countMax: Int, at now: ClockReading) -> [FileID] {
    guard countMax > 0 else { return [] }
    var found: LookupTable<FileID, UInt64> = [:]
    for waiting in [queues.small.latestFirst, queues.medium.latestFirst, queues.large.latestFirst] {
      var count = 0
      for id in waiting.prefix(Self.lookedAtMax) {
        guard count < countMax else { break }
        guard let file = files.entry(id)?.file, file.phase == .ready, mayUnload(file, at: now) else { continue }
        found[id] = file.changeSequence
        count += 1
      }
    }
    return found.sorted().sorted { $0.value > $1.value }.prefix(countMax).map(\.key)
  }

  /// The catalog says of the file all that there is to say, and nothing is under way, or wanted, that it does not know of.
  private func mayUnload(_ file: FileUpload, at now: ClockReading) -> Bool {
    let id = file.id
    guard !file.isOpen, file.isLocal, file.snapshot.names.count == 1, file.snapshot.interruption == nil,
      !file.snapshot.isPartlyReleased, file.snapshot.diskErrno == nil, !file.mayLackParts, file.growth == nil,
      file.publishing == nil, file.lastFailure == nil, file.writeFailure == nil, file.diskFailure == nil,
      file.diskPatience == nil, file.unreadable == nil, !file.isMetUnread,
      !file.isOfEarlierRun || !isEarlierRunInDoubt(at: now), catalog.claims.isClear(of: id),
      memory.fit.asked[id] == nil, memory.fit.kept[id] == nil, spool.comparisons.current != id,
      catalog.recovery.record(of: id) == nil,
      limits.leavesAlone(file.snapshot.names) == nil
    else { return false }
    switch file.phase {
    case .complete: return file.isShown && file.session == nil && file.transfer == nil
    case .ready: return isUntouched(file)
    case .writing, .held, .ignored, .routedElsewhere, .interrupted, .waiting, .finishing, .failed, .cancelled, .removed:
      return false
    }
  }

  /// Nothing of its content was read, sent or tried.
  private func isUntouched(_ file: FileUpload) -> Bool {
    let id = file.id
    guard file.receipt == nil, file.publishedPaths.isEmpty, file.failures.rounds == 0, !file.isSmallAtWork,
      !file.goesAlone,
      !file.needsNewConnection, file.session.map({ $0.state == .wanted }) ?? true,
      file.transfer.map(\.isUntouched) ?? true, !queues.isWorking(id),
      !openFiles.early.contains(id), destination.refusals.knowsNothing(of: id), !spool.orders.leaving.contains(id)
    else { return false }
    var progress = file.progress
    // The row has it.
    progress.seal = nil
    return progress == FileUpload.Progress()
      && file.snapshot.names.allSatisfy { !requests.isPublishing($0) && !requests.ambiguous.mayCome(under: $0) }
  }

  /// The catalog has these rows, durably: those that still describe their files are known to it alone from now on. Which these are.
  public mutating func unloaded(_ entries: [CatalogEntry], at now: ClockReading) -> [FileID] {
    let going = memory.fit.going
    memory.fit.going = []
    var gone: LookupSet<FileID> = []
    for entry in entries where going.contains(entry.id) {
      guard let file = files[entry.id], mayUnload(file, at: now), catalogEntry(of: entry.id) == entry else { continue }
      memory.unloaded.insert(entry.id, UnloadedFiles.Summary(file))
      files[entry.id] = nil
      actions.append(.hide(entry.id))
      gone.insert(entry.id)
    }
    memory.fit.looksInVain = gone.isEmpty ? memory.fit.looksInVain + 1 : 0
    leaveQueues(gone)
    if !gone.isEmpty, files.count + gone.count >= memory.fit.filesMax, !memory.fit.isSaid {
      memory.fit.isSaid = true
      actions.append(.report(.beyondMemory(filesMax: memory.fit.filesMax)))
    }
    pump(at: now)
    return gone.sorted()
  }

  private mutating func leaveQueues(_ gone: LookupSet<FileID>) {
    guard !gone.isEmpty else { return }
    queues.removeWaiting { gone.contains($0) }
    spool.comparisons.removeWaiting { gone.contains($0) }
  }

  // MARK: - Coming back

  private mutating func loadWhereRoom(at now: ClockReading) {
    guard memory.fit.coming.isEmpty else { return }
    let rests = memory.fit.absent.filter { $1.isMissing || $1.until > now.monotonic }.keys
    if let time = memory.fit.deliveredWantedBy.take() {
      // Should they not be removed after all they stay for a while.
      let spare = memory.fit.filesMax + memory.fit.filesMax / 8 - files.count
      let wanted = memory.unloaded.oldestDelivered(
        countMax: max(1, min(spare, Self.comingMax)), by: time, besides: rests)
      memory.fit.deliveredComing = LookupSet(wanted)
      load(wanted)
    }
    // What cannot go may be more than memory holds, and keeps nothing from being delivered.
    let room = max(
      memory.fit.filesMax - memory.fit.filesMax / 8 - files.count, pendingLeast - files.counts.pending)
    // Where nothing can be sent they would wait in memory as well.
    guard room > 0, destination.gate.isOpen else { return }
    load(memory.unloaded.oldestPending(countMax: min(room, Self.comingMax), besides: rests))
  }

  private mutating func load(_ wanted: [FileID]) {
    guard !wanted.isEmpty else { return }
    for id in wanted { memory.fit.coming.insert(id) }
    actions.append(.load(wanted))
  }

  /// An answer to ``UploadAction/load(_:)``. The events that follow from it have been told by then.
  public mutating func loadEnded(_ id: FileID, _ meeting: SpoolMeeting, at now: ClockReading) {
    memory.fit.coming.remove(id)
    memory.fit.deliveredComing.remove(id)
    defer { pump(at: now) }
    guard memory.unloaded[id] != nil else {
      memory.fit.absent[id] = nil
      return
    }
    catalog.recovery.forgetEntry(of: id)
    var absence =
      memory.fit.absent[id]
      ?? MemoryFit.Absence(firstAt: now.monotonic, since: now.monotonic, until: now.monotonic, isMissing: false)
    absence.until = now.monotonic + Self.comingRest
    switch meeting {
    // A writer has it, and what becomes of that will be told; until then it is not asked for again at once.
    case .met(id), .unreadable: absence.isMissing = false
    // A folder may have been renamed, or taken away for a moment.
    case .met, .missing: absence.isMissing = true
    }
    memory.fit.absent[id] = absence
  }

  /// Files that do not stand where they stood are looked for in all of the spool, and the drain does not wait for ever for those of which the disk
  /// says nothing.
  private mutating func seekAbsent(at now: ClockReading) {
    memory.fit.absent = memory.fit.absent.filter { id, _ in memory.unloaded[id] != nil }
    let lasting =
      memory.fit.absent.filter { id, absence in
        memory.unloaded[id]?.isPending == true && absence.firstAt + Self.absencePatience <= now.monotonic
          // What a search may still find is waited for, however many files it has to go over, and to wait for room for.
          && (!absence.isMissing || absence.wasSought)
      }.keys
    if lasting.count != memory.fit.lasting.count { actions.append(.showSummary) }
    memory.fit.lasting = lasting
    let isDue = memory.fit.absent.keys.contains {
      guard let absence = memory.fit.absent[$0] else { return false }
      return absence.isMissing && absence.since + Self.seekingPatience <= now.monotonic
    }
    guard isDue, memory.fit.seekingSince == nil else { return }
    memory.fit.seekingSince = now.monotonic
    actions.append(.seek)
  }

  /// As long as a call waits for a file that its disk does not say.
  private static let absencePatience: Duration = .seconds(10)
  /// Before what is not there counts as not there (S78e).
  private static let seekingPatience: Duration = .seconds(2)

  /// The file is looked for by a search of the spool.
  public func isSought(_ id: FileID) -> Bool { memory.fit.absent[id]?.isMissing == true }

  /// Those that a search has to find, when it begins.
  public var soughtFiles: [FileID] { memory.fit.absent.filter { $1.isMissing }.sorted().map(\.key) }

  /// The answer to ``UploadAction/seek``: of these files none was found, and each was recalled where the catalog has it. Empty where not
  /// everything could be looked at.
  public mutating func soughtInVain(_ ids: [FileID], at now: ClockReading) {
    let began = memory.fit.seekingSince.take() ?? now.monotonic
    for id in ids where memory.unloaded[id] != nil {
      memory.fit.absent[id] = nil
      vanished(id, at: now)
      memory.unloaded.remove(id)
    }
    for (id, absence) in memory.fit.absent.sorted() where absence.isMissing {
      memory.fit.absent[id]?.since = now.monotonic
      if absence.firstAt <= began { memory.fit.absent[id]?.wasSought = true }
    }
    pump(at: now)
  }

  /// Files that an earlier run has recorded and the search has not found: before it is said to have ended, they are said to be missed.
  var unmetFiles: [FileID] { memory.unloaded.unmet }

  /// The search has found none of these, of which each was recalled: what the catalog says of them counts as that of every other file that is
  /// not in the spool. Memory takes them by and by.
  mutating func missed(_ ids: [FileID], at now: ClockReading) {
    let missed = ids.filter { memory.unloaded[$0]?.isMet == false }
    for id in missed { memory.unloaded.remove(id) }
    let entries = missed.compactMap { catalog.recovery.entry(of: $0) }.filter { !isPutOff($0) }
    endMissed(entries)
    for entry in entries {
      endRecord(of: entry.id, at: now)
      catalog.recovery.forgetEntry(of: entry.id)
    }
  }

  /// Those that were not said to be missed, as those were that are.
  mutating func endUnmet() { for id in memory.unloaded.unmet { memory.unloaded.remove(id) } }

  /// The catalog alone knows the file: before anything is said of it, ``recall(_:)``.
  public func isUnloaded(_ id: FileID) -> Bool { memory.unloaded[id] != nil }

  /// What the catalog says of an unloaded file, just before an event of it.
  public mutating func recall(_ entry: CatalogEntry) {
    // Of a content that is about to change, or was not, more is known than the row says.
    if memory.unloaded[entry.id] != nil, !catalog.claims.isChanging(entry.id) { catalog.recovery.expect(entry) }
  }

  /// What the catalog says of it is known until then.
  func isRecalled(_ id: FileID) -> Bool { catalog.recovery.entry(of: id) != nil }

  /// After the event: what it has not loaded is known to the catalog alone, as before.
  mutating func endRecall(of id: FileID) {
    guard memory.unloaded[id] != nil else { return }
    if files.entry(id) != nil {
      memory.unloaded.remove(id)
    } else if !catalog.claims.isChanging(id) {
      catalog.recovery.forgetEntry(of: id)
    }
  }

  /// A program asks of the file: it stays for a while.
  public mutating func askedOf(_ id: FileID, at now: ClockReading) {
    if files.count >= memory.fit.filesMax, files.entry(id) != nil, memory.fit.asked.count <= memory.fit.filesMax / 8 {
      memory.fit.asked[id] = now.monotonic + Self.askedRest
    }
  }

  /// Something is about to happen to the file that is told afterwards: until ``endKeeping(_:)`` it is not unloaded.
  public mutating func keep(_ id: FileID) { memory.fit.kept[id, default: 0] += 1 }

  /// It has been told, or has not happened.
  public mutating func endKeeping(_ id: FileID) {
    let count = memory.fit.kept[id] ?? 0
    memory.fit.kept[id] = count > 1 ? count - 1 : nil
  }

  /// Space is short, or the time of local copies is over, and what could be removed is known to the catalog alone.
  public mutating func wantDelivered(by time: Int64 = .max, at now: ClockReading) {
    guard memory.fit.deliveredComing.isEmpty else { return }
    let rests = memory.fit.absent.filter { $1.isMissing || $1.until > now.monotonic }.keys
    guard !memory.unloaded.oldestDelivered(countMax: 1, by: time, besides: rests).isEmpty else { return }
    memory.fit.deliveredWantedBy = max(memory.fit.deliveredWantedBy ?? time, time)
    let stay = now.monotonic + (time == .max ? Self.askedRest : Self.expiryRest)
    memory.fit.deliveredStay = max(memory.fit.deliveredStay ?? stay, stay)
    planMemoryCheck(within: .zero, at: now)
  }

  /// What could be removed of those that memory does not hold.
  public var unloadedDeliveredBytes: UInt64 { memory.unloaded.deliveredBytes }

  /// So long those stay whose time is over: they go within that.
  private static let expiryRest: Duration = .seconds(3)

  /// A file comes to be known here. One that was unloaded has the place in the order of changes that it had.
  mutating func takeSequence(of id: FileID) -> UInt64 {
    guard let known = memory.unloaded.remove(id), known.isMet, known.isPending else {
      return files.makeChangeSequence()
    }
    return known.sequence
  }

  /// An unloaded file leaves the spool: what the catalog says of it is what is known.
  mutating func restoreUnloaded(_ id: FileID) {
    guard let known = memory.unloaded[id], files.entry(id) == nil else { return }
    guard known.isMet, let entry = catalog.recovery.takeEntry(of: id) else {
      // As ever, what an earlier run has left before it was found.
      memory.unloaded.remove(id)
      return
    }
    let snapshot = FileSnapshot(
      id: id, epoch: 0, sizeBytes: entry.sizeBytes, modifiedNanoseconds: entry.modifiedNanoseconds, mode: 0,
      inode: entry.inode, names: [entry.path], writableOpens: 0, mutationsInFlight: 0)
    var file = FileUpload(
      snapshot: snapshot, phase: entry.receipt == nil ? .ready : .complete, isOpen: false,
      changeSequence: takeSequence(of: id))
    file.publishedPaths = entry.publishedPaths
    file.takePast(from: entry)
    file.keptSince = known.keptSince
    files[id] = file
    actions.append(.showNames(id))
  }
}

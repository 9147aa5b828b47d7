public import FileModel
import Lookup
public import TransferModel

/// The periodic check of which files are unloaded and loaded.
struct MemoryFit: Sendable {
  /// Files that are kept in memory.
  private(set) var filesMax: Int
  /// Of these, delivered ones, however much room there is: they only wait to be queried, and are loaded when a program does.
  private(set) var deliveredMax: Int
  /// Files whose entries are being made durable to unload them.
  var unloading: LookupSet<FileID> = []
  /// Files that are being checked in the spool to load them.
  var loading: LookupSet<FileID> = []
  /// Files that were not found at their path, or that the disk does not describe, until when they are left alone, and since when that is so.
  var absent: LookupTable<FileID, Absence> = [:]
  /// Of these, files for which `wait` and the drain no longer wait.
  var lasting: LookupSet<FileID> = []
  /// Since when a scan for files that were not found is in progress.
  var scanningSince: MonotonicTime?
  /// When the next check is due.
  var nextCheckAt: MonotonicTime?
  /// The position in the table at which the next check continues.
  var nextPosition = Int.max
  /// The number of files checked in this round over all of them, and whether some could be unloaded, or were delivered
  /// and could.
  var checkedCount = 0
  var hasRoundFiles = false
  var hasRoundDelivered = false
  /// The last round has found delivered files that could be unloaded. Until they are, no waiting file is.
  var hadDelivered = true
  /// How many rounds in a row have found nothing to unload.
  var looksInVain = 0
  /// Files to which something is about to happen, and how often: they stay.
  var kept: LookupTable<FileID, Int> = [:]
  /// Files that programs have queried, until they may be unloaded.
  var asked: LookupTable<FileID, MonotonicTime> = [:]
  /// Delivered files are to be loaded: those that were delivered by then (``FileUpload/deliveredAt``).
  var deliveredWantedBy: Int64?
  /// All delivered files stay until then, because space was short.
  var deliveredStay: MonotonicTime?
  /// Files that were delivered by a time stay for a while, because they are to be removed next.
  var oldestStay: (by: Int64, until: MonotonicTime)?
  /// Of the files that are being loaded, those that are to be removed.
  var deliveredLoading: LookupSet<FileID> = []

  /// Delivered files that are to be removed are being loaded.
  var isLoadingDelivered: Bool { deliveredWantedBy != nil || !deliveredLoading.isEmpty }
  /// The report that there are more files than memory holds was made.
  var isSaid = false

  init(filesMax: Int, deliveredMax: Int) {
    self.filesMax = filesMax
    self.deliveredMax = deliveredMax
  }

  /// The bounds that memory and the settings leave.
  mutating func bound(filesMax: Int, deliveredMax: Int) {
    self.filesMax = filesMax
    self.deliveredMax = deliveredMax
  }

  /// An unloaded file that was not found.
  struct Absence: Hashable, Sendable {
    /// When the file was first not found.
    let firstAt: MonotonicTime
    /// Only a scan that began after this time counts.
    var since: MonotonicTime
    var until: MonotonicTime
    /// Nothing was at its path; otherwise the disk did not describe it.
    var isMissing: Bool
    /// A scan has not found the file either, or could not check everything.
    var wasSought = false
  }

  /// The pause before the next check: longer while too many files are there and none can be unloaded, and short where not all were checked.
  func pause(hasSurplus: Bool) -> Duration {
    if !hasSurplus { return Self.checkInterval }
    return checkedCount > 0 ? Self.continuationInterval : Self.checkInterval * (1 << min(looksInVain, 6))
  }

  private static let checkInterval: Duration = .milliseconds(100)
  private static let continuationInterval: Duration = .milliseconds(10)
}

/// Which files are kept in memory (docs/design/scheduling.md#files-beyond-memory). Beyond ``MemoryFit/filesMax`` a file
/// that rests is known to the catalog alone: it is *unloaded*, as if the mount had just been started and the scan had
/// not found it yet. Events of the file load it, and so does room.
///
/// Delivered files are unloaded first. Of pending files those are unloaded whose turn would come last, and the one with
/// the earliest change is loaded first.
extension UploadSchedule {
  /// The most files that are unloaded at once: a transaction of the catalog is for many.
  private static let unloadingMax = 1024
  private static let loadingMax = 256
  /// A check runs under the lock that each call of a program takes. It covers so many files, and the next one continues from there.
  private static let checkedMax = 4096
  /// So many pending files are in memory, whatever else is, unless memory holds fewer than four times as many.
  private var pendingLeast: Int { min(64, max(1, memory.fit.filesMax / 4)) }
  /// The delay before a file that could not be checked is checked again.
  private static let loadingRetryDelay: Duration = .seconds(1)
  /// How long a file stays that a program has queried, and how long delivered ones do for which space was short.
  private static let askedRest: Duration = .seconds(10)

  /// Memory has room for so many files, and for so many delivered ones among them; the settings may allow fewer.
  mutating func fit(filesMax: Int, deliveredMax: Int) {
    memory.fit.bound(
      filesMax: min(limits.filesInMemory, filesMax), deliveredMax: min(limits.deliveredInMemory, deliveredMax))
  }

  /// Whether more files may be found: the surplus has not accumulated, or none of it can be unloaded.
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

  /// Something that an earlier run has sent may still be published.
  private func isEarlierRunInDoubt(at now: ClockReading) -> Bool {
    requests.ambiguous.isEarlierRunInDoubt(at: now.monotonic)
  }

  /// Plans the next check, where there is something to check.
  mutating func planMemoryCheck(at now: ClockReading) {
    guard
      hasSurplus || memory.unloaded.pendingCount > 0 || memory.fit.deliveredWantedBy != nil
        || !memory.fit.absent.isEmpty,
      memory.fit.nextCheckAt == nil
    else { return }
    planMemoryCheck(within: memory.fit.pause(hasSurplus: hasSurplus), at: now)
  }

  private mutating func planMemoryCheck(within pause: Duration, at now: ClockReading) {
    let time = now.monotonic + pause
    guard memory.fit.nextCheckAt.map({ time < $0 }) ?? true else { return }
    memory.fit.nextCheckAt = time
    timers.insert(.memory, at: time)
  }

  mutating func checkMemory(at now: ClockReading) {
    // A check that was planned earlier leaves an additional deadline.
    guard let time = memory.fit.nextCheckAt, time <= now.monotonic else { return }
    memory.fit.nextCheckAt = nil
    memory.fit.asked = memory.fit.asked.filter { $1 > now.monotonic }
    if !hasSurplus { memory.fit.looksInVain = 0 }
    if hasSurplus, memory.fit.unloading.isEmpty { unloadSurplus(at: now) }
    loadWhereRoom(at: now)
    seekAbsent(at: now)
    planMemoryCheck(at: now)
  }

  // MARK: - Going

  private mutating func unloadSurplus(at now: ClockReading) {
    // A file that was just loaded to be delivered is not unloaded at once.
    let surplus = max(0, min(files.count - memory.fit.filesMax, Self.unloadingMax, files.counts.pending - pendingLeast))
    let found = checkFiles(at: now)
    let isRoundOver = memory.fit.checkedCount >= files.count
    var batch = found.delivered.filter { !staysToBeRemoved($0, at: now) }
    if !batch.isEmpty { memory.fit.hasRoundDelivered = true }
    // Delivered files may be among those that were not checked yet.
    if isRoundOver || !memory.fit.hadDelivered || isOverfull {
      batch += latestWaiting(countMax: surplus - batch.count, at: now)
      // A file that waits for its turn is in a queue. One that is in none is unloaded as well.
      if batch.isEmpty { batch = Array(found.pending.prefix(surplus)) }
    }
    if !batch.isEmpty {
      memory.fit.hasRoundFiles = true
      memory.fit.unloading = LookupSet(batch)
      actions.append(.unload(batch))
    }
    if isRoundOver { endRound() }
  }

  /// The local copy of a delivered file may be about to be removed.
  private func staysToBeRemoved(_ id: FileID, at now: ClockReading) -> Bool {
    if let until = memory.fit.deliveredStay, until > now.monotonic { return true }
    guard let stay = memory.fit.oldestStay, stay.until > now.monotonic else { return false }
    return files.entry(id).map { $0.file.deliveredAt <= stay.by } ?? false
  }

  private mutating func endRound() {
    if !memory.fit.hasRoundFiles { memory.fit.looksInVain += 1 }
    memory.fit.hadDelivered = memory.fit.hasRoundDelivered
    memory.fit.hasRoundFiles = false
    memory.fit.hasRoundDelivered = false
    memory.fit.checkedCount = 0
  }

  /// Of the files whose turn for the check it is, those that may be unloaded.
  private mutating func checkFiles(at now: ClockReading) -> (delivered: [FileID], pending: [FileID]) {
    var delivered: [FileID] = []
    var pending: [FileID] = []
    if files.count <= Self.checkedMax { memory.fit.nextPosition = .max }
    let start = min(memory.fit.nextPosition, files.count - 1)
    var count = 0
    for file in files.files(from: start, countMax: Self.checkedMax) {
      count += 1
      guard mayUnload(file, at: now) else { continue }
      if file.phase == .complete { delivered.append(file.id) } else { pending.append(file.id) }
      if delivered.count >= Self.unloadingMax { break }
    }
    memory.fit.checkedCount += count
    memory.fit.nextPosition = start >= count ? start - count : start - count + files.count
    return (delivered, pending)
  }

  /// Of the files that wait for their turn and may be unloaded, those with the latest change.
  private func latestWaiting(countMax: Int, at now: ClockReading) -> [FileID] {
    guard countMax > 0 else { return [] }
    var found: LookupTable<FileID, UInt64> = [:]
    for waiting in [queues.small.latestFirst, queues.medium.latestFirst, queues.large.latestFirst] {
      var count = 0
      for id in waiting.prefix(Self.checkedMax) {
        guard count < countMax else { break }
        guard let file = files.entry(id)?.file, file.phase == .ready, mayUnload(file, at: now) else { continue }
        found[id] = file.changeSequence
        count += 1
      }
    }
    return found.sorted().sorted { $0.value > $1.value }.prefix(countMax).map(\.key)
  }

  /// The catalog records everything of the file, and nothing is in flight, or wanted, that it does not record.
  private func mayUnload(_ file: FileUpload, at now: ClockReading) -> Bool {
    let id = file.id
    guard !file.isOpen, file.isLocal, file.snapshot.names.count == 1, file.snapshot.interruption == nil,
      !file.snapshot.isPartlyReleased, file.snapshot.diskErrno == nil, !file.copy.mayLackParts, file.growth == nil,
      file.publishing == nil, file.lastFailure == nil, file.writeFailure == nil, file.copy.diskFailure == nil,
      file.copy.diskPatience == nil, file.copy.unreadable == nil, !file.copy.isMetUnread,
      !file.origin.isOfEarlierRun || !isEarlierRunInDoubt(at: now), catalog.claims.isClear(of: id),
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

  /// Nothing of the file's content was read, sent or tried.
  private func isUntouched(_ file: FileUpload) -> Bool {
    let id = file.id
    guard file.receipt == nil, file.publishedPaths.isEmpty, file.failures == FailureStreak(), !file.turn.isSmallAtWork,
      !file.turn.goesAlone,
      !file.turn.needsNewConnection, file.session.map({ $0.state == .wanted }) ?? true,
      file.transfer.map(\.isUntouched) ?? true, !queues.isWorking(id),
      !openFiles.early.contains(id), destination.refusals.knowsNothing(of: id), !spool.orders.leaving.contains(id)
    else { return false }
    return file.progress.isUntouched
      && file.snapshot.names.allSatisfy { !requests.isPublishing($0) && !requests.ambiguous.mayCome(under: $0) }
  }

  /// The catalog has these rows, durably. Those that still describe their files are known to it alone from now on.
  /// Returns which these are.
  public mutating func unloaded(_ entries: [CatalogEntry], at now: ClockReading) -> [FileID] {
    let unloading = memory.fit.unloading
    memory.fit.unloading = []
    var gone: LookupSet<FileID> = []
    for entry in entries where unloading.contains(entry.id) {
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
    guard memory.fit.loading.isEmpty else { return }
    let rests = memory.fit.absent.filter { $1.isMissing || $1.until > now.monotonic }.keys
    if let time = memory.fit.deliveredWantedBy.take() {
      // If they are not removed after all they stay for a while.
      let spare = memory.fit.filesMax + memory.fit.filesMax / 8 - files.count
      let wanted = memory.unloaded.oldestDelivered(
        countMax: max(1, min(spare, Self.loadingMax)), by: time, besides: rests)
      memory.fit.deliveredLoading = LookupSet(wanted)
      load(wanted)
    }
    // Files that cannot be unloaded may exceed memory, and prevent no delivery.
    let room = max(
      memory.fit.filesMax - memory.fit.filesMax / 8 - files.count, pendingLeast - files.counts.pending)
    // Where nothing can be sent they would wait in memory as well.
    guard room > 0, destination.gate.isOpen else { return }
    load(memory.unloaded.oldestPending(countMax: min(room, Self.loadingMax), besides: rests))
  }

  private mutating func load(_ wanted: [FileID]) {
    guard !wanted.isEmpty else { return }
    for id in wanted { memory.fit.loading.insert(id) }
    actions.append(.load(wanted))
  }

  /// An answer to ``UploadAction/load(_:)``. The events that follow from it were handled before.
  public mutating func loadEnded(_ id: FileID, _ result: RescanResult, at now: ClockReading) {
    memory.fit.loading.remove(id)
    memory.fit.deliveredLoading.remove(id)
    defer { pump(at: now) }
    guard memory.unloaded[id] != nil else {
      memory.fit.absent[id] = nil
      return
    }
    catalog.recovery.forgetEntry(of: id)
    var absence =
      memory.fit.absent[id]
      ?? MemoryFit.Absence(firstAt: now.monotonic, since: now.monotonic, until: now.monotonic, isMissing: false)
    absence.until = now.monotonic + Self.loadingRetryDelay
    switch result {
    // A writer has the file, and an event will report its end; until then it is not checked again at once.
    case .found(id), .unreadable: absence.isMissing = false
    // A folder may have been renamed, or removed for a moment.
    case .found, .missing: absence.isMissing = true
    }
    memory.fit.absent[id] = absence
  }

  /// Files that are not at their path are searched for in all of the spool. The drain does not wait for ever for files
  /// that the disk does not describe.
  private mutating func seekAbsent(at now: ClockReading) {
    memory.fit.absent = memory.fit.absent.filter { id, _ in memory.unloaded[id] != nil }
    let lasting =
      memory.fit.absent.filter { id, absence in
        memory.unloaded[id]?.isPending == true && absence.firstAt + Self.absencePatience <= now.monotonic
          // What a scan may still find is waited for, however many files it has to go over, and to wait for room for.
          && (!absence.isMissing || absence.wasSought)
      }.keys
    if lasting.count != memory.fit.lasting.count { actions.append(.showSummary) }
    memory.fit.lasting = lasting
    let isDue = memory.fit.absent.keys.contains {
      guard let absence = memory.fit.absent[$0] else { return false }
      return absence.isMissing && absence.since + Self.seekingPatience <= now.monotonic
    }
    guard isDue, memory.fit.scanningSince == nil else { return }
    memory.fit.scanningSince = now.monotonic
    actions.append(.seek)
  }

  /// How long a call waits for a file that its disk does not describe.
  private static let absencePatience: Duration = .seconds(10)
  /// How long a missing file is searched for before it counts as missing (S78e).
  private static let seekingPatience: Duration = .seconds(2)

  /// A scan of the spool searches for the file.
  public func isSought(_ id: FileID) -> Bool { memory.fit.absent[id]?.isMissing == true }

  /// The files that a scan has to find, when it begins.
  public var soughtFiles: [FileID] { memory.fit.absent.filter { $1.isMissing }.sorted().map(\.key) }

  /// The answer to ``UploadAction/seek``: none of these files was found, and each was recalled where the catalog has
  /// it. Empty where not everything could be checked.
  public mutating func soughtInVain(_ ids: [FileID], at now: ClockReading) {
    let began = memory.fit.scanningSince.take() ?? now.monotonic
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

  /// Files that an earlier run has recorded and the scan has not found: before its end is reported, they are reported as missed.
  var unmetFiles: [FileID] { memory.unloaded.unmet }

  /// The scan has found none of these files, of which each was recalled. Their catalog entries count as those of every
  /// other file that is not in the spool. Memory takes them gradually.
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

  /// Removes the files that were not reported as missed.
  mutating func endUnmet() { for id in memory.unloaded.unmet { memory.unloaded.remove(id) } }

  /// Only the catalog knows the file: ``recall(_:)`` has to come before any event of it.
  public func isUnloaded(_ id: FileID) -> Bool { memory.unloaded[id] != nil }

  /// The catalog's entry of an unloaded file, just before an event of it.
  public mutating func recall(_ entry: CatalogEntry) {
    // Of a content that is or was about to change more is known than the row records.
    if memory.unloaded[entry.id] != nil, !catalog.claims.isChanging(entry.id) { catalog.recovery.expect(entry) }
  }

  /// The catalog's entry of the file is known until the event.
  func isRecalled(_ id: FileID) -> Bool { catalog.recovery.entry(of: id) != nil }

  /// After the event: a file that it has not loaded is known to the catalog alone, as before.
  mutating func endRecall(of id: FileID) {
    guard memory.unloaded[id] != nil else { return }
    if files.entry(id) != nil {
      memory.unloaded.remove(id)
    } else if !catalog.claims.isChanging(id) {
      catalog.recovery.forgetEntry(of: id)
    }
  }

  /// A program queries the file: it stays for a while.
  public mutating func askedOf(_ id: FileID, at now: ClockReading) {
    let (filesMax, deliveredMax) = (memory.fit.filesMax, memory.fit.deliveredMax)
    guard files.count >= filesMax || files.counts.complete >= deliveredMax, files.entry(id) != nil,
      memory.fit.asked.count <= min(filesMax, deliveredMax) / 8
    else { return }
    memory.fit.asked[id] = now.monotonic + Self.askedRest
  }

  /// Something is about to happen to the file that is reported afterwards: until ``endKeeping(_:)`` it is not unloaded.
  public mutating func keep(_ id: FileID) { memory.fit.kept[id, default: 0] += 1 }

  /// The event was reported, or has not happened.
  public mutating func endKeeping(_ id: FileID) {
    let count = memory.fit.kept[id] ?? 0
    memory.fit.kept[id] = count > 1 ? count - 1 : nil
  }

  /// Space is short, or local copies have expired, and the files that could be removed are known to the catalog alone.
  public mutating func wantDelivered(by time: Int64 = .max, at now: ClockReading) {
    guard memory.fit.deliveredLoading.isEmpty else { return }
    let rests = memory.fit.absent.filter { $1.isMissing || $1.until > now.monotonic }.keys
    guard !memory.unloaded.oldestDelivered(countMax: 1, by: time, besides: rests).isEmpty else { return }
    memory.fit.deliveredWantedBy = max(memory.fit.deliveredWantedBy ?? time, time)
    if time == .max {
      memory.fit.deliveredStay = now.monotonic + Self.askedRest
    } else {
      let earlier = memory.fit.oldestStay.flatMap { $0.until > now.monotonic ? $0.by : nil }
      memory.fit.oldestStay = (max(earlier ?? time, time), until: now.monotonic + Self.expiryRest)
    }
    planMemoryCheck(within: .zero, at: now)
  }

  /// Local copies are removed, in this order: older ones that memory does not hold are loaded, to be removed in their turn. The
  /// first of these may stay, as long as programs have them open, so a later one tells what is older.
  public mutating func wantDelivered(olderThan candidates: [EvictionCandidate], at now: ClockReading) {
    // A damaged catalog may hold any time.
    guard let last = candidates.prefix(Self.removedTogether).last, let file = files.entry(last.id)?.file,
      file.deliveredAt > .min
    else { return }
    wantDelivered(by: file.deliveredAt - 1, at: now)
  }

  /// The bytes of removable files that memory does not hold.
  public var unloadedDeliveredBytes: UInt64 { memory.unloaded.deliveredBytes }

  /// How long expired files stay: they are removed within that time.
  private static let expiryRest: Duration = .seconds(3)
  /// Of the files that may be removed so many are compared with those that memory does not hold.
  private static let removedTogether = 64

  /// A file becomes known here. An unloaded one keeps its position in the order of changes.
  mutating func takeSequence(of id: FileID) -> UInt64 {
    guard let known = memory.unloaded.remove(id), known.isMet, known.isPending else {
      return files.makeChangeSequence()
    }
    return known.sequence
  }

  /// An unloaded file leaves the spool: its catalog entry is what is known.
  mutating func restoreUnloaded(_ id: FileID) {
    guard let known = memory.unloaded[id], files.entry(id) == nil else { return }
    guard known.isMet, let entry = catalog.recovery.takeEntry(of: id) else {
      // The file is treated as one that an earlier run has left before it was found.
      memory.unloaded.remove(id)
      return
    }
    let snapshot = FileSnapshot(
      id: id, epoch: 0, sizeBytes: entry.sizeBytes, modifiedNanoseconds: entry.modifiedNanoseconds, mode: 0,
      inode: entry.inode, names: [entry.path], writableOpens: 0, mutationsInFlight: 0)
    var file = FileUpload(
      snapshot: snapshot, phase: entry.receipt == nil ? .ready : .complete, isOpen: false,
      changeSequence: takeSequence(of: id))
    file.publication.recallPaths(of: entry)
    file.takePast(from: entry)
    file.publication.recall(keptSince: known.keptSince)
    files[id] = file
    actions.append(.showNames(id))
  }
}

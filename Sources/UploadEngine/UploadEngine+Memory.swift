public import FileModel
import Lookup
import Logging
import Synchronization
import Threads
import TransferModel

/// Files that memory does not hold, and the way back (``UploadSchedule``).
extension UploadEngine {
  /// Memory does not hold all files: some are known to the catalog alone.
  public var isBeyondMemory: Bool { state.withLock { !$0.schedule.memory.unloaded.isEmpty } }

  /// Memory does not hold the file.
  public func isUnloaded(_ id: FileID) -> Bool { state.withLock { $0.schedule.isUnloaded(id) } }

  /// Returns once more files may be found: what is too much is unloaded as fast as the disk records it.
  public func waitForRoom() { waitForRoom(atMostNanoseconds: .max / 2) { $0.hasRoomForFiles(at: $1) } }

  private func waitForRoom(atMostNanoseconds longest: Int64, _ hasRoom: (UploadSchedule, ClockReading) -> Bool) {
    let end = monotonicNanoseconds() + longest
    while !mayGoOn(hasRoom), monotonicNanoseconds() < end { sleepBriefly() }
  }

  private func sleepBriefly() {
    let due = monotonicNanoseconds() + Self.roomNanoseconds
    loading.wait { _ in monotonicNanoseconds() >= due ? .done(()) : .againBy(nanoseconds: due) }
  }

  /// A program that asks of a file waits for no more than that: of one it may be more than memory is to hold.
  private static let askedNanoseconds: Int64 = 500_000_000

  private static let roomNanoseconds: Int64 = 20_000_000

  private func mayGoOn(_ hasRoom: (UploadSchedule, ClockReading) -> Bool) -> Bool {
    let clocks = configuration.clock.now()
    return state.withLock { state in
      state.isStopped || state.early != nil || hasRoom(state.schedule, state.time.shown(clocks))
    }
  }

  /// So many files are kept in memory: where that is short, what is left of it beside buffers, requests and programs that ask.
  ///
  /// Said once, at the start: what is left later does not tell a machine that needs memory from an upload that has taken its own, for which
  /// the bound leaves room.
  func fitFiles(into availableBytes: UInt64?) {
    guard let availableBytes else { return }
    let bytes = availableBytes - min(availableBytes, Self.bytesBesideFiles)
    let filesMax = max(Self.filesLeast, Int(clamping: bytes / Self.bytesOfFile))
    state.withLock { $0.schedule.fit(filesMax: filesMax, deliveredMax: Self.deliveredMost) }
  }

  /// What a file takes by docs/performance.md (`Benchmarks/run --only pending`), and twice as much again: as much was measured beside small files
  /// that come and go in a group of 48 MiB, of what the allocator keeps, the databases and requests.
  private static let bytesOfFile: UInt64 = 6144
  /// At the start 6 MB, and 20 MB while a large file is sent with the smallest budget; the kernel's own memory counts as well.
  private static let bytesBesideFiles: UInt64 = 34_000_000
  private static let filesLeast = 512
  /// Some 30 MB: a million captures that were delivered long ago are no reason to take what the machine has.
  private static let deliveredMost = 8192

  // MARK: - Before an event

  /// Reads what the catalog says of an unloaded file, before an event that makes it known again.
  func recall(_ event: FileEvent) {
    if event.loads, let id = event.file { recall(id) }
    guard case .scanEnded = event else { return }
    let unmet = state.withLock { $0.schedule.unmetFiles }
    for start in stride(from: 0, to: unmet.count, by: Self.missedTogether) {
      let ids = Array(unmet[start..<min(start + Self.missedTogether, unmet.count)])
      for id in ids { recall(id) }
      apply { $0.missed(ids, at: $1) }
    }
  }

  /// So many rows of files that are not there any more are in memory at once.
  private static let missedTogether = 1024

  /// True where it was unloaded.
  @discardableResult
  private func recall(_ id: FileID) -> Bool {
    guard isUnloaded(id) else { return false }
    guard let entry = entry(of: id) else { return true }
    apply { schedule, _ in schedule.recall(entry) }
    do throws(StorageError) {
      try names.recall([id])
    } catch {
      // Each name is asked for again before it is used.
      logger.error("\(error.message)")
    }
    return true
  }

  /// The disk is asked a few times; what it does not say then is taken for not known, and the file is sent again.
  private func entry(of id: FileID) -> CatalogEntry? {
    for _ in 0..<Self.readingsMax {
      do throws(StorageError) {
        return try catalog.entry(id)
      } catch {
        logger.warning(
          "cannot read what is known of a file; it is tried again", metadata: ["error": "\(error.message)"])
        sleepBriefly()
      }
    }
    return nil
  }

  private static let readingsMax = 5

  /// ``apply(_:)`` for an event that makes a file known again: should it be unloaded just before, it is recalled first.
  func applyLoading(_ event: FileEvent, _ change: (inout UploadSchedule, ClockReading) -> Void) {
    guard event.loads, let id = event.file else { return apply(change) }
    applyLoading(id, change)
  }

  func applyLoading(_ id: FileID, _ change: (inout UploadSchedule, ClockReading) -> Void) {
    // What is not known of it then will not be.
    var isRecalled = state.withLock { $0.schedule.isUnloaded(id) && $0.schedule.isRecalled(id) }
    while true {
      var isDone = false
      apply { schedule, now in
        guard isRecalled || !schedule.isUnloaded(id) else { return }
        isDone = true
        change(&schedule, now)
      }
      if isDone || state.withLock({ $0.isStopped }) { return }
      recall(id)
      isRecalled = true
    }
  }

  // MARK: - On the journal's thread

  func unloaded(_ entries: [CatalogEntry], from contents: any FileContents) {
    var gone: [FileID] = []
    // A call is told of an epoch, which is another one once the file is met again.
    apply { gone = $0.unloaded(entries.filter { !waiters.isAwaited($0.id) }, at: $1) }
    for id in gone { names.unload(id) }
    contents.unload(gone)
  }

  func load(_ ids: [FileID], from contents: any FileContents) {
    for id in ids {
      let entry: CatalogEntry?
      do throws(StorageError) {
        entry = try catalog.entry(id)
      } catch {
        apply { $0.loadEnded(id, .unreadable, at: $1) }
        continue
      }
      let result = entry.map { contents.rescan(at: $0.path) } ?? .missing
      apply { schedule, now in
        if let entry { schedule.recall(entry) }
        schedule.loadEnded(id, result, at: now)
      }
    }
  }

  // MARK: - On a thread of its own

  enum Search: Hashable, Sendable {
    /// For files that were not where they should be.
    case seek
    /// Below a folder that was moved.
    case below(RelativePath)
    case end
  }

  /// A folder was renamed: what memory does not hold of what is below it is met under its new name.
  public func folderMoved(to path: RelativePath) { if isBeyondMemory { search(.below(path)) } }

  /// Starts the thread where there is none, and something is to be searched.
  func search(_ search: Search) {
    searches.withLock { searches, signal in
      // What is to be answered stays.
      if searches.count >= Self.searchesMax {
        searches = searches.filter { $0 == .seek || $0 == .end } + [.below(.root)]
      }
      searches.append(search)
      signal.broadcast()
    }
    guard search != .end else { return }
    let isThere = parts.withLock { parts in
      guard parts.searcher == nil, !isEnding.load(ordering: .acquiring) else { return true }
      parts.searcher = NamedThread("search", .answering) { [self] in runSearches() }
      return parts.searcher != nil
    }
    guard !isThere else { return }
    logger.warning("the system has no thread left to search the spool; it is tried again")
    if search == .seek { apply { $0.soughtInVain([], at: $1) } }
  }

  /// More than that are one search of everything.
  private static let searchesMax = 64

  private func runSearches() {
    guard let contents = parts.withLock({ $0.contents }) else { return }
    while true {
      let next = searches.wait { searches -> Monitor<[Search]>.WaitDecision<Search> in
        searches.contains(.end) ? .done(.end) : searches.isEmpty ? .again : .done(searches.removeFirst())
      }
      switch next {
      case .below(let folder): _ = contents.rescanAll(below: folder) { isUnloaded($0) }
      case .seek: seek(in: contents)
      case .end: return
      }
    }
  }

  private func seek(in contents: any FileContents) {
    let sought = state.withLock { $0.schedule.soughtFiles }
    let hasLookedAtAll = contents.rescanAll(below: .root) { id in state.withLock { $0.schedule.isSought(id) } }
    let left = hasLookedAtAll ? sought.filter { id in state.withLock { $0.schedule.isSought(id) } } : []
    for id in left { recall(id) }
    apply { $0.soughtInVain(left, at: $1) }
  }

  // MARK: - While something happens to a file

  /// Until something happened to the file, and that was told, it is not unloaded.
  public func keep(_ id: FileID) { state.withLock { $0.schedule.keep(id) } }

  /// It was told, or did not happen.
  public func endKeeping(_ id: FileID) { state.withLock { $0.schedule.endKeeping(id) } }

  // MARK: - For programs that ask

  /// Loads the file at a path of the spool, of which a program asks. Waits for the local disk. False where there is none that memory does not
  /// hold.
  public func load(at path: RelativePath) -> Bool {
    guard isBeyondMemory, let contents = parts.withLock({ $0.contents }) else { return false }
    waitForRoom(atMostNanoseconds: Self.askedNanoseconds) { $0.hasRoomForAsked(at: $1) }
    guard case .found(let id) = contents.rescan(at: path) else { return false }
    apply { $0.askedOf(id, at: $1) }
    return true
  }

  /// Of each file that memory does not hold what the sums and its row know, without loading it. Waits for the local disk.
  public func unloadedFiles(after id: FileID, countMax: Int) -> UnloadedPage? {
    let listed: ListedRows
    do throws(StorageError) {
      listed = try catalog.listed(after: id, countMax: countMax)
    } catch {
      return nil
    }
    var page = UnloadedPage()
    page.last = listed.last
    state.withLock { state in
      for row in listed.rows {
        switch state.schedule.listing(of: row.id, recordedAs: row.state) {
        case .inMemory: page.others.append(UnloadedPage.Other(id: row.id, path: row.path, isToLoad: false))
        case .unknown: page.others.append(UnloadedPage.Other(id: row.id, path: row.path, isToLoad: true))
        case .gone: break
        case .unloaded(let fileState, let failure, let sizeBytes):
          page.files.append(
            UnloadedFile(
              id: row.id, path: row.path, state: fileState, sizeBytes: sizeBytes ?? row.sizeBytes, failure: failure))
        }
      }
    }
    return page
  }

  /// What stands in a folder of the spool, where there is something that memory does not hold. Waits for the local disk.
  public func spoolEntries(of folder: RelativePath) -> [SpoolEntry]? {
    guard isBeyondMemory else { return nil }
    return parts.withLock { $0.contents }?.entries(of: folder)
  }
}

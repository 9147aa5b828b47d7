import FileModel
import Logging
import Lookup
import Synchronization
import Threads
import TransferModel

/// What earlier runs have left, and what is reported before that is known.
extension UploadEngine {
  /// How far the reading of what earlier runs left has come.
  enum Loading: Hashable, Sendable {
    case reading
    /// The disk does not let the catalog be read: what is new goes on without it.
    case failing
    /// All is known, or the engine ends.
    case over
  }

  /// Returns once what earlier runs left is known: from then on files that they knew may be reported as found, however many
  /// there are.
  public func waitUntilLoaded() { loading.wait { $0 == .over ? .done(()) : .again } }

  /// Returns once that is known, or is not to be known soon.
  public func waitWhileLoading() { loading.wait { $0 == .reading ? .again : .done(()) } }

  func set(_ new: Loading) {
    loading.withLock { loading, signal in
      guard loading != .over else { return }
      loading = new
      signal.broadcast()
    }
  }

  /// True when an event is kept until earlier runs are known. Where too many are kept already, the caller waits.
  func waitsForEarlierRuns(_ event: StartupEventBuffer.Event) -> Bool {
    while true {
      switch state.withLock({ $0.isStopped ? nil : $0.early?.keep(event) }) {
      case nil, .notKept?: return false
      case .kept?: return true
      case .full?: waitWhileLoading()
      }
    }
  }

  /// Reading takes time for every file of the catalog, and the mount is there meanwhile.
  func loadEarlierRuns() {
    let reading = readRepeatedly("upload records") { () throws(StorageError) in
      let reading = resumeStore.loadAll()
      return (reading, reading.failure)
    }
    for warning in reading?.warnings ?? [] { logger.warning("\(warning)") }
    if let failure = reading?.failure {
      logger.error(
        "not all upload records can be read: what they are of is sent from its beginning, and what lacks parts waits",
        metadata: ["error": "\(failure.message)"])
    }
    // Without it, it is unknown what was delivered, and what is not to be.
    let known = readRepeatedly("the catalog", isEndless: true) { failure in
      goOn(withoutEarlierRuns: reading?.records ?? [], failure)
    } _: { () throws(StorageError) in
      let recorded = try recordedNow()
      return (try EarlierRuns(catalog, recorded, readsAll: readsAllAtOnce(recorded.files.count)), nil)
    }
    guard var known else { return }
    do throws(StorageError) {
      try names.recall(known.entries.filter { !$0.state.isHistory }.map(\.id))
    } catch {
      // Each name is asked for again before it is used.
      logger.error("\(error.message)")
    }
    var formers = FormerPublications()
    while !takeUp(known, reading, after: formers) {
      let unread = state.withLock { known.unrecalled(of: $0.early?.events ?? []) }
      let rows = readRepeatedly("what is known of files", isEndless: true) { failure in
        goOn(withoutEarlierRuns: reading?.records ?? [], failure)
      } _: { () throws(StorageError) in
        var rows: [(FileID, CatalogEntry?)] = []
        for id in unread { rows.append((id, try catalog.entry(id))) }
        return (rows, nil)
      }
      guard let rows else { return }
      known.note(rows)
      // More was met while it was read.
      let found = state.withLock { formers.unasked(of: $0.early?.found ?? []) }
      let answers = readRepeatedly("what was published from where", isEndless: true) { failure in
        goOn(withoutEarlierRuns: reading?.records ?? [], failure)
      } _: { () throws(StorageError) in
        var answers: [(FileID, FormerPublication?)] = []
        for snapshot in found { answers.append((snapshot.id, try former(of: snapshot))) }
        return (answers, nil)
      }
      guard let answers else { return }
      formers.note(answers)
    }
    recordedFiles.withLock { $0 = nil }
    set(.over)
  }

  /// What earlier runs knew counts from now on, and what was reported meanwhile; unless something was met of which it was not asked what
  /// was published in its place. True where it was done, or nothing is done any more.
  private func takeUp(_ known: EarlierRuns, _ reading: ResumeReading?, after formers: FormerPublications) -> Bool {
    var isTaken = true
    change { state, now in
      guard formers.unasked(of: state.early?.found ?? []).isEmpty,
        known.unrecalled(of: state.early?.events ?? []).isEmpty
      else {
        isTaken = false
        return
      }
      let wentOn = state.early?.isForEarlierRunsOnly == true
      // Of what this run has recorded meanwhile it knows more.
      let catalog = wentOn ? known.entries.filter { state.schedule.files[$0.id] == nil } : known.entries
      let unread = wentOn ? known.others.filter { state.schedule.files[$0] == nil } : known.others
      state.schedule.recover(
        RecoveredUploads(
          catalog: catalog, unread: unread, hasDeliveries: known.hasDeliveries, records: reading?.records ?? [],
          lacksRecords: reading?.failure != nil, isCatalogAnew: self.catalog.isAnew, discarded: known.discarded,
          atSeconds: now.wallMilliseconds / 1000))
      if !wentOn { begin(&state, at: now) }
      handle(state.early.take()?.events ?? [], knowing: known, after: formers, &state, at: now)
    }
    return isTaken
  }

  /// Where memory is short, what earlier runs knew of a file is read when it is needed.
  private func readsAllAtOnce(_ count: Int) -> Bool {
    state.withLock { state in
      count < min(state.schedule.memory.fit.filesMax, state.schedule.memory.fit.deliveredMax)
    }
  }

  /// What was read before the mount was there, unless another catalog has taken the place of a damaged one since then.
  private func recordedNow() throws(StorageError) -> RecordedFiles {
    if let known = recordedFiles.withLock({ $0 }), known.damage == catalog.openedDamaged { return known }
    return try catalog.recordedFiles()
  }

  private func begin(_ state: inout State, at now: ClockReading) {
    if configuration.triesCredentials { state.schedule.tryCredentials(at: now) }
    state.schedule.askForLimits(at: now)
  }

  private func handle(
    _ events: [StartupEventBuffer.Event], knowing known: EarlierRuns? = nil,
    after formers: FormerPublications = FormerPublications(), _ state: inout State, at now: ClockReading
  ) {
    for event in events {
      if let entry = event.file.flatMap({ known?.recalled[$0] ?? nil }) { state.schedule.recall(entry) }
      switch event {
      case .reported(let event):
        let former = event.found.flatMap { snapshot in
          state.schedule.mayComeAfterPublication(snapshot) ? formers.known[snapshot.id] : nil
        }
        state.schedule.handle(event, after: former, at: now)
      case .contentWillChange(let id): _ = state.schedule.contentWillChange(id)
      case .contentStays(let id): state.schedule.contentStays(id, at: now)
      }
    }
  }

  /// The catalog cannot be read, and is tried again. Nothing of earlier runs is delivered meanwhile, for it is unknown whether it was, or
  /// was cancelled; what is captured from now on is.
  private func goOn(withoutEarlierRuns records: [ResumeRecord], _ failure: StorageError) {
    change { state, now in
      guard state.early?.isForEarlierRunsOnly == false else { return }
      let others = state.early?.keepOnly(of: LookupSet(knownIdentities.identities)) ?? []
      state.schedule.goOn(besideChunksOf: records.map(\.chunkBytes).max() ?? 0)
      begin(&state, at: now)
      handle(others, &state, at: now)
    }
    set(.failing)
    whenCatalogFails.withLock { $0 }?(failure)
  }

  /// What lay in the spool at the start is not looked for as long as the catalog cannot be read: of this destination, or of another
  /// one that the mount has.
  func searchWaits(for failure: StorageError) {
    apply { $0.searchWaits(reason: failure.message, at: $1) }
  }

  /// Reads until the disk has said everything, with growing pauses; where that has an end, for ten seconds. What was read last; nil
  /// when that was nothing.
  private func readRepeatedly<Reading>(
    _ what: String, isEndless: Bool = false, whenFailing: (StorageError) -> Void = { _ in },
    _ read: () throws(StorageError) -> (Reading, failure: StorageError?)
  ) -> Reading? {
    let end = isEndless ? Int64.max : monotonicNanoseconds() + 10_000_000_000
    var pauseNanoseconds: Int64 = 100_000_000
    while true {
      var last: Reading?
      let failure: StorageError?
      do throws(StorageError) {
        (last, failure) = try read()
      } catch {
        failure = error
      }
      guard let failure else { return last }
      let due = monotonicNanoseconds() + pauseNanoseconds
      guard due < end else { return last }
      logger.warning("cannot read \(what); it is tried again", metadata: ["error": "\(failure.message)"])
      whenFailing(failure)
      let isStopped = loading.wait { loading in
        loading == .over ? .done(true) : monotonicNanoseconds() >= due ? .done(false) : .againBy(nanoseconds: due)
      }
      if isStopped { return last }
      pauseNanoseconds = min(2 * pauseNanoseconds, Int64(DiskPause.secondsMax) * 1_000_000_000)
    }
  }

  /// What was published last at the path of a file that was met.
  func former(of snapshot: FileSnapshot) throws(StorageError) -> FormerPublication? {
    let former = try publications?.former(at: snapshot.names, areCalledAsPaths: !names.areMade) {
      destination.publishedName(for: $0)
    }
    if let former, !former.isOf(snapshot.id), try isRenamedCapture(snapshot) { return nil }
    // What the capture itself is called counts, also where the catalog has lost it.
    if former != nil { try names.recall([snapshot.id]) }
    return former
  }

  /// It is no capture of this destination, and one of another: it was renamed to where it is found.
  private func isRenamedCapture(_ snapshot: FileSnapshot) throws(StorageError) -> Bool {
    guard let isKnownElsewhere = isKnownElsewhere.withLock({ $0 }), try catalog.known(snapshot.id) == nil else {
      return false
    }
    return try isKnownElsewhere(snapshot)
  }

  /// An earlier run has recorded the capture as it lies in the spool, under whatever name. Blocks.
  func hasRecorded(_ snapshot: FileSnapshot) throws(StorageError) -> Bool {
    guard knownIdentities[snapshot.inode] == snapshot.id, let known = try catalog.known(snapshot.id) else {
      return false
    }
    return known.sizeBytes == snapshot.sizeBytes && known.modifiedNanoseconds == snapshot.modifiedNanoseconds
  }
}

extension KnownCaptures {
  /// Those that are doubtful at once, the others when they are asked for.
  init(_ catalog: Catalog) throws(StorageError) {
    self.init()
    doubtful = try catalog.known(onlyDoubtful: true)
    all = { () throws(KnownCapturesUnreadable) in
      do throws(StorageError) {
        return try catalog.known(onlyDoubtful: false)
      } catch {
        throw KnownCapturesUnreadable()
      }
    }
    capture = { id throws(KnownCapturesUnreadable) in
      do throws(StorageError) {
        return try catalog.known(id)
      } catch {
        throw KnownCapturesUnreadable()
      }
    }
    areLost = catalog.isAnew
  }
}

/// What was published in the place of files that were met while earlier runs were being read.
private struct FormerPublications {
  private(set) var known: LookupTable<FileID, FormerPublication> = [:]
  private var asked: LookupSet<FileID> = []

  func unasked(of found: [FileSnapshot]) -> [FileSnapshot] { found.filter { !asked.contains($0.id) } }

  mutating func note(_ answers: [(file: FileID, former: FormerPublication?)]) {
    for (file, former) in answers {
      asked.insert(file)
      known[file] = former
    }
  }
}

/// What the catalog knows at the start.
private struct EarlierRuns {
  /// All of it, or what counts before a file is met.
  private(set) var entries: [CatalogEntry] = []
  /// Files of which there are further entries, in order.
  private(set) var others: [FileID] = []
  /// Of those some have receipts.
  private(set) var hasDeliveries = false
  private(set) var discarded: [DiscardedSession]
  /// Those of files that were reported meanwhile; nil where there is none by now.
  private(set) var recalled: LookupTable<FileID, CatalogEntry?> = [:]

  init(_ catalog: Catalog, _ recorded: RecordedFiles, readsAll: Bool) throws(StorageError) {
    discarded = try catalog.discardedSessions()
    guard !readsAll else {
      entries = try catalog.loadAll()
      return
    }
    // Which uploads have parts of files is known before any of them is ended.
    let known = try catalog.entriesWithPartsElsewhere()
    entries = known.entries
    hasDeliveries = known.hasDeliveries
    let read = LookupSet(entries.map(\.id))
    others = (recorded.files + known.former).filter { !read.contains($0) }.sorted()
  }

  func unrecalled(of events: [StartupEventBuffer.Event]) -> [FileID] {
    events.compactMap(\.file).filter { isUnread($0) && recalled[$0] == nil }
  }

  private func isUnread(_ id: FileID) -> Bool {
    var (start, end) = (0, others.count)
    while start < end {
      let middle = (start + end) / 2
      if others[middle] < id { start = middle + 1 } else { end = middle }
    }
    return start < others.count && others[start] == id
  }

  mutating func note(_ rows: [(file: FileID, entry: CatalogEntry?)]) {
    for (file, entry) in rows { recalled[file] = .some(entry) }
  }
}

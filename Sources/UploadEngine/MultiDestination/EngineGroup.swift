public import FileModel
import Lookup
import Synchronization

/// One engine for each destination, together: the filesystem reports to it as to one engine, and status asks it as one.
///
/// Each engine hears of every file and leaves alone what goes elsewhere (``FileRules/asker``). So each has its own state and receipt
/// for each file, and its own sessions, buffers and connections. No engine waits for another one. What concerns the one copy of a
/// file in the spool is decided here: it goes only when every engine can spare it.
public final class EngineGroup: FileEventSink, StatusSource, Sendable {
  /// An engine and what users call its destination.
  public struct Member: Sendable {
    /// The destination's name.
    public var name: DestinationName
    /// What delivers to it.
    public var engine: UploadEngine

    /// Puts them together.
    public init(_ name: DestinationName, _ engine: UploadEngine) {
      self.name = name
      self.engine = engine
    }
  }

  /// The members, the main destination's first.
  let members: [Member]
  private let waits = Mutex(Waits())
  private let drained = Mutex(Drained())
  let counts: Mutex<SharedCounts>

  private struct Waits {
    var open: LookupTable<UInt64, SharedWait> = [:]
    var lastNumber: UInt64 = 0
  }

  private struct Drained {
    var whenDrained: (@Sendable () -> Void)?
  }

  /// A group of at least one engine.
  public init(_ members: [Member]) {
    precondition(!members.isEmpty, "there is always a main destination")
    self.members = members
    counts = Mutex(SharedCounts(destinationCount: members.count))
    guard members.count > 1 else { return }
    for member in members {
      member.engine.rememberChanges { [weak self] in self?.takeCounts() }
    }
  }

  // MARK: - Life

  /// Names the place where bytes come from; `contents` makes one for each member, so that each follows growing files for
  /// itself. Comes before ``start()``.
  public func attach(contents: (SubscriberID) -> any FileContents) {
    for (number, member) in members.enumerated() {
      let own = contents(SubscriberID(number: number))
      guard members.count > 1 else { return member.engine.attach(contents: own) }
      let others = members.filter { $0.name != member.name }.map(\.engine)
      member.engine.attach(
        contents: SharedContents(
          contents: own, mayGo: { candidate in others.allSatisfy { $0.mayLose(candidate) } },
          countsAsWhole: { id in others.allSatisfy { $0.mayCountAsWhole(id) } }))
      member.engine.isKnownElsewhere.withLock {
        $0 = { snapshot throws(StorageError) in
          for other in others where try other.hasRecorded(snapshot) { return true }
          return false
        }
      }
    }
  }

  /// Starts every engine. As long as one of them cannot read its catalog, all of them wait for the search of the spool.
  public func start() {
    for member in members {
      member.engine.whenCatalogFails.withLock {
        $0 = { [weak self] failure in self?.members.forEach { $0.engine.searchWaits(for: failure) } }
      }
      member.engine.start()
    }
  }

  /// Ends every engine; what is pending is kept.
  public func stop() {
    for member in members { member.engine.stop() }
    let left = waits.withLock { waits in
      defer { waits.open = [:] }
      return waits.open.sorted().map(\.value)
    }
    for wait in left { wait.end() }
  }

  /// Returns once every engine knows what earlier runs left.
  public func waitUntilLoaded() {
    for member in members { member.engine.waitUntilLoaded() }
  }

  /// Returns once every engine knows that, or is not to know it soon.
  public func waitWhileLoading() {
    for member in members { member.engine.waitWhileLoading() }
  }

  /// Links, addresses or routes of this machine have changed.
  public func networkChanged() {
    for member in members { member.engine.networkChanged() }
  }

  /// From now on only what there is will be delivered; `whenDrained` is called whenever the last engine has become idle.
  public func beginDraining(whenDrained: @escaping @Sendable () -> Void) {
    drained.withLock { $0.whenDrained = whenDrained }
    for member in members {
      member.engine.beginDraining { [weak self] in
        guard let self, isDrained else { return }
        drained.withLock { $0.whenDrained }?()
      }
    }
  }

  /// No engine has anything left that it will deliver without help.
  public var isDrained: Bool { members.allSatisfy { $0.engine.isDrained } }

  /// What the catalogs of all engines know: a file has one identity, whichever of them remembers it.
  public var knownIdentities: KnownIdentities {
    members.dropFirst().reduce(members[0].engine.knownIdentities) { $0.merging($1.engine.knownIdentities) }
  }

  /// What the catalogs of all engines know of captures: where they disagree, the doubt counts.
  public var knownCaptures: KnownCaptures {
    let known = members.map(\.engine.knownCaptures)
    var result = KnownCaptures()
    for one in known { result.doubtful.merge(one.doubtful) { first, second in first.doubt == nil ? second : first } }
    result.all = { () throws(KnownCapturesUnreadable) in
      var all: [RelativePath: KnownCapture] = [:]
      for one in known {
        all.merge(try one.all()) { first, second in
          first.isDoubtful || first.isOnDisk && !second.isOnDisk && !second.isDoubtful ? first : second
        }
      }
      return all
    }
    result.capture = { id throws(KnownCapturesUnreadable) in
      for one in known {
        if let capture = try one.capture(id) { return capture }
      }
      return nil
    }
    result.areLost = known.allSatisfy(\.areLost)
    return result
  }

  // MARK: - FileEventSink

  /// Every engine hears it; what happened to the chunks of a file hears the one that asked for it.
  public func handle(_ event: FileEvent) {
    if case .grown(let report) = event {
      guard members.indices.contains(report.subscriber.number) else { return }
      return members[report.subscriber.number].engine.handle(event)
    }
    for member in members { member.engine.handle(event) }
  }

  /// No engine's receipt covers the content any more.
  public func contentWillChange(_ id: FileID) -> Bool {
    let prepared = members.filter { $0.engine.contentWillChange(id) }
    if prepared.count == members.count { return true }
    for member in prepared { member.engine.contentStays(id) }
    return false
  }

  /// What every engine has said of the content holds again.
  public func contentStays(_ id: FileID) {
    for member in members { member.engine.contentStays(id) }
  }

  /// No engine holds the file in memory.
  public func isUnloaded(_ id: FileID) -> Bool { members.allSatisfy { $0.engine.isUnloaded(id) } }

  /// No engine forgets the file meanwhile.
  public func keep(_ id: FileID) { for member in members { member.engine.keep(id) } }

  /// Every engine may forget the file again.
  public func endKeeping(_ id: FileID) { for member in members { member.engine.endKeeping(id) } }

  /// Every engine finds out what has become of the files that it does not hold.
  public func folderMoved(to path: RelativePath) { for member in members { member.engine.folderMoved(to: path) } }

  /// Returns once every engine has room for further files.
  public func waitForRoom() { for member in members { member.engine.waitForRoom() } }

  /// Files that the first engine which could spare them has delivered, and that every other one can spare as well.
  public func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
    SharedCopy.candidates(members.map(\.engine), countMax: countMax)
  }

  /// Of a single engine: several hold all files in memory.
  public func loadCandidates() -> Bool { members.count == 1 && members[0].engine.loadCandidates() }

  /// Of a single engine: several hold all files in memory.
  public var unloadedBytes: UInt64 { members.count == 1 ? members[0].engine.unloadedBytes : 0 }

  /// Chunks of files that go to one destination, which holds them.
  public func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate] {
    for member in members {
      let candidates = member.engine.releaseCandidates(bytesMax: bytesMax)
      if !candidates.isEmpty { return candidates }
    }
    return []
  }

  /// Whether any delivery is in flight whose end may let something be removed.
  public var mayFreeSpace: Bool { members.contains { $0.engine.mayFreeSpace } }

  /// The largest of the limits of those places where it goes: what one of them takes is not refused.
  public func sizeLimit(of id: FileID) -> SizeLimit {
    members.map { $0.engine.sizeLimit(of: id) }.reduce(.notDelivered) { $0.merged(with: $1) }
  }

  /// Calls back when it is delivered everywhere where it goes, or will not be by itself at one of these places.
  public func awaitDelivery(
    of id: FileID, epoch: UInt64, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait {
    guard members.count > 1 else {
      return members[0].engine.awaitDelivery(of: id, epoch: epoch, whenKnown: whenKnown)
    }
    let shared = SharedWait(count: members.count, whenKnown: whenKnown)
    let number = waits.withLock { waits in
      waits.lastNumber += 1
      waits.open[waits.lastNumber] = shared
      return waits.lastNumber
    }
    for member in members {
      let wait = member.engine.awaitDelivery(of: id, epoch: epoch) { [weak self] outcome in
        if shared.hear(outcome) { self?.forget(number) }
      }
      shared.keep(wait, at: member.engine)
    }
    return DeliveryWait(number: number)
  }

  /// No call waits any more.
  public func endWaiting(_ wait: DeliveryWait, for id: FileID) {
    guard members.count > 1 else { return members[0].engine.endWaiting(wait, for: id) }
    guard let shared = forget(wait.number) else { return }
    for (engine, wait) in shared.giveUp() { engine.endWaiting(wait, for: id) }
  }

  @discardableResult
  private func forget(_ number: UInt64) -> SharedWait? {
    waits.withLock { $0.open.removeValue(forKey: number) }
  }
}

/// A call that waits for a delivery to several destinations.
private final class SharedWait: Sendable {
  private struct State {
    var left: Int
    var whenKnown: (@Sendable (DeliveryOutcome) -> Void)?
    var outcome = DeliveryOutcome.notToBeDelivered
    var waits: [(engine: UploadEngine, wait: DeliveryWait)] = []
  }

  private let state: Mutex<State>

  init(count: Int, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void) {
    state = Mutex(State(left: count, whenKnown: whenKnown))
  }

  func keep(_ wait: DeliveryWait, at engine: UploadEngine) {
    state.withLock { $0.waits.append((engine, wait)) }
  }

  /// What became of one of the deliveries; true when nothing is left to wait for.
  func hear(_ outcome: DeliveryOutcome) -> Bool {
    let (told, final) = state.withLock { state -> ((@Sendable (DeliveryOutcome) -> Void)?, DeliveryOutcome) in
      state.left -= 1
      switch outcome {
      case .failed: state.outcome = .failed
      case .delivered: if state.outcome == .notToBeDelivered { state.outcome = .delivered }
      case .notToBeDelivered: break
      }
      guard state.left == 0 || state.outcome == .failed else { return (nil, state.outcome) }
      return (state.whenKnown.take(), state.outcome)
    }
    guard let told else { return false }
    told(final)
    return true
  }

  /// Nothing is delivered any more.
  func end() { state.withLock { $0.whenKnown.take() }?(.failed) }

  /// No call is told any more; what the engines were asked.
  func giveUp() -> [(engine: UploadEngine, wait: DeliveryWait)] {
    state.withLock { state in
      state.whenKnown = nil
      return state.waits
    }
  }
}

/// The captured files for one of several engines: it may remove a local copy, and say that it is whole, only when the
/// others agree.
private struct SharedContents: FileContents {
  let contents: any FileContents
  let mayGo: @Sendable (EvictionCandidate) -> Bool
  let countsAsWhole: @Sendable (FileID) -> Bool

  func snapshot(of id: FileID) -> FileSnapshot? { contents.snapshot(of: id) }
  func sizeBytesSoon(of id: FileID) -> UInt64? { contents.sizeBytesSoon(of: id) }
  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? {
    contents.growth(of: id, chunkBytes: chunkBytes, anew: anew)
  }
  func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64? { contents.stableEpoch(of: id, at: offset) }
  func isChangedOutsideMount(_ id: FileID) -> Bool { contents.isChangedOutsideMount(id) }
  func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool { contents.isReleased(id, range) }
  func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile {
    try contents.openForReading(id)
  }
  func rescan(at path: RelativePath) -> RescanResult { contents.rescan(at: path) }
  func rescanAll(below folder: RelativePath, where isWanted: (FileID) -> Bool) -> Bool {
    contents.rescanAll(below: folder, where: isWanted)
  }
  func unload(_ ids: [FileID]) { contents.unload(ids) }
  func entries(of folder: RelativePath) -> [SpoolEntry]? { contents.entries(of: folder) }
  func evict(_ candidate: EvictionCandidate) -> Bool {
    mayGo(candidate) && contents.evict(candidate)
  }
  /// Otherwise the next start asks for the word again where the file is not delivered, and takes it for no whole one where it is.
  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {
    if countsAsWhole(id) { contents.accept(id, interruption, ifUnchangedSince: epoch) }
  }
}

import FileModel
import Integrity
import TransferModel

/// One file during its upload, from the first writable open to the durable receipt.
///
/// ```
///            opened           settled           published             recorded
///   (new) ──────────► writing ───────► ready ─────────────► finishing ────────► complete
///                        │              ▲ │ failure           │ not recorded
///                        ├──► held ─────┤ ├──► waiting ──► ready   └──► failed
///                        ├► interrupted ┤ └──► failed ── retry ──► ready, finishing
///                        └► waiting ────┘      cancelled ── retry ──► ready
///
///   settled, renamed, retried      to: ready; held (temporary name); interrupted (not whole); waiting (others may follow);
///                                  finishing (its names are published); ignored, routedElsewhere (rule)
///   complete, with another name    to: ready, interrupted
///   any but removed: changed       to: writing, ignored, routedElsewhere; back where the content stays after all
///   any undelivered: cancelled     to: cancelled
///   any but removed: last name gone, or evicted   to: removed, or complete where it was delivered
/// ```
/// The struct holds the state of one file and the transitions that concern it alone. ``UploadSchedule`` owns all files,
/// decides whose turn it is, and turns transitions into actions.
struct FileUpload: Sendable {
  enum Phase: Hashable, Sendable {
    // Every phase but `removed` becomes `writing` at a change, and `removed` with its last name; one of a file that is not
    // delivered becomes `ignored` or `routedElsewhere` by the rule for its names, and all but those two `cancelled` by a
    // user. An evicted file that was delivered becomes `complete`. The further exits are:

    /// The content may change at any time: a writer has it open, or has not settled it since it changed. Settled it
    /// becomes `ready`, `held`, `interrupted`, `waiting`, or `finishing` where its names are published. A content that was
    /// about to change and stays takes back its phase.
    case writing
    /// Settled under a temporary name. Becomes `ready` or `waiting` at a rename, or when a user wants it as it is,
    /// `interrupted` when the disk does not take it.
    case held
    /// By rule the file is never sent, open or not. At a rename it becomes what a settled file does, or `writing`.
    case ignored
    /// By rule the file goes to other destinations only. At a rename it becomes what a settled file does, or `writing`.
    case routedElsewhere
    /// Settled, and not whole; kept until a user asks for it. Becomes `ready` or `writing` then, and what a settled file does once
    /// the disk describes it, its content is proven or its names are others.
    case interrupted
    /// Settled; chunks are read and sent as the schedule allows. Becomes `finishing` when it is published, `waiting` or
    /// `failed` at a failure, `held` or `finishing` at a rename, `interrupted` when the disk does not take it or it is not
    /// what was delivered.
    case ready
    /// A failure that may pass, or another content may follow; tried at this time. Becomes `ready` then, `finishing` when
    /// a publication succeeds after all, and otherwise what `ready` does.
    case waiting(until: MonotonicTime)
    /// The receipt is being made durable. Becomes `complete`, `failed` when the catalog does not take it, and `ready` when
    /// it is sent again.
    case finishing
    /// Delivered, and the catalog knows it. Becomes `ready` or `interrupted` when it has another name to publish, or is
    /// sent again.
    case complete
    /// A failure that does not pass without a user's action. At a retry it becomes what a settled file does, `writing` while
    /// it is open, or `finishing` where it only was not recorded; `complete` once it is recorded after all; and
    /// `interrupted` when the disk does not take it.
    case failed
    /// A user has cancelled the delivery. At a retry it becomes what a settled file does, or `writing` while it is open.
    case cancelled
    /// The last name is gone. Without an exit: a file that returns under its identity is another one.
    case removed(Removal)

    var isRemoved: Bool { if case .removed = self { true } else { false } }
  }

  /// Why nothing of a file is sent from here, by the rule for its names.
  enum Exclusion: Hashable, Sendable {
    case ignored
    case routedElsewhere

    var phase: Phase {
      switch self {
      case .ignored: .ignored
      case .routedElsewhere: .routedElsewhere
      }
    }
  }

  /// The phase of a content that is about to change. Only its own file gives it, and takes it back.
  struct PhaseBeforeChange: Hashable, Sendable {
    let phase: Phase

    fileprivate init(_ phase: Phase) { self.phase = phase }
  }

  /// How a file has left the spool.
  enum Removal: Hashable, Sendable {
    case undelivered
    case delivered
    /// A rule removes what its writer did not finish.
    case byRule
  }

  let id: FileID
  private(set) var snapshot: FileSnapshot
  private(set) var phase: Phase
  /// The last name that the file had; for status after it was removed.
  private(set) var path: RelativePath
  /// Counts complete contents.
  private(set) var revision: UInt64 = 0
  /// The number of the latest content change, over all files.
  private(set) var changeSequence: UInt64
  var writers: WriterActivity
  var copy = SpoolCopy()
  var origin = ContentOrigin()
  @Boxed var session: UploadSession?
  var content = ContentTransfer()
  var publication = FilePublication()
  var turn = FileTurn()
  @BoxedUnlessDefault var failures = FailureStreak()
  @Boxed private(set) var lastFailure: FileStatus.Failure?
  /// The failure of a write since the file was settled. Its writer may still repair it. If not, the content is
  /// interrupted: the reason is this failure, whatever the file failed for before.
  @Boxed private(set) var writeFailure: FileStatus.Failure?

  var isOpen: Bool { writers.isOpen }
  var isLocal: Bool { copy.isLocal }
  var transfer: ChunkTransfer? { content.chunks }
  var growth: FileGrowth? { content.growth }
  var isWholeFile: Bool { content.isWhole }
  var isStreamed: Bool { content.isStreamed }
  var publishing: Publishing? { publication.current }
  var publishedPaths: [RelativePath] { publication.paths }
  var receipt: Receipt? { publication.receipt }

  @Boxed private var begun: Progress?
  /// State of a file that was or is being processed. Most waiting files have none, and there can be many.
  var progress: Progress {
    get { begun ?? Progress() }
    set { begun = newValue == Progress() ? nil : newValue }
  }

  /// The content is to be delivered again, as if nothing of it had been.
  mutating func restart() {
    publication.restart()
    failures = FailureStreak()
    begun = nil
  }

  /// A user's request that the spool may not know after a restart.
  enum UserRequest: Hashable, Sendable {
    /// Publish the file although its writer did not finish it.
    case asIs
    /// The same, under this temporary name.
    case named(RelativePath)
  }

  struct Publishing: Hashable, Sendable {
    var request: HTTPRequestID
    var path: RelativePath
    var epoch: UInt64
    /// The nonce of the session that the publication ends. A session for newer content may have replaced it by then.
    var nonce: [UInt8]
    /// Unless the result is known the publication must not be repeated.
    var isOnce = false
  }

  /// The failure of a file that was being sent when the mount ended, to a destination that should get it once.
  static let unclearAfterCrash = (
    code: StepFailure.Kind.unclearEnd.code,
    message: "The mount or the machine ended while the file was sent, and the server may have it. Look there, and then "
      + "use `uploadfs-mount retry` or `uploadfs-mount cancel`."
  )
  /// The `code` of a file that is delivered, which the catalog does not take.
  static let notRecordedCode = "not-recorded"
  /// The file is delivered, and that cannot be recorded.
  var isUnrecorded: Bool { phase == .failed && receipt != nil && lastFailure?.code == Self.notRecordedCode }

  /// The `code` of a cancelled file in the catalog.
  static let cancelledCode = "cancelled"
  /// The `code` of a file that was cancelled while it was written. What its writers add until their close belongs to
  /// it, and a later change is in the catalog before its first byte.
  static let cancelledOpenCode = "cancelled-while-written"
  /// The `code` in the catalog of a file that is not delivered yet and of which parts are at the server alone.
  static let partsAtServerCode = "parts-at-server"
  /// The `code` in the catalog of a delivery that is known, and of which the spool may have no more than what its disk has left. See
  /// ``KnownCapture/isOnDisk``.
  static let remainsCode = "remains"
  /// The same, where no parts of it are known to be given up.
  static let diskRemainsCode = "remains-of-disk"
  /// The same, of a delivery that is to be repeated if the spool has all of it.
  static let remainsToResendCode = "remains-to-resend"
  /// The `code` in the catalog of a file that is to be published as it is.
  static let publishedAsIsCode = "published-as-is"
  /// Suffix of such a code: the request was made for what a disk had left, or may have. A request from before a power
  /// cut does not apply to that.
  static let ofRemainsSuffix = "-of-remains"
  /// The same, under the temporary name of the file.
  static let publishedAsNamedCode = "published-as-named"

  init(snapshot: FileSnapshot, phase: Phase, isOpen: Bool, changeSequence: UInt64) {
    id = snapshot.id
    self.snapshot = snapshot
    self.phase = phase
    writers = WriterActivity(isOpen: isOpen)
    self.changeSequence = changeSequence
    path = snapshot.names.first ?? .root
  }

  // MARK: - Transitions. Each says from which phases it comes; `Phase.mayBecome` is what is checked. An impossible one
  // is made all the same, and ``FileTable`` notes it as a contradiction.

  /// A writer has the file, or may change it. From any phase but ``Phase/removed``.
  mutating func beginWriting() { phase = .writing }

  /// A rule says that nothing of the file is sent from here. From any phase but ``Phase/removed``; nothing of the content
  /// is delivered.
  mutating func exclude(as exclusion: Exclusion) { phase = exclusion.phase }

  /// The file is settled, and has a temporary name. From any phase but ``Phase/finishing``, ``Phase/complete`` and
  /// ``Phase/removed``.
  mutating func hold() { phase = .held }

  /// The file is settled, and not whole. From any phase but ``Phase/removed``.
  mutating func interrupt(by failure: FileStatus.Failure) {
    phase = .interrupted
    lastFailure = failure
  }

  /// The file is to be sent, or compared, when its turn comes. From any phase but ``Phase/removed``.
  mutating func becomeReady() {
    phase = .ready
    turn.endSmallWork()
  }

  /// A failure is to pass, or another content may follow. From any phase but ``Phase/finishing``, ``Phase/complete`` and
  /// ``Phase/removed``.
  mutating func wait(until time: MonotonicTime) { phase = .waiting(until: time) }

  /// The destination has the content, and the catalog is to say so. From any phase but ``Phase/removed``.
  mutating func beginFinishing() { phase = .finishing }

  /// The content is delivered, and the catalog knows it. From any phase but ``Phase/ignored``, ``Phase/routedElsewhere``
  /// and ``Phase/removed``.
  mutating func complete() {
    phase = .complete
    lastFailure = nil
  }

  /// The failure does not pass by itself. From any phase of a file that is sent but ``Phase/held`` and ``Phase/complete``.
  mutating func fail(_ failure: FileStatus.Failure) {
    phase = .failed
    lastFailure = failure
  }

  /// A user wants nothing of the content delivered. From any phase of a file that is sent and not delivered.
  mutating func cancel(_ failure: FileStatus.Failure) {
    phase = .cancelled
    lastFailure = failure
  }

  /// The file has left the spool. What was wrong with it, and what could be done, is about a file that is there. From any
  /// phase, ``Phase/removed`` as well: by which rule it went may be known later.
  mutating func leaveSpool(as removal: Removal) {
    phase = .removed(removal)
    lastFailure = nil
    writeFailure = nil
  }

  /// What the content was before it is said to change.
  var phaseBeforeChange: PhaseBeforeChange { PhaseBeforeChange(phase) }

  /// A content that was about to change has stayed. From ``Phase/writing``: what has come in between overrides it. A
  /// delivery that the catalog has withdrawn counts once it is recorded anew.
  mutating func stay(as before: PhaseBeforeChange, isToBeRecorded: Bool) {
    guard phase == .writing else { return }
    phase = isToBeRecorded && before.phase == .complete ? .finishing : before.phase
  }

  // MARK: - What is known of the file

  /// The present content, or its delivery, fails.
  mutating func note(_ failure: FileStatus.Failure) { lastFailure = failure }

  /// What it failed for is over, or no longer tells anything.
  mutating func forgetFailure() { lastFailure = nil }

  /// A write has failed; its writer may still repair it.
  mutating func writeFailed(_ failure: FileStatus.Failure) { writeFailure = failure }

  /// The file has another content. Nothing of what was decided of the former one applies.
  mutating func change(to description: FileSnapshot, excludedAs exclusion: Exclusion?, sequence: UInt64) {
    take(description)
    // This change may repair what was wrong with the content.
    snapshot.interruption = nil
    if let exclusion { exclude(as: exclusion) } else { beginWriting() }
    changeSequence = sequence
    lastFailure = nil
    writeFailure = nil
    origin.contentChanged()
    copy.contentChanged(lacksParts: description.isPartlyReleased)
    publication.contentChanged()
    failures.contentChanged()
    turn.contentChanged()
    if var begun {
      begun.contentChanged()
      progress = begun
    }
    writers.changed(isOpen: description.writableOpens > 0)
  }

  /// Its writers are done with it, as the spool now describes it.
  mutating func settle(_ description: FileSnapshot, known: Interruption?, at now: ClockReading) {
    writeFailure = nil
    writers.settled(at: now.wallMilliseconds)
    if description.interruption?.isOfSpool != true { copy.described() }
    take(description, known: known)
    path = snapshot.names.first ?? path
  }

  /// A content is complete.
  mutating func complete(revisionLackingParts lacksParts: Bool) {
    revision += 1
    copy.settled(lacksParts: lacksParts)
    // Work that was left for the file's end is due, also for a file that is held back.
    progress.endReached()
  }

  /// An earlier run has completed so many contents.
  mutating func recall(revision: UInt64) { self.revision = revision }

  /// The catalog's entry of the file that is not there to be read.
  mutating func takePast(from entry: CatalogEntry) {
    revision = entry.revision
    publication.recall(entry)
    writers.recall(openedAt: entry.openedAtMilliseconds, closedAt: entry.closedAtMilliseconds)
  }

  /// Where the file lay, which is in the spool no longer.
  mutating func recall(path: RelativePath) {
    self.path = path
    copy.leave()
  }

  /// The file has these names from now on.
  mutating func rename(as description: FileSnapshot) {
    takeNames(description.names)
    snapshot.isOnDisk = description.isOnDisk
    path = snapshot.names.first ?? path
    publication.keep(description.names)
    if progress.userRequest != nil { progress.keepRequest(under: description.names) }
  }

  /// The file is in the spool no longer, under no name.
  mutating func loseCopy() {
    copy.leave()
    snapshot.names = []
  }

  /// Why the content is not whole; nil where it is, or counts as whole.
  mutating func judge(_ interruption: Interruption?) { snapshot.interruption = interruption }

  /// What the disk lacks of the content.
  mutating func judge(_ interruption: Interruption?, missing: MissingBytes?) {
    snapshot.interruption = interruption
    snapshot.missing = missing
  }

  mutating func measured(_ sizeBytes: UInt64) { snapshot.sizeBytes = sizeBytes }

  mutating func noteOnDisk(_ isOnDisk: Bool) { snapshot.isOnDisk = isOnDisk }

  mutating func takeAttributes(of description: FileSnapshot) {
    snapshot.modifiedNanoseconds = description.modifiedNanoseconds
    snapshot.mode = description.mode
    snapshot.user = description.user
    snapshot.group = description.group
  }

  /// The spool describes the file anew. What was known of an unchanged content stays known.
  mutating func take(_ description: FileSnapshot, known: Interruption?) {
    take(description)
    snapshot.interruption = interruption(in: description) ?? known
  }

  /// The spool describes the file anew.
  mutating func take(_ description: FileSnapshot) {
    let known = snapshot.names
    snapshot = description
    snapshot.names = known
    takeNames(description.names)
  }

  /// Earlier names keep their order, where its status has them as well.
  mutating func takeNames(_ names: [RelativePath]) {
    let known = snapshot.names
    guard names != known else { return }
    snapshot.names = names.map { name in known.first { $0 == name } ?? name }
  }

  /// The next name to publish: a present name of the file that is to be published and does not show this content yet.
  func nextPath(_ limits: UploadLimits) -> RelativePath? {
    snapshot.names.first {
      !publishedPaths.contains($0) && (limits.publishes($0) || progress.userRequest == .named($0))
    }
  }

  /// Why the content that the spool describes is not whole; nil where a user wants it all the same.
  func interruption(in snapshot: FileSnapshot) -> Interruption? {
    guard let interruption = snapshot.interruption, !interruption.isOfSpool else { return snapshot.interruption }
    return interruption == progress.acceptedInterruption ? nil : interruption
  }

  /// The present content may have been published through a session.
  var mayBePublished: Bool { progress.committedEpoch == snapshot.epoch }

  /// The present content is published under a name that the file has. Under a name that it has lost to a temporary one,
  /// another file may be published by now.
  var isShown: Bool { receipt != nil && publishedPaths.contains { snapshot.names.contains($0) } }

  /// A commit of an earlier content is in flight: the session belongs to that content until the answer.
  var isPublishingOlderContent: Bool { publishing.map { $0.epoch != snapshot.epoch } ?? false }

  /// The transfer of a file in one piece.
  static func wholeTransfer(of sizeBytes: UInt64) -> ChunkTransfer {
    ChunkTransfer(plan: ChunkPlan(sizeBytes: sizeBytes, chunkBytes: max(1, Int(clamping: sizeBytes))))
  }

  /// The delivery time, for durations counted from then.
  var deliveredAt: Int64 { publication.deliveredAt }

  /// A publication that is not of the present content in the present session.
  func isOutdated(_ publishing: Publishing) -> Bool {
    publishing.epoch != snapshot.epoch || publishing.nonce != session?.nonce
  }

  /// Chunks of the file may be sent although it is not to be published yet: it is being written, or has a temporary
  /// name.
  var isEarly: Bool {
    switch phase {
    case .writing: growth != nil
    case .held: transfer != nil
    case .ignored, .routedElsewhere, .interrupted, .ready, .waiting, .finishing, .complete, .failed, .cancelled,
      .removed:
      false
    }
  }

  /// The spool's disk is asked again what it holds, and calls wait for the answer.
  var isAwaitingDisk: Bool { phase == .interrupted && copy.diskPatience != nil }

  /// The file counts towards `wait` and towards a drain: it will be delivered without a user's action.
  var isPending: Bool {
    switch phase {
    case .writing, .finishing: true
    case .ready, .waiting: copy.unreadable?.isLasting != true
    case .interrupted: isAwaitingDisk
    case .held, .ignored, .routedElsewhere, .complete, .failed, .cancelled, .removed: false
    }
  }
}

extension FileUpload {
  /// The owner of the file, or its last one; nil where that is not known any more.
  var ownership: FileOwnership? {
    guard snapshot.mode != 0 || snapshot.user != 0 || snapshot.group != 0 else { return nil }
    return FileOwnership(user: snapshot.user, group: snapshot.group, mode: snapshot.mode)
  }
}

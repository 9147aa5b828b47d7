import FileModel

/// One file on its way, from the first writable open to the durable receipt.
///
/// ```
///            opened          settled        every chunk on its way
///   (new) ──────────► writing ──────► ready ──────────────────────► commit ──► finishing ──► complete
///                      ▲  ▲  │ temporary name  ▲ │ failure                                     │
///                      │  │  └────► held ──────┘ ├────► waiting ──► ready                      │
///                      │  │                      └────► failed                                 │
///                      │  └───────────────── changed (any state) ◄─────────────────────────────┘
///                      └ removed (any state) ──► removed       cancel (any state before) ──► cancelled
/// ```
/// The struct holds the facts of one file and the transitions that concern nobody else; ``UploadSchedule`` owns all
/// files, decides whose turn it is, and turns transitions into actions.
struct FileUpload: Sendable {
  enum Phase: Hashable, Sendable {
    /// The content may change at any time: a writer has it open, or has not settled it since it changed.
    /// Becomes `ready`, `held` or `removed`.
    case writing
    /// Settled under a temporary name. Becomes `ready` at a rename, `writing` at a change.
    case held
    /// By rule it is never sent, open or not. Becomes `writing` or `ready` when it gets another name.
    case ignored
    /// A rule says that it goes to other destinations only.
    case routedElsewhere
    /// Settled, and not whole; kept until somebody asks for it. Becomes `ready` then, `writing` at a change.
    case interrupted
    /// Settled; chunks are read and sent as the schedule allows. Becomes `finishing`, `waiting`, `failed`, `writing`.
    case ready
    /// A failure that may pass; tried again at this time. Becomes `ready`, `writing`.
    case waiting(until: MonotonicTime)
    /// The receipt is being made durable. Becomes `complete`, or `writing` if the file changes first.
    case finishing
    /// Delivered, and the catalog knows it. Becomes `writing` at a change, `ready` when it gets another name.
    case complete
    /// Will not pass by itself. Becomes `ready` at a retry, `writing` at a change.
    case failed
    /// Somebody does not want it delivered. Becomes `writing` at a change, `ready` at a retry.
    case cancelled
    /// The last name is gone.
    case removed(Removal)

    var isRemoved: Bool { if case .removed = self { true } else { false } }
  }

  /// How a file has left the spool.
  enum Removal: Hashable, Sendable {
    case undelivered
    case delivered
    /// A rule removes what its writer did not finish.
    case byRule
  }

  let id: FileID
  var snapshot: FileSnapshot
  private(set) var phase: Phase
  /// The last name that the file had; for status after it was removed.
  var path: RelativePath
  /// Between `opened` and `settled`.
  var isOpen: Bool
  /// Counts complete contents.
  var revision: UInt64 = 0
  @Boxed var session: UploadSession?
  var transfer: ChunkTransfer?
  /// While it is written and chunks of it may be sent already.
  var growth: FileGrowth?
  /// The present content goes in one request, not through a session.
  var isWholeFile = false
  /// It is read while it is sent, because it is larger than a buffer.
  var isStreamed = false
  /// Parts of the present content were named to be given up in the spool.
  var mayLackParts = false
  /// The commit, or the whole-file request of an empty file, under way; with the name that it publishes.
  @Boxed var publishing: Publishing?
  /// Names under which the present content is published.
  var publishedPaths: [RelativePath] = []
  @Boxed var receipt: Receipt?
  /// The number of the latest content change, over all files.
  var changeSequence: UInt64
  @BoxedUnlessDefault var failures = FailureStreak()
  @Boxed var lastFailure: FileStatus.Failure?
  /// What a write has failed with since the file was settled. Its writer may still make it good, and if not, the content is
  /// interrupted: whatever the file failed for before, it failed for that.
  @Boxed var writeFailure: FileStatus.Failure?
  /// What the spool's disk refuses the content with; nil while it takes it.
  @Boxed var diskFailure: FileStatus.Failure?
  /// Until when it is waited for although its disk does not say, or has not taken, what it holds; nil once that is over.
  @Boxed var diskPatience: MonotonicTime?
  /// Its copy in the spool cannot be read to be sent; nil while it can.
  @Boxed var unreadable: Unreadable?
  /// Bytes given to this file so far, for fairness; see ``UploadSchedule``.
  var virtualTime: UInt64 = 0
  /// A small file that is read or sent; the others are in the schedule's lists.
  var isSmallAtWork = false
  /// A request that carried it beside others was refused as a whole.
  var goesAlone = false
  /// Until something is acknowledged: its connections did not move.
  var needsNewConnection = false
  var openedAt: Int64?
  var closedAt: Int64?
  var completedAt: Int64?
  /// The same by ``SteadyClock``; nil where an earlier run has delivered it.
  var keptSince: Int64?
  var isLocal = true
  /// An earlier run may have been sending the present content when it ended, and something may still come of that.
  var isOfEarlierRun = false
  /// It was met when the spool could not say what it holds, and that is not known yet.
  var isMetUnread = false
  /// The search has found it, and nothing here knows of a delivery or of a content before this one: the server may have it.
  var mayBeAtServer = false
  /// See ``deliveredChunkBytes``.
  private var formerChunkBytes: UInt32 = 0

  /// How long the chunks are of what is delivered, and otherwise were of what was delivered last; 0 where that is not known, or went in one.
  var deliveredChunkBytes: Int {
    guard let receipt else { return Int(formerChunkBytes) }
    guard let chunkBytes = receipt.chunkBytes, receipt.sizeBytes > UInt64(clamping: chunkBytes) else { return 0 }
    return chunkBytes
  }

  /// The content is about to be another one than that which was delivered.
  mutating func forgetReceipt() {
    formerChunkBytes = UInt32(clamping: deliveredChunkBytes)
    receipt = nil
  }

  @Boxed private var begun: Progress?
  /// What there is to say of a file that has come to work. Most of those that wait have not, and there can be many.
  var progress: Progress {
    get { begun ?? Progress() }
    set { begun = newValue == Progress() ? nil : newValue }
  }

  struct Progress: Hashable, Sendable {
    /// When the first bytes of the file went out.
    var startedAt: Int64?
    /// Likewise; nil where some had gone out in an earlier run.
    var beganAt: MonotonicTime?
    /// Of the present content, once every chunk is known.
    var merkleRoot: [UInt8]?
    var chainTip: [UInt8]?
    var retriedChunks = 0
    var reusedChunks = 0
    /// Sent again at the end of an upload, because their connection was slow.
    var stragglingBytes = 0
    var rate = RateMeter()
    /// What of the present content the rates have counted.
    var countedBytes: UInt64 = 0
    /// How some of the present content has travelled compressed, latest; nil where nothing has.
    var encoding: ChunkEncoding?
    /// What that has saved of a content that is delivered; before that its chunks say it.
    var savedBytes: UInt64 = 0
    /// What the network took of a file that is being streamed.
    var streamedBytes: UInt64 = 0
    var protocolName = ""
    var isPrewarmed = false
    /// Nothing more is sent of it before this time, or before it is complete.
    var earlyRest: MonotonicTime?
    /// Nothing more is sent of it before it is complete.
    var isLeftForTheEnd = false
    /// How often an upload that takes one chunk after another began anew because of rewritten bytes.
    var rowsBegunAnew = 0
    var setbacks = Setbacks()
    /// Chunks that may be under way together; 0 when nothing bounds them.
    var chunksAllowed = 0
    /// What the catalog knows of the present content.
    var seal: ContentSeal?
    /// What it is compared with before anything of it is sent.
    var delivered: DeliveredContent?
    /// A user wants it delivered again, once it is known to be whole.
    var isToResend = false
    /// A user wants the present content published as it is.
    var userRequest: UserRequest?
    /// Why that was not whole. Until the spool has heard of the wish, it goes on saying so.
    var acceptedInterruption: Interruption?
    /// What the spool's disk has lost of it, where the server may have that; until it is delivered.
    var lost: MissingBytes?
    /// Chunks that the server has and the spool's disk has lost.
    var takenOverChunks = 0
    /// The content, by its epoch, that a session may have published. Should it change, the catalog is told first that no session
    /// of it counts any more.
    var committedEpoch: UInt64?
    /// Names that the file has lost while something was being published under them.
    var formerPaths: [RelativePath] = []
    /// Chunks of the present content had gone out in an earlier run.
    var isResumed = false
    /// Of this content or an earlier one, in this run.
    var latest: LatestPublication?

    /// Bytes of the file go out, the first ones or later ones.
    mutating func begin(at now: ClockReading) {
      guard startedAt == nil else { return }
      startedAt = now.wallMilliseconds
      beganAt = isResumed ? nil : now.monotonic
    }
  }

  /// The disk fails, or does not let the daemon in.
  struct Unreadable: Hashable, Sendable {
    var since: MonotonicTime
    /// It was tried again meanwhile. While no other try was made, as with all buffers full, nothing is known of it.
    var isRepeated = false
    /// Since so long that the drain and calls wait for it no longer.
    var isLasting = false
  }

  /// What a user wants that the spool may not know after a restart.
  enum UserRequest: Hashable, Sendable {
    /// Its writer did not finish it; it is published all the same.
    case asIs
    /// Likewise, and under this temporary name.
    case named(RelativePath)
  }

  struct Publishing: Hashable, Sendable {
    var request: HTTPRequestID
    var path: RelativePath
    var epoch: UInt64
    /// Of the session that it ends; a session for newer content may have taken its place by then.
    var nonce: [UInt8]
    /// Unless its end is known it must not be repeated.
    var isOnce = false
  }

  /// What is known of a file that was being sent when the mount ended, to a destination that should get it once.
  static let unclearAfterCrash = (
    code: StepFailure.Kind.unclearEnd.code,
    message: "The mount or the machine ended while the file was sent, and the server may have it. Look there, and then "
      + "use `uploadfs-mount retry` or `uploadfs-mount cancel`."
  )
  /// The `code` of a file that is delivered, which the catalog does not take.
  static let notRecordedCode = "not-recorded"
  /// It is delivered, and that cannot be recorded.
  var isUnrecorded: Bool { phase == .failed && receipt != nil && lastFailure?.code == Self.notRecordedCode }

  /// The `code` of a cancelled file in the catalog.
  static let cancelledCode = "cancelled"
  /// The same of one that was being written at the time: what its writers add until their close belongs to it, and a later change
  /// is in the catalog before its first byte.
  static let cancelledOpenCode = "cancelled-while-written"
  /// The `code` in the catalog of a file that is not delivered yet and of which parts are at the server alone.
  static let partsAtServerCode = "parts-at-server"
  /// The `code` in the catalog of a delivery that is known, and of which the spool may have no more than what its disk has left. See
  /// ``KnownCapture/isOnDisk``.
  static let remainsCode = "remains"
  /// The same, where it is known that no parts of it were given up.
  static let diskRemainsCode = "remains-of-disk"
  /// The same, of one that is to be delivered again if the spool has all of it.
  static let remainsToResendCode = "remains-to-resend"
  /// The `code` in the catalog of a file that is to be published as it is.
  static let publishedAsIsCode = "published-as-is"
  /// Behind the code of such a wish: it was said of what a disk had left, or may have. A wish of before a power cut is not of that.
  static let ofRemainsSuffix = "-of-remains"
  /// The same, under the temporary name that it has.
  static let publishedAsNamedCode = "published-as-named"

  init(snapshot: FileSnapshot, phase: Phase, isOpen: Bool, changeSequence: UInt64) {
    id = snapshot.id
    self.snapshot = snapshot
    self.phase = phase
    self.isOpen = isOpen
    self.changeSequence = changeSequence
    path = snapshot.names.first ?? .root
  }

  // MARK: - Transitions. `Phase.mayBecome` says which phase may follow which.

  /// A writer has the file, or may change it.
  mutating func beginWriting() { phase = .writing }

  /// A rule says that nothing of the file is sent from here: ``Phase/ignored`` or ``Phase/routedElsewhere``; or, after another rename, that
  /// its writer has it.
  mutating func follow(_ rule: Phase) { phase = rule }

  /// The file is settled, and has a temporary name.
  mutating func hold() { phase = .held }

  /// The file is settled, and not whole.
  mutating func interrupt(by failure: FileStatus.Failure) {
    phase = .interrupted
    lastFailure = failure
  }

  /// The file is to be sent, or compared, when its turn comes.
  mutating func becomeReady() {
    phase = .ready
    isSmallAtWork = false
  }

  mutating func wait(until time: MonotonicTime) { phase = .waiting(until: time) }

  /// The destination has the content, and the catalog is to say so.
  mutating func beginFinishing() { phase = .finishing }

  /// The content is delivered, and the catalog knows it.
  mutating func complete() {
    phase = .complete
    lastFailure = nil
  }

  mutating func fail(_ failure: FileStatus.Failure) {
    phase = .failed
    lastFailure = failure
  }

  mutating func cancel(_ failure: FileStatus.Failure) {
    phase = .cancelled
    lastFailure = failure
  }

  /// The file has left the spool. What was wrong with it, and what could be done, is about a file that is there.
  mutating func leaveSpool(as removal: Removal) {
    phase = .removed(removal)
    lastFailure = nil
    writeFailure = nil
  }

  /// A content that was about to change has stayed.
  mutating func goBack(to known: Phase) { phase = known }

  /// The spool describes it anew.
  mutating func take(_ description: FileSnapshot) {
    let known = snapshot.names
    snapshot = description
    snapshot.names = known
    takeNames(description.names)
  }

  /// Names that it had stay in their place, where its status has them as well.
  mutating func takeNames(_ names: [RelativePath]) {
    let known = snapshot.names
    guard names != known else { return }
    snapshot.names = names.map { name in known.first { $0 == name } ?? name }
  }

  /// The next name to publish: one that the file has now, that is to be published and does not show this content yet.
  func nextPath(_ limits: UploadLimits) -> RelativePath? {
    snapshot.names.first {
      !publishedPaths.contains($0) && (limits.publishes($0) || progress.userRequest == .named($0))
    }
  }

  /// Why the content that the spool describes is not whole; nil where that is what a user wants all the same.
  func interruption(in snapshot: FileSnapshot) -> Interruption? {
    guard let interruption = snapshot.interruption, !interruption.isOfSpool else { return snapshot.interruption }
    return interruption == progress.acceptedInterruption ? nil : interruption
  }

  /// The present content may have been published through a session.
  var mayBePublished: Bool { progress.committedEpoch == snapshot.epoch }

  /// The present content is published under a name that the file has. Under one that it has lost, to be called by a temporary one,
  /// another file may be published by now.
  var isShown: Bool { receipt != nil && publishedPaths.contains { snapshot.names.contains($0) } }

  /// A commit of an earlier content is under way: the session belongs to that content until it is answered.
  var isPublishingOlderContent: Bool { publishing.map { $0.epoch != snapshot.epoch } ?? false }

  /// The transfer of a file in one piece.
  static func wholeTransfer(of sizeBytes: UInt64) -> ChunkTransfer {
    ChunkTransfer(plan: ChunkPlan(sizeBytes: sizeBytes, chunkBytes: max(1, Int(clamping: sizeBytes))))
  }

  /// When it was delivered, for what is counted from then.
  var deliveredAt: Int64 { keptSince ?? completedAt ?? 0 }

  /// A publication that is not of the present content in the present session.
  func isOutdated(_ publishing: Publishing) -> Bool {
    publishing.epoch != snapshot.epoch || publishing.nonce != session?.nonce
  }

  /// Its chunks may be sent although it is not to be published yet: it is being written, or has a temporary name.
  var isEarly: Bool {
    switch phase {
    case .writing: growth != nil
    case .held: transfer != nil
    case .ignored, .routedElsewhere, .interrupted, .ready, .waiting, .finishing, .complete, .failed, .cancelled,
      .removed:
      false
    }
  }

  /// Its disk is asked again what it holds, and is waited for.
  var isAwaitingDisk: Bool { phase == .interrupted && diskPatience != nil }

  /// Counts towards `wait` and towards a drain: it will be delivered without anybody's help.
  var isPending: Bool {
    switch phase {
    case .writing, .finishing: true
    case .ready, .waiting: unreadable?.isLasting != true
    case .interrupted: isAwaitingDisk
    case .held, .ignored, .routedElsewhere, .complete, .failed, .cancelled, .removed: false
    }
  }
}

extension FileUpload {
  /// Whose it is, or was; nil where nobody knows any more.
  var ownership: FileOwnership? {
    guard snapshot.mode != 0 || snapshot.user != 0 || snapshot.group != 0 else { return nil }
    return FileOwnership(user: snapshot.user, group: snapshot.group, mode: snapshot.mode)
  }
}

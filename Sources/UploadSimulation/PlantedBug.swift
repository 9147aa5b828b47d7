public import Destinations

/// Mistakes that the simulation can make on purpose, to show that its invariants notice them. Each is planted in the
/// simulation's code around the real code, so no shipped program can make them this way. Mistakes of the schedule are
/// made by changing its inputs and outputs.
public enum PlantedBug: String, CaseIterable, Sendable {
  /// A change is not announced, and a read counts although the file changed meanwhile.
  case skipEpochCheck = "skip-epoch-check"
  /// Bytes that are written once more are not reported to the subscribers of the file's chunks.
  case hideRewrites = "hide-rewrites"
  /// The receiver acknowledges a chunk before it is stored.
  case acknowledgeBeforeWrite = "acknowledge-before-write"
  /// After a restart the digests of the resume record stand for the bytes in the spool.
  case believeRecordedDigests = "believe-recorded-digests"
  /// A receipt counts for whatever the file holds when it comes.
  case ignoreEpochAtCommit = "ignore-epoch-at-commit"
  /// A file is complete before its receipt is in the catalog.
  case completeBeforeDurable = "complete-before-durable"
  /// A file that was closed before a restart is not found after it.
  case forgetFileAtRestart = "forget-file-at-restart"
  /// What the receiver has acknowledged is sent again.
  case resendAcknowledged = "resend-acknowledged"
  /// The commitment chain is not the one of the chunks in their order.
  case wrongChain = "wrong-chain"
  /// A failure is retried without a delay.
  case retryWithoutDelay = "retry-without-delay"
  /// What was set back is tried again at once, as if a user had asked for that.
  case retrySetbacks = "retry-setbacks"
  /// What was published is sent as a whole again every few seconds, as if the server had forgotten it and a user had asked for it.
  case resendPublished = "resend-published"
  /// Pauses grow to two seconds and no further, where the server is one of tus.
  case pausesStay = "pauses-stay"
  /// A file's first chunk is missing when it is to be sent, and is chosen again at once, for ever.
  case chooseAgain = "choose-again"
  /// What ends a file is tried again for ever.
  case triesWithoutEnd = "tries-without-end"
  /// Now and then a buffer does not come back.
  case leakBuffer = "leak-buffer"
  /// The receiver takes the announced digests for those of the bytes.
  case publishUnverified = "publish-unverified"
  /// The commit goes out twice.
  case doubleCommit = "double-commit"
  /// The receiver gives its receipt before the new name is on the disk.
  case skipNameSync = "skip-name-sync"
  /// The receiver publishes data that is not on the disk yet.
  case skipDataSync = "skip-data-sync"
  /// The receiver takes its journal for the data after a power cut.
  case believeChunkJournal = "believe-chunk-journal"
  /// A receipt outlives the content that it was given for.
  case dropContentWillChange = "drop-content-will-change"
  /// A file is published under the name that it had when its upload began.
  case publishUnderOldName = "publish-under-old-name"
  /// A buffer is used again while its request is in flight.
  case releaseBufferEarly = "release-buffer-early"
  /// The end of a request is not reported to the schedule.
  case loseCompletion = "lose-completion"
  /// The receiver stores compressed bytes as they came.
  case storeEncoded = "store-encoded"
  /// Bodies are compressed for a receiver that has not announced that encoding.
  case compressUnasked = "compress-unasked"
  /// Files are compressed together for a receiver that has not announced that encoding.
  case frameUnasked = "frame-unasked"
  /// A session that begins with what is published records chunks that it has not copied.
  case recordUncopied = "record-uncopied"
  /// Every request goes to the first address, whatever its health.
  case stayAtFirstAddress = "stay-at-first-address"
  /// Low memory is not reported.
  case ignoreMemory = "ignore-memory"
  /// A request that a watchdog cancels continues.
  case dropCancels = "drop-cancels"
  /// The schedule is woken by the wall clock, which may be set back meanwhile.
  case wakeByWallClock = "wake-by-wall-clock"
  /// Progress is not reported to watchdogs.
  case hideProgress = "hide-progress"
  /// Watchdogs get a report that everything moves.
  case pretendProgress = "pretend-progress"
  /// Watchdogs get a report that each request comes further than those before it.
  case pretendAdvance = "pretend-advance"
  /// A file's last request waits for a while.
  case dawdle = "dawdle"
  /// The receiver keeps the files of sessions that have ended.
  case keepExpired = "keep-expired"
  /// After a start the receiver does not count what is already there.
  case forgetUsage = "forget-usage"
  /// Local copies are removed although nothing has been delivered.
  case evictUndelivered = "evict-undelivered"
  /// Local copies are removed of what was delivered under a name that it no longer has.
  case evictUnshown = "evict-unshown"
  /// A file whose resume record cannot be read is not found.
  case damagedRecordHidesFile = "damaged-record-hides-file"
  /// What was edited by hand between two starts counts as delivered.
  case overlookHandEdits = "overlook-hand-edits"
  /// What was restored by hand counts as a new content, whatever was delivered.
  case deliverOlder = "deliver-older"

  /// After a restart it is not known that a file was being written when the mount died.
  case forgetDeadWriters = "forget-dead-writers"

  /// A user's decision about a file is forgotten at a restart.
  case forgetWords = "forget-words"

  /// Requests reach the receiver later after the end of their connections than the schedule waits for them.
  case strayLonger = "stray-longer"

  /// The names of captures are forgotten at a restart.
  case forgetNames = "forget-names"

  /// What is about to be published is not recorded: after a crash it counts as another machine's.
  case forgetIntents = "forget-intents"

  /// What was published before the first template counts as never published under that name.
  case overlookPlainNames = "overlook-plain-names"

  /// A new record of names knows nothing of removed captures but their rows, as long as the catalog has these.
  case overlookPublications = "overlook-publications"

  /// After a restart captures have each other's identity where names and numbers are given, as by the inode numbers of a spool that was moved.
  case mistakeIdentities = "mistake-identities"

  /// A name is passed on with its path although the capture that has it still exists, under another path.
  case inheritLivingNames = "inherit-living-names"

  /// Names are taken from any capture that has them, also from another machine's.
  case replaceOthers = "replace-others"

  /// Calls that wait for a delivery take the server's word for it.
  case answerEarly = "answer-early"
  /// Calls that wait for a delivery are not answered.
  case answerLate = "answer-late"

  /// A local copy is removed once the first of several destinations has it.
  case evictForOne = "evict-for-one"
  /// Nothing goes to one destination while another one is away.
  case holdUpOthers = "hold-up-others"

  /// What the receiver has in memory only is given up in the spool.
  case releaseUnsecured = "release-unsecured"
  /// Parts are given up in the spool that neither a resume record nor the file's label records.
  case releaseUnrecorded = "release-unrecorded"
  /// What was given up is read as zeros.
  case readHoles = "read-holes"

  /// The schedule has two requests send one chunk at the same time.
  case doubleChunk = "double-chunk"
  /// The schedule asks a question in more requests than it may have in flight.
  case overbook = "overbook"
  /// The schedule does not order the entry of a delivered file to be written.
  case loseRecord = "lose-record"
  /// The schedule keeps the connections of a stuck file.
  case keepConnections = "keep-connections"
  /// Connections that were idle while the machine slept are used again.
  case keepResting = "keep-resting"
  /// A session has a name that no resume record can hold.
  case endlessSessionName = "endless-session-name"
  /// A refusal of the spool's disk is reported nowhere: an error of its sync is dropped.
  case swallowWriteBackErrors = "swallow-write-back-errors"
  /// Where the spool cannot describe a file, its latest known state is reported.
  case announceLastKnown = "announce-last-known"
  /// The scan of the spool has ended although not everything could be read.
  case endFailedScan = "end-failed-scan"
  /// It is not reported that the scan of the spool cannot continue.
  case hideScanFailure = "hide-scan-failure"
  /// The receiver deletes the sessions that it cannot read at its start.
  case deleteUnreadSessions = "delete-unread-sessions"
  /// Two syncs of a session share the disk's report: what one is told the other never learns.
  case shareSyncReports = "share-sync-reports"
  /// After a restart the receiver takes what memory shows of a session for what its disk has.
  case verifyInMemory = "verify-in-memory"
  /// What is read from the spool's disk again after it has refused it counts as what was written.
  case believePagesReadAgain = "believe-pages-read-again"
  /// A mark that cannot be read counts as none.
  case forgetUnreadMarks = "forget-unread-marks"
  /// An upload of which the record cannot be read at a start is ended instead of continued.
  case forgetUnreadRecords = "forget-unread-records"

  /// A file that was closed counts as whole, also after a power cut.
  case believeClosedMarks = "believe-closed-marks"
  /// A file of a killed writer counts as having the bytes that it was found with, also after a power cut.
  case believeEndedMarks = "believe-ended-marks"
  /// What was being written when the power failed is completed by continuing at its end.
  case goOnAfterCuts = "go-on-after-cuts"
  /// The mark that a file is being changed may reach the disk after the changes.
  case markBesideChanges = "mark-beside-changes"
  /// An upload that was published proves any content that a power cut has restored.
  case believeFormerSessions = "believe-former-sessions"
  /// A file counts as on the disk before the disk has it.
  case unmarkBeforeFlush = "unmark-before-flush"
  /// What is left of a delivered copy is published under its next name.
  case publishRemainsAnew = "publish-remains-anew"
  /// A copy without a label counts as whole.
  case believeBareCopies = "believe-bare-copies"
  /// A copy of the known size counts as whole, whether or not the disk was known to have its bytes when the power
  /// failed.
  case believeSizes = "believe-sizes"
  /// The session of a file of which the catalog has no row is ended.
  case endRowlessSessions = "end-rowless-sessions"
  /// The location of a file's parts is not read from the file.
  case overlookPointers = "overlook-pointers"
  /// Records of sessions with chunks of another size than the settings' are wiped, and the sessions ended.
  case wipeOtherSizes = "wipe-other-sizes"
  /// The receiver expires sessions that a client relies upon.
  case expireReliedUpon = "expire-relied-upon"

  /// The transport does not report how much of a request can have left the process, so a server may have all of it.
  case hideHandedOver = "hide-handed-over"

  /// Over a line one request follows the other.
  case oneStream = "one-stream"
  /// A request is ended after ten seconds, however it moves.
  case breakAtTimeout = "break-at-timeout"
  /// Requests are as long as they may be, however slow the line is.
  case drownLine = "drown-line"
  /// The shown remaining time is seconds old.
  case staleEstimate = "stale-estimate"
  /// What waits in the socket of a connection counts as sent.
  case countHandedOver = "count-handed-over"

  /// Of many clients one is told to come back each time.
  case starveOne = "starve-one"
  /// Many clients do not wait before trying again.
  case storm
  /// Many clients begin anew when the receiver is back, as if each had lost its records.
  case loseUploads = "lose-uploads"
  /// A receiver that comes back knows nothing of what it has published.
  case forgetReceipts = "forget-receipts"

  /// What memory does not hold does not come back.
  case leaveUnloaded = "leave-unloaded"

  /// A removed file is reported as changed.
  case speakOfRemoved = "speak-of-removed"

  /// Something happens again and again, and time hardly passes.
  case spin = "spin"

  /// The scenario in which the mistake does most harm.
  public var scenario: Scenario {
    switch self {
    case .skipEpochCheck, .strayLonger, .forgetIntents: .hasty
    case .hideRewrites: .recorders
    case .speakOfRemoved: .clock
    case .dropContentWillChange: .clock
    case .leakBuffer, .doubleCommit, .wrongChain, .resendAcknowledged, .completeBeforeDurable,
      .ignoreEpochAtCommit, .publishUnderOldName, .releaseBufferEarly, .loseCompletion, .dawdle, .keepExpired,
      .doubleChunk, .loseRecord, .endlessSessionName, .replaceOthers, .resendPublished, .chooseAgain,
      .spin, .recordUncopied:
      .calm
    case .storeEncoded, .compressUnasked, .stayAtFirstAddress: .addresses
    case .frameUnasked: .crowd
    case .ignoreMemory: .pressure
    case .wakeByWallClock: .clock
    case .forgetWords: .words
    case .leaveUnloaded: .unloading
    case .forgetNames, .overlookPlainNames, .overlookPublications, .mistakeIdentities, .inheritLivingNames: .templates
    case .evictForOne, .evictUnshown, .holdUpOthers: .several
    case .answerEarly, .answerLate: .waiting
    case .retrySetbacks: .liar
    case .triesWithoutEnd: .refusingS3
    case .pausesStay: .lyingTus
    case .hideHandedOver: .jumpingTus
    case .dropCancels, .hideProgress, .pretendProgress, .keepConnections: .hangs
    case .pretendAdvance: .blackHole
    case .forgetUsage: .quota
    case .releaseUnsecured, .releaseUnrecorded, .readHoles: .shortage
    case .evictUndelivered, .damagedRecordHidesFile, .overlookHandEdits, .deliverOlder, .keepResting: .ages
    case .publishUnverified: .proxy
    case .retryWithoutDelay, .acknowledgeBeforeWrite, .forgetFileAtRestart, .believeRecordedDigests, .forgetDeadWriters,
      .overbook:
      .crashes
    case .skipNameSync, .skipDataSync, .believeChunkJournal: .power
    case .swallowWriteBackErrors, .announceLastKnown, .endFailedScan, .hideScanFailure, .forgetUnreadMarks: .spoolDisk
    case .forgetUnreadRecords, .believePagesReadAgain: .unreadRecords
    case .believeClosedMarks, .markBesideChanges, .unmarkBeforeFlush, .publishRemainsAnew, .goOnAfterCuts: .spoolPower
    case .believeEndedMarks: .killedWriters
    case .believeFormerSessions: .comebacks
    case .endRowlessSessions, .overlookPointers, .wipeOtherSizes, .expireReliedUpon: .lostStates
    case .believeBareCopies, .believeSizes: .bareCopies
    case .deleteUnreadSessions, .shareSyncReports, .verifyInMemory: .receiverDisk
    case .oneStream, .breakAtTimeout, .drownLine, .staleEstimate, .countHandedOver: .line
    case .starveOne, .storm, .loseUploads, .forgetReceipts: .fleet
    }
  }

  /// The invariant that has to find the mistake.
  public var invariant: Invariant {
    switch self {
    case .skipEpochCheck, .hideRewrites, .believeRecordedDigests, .publishUnderOldName, .believeChunkJournal,
      .forgetDeadWriters, .readHoles, .announceLastKnown, .forgetUnreadMarks, .hideHandedOver, .recordUncopied:
      .publication
    case .ignoreEpochAtCommit, .dropContentWillChange, .overlookHandEdits: .receipt
    case .deliverOlder: .older
    case .completeBeforeDurable: .durability
    case .acknowledgeBeforeWrite, .publishUnverified, .storeEncoded: .acknowledgement
    case .resendAcknowledged: .resending
    case .doubleCommit: .singlePublication
    case .doubleChunk: .singleChunk
    case .overbook: .parallelism
    case .ignoreMemory: .buffers
    case .leakBuffer, .loseCompletion: .leaks
    case .retryWithoutDelay: .pace
    case .retrySetbacks, .resendPublished, .pausesStay, .triesWithoutEnd: .cost
    case .compressUnasked, .frameUnasked: .encoding
    case .forgetWords: .words
    case .forgetNames, .overlookPlainNames, .overlookPublications, .mistakeIdentities, .inheritLivingNames: .names
    case .forgetIntents, .strayLonger, .replaceOthers: .owners
    case .holdUpOthers: .destinations
    case .answerEarly, .answerLate: .waits
    case .endlessSessionName: .resumeRecord
    case .stayAtFirstAddress: .address
    case .dropCancels, .pretendProgress: .deadline
    case .hideProgress: .patience
    case .keepConnections, .keepResting: .reconnection
    case .pretendAdvance, .chooseAgain: .standstill
    case .evictUndelivered, .evictUnshown, .evictForOne: .eviction
    case .forgetUsage: .quota
    case .speakOfRemoved: .consistency
    case .loseRecord: .progress
    case .wrongChain, .releaseBufferEarly, .releaseUnsecured, .skipNameSync, .wakeByWallClock,
      .believeFormerSessions, .leaveUnloaded:
      .delivery
    case .dawdle: .tail
    case .keepExpired: .expiry
    case .spin: .events
    case .oneStream: .lineTime
    case .breakAtTimeout: .resentBytes
    case .drownLine: .lostBytes
    case .staleEstimate: .estimate
    case .countHandedOver: .shownProgress
    case .starveOne: .starvation
    case .storm: .retryStorm
    case .loseUploads: .receiverSessions
    case .forgetReceipts: .publishedOnce
    case .swallowWriteBackErrors, .believePagesReadAgain: .writeBack
    case .skipDataSync, .shareSyncReports, .verifyInMemory: .stableStorage
    case .forgetFileAtRestart, .endFailedScan, .deleteUnreadSessions, .forgetUnreadRecords, .damagedRecordHidesFile:
      .retention
    case .hideScanFailure: .explanation
    case .believeClosedMarks, .believeEndedMarks, .markBesideChanges, .unmarkBeforeFlush, .publishRemainsAnew,
      .believeBareCopies, .believeSizes, .goOnAfterCuts:
      .remains
    case .endRowlessSessions, .overlookPointers, .wipeOtherSizes, .expireReliedUpon, .releaseUnrecorded: .onlyCopy
    }
  }

  /// The mistake has to be found within so many seeds.
  public static let seedsMax: UInt64 = 20_000

  /// The first seed of `seeds` with which the simulation finds the mistake by its invariant, and holds without it.
  public func seedThatFinds(among seeds: Range<UInt64>) throws(DestinationError) -> (UInt64, Violation)? {
    for seed in seeds {
      let result = try Simulation(seed: seed, scenario: scenario, bug: self).run()
      guard let violation = result.violation, violation.invariant == invariant else { continue }
      if try Simulation(seed: seed, scenario: scenario).run().violation == nil { return (seed, violation) }
    }
    return nil
  }
}

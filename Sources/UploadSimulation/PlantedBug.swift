public import Destinations

/// Mistakes that the simulation can make on purpose, to show that its invariants notice them. Each is planted in what the
/// simulation puts around the real code, so no program that is shipped can make them this way; those of the schedule by
/// changing what goes into it and what it says.
public enum PlantedBug: String, CaseIterable, Sendable {
  /// A change is not announced, and a read counts although the file changed meanwhile.
  case skipEpochCheck = "skip-epoch-check"
  /// Bytes that are written once more are not made known to those who follow the file's chunks.
  case hideRewrites = "hide-rewrites"
  /// The receiver says that a chunk is stored before it is.
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
  /// Nobody waits before trying again.
  case retryWithoutDelay = "retry-without-delay"
  /// What was set back is tried again at once, as if that had been asked for.
  case retrySetbacks = "retry-setbacks"
  /// What was published is sent as a whole again every few seconds, as if the server had forgotten it and a user had asked for it.
  case resendPublished = "resend-published"
  /// Pauses grow to two seconds and no further, where the server is one of tus.
  case pausesStay = "pauses-stay"
  /// A file's first chunk is not there when it is to be sent, and is chosen again at once, for ever.
  case chooseAgain = "choose-again"
  /// What ends a file is asked for ever.
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
  /// A buffer is used again while its request is under way.
  case releaseBufferEarly = "release-buffer-early"
  /// The end of a request is not told to the schedule.
  case loseCompletion = "lose-completion"
  /// The receiver stores compressed bytes as they came.
  case storeEncoded = "store-encoded"
  /// Bodies are compressed for a receiver that has not said that it takes that.
  case compressUnasked = "compress-unasked"
  /// Files are compressed together for a receiver that has not said that it takes that.
  case frameUnasked = "frame-unasked"
  /// A session that begins with what is published records chunks that it has not copied.
  case recordUncopied = "record-uncopied"
  /// Every request goes to the first address, however that is.
  case stayAtFirstAddress = "stay-at-first-address"
  /// Nobody hears that memory is short.
  case ignoreMemory = "ignore-memory"
  /// What a watchdog wants cancelled goes on.
  case dropCancels = "drop-cancels"
  /// The schedule is woken by the wall clock, which may be set back meanwhile.
  case wakeByWallClock = "wake-by-wall-clock"
  /// Watchdogs are not told what moves.
  case hideProgress = "hide-progress"
  /// Watchdogs are told that everything moves.
  case pretendProgress = "pretend-progress"
  /// Watchdogs are told that each request comes further than those before it.
  case pretendAdvance = "pretend-advance"
  /// A file's last request waits for a while.
  case dawdle = "dawdle"
  /// The receiver keeps the files of sessions that have ended.
  case keepExpired = "keep-expired"
  /// After a start the receiver does not know what lies there already.
  case forgetUsage = "forget-usage"
  /// Local copies go although nothing has been delivered.
  case evictUndelivered = "evict-undelivered"
  /// Local copies go of what was delivered under a name that it has no more.
  case evictUnshown = "evict-unshown"
  /// A file whose resume record cannot be read is not found.
  case damagedRecordHidesFile = "damaged-record-hides-file"
  /// What was edited by hand between two starts counts as delivered.
  case overlookHandEdits = "overlook-hand-edits"
  /// What was put back by hand counts as a new content, whatever was delivered.
  case deliverOlder = "deliver-older"

  /// Nobody knows after a restart that a file was being written when the mount died.
  case forgetDeadWriters = "forget-dead-writers"

  /// What somebody decided of a file is forgotten at a restart.
  case forgetWords = "forget-words"

  /// Requests come to the receiver later after the end of their connections than the schedule waits for them.
  case strayLonger = "stray-longer"

  /// What captures are called is forgotten at a restart.
  case forgetNames = "forget-names"

  /// What is about to be published is on no record: it is another one's after a crash.
  case forgetIntents = "forget-intents"

  /// What was published before the first template counts as never called so.
  case overlookPlainNames = "overlook-plain-names"

  /// A new record of names knows of captures that are gone nothing but their rows, as long as the catalog has these.
  case overlookPublications = "overlook-publications"

  /// After a restart captures have each other's identity where names and numbers are given, as by the inode numbers of a spool that was moved.
  case mistakeIdentities = "mistake-identities"

  /// A name passes on with its path although the capture that has it is there still, under another path.
  case inheritLivingNames = "inherit-living-names"

  /// Names are taken from whatever capture has them, also from another machine's.
  case replaceOthers = "replace-others"

  /// Calls that wait for a delivery take the server's word for it.
  case answerEarly = "answer-early"
  /// Calls that wait for a delivery are not told of it.
  case answerLate = "answer-late"

  /// A local copy goes once the first of several destinations has it.
  case evictForOne = "evict-for-one"
  /// Nothing goes to one destination while another one is away.
  case holdUpOthers = "hold-up-others"

  /// What the receiver has in memory only is given up in the spool.
  case releaseUnsecured = "release-unsecured"
  /// What neither a resume record nor the file's label knows is given up in the spool.
  case releaseUnrecorded = "release-unrecorded"
  /// What was given up is read as zeros.
  case readHoles = "read-holes"

  /// The schedule has two requests send one chunk at the same time.
  case doubleChunk = "double-chunk"
  /// The schedule asks a question in more requests than it may have under way.
  case overbook = "overbook"
  /// The schedule does not say that a delivered file's entry is to be written.
  case loseRecord = "lose-record"
  /// The schedule has a stuck file go on over the connections that it has.
  case keepConnections = "keep-connections"
  /// Connections that rested while the machine slept are used again.
  case keepResting = "keep-resting"
  /// A session has a name that no resume record can hold.
  case endlessSessionName = "endless-session-name"
  /// What the spool's disk has refused is known to nobody: an error of its sync is the end of it.
  case swallowWriteBackErrors = "swallow-write-back-errors"
  /// Where the spool cannot say what a file is like, what was known last is announced.
  case announceLastKnown = "announce-last-known"
  /// The scan of the spool has ended although not everything could be read.
  case endFailedScan = "end-failed-scan"
  /// Nobody hears that the scan of the spool cannot go on.
  case hideScanFailure = "hide-scan-failure"
  /// The receiver deletes the sessions that it cannot read at its start.
  case deleteUnreadSessions = "delete-unread-sessions"
  /// Two syncs of a session share what the disk says of it: what one is told the other never hears of.
  case shareSyncReports = "share-sync-reports"
  /// After a restart the receiver takes what memory shows of a session for what its disk has.
  case verifyInMemory = "verify-in-memory"
  /// What is read from the spool's disk again after it has refused it counts as what was written.
  case believePagesReadAgain = "believe-pages-read-again"
  /// A mark that cannot be read counts as none.
  case forgetUnreadMarks = "forget-unread-marks"
  /// An upload of which the record cannot be read at a start is ended in place of being gone on with.
  case forgetUnreadRecords = "forget-unread-records"

  /// That a file was closed counts as that it is whole, also where the power has gone since.
  case believeClosedMarks = "believe-closed-marks"
  /// That a killed writer's file is in the bytes that it was found with, also where the power has gone since.
  case believeEndedMarks = "believe-ended-marks"
  /// What was being written when the power went is made good by going on at its end.
  case goOnAfterCuts = "go-on-after-cuts"
  /// What says that a file is being changed may come to the disk after the changes.
  case markBesideChanges = "mark-beside-changes"
  /// An upload that was published proves whatever content a power cut has brought back.
  case believeFormerSessions = "believe-former-sessions"
  /// A file counts as on the disk before the disk has it.
  case unmarkBeforeFlush = "unmark-before-flush"
  /// What is left of a delivered copy is published under the next name that it gets.
  case publishRemainsAnew = "publish-remains-anew"
  /// A copy that says nothing of itself is whole.
  case believeBareCopies = "believe-bare-copies"
  /// One that has the size that is known is, whether or not the disk was known to have its bytes when the power went.
  case believeSizes = "believe-sizes"
  /// The session of a file of which the catalog has no row is ended.
  case endRowlessSessions = "end-rowless-sessions"
  /// Nobody looks on the file for where its parts are.
  case overlookPointers = "overlook-pointers"
  /// Records of sessions with chunks of another size than the settings' are wiped, and the sessions ended.
  case wipeOtherSizes = "wipe-other-sizes"
  /// The receiver lets sessions expire that a client relies upon.
  case expireReliedUpon = "expire-relied-upon"

  /// The transport does not say how much of a request can have left the process, so a server may have all of it.
  case hideHandedOver = "hide-handed-over"

  /// Over a line one request follows the other.
  case oneStream = "one-stream"
  /// A request is ended after ten seconds, however it moves.
  case breakAtTimeout = "break-at-timeout"
  /// Requests are as long as they may be, however slow the line is.
  case drownLine = "drown-line"
  /// What is shown to be left of the time is seconds old.
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

  /// A removed file is said to have changed.
  case speakOfRemoved = "speak-of-removed"

  /// Something happens again and again, and time hardly passes.
  case spin = "spin"

  /// The scenario in which it does most harm.
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

  /// What has to find it.
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

  /// It has to be found within so many seeds.
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

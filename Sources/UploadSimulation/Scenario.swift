import FileModel
import Lookup
import TransferModel
import UploadEngine

/// What is simulated, as knobs: how much is written, how likely each fault is, and how small everything is.
public struct Scenario: Hashable, Sendable {
  /// Its name on the command line.
  public var name: String
  var seconds: ClosedRange<Int64> = 5...60
  var writers = 1...6
  var fileBytesMax = 700
  /// The part of the written bytes that is zeros.
  var zeros = 0.0
  /// How many changes a file gets before it is closed.
  var pieces = 0...5
  /// The longest write; nil when only the largest file bounds it.
  var largePieceBytes: Int?
  /// How many names writers choose from, beside a few that are always there.
  var furtherNames = 0
  var chunkBytes = 64
  var wholeFileBytesMax = 96

  /// One capture of a real size over a line of a certain kind, with the bounds of a mount, and none of what is below but the server.
  var isOfLine = false
  /// All connections are lost at one moment of the run.
  var cutsLine = false

  /// Many clients with one receiver, and none of what is below but the network's latency and rate.
  var isFleet = false

  /// Three given files instead of writers that do what they like: the scenario of the systematic faults.
  var isFixed = false

  // The actions of writers, beside writing.
  var rewrites = 0.5
  var renames = 0.3
  var unlinks = 0.1
  /// Commands for single files (retry, cancel, publish), for each virtual minute.
  var words = 0.0
  var attributes = 0.2
  /// Writes that leave the size as it is.
  var overwrites = 0.0
  /// Files that are opened to overwrite all of their bytes, once.
  var patches = 0.0
  /// Files that are truncated or extended without being opened.
  var truncations = 0.1
  /// Writes of bytes that repeat themselves.
  var compressible = 0.0
  /// Starts of the mount with the setting to compress by Zstandard, and small files together.
  var zstandard = 0.0
  /// Receivers that do not know files that are compressed together.
  var framelessReceivers = 0.0
  /// The time unit of a filesystem's modification times.
  var timeUnit: Duration = .nanoseconds(1)
  /// The pause between two actions of a writer on a file that it has open.
  var pauses: ClosedRange<Duration> = .microseconds(20)...(.seconds(8))
  /// The pause between two files of a writer.
  var rests: ClosedRange<Duration> = .milliseconds(1)...(.seconds(20))
  /// How long a write takes during which half of it can be seen.
  var writeTime: ClosedRange<Duration> = .microseconds(5)...(.milliseconds(5))
  /// Writers that are killed instead of closing their file.
  var kills = 0.0
  /// Captures that are created under names that a rule leaves in the spool, and that get such a name or lose it.
  var ignored = 0.0
  /// Captures that get a temporary name again.
  var renamesAway = 0.0
  /// Files that the mount holds in memory.
  var filesInMemory = Int.max
  /// Files that a user edits while nothing is mounted.
  var handEdits = 0.0

  /// Closes that wait for the delivery.
  var waits = 0.0

  /// Templates of which each start of the client has another one, an empty one for names that are paths; none where all are.
  var nameTemplates: [String] = []
  /// The record of names is lost between two starts.
  var lostLedgers = 0.0
  /// Folders that hold the same names, and all that there are.
  var folders = 0

  // The latency of the network, for each request.
  var latency: ClosedRange<Duration> = .microseconds(200)...(.milliseconds(40))
  var bytesPerSecond: ClosedRange<Int> = 2_000...10_000_000
  var refusals = 0.0
  var lostRequests = 0.0
  var lostAnswers = 0.0
  var stalls = 0.0
  var duplicates = 0.0
  var strays = 0.0
  var damage = 0.0
  var lateAnswers = 0.0
  var badGateways = 0.0
  var busyAnswers = 0.0
  var tooEarly = 0.0
  var forgottenSessions = 0.0
  var nonsense = 0.0
  var hardRefusals = 0.0
  /// The server that the client uploads to.
  var server = ServerKind.receiver
  /// One of these is an additional server that most files go to as well; then the faults concern that one.
  var furtherServers: [ServerKind] = []
  /// The destination repeats the same false report.
  var isLiar = false
  /// The lies are in the words of the protocol, which no proxy would use.
  var liesInOwnWords = false
  /// The server refuses each request that has a body, by the same answer each time.
  var refusesEachBody = false
  /// The server has zeros where a request has broken off, and reports them as what was to be sent.
  var jumpsWhereItBreaks = false
  /// Times at which nothing gets through, for each virtual minute.
  var partitions = 0.0

  /// Requests that are swallowed whole and never answered.
  var hangs = 0.0
  /// Times in which all requests are swallowed, for each virtual minute.
  var hangingTimes = 0.0
  /// The duration of such a time.
  var hangingTime: ClosedRange<Duration> = .seconds(1)...(.seconds(700))
  /// These times swallow large requests only.
  var hangsOnlyBodies = false
  /// Times in which the link is thirty times slower, for each virtual minute.
  var slowTimes = 0.0
  /// The transport notices neither that nothing moves nor that no answer comes: only the watchdogs do.
  var isTransportBlind = false
  /// Under how many addresses the receiver can be reached.
  var addresses = 1
  /// Times in which an address is dead, slow or sick, for each virtual minute.
  var addressTroubles = 0.0

  // Crashes of each side's machine, for each virtual minute and for each effect.
  var clientCrashes = 0.0
  var clientStops = 0.0
  var receiverCrashes = 0.0
  var crashesInEffects = 0.0
  /// A crash is a power cut.
  var powerCuts = 0.0
  /// A power cut loses what was not synced to the spool's disk.
  var losesSpool = false
  /// Ends of the client after which its catalog and its records are lost.
  var lostStates = 0.0
  /// Those after which the spool is also copied elsewhere without extended attributes.
  var bareCopies = 0.0
  /// The receiver syncs what is written, and not only when it publishes.
  var syncsWhatIsWritten = false
  /// The interval of these syncs.
  var syncPause = Duration.seconds(1)
  /// The duration of each of its disk operations.
  var diskTime: ClosedRange<Duration> = .microseconds(5)...(.milliseconds(200))
  var brokenEffects = 0.0
  var fullDisks = 0.0
  var unreadable = 0.0
  /// Times in which the disk of one of these fails, for each virtual minute.
  var failingDisks = 0.0
  var failingSides: [Side] = []
  /// Times in which the kernel evicts pages, on both machines, for each virtual minute.
  var memoryPressure = 0.0
  /// Writes that are followed by an fsync.
  var synchronizations = 0.0
  /// Records of the receiver's journals that rot, for each virtual minute.
  var rottenRecords = 0.0
  var clockJumps = 0.0
  /// How far a clock is set wrong.
  var clockJump: [Duration] = [.zero, .seconds(3600), .seconds(-3600)]
  /// Chunk sizes of which each start of the client has another one; none for ``chunkBytes``.
  var chunkSizes: [Int] = []
  /// Changes of the memory that is available to the client, for each virtual minute.
  var memoryChanges = 0.0
  /// Times in which both machines sleep for days, for each virtual minute.
  var longSleeps = 0.0
  /// Local copies that are removed to make room, for each virtual minute.
  var evictions = 0.0
  /// Times in which writers find the spool's disk full, for each virtual minute; by rule, parts of their files that the
  /// receiver has on its disk are then given up.
  var shortages = 0.0
  /// Starts of the client that find another master key.
  var lostKeys = 0.0
  /// Resume records that are damaged between two starts.
  var damagedRecords = 0.0
  /// The most bytes at the receiver until the faults end.
  var quotaBytes: UInt64?
  /// What a seed may add to the scenario.
  var additions: [Addition] = []
  /// Codes with which a file may have failed at the end, because a user has to act.
  var legitimateFailures: LookupSet<String> = []

  /// Bounds of the engine, scaled down.
  var limits: UploadLimits {
    var limits = UploadLimits()
    limits.chunkBytes = chunkBytes
    limits.bufferBytes = chunkBytes * 2
    limits.followsLine = true
    limits.streamBytesLeast = chunkBytes
    limits.flightBytesLeast = chunkBytes * 2
    limits.smallFileBytes = wholeFileBytesMax / 2
    limits.smallBuffers = 4
    limits.parallelSmallRequests = 2
    limits.filesInMemory = filesInMemory
    // Active files stay in memory.
    if filesInMemory < .max { (limits.activeMediumFiles, limits.activeLargeFiles) = (1, 1) }
    if !furtherServers.isEmpty { limits.rules = Site.rules }
    if ignored > 0 { limits.rules.rules = ["**/*.skip upload=never"].compactMap { try? FileRule($0) } }
    if shortages > 0 { limits.rules.defaults.whenFull = .release }
    return limits
  }

  /// The scale of real chunks; the transport's limits for a body follow from its real size.
  var bodyScale: Double { Double(UploadConstants.chunkBytesDefault) / Double(chunkBytes) }

  init(_ name: String, _ change: (inout Scenario) -> Void = { _ in }) {
    self.name = name
    change(&self)
  }
}

extension Scenario: CustomStringConvertible {
  /// The scenario's name: a failed test is to show that alone.
  public var description: String { name }
}

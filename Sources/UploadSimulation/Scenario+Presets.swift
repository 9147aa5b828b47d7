import Lookup

extension Scenario {
  static let calm = Scenario("calm")

  /// A small file, one of several chunks, and one that is rewritten; nothing fails but what is planned.
  public static let fixed = Scenario("fixed") {
    $0.isFixed = true
    $0.seconds = 40...40
    $0.latency = .milliseconds(5)...(.milliseconds(5))
    $0.bytesPerSecond = 100_000...100_000
  }

  static let network = Scenario("network") {
    $0.spoilNetwork(0.05)
    $0.zeros = 0.3
  }

  static let proxy = Scenario("proxy") {
    $0.spoilAnswers(0.03)
    $0.forgottenSessions = 0.02
    $0.hardRefusals = 0.005
    $0.legitimateFailures = [
      "unauthorized", "forbidden", "too-large", "tag-mismatch", "bad-request", "name-refused", "digest-mismatch",
    ]
  }

  static let crashes = Scenario("crashes") {
    $0.crash(perMinute: 4)
    $0.zeros = 0.3
  }

  /// Large files that grow slowly, some of which are patched where they were already sent.
  static let recorders = Scenario("recorders") {
    $0.zeros = 0.3
    $0.fileBytesMax = 1_500
    $0.pauses = .milliseconds(5)...(.milliseconds(600))
    $0.writeTime = .microseconds(5)...(.milliseconds(50))
    $0.lostAnswers = 0.02
    $0.clientCrashes = 2
    $0.receiverCrashes = 1
    $0.forgottenSessions = 0.005
    $0.pieces = 1...40
    $0.largePieceBytes = 90
  }

  /// Recordings that are larger than the disk, and machines that crash during them.
  static let shortage = Scenario("shortage") {
    $0.recordMoreThanFits()
    $0.zeros = 0.3
  }

  static let power = Scenario("power") {
    $0.crash(perMinute: 4)
    $0.powerCuts = 0.7
    $0.syncsWhatIsWritten = true
  }

  /// The capturing machine crashes, or its disk is removed: what was not synced is lost in any choice.
  static let spoolPower = Scenario("spool-power") {
    $0.zeros = 0.3
    $0.crash(perMinute: 6)
    $0.handEdits = 0
    $0.powerCuts = 0.7
    $0.losesSpool = true
    $0.synchronizations = 0.1
    $0.overwrites = 0.2
    $0.patches = 0.2
    $0.rewrites = 0.8
    $0.renames = 0.5
    $0.words = 2
    $0.kills = 0.1
    $0.evictions = 2
    $0.partitions = 1
    $0.seconds = 20...120
    $0.pauses = .milliseconds(1)...(.seconds(4))
    $0.rests = .milliseconds(1)...(.seconds(5))
  }

  /// Writers are killed, the power goes, and others continue where they had been.
  static let killedWriters = Scenario("killed-writers") {
    $0.crash(perMinute: 6)
    $0.handEdits = 0
    $0.powerCuts = 0.9
    $0.losesSpool = true
    $0.rewrites = 0.9
    $0.renames = 0.1
    $0.unlinks = 0
    $0.truncations = 0
    $0.kills = 0.5
    $0.seconds = 20...120
    $0.pauses = .milliseconds(1)...(.seconds(4))
    $0.rests = .milliseconds(1)...(.seconds(5))
  }

  /// Delivered captures are truncated and delivered again, and then the power fails: it restores earlier contents, and
  /// records of their uploads.
  static let comebacks = Scenario("comebacks") {
    $0.clientCrashes = 25
    $0.powerCuts = 1
    $0.losesSpool = true
    $0.folders = 1
    $0.fileBytesMax = 250
    $0.truncations = 0.5
    $0.rewrites = 0.98
    $0.renames = 0.02
    $0.unlinks = 0
    $0.attributes = 0.02
    $0.writers = 1...2
    $0.pieces = 1...2
    $0.pauses = .milliseconds(1)...(.milliseconds(50))
    $0.rests = .milliseconds(300)...(.milliseconds(2500))
    $0.latency = .microseconds(200)...(.milliseconds(20))
    $0.seconds = 5...15
  }

  /// Recordings that are larger than the disk, with lost catalogs and records, and everything that ages does.
  static let lostStates = Scenario("lost-states") {
    $0.recordMoreThanFits()
    $0.lostStates = 0.3
    $0.losesSpool = true
    $0.longSleeps = 1
  }

  /// Such recordings, and copies of the spool without labels, also after a power cut.
  static let bareCopies = Scenario("bare-copies") {
    $0.recordMoreThanFits()
    $0.bareCopies = 0.4
    $0.losesSpool = true
    $0.kills = 0.05
    $0.longSleeps = 1
  }

  static let disk = Scenario("disk") {
    $0.brokenEffects = 0.02
    $0.fullDisks = 1
    $0.unreadable = 0.03
  }

  /// The spool's disk fails for a while: it refuses what was written, takes no marks and records, and cannot report its
  /// contents.
  static let spoolDisk = Scenario("spool-disk") {
    $0.failSpool()
    $0.crash(perMinute: 2)
    $0.words = 2
    $0.kills = 0.05
    $0.evictions = 1
    $0.handEdits = 0.1
  }

  /// The same with recordings larger than the disk, while the records of their parts cannot be read at every start.
  static let unreadRecords = Scenario("unread-records") {
    $0.failSpool()
    $0.fileBytesMax = 1_500
    $0.pieces = 1...40
    $0.largePieceBytes = 90
    $0.clientCrashes = 6
    $0.receiverCrashes = 1
    $0.shortages = 20
    $0.syncsWhatIsWritten = true
  }

  /// The receiver's disk fails.
  static let receiverDisk = Scenario("receiver-disk") {
    $0.failingDisks = 20
    $0.failingSides = [.receiver]
    $0.memoryPressure = 20
    $0.rottenRecords = 1
    $0.syncsWhatIsWritten = true
    // So that syncs of one session overlap.
    $0.syncPause = .milliseconds(200)
    $0.diskTime = .milliseconds(10)...(.milliseconds(300))
    $0.writers = 4...10
    $0.rewrites = 0.9
    $0.pauses = .milliseconds(1)...(.milliseconds(500))
    $0.rests = .milliseconds(1)...(.seconds(5))
    $0.seconds = 20...60
    $0.fileBytesMax = 1_500
    $0.latency = .milliseconds(1)...(.milliseconds(500))
    $0.receiverCrashes = 3
    $0.clientCrashes = 0.5
    $0.crashesInEffects = 0.001
    $0.lostAnswers = 0.02
    $0.powerCuts = 0.5
  }

  static let clock = Scenario("clock") {
    $0.clockJumps = 6
    $0.clientCrashes = 6
    $0.lostAnswers = 0.05
    $0.timeUnit = .seconds(3600)
    $0.overwrites = 0.5
    $0.patches = 0.5
    $0.rewrites = 0.9
  }

  /// The client's clock is set by more than the lifetime of a session and a receipt, while files and sessions last.
  static let weeks = Scenario("weeks") {
    $0.crash(perMinute: 2)
    $0.clockJumps = 6
    $0.clockJump = [.zero, .seconds(21 * 86_400), .seconds(-21 * 86_400), .seconds(70 * 86_400)]
    $0.longSleeps = 1
    $0.evictions = 4
    $0.fileBytesMax = 1_500
  }

  static let slow = Scenario("slow") {
    $0.spoilNetwork(0.05)
    $0.bytesPerSecond = 20...2_000
    $0.latency = .milliseconds(20)...(.seconds(3))
    $0.fileBytesMax = 2_000
  }

  /// Files are written again while they are being sent.
  static let hasty = Scenario("hasty") {
    $0.rewrites = 0.95
    $0.overwrites = 0.6
    $0.lostAnswers = 0.02
    $0.strays = 0.2
    $0.clientCrashes = 12
    $0.latency = .milliseconds(5)...(.milliseconds(500))
    $0.pauses = .microseconds(20)...(.milliseconds(50))
    $0.rests = .milliseconds(1)...(.milliseconds(100))
    $0.writeTime = .microseconds(50)...(.milliseconds(50))
    $0.timeUnit = .seconds(3600)
    $0.kills = 0.1
    $0.seconds = 2...15
  }

  /// Many small files, which share requests.
  static let crowd = Scenario("crowd") {
    $0.spoilNetwork(0.01)
    $0.crash(perMinute: 2)
    $0.damage = 0.01
    $0.furtherNames = 40
    $0.fileBytesMax = 40
    $0.writers = 10...40
    $0.rewrites = 0.9
    $0.pauses = .microseconds(20)...(.milliseconds(500))
    $0.rests = .milliseconds(1)...(.seconds(1))
    $0.latency = .milliseconds(5)...(.milliseconds(300))
    $0.compressible = 0.3
    $0.zstandard = 0.5
    $0.framelessReceivers = 0.3
    $0.legitimateFailures = ["digest-mismatch"]
  }

  /// Memory holds fewer files than there are, and the network is away for long.
  static let unloading = Scenario("unloading") {
    $0.spoilNetwork(0.01)
    $0.crash(perMinute: 1)
    $0.filesInMemory = 3
    $0.furtherNames = 40
    $0.fileBytesMax = 300
    $0.writers = 8...20
    $0.rewrites = 0.3
    $0.pauses = .microseconds(20)...(.milliseconds(200))
    $0.rests = .milliseconds(1)...(.seconds(1))
    $0.latency = .milliseconds(5)...(.milliseconds(300))
    $0.partitions = 12
    $0.evictions = 4
    $0.words = 4
    $0.handEdits = 0.05
    $0.waits = 0.1
    $0.legitimateFailures = ["digest-mismatch"]
  }

  /// Two addresses, each of which fails occasionally, and bodies that can be compressed.
  static let addresses = Scenario("addresses") {
    $0.addresses = 2
    $0.addressTroubles = 4
    $0.compressible = 0.5
    $0.zstandard = 0.5
    $0.seconds = 20...120
  }

  /// The available memory changes.
  static let pressure = Scenario("pressure") {
    $0.memoryChanges = 20
    $0.compressible = 0.5
    $0.zstandard = 0.5
    $0.writers = 3...6
    $0.fileBytesMax = 2_000
    $0.latency = .milliseconds(5)...(.milliseconds(500))
    $0.words = 4
  }

  /// Requests are swallowed, one by one and all for minutes, and only the watchdogs notice.
  static let hangs = Scenario("hangs") {
    $0.hangs = 0.02
    $0.hangingTimes = 0.3
    $0.isTransportBlind = true
    $0.slowTimes = 0.5
    $0.bytesPerSecond = 60...10_000
    $0.seconds = 100...900
  }

  /// A path that silently drops large packets, for longer than every watchdog waits: queries are answered, and bodies
  /// begin and get no further.
  static let blackHole = Scenario("black-hole") {
    $0.hangingTimes = 0.5
    $0.hangingTime = .seconds(300)...(.seconds(700))
    $0.hangsOnlyBodies = true
    $0.isTransportBlind = true
    $0.seconds = 400...900
  }

  /// Days pass, records and keys are lost, local copies are removed.
  static let ages = Scenario("ages") {
    $0.crash(perMinute: 3)
    $0.longSleeps = 4
    $0.lostKeys = 0.3
    $0.damagedRecords = 0.5
    $0.evictions = 10
  }

  /// There is not enough room at the receiver.
  static let quota = Scenario("quota") {
    $0.quotaBytes = 1_500
    $0.receiverCrashes = 3
    $0.clientCrashes = 1
    $0.evictions = 4
    $0.latency = .milliseconds(1)...(.milliseconds(500))
    $0.writers = 4...8
  }

  /// A user gives commands for one file after the other, over a slow line and many restarts.
  static let words = Scenario("words") {
    $0.crash(perMinute: 4)
    $0.powerCuts = 0.5
    $0.words = 40
    $0.kills = 0.2
    $0.rewrites = 0.1
    $0.rests = .milliseconds(500)...(.seconds(60))
    $0.latency = .milliseconds(50)...(.seconds(2))
    $0.bytesPerSecond = 60...2_000
  }

  /// Captures of many folders that templates give the same names, over restarts with other templates, or without.
  static let templates = Scenario("templates") {
    $0.crash(perMinute: 4)
    $0.powerCuts = 0.5
    $0.brokenEffects = 0.005
    $0.nameTemplates = ["", "", "{name}", "all/{stem}.{ext}", "{stem}-{seq:2}.{ext}", "{dir}-{name}"]
    $0.lostLedgers = 0.15
    $0.folders = 3
    $0.renames = 0.7
    $0.writers = 3...8
    $0.rewrites = 0.8
    $0.evictions = 4
  }

  /// Calls wait for files that are written, renamed, removed, cancelled, refused, retried and interrupted.
  static let waiting = Scenario("waiting") {
    $0.crash(perMinute: 1)
    $0.waits = 0.7
    $0.writers = 4...10
    $0.rewrites = 0.85
    $0.words = 15
    $0.kills = 0.15
    $0.unlinks = 0.15
    $0.brokenEffects = 0.01
    $0.evictions = 2
    $0.hardRefusals = 0.01
    $0.badGateways = 0.02
    $0.busyAnswers = 0.02
    $0.latency = .milliseconds(5)...(.milliseconds(500))
    $0.legitimateFailures = ["unauthorized", "forbidden", "too-large", "bad-request", "name-refused"]
  }

  /// Two destinations of different kinds, one healthy, and the other away, slow, or lying.
  static let several = Scenario("several") {
    $0.furtherServers = [.tus, .draft, .s3]
    $0.spoilNetwork(0.05)
    $0.duplicates = 0
    $0.partitions = 2
    $0.hangingTimes = 0.7
    $0.slowTimes = 0.5
    $0.badGateways = 0.02
    $0.clientCrashes = 1
    $0.clientStops = 1
    $0.receiverCrashes = 3
    $0.handEdits = 0.3
    $0.evictions = 20
    $0.renamesAway = 0.1
    $0.isLiar = true
    $0.seconds = 60...300
    $0.writers = 3...8
    $0.rewrites = 0.7
    $0.legitimateFailures = Self.legitimateFailuresOfLiars
  }

  /// Names that a rule leaves in the spool: captures get and lose them while they are read and sent, and over restarts.
  static let ignoredNames = Scenario("ignored-names") {
    $0.ignored = 0.4
    $0.spoilNetwork(0.03)
    $0.clientCrashes = 2
    $0.clientStops = 1
    $0.receiverCrashes = 1
    $0.handEdits = 0.2
    $0.words = 2
    $0.evictions = 4
    $0.renamesAway = 0.1
    $0.rewrites = 0.7
  }

  /// A destination that does not do what it reports, nor keeps what it takes.
  static let liar = Scenario("liar") {
    $0.isLiar = true
    $0.seconds = 30...120
    $0.legitimateFailures = ["session-gone", "incomplete", "unexpected-answer"]
  }

  /// Some seeds have names by templates, calls that wait, or a second destination as well.
  static let everything = Scenario("everything") {
    $0.additions = Addition.allCases
    $0.spoilNetwork(0.02)
    $0.spoilAnswers(0.01)
    $0.crash(perMinute: 2)
    $0.forgottenSessions = 0.005
    $0.powerCuts = 0.5
    $0.brokenEffects = 0.005
    $0.fullDisks = 0.3
    $0.failingDisks = 0.5
    $0.failingSides = [.client, .receiver]
    $0.memoryPressure = 2
    $0.synchronizations = 0.02
    $0.rottenRecords = 0.1
    $0.unreadable = 0.01
    $0.clockJumps = 1
    $0.hangs = 0.005
    $0.addresses = 2
    $0.addressTroubles = 1
    $0.compressible = 0.3
    $0.memoryChanges = 2
    $0.longSleeps = 0.2
    $0.lostKeys = 0.05
    $0.damagedRecords = 0.05
    $0.evictions = 2
    $0.words = 1
    $0.kills = 0.05
    $0.legitimateFailures = ["digest-mismatch"]
  }

  /// All scenarios that have a name; a seed without a name takes its turn among them.
  public static let all =
    [
      calm, network, proxy, crashes, recorders, power, disk, clock, slow, hasty, crowd, addresses, pressure, hangs,
      ages,
      quota, shortage, everything, blackHole, words, liar, weeks, templates, waiting, several,
      spoolDisk, receiverDisk, unreadRecords, spoolPower, killedWriters, comebacks, lostStates, bareCopies,
      ignoredNames, unloading,
    ] + servers + lines + [fleet]

  /// The scenario with this name.
  public static func named(_ name: String) -> Scenario? { (all + [fixed]).first { $0.name == name } }

  /// The scenario of a seed.
  public static func of(seed: UInt64) -> Scenario { all[Int(seed % UInt64(all.count))] }
}

// The common parts of several scenarios.
extension Scenario {
  mutating func spoilNetwork(_ share: Double) {
    refusals = share
    lostRequests = share
    lostAnswers = share
    duplicates = share
    stalls = 0.4 * share
    lateAnswers = 0.4 * share
    partitions = 1
  }

  private mutating func recordMoreThanFits() {
    fileBytesMax = 1_500
    pauses = .milliseconds(5)...(.milliseconds(600))
    pieces = 1...40
    largePieceBytes = 90
    lostAnswers = 0.02
    crash(perMinute: 3)
    powerCuts = 0.7
    syncsWhatIsWritten = true
    shortages = 20
    // Settings and clocks are wrong by more than the lifetime of a session, and each start has others.
    clockJumps = 2
    clockJump = [.zero, .seconds(21 * 86_400), .seconds(-21 * 86_400)]
    chunkSizes = [32, 64, 128]
    // A file that is changed by hand while parts of it are missing can rightly not be delivered any more.
    handEdits = 0
  }

  private mutating func failSpool() {
    failingDisks = 4
    failingSides = [.client]
    memoryPressure = 20
    synchronizations = 0.05
    seconds = 20...180
    latency = .milliseconds(1)...(.seconds(2))
    pauses = .milliseconds(1)...(.seconds(8))
    partitions = 1
  }

  private mutating func spoilAnswers(_ share: Double) {
    badGateways = share
    busyAnswers = share
    tooEarly = share
    nonsense = share
    damage = share
  }

  mutating func crash(perMinute times: Double) {
    clientCrashes = times
    clientStops = times / 2
    receiverCrashes = times
    crashesInEffects = times / 1000
    lostAnswers = max(lostAnswers, 0.03)
    handEdits = 0.3
  }
}

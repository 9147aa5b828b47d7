import UploadEngine

/// What is simulated, as knobs: how much is written, how likely each trouble is, and how small everything is.
public struct Scenario: Hashable, Sendable {
  /// Its name on the command line.
  public var name: String
  var seconds: ClosedRange<Int64> = 5...60
  var writers = 1...6
  var fileBytesMax = 700
  var chunkBytes = 64
  var wholeFileBytesMax = 96

  /// Three given files instead of writers that do what they like: the scenario of the systematic faults.
  var isFixed = false

  // What writers do, beside writing.
  var rewrites = 0.5
  var renames = 0.3
  var unlinks = 0.1
  var attributes = 0.2
  /// Writes that leave the size as it is.
  var overwrites = 0.0
  /// Modification times of a filesystem that counts in this unit.
  var timeUnit: Duration = .nanoseconds(1)
  /// Files that somebody edits while nothing is mounted.
  var handEdits = 0.0

  // The network, for each request.
  var latency: ClosedRange<Duration> = .microseconds(200)...(.milliseconds(40))
  var bytesPerSecond: ClosedRange<Int> = 2_000...10_000_000
  var refusals = 0.0
  var lostRequests = 0.0
  var lostAnswers = 0.0
  var stalls = 0.0
  var duplicates = 0.0
  var damage = 0.0
  var lateAnswers = 0.0
  var badGateways = 0.0
  var busyAnswers = 0.0
  var tooEarly = 0.0
  var forgottenSessions = 0.0
  var nonsense = 0.0
  var hardRefusals = 0.0
  /// Times at which nothing gets through, for each virtual minute.
  var partitions = 0.0

  // Each side's machine, for each virtual minute and for each effect.
  var clientCrashes = 0.0
  var clientStops = 0.0
  var receiverCrashes = 0.0
  var crashesInEffects = 0.0
  /// A crash takes the power with it.
  var powerCuts = 0.0
  /// The receiver syncs what is written once a second, and not only when it publishes.
  var syncsWhatIsWritten = false
  var brokenEffects = 0.0
  var fullDisks = 0.0
  var unreadable = 0.0
  var clockJumps = 0.0
  /// Codes with which a file may have failed at the end, because somebody has to act.
  var legitimateFailures: Set<String> = []

  static let calm = Scenario(name: "calm")

  /// A small file, one of several chunks, and one that is rewritten; nothing goes wrong but what is planned.
  public static let fixed: Scenario = {
    var scenario = Scenario(name: "fixed")
    scenario.isFixed = true
    scenario.seconds = 40...40
    scenario.latency = .milliseconds(5)...(.milliseconds(5))
    scenario.bytesPerSecond = 100_000...100_000
    return scenario
  }()

  static let network: Scenario = {
    var scenario = Scenario(name: "network")
    scenario.refusals = 0.05
    scenario.lostRequests = 0.05
    scenario.lostAnswers = 0.05
    scenario.stalls = 0.02
    scenario.duplicates = 0.05
    scenario.lateAnswers = 0.02
    scenario.partitions = 1
    return scenario
  }()

  static let proxy: Scenario = {
    var scenario = Scenario(name: "proxy")
    scenario.badGateways = 0.03
    scenario.busyAnswers = 0.03
    scenario.tooEarly = 0.03
    scenario.forgottenSessions = 0.02
    scenario.nonsense = 0.03
    scenario.hardRefusals = 0.005
    scenario.damage = 0.03
    scenario.legitimateFailures = [
      "unauthorized", "forbidden", "too-large", "tag-mismatch", "bad-request", "name-refused", "digest-mismatch",
    ]
    return scenario
  }()

  static let crashes: Scenario = {
    var scenario = Scenario(name: "crashes")
    scenario.clientCrashes = 4
    scenario.clientStops = 2
    scenario.receiverCrashes = 4
    scenario.crashesInEffects = 0.004
    scenario.lostAnswers = 0.03
    scenario.handEdits = 0.3
    return scenario
  }()

  static let power: Scenario = {
    var scenario = crashes
    scenario.name = "power"
    scenario.powerCuts = 0.7
    scenario.syncsWhatIsWritten = true
    return scenario
  }()

  static let disk: Scenario = {
    var scenario = Scenario(name: "disk")
    scenario.brokenEffects = 0.02
    scenario.fullDisks = 1
    scenario.unreadable = 0.03
    return scenario
  }()

  static let clock: Scenario = {
    var scenario = Scenario(name: "clock")
    scenario.clockJumps = 6
    scenario.clientCrashes = 6
    scenario.lostAnswers = 0.05
    scenario.timeUnit = .seconds(3600)
    scenario.overwrites = 0.5
    scenario.rewrites = 0.9
    return scenario
  }()

  static let slow: Scenario = {
    var scenario = network
    scenario.name = "slow"
    scenario.bytesPerSecond = 20...2_000
    scenario.latency = .milliseconds(20)...(.seconds(3))
    scenario.fileBytesMax = 2_000
    return scenario
  }()

  static let everything: Scenario = {
    var scenario = network
    scenario.name = "everything"
    scenario.refusals = 0.02
    scenario.lostRequests = 0.02
    scenario.lostAnswers = 0.02
    scenario.badGateways = 0.01
    scenario.busyAnswers = 0.01
    scenario.tooEarly = 0.01
    scenario.forgottenSessions = 0.005
    scenario.nonsense = 0.01
    scenario.damage = 0.01
    scenario.clientCrashes = 2
    scenario.clientStops = 1
    scenario.receiverCrashes = 2
    scenario.crashesInEffects = 0.002
    scenario.powerCuts = 0.5
    scenario.brokenEffects = 0.005
    scenario.fullDisks = 0.3
    scenario.unreadable = 0.01
    scenario.clockJumps = 1
    scenario.handEdits = 0.2
    scenario.legitimateFailures = ["digest-mismatch"]
    return scenario
  }()

  /// All that can be asked for by name; a seed without a name takes its turn among them.
  public static let all = [calm, network, proxy, crashes, power, disk, clock, slow, everything]

  /// The one with this name.
  public static func named(_ name: String) -> Scenario? { (all + [fixed]).first { $0.name == name } }

  /// The scenario of a seed.
  public static func of(seed: UInt64) -> Scenario { all[Int(seed % UInt64(all.count))] }

  /// Bounds of the engine, scaled down.
  var limits: UploadLimits {
    var limits = UploadLimits()
    limits.chunkBytes = chunkBytes
    limits.bufferBytes = chunkBytes * 2
    return limits
  }

  private init(name: String) { self.name = name }
}

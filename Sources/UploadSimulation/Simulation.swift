public import Destinations
import FileModel
import UploadEngine

/// One run: writers, client, network and receiver in one thread under virtual time, everything drawn from one seed.
public struct Simulation: Sendable {
  /// What came of a run.
  public struct Result: Sendable {
    /// What was violated first; nil when everything held.
    public var violation: Violation?
    /// Effects that asked for a verdict.
    public var effectCount: Int
    /// Events that happened.
    public var eventCount: Int
    /// Virtual time that passed.
    public var seconds: Double
    /// Files that the receiver published.
    public var publicationCount: Int
    /// The same for two runs that went the same way.
    public var fingerprint: UInt64
    /// What happened, if a trace was asked for.
    public var trace: [String]
  }

  /// Beyond this the client has come to no end by itself.
  private static let healedSecondsMax: Int64 = 1800
  private static let eventsMax = 3_000_000

  /// Where chance starts.
  public var seed: UInt64
  /// What is simulated.
  public var scenario: Scenario
  /// A mistake to make on purpose.
  public var bug: PlantedBug?
  /// The one fault of a systematic run.
  public var plan: PlannedFault?
  /// Whether the result holds a trace.
  public var isTracing: Bool

  /// A run of a seed; the scenario is the seed's own unless one is named.
  public init(
    seed: UInt64, scenario: Scenario? = nil, bug: PlantedBug? = nil, plan: PlannedFault? = nil, isTracing: Bool = false
  ) {
    self.seed = seed
    self.scenario = scenario ?? Scenario.of(seed: seed)
    self.bug = bug
    self.plan = plan
    self.isTracing = isTracing
  }

  /// Runs it to its end or to the first violation.
  public func run() throws(DestinationError) -> Result {
    let world = World(scenario: scenario, seed: seed, bug: bug, plan: plan, isTracing: isTracing)
    let run = try Run(world)
    return run.toEnd(healedSecondsMax: Self.healedSecondsMax, eventsMax: Self.eventsMax)
  }
}

/// The parts of one run, and the trouble that comes from outside.
private final class Run {
  private let world: World
  private let capture: SimulatedCapture
  private let receiver: SimulatedReceiver
  private let network: SimulatedNetwork
  private let client: SimulatedClient
  private let writers: SimulatedWriters
  private var eventCount = 0
  private var isRetried = false

  init(_ world: World) throws(DestinationError) {
    self.world = world
    capture = SimulatedCapture(world)
    receiver = SimulatedReceiver(world)
    network = SimulatedNetwork(world, receiver)
    client = try SimulatedClient(world, capture, network)
    writers = SimulatedWriters(world, capture)
  }

  func toEnd(healedSecondsMax: Int64, eventsMax: Int) -> Simulation.Result {
    receiver.start()
    client.start()
    let active = Duration.seconds(Int64.random(in: world.scenario.seconds, using: &world.random))
    if world.scenario.isFixed { writers.runFixed() } else { writers.start(until: active) }
    world.time.after(.seconds(1)) { [self] in trouble(until: world.time.nanoseconds + active.nanoseconds) }
    world.time.after(active) { [self] in heal() }
    let limit = world.time.nanoseconds + active.nanoseconds + healedSecondsMax * 1_000_000_000
    while world.violation == nil, world.time.step() {
      eventCount += 1
      if world.isHealed, isRetried, client.isIdle, receiver.isQuiet { break }
      if world.time.nanoseconds > limit { checkEnd(isFinished: false) }
      if eventCount > eventsMax { world.fail("runaway", "\(eventCount) events have happened") }
    }
    if world.violation == nil { checkEnd(isFinished: true) }
    world.time.end()
    return Simulation.Result(
      violation: world.violation, effectCount: world.effectCount, eventCount: eventCount, seconds: world.time.seconds,
      publicationCount: world.oracle.publicationCount,
      fingerprint: world.random.state ^ UInt64(bitPattern: world.time.nanoseconds), trace: world.log)
  }

  /// Once a virtual second, what may go wrong as a whole.
  private func trouble(until end: Int64) {
    guard world.time.nanoseconds < end, !world.isHealed else { return }
    let scenario = world.scenario
    if world.strikes(scenario.partitions / 60) {
      network.partition(for: world.random.duration(.milliseconds(100)...(.seconds(40))))
    }
    if world.strikes(scenario.clientCrashes / 60) { client.crash() }
    if world.strikes(scenario.clientStops / 60) { client.stop() }
    if world.strikes(scenario.receiverCrashes / 60) { receiver.crash() }
    if world.strikes(scenario.clockJumps / 60) {
      world.time.wallJump = [.zero, .seconds(3600), .seconds(-3600)].randomElement(using: &world.random) ?? .zero
      world.trace("the clock jumps to \(world.time.wallJump)")
    }
    if world.strikes(scenario.fullDisks / 60) {
      let side: Side = world.random.happens(0.5) ? .client : .receiver
      world.trace("the disk of the \(side) is full")
      world.fullDisks.insert(side)
      world.time.after(world.random.duration(.milliseconds(500)...(.seconds(15)))) { [world] in
        world.fullDisks.remove(side)
      }
    }
    world.time.after(.seconds(1)) { [self] in trouble(until: end) }
  }

  private func heal() {
    world.heal()
    network.heal()
    if !receiver.isUp { receiver.start() }
    if !client.isUp { client.start() }
    writers.end()
    // Somebody tries what has failed again, or nobody does.
    let retries = world.random.happens(0.5)
    world.time.after(.seconds(2)) { [self] in
      if retries { client.retryAll() }
      isRetried = true
    }
    legitimateFailures = retries ? [] : world.scenario.legitimateFailures
  }

  private var legitimateFailures: Set<String> = []

  /// Each file that has a final name shows its last content under it, or says why not.
  private func checkEnd(isFinished: Bool) {
    for name in capture.names where !TemporaryNameRule.standard.matches(name.lastComponent) {
      guard let file = capture.file(named: name) else { continue }
      if receiver.store.shown(client.publishedName(for: name)) == file.bytes { continue }
      let (isFailed, text, code) = client.explanation(of: file.id)
      if isFailed, let code, legitimateFailures.contains(code) { continue }
      world.fail("delivery", "\(name.displayText) (\(file.id.short)) is not published as it is: \(text)")
    }
    if isFinished {
      client.checkIdle()
      receiver.store.checkPublished()
    } else {
      world.fail("progress", "not everything has come to an end")
    }
  }
}

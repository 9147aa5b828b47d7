public import Destinations

/// One run: writers, client, network and receiver in one thread under virtual time, everything drawn from one seed.
public struct Simulation: Sendable {
  /// The result of a run.
  public struct Result: Sendable {
    /// The first violation; nil when everything held.
    public var violation: Violation?
    /// The number of effects that asked for a verdict.
    public var effectCount: Int
    /// Events that happened.
    public var eventCount: Int
    /// Virtual time that passed.
    public var seconds: Double
    /// Files that the receiver published.
    public var publicationCount: Int
    /// A digest over the whole trace: the same for two runs with the same events, in every build and process.
    public var fingerprint: UInt64
    /// What happened, if a trace was asked for.
    public var trace: [String]
  }

  /// The seed of all random draws.
  public var seed: UInt64
  /// What is simulated.
  public var scenario: Scenario
  /// A planted mistake.
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

  /// Runs the simulation to its end or to the first violation.
  public func run() throws(DestinationError) -> Result {
    let added = scenario.added(by: seed)
    let world = World(scenario: scenario.with(added), seed: seed, bug: bug, plan: plan, isTracing: isTracing)
    if !added.isEmpty { world.trace("with \(list: added.lazy.map { "\($0)" })") }
    if scenario.isOfLine {
      return try LineRun(world, LineKind.all.randomElement(using: &world.random) ?? LineKind.all[0]).toEnd()
    }
    if scenario.isFleet { return try FleetRun(world).toEnd() }
    let run = try SimulationRun(world)
    return run.toEnd()
  }
}

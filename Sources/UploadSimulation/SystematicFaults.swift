public import Destinations

/// The fixed scenario again and again: the 1st effect fails once, then the 2nd, … the nth, until a run ends before its
/// nth effect. Then the same with effects that fail from then on, and with crashes.
public struct SystematicFaults: Sendable {
  /// The result of all runs.
  public struct Outcome: Sendable {
    /// The first run that violated an invariant.
    public var failure: (simulation: Simulation, result: Simulation.Result)?
    /// The number of runs.
    public var runCount = 0
    /// The number of the last effect that was reached.
    public var effectCount = 0
  }

  /// The seed of all random draws.
  public var seed: UInt64

  /// All runs of a seed.
  public init(seed: UInt64) { self.seed = seed }

  /// Runs all until one fails.
  public func run() throws(DestinationError) -> Outcome {
    var outcome = Outcome()
    for makePlan in [PlannedFault.failOnce(at:), PlannedFault.failFrom, PlannedFault.crash(at:)] {
      var number = 1
      while true {
        let simulation = Simulation(seed: seed, scenario: .fixed, plan: makePlan(number))
        let result = try simulation.run()
        outcome.runCount += 1
        outcome.effectCount = max(outcome.effectCount, min(number, result.effectCount))
        if result.violation != nil {
          outcome.failure = (simulation, result)
          return outcome
        }
        if result.effectCount < number { break }
        number += 1
      }
    }
    return outcome
  }
}

extension Simulation {
  /// The command that replays the run, with a trace.
  public var replayCommand: String {
    var command = "scripts/simulate --seed \(seed) --scenario \(scenario.name)"
    if let bug { command += " --bug \(bug.rawValue)" }
    switch plan {
    case .failOnce(let number): command += " --fail-once \(number)"
    case .failFrom(let number): command += " --fail-from \(number)"
    case .crash(let number): command += " --crash-at \(number)"
    case nil: break
    }
    return command + " --trace"
  }
}

import Destinations
import Glibc
import Integrity
import ProgramVersion
import UploadSimulation

/// Runs seeds one after the other, and says how to see a failing one again.
struct SimulationCommand {
  struct UsageError: Error {
    var message: String
  }

  static let usage = """
    usage: scripts/simulate [--seeds N] [--seed S] [--scenario NAME] [--bug NAME] [--trace] [--systematic] [--prove]
                            [--fingerprints] [--list] [--version]

      --seeds N        as many seeds, one after the other (100)
      --seed S         the first one; a random one unless given
      --scenario NAME  always this scenario; without it the seeds take turns
      --bug NAME       make this mistake on purpose, and expect the simulation to find it
      --trace          print what happens
      --systematic     the fixed scenario with each effect failing once, for ever, or crashing its side
      --seconds N      seeds until so many seconds have passed
      --prove          show for each bug that the simulation finds it by its invariant, and nothing without it
      --fingerprints   a digest of the trace of each scenario and seed from 1 on (as many as --seeds says), and one of
                       each scenario: the same in every build whose decisions are the same
      --list           the names of the scenarios, the invariants and the bugs
      --version        the version, the commit and the libraries
    """

  private var seedCount: UInt64 = 100
  private var firstSeed = UInt64.random(in: 0..<1_000_000_000)
  private var scenario: Scenario?
  private var bug: PlantedBug?
  private var plan: PlannedFault?
  private var isTracing = false
  private var isSystematic = false
  private var isListing = false
  private var isProving = false
  private var printsFingerprints = false
  private var secondsMax: UInt64?

  init(_ arguments: [String]) throws {
    var rest = arguments[...]
    func value(_ flag: String) throws -> String {
      guard let value = rest.popFirst() else { throw UsageError(message: "\(flag) needs a value") }
      return value
    }
    func number(_ flag: String) throws -> UInt64 {
      guard let number = UInt64(try value(flag)) else { throw UsageError(message: "\(flag) needs a number") }
      return number
    }
    while let flag = rest.popFirst() {
      switch flag {
      case "--seeds": seedCount = try number(flag)
      case "--seed":
        firstSeed = try number(flag)
        if !arguments.contains("--seeds") { seedCount = 1 }
      case "--scenario":
        let name = try value(flag)
        guard let found = Scenario.named(name) else { throw UsageError(message: "there is no scenario \(name)") }
        scenario = found
      case "--bug":
        let name = try value(flag)
        guard let found = PlantedBug(rawValue: name) else { throw UsageError(message: "there is no bug \(name)") }
        bug = found
      case "--fail-once": plan = .failOnce(at: Int(try number(flag)))
      case "--fail-from": plan = .failFrom(Int(try number(flag)))
      case "--crash-at": plan = .crash(at: Int(try number(flag)))
      case "--trace": isTracing = true
      case "--systematic": isSystematic = true
      case "--prove": isProving = true
      case "--fingerprints":
        printsFingerprints = true
        if !arguments.contains("--seed") { firstSeed = 1 }
      case "--seconds":
        secondsMax = try number(flag)
        seedCount = 1 << 32
      case "--list": isListing = true
      case "--help", "-h":
        print(Self.usage)
        exit(0)
      case "--version":
        print(ProgramVersion.text(of: "uploadfs-simulate", libraries: IntegrityLibraries.versions))
        exit(0)
      default: throw UsageError(message: "unknown: \(flag)")
      }
    }
  }

  /// The exit status: 0 when everything held.
  func run() throws -> Int32 {
    if isListing {
      print("scenarios: \((Scenario.all + [.fixed]).map(\.name).joined(separator: " "))")
      print("invariants: \(Invariant.allCases.map(\.rawValue).joined(separator: " "))")
      print("bugs: \(PlantedBug.allCases.map(\.rawValue).joined(separator: " "))")
      return 0
    }
    if isProving { return try prove() }
    if printsFingerprints { return try runFingerprints() }
    return isSystematic ? try runSystematic() : try runSeeds()
  }

  private func runSeeds() throws -> Int32 {
    if seedCount > 1 { print("from seed \(firstSeed) on") }
    var virtualSeconds = 0.0
    var publications = 0
    var count = 0
    let start = time(nil)
    for seed in firstSeed..<(firstSeed &+ seedCount) {
      let simulation = Simulation(seed: seed, scenario: scenario, bug: bug, plan: plan, isTracing: isTracing)
      let result = try simulation.run()
      count += 1
      virtualSeconds += result.seconds
      publications += result.publicationCount
      if let violation = result.violation { return report(violation, of: simulation, result) }
      if isTracing { for line in result.trace { print(line) } }
      if let secondsMax, time(nil) - start >= Int(secondsMax) { break }
    }
    print("everything held: \(count) seeds, \(Int(virtualSeconds)) virtual seconds, \(publications) publications")
    return 0
  }

  private func prove() throws -> Int32 {
    var isProven = true
    var proven: Set<Invariant> = []
    for bug in PlantedBug.allCases {
      let claim = "\(bug.rawValue): \(bug.invariant.rawValue), scenario \(bug.scenario.name):"
      if let (seed, _) = try bug.seedThatFinds(among: 1..<1 + PlantedBug.seedsMax) {
        proven.insert(bug.invariant)
        print("\(claim) seed \(seed)")
      } else {
        isProven = false
        print("\(claim) NOT FOUND with \(PlantedBug.seedsMax) seeds")
      }
    }
    for invariant in Invariant.allCases where !proven.contains(invariant) {
      isProven = false
      print("\(invariant.rawValue): NOT PROVEN by any bug")
    }
    return isProven ? 0 : 1
  }

  private func runFingerprints() throws -> Int32 {
    for scenario in scenario.map({ [$0] }) ?? Scenario.all + [.fixed] {
      let fingerprints = try Fingerprints(of: scenario, seeds: firstSeed..<firstSeed &+ seedCount)
      for line in fingerprints.lines { print(line) }
    }
    return 0
  }

  private func runSystematic() throws -> Int32 {
    let outcome = try SystematicFaults(seed: 1).run()
    if let (simulation, result) = outcome.failure, let violation = result.violation {
      return report(violation, of: simulation, result)
    }
    print("everything held: \(outcome.runCount) runs, each with one of \(outcome.effectCount) effects at fault")
    return 0
  }

  private func report(_ violation: Violation, of simulation: Simulation, _ result: Simulation.Result) -> Int32 {
    for line in result.trace { print(line) }
    print(
      """
      FAILED: seed \(simulation.seed), scenario \(simulation.scenario.name), after \(violation.seconds) virtual seconds
        \(violation.invariant.rawValue): \(violation.detail)
        again: \(simulation.replayCommand)
      """)
    return 1
  }
}

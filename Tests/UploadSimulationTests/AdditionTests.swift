import Testing

@testable import UploadSimulation

/// What comes to a scenario by chance of its seed.
@Suite struct AdditionTests {
  private static let scenario = Scenario.everything

  @Test(arguments: Addition.allCases, 1..<4 as Range<UInt64>)
  func everything_holds_withEachOfThem(_ addition: Addition, _ seed: UInt64) throws {
    let simulation = Simulation(seed: seed, scenario: Self.scenario.with([addition]))
    let violation = try simulation.run().violation
    #expect(violation == nil, "everything with \(addition.word), seed \(seed)")
  }

  /// Regression (invariant): an address fails while the name of a request to it is recorded, which had been chosen before.
  @Test func addressThatFailsWhileANameIsRecorded_isNoWrongChoice() throws {
    let simulation = Simulation(seed: 39_500_000_177, scenario: Self.scenario)
    let violation = try simulation.run().violation
    #expect(violation == nil)
  }

  /// Regression (invariant): what an address had answered before three days of sleep was held against it.
  @Test func addressThatFailedBeforeASleep_isNoWrongChoice() throws {
    let simulation = Simulation(seed: 48_100_024_195, scenario: Self.scenario)
    let violation = try simulation.run().violation
    #expect(violation == nil)
  }

  /// Regression (invariant): a search of the spool that its disk refuses is waited for ten seconds.
  @Test func searchThatIsGivenUp_endsTheWaiting() throws {
    let simulation = Simulation(seed: 52_000_009_161, scenario: Self.scenario)
    let violation = try simulation.run().violation
    #expect(violation == nil)
  }

  @Test func eachIsDrawn_andSeedsThatFoundSomethingAreWhatTheyWere() {
    let drawn = (1..<200).flatMap { Self.scenario.added(by: $0) }
    for addition in Addition.allCases { #expect(drawn.contains(addition), "\(addition.word)") }
    let found = SimulationTests.found.filter { $0.scenario == Self.scenario.name }
    for seed in found.map(\.seed) + [1, 2, 3] { #expect(Self.scenario.added(by: seed).isEmpty, "\(seed)") }
  }
}

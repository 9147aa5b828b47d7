import Testing

@testable import UploadSimulation

/// The model of a line.
@Suite struct LineTests {
  private static let alone = LineKind.all.filter { $0.otherFlows == 0 }

  @Test(arguments: alone)
  func streamsThatNeverPause_fillTheLine(_ kind: LineKind) {
    let bytes = Int(30 * kind.bytesPerSecond)
    let seconds = Line.seconds(for: bytes, over: 4, of: kind)
    // They begin slowly: their windows double with each round trip.
    #expect(seconds >= 30 - 0.02 && seconds < 30.5 + 10 * kind.roundTripSeconds)
  }

  @Test func streamsBesideAnotherFlow_haveTheirShare() {
    let kind = LineKind(kilobitsPerSecond: 5000, roundTrip: .milliseconds(20), queue: .packets(20), otherFlows: 1)
    let bytes = Int(10 * kind.bytesPerSecond)
    #expect(abs(Line.seconds(for: bytes, over: 1, of: kind) - 20) < 1)
    #expect(abs(Line.seconds(for: bytes, over: 4, of: kind) - 12.5) < 1)
  }

  @Test func whatIsSentBesideAFullQueue_waitsBehindIt() {
    var line = Line(
      LineKind(kilobitsPerSecond: 1000, roundTrip: .milliseconds(100), queue: .seconds(2), otherFlows: 0))
    #expect(line.waitSeconds == 0)
    let first = line.connect()
    line.send(10_000_000, over: first)
    for _ in 0..<3000 { _ = line.pass(seconds: 0.01) }
    #expect(line.waitSeconds > 1.9 && line.waitSeconds <= 2)
    // It comes to its share.
    let second = line.connect()
    line.send(10_000_000, over: second)
    let before = line.passed(over: second)
    for _ in 0..<3000 { _ = line.pass(seconds: 0.01) }
    #expect(line.passed(over: second) - before > 1_000_000)
    #expect(line.confirmed(over: second) < line.passed(over: second))
    line.breakOff(first)
    line.breakOff(second)
    #expect(!line.isBusy && line.waitSeconds == 0)
  }
}

/// Captures over lines of all kinds.
@Suite struct LineRunTests {
  /// Those of Benchmarks/lines.
  private static let named: Set = [
    "256kbit-20ms-2s", "256kbit-600ms-20p", "1mbit-100ms-2s", "1mbit-100ms-20p", "1mbit-600ms-2s",
    "1mbit-100ms-2s-beside", "5mbit-20ms-2s", "5mbit-600ms-20p", "20mbit-100ms-2s", "20mbit-100ms-20p",
    "20mbit-100ms-2s-beside", "200mbit-20ms-20p",
  ]

  private func expectHolds(_ scenario: Scenario, _ kind: LineKind) throws {
    let world = World(scenario: scenario, seed: 1, bug: nil, plan: nil, isTracing: false)
    let violation = try LineRun(world, kind).toEnd().violation
    #expect(violation == nil, "\(scenario.name), \(kind): \(violation?.detail ?? "")")
  }

  @Test(arguments: LineKind.all)
  func captureForTheReceiver_takesTheLineAndNoMore(_ kind: LineKind) throws {
    try expectHolds(.line, kind)
  }

  @Test(arguments: LineKind.all.filter { named.contains($0.description) }, [Scenario.lineTus, .lineS3, .lineForm])
  func captureForAnotherServer_takesTheLineAndNoMore(_ kind: LineKind, _ scenario: Scenario) throws {
    try expectHolds(scenario, kind)
  }

  @Test func linesOfBenchmarks_areAmongThem() {
    #expect(Self.named.isSubset(of: LineKind.all.map(\.description)))
  }
}

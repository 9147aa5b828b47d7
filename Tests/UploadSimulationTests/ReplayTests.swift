import Foundation
import Testing
import UploadSimulation

/// A seed is the same run every time: in this process and in another, in the program and in tests, optimised or not. Swift
/// hashes differently in every process, so an order that came from hashing would show here.
@Suite struct ReplayTests {
  /// As `scripts/simulate --fingerprints --seeds 3` prints it, which is also how it is made anew after a change that is meant to
  /// change what is decided.
  private static let goldenFile = URL(filePath: #filePath).deletingLastPathComponent().appending(
    path: "fingerprints.txt")
  private static let recordedSeeds: Range<UInt64> = 1..<4

  /// Made anew by `scripts/simulate --fingerprints --seeds 3`, after a change that is meant to change what is decided.
  @Test(arguments: Scenario.all + [.fixed])
  func seeds_haveTheFingerprintsThatAreRecorded(_ scenario: Scenario) throws {
    let expected = try Self.lines(of: "fingerprints.txt").filter { $0.hasPrefix("\(scenario.name) ") }
    #expect(expected.count == Self.recordedSeeds.count + 1)
    #expect(try Fingerprints(of: scenario, seeds: Self.recordedSeeds).lines == expected)
  }

  @Test func aSeed_isTheSameRun_twiceInOneProcess() throws {
    let simulation = Simulation(seed: 7, scenario: .named("everything"), isTracing: true)
    let (first, second) = (try simulation.run(), try simulation.run())
    #expect(first.trace == second.trace)
    #expect(first.fingerprint == second.fingerprint)
  }

  /// The program runs without any environment, and is told nothing but the seeds.
  @Test func seeds_areTheSameRuns_inTheProgram() throws {
    let process = Process()
    // Beside the tests in the build folder.
    process.executableURL = try URL(
      fileURLWithPath: FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    ).deletingLastPathComponent().appending(path: "uploadfs-simulate")
    process.arguments = ["--fingerprints", "--scenario", "everything", "--seed", "7", "--seeds", "4"]
    process.environment = [:]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    let scenario: Scenario = try #require(Scenario.named("everything"))
    #expect(text.split(separator: "\n").map(String.init) == (try Fingerprints(of: scenario, seeds: 7..<11).lines))
  }

  /// Lines are made for the fingerprint whether or not they are read.
  @Test func theFingerprint_isOfTheWholeTrace() throws {
    let scenario = Scenario.named("crashes")
    let quiet = try Simulation(seed: 3, scenario: scenario).run()
    let traced = try Simulation(seed: 3, scenario: scenario, isTracing: true).run()
    #expect(quiet.trace.isEmpty && traced.trace.count > 100)
    #expect(quiet.fingerprint == traced.fingerprint)
    #expect(try Simulation(seed: 4, scenario: scenario).run().fingerprint != quiet.fingerprint)
    // The same but for one fault.
    let fixed = try Simulation(seed: 1, scenario: .fixed).run()
    let faulty = try Simulation(seed: 1, scenario: .fixed, plan: .failOnce(at: 9)).run()
    #expect(fixed.fingerprint != faulty.fingerprint)
  }

  /// The words are the trace's own: a type or a case may be renamed. Made anew by
  /// `scripts/simulate --scenario fixed --seed 1 --trace`, whose last line is the result.
  @Test func theTrace_hasTheWordsThatAreRecorded() throws {
    let recorded = try Self.lines(of: "fixed-trace.txt").dropLast()
    let trace = try Simulation(seed: 1, scenario: .fixed, isTracing: true).run().trace
    #expect(trace.count == recorded.count)
    for (line, expected) in zip(trace, recorded) { try #require(line == expected) }
  }

  private static func lines(of name: String) throws -> [String] {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: name)
    return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init)
  }
}

public import Destinations

/// The fingerprints of several seeds of a scenario, as text: two builds whose decisions are the same print the same.
public struct Fingerprints: Sendable {
  /// One line for each seed, and a last one for all of them.
  public private(set) var lines: [String] = []

  /// Runs the seeds.
  public init(of scenario: Scenario, seeds: Range<UInt64>) throws(DestinationError) {
    var all = Trace(keepsLines: false)
    for seed in seeds {
      let result = try Simulation(seed: seed, scenario: scenario).run()
      all.mix(result.fingerprint)
      let end = result.violation.map { ", violates \($0.invariant.rawValue)" } ?? ""
      lines.append("\(scenario.name) \(seed) \(Self.text(result.fingerprint))\(end)")
    }
    lines.append("\(scenario.name) all \(Self.text(all.fingerprint))")
  }

  private static func text(_ fingerprint: UInt64) -> String {
    let digits = String(fingerprint, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}

public import MountConfiguration
import UploadEngine

/// Everything that was found about one destination and this machine.
public struct Findings: Sendable {
  /// Where captures are to go; holds no credentials.
  public let destination: String
  /// In the order in which they were made.
  public private(set) var all: [Finding] = []

  /// Nothing found yet.
  public init(destination: String) {
    self.destination = destination
  }

  /// Adds what a check has found.
  public mutating func add(_ finding: Finding) { all.append(finding) }

  /// How many there are of a level.
  public func count(_ level: Finding.Level) -> Int { all.count { $0.level == level } }

  /// The first problem decides; warnings are no failure.
  public var exitStatus: ExitStatus { all.first { $0.level == .problem }?.status ?? .success }

  /// The last line for people.
  public var summary: String {
    let problems = count(.problem)
    let warnings = count(.warning)
    let found = [(problems, "problem"), (warnings, "warning")].filter { $0.0 > 0 }.map { Readable.count($0.0, $0.1) }
    guard !found.isEmpty else { return "All is well." }
    return "\(found.joined(separator: " and ")) found\(problems == 0 ? "; captures can be delivered." : ".")"
  }

  /// Everything for programs (docs/doctor.schema.json).
  public var json: [UInt8] {
    JSONWriter.document(paddedTo: 1) { json in
      json.field("destination", destination)
      json.field("ok", count(.problem) == 0)
      json.field("exit_code", exitStatus.rawValue)
      json.field("problems", count(.problem))
      json.field("warnings", count(.warning))
      json.field("findings", objects: all) { json, finding in finding.write(to: &json) }
    }
  }
}

extension Finding {
  /// The lines for people: what was found, and below it what to do.
  public var words: String {
    let mark = "\(level.word)\(String(repeating: " ", count: 8 - level.word.count))"
    let topic = "\(check.rawValue)\(String(repeating: " ", count: max(0, 12 - check.rawValue.count)))"
    let next = advice.map { "\n\(String(repeating: " ", count: 21))→ \(Readable.line($0))" } ?? ""
    return "\(mark) \(topic) \(Readable.line(message))\(next)"
  }

  fileprivate func write(to json: inout JSONWriter) {
    json.field("check", check.rawValue)
    json.field("level", level.rawValue)
    json.field("message", message)
    json.field("advice", advice)
    guard !facts.isEmpty else { return }
    json.field("facts") { json in
      for fact in facts {
        switch fact.value {
        case .number(let number): json.field(fact.key, number)
        case .text(let text): json.field(fact.key, text)
        case .flag(let flag): json.field(fact.key, flag)
        case .texts(let texts): json.field(fact.key, strings: texts)
        }
      }
    }
  }
}

extension Finding.Level {
  fileprivate var word: String {
    switch self {
    case .ok: "ok"
    case .warning: "warning"
    case .problem: "PROBLEM"
    case .skipped: "-"
    }
  }
}

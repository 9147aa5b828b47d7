public import FileModel
public import MountConfiguration
import UploadEngine

/// Everything that was found about the destinations and this machine.
public struct Findings: Sendable {
  /// A destination that is checked.
  public struct Subject: Hashable, Sendable {
    /// What rules call it.
    public var name: DestinationName
    /// As it was given; holds no credentials.
    public var address: String

    /// A destination.
    public init(_ name: DestinationName, _ address: String) {
      self.name = name
      self.address = address
    }

    /// For people: the line above what was found about it.
    public func title(isAlone: Bool) -> String { Readable.line(isAlone ? address : "\(name): \(address)") }
  }

  /// Where captures are to go; the first is that of `--to`.
  public let destinations: [Subject]
  /// In the order in which they were made; those about this machine have no name.
  public private(set) var all: [(about: DestinationName?, finding: Finding)] = []

  /// Nothing found yet.
  public init(destinations: [Subject]) {
    self.destinations = destinations
  }

  /// Adds what a check has found about a destination, or about this machine.
  public mutating func add(_ finding: Finding, about destination: DestinationName? = nil) {
    all.append((destination, finding))
  }

  /// How many there are of a level.
  public func count(_ level: Finding.Level) -> Int { all.count { $0.finding.level == level } }

  private func count(_ level: Finding.Level, about destination: DestinationName) -> Int {
    all.count { $0.about == destination && $0.finding.level == level }
  }

  /// The first problem decides; warnings are no failure.
  public var exitStatus: ExitStatus { all.first { $0.finding.level == .problem }?.finding.status ?? .success }

  /// The last line for people.
  public var summary: String {
    let problems = count(.problem)
    let warnings = count(.warning)
    let found = [(problems, "problem"), (warnings, "warning")].filter { $0.0 > 0 }.map { Readable.count($0.0, $0.1) }
    guard !found.isEmpty else { return "All is well." }
    return "\(found.joined(separator: " and ")) found\(problems == 0 ? "; captures can be delivered." : ".")"
  }

  /// Everything for programs (docs/doctor.schema.json). Of one destination it is what it was before there could be several.
  public var json: [UInt8] {
    let areSeveral = destinations.count > 1
    return JSONWriter.document(paddedTo: 1) { json in
      json.field("destination", destinations.first?.address)
      json.field("ok", count(.problem) == 0)
      json.field("exit_code", exitStatus.rawValue)
      json.field("problems", count(.problem))
      json.field("warnings", count(.warning))
      if areSeveral {
        json.field("destinations", objects: destinations) { json, destination in
          json.field("name", destination.name.text)
          json.field("to", destination.address)
          json.field("ok", count(.problem, about: destination.name) == 0)
          json.field("problems", count(.problem, about: destination.name))
          json.field("warnings", count(.warning, about: destination.name))
        }
      }
      json.field("findings", objects: all) { json, entry in
        if areSeveral { json.field("destination", entry.about?.text) }
        entry.finding.write(to: &json)
      }
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

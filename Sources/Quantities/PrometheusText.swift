/// Writes Prometheus' text format 0.0.4.
package struct PrometheusText {
  /// What a scraper may do with the numbers of a family.
  package enum Kind: String {
    case counter, gauge
  }

  /// One number, with what tells it from the others of its family.
  package struct Sample {
    package var labels: [(name: StaticString, value: String)] = []
    package var value: Double

    package init(_ labels: [(name: StaticString, value: String)] = [], _ value: Double) {
      self.labels = labels
      self.value = value
    }
  }

  /// What is written.
  package private(set) var bytes: [UInt8] = []

  package init() { bytes.reserveCapacity(8 << 10) }

  /// One family with all its samples; nothing at all when there is none. Names and explanations are ours and need no
  /// escapes.
  package mutating func family(_ name: StaticString, _ kind: Kind, _ help: StaticString, _ samples: [Sample]) {
    guard !samples.isEmpty else { return }
    begin(name, kind, help)
    for sample in samples {
      write("\(name)")
      if !sample.labels.isEmpty {
        let labels = sample.labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }
        write("{\(labels.joined(separator: ","))}")
      }
      write(" \(Self.text(sample.value))\n")
    }
  }

  package mutating func family(_ name: StaticString, _ kind: Kind, _ help: StaticString, _ value: Double) {
    family(name, kind, help, [Sample([], value)])
  }

  package mutating func family(_ name: StaticString, _ kind: Kind, _ help: StaticString, _ value: some BinaryInteger) {
    begin(name, kind, help)
    write("\(name) \(value)\n")
  }

  package mutating func family(_ name: StaticString, _ kind: Kind, _ help: StaticString, _ flag: Bool) {
    family(name, kind, help, flag ? 1.0 : 0.0)
  }

  private mutating func begin(_ name: StaticString, _ kind: Kind, _ help: StaticString) {
    write("# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n")
  }

  private mutating func write(_ text: String) { bytes.append(contentsOf: text.utf8) }

  /// A label's value: backslash, quote and line feed are escaped, and every other text is taken as it is.
  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": escaped += "\\\\"
      case "\"": escaped += "\\\""
      case "\n": escaped += "\\n"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

  /// Whole numbers without a fraction, for people who read it.
  private static func text(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    guard let whole = Int64(exactly: value) else { return "\(value)" }
    return "\(whole)"
  }
}

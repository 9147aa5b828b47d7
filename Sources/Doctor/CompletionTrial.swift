import TransferModel

/// Publishes a file in chunks, as long captures are, where it can be taken away again: what a server knows of parts, checksums
/// and conditions shows at the end only, and some know other things there than where a small file is sent.
struct CompletionTrial {
  let publisher: TrialPublisher
  /// The same, where the server alone is to say that a name is taken; nil where captures replace each other.
  let underConditions: TrialPublisher?
  let file: TrialFile
  let other: TrialFile

  /// Blocks until it is done. Nothing is found out where the file cannot be taken away.
  func run(clockDifference: Int64?) -> [Finding] {
    let begin = ContinuousClock.now
    let outcome = publisher.publishInSession(file)
    let time = begin.duration(to: .now)
    guard case .published(let receipt) = outcome else {
      guard case .refused(let failure) = outcome else {
        return [Finding(.completion, .problem, "the server answered the end of an upload with something unexpected.")]
      }
      return [.refusal(failure, of: .completion, clockDifference: clockDifference)]
    }
    let conditions = underConditions.map { trial in
      Finding.conditions(
        small: trial.publish(other), long: trial.publishInSession(other), advice: trial.advice.unclearConditions)
    }
    return [.completed(receipt, in: time, removal: publisher.remove(file, receipt))] + (conditions.map { [$0] } ?? [])
  }
}

extension Finding {
  /// Of a test file that was published in parts.
  static func completed(_ receipt: Receipt, in time: Duration, removal: TrialPublisher.Removal) -> Finding {
    let facts = [
      Fact(key: "removed", value: .flag(removal == .done)),
      Fact(key: "milliseconds", value: .number(Int64(time / .milliseconds(1)))),
    ]
    let found = "a file was published in parts, as long captures are (\(time.readable))"
    guard case .failed(let why) = removal else {
      return Finding(.completion, .ok, "\(found), and taken away again.", facts: facts)
    }
    return Finding(
      .completion, .warning, "\(found), and cannot be taken away again (\(why)).",
      advice: "Captures need no permission for that. Delete \(receipt.name) by hand, or leave it.", facts: facts)
  }

  /// What became of two files under a name that was taken: of a small one, and of one in parts. `advice` is for where that tells
  /// nothing.
  static func conditions(small: StepOutcome, long: StepOutcome, advice: String?) -> Finding {
    let outcomes = [("a small file", small), ("a file in parts", long)]
    let ignored = outcomes.filter { if case .published = $0.1 { true } else { false } }.map(\.0)
    let facts = [Fact(key: "ignored_for", value: .texts(ignored))]
    guard ignored.isEmpty else {
      return Finding(
        .conditions, .warning,
        "the server ignores the condition that a name must be free: it replaced a file by "
          + "\(ignored.joined(separator: " and by ")).",
        advice: "Each name is looked for before; in the moment between, another program can take it. "
          + "Let no other one write below this prefix, or use a server that knows If-None-Match.", facts: facts)
    }
    let unclear = outcomes.compactMap { name, outcome -> String? in
      if case .refused(let failure) = outcome { return failure.kind == .nameRefused ? nil : failure.message }
      return "\(name) was answered with something unexpected"
    }
    guard let first = unclear.first else {
      return Finding(
        .conditions, .ok, "the server keeps what is there when it is asked to.", facts: facts)
    }
    return Finding(
      .conditions, .warning, "whether the server keeps what is there is not clear: \(first)",
      advice: advice, facts: facts)
  }
}

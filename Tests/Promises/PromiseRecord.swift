private import Glibc

/// What one run of one test says of one promise: a line that scripts/promises reads.
struct PromiseRecord: Equatable, Sendable {
  enum Outcome: Equatable, Sendable {
    /// The test's body ran to its end. Whether it passed is the run's own result.
    case ran
    /// Left out for what this machine cannot have.
    case lacks(Ability, reason: String)
    case skipped(reason: String)
  }

  let promise: String
  let outcome: Outcome
  let test: String

  /// Promise, outcome and test, with tabs between them.
  var line: String {
    [promise, outcome.text, test].map { $0.map { $0.isNewline || $0 == "\t" ? " " : String($0) }.joined() }
      .joined(separator: "\t") + "\n"
  }

  /// Appends the line to the file that TEST_PROMISES names; nothing when there is none. One write for one line: tests and
  /// processes side by side use the same file.
  func append() {
    guard let path = getenv("TEST_PROMISES"), path.pointee != 0 else { return }
    let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
    let bytes = Array(line.utf8)
    guard descriptor >= 0, write(descriptor, bytes, bytes.count) == bytes.count else {
      preconditionFailure("a promise cannot be recorded in \(String(cString: path)): errno \(errno)")
    }
    close(descriptor)
  }
}

extension PromiseRecord.Outcome {
  fileprivate var text: String {
    switch self {
    case .ran: "ran"
    case .lacks(let ability, let reason): "lacks \(ability.rawValue): \(reason)"
    case .skipped(let reason): "skipped \(reason)"
    }
  }
}

public import MountConfiguration

/// What one check has found out, and what to do next.
public struct Finding: Sendable {
  /// How things stand.
  public enum Level: String, CaseIterable, Sendable {
    case ok
    /// It works, but not as well as it could, or not for ever.
    case warning
    /// Captures could not be delivered, or not be made.
    case problem
    /// Not checked; the message says why.
    case skipped
  }

  /// What was checked. The raw values are part of the JSON: they never change.
  public enum Check: String, CaseIterable, Sendable {
    case settings
    case names
    case connection
    case tls
    case http
    case clock
    case credentials
    case abilities
    case limits
    case testFile = "test-file"
    case completion
    case conditions
    case session
    case throughput
    case spool
    case space
    case fuse
    case passthrough
    case openFiles = "open-files"
    case memory
    case congestion
  }

  /// A detail for programs.
  public struct Fact: Sendable {
    /// A number, a text or a yes or no.
    public enum Value: Hashable, Sendable {
      case number(Int64)
      case text(String)
      case flag(Bool)
      case texts([String])
    }

    /// Its name in the JSON.
    public var key: StaticString
    /// Its value.
    public var value: Value
  }

  /// What was checked.
  public var check: Check
  /// How things stand.
  public var level: Level
  /// What was found, for people: one sentence without a secret.
  public var message: String
  /// What to do next; nil when nothing is to be done, or the message says it.
  public var advice: String?
  /// Details for programs.
  public var facts: [Fact]
  /// What a problem of this kind ends the program with.
  public var status: ExitStatus

  /// A finding about the destination, unless the status says otherwise.
  public init(
    _ check: Check, _ level: Level, _ message: String, advice: String? = nil, facts: [Fact] = [],
    status: ExitStatus = .destinationUnusable
  ) {
    self.check = check
    self.level = level
    self.message = message
    self.advice = advice
    self.facts = facts
    self.status = status
  }
}

extension Finding {
  /// The same without what `hide` takes out of a text.
  public func hiding(_ hide: (String) -> String) -> Finding {
    var finding = self
    finding.message = hide(message)
    finding.advice = advice.map(hide)
    for index in facts.indices {
      switch facts[index].value {
      case .text(let text): finding.facts[index].value = .text(hide(text))
      case .texts(let texts): finding.facts[index].value = .texts(texts.map(hide))
      case .number, .flag: break
      }
    }
    return finding
  }

  /// Settings for experts that are not the usual ones; a server that is found slow or gone may be neither.
  public static func settings(_ changed: [String]) -> Finding {
    Finding(
      .settings, .ok, "set by --expert: \(changed.joined(separator: ", ")).",
      facts: [Fact(key: "expert", value: .texts(changed))])
  }
}

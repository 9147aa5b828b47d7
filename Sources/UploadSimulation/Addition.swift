/// What a run may have in addition to its scenario, drawn from its seed.
enum Addition: Hashable, Sendable, CaseIterable, TraceWord {
  /// Captures have names by templates.
  case templates
  /// Calls wait for deliveries.
  case waits
  /// Files go to a second destination as well.
  case secondPlace

  var word: String {
    switch self {
    case .templates: "templates"
    case .waits: "waits"
    case .secondPlace: "a second place"
    }
  }
}

extension Scenario {
  /// The probability of each addition.
  private static let additionShare = 0.25

  /// Drawn so that the seeds that once found something in a scenario add nothing to it, nor do the recorded ones.
  private static let mixture: UInt64 = ~0x3858

  /// The additions of a seed. They are drawn separately, so that a seed that adds nothing replays the same run as
  /// without additions.
  func added(by seed: UInt64) -> [Addition] {
    var random = SeededGenerator(seed: seed ^ Self.mixture)
    let drawn = additions.filter { _ in random.happens(Self.additionShare) }
    // Two destinations share one record of names in the daemon, and have a client each here; and calls wait for one of
    // these alone.
    return drawn.contains(.secondPlace) ? [.secondPlace] : drawn
  }

  /// The same scenario with these additions.
  func with(_ additions: [Addition]) -> Scenario {
    var scenario = self
    scenario.additions = []
    for addition in additions { scenario.add(addition) }
    return scenario
  }

  private mutating func add(_ addition: Addition) {
    switch addition {
    case .templates:
      nameTemplates = Self.templates.nameTemplates
      (lostLedgers, folders) = (Self.templates.lostLedgers, Self.templates.folders)
      renames = max(renames, 0.5)
      // Files that cannot be read at a start are not in the initial record of names here. Nor is there a model for
      // clocks that go back, and for what a user wants published under a temporary name.
      (unreadable, clockJumps, words, kills) = (0, 0, 0, 0)
      failingSides = [.receiver]
    case .waits: waits = Self.waiting.waits
    case .secondPlace:
      furtherServers = Self.several.furtherServers
      // TLS ensures that requests to other servers arrive once and whole; they have one address.
      (duplicates, damage, nonsense, tooEarly) = (0, 0, 0, 0)
      (addresses, addressTroubles) = (1, 0)
      // Commands go to one client here, and losses of the spool's disk are reported to one alone. The other destination
      // is healthy all the time, and would hold back files that look older than they are.
      (words, powerCuts, failingDisks, fullDisks, brokenEffects, unreadable) = (0, 0, 0, 0, 0, 0)
      (crashesInEffects, clockJumps) = (0, 0)
    }
  }
}

/// What a run may have beside what its scenario says, by chance of its seed.
enum Addition: Hashable, Sendable, CaseIterable, TraceWord {
  /// Captures have names by templates.
  case templates
  /// Calls wait for deliveries.
  case waits
  /// Files go to another place as well.
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
  /// How likely each is.
  private static let additionShare = 0.25

  /// So drawn, the seeds that once found something in a scenario add nothing to it, nor do the recorded ones.
  private static let mixture: UInt64 = ~0x3858

  /// What a seed adds. It is drawn apart from all else, so that a seed that adds nothing is the run that it is without.
  func added(by seed: UInt64) -> [Addition] {
    var random = SeededGenerator(seed: seed ^ Self.mixture)
    let drawn = additions.filter { _ in random.happens(Self.additionShare) }
    // Two places have one record of names in the daemon, and a client each here; and calls wait for one of these alone.
    return drawn.contains(.secondPlace) ? [.secondPlace] : drawn
  }

  /// The same with these.
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
      // What cannot be read at a start is not among what the record of names is begun with here; nor is there a model of it for clocks that
      // go back, and for what a user wants published under a temporary name.
      (unreadable, clockJumps, words, kills) = (0, 0, 0, 0)
      failingSides = [.receiver]
    case .waits: waits = Self.waiting.waits
    case .secondPlace:
      furtherServers = Self.several.furtherServers
      // TLS sees to it that requests to other servers come once and whole; they have one address.
      (duplicates, damage, nonsense, tooEarly) = (0, 0, 0, 0)
      (addresses, addressTroubles) = (1, 0)
      // Words are for one client here, and what a disk of the spool loses is told to one alone. The other place is well all the time, and
      // what looks older than it is would be held back from it.
      (words, powerCuts, failingDisks, fullDisks, brokenEffects, unreadable) = (0, 0, 0, 0, 0, 0)
      (crashesInEffects, clockJumps) = (0, 0)
    }
  }
}

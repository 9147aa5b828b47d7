import FileModel
import Lookup

/// An effect that can fail, or during which a machine can crash.
enum EffectKind: Hashable, Sendable {
  case write, sync, rename, read, send, catalog
  /// A query of a disk: the state of a file, the contents of a folder.
  case look
  /// A query of a file's mark, or of the record of its upload.
  case recall
  /// The kernel writes earlier bytes to the disk.
  case writeBack
}

/// The machine of an effect.
enum Side: Hashable, Sendable {
  case client, receiver
}

/// One fault in one effect: that with this number, counted from 1.
public enum PlannedFault: Hashable, Sendable {
  /// The effect fails, and the next ones do not.
  case failOnce(at: Int)
  /// The effect fails, and so does every effect of its kind and side until the end of the faults.
  case failFrom(Int)
  /// The effect's side crashes just before it.
  case crash(at: Int)
}

/// How a disk fails for a while.
struct DiskTrouble {
  /// Kinds that fail together: everything, writes, queries and recalls, or reads.
  static let kinds: [[EffectKind]] = [
    [.write, .sync, .rename, .read, .catalog, .look, .recall, .writeBack], [.sync, .writeBack], [.sync, .writeBack],
    [.writeBack], [.look, .recall], [.recall], [.look, .recall, .read], [.write, .rename, .catalog],
  ]

  var kinds: LookupSet<EffectKind>
  /// How likely each effect fails.
  var share: Double
}

/// The shared state of one run: time, random draws, faults, and the record of events.
final class World {
  /// The fate of an effect.
  enum Verdict {
    case done
    case failed
    case crash
  }

  let scenario: Scenario
  let bug: PlantedBug?
  let plan: PlannedFault?
  let time = VirtualTime()
  let oracle = Oracle()
  /// The oracle of every destination, that of the main one first.
  private(set) var oracles: [Oracle]
  var random: SeededGenerator
  /// From here on nothing fails any more.
  private(set) var isHealed = false
  /// From here on link and disks are good ones.
  var isGood = false
  private(set) var violation: Violation?
  private(set) var effectCount = 0
  private var failing: (side: Side, kind: EffectKind)?
  /// Disks that have no room at present.
  var fullDisks: LookupSet<Side> = []
  /// Disks that fail at present, for some kinds of effects and so often.
  private(set) var failingDisks: LookupTable<Side, DiskTrouble> = [:]
  /// The available memory of the capturing machine.
  var availableMemory: UInt64 = 1_000_000_000
  /// Whether a file of the spool has parts in a session, and nowhere else.
  var hasPartsAlone: (_ session: String) -> Bool = { _ in false }
  /// A settled content is about to change, and the daemon knows it, or has died during it.
  var contentChanges: (FileID) -> Void = { _ in }
  /// The receiver has published a session.
  var wasPublished: (_ session: String) -> Void = { _ in }
  /// The client's record of what it has published is complete, so that it never takes its own publications for another
  /// machine's.
  var knowsOwners = true
  /// The clients' records of what they have published.
  var publicationRecords: [SimulatedPublications] = []
  /// The targets of requests that arrived after their clients had given them up.
  var lateTargets: LookupSet<String> = []
  private var log: Trace

  init(scenario: Scenario, seed: UInt64, bug: PlantedBug?, plan: PlannedFault?, isTracing: Bool) {
    self.scenario = scenario
    self.bug = bug
    self.plan = plan
    log = Trace(keepsLines: isTracing)
    random = SeededGenerator(seed: seed)
    oracles = [oracle]
    oracle.report = { [unowned self] in fail($0, $1) }
  }

  func addOracle() -> Oracle {
    let further = Oracle()
    further.report = { [unowned self] in fail($0, $1) }
    oracles.append(further)
    return further
  }

  func heal() {
    isHealed = true
    fullDisks = []
    failingDisks = [:]
    availableMemory = 1_000_000_000
    trace("everything is healed")
  }

  /// True with this probability, as long as there are faults.
  func strikes(_ probability: Double) -> Bool { !isHealed && random.happens(probability) }

  /// Records the first violated invariant; the trace shows where it was found.
  func fail(_ invariant: Invariant, _ detail: TraceLine) {
    trace("VIOLATION \(invariant.rawValue): \(detail)")
    guard violation == nil else { return }
    violation = Violation(invariant: invariant, detail: detail.text, seconds: time.seconds)
  }

  func trace(_ line: TraceLine) { log.note(line, at: time.sinceStart) }

  /// The lines of the trace, and a digest of it, of the generator's state, and of these numbers.
  func endTrace(_ numbers: [Int]) -> (lines: [String], fingerprint: UInt64) {
    for number in numbers { log.mix(UInt64(truncatingIfNeeded: number)) }
    log.mix(random.state)
    log.mix(UInt64(bitPattern: time.sinceStart))
    return (log.lines, log.fingerprint)
  }

  /// The verdict on an effect, requested before it happens.
  func verdict(on kind: EffectKind, of side: Side) -> Verdict {
    effectCount += 1
    guard !isHealed else { return .done }
    switch plan {
    case .failOnce(let number): if effectCount == number { return failed(kind, side) }
    case .failFrom(let number):
      if effectCount == number { failing = (side, kind) }
      if let failing, failing == (side, kind) { return failed(kind, side) }
    case .crash(let number):
      if effectCount == number {
        trace("\(side) crashes before \(kind), effect \(effectCount)")
        return .crash
      }
    case nil:
      if strikes(scenario.crashesInEffects) { return .crash }
      let probability =
        kind == .read || kind == .look ? scenario.unreadable : kind == .send ? 0 : scenario.brokenEffects
      if strikes(probability) || isFailing(kind, side) { return failed(kind, side) }
    }
    return .done
  }

  /// Whether an effect fails that ends no process: the kernel's, or a query.
  func fails(_ kind: EffectKind, of side: Side) -> Bool {
    effectCount += 1
    guard !isHealed else { return false }
    let fails: Bool
    switch plan {
    case .failOnce(let number): fails = effectCount == number
    case .failFrom(let number):
      if effectCount == number { failing = (side, kind) }
      fails = failing.map { $0 == (side, kind) } ?? false
    case .crash: fails = false
    case nil:
      let probability = kind == .writeBack ? scenario.brokenEffects : scenario.unreadable
      fails = strikes(probability) || isFailing(kind, side)
    }
    if fails { trace("\(side): \(kind) fails, effect \(effectCount)") }
    return fails
  }

  private func isFailing(_ kind: EffectKind, _ side: Side) -> Bool {
    guard let trouble = failingDisks[side], trouble.kinds.contains(kind) else { return false }
    return strikes(trouble.share)
  }

  /// A disk fails for a while.
  func letDiskFail(_ side: Side) {
    guard failingDisks[side] == nil, let kinds = DiskTrouble.kinds.randomElement(using: &random) else { return }
    let share = random.happens(0.5) ? 1 : Double.random(in: 0.05...0.9, using: &random)
    failingDisks[side] = DiskTrouble(kinds: LookupSet(kinds), share: share)
    trace("the disk of the \(side) fails at \(list: kinds.lazy.map { "\($0)" })")
    time.after(random.duration(.milliseconds(500)...(.seconds(60)))) { [self] in
      failingDisks[side] = nil
      trace("the disk of the \(side) is well")
    }
  }

  /// Whether the spool's disk can refuse or lose anything in this run, so that the kernel's page cache matters.
  var mayRefuse: Bool {
    scenario.losesSpool || scenario.failingDisks > 0 || scenario.brokenEffects > 0 || scenario.unreadable > 0
      || plan != nil
  }

  private func failed(_ kind: EffectKind, _ side: Side) -> Verdict {
    trace("\(side): \(kind) fails, effect \(effectCount)")
    return .failed
  }
}

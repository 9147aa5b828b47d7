import Lookup

/// Something that can fail, or during which a machine can crash.
enum EffectKind: Hashable, Sendable {
  case write, sync, rename, read, send, catalog
}

/// Whose effect it is.
enum Side: Hashable, Sendable {
  case client, receiver
}

/// One fault at one place: the effect with this number, counted from 1.
public enum PlannedFault: Hashable, Sendable {
  /// It fails, and the next ones do not.
  case failOnce(at: Int)
  /// It fails, and so does every effect of its kind and side until the end of the faults.
  case failFrom(Int)
  /// Its side crashes just before it.
  case crash(at: Int)
}

/// What all parts of one run share: time, chance, trouble, and the record of what happened.
final class World {
  /// What becomes of an effect.
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
  /// Of every destination, that of the main one first.
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
  /// On the capturing machine.
  var availableMemory: UInt64 = 1_000_000_000
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
    availableMemory = 1_000_000_000
    trace("everything is healed")
  }

  /// True with this probability, as long as there are faults.
  func strikes(_ probability: Double) -> Bool { !isHealed && random.happens(probability) }

  /// The trace tells where the first violated invariant was found.
  func fail(_ invariant: Invariant, _ detail: TraceLine) {
    trace("VIOLATION \(invariant.rawValue): \(detail)")
    guard violation == nil else { return }
    violation = Violation(invariant: invariant, detail: detail.text, seconds: time.seconds)
  }

  func trace(_ line: TraceLine) { log.note(line, at: time.sinceStart) }

  /// The lines of the trace, and a digest of it, of how far chance was drawn from, and of these numbers.
  func endTrace(_ numbers: [Int]) -> (lines: [String], fingerprint: UInt64) {
    for number in numbers { log.mix(UInt64(truncatingIfNeeded: number)) }
    log.mix(random.state)
    log.mix(UInt64(bitPattern: time.sinceStart))
    return (log.lines, log.fingerprint)
  }

  /// Every effect asks before it happens.
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
      let probability = kind == .read ? scenario.unreadable : kind == .send ? 0 : scenario.brokenEffects
      if strikes(probability) { return failed(kind, side) }
    }
    return .done
  }

  private func failed(_ kind: EffectKind, _ side: Side) -> Verdict {
    trace("\(side): \(kind) fails, effect \(effectCount)")
    return .failed
  }
}

/// Something that can fail, or during which a machine can crash.
enum EffectKind: String, Hashable, Sendable {
  case write, sync, rename, read, send, catalog
}

/// Whose effect it is.
enum Side: String, Hashable, Sendable {
  case client, receiver
}

/// What an invariant found.
public struct Violation: Error, Hashable, Sendable {
  /// The invariant's name.
  public var invariant: String
  /// What happened.
  public var detail: String
  /// Virtual seconds since the start.
  public var seconds: Double
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
  var random: SeededGenerator
  /// From here on nothing fails any more.
  private(set) var isHealed = false
  /// From here on link and disks are good ones.
  var isGood = false
  private(set) var violation: Violation?
  private(set) var effectCount = 0
  private var failing: (side: Side, kind: EffectKind)?
  /// Disks that have no room at present.
  var fullDisks: Set<Side> = []
  /// On the capturing machine.
  var availableMemory: UInt64 = 1_000_000_000
  private(set) var log: [String] = []
  private let isTracing: Bool

  init(scenario: Scenario, seed: UInt64, bug: PlantedBug?, plan: PlannedFault?, isTracing: Bool) {
    self.scenario = scenario
    self.bug = bug
    self.plan = plan
    self.isTracing = isTracing
    random = SeededGenerator(seed: seed)
    oracle.report = { [unowned self] in fail($0, $1) }
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
  func fail(_ invariant: String, _ detail: String) {
    trace("VIOLATION \(invariant): \(detail)")
    guard violation == nil else { return }
    violation = Violation(invariant: invariant, detail: detail, seconds: time.seconds)
  }

  func trace(_ line: @autoclosure () -> String) {
    guard isTracing else { return }
    let microseconds = Int64(time.seconds * 1e6)
    let fraction = String(microseconds % 1_000_000 + 1_000_000).dropFirst()
    log.append("\(microseconds / 1_000_000).\(fraction) \(line())")
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

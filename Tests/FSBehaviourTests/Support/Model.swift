import FilesystemCalls
import Glibc
import Promises

/// Several processes that do the same in a mount and in a plain folder, and must see the same after each step.
final class Model {
  /// Where the sides were not alike.
  struct Difference: Error, CustomStringConvertible {
    let step: Int
    let description: String
  }

  private struct Half {
    let side: Side
    let processes: [Player]
    /// Has nothing open and holds no lock: a process that reads a file and closes it loses its locks.
    let observer: Player

    init(_ kind: Side.Kind, _ mount: InProcessMount) throws {
      side = try Side(kind, mount)
      observer = side.first
      processes = try (0..<DrawnOperation.processes).map { [side] in try side.another("process \($0)") }
      for folder in DrawnOperation.folders { try side(.mkdir(Path(folder))) }
    }
  }

  private let mount: InProcessMount
  private let halves: [Half]
  /// Operations that did not fail.
  private var successes = 0

  init() throws {
    let mount = try InProcessMount(.alone)
    self.mount = mount
    do {
      halves = [try Half(.mounted, mount), try Half(.plain, mount)]
    } catch {
      _ = mount.close()
      throw error
    }
  }

  /// Plays a sequence on fresh sides; where they differ, if they do.
  static func difference(of sequence: [DrawnOperation]) throws -> Difference? {
    let model = try Model()
    do {
      for (step, operation) in sequence.enumerated() {
        let isLast = step == sequence.count - 1
        if let found = try model.play(operation, comparesContents: operation.comparesContents || isLast) {
          throw Difference(step: step, description: found)
        }
      }
    } catch {
      _ = model.close(after: error)
      if let difference = error as? Difference { return difference }
      return Difference(step: sequence.count - 1, description: "\(error)")
    }
    var complaints = model.close()
    // Two sides on which everything fails are alike.
    if sequence.count >= 100, model.successes * 4 < sequence.count {
      complaints.append("only \(model.successes) of \(sequence.count) operations succeeded")
    }
    return complaints.isEmpty
      ? nil : Difference(step: sequence.count - 1, description: complaints.joined(separator: "\n"))
  }

  /// Plays one operation; what differs after it.
  func play(_ operation: DrawnOperation, comparesContents: Bool) throws -> String? {
    let answers = try both(operation.call) { $0.processes[operation.process] }
    if case .failed = answers[0] {} else { successes += 1 }
    if try isRefusedMapping(operation, answers) { return try compared(comparesContents) }
    if answers[0] != answers[1] { return FSBehaviourTests.difference(answers[0], answers[1]) }
    return try compared(comparesContents)
  }

  /// What differs of that what an observer sees.
  func compared(_ withContents: Bool) throws -> String? {
    let outlines = try both(.drawn(.outline(withContents: withContents))) { $0.observer }
    return outlines[0] == outlines[1] ? nil : FSBehaviourTests.difference(outlines[0], outlines[1])
  }

  /// Makes a call in the plain folder only.
  func spoil(_ call: Call) throws { try halves[1].observer(call) }

  /// Makes a call on one side and then on the other one; both answers.
  func both(_ call: Call) throws -> [Answer] { try both(call) { $0.observer } }

  /// Both sides at once.
  private func both(_ call: Call, _ player: (Half) -> Player) throws -> [Answer] {
    let pending = try halves.map { try player($0).begin(call, onThread: false) }
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return try pending.map { pending in
      try pending.answer(mayLackSlot: true).comparable(now: Int64(now.tv_sec) * 1_000_000_000).withoutAccessTimes
    }
  }

  /// S14c: there is no shared mapping beside a write-only descriptor. Then there is none in the plain folder either.
  private func isRefusedMapping(_ operation: DrawnOperation, _ answers: [Answer]) throws -> Bool {
    guard case .drawn(.map(let slot)) = operation.call, answers[0] == .failed(.noDevice),
      case .number = answers[1], Ability.oldLibfuse.lack == nil
    else { return false }
    try halves[1].processes[operation.process](.munmap(slot))
    return true
  }

  /// Ends everything. Says what should not have been.
  func close(after error: (any Error)? = nil) -> [String] {
    if case Actor.Failure.late? = error {
      for half in halves { half.side.kill() }
      mount.abort()
    }
    for half in halves { half.side.end() }
    return mount.close()
  }
}

extension Answer {
  /// Reading sets the time of the last access where a filesystem likes.
  fileprivate var withoutAccessTimes: Answer {
    switch self {
    case .status(var status):
      status.accessed = nil
      return .status(status)
    case .several(let answers): return .several(answers.map(\.withoutAccessTimes))
    default: return self
    }
  }
}

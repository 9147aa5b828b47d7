/// Delivered files whose local copies may go, one after the other and each once, until none is left. One that cannot go after all, as it is
/// read or was changed past the mount, keeps none of the later ones from it.
public struct EvictionTurns: Sendable {
  private var waiting: ArraySlice<EvictionCandidate> = []
  private var stayingCount = 0
  private var tried: Set<EvictionCandidate> = []

  /// None had its turn.
  public init() {}

  /// The next one; nil once each of them had its turn. `candidates` names at most so many, in the order in which they are to go, and none that
  /// is gone.
  public mutating func next(among candidates: (_ countMax: Int) -> [EvictionCandidate]) -> EvictionCandidate? {
    if waiting.isEmpty {
      // More with each time: each is checked a few times, however many of them stay.
      waiting = candidates(2 * stayingCount + Self.askedMin).filter { !tried.contains($0) }[...]
    }
    guard let next = waiting.popFirst() else { return nil }
    tried.insert(next)
    return next
  }

  /// The one that had its turn stays where it is.
  public mutating func stays() { stayingCount += 1 }

  /// What had no turn yet is asked for again: it may be needed by now.
  public mutating func rest() { waiting = [] }

  private static let askedMin = 64
}

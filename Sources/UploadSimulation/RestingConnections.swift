import UploadEngine

/// Connections between two requests. Those that have rested while the machine slept are dead, and nothing says so.
struct RestingConnections {
  /// How long the machine had slept in all when each of them came to rest; the one that did so last goes first.
  private var asleep: [Duration] = []

  /// A request was answered over one.
  mutating func rests(asleep: Duration) { self.asleep.append(asleep) }

  /// None of them is used again.
  mutating func renew() { asleep = [] }

  /// A request takes one, or makes one where none rests. False where it takes one that is dead.
  mutating func take(asleep: Duration) -> Bool {
    guard let before = self.asleep.popLast() else { return true }
    return asleep - before < UploadConstants.pauseMin
  }
}

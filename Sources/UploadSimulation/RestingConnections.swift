import TransferModel

/// Connections between two requests. Those that were idle while the machine slept are dead, without a notice.
struct RestingConnections {
  /// The machine's total sleep when each connection became idle; the latest is used first.
  private var asleep: [Duration] = []

  /// A request was answered over a connection.
  mutating func rests(asleep: Duration) { self.asleep.append(asleep) }

  /// No idle connection is used again.
  mutating func renew() { asleep = [] }

  /// A request takes an idle connection, or opens one where there is none. False where it takes a dead one.
  mutating func take(asleep: Duration) -> Bool {
    guard let before = self.asleep.popLast() else { return true }
    return asleep - before < UploadConstants.pauseMin
  }
}

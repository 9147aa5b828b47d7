import FileModel
import TransferModel

/// Failures of one file in a row, without progress in between (docs/design/scheduling.md#failures).
struct FailureStreak: Hashable, DefaultInitializable {
  /// Requests that are in flight together fail together, and are one round.
  private(set) var rounds = 0
  /// When the latest round began: a request that was sent before then belongs to it.
  private(set) var latestAt: MonotonicTime?
  /// The latest pause that was drawn; nil before the first one. Pauses grow from it.
  private(set) var drawnPause: Duration?
  /// What the destination had of the file when it refused something of it; nil where it has not. The next refusal is believed until more
  /// is there than that: what is refused at its end each time arrives before that each time.
  private var refusedAfterBytes: UInt64?

  /// The first round has failed, or another one, and the file pauses.
  mutating func roundFailed(at now: MonotonicTime) {
    rounds += 1
    latestAt = now
  }

  /// The destination has refused something of the file.
  var isRefused: Bool { refusedAfterBytes != nil }

  mutating func refused(acknowledgedBytes: UInt64) { refusedAfterBytes = acknowledgedBytes }

  mutating func paused(for drawn: Duration) { drawnPause = drawn }

  /// A request that was sent then fails in another round than the latest one.
  func isAnotherRound(sentAt: MonotonicTime) -> Bool { latestAt.map { sentAt > $0 } ?? true }

  /// The file has another content. Pauses grow on: most of it may be the same bytes.
  mutating func contentChanged() { (rounds, latestAt) = (0, nil) }

  /// A command or a delivery has ended the row, and pauses begin anew; requests in flight belong to the round that they belonged to.
  mutating func ended() { (rounds, drawnPause, refusedAfterBytes) = (0, nil, nil) }

  /// The content is published. Pauses begin anew once that is recorded.
  mutating func published() { rounds = 0 }

  /// Something has moved, and the destination has so much of the file: the next failure is the first of a new row.
  mutating func progressed(acknowledgedBytes: UInt64) {
    let refusedAfterBytes = refusedAfterBytes.flatMap { acknowledgedBytes > $0 ? nil : $0 }
    self = FailureStreak()
    self.refusedAfterBytes = refusedAfterBytes
  }
}

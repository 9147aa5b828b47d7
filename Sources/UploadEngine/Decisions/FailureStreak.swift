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
  /// The destination has refused the file once: the next refusal is believed.
  private(set) var isRefused = false

  /// The first round has failed, or another one, and the file pauses.
  mutating func roundFailed(at now: MonotonicTime) {
    rounds += 1
    latestAt = now
  }

  mutating func refused() { isRefused = true }

  mutating func paused(for drawn: Duration) { drawnPause = drawn }

  /// A request that was sent then fails in another round than the latest one.
  func isAnotherRound(sentAt: MonotonicTime) -> Bool { latestAt.map { sentAt > $0 } ?? true }

  /// The file has another content. Pauses grow on: most of it may be the same bytes.
  mutating func contentChanged() { (rounds, latestAt) = (0, nil) }

  /// A command or a delivery has ended the row, and pauses begin anew; requests in flight belong to the round that they belonged to.
  mutating func ended() { (rounds, drawnPause, isRefused) = (0, nil, false) }

  /// The content is published. Pauses begin anew once that is recorded.
  mutating func published() { rounds = 0 }

  /// Something has moved: the next failure is the first of a new row.
  mutating func progressed() { self = FailureStreak() }
}

import TransferModel

/// Transfers of one transport that wait to send under a bound: first come, first served, a turn at a time. Without it the one that libcurl
/// asks first would have everything. Belongs to the curl thread.
final class SendTurns {
  private let rate: SendRate
  /// In the order in which they came; no more than are in flight.
  private var waiting: [HTTPRequestID] = []
  /// The one that may take although others wait.
  private var turn: HTTPRequestID?

  init(_ rate: SendRate) { self.rate = rate }

  /// How many of so many bytes of its body a transfer may send now; with 0 it pauses, and is among those of ``next()`` later.
  func take(upTo wanted: Int, for id: HTTPRequestID) -> Int {
    let hasTurn = turn == id
    if hasTurn { turn = nil }
    let granted = hasTurn || waiting.isEmpty ? rate.take(upTo: wanted) : 0
    if granted == 0, !waiting.contains(id) { waiting.insert(id, at: hasTurn ? 0 : waiting.count) }
    return granted
  }

  /// See ``SendRate/spend(_:)``.
  func spend(_ bytes: Int) { rate.spend(bytes) }

  /// The transfer that goes on now; nil while none may, or none waits.
  func next() -> HTTPRequestID? {
    guard !waiting.isEmpty, rate.pause == .zero else { return nil }
    turn = waiting.removeFirst()
    return turn
  }

  /// When the next one may go on; nil where none waits.
  var pause: Duration? { waiting.isEmpty ? nil : rate.pause }

  /// A transfer has ended.
  func leave(_ id: HTTPRequestID) {
    waiting.removeAll { $0 == id }
    if turn == id { turn = nil }
  }
}

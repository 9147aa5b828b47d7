/// Whether the network is there, after a pause of this program: one request finds out. Over a path that is gone, each of many would take
/// its time to fail.
struct PathProof: Hashable, Sendable {
  /// Nothing was answered since the program went on after a pause: the network may be another one, or not be there yet.
  private(set) var isInDoubt = false
  /// The request that was sent since then, to see.
  private(set) var trial: HTTPRequestID?

  /// So long others wait for it: a connection has been made by then, or cannot be.
  static let trialTime: Duration = .seconds(6)

  /// The program goes on.
  mutating func doubt() { (isInDoubt, trial) = (true, nil) }

  /// Something has arrived.
  mutating func prove() { isInDoubt = false }

  /// This request finds out.
  mutating func tryWith(_ request: HTTPRequestID) { trial = request }

  /// Others wait for the trial, which went out then.
  func isUnderWay(sentAt: MonotonicTime, at now: MonotonicTime) -> Bool { isInDoubt && sentAt + Self.trialTime > now }
}

import TransferModel

/// Whether the network is there, after a pause of this program: one request finds out. Over a path that is gone, each of many would take
/// its time to fail.
struct PathProof: Hashable, Sendable {
  /// Nothing was answered since the program resumed after a pause: the network may be another one, or not be there yet.
  private(set) var isInDoubt = false
  /// The request that was sent since then as a trial.
  private(set) var trial: HTTPRequestID?

  /// How long others wait for the trial: a connection has been made by then, or cannot be.
  static let trialTime: Duration = .seconds(6)

  /// The program resumes.
  mutating func doubt() { (isInDoubt, trial) = (true, nil) }

  /// Something has arrived.
  mutating func prove() { isInDoubt = false }

  /// This request is the trial.
  mutating func tryWith(_ request: HTTPRequestID) { trial = request }

  /// Others wait for the trial, which went out at `sentAt`.
  func isUnderWay(sentAt: MonotonicTime, at now: MonotonicTime) -> Bool { isInDoubt && sentAt + Self.trialTime > now }
}

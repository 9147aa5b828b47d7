import FileModel
import TransferModel

/// Whether the destination is reachable. Failures that concern it as a whole close the gate; one request at a time
/// opens it again (docs/design/scheduling.md#failures).
struct DestinationGate: Hashable, Sendable {
  enum State: Hashable, Sendable {
    /// Requests may go out. Becomes `closed` at a failure that concerns the destination as a whole.
    case open
    /// Nothing goes out before this time; then one request is tried (`probing`).
    case closed(until: MonotonicTime)
    /// One request is in flight; its end opens or closes the gate.
    case probing(HTTPRequestID)
  }

  /// What an answered request proves, each more than the ones before it. Only what proves as much as the failed request
  /// ends the failure: a server that answers each question may still refuse bytes.
  enum Proof: Int, Comparable {
    /// The server answers.
    case answers
    /// Uploads can be opened.
    case begins
    /// Bytes of files are accepted and published.
    case takes

    static func < (left: Proof, right: Proof) -> Bool { left.rawValue < right.rawValue }
  }

  private(set) var state = State.open
  /// Why it is not open.
  private(set) var failure: FileStatus.Failure?
  /// How often the gate was closed since it was open.
  private(set) var attempts = 0
  /// The latest pause, until something succeeds that proves as much as what failed.
  private(set) var delay: Duration?
  /// When it was closed last.
  private(set) var closedAt: MonotonicTime?
  /// What has to succeed before the destination counts as available again.
  private var neededProof = Proof.answers

  var isOpen: Bool { state == .open }

  /// When the next request is tried; nil while the gate is open, and while a probe is in flight.
  var closedUntil: MonotonicTime? {
    if case .closed(let until) = state { until } else { nil }
  }

  /// The request whose end opens or closes the gate.
  func isProbe(_ request: HTTPRequestID) -> Bool { state == .probing(request) }

  /// A request may go out now; while the destination is suspect, only one.
  func maySend(at now: MonotonicTime) -> Bool {
    switch state {
    case .open: true
    case .closed(let until): until <= now
    case .probing: false
    }
  }

  /// A request goes out. Where the gate is not open, it is the probe.
  mutating func sent(_ request: HTTPRequestID) {
    if case .closed = state { state = .probing(request) }
  }

  /// The probe has ended without showing whether the destination is reachable: the next request is the next probe.
  mutating func probeNext(at now: MonotonicTime) { state = .closed(until: now) }

  /// No request waits any longer. False where none does.
  @discardableResult
  mutating func endPause(at now: MonotonicTime) -> Bool {
    guard case .closed = state else { return false }
    state = .closed(until: now)
    return true
  }

  /// The next request waits no longer than until then. False where none waits so long.
  mutating func shorten(to time: MonotonicTime) -> Bool {
    guard let closedUntil, time < closedUntil else { return false }
    state = .closed(until: time)
    return true
  }

  /// A failure concerns the destination as a whole. Only what proves as much as the failed request opens the gate
  /// again. True where the failure is another one than before.
  mutating func close(
    for delay: Duration, at now: MonotonicTime, _ failure: FileStatus.Failure, by proof: Proof
  ) -> Bool {
    defer { self.failure = failure }
    self.delay = delay
    closedAt = now
    neededProof = max(neededProof, proof)
    attempts += 1
    state = .closed(until: now + delay)
    return self.failure?.code != failure.code
  }

  /// Something has succeeded. False where it proves less than what failed before: the pauses continue where they were.
  mutating func isProved(by proof: Proof) -> Bool {
    guard proof >= neededProof else { return false }
    neededProof = .answers
    delay = nil
    return true
  }

  /// Opens the gate. False where it is open already.
  mutating func open() -> Bool {
    guard !isOpen else { return false }
    state = .open
    attempts = 0
    failure = nil
    return true
  }
}

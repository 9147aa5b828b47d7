import FileModel

/// Whether the destination is to be had: closed by failures that concern it as a whole, opened again by one request at a time
/// (spec E8).
struct DestinationGate: Hashable, Sendable {
  enum State: Hashable, Sendable {
    /// Requests may go out. Becomes `closed` at a failure that concerns the destination as a whole.
    case open
    /// Nothing goes out before this time; then one request is tried (`probing`).
    case closed(until: MonotonicTime)
    /// One request is under way; its end opens or closes the gate.
    case probing(HTTPRequestID)
  }

  /// What a request that is answered proves, each more than the ones before it. Only what proves as much as the request that
  /// failed ends the trouble: a server that answers each question may still take no bytes.
  enum Proof: Int, Comparable {
    /// The server answers.
    case answers
    /// Uploads can be begun.
    case begins
    /// Bytes of files are taken, and published.
    case takes

    static func < (left: Proof, right: Proof) -> Bool { left.rawValue < right.rawValue }
  }

  private(set) var state = State.open
  /// Why it is not open.
  private(set) var failure: FileStatus.Failure?
  /// How often it was closed since it was open.
  private(set) var attempts = 0
  /// The latest pause; until something has succeeded that proves as much as what failed.
  private(set) var delay: Duration?
  /// What has to succeed before the destination counts as well again.
  private var neededProof = Proof.answers

  var isOpen: Bool { state == .open }

  /// When the next request is tried; nil while it is open, and while one is under way.
  var closedUntil: MonotonicTime? {
    if case .closed(let until) = state { until } else { nil }
  }

  /// The request whose end opens or closes it.
  func isProbe(_ request: HTTPRequestID) -> Bool { state == .probing(request) }

  /// A request may go out now; while the destination is suspect, only one.
  func maySend(at now: MonotonicTime) -> Bool {
    switch state {
    case .open: true
    case .closed(let until): until <= now
    case .probing: false
    }
  }

  /// A request goes out: where it is not open, as the probe.
  mutating func sent(_ request: HTTPRequestID) {
    if case .closed = state { state = .probing(request) }
  }

  /// The probe has ended, and says neither that the destination is to be had nor that it is not: the next request is the next one.
  mutating func probeNext(at now: MonotonicTime) { state = .closed(until: now) }

  /// No request need wait any longer. False where none does.
  @discardableResult
  mutating func endPause(at now: MonotonicTime) -> Bool {
    guard case .closed = state else { return false }
    state = .closed(until: now)
    return true
  }

  /// The next request need not wait for longer than until then. False where none waits so long.
  mutating func shorten(to time: MonotonicTime) -> Bool {
    guard let closedUntil, time < closedUntil else { return false }
    state = .closed(until: time)
    return true
  }

  /// A failure concerns the destination as a whole. Only what proves as much as the request that has met it opens it again. True where it
  /// is another failure than before.
  mutating func close(
    for delay: Duration, at now: MonotonicTime, _ failure: FileStatus.Failure, by proof: Proof
  ) -> Bool {
    defer { self.failure = failure }
    self.delay = delay
    neededProof = max(neededProof, proof)
    attempts += 1
    state = .closed(until: now + delay)
    return self.failure?.code != failure.code
  }

  /// Something has succeeded. False where it proves less than what failed before: the pauses go on where they were.
  mutating func isProved(by proof: Proof) -> Bool {
    guard proof >= neededProof else { return false }
    neededProof = .answers
    delay = nil
    return true
  }

  /// False where it is open.
  mutating func open() -> Bool {
    guard !isOpen else { return false }
    state = .open
    attempts = 0
    failure = nil
    return true
  }
}

import TransferModel

/// Whether an endpoint deserves traffic (docs/design/scheduling.md#failures).
///
/// ```
///            5 failures in a row          30 s
///   closed ─────────────────────► open ──────────► half-open
///      ▲                            ▲                  │ │
///      │        2 successes         └──── a failure ───┘ │
///      └─────────────────────────────────────────────────┘
/// ```
struct CircuitBreaker: Hashable, Sendable {
  enum State: Hashable, Sendable {
    /// Traffic as usual; so many failures in a row.
    case closed(failures: Int)
    /// No traffic before this time, unless no endpoint is better.
    case open(until: MonotonicTime)
    /// One request at a time; so many successes in a row.
    case halfOpen(successes: Int)
  }

  private(set) var state = State.closed(failures: 0)

  /// True when a request may go there, as usual or as a trial.
  func allowsRequest(at now: MonotonicTime) -> Bool {
    switch state {
    case .closed, .halfOpen: true
    case .open(let until): until <= now
    }
  }

  mutating func succeeded() {
    switch state {
    case .closed: state = .closed(failures: 0)
    case .open:
      // Any answer proves the endpoint, also one to a request that was sent before the breaker opened.
      state = .halfOpen(successes: 1)
    case .halfOpen(let successes):
      let count = successes + 1
      state = count >= UploadConstants.breakerSuccesses ? .closed(failures: 0) : .halfOpen(successes: count)
    }
  }

  mutating func failed(at now: MonotonicTime) {
    switch state {
    case .closed(let failures):
      let count = failures + 1
      state = count >= UploadConstants.breakerFailures ? open(from: now) : .closed(failures: count)
    case .halfOpen: state = open(from: now)
    case .open(let until):
      // A request that was sent before the breaker opened and fails now proves nothing new. A failing trial opens it
      // again.
      if until <= now { state = open(from: now) }
    }
  }

  private func open(from now: MonotonicTime) -> State { .open(until: now + UploadConstants.breakerOpenDuration) }
}

import TransferModel

/// What to do after a failure (docs/design/scheduling.md#failures). This, and what else follows from its kind
/// (``StepFailure/Kind``, below), is decided in this file alone.
///
/// Libraries for retries repeat a call after a pause. Here the verdict says as well what it holds for: the destination, a file,
/// a chunk; and the schedule, which owns all pauses, carries it out.
struct RetryPolicy: Sendable {
  /// What to do about a failed request.
  enum Verdict: Hashable, Sendable {
    /// The destination as a whole is unavailable: nothing is sent to it until a single probe has succeeded.
    case pauseDestination
    /// The destination, or a proxy before it, does not take this now. The file is tried again after a rest, for ever.
    /// The destination rests as well when it refuses several files in a row.
    case waitOut
    /// This chunk (or session, or commit) is tried again after a rest; the other chunks continue.
    case retryStep
    /// This file waits for a moment; the others continue.
    case pauseFile
    /// The destination has no room for this file now. The file waits, and continues with one chunk; the others
    /// continue.
    case waitForRoom
    /// The session is gone at the server, or of no use; open another.
    case startNewSession
    /// The failure does not pass without a user's action. The file stays in the spool and can be retried.
    case fail
    /// No caller waits for the answer any more.
    case ignore
  }

  let baseDelay: Duration
  var maxDelay: Duration
  let attemptsMax: Int
  let fileDelayMax: Duration
  let fileTriesMax: Int
  /// What earlier runs have left proves that uploads were taken at this address.
  var addressIsProven = false

  /// How often an address that has never taken an upload is asked before a file fails for it.
  private static let addressTries = 3

  init(_ timing: UploadTiming = UploadTiming()) {
    baseDelay = timing.retryDelay
    maxDelay = timing.retryDelayMax
    attemptsMax = timing.chunkTries
    fileDelayMax = timing.filePauseMax
    fileTriesMax = timing.fileTries
  }

  /// The verdict on a failure after `attempts` consecutive ones of the same chunk, this one included.
  func verdict(on failure: StepFailure.Kind, attempts: Int) -> Verdict {
    switch failure {
    case .unauthorized, .forbidden, .tooLarge, .requestTooLarge, .tagMismatch, .nameRefused, .badRequest, .unclearEnd:
      return .fail
    case .addressRefused:
      // An address that took uploads before is not wrong; one that never did is asked a few times, since a proxy whose
      // server is about to start says the same.
      if addressIsProven { return .waitOut }
      return attempts >= Self.addressTries ? .fail : .retryStep
    case .digestMismatch:
      // Damaged in transit: the bytes in the spool are good, so another attempt can succeed. Damage each time is no
      // accident of the line, and an operator has to check it.
      return attempts >= attemptsMax ? .fail : .retryStep
    case .encodingRefused:
      // The next attempt uses another encoding (``RequestForms/encodings``).
      return attempts >= attemptsMax ? .fail : .retryStep
    case .sessionGone, .sessionDamaged, .notReplaceable, .nameTaken:
      return .startNewSession
    case .conflict, .tooEarly, .unexpectedAnswer, .sequenceLost:
      return .retryStep
    case .insufficientStorage:
      return .waitForRoom
    case .busy, .serverError, .misdirected:
      return .waitOut
    case .transport(let kind):
      switch kind {
      case .unknownHost, .connectFailed, .proxyFailed, .tlsFailed, .certificateRefused, .pinMismatch,
        .transparencyRefused, .certificateRevoked, .stapleMissing:
        return .pauseDestination
      case .timedOut, .stalled, .connectionLost, .pathLost, .answeredEarly, .protocolViolation, .overloaded, .other:
        return .retryStep
      case .bodyUnavailable:
        return .pauseFile
      case .cancelled, .stopped:
        return .ignore
      }
    }
  }

  /// The rest before the `attempts`th retry of a chunk. A request that came too early is answered by sending it again
  /// (RFC 8470). A chunk that a commit waits for delays everything. So the first retry of both goes out at once.
  func delay(
    before attempts: Int, of failure: StepFailure, after previous: Duration?, isAwaited: Bool,
    using generator: inout any RandomNumberGenerator & Sendable
  ) -> Duration {
    if attempts == 1, failure.retryAfter == nil, isAwaited || failure.kind == .tooEarly { return .zero }
    return delay(after: previous, retryAfter: failure.retryAfter, using: &generator)
  }

  /// The pause after a setback: each attempt costs what is sent of the file. So pauses grow further than those of a
  /// chunk, unless there is little to send.
  func delay(
    after setbacks: Setbacks, ofFileOf sizeBytes: UInt64, retryAfter: Duration?,
    using generator: inout any RandomNumberGenerator & Sendable
  ) -> Duration {
    var policy = self
    if sizeBytes > UInt64(UploadConstants.smallFileBytes) { policy.maxDelay = fileDelayMax }
    return policy.delay(after: setbacks.previousDelay, retryAfter: retryAfter, grows: true, using: &generator)
  }

  /// Decorrelated jitter: min(max, random(base, previous × 3)); the server's Retry-After is never undercut, and the
  /// first of a series of failures has the base delay. Where a try may leave something at the destination, pauses grow
  /// as those of large files do.
  ///
  /// `grows`: up to half of the longest, each one is longer by half than the one before it. Drawn by the formula alone,
  /// a pause is a tenth longer than the one before it in the middle. A series may stay short for long (1 in some 50,000
  /// series of twenty): where each try sends bytes again, that costs too much.
  func delay(
    after previous: Duration?, retryAfter: Duration?, mayLeaveCopies: Bool = false, grows: Bool = false,
    using generator: inout any RandomNumberGenerator & Sendable
  ) -> Duration {
    let base = baseDelay.wholeNanoseconds
    let ceiling = (mayLeaveCopies ? max(maxDelay, fileDelayMax) : maxDelay).wholeNanoseconds
    let previous = (previous ?? .zero).wholeNanoseconds
    let lower = grows ? max(base, min(previous / 2 * 3, ceiling / 2)) : base
    let upper = min(ceiling, max(base, previous &* 3))
    let drawn = lower < upper ? Int64.random(in: lower...upper, using: &generator) : min(lower, ceiling)
    return pause(.nanoseconds(drawn), retryAfter: retryAfter)
  }

  /// A pause that was drawn, or the longer one that the server asks for.
  func pause(_ drawn: Duration, retryAfter: Duration?) -> Duration {
    // A server that asks for more than an hour is asked again after an hour: a wrong header must not park a capture.
    max(drawn, min(retryAfter ?? .zero, .seconds(3600)))
  }
}

extension StepFailure.Kind {
  /// The destination itself reports it of the file, or breaks HTTP: repeating for ever would cost more than it can
  /// gain. Failures of the destination as a whole, and of the network, never end a file.
  var canEndFile: Bool {
    switch self {
    case .sessionGone, .sessionDamaged, .sequenceLost, .notReplaceable, .nameTaken, .conflict, .digestMismatch,
      .unexpectedAnswer, .transport(.protocolViolation), .transport(.answeredEarly):
      true
    case .unauthorized, .forbidden, .tooLarge, .requestTooLarge, .tagMismatch, .nameRefused, .badRequest,
      .encodingRefused, .addressRefused, .misdirected, .unclearEnd, .tooEarly, .busy, .insufficientStorage,
      .serverError, .transport:
      false
    }
  }

  /// A request whose head was damaged on the way is refused so as well: a field that cannot be read, a token or a signature that no longer
  /// fits.
  var mayBeOfDamage: Bool {
    switch self {
    case .badRequest, .unauthorized, .forbidden, .tagMismatch: true
    default: false
    }
  }

  /// The destination reports at a commit that what it holds is not what is to be published.
  var isOfCommit: Bool {
    switch self {
    case .conflict, .digestMismatch, .sequenceLost: true
    default: false
    }
  }

  /// Such a refusal of a request with several files says nothing of each of them: it does not name the file that caused
  /// it.
  var refusesBundle: Bool {
    switch self {
    case .badRequest, .encodingRefused, .addressRefused, .tooLarge, .requestTooLarge, .sessionGone, .sessionDamaged,
      .sequenceLost,
      .notReplaceable, .nameTaken, .conflict,
      .nameRefused, .digestMismatch, .tagMismatch, .unexpectedAnswer, .unclearEnd, .forbidden:
      true
    case .unauthorized, .tooEarly, .busy, .insufficientStorage, .serverError, .misdirected, .transport: false
    }
  }

  /// The server may have all of the request, and may still be working on it.
  var leavesOpenWhatBecameOfIt: Bool {
    switch self {
    case .serverError, .misdirected, .unexpectedAnswer, .unclearEnd: true
    case .transport(let kind):
      switch kind {
      case .timedOut, .stalled, .connectionLost, .pathLost, .protocolViolation, .other: true
      case .unknownHost, .connectFailed, .proxyFailed, .tlsFailed, .certificateRefused, .pinMismatch,
        .transparencyRefused, .certificateRevoked, .stapleMissing, .answeredEarly, .cancelled, .bodyUnavailable,
        .overloaded, .stopped:
        false
      }
    case .unauthorized, .forbidden, .sessionGone, .sessionDamaged, .sequenceLost, .notReplaceable, .nameTaken,
      .conflict,
      .tooLarge, .requestTooLarge,
      .digestMismatch, .tagMismatch, .nameRefused, .badRequest, .encodingRefused, .addressRefused, .tooEarly, .busy,
      .insufficientStorage:
      false
    }
  }

  /// What a failure says of the address that a request went to.
  enum EndpointVerdict {
    /// The address was not asked, or this side gave up.
    case nothing
    case failed
    /// The receiver itself has answered.
    case answered
  }

  var endpointVerdict: EndpointVerdict {
    switch self {
    case .transport(.cancelled), .transport(.stopped), .transport(.overloaded), .transport(.bodyUnavailable),
      .transport(.pathLost):
      .nothing
    case .transport, .serverError, .misdirected, .unexpectedAnswer: .failed
    case .unauthorized, .forbidden, .sessionGone, .sessionDamaged, .sequenceLost, .notReplaceable, .nameTaken,
      .conflict,
      .tooLarge, .requestTooLarge,
      .digestMismatch, .tagMismatch, .nameRefused, .badRequest, .encodingRefused, .addressRefused, .unclearEnd,
      .tooEarly, .busy,
      .insufficientStorage:
      .answered
    }
  }

  /// A stable word for programs; the `code` of `last_error` in a status file.
  var code: String {
    switch self {
    case .unauthorized: "unauthorized"
    case .forbidden: "forbidden"
    case .sessionGone: "session-gone"
    case .sessionDamaged: "session-damaged"
    case .sequenceLost: "row-lost"
    case .notReplaceable: "rewritten"
    case .nameTaken: "name-taken"
    case .conflict: "conflict"
    case .tooLarge, .requestTooLarge: "too-large"
    case .digestMismatch: "digest-mismatch"
    case .tagMismatch: "tag-mismatch"
    case .nameRefused: "name-refused"
    case .badRequest, .encodingRefused, .addressRefused: "bad-request"
    case .misdirected: "misdirected"
    case .tooEarly: "too-early"
    case .busy: "busy"
    case .insufficientStorage: "insufficient-storage"
    case .serverError: "server-error"
    case .unexpectedAnswer: "unexpected-answer"
    case .unclearEnd: "unclear-end"
    case .transport(let kind):
      switch kind {
      case .unknownHost: "unknown-host"
      case .connectFailed: "connect-failed"
      case .proxyFailed: "proxy-failed"
      case .tlsFailed: "tls-failed"
      case .certificateRefused: "certificate-refused"
      case .pinMismatch: "pin-mismatch"
      case .transparencyRefused: "transparency-refused"
      case .certificateRevoked: "certificate-revoked"
      case .stapleMissing: "staple-missing"
      case .timedOut: "timed-out"
      case .stalled: "stalled"
      case .connectionLost: "connection-lost"
      case .pathLost: "path-lost"
      case .answeredEarly: "answered-early"
      case .protocolViolation: "protocol-violation"
      case .cancelled: "cancelled"
      case .bodyUnavailable: "spool-unreadable"
      case .overloaded: "overloaded"
      case .stopped: "stopped"
      case .other: "transport-error"
      }
    }
  }
}

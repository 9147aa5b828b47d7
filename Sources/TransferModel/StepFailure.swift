/// Why a step did not succeed, as far as the destination can tell. Whether to retry is `RetryPolicy`'s business.
public struct StepFailure: Error, Hashable, Sendable {
  /// What went wrong.
  public enum Kind: Hashable, Sendable {
    /// 401: the token is missing, wrong or expired.
    case unauthorized
    /// 403: the token is known and may not do this.
    case forbidden
    /// 404 or 410: the session is unknown or has expired; start a new one.
    case sessionGone
    /// The server keeps the session, and cannot tell any more what it holds: start a new one, unless there are parts that the
    /// session alone has.
    case sessionDamaged
    /// What was acknowledged of the chunk's row is gone, or the server holds unknown bytes behind it: the row is
    /// to begin anew.
    case sequenceLost
    /// The server holds other bytes in the chunk's place and does not take new ones: the upload is to begin anew.
    case notReplaceable
    /// Another capture has got the name that the session is bound to: start a new one, which finds another name.
    case nameTaken
    /// 409: another request for the same thing is in progress, or the state does not allow it.
    case conflict
    /// 413: the file or the chunk is larger than the server takes.
    case tooLarge(limitBytes: UInt64?)
    /// 413, and nothing says that it is the file: a shorter request may be taken.
    case requestTooLarge
    /// 422: the bytes that arrived do not have the digest that was announced; they were damaged on the way.
    case digestMismatch
    /// 422: the chunk's MAC is wrong: tampering, or the two sides hold different keys.
    case tagMismatch
    /// 422: the server does not accept the name.
    case nameRefused
    /// 400 or another 422: the request itself is wrong.
    case badRequest
    /// 400 for the way in which a body is coded: what answers now is older than what said that it decodes that.
    case encodingRefused
    /// 404, 405 or 410 for the address itself, before what answers there has said in this run that it takes uploads: the
    /// address is wrong, or something in between answers for a moment.
    case addressRefused
    /// It leads elsewhere (3xx), or refuses without the protocol's own words: the address or something on the way is not as it
    /// should be, what became of the bytes is not known, and each try may leave a file there.
    case misdirected
    /// 425: sent too early; send again.
    case tooEarly
    /// 429 or 503.
    case busy
    /// 507: the server's disk or the token's quota is full.
    case insufficientStorage
    /// Another 5xx, or something in between in the server's place: said of the destination, and of no file.
    case serverError
    /// An answer that the protocol does not know, or nonsense.
    case unexpectedAnswer
    /// Everything was sent and no answer came, and doing it twice may do harm.
    case unclearEnd
    /// No answer at all.
    case transport(TransportError.Kind)
  }

  /// What went wrong, for decisions.
  public var kind: Kind
  /// What went wrong and what to do, for people; one sentence, no secret.
  public var message: String
  /// The server's wish (Retry-After).
  public var retryAfter: Duration?
  /// The destination calls it done and does not say what was done: each try may leave something there.
  public private(set) var followsSuccess = false

  /// A failure of this kind.
  public init(_ kind: Kind, _ message: String, retryAfter: Duration? = nil) {
    self.kind = kind
    self.message = message
    self.retryAfter = retryAfter
  }

  /// What a request that was lost means. A page in the server's place is no word of the destination: it is waited out, and ends no file.
  public init(_ error: TransportError) {
    self.init(error.answerIsHTML ? .serverError : .transport(error.kind), error.message)
  }

  /// The same, of an answer that calls it done.
  public func followingSuccess() -> StepFailure {
    var failure = self
    failure.followsSuccess = true
    return failure
  }
}

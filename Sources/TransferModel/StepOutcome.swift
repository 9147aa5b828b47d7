public import Integrity
public import Lookup

/// What a response means.
public enum StepOutcome: Hashable, Sendable {
  /// The server is there.
  case warmed
  /// The session exists. The server may have lowered the chunk size, says when the session expires (seconds since 1970)
  /// and how bodies may be coded; and what it has published of the same capture, which lies there as it was published, at which path and
  /// time (its origin). One that begins with that holds chunks already: which, it has to be asked.
  case sessionOpened(
    id: String, chunkBytes: Int, expiresAtSeconds: Int64?, encodings: LookupSet<OfferedEncoding> = [.identity],
    published: FormerPublication? = nil, isBased: Bool = false)
  /// What the server holds: SHA-256 by chunk index; with the session's facts as the server sees them now, as far as it
  /// says so, and whether all of it is on its disk. A server that knows no SHA-256 names what it holds by the tokens with
  /// which it acknowledged it.
  case held(
    digests: LookupTable<Int, Digest32>, chunkBytes: Int? = nil, expiresAtSeconds: Int64? = nil,
    encodings: LookupSet<OfferedEncoding> = [.identity], tokens: LookupTable<Int, String> = [:], isDurable: Bool = false
  )
  /// The session is there, and so is what it has acknowledged: the server keeps no list that could say otherwise.
  case stillThere
  /// The chunk is stored and its digests were checked.
  case chunkStored
  /// Likewise; from now on the server knows it by this token, and may say when the session expires now (seconds since 1970). It may have
  /// copied it from what is published, so that nothing was sent.
  case chunkStoredAs(token: String, expiresAtSeconds: Int64? = nil, isCopied: Bool = false)
  case published(Receipt)
  /// The server lacks these chunks or holds other bytes for them.
  case incomplete(missing: [Int])
  /// The answers for several files, or chunks, of one request, in its order.
  case each([StepOutcome])
  /// The session is gone, as asked.
  case ended
  /// The server refused or could not; the failure says what.
  case refused(StepFailure)
}

extension StepOutcome {
  /// The same without what `hide` takes out of the texts of a server: messages, and what a receipt shows of its answer.
  package func hidden(by hide: (String) -> String) -> StepOutcome {
    switch self {
    case .refused(var failure):
      failure.message = hide(failure.message)
      return .refused(failure)
    case .published(var receipt):
      receipt.id = hide(receipt.id)
      receipt.answer = receipt.answer.map(hide)
      return .published(receipt)
    case .each(let outcomes): return .each(outcomes.map { $0.hidden(by: hide) })
    case .warmed, .sessionOpened, .held, .stillThere, .chunkStored, .chunkStoredAs, .incomplete, .ended: return self
    }
  }
}

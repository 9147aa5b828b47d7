import TransferModel
import UploadEngine

/// Begins an upload whose chunks follow one another, sends a first chunk as long as a mount's, and ends it. One byte less is sent
/// than was declared, so that no server takes the upload for complete.
struct SequenceTrial {
  let exchange: StepExchange
  let endpoint: EndpointID
  let plan: TrialPlan
  let file: TrialFile
  /// What the server holds is an upload for each sequence of chunks, as it has said by now.
  let hasSequences: Bool

  /// Blocks until it is done. Where the chunk is too long for what stands before the server, shorter ones are tried, as a mount
  /// would.
  func run(clockDifference: Int64?) -> [Finding] {
    var plan = plan
    var refused: (bytes: Int, failure: StepFailure)?
    while true {
      switch attempt(plan) {
      case .success(let ended):
        let warning = refused.map { Finding.requestsRefused($0.failure, of: $0.bytes, passing: plan.contentBytes) }
        return (warning.map { [$0] } ?? []) + [Finding.sequence(of: plan.contentBytes, ended: ended)]
      case .failure(let failure) where failure.kind == .requestTooLarge:
        refused = refused ?? (plan.contentBytes, failure)
        guard let shorter = plan.shorter else { fallthrough }
        plan = shorter
      case .failure(let failure):
        return [Finding.refusal(failure, of: .session, clockDifference: clockDifference)]
      }
    }
  }

  /// One upload, and how it was ended; or why its chunk was not taken.
  private func attempt(_ plan: TrialPlan) -> Result<StepOutcome, StepFailure> {
    let content = plan.contentBytes < file.content.bytes.count ? file.content.prefix(plan.contentBytes) : file.content
    let lengthBytes = UInt64(content.bytes.count) + 1
    let opened = exchange.run(
      .openSession(file.opening(chunkBytes: content.bytes.count, sizeBytes: lengthBytes)), at: endpoint
    ).outcome
    guard case .sessionOpened(let id, let chunkBytes, _, _, _, _) = opened else { return .failure(refusal(opened)) }
    let session = SessionIdentity(id: id, nonce: file.nonce)
    let sending = ChunkSending(
      session: session, index: 0, digest: content.digest, body: content,
      position: AppendPosition(sequenceBytes: lengthBytes),
      sentBytes: SentByteCounter())
    let sent = chunkBytes < content.bytes.count ? nil : exchange.run(.chunk(sending), at: endpoint).outcome
    // Where the server has parts of a file only, the token of the chunk names the one that is to be ended.
    var ended = exchange.run(.abort(session), at: endpoint).outcome
    if case .chunkStoredAs(let token, _, _) = sent, hasSequences {
      ended = exchange.run(.abort(SessionIdentity(id: token, nonce: file.nonce)), at: endpoint).outcome
    }
    switch sent {
    case nil, .chunkStored, .chunkStoredAs: return .success(ended)
    case let other?: return .failure(refusal(other))
    }
  }

  private func refusal(_ outcome: StepOutcome) -> StepFailure {
    if case .refused(let failure) = outcome { return failure }
    return StepFailure(.unexpectedAnswer, "the server answered a part of a large file with something unexpected.")
  }
}

extension Finding {
  /// Of an upload that was begun, given a chunk, and ended.
  static func sequence(of byteCount: Int, ended: StepOutcome) -> Finding {
    let found = "a request of \(Readable.bytes(UInt64(byteCount))) passes"
    if case .refused(let failure) = ended {
      return Finding(
        .session, .warning, "\(found), but the upload could not be ended: \(failure.message)",
        advice: "The server keeps a part of a file until it expires there. Nothing was published.")
    }
    return Finding(.session, .ok, "\(found); the upload that it was for was ended, and nothing of it is left.")
  }
}

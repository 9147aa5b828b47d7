import Lookup
import TransferModel

/// Sends what a mount sends in one request where the server offers to take it: several chunks of a file, and several small files. What
/// stands before a server may know neither, and let the same bytes pass one by one.
struct BatchTrial {
  let exchange: StepExchange
  let endpoint: EndpointID

  /// A request of so many bytes with several chunks of one file, for an upload that is ended afterwards; shorter ones where that is too
  /// long, as a mount would. Nothing is found where the server offers none, or takes it. Blocks until it is done.
  func tryChunks(of file: TrialFile, requestBytes: Int) -> [Finding] {
    guard let offered = exchange.offers.runBytesMax, offered > 0 else { return [] }
    let wanted = min(requestBytes, offered, file.content.bytes.count)
    var byteCount = wanted
    var tooLong: StepFailure?
    while byteCount >= 2 * Self.chunkBytesLeast {
      guard let failure = sendChunks(of: file, byteCount: byteCount) else {
        return tooLong.map { [Finding.requestsRefused($0, of: wanted, passing: byteCount)] } ?? []
      }
      guard failure.kind == .requestTooLarge else { return [chunksRefused(failure)] }
      tooLong = tooLong ?? failure
      byteCount /= 2
    }
    return tooLong.map { [chunksRefused($0)] } ?? []
  }

  /// Several small files in one request: the one that was published just now, which makes no other of it. Nothing is found where the server
  /// offers none, or takes it. Blocks until it is done.
  func tryFiles(like file: TrialFile) -> [Finding] {
    guard let offered = exchange.offers.filesPerRequest, offered > 1 else { return [] }
    let count = min(offered, UploadConstants.bundleFilesWanted)
    let outcome = exchange.run(.bundle((0..<count).map { _ in file.whole }), at: endpoint).outcome
    if case .each(let outcomes) = outcome, outcomes.count == count, outcomes.allSatisfy(\.isPublished) { return [] }
    return [
      Finding(
        .limits, .warning,
        "the server offers to take several small files in one request, and such a request is refused: "
          + Self.refusal(in: outcome).message,
        advice: exchange.destination.advice.refusedBundles,
        facts: [Finding.Fact(key: "bundles", value: .flag(false))])
    ]
  }

  // MARK: Chunks

  /// A mount sends no shorter ones.
  private static let chunkBytesLeast = UploadConstants.chunkBytesMin

  /// Why the request was not taken; nil where it was.
  private func sendChunks(of file: TrialFile, byteCount: Int) -> StepFailure? {
    let chunkBytes = max(Self.chunkBytesLeast, min(UploadConstants.runChunkBytesMax, byteCount / 2))
    let count = byteCount / chunkBytes
    let opened = exchange.run(
      .openSession(file.opening(chunkBytes: chunkBytes, sizeBytes: UInt64(count * chunkBytes))), at: endpoint
    ).outcome
    guard case .sessionOpened(let id, let takenBytes, _, _, _, _) = opened, takenBytes > 0 else {
      return Self.refusal(in: opened)
    }
    let session = SessionIdentity(id: id, nonce: file.nonce)
    let chunks = file.content.prefix(count * chunkBytes).pieces(of: takenBytes).enumerated().map { index, content in
      ChunkSending(
        session: session, index: index, digest: content.digest, body: content, sentBytes: SentByteCounter())
    }
    let sent = exchange.run(.run(chunks), at: endpoint).outcome
    _ = exchange.run(.abort(session), at: endpoint)
    guard case .each(let outcomes) = sent, outcomes.count == chunks.count else { return Self.refusal(in: sent) }
    return outcomes.first { !$0.isStored }.map(Self.refusal)
  }

  private func chunksRefused(_ failure: StepFailure) -> Finding {
    Finding(
      .limits, .warning,
      "the server offers to take several chunks of a file in one request, and such a request is refused: "
        + failure.message,
      advice: exchange.destination.advice.refusedRuns,
      facts: [Finding.Fact(key: "runs", value: .flag(false))])
  }

  private static func refusal(in outcome: StepOutcome) -> StepFailure {
    switch outcome {
    case .refused(let failure): return failure
    case .each(let outcomes):
      for case .refused(let failure) in outcomes { return failure }
      fallthrough
    default: return StepFailure(.unexpectedAnswer, "it was answered with something unexpected.")
    }
  }
}

extension StepOutcome {
  fileprivate var isPublished: Bool { if case .published = self { true } else { false } }

  fileprivate var isStored: Bool {
    switch self {
    case .chunkStored, .chunkStoredAs: true
    default: false
    }
  }
}

import FileModel
import TransferModel
import UploadEngine

/// Publishes files as a mount would, and takes them away again.
struct TrialPublisher {
  let exchange: StepExchange
  let endpoint: EndpointID

  /// What people are to do about what is found.
  var advice: DestinationAdvice { destination.advice }

  private var destination: any Destination { exchange.destination }

  /// As a file of this length goes.
  func publish(_ file: TrialFile) -> StepOutcome {
    let abilities = destination.abilities
    guard !abilities.streamsWholeFiles, abilities.wholeFileBytesMax < file.content.bytes.count else {
      return exchange.run(
        .wholeFile(file.whole), at: endpoint
      ).outcome
    }
    return publishInSession(file)
  }

  /// As a long file goes, in the shortest chunks that it may have. An upload that is not published is ended; where the server
  /// has another one begun, as for checksums that it does not know after all, it is, once.
  func publishInSession(_ file: TrialFile) -> StepOutcome {
    let outcome = publishOnceInSession(file)
    guard case .refused(let failure) = outcome, failure.kind == .sessionGone else { return outcome }
    return publishOnceInSession(file)
  }

  private func publishOnceInSession(_ file: TrialFile) -> StepOutcome {
    let sizeBytes = file.content.bytes.count
    let opening = file.opening(
      chunkBytes: destination.abilities.chunkBytesLeast(forFileOf: UInt64(sizeBytes)), sizeBytes: UInt64(sizeBytes))
    let opened = exchange.run(.openSession(opening), at: endpoint).outcome
    guard case .sessionOpened(let id, let chunkBytes, _, _, _, _) = opened, chunkBytes > 0 else { return opened }
    let session = SessionIdentity(id: id, nonce: file.nonce)
    let ended = publish(file, in: session, chunkBytes: chunkBytes)
    guard case .published = ended else {
      _ = exchange.run(.abort(session), at: endpoint)
      return ended
    }
    return ended
  }

  private func publish(_ file: TrialFile, in session: SessionIdentity, chunkBytes: Int) -> StepOutcome {
    var proof = CommitProof(sessionID: session.id)
    var chunks: [CommittedChunk] = []
    for content in file.content.pieces(of: chunkBytes) {
      let sending = ChunkSending(
        session: session, index: chunks.count, digest: content.digest, body: content, sentBytes: SentByteCounter())
      let token: String
      switch exchange.run(.chunk(sending), at: endpoint).outcome {
      case .chunkStored: token = ""
      case .chunkStoredAs(let name, _, _): token = name
      case let other: return other
      }
      proof.append(content.digest)
      chunks.append(CommittedChunk(digest: content.digest, token: token))
    }
    return exchange.run(
      .commit(
        SessionCommit(
          session: session, sizeBytes: UInt64(file.content.bytes.count), chunkCount: chunks.count,
          merkleRoot: proof.merkleRoot, chainTip: proof.chainTip, path: file.path,
          modifiedNanoseconds: file.modifiedNanoseconds, mode: 0o644,
          chunks: destination.abilities.commitListsChunks ? chunks : [])), at: endpoint
    ).outcome
  }

  /// What became of a published test file.
  enum Removal: Hashable, Sendable {
    case done
    /// The destination has no request for it.
    case impossible
    case failed(String)
  }

  func remove(_ file: TrialFile, _ receipt: Receipt) -> Removal {
    guard let request = destination.removalRequest(of: file.path, receipt, at: endpoint) else { return .impossible }
    switch exchange.send(request) {
    case .success(let response) where (200..<300).contains(response.status) || response.status == 404: return .done
    case .success(let response): return .failed("status \(response.status)")
    case .failure(let error): return .failed(error.message)
    }
  }
}

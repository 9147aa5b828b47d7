import FileModel
import UploadEngine

/// Publishes a small file as a capture would be, and takes it away again where somebody can.
struct PublicationTrial {
  let exchange: StepExchange
  let endpoint: EndpointID
  let file: TrialFile

  private var destination: any Destination { exchange.destination }

  /// Blocks until it is done.
  func run(clockDifference: Int64?) -> [Finding] {
    let begin = ContinuousClock.now
    let outcome = publish()
    let time = begin.duration(to: .now)
    switch outcome {
    case .published(let receipt):
      return [
        Finding(.credentials, .ok, "the server takes files from us."),
        Finding.published(receipt, in: time, removal: remove(receipt)),
      ]
    case .refused(let failure):
      var finding = Finding.refusal(failure, of: .testFile, clockDifference: clockDifference)
      if failure.kind == .badRequest, finding.advice == nil {
        finding.advice =
          "Where it takes files of some kinds only, name one of them: --test-sample FILE. Its content is published as "
          + "\(file.path.displayText), with the end of its name."
      }
      return [finding]
    default:
      return [Finding(.testFile, .problem, "the server answered a test file with something that has no meaning here.")]
    }
  }

  private func publish() -> StepOutcome {
    let abilities = destination.abilities
    guard !abilities.streamsWholeFiles, abilities.wholeFileBytesMax < file.content.bytes.count else {
      return exchange.run(
        .sendWholeFile(
          WholeFileSending(
            fileID: file.id, revision: 1, nonce: file.nonce, path: file.path, digest: file.content.digest,
            body: file.content, modifiedNanoseconds: file.modifiedNanoseconds, mode: 0o644,
            sentBytes: SentByteCounter())), at: endpoint
      ).outcome
    }
    return publishInSession()
  }

  private func publishInSession() -> StepOutcome {
    let sizeBytes = file.content.bytes.count
    let opening = file.opening(
      chunkBytes: destination.abilities.chunkBytesLeast(forFileOf: UInt64(sizeBytes)), sizeBytes: UInt64(sizeBytes))
    let opened = exchange.run(.openSession(opening), at: endpoint).outcome
    guard case .sessionOpened(let id, let chunkBytes, _, _) = opened, chunkBytes >= sizeBytes else { return opened }
    let session = SessionIdentity(id: id, nonce: file.nonce)
    let sent = exchange.run(
      .sendChunk(
        ChunkSending(
          session: session, index: 0, digest: file.content.digest, body: file.content, sentBytes: SentByteCounter())),
      at: endpoint
    ).outcome
    let token: String
    switch sent {
    case .chunkStored: token = ""
    case .chunkStoredAs(let name, _): token = name
    default: return sent
    }
    var proof = CommitProof(sessionID: id)
    proof.append(file.content.digest)
    return exchange.run(
      .commit(
        SessionCommit(
          session: session, sizeBytes: UInt64(sizeBytes), chunkCount: 1, merkleRoot: proof.merkleRoot,
          chainTip: proof.chainTip, path: file.path, modifiedNanoseconds: file.modifiedNanoseconds, mode: 0o644,
          chunks: destination.abilities.commitListsChunks
            ? [CommittedChunk(digest: file.content.digest, token: token)] : [])), at: endpoint
    ).outcome
  }

  /// What became of a published test file.
  enum Removal: Hashable, Sendable {
    case done
    /// The destination has no request for it.
    case impossible
    case failed(String)
  }

  private func remove(_ receipt: Receipt) -> Removal {
    guard let request = destination.removalRequest(of: file.path, receipt, at: endpoint) else { return .impossible }
    switch exchange.send(request) {
    case .success(let response) where (200..<300).contains(response.status) || response.status == 404: return .done
    case .success(let response): return .failed("status \(response.status)")
    case .failure(let error): return .failed(error.message)
    }
  }
}

extension TrialFile {
  /// What a session for it is opened with.
  func opening(chunkBytes: Int, sizeBytes: UInt64) -> SessionOpening {
    SessionOpening(
      fileID: id, revision: 1, nonce: nonce, path: path, sizeBytes: sizeBytes, chunkBytes: max(1, chunkBytes),
      modifiedNanoseconds: modifiedNanoseconds, mode: 0o644)
  }
}

extension Finding {
  /// Of a test file that was published.
  static func published(_ receipt: Receipt, in time: Duration, removal: PublicationTrial.Removal) -> Finding {
    let facts = [
      Fact(key: "name", value: .text(receipt.name)),
      Fact(key: "removed", value: .flag(removal == .done)),
      Fact(key: "milliseconds", value: .number(Int64(time / .milliseconds(1)))),
    ]
    let found = "\(receipt.name) was published in \(time.readable)"
    switch removal {
    case .done: return Finding(.testFile, .ok, "\(found) and taken away again.", facts: facts)
    case .impossible:
      return Finding(
        .testFile, .ok,
        "\(found). It stays there, because nobody can take files away through this protocol; the next test replaces it.",
        facts: facts)
    case .failed(let why):
      return Finding(
        .testFile, .warning, "\(found), and cannot be taken away again (\(why)).",
        advice: "Captures need no permission for that. Delete \(receipt.name) by hand, or leave it.", facts: facts)
    }
  }
}

import ChunkProtocol
import FileModel
import Integrity
import Quantities
public import TransferModel

extension WebDAVDestination {
  /// What the response to a step means, where it needs no other.
  public func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    outcome(of: step, responses: [response])
  }

  /// What the responses to a step and its follow-ups mean. Whatever they hold, this returns.
  public func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    guard let first = responses.first else { return unexpected("did not answer") }
    switch step {
    case .prewarm: return first.status < 500 ? .warmed : .refused(failure(first, to: "say what it can do"))
    case .wholeFile(let sending):
      defer { memory.end(sending.nonce) }
      if let last = responses.last, let outcome = refusedQuestion(sending, last) { return outcome }
      return outcome(of: sending, machine(of: sending, responses))
    case .querySession where first.status == 401, .querySession where first.status == 403:
      return .refused(failure(first, to: "say whether its folder is there"))
    case .querySession, .secureSession:
      return .refused(StepFailure(.sessionGone, "The WebDAV server at \(address.text) knows no sessions."))
    case .openSession, .chunk, .run, .zeros, .commit, .abort, .bundle:
      return unexpected("takes whole files only")
    }
  }

  /// It can be tried again, from its beginning.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    if case .wholeFile(let sending) = step { memory.end(sending.nonce) }
    return .refused(StepFailure(error))
  }

  /// What was sent whole is not sent again.
  public func outcome(
    of step: DestinationStep, lost error: TransportError, after responses: [HTTPResponse]
  ) -> StepOutcome {
    guard case .wholeFile(let sending) = step else { return .refused(StepFailure(error)) }
    defer { memory.end(sending.nonce) }
    let machine = machine(of: sending, responses)
    if case .published? = machine.end { return outcome(of: sending, machine) }
    learn(from: sending, machine)
    if error.kind == .cancelled, machine.leavesSomething {
      memory.abandon(temporaryName(of: sending), of: sending.nonce)
    }
    return .refused(StepFailure(error).leavingOpen(machine))
  }

  private func outcome(of sending: WholeFileSending, _ machine: WebDAVPublicationMachine) -> StepOutcome {
    learn(from: sending, machine)
    switch machine.end {
    case .published(let resource): return published(sending, machine, resource)
    case .refused(let answer, let what):
      let failure = failure(answer.response, to: what).leavingOpen(machine)
      if failure.kind.endsUpload, machine.leavesSomething {
        memory.abandon(temporaryName(of: sending), of: sending.nonce)
      }
      return .refused(failure)
    case .noFolder(let answer):
      return .refused(
        StepFailure(
          .addressRefused,
          "The server at \(address.text) answered \(answer.status)\(ServerErrorText(answer.response).quoted): there is no folder of a WebDAV "
            + "server. Check --to, or make the folder.", retryAfter: RetryAfter.duration(of: answer.response)))
    case .damaged(let what):
      return .refused(
        StepFailure(
          .digestMismatch, "The server at \(address.text) took all bytes of a file and \(what). It is sent again."))
    case .taken(let name):
      return .refused(
        StepFailure(
          .nameRefused,
          "There is something called \(name) at \(address.text) that is not this capture's, and is not to be replaced. Rename the file, "
            + "and it is tried again."))
    case .folderInTheWay(let name):
      return .refused(
        StepFailure(
          .nameRefused,
          "There is a folder called \(name) at \(address.text), which a file does not replace. Rename the file, and it is tried again."
        ))
    case .restless(let name):
      return .refused(
        StepFailure(
          .conflict, "What is called \(name) at \(address.text) changes with every question; it is asked again."))
    case .contradiction(let what): return .refused(unexpectedAnswer(what).followingSuccess())
    case nil: return unexpected("has no end of its answers")
    }
  }

  private func published(
    _ sending: WholeFileSending, _ machine: WebDAVPublicationMachine, _ resource: WebDAVResource
  ) -> StepOutcome {
    guard let proof = proof(of: sending) else {
      return unexpected("answered before it had the file")
    }
    let name = publishedName(for: sending.path)
    let given = machine.movedTo ?? name
    return .published(
      Receipt(
        id: resource.version ?? Hex.encode(Array(sending.nonce.prefix(16))), name: name, sizeBytes: sending.sizeBytes,
        merkleRoot: Hex.encode(proof.merkleRoot), chainTip: Hex.encode(proof.chainTip),
        publishedAtMilliseconds: resource.modified.flatMap(HTTPDate.seconds).map { $0 * 1000 }
          ?? sending.modifiedNanoseconds / 1_000_000,
        publishedAs: given.utf8.elementsEqual(name.utf8) ? nil : given))
  }

  /// What the requests have shown of the server, and what they leave there.
  private func learn(from sending: WholeFileSending, _ machine: WebDAVPublicationMachine) {
    let folder = folders(of: sending).last ?? ""
    if let isThere = machine.folderIsThere { memory.learn(folder: folder, isThere: isThere) }
    if machine.keepsMarks == false { memory.keepsNoMarks() }
    if machine.keepsNoConditions, memory.keepsNoConditions() {
      whenConditionsFail(
        "The server at \(address.text) takes no condition on the ETag of what is replaced. It is asked first whose a file is; what "
          + "another program puts there between question and replacement is replaced.")
    }
    if machine.hasUpload, let proof = proof(of: sending) {
      memory.note(
        WebDAVMemory.Sent(
          resource: machine.upload, contentSHA256: contentSHA256(of: sending), merkleRoot: proof.merkleRoot,
          chainTip: proof.chainTip,
          wanted: publishedName(for: sending.path), name: machine.movedTo),
        under: sending.nonce)
    }
    guard case .published? = machine.end else { return }
    memory.takes(machine.nameForm)
    memory.discarded(memory.beginning(of: sending.nonce).leftovers)
    if let number = machine.search.number, machine.movedTo == machine.search.key {
      memory.used(number, of: publishedName(for: sending.path))
    }
  }

  /// Over the pieces that were streamed, or over the file's one chunk; of a stream that was sent in another try, as it was then.
  private func proof(of sending: WholeFileSending) -> (merkleRoot: Digest32, chainTip: Digest32)? {
    guard let stream = sending.stream else { return sending.proof }
    return stream.proof ?? memory.sent(sending.nonce).map { ($0.merkleRoot, $0.chainTip) }
  }

  private func failure(_ response: HTTPResponse, to what: String) -> StepFailure {
    WebDAVAnswer(response).failure(at: address.text, to: what)
  }

  private func unexpected(_ what: String) -> StepOutcome { .refused(unexpectedAnswer(what)) }

  private func unexpectedAnswer(_ what: String) -> StepFailure {
    StepFailure(.unexpectedAnswer, "The server at \(address.text) \(what). Check that it is a WebDAV server.")
  }
}

extension StepFailure {
  /// Where the file has got its name, or may have, what says that a request went in vain says nothing of that.
  fileprivate func leavingOpen(_ machine: WebDAVPublicationMachine) -> StepFailure {
    guard machine.isUploadGone else { return self }
    switch kind {
    case .busy, .serverError, .conflict, .insufficientStorage, .unexpectedAnswer, .misdirected, .transport(.cancelled),
      .transport(.stopped), .transport(.timedOut), .transport(.stalled), .transport(.connectionLost),
      .transport(.pathLost):
      return self
    case .transport: return StepFailure(.transport(.connectionLost), message, retryAfter: retryAfter)
    default: return StepFailure(.unexpectedAnswer, message, retryAfter: retryAfter)
    }
  }
}

extension StepFailure.Kind {
  /// The file is not tried again by itself.
  fileprivate var endsUpload: Bool {
    switch self {
    case .forbidden, .unauthorized, .badRequest, .tooLarge, .nameRefused: true
    default: false
    }
  }
}

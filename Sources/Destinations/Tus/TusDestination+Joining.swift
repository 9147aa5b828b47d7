import FileModel
import Lookup
import TransferModel

/// An upload that was joined from others, as long as it is not known to be complete.
struct TusJoined: Hashable {
  /// What it was joined from and with; for another content or another name there is another upload.
  struct Request: Hashable {
    var parts: [String]
    var metadata: String
  }

  var upload: String
  /// The part that completes it (``TusDestination/latchRequest()``).
  var latch: String
  var request: Request
}

/// What a commit of partial uploads does.
///
/// tus has no request for an upload of unknown address. The address of a joined upload is in the answer to the request that
/// joins, and so completes, it. Where a server joins uploads that are not complete yet, an empty partial upload without a
/// declared length, the latch, is joined behind the others: then the upload has an address first, and is completed by a request
/// that may be repeated. One whose address was lost is never completed. Elsewhere a lost answer leaves open whether there is a
/// file.
extension TusDestination {
  /// The partial uploads, joined under the file's name.
  func join(
    _ commit: SessionCommit, _ features: TusFeatures, _ responses: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    let (parts, outdated) = parts(of: commit)
    guard outdated.isEmpty, !parts.isEmpty else { return .ended(.incomplete(missing: outdated)) }
    guard LookupSet(parts.map { address.url(of: $0.upload).url }).count == parts.count else {
      // One of them is there, and joined with itself it would be a file. Single uploads have no such trouble.
      memory.confusesParts()
      return .ended(gone())
    }
    let request = TusJoined.Request(
      parts: parts.map(\.upload),
      metadata: TusMetadata.field(commit.path, modifiedNanoseconds: commit.modifiedNanoseconds, options.metadata))
    let session = commit.session.id
    if responses.isEmpty { memory.beginsCommit(of: session, request) }
    var rest = responses
    if let earlier = memory.joinedEarlier(of: session), let next = goOn(with: earlier, commit, &rest) { return next }
    // A server with a limit cannot know whether a length that is not declared yet is within it, and refuses.
    guard features.joinsUnfinished, features.defersLength, features.fileBytesMax == nil else {
      return joinAtOnce(request, parts, commit, rest)
    }
    guard let response = rest.popFirst() else { return .send(latchRequest()) }
    // It was announced, but a server that refuses it gets what every server understands.
    if [400, 501].contains(response.status) { return joinAtOnce(request, parts, commit, rest) }
    switch created(response) {
    case .failure(let failure): return .ended(.refused(failure))
    case .success(let latch): return join(request, parts, latch: latch, commit, rest)
    }
  }

  // MARK: - With a latch

  private func join(
    _ request: TusJoined.Request, _ parts: [Part], latch: String, _ commit: SessionCommit,
    _ responses: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    var rest = responses
    guard let response = rest.popFirst() else { return .send(joinRequest(request, behind: latch)) }
    if [400, 501].contains(response.status) { return joinAtOnce(request, parts, commit, rest) }
    guard response.status == 201 else { return refused(commit, parts, response, rest) }
    switch created(response) {
    case .failure(let failure): return .ended(.refused(failure))
    case .success(let upload):
      let joined = TusJoined(upload: upload, latch: latch, request: request)
      guard let response = rest.popFirst() else {
        memory.hasJoined(joined, of: commit.session.id)
        return .send(completion(of: joined))
      }
      if answer(response).isAttestedSuccess { return published(joined.upload, parts, commit, response) }
      // Servers say differently that it is complete already, and something in between says anything.
      guard (200..<500).contains(response.status) else { return .ended(.refused(answer(response).failure())) }
      guard let look = rest.popFirst() else { return .send(headRequest(upload)) }
      if answer(look).offset == commit.sizeBytes { return published(joined.upload, parts, commit, look) }
      return .ended(.refused(stillJoining()))
    }
  }

  private func stillJoining() -> StepFailure {
    // It takes as long as the server takes for it, which ends no file.
    StepFailure(
      .tooEarly,
      "The tus server at \(address.text) has not finished joining the parts of the file; it is asked again.")
  }

  /// What an earlier attempt has joined: complete by now, or to be completed; nil when it is gone and a new one is needed.
  private func goOn(
    with joined: TusJoined, _ commit: SessionCommit, _ responses: inout ArraySlice<HTTPResponse>
  ) -> NextRequest? {
    guard let look = responses.popFirst() else { return .send(headRequest(joined.upload)) }
    if answer(look).isGone || answer(look).isNotUnderstood { return nil }
    guard answer(look).isSuccess else { return .ended(.refused(answer(look).failure())) }
    if answer(look).offset == commit.sizeBytes { return published(joined.upload, [], commit, look) }
    guard let response = responses.popFirst() else { return .send(completion(of: joined)) }
    if answer(response).isAttestedSuccess { return published(joined.upload, [], commit, response) }
    if [404, 410].contains(response.status) { return nil }
    return .ended(.refused(stillJoining()))
  }

  /// An empty partial upload whose length is left open.
  func latchRequest() -> HTTPRequest {
    creationRequest(
      lengthBytes: nil, headers: [HTTPHeader("upload-concat", "partial"), HTTPHeader("upload-defer-length", "1")])
  }

  /// Declares that nothing more comes.
  private func completion(of joined: TusJoined) -> HTTPRequest {
    declaration(of: joined.latch, lengthBytes: 0, limits: HTTPRequestLimits(total: Self.joinTimeout))
  }

  // MARK: - Without

  private func joinAtOnce(
    _ request: TusJoined.Request, _ parts: [Part], _ commit: SessionCommit, _ responses: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    var rest = responses
    guard let response = rest.popFirst() else {
      memory.isJoining(true, commit.session.id)
      return .send(joinRequest(request))
    }
    memory.isJoining(false, commit.session.id)
    if response.status == 201 {
      switch created(response) {
      case .failure(let failure): return .ended(.refused(failure))
      case .success(let upload): return published(upload, parts, commit, response)
      }
    }
    // It may have failed on the way back, or once the file was there.
    if (500..<600).contains(response.status), ![501, 503, 507].contains(response.status) {
      return .ended(.refused(unclear(answer(response).failure(limitBytes: abilities.fileBytesMax))))
    }
    return refused(commit, parts, response, rest)
  }

  /// The step's last request may have made a file of what was sent.
  func mayComplete(_ step: DestinationStep) -> Bool {
    switch step {
    case .commit(let commit): memory.isJoining(commit.session.id)
    case .wholeFile: true
    default: false
    }
  }

  /// What to do about a failure that leaves open whether the server has the file.
  func unclear(_ failure: StepFailure) -> StepFailure { options.unclear.failure(failure, at: address.text) }

  // MARK: - With and without

  private func joinRequest(_ request: TusJoined.Request, behind latch: String? = nil) -> HTTPRequest {
    let parts = request.parts + (latch.map { [$0] } ?? [])
    let list = parts.map { address.url(of: $0).isOurs ? $0 : address.url(of: $0).url }.joined(separator: " ")
    var join = creationRequest(
      lengthBytes: nil,
      headers: [HTTPHeader("upload-concat", "final;\(list)"), HTTPHeader("upload-metadata", request.metadata)],
      limits: HTTPRequestLimits(total: Self.joinTimeout))
    // Twice, it would make two uploads.
    join.isSentOnce = true
    // A kept-alive connection that the server has just closed looks like an unclear end.
    join.opensConnection = latch == nil && options.unclear == .hold
    return join
  }

  /// A server may copy the whole file before it answers.
  private static let joinTimeout: Duration = .seconds(600)

  /// Parts that are gone are sent again, and nothing else: they expire one by one, and a server that was set up anew has none.
  private func refused(
    _ commit: SessionCommit, _ parts: [Part], _ response: HTTPResponse, _ looks: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    let failure = answer(response).failure(limitBytes: abilities.fileBytesMax)
    guard [400, 403, 404, 409, 410].contains(response.status) else { return .ended(.refused(failure)) }
    var missing: [Int] = []
    for (part, look) in zip(parts, looks) {
      if answer(look).isGone || answer(look).isNotUnderstood {
        missing += Array(part.chunks)
      } else if !answer(look).isSuccess {
        return .ended(.refused(answer(look).failure()))
      }
    }
    if looks.count < parts.count { return .send(headRequest(parts[looks.count].upload)) }
    guard missing.isEmpty else {
      memory.lostParts(of: commit.session.id)
      return .ended(.incomplete(missing: missing))
    }
    // The parts are all there: what something in between said is nothing against the file.
    guard answer(response).isOfServer else { return .ended(.refused(answer(response).failure())) }
    return .ended(.refused(StepFailure(.badRequest, failure.message, retryAfter: failure.retryAfter)))
  }

  private func published(
    _ upload: String, _ parts: [Part], _ commit: SessionCommit, _ response: HTTPResponse
  ) -> NextRequest {
    for part in parts { memory.uploads.forget(part.upload) }
    return .ended(.published(receipt(upload, commit, response)))
  }

  // MARK: - Parts

  private struct Part {
    var upload: String
    var chunks: Range<Int>
  }

  /// The partial uploads in the file's order, and the chunks of those that end elsewhere than their sequence does by now.
  private func parts(of commit: SessionCommit) -> (parts: [Part], outdated: [Int]) {
    var parts: [Part] = []
    var outdated: [Int] = []
    let chunkBytes = chunkBytes(of: commit)
    var index = 0
    while index < commit.chunks.count {
      let sequence = AppendSequences.growing.sequence(of: index).clamped(to: 0..<commit.chunks.count)
      let start = UInt64(sequence.lowerBound) &* chunkBytes
      let end =
        sequence.upperBound == commit.chunks.count ? commit.sizeBytes : UInt64(sequence.upperBound) &* chunkBytes
      let token = commit.chunks[sequence.lowerBound].token
      if let partial = TusPartial(token: token), start <= end, partial.lengthBytes == end - start,
        commit.chunks[sequence].allSatisfy({ $0.token == token })
      {
        parts.append(Part(upload: partial.upload, chunks: sequence))
      } else {
        outdated += Array(sequence)
      }
      index = sequence.upperBound
    }
    return (parts, outdated)
  }

  /// The length of a session's chunks: of those before the last it follows from any sequence.
  private func chunkBytes(of commit: SessionCommit) -> UInt64 {
    guard commit.chunks.count > 1, let first = TusPartial(token: commit.chunks[0].token) else {
      return commit.sizeBytes
    }
    return first.lengthBytes
  }
}

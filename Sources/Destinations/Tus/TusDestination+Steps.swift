import FileModel
import Integrity
import Lookup
import Quantities
import TransferModel

extension TusDestination {
  /// The next request of a step, or what became of it. Every step is told from its responses alone, but for what the run
  /// remembers (``TusMemory``).
  ///
  /// Where a step would end because something says without the protocol's own header that an upload is not there, the server
  /// is asked first what it can do: one that answers that is there itself, and its word counts. tuspyserver 4 answers 404 so.
  func next(_ step: DestinationStep, after responses: [HTTPResponse]) -> NextRequest {
    let (attested, isAsked) = attested(step, responses)
    let next = decide(step, after: attested)
    guard !isAsked, attested.last.map(answer)?.isUnattested == true, isStopped(next) else { return next }
    return .send(optionsRequest())
  }

  /// It ends by an answer in the server's place.
  private func isStopped(_ next: NextRequest) -> Bool {
    guard case .ended(.refused(let failure)) = next else { return false }
    return failure.kind == .serverError || failure.kind == .misdirected
  }

  /// The responses without the one that says whether the server itself is there, and with its sign on those that it confirms.
  private func attested(_ step: DestinationStep, _ responses: [HTTPResponse]) -> (
    responses: [HTTPResponse], isAsked: Bool
  ) {
    guard responses.contains(where: { answer($0).isUnattested }) else { return (responses, false) }
    for (index, response) in responses.enumerated().dropLast() where answer(response).isUnattested {
      let before = Array(responses[...index])
      guard isStopped(decide(step, after: before)) else { continue }
      let rest = before + responses[(index + 2)...]
      guard TusFeatures(responses[index + 1]) != nil else { return (rest, true) }
      return (rest.map { answer($0).isUnattested ? answer($0).attested : $0 }, true)
    }
    return (responses, false)
  }

  private func decide(_ step: DestinationStep, after responses: [HTTPResponse]) -> NextRequest {
    switch step {
    case .prewarm:
      guard let answer = responses.first.map(answer) else { return .send(optionsRequest()) }
      if let features = TusFeatures(answer.response) { memory.features = features }
      let isAnswer = answer.response.status < 500 && !answer.response.isForeignPage
      return .ended(isAnswer ? .warmed : .refused(answer.failure()))
    case .openSession(let opening): return open(opening, responses)
    case .querySession(let session), .secureSession(let session): return query(session, responses)
    case .chunk(let sending): return send(sending, responses)
    case .commit(let commit): return publish(commit, responses)
    case .abort(let session): return abort(session, responses)
    case .wholeFile(let sending): return send(sending, responses)
    case .bundle, .run, .zeros:
      return .ended(unexpected("was sent several files or chunks in one request, which it never offered to take"))
    }
  }

  /// What is known of the server, with the responses that are not about that; nil while it is to be asked.
  private func known(
    _ responses: [HTTPResponse], anew: Bool = false
  ) -> (features: TusFeatures, rest: ArraySlice<HTTPResponse>)? {
    if let features = responses.first.flatMap({ TusFeatures($0) }) {
      memory.features = features
      return (features, responses.dropFirst())
    }
    guard !anew, let features = memory.features else { return nil }
    return (features, responses[...])
  }

  /// Asks what the server can do; an answer that does not say it ends the step.
  private func ask(_ responses: [HTTPResponse], aboutUpload: Bool = false) -> NextRequest {
    guard let answer = responses.first.map(answer) else { return .send(optionsRequest()) }
    guard answer.isSuccess else {
      // Where an upload was begun, the address was right.
      let wasThere = aboutUpload || memory.features != nil
      return .ended(.refused(wasThere ? answer.failureOfCreation(limitBytes: nil) : answer.failureOfDiscovery()))
    }
    return .ended(
      .refused(
        StepFailure(
          .badRequest,
          "What answers at \(address.text) is no server of tus \(Self.version); check --to, and its last slash.")))
  }

  // MARK: - Sessions

  private func open(_ opening: SessionOpening, _ responses: [HTTPResponse]) -> NextRequest {
    guard let (features, rest) = known(responses, anew: true) else { return ask(responses) }
    if let limit = features.fileBytesMax, let size = opening.sizeBytes, size > limit {
      return .ended(
        .refused(
          StepFailure(
            .tooLarge(limitBytes: limit), "The tus server at \(address.text) takes files of up to \(limit) bytes.")))
    }
    if concatenates(features) {
      return .ended(
        .sessionOpened(
          id: TusSession.id(rowsOf: opening.nonce), chunkBytes: opening.chunkBytes, expiresAtSeconds: nil))
    }
    guard opening.sizeBytes != nil || defersLength(features) else {
      // What the server could do when this was decided it can no longer do.
      return .ended(
        .refused(StepFailure(.conflict, "The tus server at \(address.text) cannot take a file that still grows.")))
    }
    guard let response = rest.first else {
      let metadata = TusMetadata.field(
        opening.path, modifiedNanoseconds: opening.modifiedNanoseconds, options.metadata)
      let deferral = opening.sizeBytes == nil ? [HTTPHeader("upload-defer-length", "1")] : []
      return .send(
        creationRequest(
          lengthBytes: opening.sizeBytes, headers: [HTTPHeader("upload-metadata", metadata)] + deferral))
    }
    switch created(response) {
    case .failure(let failure): return .ended(.refused(failure))
    case .success(let upload):
      memory.uploads.ends(upload, at: 0)
      return .ended(
        .sessionOpened(
          id: TusSession.id(one: upload, chunkBytes: opening.chunkBytes, lengthBytes: opening.sizeBytes),
          chunkBytes: opening.chunkBytes, expiresAtSeconds: expiry(response)))
    }
  }

  private func query(_ session: SessionIdentity, _ responses: [HTTPResponse]) -> NextRequest {
    guard let (features, rest) = known(responses, anew: true) else {
      return ask(responses, aboutUpload: TusSession(session.id) != nil)
    }
    switch TusSession(session.id) {
    case .sequences where concatenates(features):
      // What the partial uploads hold was acknowledged; there may be hundreds, and the commit needs all of them.
      return .ended(.stillThere)
    case .one(let upload, let chunkBytes, _) where !concatenates(features):
      guard let response = rest.first else { return .send(headRequest(upload)) }
      let answer = answer(response)
      // A question has nothing but the address, which is wrong where it is not understood (`UploadAppending.Reply`).
      if answer.isGone || answer.isNotUnderstood { return .ended(gone()) }
      guard answer.isSuccess else { return .ended(.refused(answer.failure())) }
      guard let offset = answer.offset else { return .ended(.refused(answer.failureWithoutOffset)) }
      guard offset <= options.fileBytesMax else { return .ended(gone()) }
      let whole = Int(clamping: offset / UInt64(chunkBytes))
      if offset.isMultiple(of: UInt64(chunkBytes)) { memory.uploads.isFound(upload, at: offset) }
      var tokens: LookupTable<Int, String> = [:]
      for index in 0..<whole { tokens[index] = endToken(index, chunkBytes, chunkBytes) }
      if !offset.isMultiple(of: UInt64(chunkBytes)), response.header("upload-length") == "\(offset)" {
        tokens[whole] = "\(offset)"
      }
      return .ended(.held(digests: [:], expiresAtSeconds: expiry(response), tokens: tokens))
    case .sequences, .one, .partial, nil:
      return .ended(gone())
    }
  }

  private func abort(_ session: SessionIdentity, _ responses: [HTTPResponse]) -> NextRequest {
    let upload: String
    switch TusSession(session.id) {
    case .one(let one, _, _): upload = one
    case .partial(let partial): upload = partial
    case .sequences:
      // Its partial uploads are ended one by one.
      guard let joined = memory.joined(of: session.id), responses.isEmpty else {
        memory.forgetCommit(of: session.id)
        return responses.isEmpty ? .send(optionsRequest()) : .ended(.ended)
      }
      return .send(uploadRequest(.delete, joined.upload))
    case nil: return responses.isEmpty ? .send(optionsRequest()) : .ended(.ended)
    }
    guard let answer = responses.first.map(answer) else { return .send(uploadRequest(.delete, upload)) }
    memory.uploads.forget(upload)
    let isEnded = answer.isSuccess || answer.response.refusesForGood(toEndAsServer: answer.isOfServer)
    return .ended(isEnded ? .ended : .refused(answer.failure()))
  }

  // MARK: - Chunks

  private func send(_ sending: ChunkSending, _ responses: [HTTPResponse]) -> NextRequest {
    guard let (features, rest) = known(responses) else { return ask(responses) }
    let body = UploadBody(sending.body, sha256: sending.digest.sha256, sentBytes: sending.sentBytes)
    switch TusSession(sending.session.id) {
    case .one(let upload, let chunkBytes, let lengthBytes) where !concatenates(features):
      // A length that was declared cannot be changed, and the file has another one by now.
      if let lengthBytes, lengthBytes != sending.position.sequenceBytes { return .ended(gone()) }
      let base = UInt64(sending.index) * UInt64(chunkBytes)
      if lengthBytes == nil, base == 0, rest.contains(where: { $0.status == 400 }) {
        memory.refusesDeferredLength = true
        return .ended(gone())
      }
      return append(body, to: upload, at: base, features, rest, lost: gone()) {
        .chunkStoredAs(
          token: endToken(sending.index, chunkBytes, body.count), expiresAtSeconds: $0.flatMap(expiry))
      }
    case .sequences where concatenates(features):
      if let after = sending.position.after {
        guard let partial = TusPartial(token: after) else { return .ended(sequenceLost()) }
        return append(
          body, to: partial.upload, at: sending.position.sequenceOffset, of: partial.lengthBytes, features, rest,
          lost: sequenceLost()
        ) { _ in .chunkStoredAs(token: after) }
      }
      return create(
        body, lengthBytes: sending.position.sequenceBytes, [HTTPHeader("upload-concat", "partial")], features, rest,
        lost: sequenceLost()
      ) { upload, _ in
        .chunkStoredAs(token: TusPartial(upload: upload, lengthBytes: sending.position.sequenceBytes).token)
      }
    case .sequences, .one, .partial, nil:
      return .ended(gone())
    }
  }

  private func send(_ sending: WholeFileSending, _ responses: [HTTPResponse]) -> NextRequest {
    guard let (features, rest) = known(responses) else { return ask(responses) }
    let metadata = TusMetadata.field(
      sending.path, modifiedNanoseconds: sending.modifiedNanoseconds, options.metadata)
    let body = sending.body.map { UploadBody($0, sha256: sending.digest.sha256, sentBytes: sending.sentBytes) }
    let lost = StepOutcome.refused(
      StepFailure(.unexpectedAnswer, "The tus server at \(address.text) has lost an upload that it had begun."))
    let next = create(
      body, lengthBytes: UInt64(body?.count ?? 0), [HTTPHeader("upload-metadata", metadata)], features, rest, lost: lost
    ) { upload, response in
      let proof = sending.proof
      return .published(
        receipt(
          upload, sending.path, UInt64(body?.count ?? 0), merkleRoot: proof.merkleRoot, chainTip: proof.chainTip,
          response))
    }.mayLeaveCopies
    guard options.unclear == .hold, case .send(var request) = next else { return next }
    // As for a request that joins.
    request.isSentOnce = true
    request.opensConnection = true
    return .send(request)
  }

  /// A new upload with these bytes: in one request where the server takes that, and what it did not take in others.
  private func create(
    _ body: UploadBody?, lengthBytes: UInt64, _ headers: [HTTPHeader], _ features: TusFeatures,
    _ responses: ArraySlice<HTTPResponse>, lost: StepOutcome,
    stored: (_ upload: String, _ response: HTTPResponse) -> StepOutcome
  ) -> NextRequest {
    let sendsBody = features.takesBodyAtCreation
    guard let response = responses.first else {
      return .send(
        creationRequest(lengthBytes: lengthBytes, headers: headers, body: sendsBody ? body : nil, features))
    }
    switch created(response, limitBytes: features.fileBytesMax) {
    case .failure(let failure): return .ended(.refused(failure))
    case .success(let upload):
      guard let body, body.count > 0 else { return .ended(stored(upload, response)) }
      if responses.count == 1 { memory.uploads.ends(upload, at: 0) }
      // Without a word of the server nothing was taken.
      let offset = answer(response).offset ?? 0
      return append(
        body, to: upload, at: 0, of: lengthBytes, from: offset, isOurs: true, features, responses.dropFirst(),
        lost: lost
      ) { _ in stored(upload, response) }
    }
  }

  /// Bytes at the end of an upload.
  private func append(
    _ body: UploadBody, to upload: String, at base: UInt64, of length: UInt64? = nil, from first: UInt64? = nil,
    isOurs: Bool = false,
    _ features: TusFeatures, _ responses: ArraySlice<HTTPResponse>, lost: StepOutcome,
    stored: (_ last: HTTPResponse?) -> StepOutcome
  ) -> NextRequest {
    // What was just created holds what the answer says.
    let asksFirst =
      first == nil
      && (responses.isEmpty
        ? memory.uploads.beginsAttempt(at: upload, offset: base) : memory.uploads.asksFirst(upload))
    let appending = UploadAppending(
      upload: upload, body: body, base: base, isOurs: isOurs, asksFirst: asksFirst, memory: memory.uploads,
      server: "The tus server at \(address.text)")
    switch appending.next(from: first, responses, reply: { reply($0, features) }) {
    case .ask:
      appending.isAsked(after: responses) { reply($0, features) }
      return .send(headRequest(upload))
    case .send(let piece, let offset):
      appending.isBegun(from: offset)
      return .send(patchRequest(upload, piece, at: offset, features))
    case .lost: return .ended(lost)
    case .refused(let failure): return .ended(.refused(failure))
    case .stored:
      if isOurs, base + UInt64(body.count) == length {
        memory.uploads.forget(upload)
      } else {
        appending.isStored()
      }
      return .ended(stored(responses.last))
    }
  }

  private func reply(_ response: HTTPResponse, _ features: TusFeatures) -> UploadAppending.Reply {
    let answer = answer(response)
    if response.status == 409 { return .conflict(answer.failure()) }
    if answer.isGone { return .gone }
    if answer.isNotUnderstood { return .notUnderstood(answer.failure()) }
    guard answer.isSuccess else { return .refused(answer.failure(limitBytes: features.fileBytesMax)) }
    return answer.offset.map { .reached($0) } ?? .unsaid(answer.failureWithoutOffset)
  }

  // MARK: - Commits

  private func publish(_ commit: SessionCommit, _ responses: [HTTPResponse]) -> NextRequest {
    guard let (features, rest) = known(responses) else { return ask(responses) }
    switch TusSession(commit.session.id) {
    case .one(let upload, _, let lengthBytes) where !concatenates(features):
      // As for a chunk: the file may have been cut to what the upload holds, and the server waits for the rest.
      if let lengthBytes, lengthBytes != commit.sizeBytes { return .ended(gone()) }
      guard let response = rest.first else { return .send(headRequest(upload)) }
      let look = answer(response)
      if look.isGone {
        // Each of its bytes was acknowledged, and with the last of the length that was declared an upload is complete: the server has put
        // the file away, as some do.
        guard lengthBytes != nil else { return .ended(gone()) }
        memory.uploads.forget(upload)
        return .ended(.published(receipt(upload, commit, response)))
      }
      guard look.isSuccess else { return .ended(.refused(look.failure())) }
      guard let offset = look.offset else { return .ended(.refused(look.failureWithoutOffset)) }
      guard offset == commit.sizeBytes else { return .ended(gone()) }
      let declaredBytes = response.header("upload-length").map { UInt64($0) }
      if let declaredBytes, declaredBytes != offset { return .ended(gone()) }
      if lengthBytes == nil, declaredBytes == nil {
        guard let declared = rest.dropFirst().first.map(answer) else {
          return .send(declaration(of: upload, lengthBytes: commit.sizeBytes))
        }
        guard declared.isSuccess else { return .ended(.refused(declared.failure())) }
        guard declared.isAttestedSuccess else {
          return .ended(unexpected("answers \(declared.response.status) without a word of tus"))
        }
      }
      memory.uploads.forget(upload)
      return .ended(.published(receipt(upload, commit, response)))
    case .sequences where concatenates(features): return join(commit, features, rest)
    case .sequences, .one, .partial, nil: return .ended(gone())
    }
  }

  // MARK: - Parts of answers

  func answer(_ response: HTTPResponse) -> TusAnswer { TusAnswer(response: response, address: address.text) }

  func created(_ response: HTTPResponse, limitBytes: UInt64? = nil) -> Result<String, StepFailure> {
    let answer = answer(response)
    guard response.status == 201 else {
      if answer.isSuccess { return .failure(failure("did not create an upload").followingSuccess()) }
      return .failure(answer.failureOfCreation(limitBytes: limitBytes))
    }
    guard let location = response.header("location") else {
      return .failure(failure("does not say where an upload is").followingSuccess())
    }
    guard let upload = address.resolve(location) else {
      return .failure(
        StepFailure(
          .badRequest,
          "The tus server at \(address.text) names an upload by a Location that is no address, or that of another host without https."
        ))
    }
    guard !options.staysAtOrigin || address.url(of: upload).isOurs else {
      return .failure(
        StepFailure(
          .badRequest,
          "The tus server at \(address.text) names an upload at another host, and a credential that is renewed is sent to this one only."
        ))
    }
    return .success(upload)
  }

  /// When an upload expires by this machine's clock, which need not be the server's.
  private func expiry(_ response: HTTPResponse) -> Int64? {
    guard let expires = response.header("upload-expires").flatMap(HTTPDate.seconds) else { return nil }
    guard let date = response.header("date").flatMap(HTTPDate.seconds) else { return expires }
    return secondsSince1970() &+ (expires &- date)
  }

  /// What a chunk of a session that is one upload is known by: where it ends.
  private func endToken(_ index: Int, _ chunkBytes: Int, _ byteCount: Int) -> String {
    "\(UInt64(index) * UInt64(chunkBytes) + UInt64(byteCount))"
  }

  func receipt(_ upload: String, _ commit: SessionCommit, _ response: HTTPResponse) -> Receipt {
    receipt(
      upload, commit.path, commit.sizeBytes, merkleRoot: commit.merkleRoot, chainTip: commit.chainTip, response)
  }

  private func receipt(
    _ upload: String, _ path: RelativePath, _ sizeBytes: UInt64, merkleRoot: Digest32, chainTip: Digest32,
    _ response: HTTPResponse
  ) -> Receipt {
    let seconds = response.header("date").flatMap(HTTPDate.seconds) ?? secondsSince1970()
    return Receipt(
      id: address.url(of: upload).url, name: publishedName(for: path), sizeBytes: sizeBytes,
      merkleRoot: Hex.encode(merkleRoot), chainTip: Hex.encode(chainTip), publishedAtMilliseconds: seconds * 1000)
  }

  func gone() -> StepOutcome {
    .refused(
      StepFailure(
        .sessionGone,
        "The tus server at \(address.text) no longer has the upload, or holds a part of it that nobody can vouch for; it begins anew."
      ))
  }

  private func sequenceLost() -> StepOutcome {
    .refused(
      StepFailure(
        .sequenceLost,
        "The tus server at \(address.text) no longer has a part of the upload, or nobody can vouch for it; that part begins anew."
      ))
  }

  func failure(_ what: String) -> StepFailure {
    StepFailure(.unexpectedAnswer, "The tus server at \(address.text) \(what).")
  }

  func unexpected(_ what: String) -> StepOutcome { .refused(failure(what)) }
}

import FileModel
import Integrity
import Lookup
import Quantities
import TransferModel

extension ResumableDestination {
  /// The next request of a step, or what became of it. Every step is told from its responses alone, but for what the run
  /// remembers (``ResumableMemory``).
  ///
  /// Where a step would end because something says without a word of the draft that an upload is not there, the server is asked what
  /// it takes, and for the upload: one that answers the first and still has no upload is there itself, and its word counts. Otherwise
  /// something in between has said it, and the step is tried again.
  func next(_ step: DestinationStep, after responses: [HTTPResponse]) -> NextRequest {
    guard let upload = upload(of: step, responses), let index = stop(of: step, responses) else {
      return decide(step, after: responses)
    }
    let before = Array(responses[...index])
    var asked = responses[(index + 1)...]
    guard let features = asked.popFirst() else { return .send(optionsRequest()) }
    guard ResumableFeatures(features) != nil else { return decide(step, after: before) }
    guard let look = asked.popFirst() else { return .send(headRequest(upload)) }
    guard answer(look).saysNotThere else { return decide(step, after: before) }
    return decide(step, after: before.map { answer($0).isUnattested ? answer($0).attested : $0 } + asked)
  }

  /// The upload that a step is about, where it is known by an address.
  private func upload(of step: DestinationStep, _ responses: [HTTPResponse]) -> String? {
    switch step {
    case .chunk(let sending): ResumableSession(sending.session.id)?.upload
    case .commit(let commit): ResumableSession(commit.session.id)?.upload
    case .wholeFile(let sending):
      memory.attempt(at: SmallFile(sending))?.earlier
        ?? responses.lazy.compactMap { try? created(answer($0)).get() }.first
    case .prewarm, .openSession, .querySession, .secureSession, .abort, .bundle, .run, .zeros: nil
    }
  }

  /// The answer in the server's place by which the step would end.
  private func stop(of step: DestinationStep, _ responses: [HTTPResponse]) -> Int? {
    responses.indices.first { index in
      guard answer(responses[index]).isUnattested else { return false }
      guard case .ended(.refused(let failure)) = decide(step, after: Array(responses[...index])) else { return false }
      return failure.kind == .serverError || failure.kind == .misdirected
    }
  }

  private func decide(_ step: DestinationStep, after responses: [HTTPResponse]) -> NextRequest {
    switch step {
    case .prewarm:
      guard let answer = responses.first.map(answer) else { return .send(optionsRequest()) }
      if let features = ResumableFeatures(answer.response) { memory.features = features }
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

  /// Asks what the server takes; an answer that does not say it ends the step.
  private func ask(_ responses: [HTTPResponse], aboutUpload: Bool = false) -> NextRequest {
    guard let answer = responses.first.map(answer) else { return .send(optionsRequest()) }
    // Where an upload was begun, the address was right.
    if aboutUpload || memory.features != nil, !answer.isSuccess {
      return .ended(.refused(answer.failureOfCreation(limitBytes: nil)))
    }
    guard answer.isSuccess || answer.saysNotThere else { return .ended(.refused(answer.failureOfDiscovery())) }
    let version = ResumableFeatures.version(in: answer.response)
    let found = version.map { ", but interop version \($0)" } ?? ""
    return .ended(
      .refused(
        StepFailure(
          answer.saysNotThere ? .addressRefused : .badRequest,
          "What answers at \(address.text) does not speak the IETF draft of resumable uploads, interop version "
            + "\(Self.interopVersion)\(found): check --to, and its last slash, or use --tus-protocol tus.")))
  }

  // MARK: - Sessions

  private func open(_ opening: SessionOpening, _ responses: [HTTPResponse]) -> NextRequest {
    guard let first = responses.first, let features = ResumableFeatures(first) else { return ask(responses) }
    memory.features = features
    let known = memory.features?.limits ?? features.limits
    if let failure = misfit(opening.sizeBytes, known) { return .ended(.refused(failure)) }
    guard responses.count > 1 else { return .send(creationRequest(opening.path, lengthBytes: opening.sizeBytes)) }
    let answer = answer(responses[1])
    switch created(answer) {
    case .failure(let failure): return .ended(.refused(failure))
    case .success(let upload):
      let limits = known.narrowed(by: answer.limits)
      let failure = misfit(opening.sizeBytes, limits)
      guard failure == nil, let chunkBytes = limits.chunkBytes(for: opening.chunkBytes) else {
        // Such an upload would only wait for its end there.
        guard responses.count > 2 else { return .send(cancellation(of: upload)) }
        return .ended(.refused(failure ?? noChunks(limits)))
      }
      memory.uploads.ends(upload, at: 0)
      return .ended(
        .sessionOpened(
          id: ResumableSession.id(upload, chunkBytes: chunkBytes, lengthBytes: opening.sizeBytes),
          chunkBytes: chunkBytes, expiresAtSeconds: expiry(answer)))
    }
  }

  /// Why a file cannot be uploaded at all; nil when it can.
  private func misfit(_ sizeBytes: UInt64?, _ limits: ResumableLimits) -> StepFailure? {
    if let limit = limits.sizeBytesMax, let sizeBytes, sizeBytes > limit {
      return StepFailure(.tooLarge(limitBytes: limit), "\(server) takes files of up to \(limit) bytes.")
    }
    guard let least = limits.sizeBytesMin, least > 0 else { return nil }
    guard let sizeBytes else {
      // What the server could do when this was decided it can no longer do.
      return StepFailure(.conflict, "\(server) cannot take a file that still grows.")
    }
    return sizeBytes < least
      ? StepFailure(.badRequest, "\(server) takes files of \(least) bytes at least.") : nil
  }

  private func noChunks(_ limits: ResumableLimits) -> StepFailure {
    let least = limits.requestBytesMin.map { "at least \($0)" }
    let most = limits.requestBytesMax.map { "at most \($0)" }
    return StepFailure(
      .badRequest,
      "\(server) takes \([least, most].compactMap { $0 }.joined(separator: " and ")) bytes in one request, which no "
        + "chunk fits: use another --chunk-size (\(ResumableLimits.chunkBytesMin >> 10) KiB is the least).")
  }

  private func query(_ session: SessionIdentity, _ responses: [HTTPResponse]) -> NextRequest {
    if responses.isEmpty, let session = ResumableSession(session.id) { memory.looksAgain(at: session.upload) }
    guard let features = responses.first.flatMap({ ResumableFeatures($0) }) else {
      return ask(responses, aboutUpload: ResumableSession.isOne(session.id))
    }
    memory.features = features
    guard let session = ResumableSession(session.id) else { return .ended(gone()) }
    guard responses.count > 1 else { return .send(headRequest(session.upload)) }
    let answer = answer(responses[1])
    // The server has just said that it is there.
    if answer.saysNotThere { return .ended(vanished(session.upload)) }
    guard answer.isSuccess else { return .ended(.refused(answer.failure())) }
    guard let offset = answer.offset else { return .ended(.refused(answer.failureWithoutOffset)) }
    guard offset <= options.fileBytesMax else { return .ended(gone()) }
    if let length = session.lengthBytes, answer.contradictsItself(lengthBytes: length) { return .ended(gone()) }
    let chunkBytes = UInt64(session.chunkBytes)
    let whole = Int(clamping: offset / chunkBytes)
    if offset.isMultiple(of: chunkBytes) { memory.uploads.isFound(session.upload, at: offset) }
    var tokens: LookupTable<Int, String> = [:]
    for index in 0..<whole { tokens[index] = Self.token(endingAt: UInt64(index + 1) * chunkBytes) }
    // A short last chunk that is known for its end.
    if !offset.isMultiple(of: chunkBytes), answer.isComplete == true || session.lengthBytes == offset {
      tokens[whole] = Self.token(endingAt: offset)
    }
    return .ended(.held(digests: [:], expiresAtSeconds: expiry(answer), tokens: tokens))
  }

  private func abort(_ session: SessionIdentity, _ responses: [HTTPResponse]) -> NextRequest {
    guard let session = ResumableSession(session.id) else {
      return responses.isEmpty ? .send(optionsRequest()) : .ended(.ended)
    }
    guard let answer = responses.first.map(answer) else { return .send(cancellation(of: session.upload)) }
    memory.uploads.forget(session.upload)
    memory.ends(nil, of: session.upload)
    let isEnded =
      answer.isSuccess || answer.response.refusesForGood(toEndAsServer: answer.isOfServer)
    return .ended(isEnded ? .ended : .refused(answer.failure()))
  }

  // MARK: - Chunks

  private func send(_ sending: ChunkSending, _ responses: [HTTPResponse]) -> NextRequest {
    guard let session = ResumableSession(sending.session.id) else { return .ended(gone()) }
    // A length that was declared cannot be changed, and the file has another one by now.
    if let lengthBytes = session.lengthBytes, lengthBytes != sending.position.sequenceBytes { return .ended(gone()) }
    if memory.completion(of: session.upload) == .refused { return .ended(gone()) }
    let body = UploadBody(sending.body, sha256: sending.digest.sha256, sentBytes: sending.sentBytes)
    let base = UInt64(sending.index) * UInt64(session.chunkBytes)
    // One that is shorter than what a server takes may only be the last.
    let isShort = UInt64(body.count) < memory.features?.limits.requestBytesMin ?? 0
    let asksFirst =
      responses.isEmpty
      ? memory.uploads.beginsAttempt(at: session.upload, offset: base) : memory.uploads.asksFirst(session.upload)
    let appending = UploadAppending(
      upload: session.upload, body: body, base: base, asksFirst: asksFirst, memory: memory.uploads, server: server)
    let reply: (HTTPResponse) -> UploadAppending.Reply = {
      self.reply($0, to: body.count, of: sending.position.sequenceBytes, end: base + UInt64(body.count))
    }
    if let last = responses.indices.last, case .lost = appending.next(from: nil, responses[..<last], reply: reply) {
      return .ended(gone())
    }
    switch appending.next(from: nil, responses[...], reply: reply) {
    case .ask:
      appending.isAsked(after: responses[...], reply: reply)
      return .send(headRequest(session.upload))
    case .send(let piece, let offset):
      appending.isBegun(from: offset)
      return .send(patchRequest(session.upload, piece, at: offset, completes: isShort))
    case .lost:
      // An abandoned upload is not to wait for its expiry there.
      return responses.last.map(answer)?.isGone == true ? .ended(gone()) : .send(cancellation(of: session.upload))
    case .refused(let failure):
      if responses.last.map(answer)?.refusesContent == true { memory.ends(.refused, of: session.upload) }
      return .ended(.refused(failure))
    case .stored:
      appending.isStored()
      if isShort, responses.last.map(answer)?.isComplete == true { memory.ends(.complete, of: session.upload) }
      return .ended(
        .chunkStoredAs(
          token: Self.token(endingAt: base + UInt64(body.count)),
          expiresAtSeconds: responses.last.map(answer).flatMap(expiry)))
    }
  }

  /// What an answer says of an upload that is appended to. It need not say how far the upload goes when all was taken.
  private func reply(
    _ response: HTTPResponse, to byteCount: Int, of lengthBytes: UInt64, end: UInt64? = nil
  ) -> UploadAppending.Reply {
    let answer = answer(response)
    if answer.isOfAnotherState { return .conflict(answer.failure()) }
    if answer.isGone { return .gone }
    if let most = answer.limits?.requestBytesMax, response.status == 413, most < UInt64(byteCount) {
      // The next upload has shorter chunks.
      memory.learn(requestBytesMax: most)
      return .gone
    }
    guard answer.isSuccess else { return .refused(answer.failure(limitBytes: abilities.fileBytesMax)) }
    if answer.contradictsItself(lengthBytes: lengthBytes, end: end) { return .unsaid(answer.failureWithoutOffset) }
    if let offset = answer.offset { return .reached(offset) }
    // Only an answer to a probe has to have an offset. A success without a header of the draft may come from any server or proxy.
    return answer.isComplete == nil ? .unsaid(answer.failureWithoutOffset) : .tookAll
  }

  /// What a chunk is known by: where it ends.
  private static func token(endingAt offset: UInt64) -> String { "\(offset)" }

  // MARK: - Commits

  private func publish(_ commit: SessionCommit, _ responses: [HTTPResponse]) -> NextRequest {
    guard let session = ResumableSession(commit.session.id) else { return .ended(gone()) }
    // As for a chunk: the file may have been cut to what the upload holds, and have nothing more to send.
    if let lengthBytes = session.lengthBytes, lengthBytes != commit.sizeBytes { return .ended(gone()) }
    return complete(session.upload, lengthBytes: commit.sizeBytes, responses[...]) {
      receipt(
        address.url(of: session.upload).url, commit.path, commit.sizeBytes, merkleRoot: commit.merkleRoot,
        chainTip: commit.chainTip, $0)
    }
  }

  /// An upload that has all of its bytes is completed. It may be so already: then the answer was lost, or a short last chunk has
  /// done it.
  private func complete(
    _ upload: String, lengthBytes: UInt64, _ responses: ArraySlice<HTTPResponse>,
    receipt: (HTTPResponse) -> Receipt
  ) -> NextRequest {
    var rest = responses
    if memory.completion(of: upload) == .refused, rest.isEmpty { return .ended(gone()) }
    guard let response = rest.popFirst() else {
      memory.beginsCompletion(of: upload)
      return .send(completionRequest(upload, lengthBytes: lengthBytes))
    }
    let answer = answer(response)
    if answer.isSuccess, answer.isComplete == true, !answer.contradictsItself(lengthBytes: lengthBytes) {
      return published(upload, receipt(response))
    }
    if answer.refusesContent {
      // What it holds would look like a file that it has taken.
      memory.ends(.refused, of: upload)
      guard rest.popFirst() != nil else { return .send(cancellation(of: upload)) }
      return .ended(.refused(answer.failure()))
    }
    if response.status == 410, answer.problem == .completed { return published(upload, receipt(response)) }
    if answer.isGone || answer.saysNotThere && memory.completion(of: upload) == .complete {
      return vanished(upload, receipt(response))
    }
    guard answer.isSuccess || answer.isOfAnotherState else {
      // What failed on the way back, or behind the server, or was said in its place, may be done.
      let failure = answer.failure()
      if failure.kind != .serverError, response.status != 500 { memory.ends(nil, of: upload) }
      return .ended(.refused(failure))
    }
    guard let look = rest.popFirst().map(self.answer) else { return .send(headRequest(upload)) }
    if look.isGone { return vanished(upload, receipt(response)) }
    guard look.isSuccess else { return .ended(.refused(look.failure())) }
    guard let offset = look.offset else { return .ended(.refused(look.failureWithoutOffset)) }
    guard offset == lengthBytes, !look.contradictsItself(lengthBytes: lengthBytes) else { return .ended(gone()) }
    if look.isComplete == true { return published(upload, receipt(look.response)) }
    return .ended(unexpected("does not complete an upload that has all of its bytes"))
  }

  private func published(_ upload: String, _ receipt: Receipt) -> NextRequest {
    memory.uploads.forget(upload)
    memory.ends(.complete, of: upload)
    return .ended(.published(receipt))
  }

  /// A server may forget an upload as soon as it is complete.
  private func vanished(_ upload: String, _ receipt: Receipt) -> NextRequest {
    if memory.completion(of: upload) == .complete { return published(upload, receipt) }
    return .ended(vanished(upload))
  }

  /// The upload is not there any more, and may be complete where its completion was not answered.
  private func vanished(_ upload: String) -> StepOutcome {
    switch memory.completion(of: upload) {
    case .unclear, .told:
      // The next attempt begins anew.
      memory.ends(.told, of: upload)
      return .refused(unclear(StepFailure(.sessionGone, "\(server) no longer has the upload")))
    case .underWay, .complete, .refused, nil: return gone()
    }
  }

  /// What to do about a failure that leaves open whether the server has the file.
  func unclear(_ failure: StepFailure) -> StepFailure { options.unclear.failure(failure, at: address.text) }

  // MARK: - Small files

  /// Whether a small file is an upload whose address is known before its bytes are sent.
  func isCareful(_ sending: WholeFileSending, _ features: ResumableFeatures) -> Bool {
    options.unclear == .hold || UInt64(sending.body?.bytes.count ?? 0) > features.limits.requestBytesMax ?? .max
  }

  private func send(_ sending: WholeFileSending, _ responses: [HTTPResponse]) -> NextRequest {
    let file = SmallFile(sending)
    // The same answers mean the same throughout an attempt, whatever is learned meanwhile.
    let begun = responses.isEmpty ? memory.beginsAttempt(at: file) : memory.attempt(at: file)
    guard let attempt = begun else { return .ended(unexpected("was asked about a file that is not known any more")) }
    guard let features = attempt.features ?? responses.first.flatMap({ ResumableFeatures($0) }) else {
      return ask(responses)
    }
    if attempt.features == nil {
      memory.features = features
      memory.attempt(at: file, knows: features)
    }
    let size = UInt64(sending.body?.bytes.count ?? 0)
    if let failure = misfit(size, features.limits) { return .ended(.refused(failure)) }
    let rest = responses.dropFirst(attempt.asks ? 1 : 0)
    if let upload = attempt.earlier { return goOn(with: upload, sending, features, rest) }
    guard isCareful(sending, features) else { return sendAtOnce(sending, rest).mayLeaveCopies }
    guard let response = rest.first else {
      return .send(creationRequest(sending.path, lengthBytes: size))
    }
    switch created(answer(response)) {
    case .failure(let failure): return .ended(.refused(failure))
    case .success(let upload):
      memory.hasBegun(upload, for: file)
      return append(sending, to: upload, from: 0, features, rest.dropFirst())
    }
  }

  private func sendAtOnce(_ sending: WholeFileSending, _ responses: ArraySlice<HTTPResponse>) -> NextRequest {
    guard let response = responses.first else {
      let body = sending.body.map { UploadBody($0, sha256: sending.digest.sha256, sentBytes: sending.sentBytes) }
      return .send(wholeRequest(sending.path, body, sha256: sending.digest.sha256))
    }
    let answer = answer(response)
    let size = UInt64(sending.body?.bytes.count ?? 0)
    if let most = answer.limits?.requestBytesMax, response.status == 413, most < size {
      memory.learn(requestBytesMax: most)
      return .ended(
        .refused(StepFailure(.conflict, "\(server) takes \(most) bytes in one request; the file goes in several.")))
    }
    guard answer.isSuccess else {
      return .ended(.refused(answer.failureOfCreation(limitBytes: abilities.fileBytesMax)))
    }
    // It says that there is more to come, which is not so; or nothing that a server of the draft says.
    guard answer.isComplete != false else { return .ended(unexpected("has not taken all of a file")) }
    guard answer.offset ?? size == size, !answer.contradictsItself(lengthBytes: size) else {
      return .ended(.refused(unclear(failure(Self.contradicts))))
    }
    guard
      answer.isComplete == true || answer.offset == size || response.header("location") != nil
        || answer.limits != nil || ResumableFeatures.version(in: response) != nil
    else {
      return .ended(
        .refused(
          unclear(StepFailure(.unexpectedAnswer, "\(server) answered \(response.status) without a word of the draft"))))
    }
    memory.leaves(SmallFile(sending))
    let place = response.header("location").flatMap(address.resolve).map { address.url(of: $0).url }
    let id = place ?? "uploadfs-\(Hex.encode(Array(sending.nonce.prefix(16))))"
    return .ended(.published(receipt(id, sending, response)))
  }

  /// What an earlier attempt has begun: complete by now, or to be completed, or gone.
  private func goOn(
    with upload: String, _ sending: WholeFileSending, _ features: ResumableFeatures,
    _ responses: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    guard let look = responses.first.map(answer) else {
      memory.looksAgain(at: upload)
      return .send(headRequest(upload))
    }
    let size = UInt64(sending.body?.bytes.count ?? 0)
    if look.isGone || look.isSuccess && (look.offset ?? .max) > size {
      return ended(vanished(upload, receipt(address.url(of: upload).url, sending, look.response)), sending)
    }
    guard look.isSuccess else { return .ended(.refused(look.failure())) }
    if look.contradictsItself(lengthBytes: size) { return .ended(contradiction()) }
    guard let offset = look.offset else { return .ended(.refused(look.failureWithoutOffset)) }
    // As of a chunk: what was not sent is not there.
    guard memory.uploads.canReach(upload, to: offset) else { return ended(.ended(gone()), sending) }
    if look.isComplete == true {
      return ended(published(upload, receipt(address.url(of: upload).url, sending, look.response)), sending)
    }
    return append(sending, to: upload, from: offset, features, responses.dropFirst())
  }

  /// What is missing of a small file, and its completion.
  private func append(
    _ sending: WholeFileSending, to upload: String, from offset: UInt64, _ features: ResumableFeatures,
    _ responses: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    let size = UInt64(sending.body?.bytes.count ?? 0)
    guard let bytes = sending.body, offset < size else { return complete(upload, sending, responses) }
    let appending = UploadAppending(
      upload: upload, body: UploadBody(bytes, sha256: sending.digest.sha256, sentBytes: sending.sentBytes), base: 0,
      isOurs: true, requestBytesMax: Int(clamping: features.limits.requestBytesMax ?? .max), memory: memory.uploads,
      server: server)
    // Where the bytes are all there, what is left of the answers is about the completion.
    for count in 0...responses.count {
      let (sent, rest) = (responses.prefix(count), responses.dropFirst(count))
      switch appending.next(from: offset, sent, reply: { reply($0, to: Int(clamping: size), of: size) }) {
      case .ask where rest.isEmpty: return .send(headRequest(upload))
      case .send(let piece, let start) where rest.isEmpty:
        appending.isBegun(from: start)
        let completes = start + UInt64(piece.count) == size
        if completes { memory.beginsCompletion(of: upload) }
        return .send(patchRequest(upload, piece, at: start, completes: completes))
      case .ask, .send: continue
      case .lost: return ended(.ended(gone()), sending)
      case .refused(let failure): return ended(.ended(.refused(failure)), sending)
      case .stored:
        guard let last = sent.last.map(answer), last.isComplete == true else { return complete(upload, sending, rest) }
        let receipt = receipt(address.url(of: upload).url, sending, last.response)
        return ended(published(upload, receipt), sending)
      }
    }
    return .ended(unexpected("gave an answer that nobody asked for"))
  }

  private func complete(
    _ upload: String, _ sending: WholeFileSending, _ responses: ArraySlice<HTTPResponse>
  ) -> NextRequest {
    let next = complete(upload, lengthBytes: UInt64(sending.body?.bytes.count ?? 0), responses) {
      receipt(address.url(of: upload).url, sending, $0)
    }
    return ended(next, sending)
  }

  /// What became of a small file's upload: what cannot go on is not looked for again, and is no session that could be gone.
  private func ended(_ next: NextRequest, _ sending: WholeFileSending) -> NextRequest {
    switch next {
    case .ended(.refused(let failure)) where [.sessionGone, .badRequest, .unclearEnd].contains(failure.kind):
      memory.leaves(SmallFile(sending))
      guard failure.kind == .sessionGone else { return next }
      return .ended(.refused(StepFailure(.unexpectedAnswer, failure.message, retryAfter: failure.retryAfter)))
    case .ended(.published):
      memory.leaves(SmallFile(sending))
      return next
    case .ended, .send: return next
    }
  }

  // MARK: - Parts of answers

  /// The server, as messages name it.
  var server: String { "The upload server at \(address.text)" }

  private func answer(_ response: HTTPResponse) -> ResumableAnswer {
    ResumableAnswer(response: response, server: server)
  }

  private func created(_ answer: ResumableAnswer) -> Result<String, StepFailure> {
    guard answer.isSuccess else {
      return .failure(answer.failureOfCreation(limitBytes: abilities.fileBytesMax))
    }
    guard let location = answer.response.header("location") else {
      return .failure(
        StepFailure(.unexpectedAnswer, "\(server) does not say where an upload is.").followingSuccess())
    }
    guard let upload = address.resolve(location) else {
      return .failure(
        StepFailure(
          .badRequest,
          "\(server) names an upload by a Location that is no address, or that of another host without https."))
    }
    guard !options.staysAtOrigin || address.url(of: upload).isOurs else {
      return .failure(
        StepFailure(
          .badRequest,
          "\(server) names an upload at another host, and a credential that is renewed is sent to this one only."))
    }
    return .success(upload)
  }

  /// When an upload expires, by this machine's clock.
  private func expiry(_ answer: ResumableAnswer) -> Int64? {
    answer.limits?.ageSecondsMax.map { secondsSince1970() &+ Int64(clamping: min($0, Self.ageSecondsMax)) }
  }

  /// A century is as good as for ever.
  private static let ageSecondsMax: UInt64 = 100 * 365 * 86_400

  private func receipt(_ id: String, _ sending: WholeFileSending, _ response: HTTPResponse) -> Receipt {
    let proof = sending.proof
    return receipt(
      id, sending.path, UInt64(sending.body?.bytes.count ?? 0), merkleRoot: proof.merkleRoot, chainTip: proof.chainTip,
      response)
  }

  private func receipt(
    _ id: String, _ path: RelativePath, _ sizeBytes: UInt64, merkleRoot: Digest32, chainTip: Digest32,
    _ response: HTTPResponse
  ) -> Receipt {
    let seconds = response.header("date").flatMap(HTTPDate.seconds) ?? secondsSince1970()
    return Receipt(
      id: id, name: publishedName(for: path), sizeBytes: sizeBytes, merkleRoot: Hex.encode(merkleRoot),
      chainTip: Hex.encode(chainTip), publishedAtMilliseconds: seconds * 1000)
  }

  private func gone() -> StepOutcome {
    .refused(
      StepFailure(
        .sessionGone,
        "\(server) no longer has the upload, or holds a part of it that nobody can vouch for; it begins anew."))
  }

  private static let contradicts = "calls an upload complete, and says that it is shorter or longer than the file"

  /// Nothing is known by such an answer.
  private func contradiction() -> StepOutcome { unexpected(Self.contradicts) }

  private func failure(_ what: String) -> StepFailure { StepFailure(.unexpectedAnswer, "\(server) \(what).") }

  func unexpected(_ what: String) -> StepOutcome { .refused(failure(what)) }
}

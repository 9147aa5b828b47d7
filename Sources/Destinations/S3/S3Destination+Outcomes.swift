import FileModel
import Integrity
import Lookup
import Quantities
public import TransferModel

extension S3Destination {
  /// What the response to a step means, where it needs no other.
  public func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    outcome(of: step, responses: [response])
  }

  /// What the responses to a step and its follow-ups mean. Whatever they hold, this returns.
  public func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    guard let first = responses.first else { return unexpected("did not answer") }
    let answer = S3Answer(first)
    switch step {
    case .prewarm:
      // A key that may only write is refused here, and the connection is warm all the same.
      return first.status < 500 ? .warmed : refused(answer)
    case .openSession(let opening): return opened(opening, responses)
    case .querySession, .secureSession: return held(responses)
    case .chunk(let sending): return sent(sending, responses)
    case .commit(let commit): return committed(commit, machine(of: commit, responses))
    case .abort(let session):
      publishedParts.ended(session)
      return answer.isSuccess || answer.status == 404 && answer.code != nil ? .ended : refused(answer)
    case .wholeFile(let sending): return published(sending, machine(of: sending, responses))
    case .bundle, .run, .zeros:
      return unexpected("was sent several files or chunks in one request, which it never offered to take")
    }
  }

  /// It can be tried again. A server that never answers a copy is not asked for ever.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    if case .chunk(let sending) = step, sending.copied != nil { publishedParts.copied(sending, .failed) }
    return .refused(StepFailure(error))
  }

  /// What was published stays so when a trial or a probe behind it has no answer.
  public func outcome(
    of step: DestinationStep, lost error: TransportError, after responses: [HTTPResponse]
  ) -> StepOutcome {
    let machine: S3PublicationMachine
    switch step {
    case .commit(let commit): machine = self.machine(of: commit, responses)
    case .wholeFile(let sending): machine = self.machine(of: sending, responses)
    case .chunk(let sending):
      // Its copy was answered, and its bytes were lost.
      if sending.copied != nil, let first = responses.first {
        publishedParts.copied(sending, S3CopyEnd(S3Answer(first), to: sending))
      }
      return .refused(StepFailure(error))
    case .prewarm, .openSession, .querySession, .secureSession, .run, .zeros, .abort, .bundle:
      return outcome(of: step, lost: error)
    }
    return switch machine.done {
    case .nothing: outcome(of: step, lost: error)
    case .mayHavePublished: .refused(StepFailure(.transport(.connectionLost), error.message))
    case .published: outcome(of: step, responses: responses)
    }
  }

  private func opened(_ opening: SessionOpening, _ responses: [HTTPResponse]) -> StepOutcome {
    switch place(of: opening, responses) {
    case .found(let search, let answers): return opened(opening, search, answers)
    case .unanswered(let response): return refused(S3Answer(response))
    case .asked(let key), .none(let key): return taken(key, isBound: false, .number)
    }
  }

  private func opened(
    _ opening: SessionOpening, _ search: NameSearch, _ responses: [HTTPResponse]
  ) -> StepOutcome {
    guard case .opened(let answer) = answers(to: opening, of: search.key, responses) else {
      return responses.first.map { refused(S3Answer($0)) } ?? unexpected("did not answer")
    }
    guard answer.isSuccess else { return refused(answer) }
    guard let upload = begunUpload(search.key, answer) else {
      return .refused(unexpectedAnswer("began an upload, but its answer is not understood").followingSuccess())
    }
    learn(from: opening, upload)
    // The next capture of that name does not wait for this one's end to find another number.
    if let number = search.number { names.used(number, of: publishedName(for: opening.path)) }
    return .sessionOpened(
      id: upload.sessionID, chunkBytes: opening.chunkBytes,
      expiresAtSeconds: answer.response.header("x-amz-abort-date").flatMap(HTTPDate.seconds))
  }

  private func sent(_ sending: ChunkSending, _ responses: [HTTPResponse]) -> StepOutcome {
    var answers = responses.map { S3Answer($0) }
    if sending.copied != nil {
      let copy = answers.removeFirst()
      let end = S3CopyEnd(copy, to: sending)
      publishedParts.copied(sending, end)
      if case .copied(let tag) = end { return .chunkStoredAs(token: tag, isCopied: true) }
      if answers.isEmpty { return refused(copy) }
    }
    guard let answer = answers.last else { return unexpected("did not answer") }
    if let failure = refusal(of: sending.session, answer) { return .refused(failure) }
    return stored(answer)
  }

  /// The server has copied parts and does not publish them, as where it makes no checksums of copies and wants some: nil for any other refusal.
  private func refusalOfCopies(in session: SessionIdentity, _ answer: S3Answer) -> StepFailure? {
    guard ["InvalidPart", "InvalidRequest", "InvalidArgument", "BadDigest"].contains(answer.code),
      publishedParts.isRefusedForCopies(session)
    else { return nil }
    return StepFailure(
      .sessionGone,
      "The S3 server at \(address.text) does not complete an upload with parts that it has copied; it begins anew, and all of them are sent."
    )
  }

  private func stored(_ answer: S3Answer) -> StepOutcome {
    guard answer.isSuccess else {
      // rclone (serve s3) passes parts on as they come in order, and takes no others in the place of these.
      guard answer.code == "NotImplemented", askedFeatures.isEmpty, case .refused(let failure) = refused(answer) else {
        return refused(answer)
      }
      return .refused(StepFailure(.notReplaceable, "\(failure.message) The upload begins anew."))
    }
    guard let tag = answer.entityTag else { return unexpected("took a part, but did not name it by an ETag") }
    return .chunkStoredAs(token: tag)
  }

  /// Parts are recognised by their ETags, and by their SHA-256 where the server keeps it.
  private func held(_ responses: [HTTPResponse]) -> StepOutcome {
    var tokens: LookupTable<Int, String> = [:]
    var digests: LookupTable<Int, Digest32> = [:]
    for response in responses {
      let answer = S3Answer(response)
      guard answer.isSuccess else { return refused(answer) }
      guard let list = S3PartList(response) else { return unexpected("listed parts in a way that is not understood") }
      for part in list.parts {
        tokens[part.number - 1] = part.entityTag
        digests[part.number - 1] = part.sha256
      }
    }
    if let last = responses.last, S3PartList(last)?.next != nil { return unexpected("has no end of its list of parts") }
    return .held(digests: digests, tokens: tokens)
  }

  private func committed(_ commit: SessionCommit, _ machine: S3PublicationMachine) -> StepOutcome {
    learn(.completion, commit.session.nonce, commit.path, from: machine)
    let receipt = { (id: String, answer: S3Answer) in
      Receipt(
        id: id, name: publishedName(for: commit.path), sizeBytes: commit.sizeBytes,
        merkleRoot: Hex.encode(commit.merkleRoot), chainTip: Hex.encode(commit.chainTip),
        publishedAtMilliseconds: publicationTime(answer.response),
        publishedAs: otherName(machine.search.key, for: commit.path))
    }
    guard let end = machine.end else { return unexpected("has no end of its answers") }
    switch end {
    case .found(let object):
      if let tag = object.entityTag {
        publishedParts.published(commit, as: .init(name: machine.search.key, entityTag: tag))
      }
      return .published(receipt(object.publicationID ?? "", object))
    case .published(let answer):
      guard answer.root?.name.hasPrefix("CompleteMultipartUpload") == true,
        let tag = S3Answer.entityTag(answer.root?.child("ETag")?.text)
      else { return unexpected("completed an upload, but its answer is not understood") }
      publishedParts.published(commit, as: .init(name: machine.search.key, entityTag: tag))
      return .published(receipt(S3Answer.publicationID(answer.response, tag), answer))
    case .withoutETag: return unexpected("completed an upload, but its answer is not understood")
    case .taken: return taken(machine.search.key, isBound: true, right(commit.right).ifExists)
    case .refused(let answer):
      let failure = refusal(of: commit.session, answer) ?? refusalOfCopies(in: commit.session, answer)
      return failure.map { .refused($0) } ?? refused(answer)
    case .restless: return changing(machine.search.key)
    }
  }

  private func published(_ sending: WholeFileSending, _ machine: S3PublicationMachine) -> StepOutcome {
    learn(.object, sending.nonce, sending.path, from: machine)
    let proof = sending.proof
    let receipt = { (id: String, answer: S3Answer) in
      Receipt(
        id: id, name: publishedName(for: sending.path), sizeBytes: UInt64(clamping: sending.body?.bytes.count ?? 0),
        merkleRoot: Hex.encode(proof.merkleRoot), chainTip: Hex.encode(proof.chainTip),
        publishedAtMilliseconds: publicationTime(answer.response),
        publishedAs: otherName(machine.search.key, for: sending.path))
    }
    guard let end = machine.end else { return unexpected("has no end of its answers") }
    switch end {
    case .found(let object): return .published(receipt(object.publicationID ?? "", object))
    case .published(let answer):
      learn(from: sending, answer)
      guard let id = answer.publicationID else { return unexpected("took a file, but did not name it by an ETag") }
      return .published(receipt(id, answer))
    case .withoutETag: return unexpected("took a file, but did not name it by an ETag")
    case .taken: return taken(machine.search.key, isBound: false, right(sending.right).ifExists)
    case .refused(let answer): return refused(answer)
    case .restless: return changing(machine.search.key)
    }
  }

  private func otherName(_ key: String, for path: RelativePath) -> String? {
    key.utf8.elementsEqual(publishedName(for: path).utf8) ? nil : key
  }

  private func changing(_ key: String) -> StepOutcome {
    .refused(
      StepFailure(.conflict, "The object \(key) at \(address.text) changes with every question; it is asked again."))
  }

  private func publicationTime(_ response: HTTPResponse) -> Int64 {
    (response.header("date").flatMap(HTTPDate.seconds) ?? secondsSince1970()) * 1000
  }

  func refused(_ answer: S3Answer) -> StepOutcome {
    if answer.isPage, let failure = StepFailure.page(answer.response, at: address.text) { return .refused(failure) }
    if answer.isExpired { whenExpired() }
    return .refused(
      answer.failure(
        at: address.text, region: signature.region, renewsCredentials: options.renewsCredentials,
        askedFeatures: askedFeatures))
  }

  /// Settings that insist on what a server may not know.
  private var askedFeatures: [String] {
    var features: [String] = []
    switch options.checksum {
    case .auto, .none: break
    case .crc32c, .sha256: features.append("--s3-checksum \(options.checksum.rawValue)")
    }
    if options.ifExists == .refuse { features.append("--s3-if-exists refuse") }
    return features
  }

  private func unexpected(_ what: String) -> StepOutcome { .refused(unexpectedAnswer(what)) }

  private func unexpectedAnswer(_ what: String) -> StepFailure {
    StepFailure(.unexpectedAnswer, "The server at \(address.text) \(what). Check that it is an S3 endpoint.")
  }
}

/// One page of an answer to ListParts.
struct S3PartList {
  struct Part {
    var number: Int
    var entityTag: String
    var sha256: Digest32?
  }

  private(set) var parts: [Part] = []
  /// Where the next page begins, as the server counts it; nil when there is none.
  private(set) var next: Int?

  /// Nil for anything else.
  init?(_ response: HTTPResponse) {
    // AWS calls it ListPartsResult, others ListPartsResponse.
    guard response.status == 200, let root = XMLElement(response.body), root.name.hasPrefix("ListParts") else {
      return nil
    }
    for element in root.children where element.name == "Part" {
      guard let number = element.child("PartNumber").flatMap({ Int($0.text) }),
        (1...S3Limits.partCountMax).contains(number), let tag = S3Answer.entityTag(element.child("ETag")?.text)
      else { return nil }
      let sha256 = element.child("ChecksumSHA256").flatMap { Base64.decode($0.text) }
      parts.append(Part(number: number, entityTag: tag, sha256: sha256.flatMap { Digest32($0) }))
    }
    guard root.child("IsTruncated")?.text == "true" else { return }
    // A page that does not go on would be asked for for ever. The server says where the next one begins: to gofakes3 (`rclone serve s3`) that
    // is the number of its first part, elsewhere that of the last one of this page.
    guard let last = parts.map(\.number).max() else { return nil }
    let marker = root.child("NextPartNumberMarker").map { Int($0.text) } ?? last
    guard let marker, marker >= last else { return nil }
    next = marker
  }
}

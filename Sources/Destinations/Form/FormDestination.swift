import ChunkProtocol
public import FileModel
import Integrity
public import TransferModel

/// What can be chosen about a form.
public struct FormOptions: Hashable, Sendable {
  /// The field that holds the file.
  public var fileField = "file"
  /// Further fields, in this order.
  public var fields: [FormField] = []
  /// What follows when it is not known how a request ended.
  public var unclear = AmbiguousOutcomePolicy.retry
  /// The largest file that the server takes; nil when that is not known.
  public var fileBytesMax: UInt64?
  /// What the answer of a success holds; nil where its status and its JSON tell.
  public var successText: String?
  /// Requests in flight.
  public var parallelRequests = UploadConstants.maxParallelChunkUploads
  /// Where a conflict's JSON says the SHA-256 of the content that the server has: names with dots between.
  public var digestField = "checksum_sha256"
  /// Members of an answer that are not kept, because a user who reads a status could do something with them.
  public var omittedMembers = SecretNames.usual
  /// A larger file is read while it is sent.
  public var bufferBytes = UploadConstants.chunkBytesDefault

  /// The defaults.
  public init() {}
}

/// An upload form (docs/destinations.md#forms): each file is one POST of multipart/form-data, whose length is stated
/// before the first byte.
///
/// Such a request cannot be continued, and doing it twice is not the same as once. What is known of its end is used: while
/// a byte of the body has not been sent, the server cannot have taken it for complete.
public struct FormDestination: Destination {
  /// What a form can do.
  public let abilities: DestinationAbilities
  /// The form's address, without credentials and query.
  public var displayURL: String { address.text }

  let address: FormAddress
  let options: FormOptions
  let authorization: String?
  private let question = BodyQuestion()

  /// A form at an address. Without credential only servers that ask for none will answer.
  public init(
    address: FormAddress, credential: Credential?, options: FormOptions = FormOptions()
  ) throws(DestinationError) {
    try credential?.check()
    guard !options.fileField.isEmpty, options.parallelRequests > 0, options.bufferBytes > 0 else {
      throw DestinationError(.invalidOption, "The name of the file's field is empty, or a limit is 0.")
    }
    self.address = address
    self.options = options
    authorization = credential?.authorization
    var abilities = DestinationAbilities(
      parallelChunks: options.parallelRequests, replaceableChunks: false, unknownLength: false,
      wholeFileBytesMax: options.bufferBytes, fileBytesMax: options.fileBytesMax)
    abilities.streamsWholeFiles = true
    abilities.repeatsLeaveCopies = .everything
    if options.unclear == .hold { abilities.atMostOnceScope = .everything }
    self.abilities = abilities
  }

  /// The path as the form is told it. The server makes of it what it likes.
  public func publishedName(for path: RelativePath) -> String { TextName.quoted.of(path) }

  // MARK: - Requests

  /// The request that carries out a step. There is one address, and one thing to ask of it.
  public func request(for step: DestinationStep, at endpoint: EndpointID = .first) -> HTTPRequest {
    switch step {
    case .wholeFile(let sending): return fileRequest(sending)
    // Not the form itself: it may be a program that does something whenever it is asked.
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort,
      .bundle:
      return HTTPRequest(.head, address.frontURL, headers: credentialFields)
    }
  }

  private var credentialFields: [HTTPHeader] { authorization.map { [HTTPHeader("Authorization", $0)] } ?? [] }

  private func fileRequest(_ sending: WholeFileSending) -> HTTPRequest {
    let size = sending.sizeBytes
    let name = TextName.quoted.ofLastComponent(sending.path)
    let form = MultipartForm(
      token: Hex.encode(Array(sending.nonce.prefix(24))),
      fields: options.fields.compactMap { field in
        field.value(
          for: sending.path, sizeBytes: size, modifiedNanoseconds: sending.modifiedNanoseconds, id: sending.fileID
        ).map { (field.name, $0) }
      },
      fileField: options.fileField, fileName: name, mimeType: MIMEType.ofFile(named: name))
    var body: [HTTPRequest.Body.Piece] = [.bytes(form.head)]
    if let stream = sending.stream { body.append(.streamed(stream)) }
    if let bytes = sending.body { body.append(.pinned(bytes)) }
    body.append(.bytes(form.tail))
    var limits = HTTPRequestLimits(total: .zero, stall: UploadConstants.stallDetection)
    limits.answer = HTTPRequestLimits.answerTime(forBodyOf: Int(clamping: size))
    var request = HTTPRequest(
      .post, address.url,
      headers: credentialFields + [
        HTTPHeader("Content-Type", form.contentType), HTTPHeader("Accept", "application/json, */*;q=0.5"),
      ], body: .pieces(body), limits: limits, sentBytes: sending.sentBytes)
    request.isSentOnce = true
    // A wrong password is not to cost the whole file.
    request.asksBeforeBody = mayAsk(before: sending) && question.isAsked
    // A kept-alive connection that the server has just closed looks like an unclear end.
    request.opensConnection = options.unclear == .hold
    return request
  }

  private func mayAsk(before sending: WholeFileSending) -> Bool { sending.stream != nil && authorization != nil }

  // MARK: - Outcomes

  /// What a response to a step means.
  public func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    switch step {
    case .prewarm: return .warmed
    case .wholeFile(let sending) where response.status == 417 && mayAsk(before: sending):
      question.refused()
      let said = "The server at \(address.text) answered 417: it is not to be asked before a large file (Expect)"
      return .refused(StepFailure(.unexpectedAnswer, "\(said). The file goes out without that."))
    case .wholeFile(let sending):
      let success = FormSuccess(response: response, address: address.text, options: options)
      return success.failure.map { .refused($0) } ?? published(sending, FormAnswer(response))
    case .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort, .bundle:
      return .refused(StepFailure(.unexpectedAnswer, "\(address.text) is a form, which takes whole files only."))
    }
  }

  /// Whether the server may have the file depends on how much of the request was sent.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    guard case .wholeFile = step, error.mayHaveArrived, error.kind != .stopped else {
      return .refused(StepFailure(error))
    }
    let what = "All of the file was sent and no answer came: \(error.message). The server may have it"
    switch options.unclear {
    case .retry:
      return .refused(
        StepFailure(
          .transport(error.kind),
          "\(what), and gets it again, so that it may be there twice (--form-unclear hold waits for you instead)."))
    case .hold:
      return .refused(
        StepFailure(
          .unclearEnd,
          "\(what). Look there, and then use `uploadfs-mount retry` or `uploadfs-mount cancel` (--form-unclear hold)."))
    }
  }

  private func published(_ sending: WholeFileSending, _ answer: FormAnswer) -> StepOutcome {
    let isThere = answer.isDuplicate(of: contentSHA256(of: sending), by: options.digestField)
    if !isThere,
      let failure = answer.failure(
        at: address.text, sizeBytes: sending.sizeBytes, digestField: options.digestField)
    {
      return .refused(failure)
    }
    guard let proof = proof(of: sending) else {
      // The answer came before the file was sent, and whatever it says, it is not about the file.
      return .refused(
        StepFailure(
          .unexpectedAnswer,
          "The server at \(address.text) answered \(answer.status) before it had the file. Check the address."))
    }
    return .published(
      Receipt(
        id: answer.id ?? Hex.encode(Array(sending.nonce.prefix(16))), name: publishedName(for: sending.path),
        sizeBytes: sending.sizeBytes, merkleRoot: Hex.encode(proof.merkleRoot), chainTip: Hex.encode(proof.chainTip),
        publishedAtMilliseconds: answer.publishedAtMilliseconds ?? sending.modifiedNanoseconds / 1_000_000,
        answer: answer.keptJSON(without: options.omittedMembers)))
  }

  /// Nil before all of it was sent.
  private func contentSHA256(of sending: WholeFileSending) -> Digest32? {
    if let stream = sending.stream { return stream.contentSHA256 }
    return sending.body == nil ? sha256([]) : sending.digest.sha256
  }

  /// Over the pieces that were streamed, or over the file's one chunk.
  private func proof(of sending: WholeFileSending) -> (merkleRoot: Digest32, chainTip: Digest32)? {
    if let stream = sending.stream { return stream.proof }
    var tree = MerkleTree()
    var chain = CommitmentChain(sessionID: Hex.encode(sending.nonce))
    if sending.body != nil {
      tree.append(sending.digest.sha256)
      chain.extend(with: sending.digest.sha256)
    }
    return (tree.root, chain.tip)
  }
}

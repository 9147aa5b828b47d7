public import FileModel
public import TransferModel

/// A server that speaks the IETF's draft of resumable uploads (draft-ietf-httpbis-resumable-upload, interop version 8).
///
/// A file is one upload, which takes chunk after chunk, also while the file grows; the commit completes it, and nothing is
/// published before. A small file is one request, or an upload of its own where nothing may be unclear. What a server takes is
/// in its answer to OPTIONS, which each prewarming and each opening of a session asks for.
public struct ResumableDestination: Destination {
  /// The version of the draft that is spoken; the one that a server names must be the same.
  static let interopVersion: UInt64 = 8
  /// Of bytes that belong behind others.
  static let mediaType = "application/partial-upload"

  /// What such a server can do; ``offers(in:)`` says what this one takes.
  public let abilities: DestinationAbilities
  /// The address, without credentials.
  public var displayURL: String { address.text }

  let address: TusAddress
  let credential: Credential?
  let options: TusOptions
  let secondsSince1970: @Sendable () -> Int64
  let memory = ResumableMemory()

  /// A destination; the time is asked for when a server does not say it.
  public init(
    address: TusAddress, credential: Credential? = nil, options: TusOptions = TusOptions(),
    secondsSince1970: @escaping @Sendable () -> Int64
  ) throws(DestinationError) {
    try credential?.check()
    guard options.parallelChunks > 0, options.wholeFileBytesMax > 0 else {
      throw DestinationError(.invalidOption, "A limit of the upload destination is 0.")
    }
    self.address = address
    self.credential = credential
    self.options = options
    self.secondsSince1970 = secondsSince1970
    abilities = Self.abilities(options, ResumableLimits())
  }

  /// The path; a server puts files away as it likes, and learns it from a field of its own.
  public func publishedName(for path: RelativePath) -> String { TextName.usual.of(path) }

  /// What a server's answer to OPTIONS makes possible.
  public func offers(in response: HTTPResponse) -> DestinationOffers {
    guard let features = ResumableFeatures(response) else { return DestinationOffers() }
    return DestinationOffers(abilities: Self.abilities(options, features.limits))
  }

  /// The same question as that of each prewarming.
  public func limitsRequest(at endpoint: EndpointID) -> HTTPRequest? { request(for: .prewarm, at: endpoint) }

  /// What Upload-Limit says.
  public func limits(in response: HTTPResponse) -> DestinationLimits? {
    ResumableFeatures(response).map { DestinationLimits(fileBytesMax: $0.limits.sizeBytesMax) }
  }

  private static func abilities(_ options: TusOptions, _ limits: ResumableLimits) -> DestinationAbilities {
    let requestBytesMax = Int(clamping: limits.requestBytesMax ?? .max)
    var abilities = DestinationAbilities(
      parallelChunks: options.parallelChunks, replaceableChunks: false,
      // Where files have a least size, an upload without a length may be refused.
      unknownLength: (limits.sizeBytesMin ?? 0) == 0,
      wholeFileBytesMax: max(1, min(options.wholeFileBytesMax, requestBytesMax)),
      fileBytesMax: min(options.fileBytesMax, limits.sizeBytesMax ?? .max))
    abilities.needsChunks = true
    abilities.bindsNameAtOpening = true
    abilities.appendSequences = .one
    abilities.chunkBytesMin = max(
      TusLimits.partialBytesMin, Int(clamping: limits.requestBytesMin ?? 0))
    abilities.repeatsLeaveCopies = .wholeFiles
    // After a crash the address of a small file's upload is unknown; a session's can be asked whether it is complete.
    if options.unclear == .hold { abilities.atMostOnceScope = .wholeFiles }
    return abilities
  }

  // MARK: - Steps

  /// The request that carries out a step. There is one address.
  public func request(for step: DestinationStep, at endpoint: EndpointID = .first) -> HTTPRequest {
    if case .send(let request) = next(step, after: []) { request } else { optionsRequest() }
  }

  /// The next request of a step that takes several.
  public func followUp(
    of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID = .first
  ) -> HTTPRequest? {
    if case .send(let request) = next(step, after: responses) { request } else { nil }
  }

  /// What the response to a step means, where it needs no other.
  public func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    outcome(of: step, responses: [response])
  }

  /// What the responses to a step mean. Whatever they hold, this returns.
  public func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    guard case .ended(let outcome) = next(step, after: responses) else {
      return unexpected("needs too many requests for one step")
    }
    return outcome.hiding(uploads(of: step, responses), at: address)
  }

  /// An upload whose address is known can be asked. That of a small file that went in one request is unknown.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    let failure = StepFailure(error)
    guard case .wholeFile(let sending) = step, error.mayHaveArrived, error.kind != .stopped,
      let features = memory.attempt(at: SmallFile(sending))?.features, !isCareful(sending, features),
      memory.upload(of: SmallFile(sending)) == nil
    else { return .refused(failure) }
    return .refused(unclear(StepFailure(.transport(error.kind), "no answer came: \(error.message)")))
  }
}

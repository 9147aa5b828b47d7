public import FileModel
public import TransferModel

/// What can be chosen about a tus destination.
public struct TusOptions: Hashable, Sendable {
  /// Part of every upload's metadata, beside or instead of what is there anyway.
  public var metadata: [TusMetadataEntry] = []
  /// Large files go as partial uploads where the server can join them.
  public var concatenates = true
  /// Uploads at other hosts are refused: whatever puts the token on requests would put it on those, too.
  public var staysAtOrigin = false
  /// What follows when it is not known how a request ended that completes a file.
  public var unclear = AmbiguousOutcomePolicy.retry
  /// Requests in flight with bytes.
  public var parallelChunks = UploadConstants.maxParallelChunkUploads
  /// A file of at most this size goes in one upload of its own.
  public var wholeFileBytesMax = UploadConstants.chunkBytesDefault
  /// The largest file.
  public var fileBytesMax = UploadConstants.fileBytesMax

  /// The defaults.
  public init() {}
}

/// A server that speaks tus 1.0.0 (https://tus.io/protocols/resumable-upload).
///
/// A server says what it can do when it is asked with OPTIONS, as each prewarming and each opening of a session does. Where it
/// joins partial uploads, a session is nothing but these: each sequence of chunks is one, sent at the same time as the others and
/// begun anew when its bytes change, and the commit joins them under the file's name. Elsewhere a session is one upload, which
/// takes chunk after chunk and is there with the last one; begun while the file grows, once the commit has declared its length.
public struct TusDestination: Destination {
  static let version = "1.0.0"

  /// What every tus server can do; ``offers(in:)`` says what this one can.
  public let abilities: DestinationAbilities
  /// The address, without credentials.
  public var displayURL: String { address.text }

  let address: TusAddress
  let credential: Credential?
  let options: TusOptions
  let secondsSince1970: @Sendable () -> Int64
  let memory = TusMemory()

  /// A destination; the time is asked for when a server does not say it.
  public init(
    address: TusAddress, credential: Credential? = nil, options: TusOptions = TusOptions(),
    secondsSince1970: @escaping @Sendable () -> Int64
  ) throws(DestinationError) {
    try credential?.check()
    guard options.parallelChunks > 0, options.wholeFileBytesMax > 0 else {
      throw DestinationError(.invalidOption, "A limit of the tus destination is 0.")
    }
    self.address = address
    self.credential = credential
    self.options = options
    self.secondsSince1970 = secondsSince1970
    abilities = Self.abilities(options, concatenates: false, TusFeatures(), defersLength: false)
  }

  /// The path; a server puts files away as it likes, and learns it from their metadata.
  public func publishedName(for path: RelativePath) -> String { TextName.usual.of(path) }

  /// What a server's answer to OPTIONS makes possible.
  public func offers(in response: HTTPResponse) -> DestinationOffers {
    // That it does not do what it announces is learned from another answer.
    let isLearned = memory.refusesDeferredLength || memory.losesParts
    guard let features = TusFeatures(response) ?? (isLearned ? memory.features : nil) else {
      return DestinationOffers()
    }
    return DestinationOffers(
      abilities: Self.abilities(
        options, concatenates: concatenates(features), features, defersLength: defersLength(features)))
  }

  /// The same question as that of each prewarming.
  public func limitsRequest(at endpoint: EndpointID) -> HTTPRequest? { optionsRequest() }

  /// What Tus-Max-Size says.
  public func limits(in response: HTTPResponse) -> DestinationLimits? {
    TusFeatures(response).map { DestinationLimits(fileBytesMax: $0.fileBytesMax) }
  }

  /// An upload can be begun, and be given bytes, before its length is known.
  func defersLength(_ features: TusFeatures) -> Bool { features.defersLength && !memory.refusesDeferredLength }

  /// A file goes in parts that are joined.
  func concatenates(_ features: TusFeatures) -> Bool {
    options.concatenates && features.concatenates && !memory.losesParts
  }

  private static func abilities(
    _ options: TusOptions, concatenates: Bool, _ features: TusFeatures, defersLength: Bool
  ) -> DestinationAbilities {
    var abilities = DestinationAbilities(
      parallelChunks: options.parallelChunks, replaceableChunks: concatenates,
      unknownLength: concatenates || defersLength,
      wholeFileBytesMax: options.wholeFileBytesMax,
      fileBytesMax: min(options.fileBytesMax, features.fileBytesMax ?? .max))
    abilities.needsChunks = true
    abilities.bindsNameAtOpening = !concatenates
    abilities.commitListsChunks = concatenates
    abilities.appendSequences = concatenates ? .growing : .one
    abilities.chunkBytesMin = TusLimits.partialBytesMin
    abilities.endsSessions = features.terminates
    // What a joined upload was joined into is not known either before the answer.
    abilities.repeatsLeaveCopies = concatenates ? .everything : .wholeFiles
    if options.unclear == .hold {
      // The address of a joined upload is not known after a crash; a single upload's is, and can be asked how far it is.
      abilities.atMostOnceScope = concatenates ? .everything : .wholeFiles
    }
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

  /// Whether a server may have the file depends on what was asked of it last.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    guard error.mayHaveArrived, error.kind != .stopped, mayComplete(step) else {
      return .refused(StepFailure(error))
    }
    return .refused(unclear(StepFailure(.transport(error.kind), "no answer came: \(error.message)")))
  }

  /// What the responses to a step mean. Whatever they hold, this returns.
  public func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    guard case .ended(let outcome) = next(step, after: responses) else {
      return unexpected("needs too many requests for one step")
    }
    return outcome.hiding(uploads(of: step, responses), at: address)
  }
}

import ChunkProtocol
public import FileModel
import Integrity
public import TransferModel

/// What can be chosen about a chunk-protocol destination.
public struct ChunkProtocolOptions: Hashable, Sendable {
  /// Chunk requests in flight for one upload.
  public var parallelChunks = UploadConstants.maxParallelChunkUploads
  /// The largest chunk that the client can handle; a receiver that wants larger ones is not used.
  public var chunkBytesMax = UploadConstants.chunkBytesMax
  /// A file of at most this size goes in one request; 0 for never.
  public var wholeFileBytesMax = UploadConstants.chunkBytesDefault
  /// The largest file, where that is known from elsewhere.
  public var fileBytesMax: UInt64?
  /// What to do when the name is another capture's (docs/destinations.md, DE138). A capture that was changed and closed
  /// again keeps its own.
  public var ifExists = FileSettings.IfExists.number
  /// Plain HTTP also to other machines.
  public var allowPlainHTTP = false

  /// The defaults.
  public init() {}
}

/// The chunk protocol of docs/protocol.md: `uploadfs-receiver` and whatever speaks like it.
public struct ChunkProtocolDestination: Destination {
  /// What the protocol can do.
  public let abilities: DestinationAbilities
  /// The receiver's address, without credentials.
  public var displayURL: String { endpoint.text }
  /// Of the credential's secret; a digest of a key that is made of it.
  public var credentialMark: String? {
    authorization.map { _ in String(Hex.encode(sha256(Array("uploadfs credential mark".utf8) + masterKey)).prefix(16)) }
  }
  /// One of the receiver's addresses; the first for one that there is not.
  public func displayURL(of endpoint: EndpointID) -> String { url(of: endpoint).text }
  /// Names the addresses that whatever stands before the receiver has to let pass.
  public var advice: DestinationAdvice {
    var advice = DestinationAdvice()
    advice.refusedBundles =
      "Small files arrive one by one, and slower. Let POST to /v1/files pass what stands before the server."
    advice.refusedRuns =
      "Large files arrive one chunk at a time, and slower. Let POST to /v1/uploads/…/chunks pass what stands "
      + "before the server."
    return advice
  }
  /// The addresses of the receiver.
  public var endpointCount: Int { endpoints.count }

  /// Never empty: made from one address and others.
  let endpoints: [EndpointURL]
  /// The address by which people know the receiver.
  var endpoint: EndpointURL { endpoints[0] }

  func url(of id: EndpointID) -> EndpointURL { endpoints.indices.contains(id.index) ? endpoints[id.index] : endpoint }
  let options: ChunkProtocolOptions
  /// What requests are made with.
  public let signer: ChunkSigner
  /// Those of the signer when a request was begun: a MAC and the token beside it belong together.
  private(set) var authorization: String?
  private(set) var masterKey: [UInt8]

  /// The same with the credential of this moment.
  func withPresentCredential() -> Self {
    var present = self
    (present.authorization, present.masterKey) = signer.present
    return present
  }

  /// A destination at `baseURL`, which stands in front of `/v1/`; `alternatives` are further addresses of the same
  /// receiver. Without credential only receivers that ask for none will answer.
  public init(
    baseURL: String, alternatives: [String] = [], credential: Credential?,
    options: ChunkProtocolOptions = ChunkProtocolOptions()
  ) throws(DestinationError) {
    var endpoints: [EndpointURL] = []
    for address in [baseURL] + alternatives {
      endpoints.append(try EndpointURL(address, allowPlainHTTP: options.allowPlainHTTP))
    }
    self.endpoints = endpoints
    try credential?.check()
    guard options.parallelChunks > 0, options.chunkBytesMax > 0, options.wholeFileBytesMax >= 0 else {
      throw DestinationError(
        .invalidOption, "Parallel chunks and chunk size must be at least 1, the whole-file limit at least 0.")
    }
    self.options = options
    signer = ChunkSigner(credential)
    (authorization, masterKey) = signer.present
    var abilities = DestinationAbilities(
      parallelChunks: options.parallelChunks, replaceableChunks: true, unknownLength: true,
      wholeFileBytesMax: options.wholeFileBytesMax, fileBytesMax: options.fileBytesMax,
      commitWaitsForChunks: true, durableChunks: true)
    abilities.ordersPublications = true
    abilities.takesRuns = true
    abilities.takesZeros = true
    abilities.takesSharedFrames = true
    abilities.chunkCountMax = Int(ProtocolLimits.chunkCountMax)
    abilities.ifExists = options.ifExists
    self.abilities = abilities
  }

  /// The path's bytes as a name that the protocol accepts; see ``ChunkProtocol/PublishedName/encode(_:)``.
  public func publishedName(for path: RelativePath) -> String {
    PublishedName.encode(path.bytes)
  }
}

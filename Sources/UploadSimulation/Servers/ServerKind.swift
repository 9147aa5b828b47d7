import Destinations
import FileModel
import TransferModel

/// The server that the client uploads to.
enum ServerKind: Hashable, Sendable {
  case receiver, tus, draft, s3, form, webDAV

  /// A file is one request with all of its bytes.
  var takesWholeFiles: Bool { self == .form || self == .webDAV }

  /// At other servers one upload may be all that there is, and takes one chunk after the other.
  var takesChunksTogether: Bool { self == .receiver || self == .s3 }

  /// The machine; nil for an honest receiver, which has a core of its own.
  func peer(_ world: World, _ site: Site) -> (any SimulatedPeer)? {
    let origin = SimulatedAddresses.first
    switch self {
    case .receiver: return world.scenario.liesInOwnWords && site.isTroubled ? LyingReceiver(world) : nil
    case .tus:
      let extensions = TusServer.extensions.filter { _ in world.random.happens(0.6) }
      let server = TusServer(origin: origin, extensions: extensions, forgetsComplete: world.random.happens(0.3))
      world.trace(
        "server: tus with \((extensions + (server.forgetsComplete ? ["forgets"] : [])).joined(separator: ","))")
      return ForeignServer(world, site, server)
    case .draft:
      return ForeignServer(
        world, site, DraftServer(origin: origin, forgetsComplete: world.random.happens(0.3)))
    case .s3:
      var server = S3Server()
      server.copying = S3Server.Copying.allCases.randomElement(using: &world.random) ?? .known
      return ForeignServer(world, site, server)
    case .form: return ForeignServer(world, site, FormServer())
    case .webDAV:
      var server = WebDAVServer()
      server.keepsConditions = world.random.happens(0.7)
      return ForeignServer(world, site, server)
    }
  }

  /// The destination of one start of the client: its memory dies with the process.
  func destination(
    _ scenario: Scenario, _ addresses: SimulatedAddresses
  ) throws(DestinationError) -> any Destination {
    switch self {
    case .receiver: try receiver(scenario, addresses)
    case .tus, .draft: SmallDestination(try resumable(scenario))
    case .s3: SmallDestination(try s3(scenario))
    case .form: SmallDestination(try form(scenario))
    case .webDAV: SmallDestination(try webDAV(scenario))
    }
  }

  private func receiver(_ scenario: Scenario, _ addresses: SimulatedAddresses) throws(DestinationError)
    -> any Destination
  {
    var options = ChunkProtocolOptions()
    options.chunkBytesMax = scenario.chunkBytes * 2
    options.wholeFileBytesMax = scenario.wholeFileBytesMax
    return try ChunkProtocolDestination(
      baseURL: SimulatedAddresses.first, alternatives: addresses.alternatives,
      credential: .bearer(SimulatedReceiver.token), options: options)
  }

  private func resumable(_ scenario: Scenario) throws(DestinationError) -> any Destination {
    var options = TusOptions()
    options.wholeFileBytesMax = scenario.wholeFileBytesMax
    let address = try TusAddress("tus+\(SimulatedAddresses.first)/files/", allowPlainHTTP: false)
    guard self == .tus else {
      return try ResumableDestination(address: address, options: options, secondsSince1970: { 0 })
    }
    return try TusDestination(address: address, options: options, secondsSince1970: { 0 })
  }

  private func s3(_ scenario: Scenario) throws(DestinationError) -> any Destination {
    var options = S3Options()
    options.wholeFileBytesMax = scenario.wholeFileBytesMax
    options.style = .path
    let credentials = try S3Credentials(accessKeyID: "key", secretAccessKey: "secret")
    return try S3Destination(
      address: S3Address("s3+\(SimulatedAddresses.first)/bucket", allowPlainHTTP: false), options: options,
      credentials: { credentials }, secondsSince1970: { 0 })
  }

  private func webDAV(_ scenario: Scenario) throws(DestinationError) -> any Destination {
    var options = WebDAVOptions()
    options.bufferBytes = scenario.wholeFileBytesMax
    return try WebDAVDestination(
      address: WebDAVAddress("webdav+\(SimulatedAddresses.first)/dav", allowPlainHTTP: false), credential: nil,
      options: options)
  }

  private func form(_ scenario: Scenario) throws(DestinationError) -> any Destination {
    var options = FormOptions()
    options.fields = [try FormField("path={path}")]
    options.bufferBytes = scenario.wholeFileBytesMax
    return try FormDestination(
      address: FormAddress("form+\(SimulatedAddresses.first)/upload", allowPlainHTTP: false), credential: nil,
      options: options)
  }
}

/// A destination with the bounds of a simulation: a few bytes replace megabytes.
struct SmallDestination: Destination {
  private let whole: any Destination

  init(_ whole: any Destination) { self.whole = whole }

  var abilities: DestinationAbilities { small(whole.abilities) }
  var displayURL: String { whole.displayURL }
  var endpointCount: Int { whole.endpointCount }

  private func small(_ abilities: DestinationAbilities) -> DestinationAbilities {
    var abilities = abilities
    abilities.chunkBytesMin = 1
    // Streams are not simulated: the files of a form are small.
    abilities.streamsWholeFiles = false
    return abilities
  }

  func source(of sending: ChunkSending) -> ChunkSource? { whole.source(of: sending) }
  func request(for step: DestinationStep, at endpoint: EndpointID) -> HTTPRequest {
    whole.request(for: step, at: endpoint)
  }
  func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    whole.outcome(of: step, response: response)
  }
  func followUp(of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID) -> HTTPRequest? {
    whole.followUp(of: step, after: responses, at: endpoint)
  }
  func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    whole.outcome(of: step, responses: responses)
  }
  func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    whole.outcome(of: step, lost: error)
  }

  func outcome(of step: DestinationStep, lost error: TransportError, after responses: [HTTPResponse]) -> StepOutcome {
    whole.outcome(of: step, lost: error, after: responses)
  }
  func publishedName(for path: RelativePath) -> String { whole.publishedName(for: path) }

  func offers(in response: HTTPResponse) -> DestinationOffers {
    var offers = whole.offers(in: response)
    offers.abilities = offers.abilities.map(small)
    return offers
  }
}

import CurlTransport
import Destinations
import FileModel
import Logging
import MountConfiguration
import MountStatus
import TransferModel
import UploadEngine

/// What leads to one destination: its credentials, its connections and its protocol.
struct DestinationParts: Sendable {
  let name: DestinationName
  let transport: CurlTransport
  let renewal: CredentialRenewal?
  private let configuration: MountConfiguration
  private let destination: any Destination
  private let renewedCredential: RenewedCredential?
  private let mask: CredentialMask

  /// Fails where a setting is wrong; nothing is sent yet. `rate` bounds all destinations together.
  init(
    _ name: DestinationName, _ configuration: MountConfiguration, within rate: SendRate?, logger: Logger
  ) throws {
    self.name = name
    self.configuration = configuration
    renewedCredential = try RenewedCredential(configuration, logger: logger)
    transport = try MountSession.transport(configuration, within: rate) { found in
      logger.info("\(found.words)", metadata: ["destination": "\(name)"])
    }
    renewal = try MountSession.credentialRenewal(configuration, logger: logger)
    mask = try MountSession.mask(renewedCredential, renewal, configuration)
    destination = try MountSession.destination(
      configuration, credential: renewedCredential?.first, renewal: renewal,
      whenConditionsFail: { logger.warning("\($0)") })
    sayTransparency(logger)
  }

  /// Whether certificates need timestamps of logs, as things stand.
  var transparency: TransparencyStatus {
    let isEncrypted = ([configuration.destination] + configuration.alternatives).contains(where: \.isEncrypted)
    return TransparencyStatus(
      destination: name.text, policy: configuration.trust.transparency.rawValue,
      state: isEncrypted ? transport.transparency?.code ?? "unavailable" : "no-tls")
  }

  /// Which version of HTTP is spoken, and why.
  var httpVersions: HTTPVersionStatus {
    let policy = configuration.httpVersion
    let state =
      if policy != .automatic { "fixed" } else if transport.hindranceOfHTTP2 != nil { "unsuitable-library" } else {
        "measured"
      }
    return HTTPVersionStatus(
      destination: name.text, policy: policy.rawValue, state: state,
      servers: transport.protocols.map {
        HTTPVersionStatus.Server(
          server: $0.server, finding: $0.standing.finding.rawValue,
          http1BytesPerSecond: $0.standing.http1BytesPerSecond,
          http2BytesPerSecond: $0.standing.http2BytesPerSecond)
      })
  }

  /// Once, at the start.
  private func sayTransparency(_ logger: Logger) {
    guard transparency.state != "no-tls", configuration.trust.transparency != .off else { return }
    let place: Logger.Metadata = ["destination": "\(name)"]
    switch transport.transparency {
    case let standing?:
      if case .listTooOld = standing {
        logger.warning("\(standing.words)", metadata: place)
      } else {
        logger.info("\(standing.words)", metadata: place)
      }
    case nil:
      logger.info(
        "Certificate Transparency is not enforced: the TLS of the installed libcurl is not this system's OpenSSL",
        metadata: place)
    }
  }

  /// The engine that delivers there, over what earlier runs left in its place. `rules` are the mount's, for all destinations.
  func engine(
    rules: FileRules, destinationCount: Int, state: SpoolState, statusTree: StatusTree, logger: Logger
  ) throws(StorageError) -> UploadEngine {
    let isAlone = destinationCount == 1
    var settings = MountSession.engineConfiguration(configuration)
    settings.limits.rules = rules
    settings.limits.rules.asker = isAlone ? nil : name
    settings.enginesOfProcess = destinationCount
    settings.hide = { [mask] in mask.hide(in: $0) }
    var logger = logger
    if !isAlone { logger[metadataKey: "destination"] = "\(name)" }
    let own = destination.transport(over: transport)
    let requests = configuration.settings.transport(
      over: renewedCredential?.transport(over: own, to: destination) ?? own, spool: state.identity
    ) { [logger] in logger.warning("\($0)") }
    return try UploadEngine(
      configuration: settings, destination: destination, transport: MountSession.timed(requests, configuration),
      catalog: try state.catalog(of: name), resumeStore: try state.resumeStore(of: name), ledger: state.ledger,
      room: state.room, statusTree: statusTree, logger: logger)
  }
}

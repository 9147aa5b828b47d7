import TransferModel

/// A server that speaks tus, or the IETF's draft, and how it is used.
public struct TusSettings: Hashable, Sendable {
  /// Where uploads are created.
  public var address: TusAddress
  /// What is spoken with it.
  public var uploadProtocol: UploadProtocol
  /// The known limits of who runs the server.
  public var profile: TusProfile
  /// Part of every upload's metadata.
  public var metadata: [TusMetadataEntry]
  /// What follows when it is not known how a request ended.
  public var unclear: AmbiguousOutcomePolicy
}

extension SettingKey {
  fileprivate static let uploadProtocol = SettingKey("tus-protocol")
  fileprivate static let profile = SettingKey("tus-profile")
  fileprivate static let metadata = SettingKey("tus-metadata")
  fileprivate static let unclear = SettingKey("tus-unclear")
}

extension TusSettings: DestinationScheme {
  static let scheme = "tus+https"
  static let schemesElsewhere = ["tus", "tuss"]
  static let spelling = "A tus server is tus+https://HOST/PATH/."
  static let ownSettings: [SettingKey] = [.uploadProtocol, .profile, .metadata, .unclear]
  static let foreignSettings: [SettingKey] = [.alsoTo]
  static let whyForeign = "is not for tus; see docs/destinations.md"
  static let serverOfOneAddress: String? = "a tus server"

  static func isOne(_ address: String) -> Bool { TusAddress.isOne(address) }

  var settings: DestinationSettings { .tus(self) }
  var endpoint: EndpointURL { address.endpoint }
  var tellsOwners: Bool { false }
  var fixesChunkSize: Bool { profile != .standard }

  init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal) {
    uploadProtocol = try source.choice(of: .uploadProtocol) ?? .tus
    if uploadProtocol == .ietf { try Self.refuseWhatTheDraftLacks(source) }
    metadata = try source.values(of: .metadata, TusMetadataEntry.init)
    self.address = try source.address(address, TusAddress.init)
    profile = try source.choice(of: .profile) ?? .standard
    unclear = try source.choice(of: .unclear) ?? TusOptions().unclear
  }

  private static func refuseWhatTheDraftLacks(_ source: any DestinationSettingSource) throws(SettingRefusal) {
    guard let given = [SettingKey.profile, .metadata].first(where: source.isGiven) else { return }
    throw SettingRefusal(
      "\(source.name(of: given)) is for servers of tus; the IETF draft (\(SettingKey.uploadProtocol.flag) ietf) has "
        + "nothing like it")
  }

  /// As the profile has it, or within what it allows.
  func chunkBytes(
    given: Int?, fileBytesMax: UInt64, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> Int {
    guard let given else { return profile.chunkBytes }
    guard profile.allows(chunkBytes: given) else {
      throw source.refusal(
        of: .chunkSize, "\(SettingKey.profile.flag) \(profile.rawValue) wants \(profile.wish)")
    }
    return given
  }

  func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination {
    let options = options(in: context)
    let tus = try TusDestination(
      address: address, credential: context.credential, options: options, secondsSince1970: context.secondsSince1970)
    let draft = try ResumableDestination(
      address: address, credential: context.credential, options: options, secondsSince1970: context.secondsSince1970)
    return switch uploadProtocol {
    case .tus: tus
    case .ietf: draft
    case .automatic: DiscoveringDestination(tus: tus, draft: draft)
    }
  }

  private func options(in context: DestinationContext) -> TusOptions {
    var options = TusOptions()
    options.metadata = metadata
    options.staysAtOrigin = context.hasTokenCommand
    options.unclear = unclear
    options.parallelChunks = context.parallelRequests
    options.wholeFileBytesMax = context.chunkBytes
    options.fileBytesMax = context.fileBytesMax
    return options
  }
}

public import FileModel
import TransferModel

/// A bucket and how it is used.
public struct S3Settings: Hashable, Sendable {
  /// Where it is.
  public var address: S3Address
  /// The region to sign for; nil for what follows from the address or the environment.
  public var region: String?
  /// The profile whose credentials are used; nil for those of the environment, or the default profile's.
  public var profile: String?
  /// How requests name the bucket; nil for what is usual there.
  public var style: S3Address.Style?
  /// The checksum that the server keeps.
  public var checksum: S3Options.Checksum
  /// What to do when a key is taken.
  public var ifExists: S3Options.IfExists
}

extension SettingKey {
  fileprivate static let region = SettingKey("s3-region")
  fileprivate static let profile = SettingKey("s3-profile")
  fileprivate static let style = SettingKey("s3-style")
  fileprivate static let checksum = SettingKey("s3-checksum")
  static let s3IfExists = SettingKey("s3-if-exists")
}

extension S3Settings: DestinationScheme {
  static let scheme = "s3+https"
  static let schemesElsewhere = ["s3", "s3a", "s3n"]
  static let spelling = "An S3 bucket is s3+https://ENDPOINT/BUCKET."
  static let ownSettings: [SettingKey] = [.region, .profile, .style, .checksum, .s3IfExists]
  static let foreignSettings: [SettingKey] = [.tokenFile, .tokenCommand, .basicAuthFile, .alsoTo]
  static let whyForeign = "is not for S3; see docs/destinations.md"
  static let serverOfOneAddress: String? = "an S3 server"

  static func isOne(_ address: String) -> Bool { S3Address.isOne(address) }

  var settings: DestinationSettings { .s3(self) }
  var endpoint: EndpointURL { address.endpoint }

  init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal) {
    self.address = try source.address(address, S3Address.init)
    style = try Self.style(at: self.address.endpoint, source)
    region = try source.text(of: .region)
    profile = try source.text(of: .profile)
    checksum = try source.choice(of: .checksum) ?? .auto
    ifExists = try Self.policy(source)
  }

  private static func style(
    at endpoint: EndpointURL, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> S3Address.Style? {
    let style: S3Address.Style? = try source.choice(of: .style)
    guard style == .virtualHost, HostName.isAddress(endpoint.host) else { return style }
    throw SettingRefusal(
      "\(source.name(of: .style)): virtual-host puts the bucket before the host's name, and \(endpoint.host) is an "
        + "address; use path")
  }

  /// The older spelling is as good, and says no more.
  private static func policy(_ source: any DestinationSettingSource) throws(SettingRefusal) -> S3Options.IfExists {
    let own: S3Options.IfExists? = try source.choice(of: .s3IfExists)
    guard source.isGiven(.ifExists) else { return own ?? S3Options().ifExists }
    guard !source.isGiven(.s3IfExists) else {
      throw SettingRefusal(
        "\(source.name(of: .s3IfExists)) and \(source.name(of: .ifExists)) say the same thing; give one of them")
    }
    return try source.choice(of: .ifExists) ?? S3Options().ifExists
  }

  /// It is part of these settings, in words of their own.
  func ifExists(_ source: any DestinationSettingSource) throws(SettingRefusal) -> FileSettings.IfExists? { nil }

  /// Parts are as long as the largest file needs them, because a file that is being written may become that.
  func chunkBytes(
    given: Int?, fileBytesMax: UInt64, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> Int {
    var abilities = DestinationAbilities(
      parallelChunks: 1, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 0,
      fileBytesMax: fileBytesMax)
    abilities.chunkBytesMin = S3Limits.partBytesMin
    abilities.chunkCountMax = S3Limits.partCountMax
    let least = abilities.chunkBytesLeast(forFileOf: nil)
    let bytes = given ?? least
    guard bytes >= least, bytes <= UploadConstants.chunkBytesMax else {
      throw SettingRefusal("parts of \(bytes) bytes are not possible with S3: \(Self.advice(onPartsOf: bytes))")
    }
    return bytes
  }

  private static func advice(onPartsOf bytes: Int) -> String {
    guard bytes >= S3Limits.partBytesMin else {
      return "S3 wants parts of \(S3Limits.partBytesMin >> 20) MiB at least; use a larger \(SettingKey.chunkSize.flag)"
    }
    let most = UInt64(S3Limits.partCountMax) * UInt64(min(bytes, UploadConstants.chunkBytesMax))
    return "S3 takes \(S3Limits.partCountMax) parts, so that files of up to \(most) bytes fit; use a larger "
      + "\(SettingKey.chunkSize.flag) (32MiB at most) or a smaller \(SettingKey.maxFileSize.flag)"
  }

  func makeCredentialSource(_ places: any CredentialPlaces) throws(DestinationError) -> (any CredentialSource)? {
    try S3CredentialSource(profile: profile, places: places)
  }

  func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination {
    guard let source = context.credentialSource as? S3CredentialSource else {
      throw DestinationError(.invalidCredential, "There are no S3 credentials.")
    }
    return try S3Destination(
      address: address, options: options(in: context, renewsCredentials: source.renews),
      credentials: { source.credentials }, secondsSince1970: context.secondsSince1970,
      whenExpired: context.whenExpired, whenConditionsFail: context.whenConditionsFail)
  }

  private func options(in context: DestinationContext, renewsCredentials: Bool) -> S3Options {
    var options = S3Options()
    options.region =
      region ?? address.regionOfHost ?? context.variable("AWS_REGION") ?? context.variable("AWS_DEFAULT_REGION")
    options.style = style
    options.checksum = checksum
    options.ifExists = ifExists
    options.renewsCredentials = renewsCredentials
    options.parallelChunks = context.parallelRequests
    options.wholeFileBytesMax = context.chunkBytes
    options.fileBytesMax = context.fileBytesMax
    return options
  }
}

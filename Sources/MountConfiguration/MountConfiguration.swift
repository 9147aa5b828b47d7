public import Destinations
public import FileModel
import UploadEngine

/// The settings of one mount, understood and checked: a value of this type can be used as it is (spec A4).
public struct MountConfiguration: Hashable, Sendable {
  /// Which HTTP versions may be used.
  public enum HTTPVersion: String, CaseIterable, Sendable {
    /// What is fastest as measured: at present HTTP/1.1, with every libcurl.
    case automatic = "auto"
    /// HTTP/1.1, one connection for each stream.
    case http1 = "1.1"
    /// HTTP/2.
    case http2 = "2"
  }

  /// How much is logged; the names are swift-log's.
  public enum LogLevel: String, CaseIterable, Sendable {
    case trace, debug, info, notice, warning, error, critical
  }

  /// Where captures go, as it was given, without its query, which may hold a secret.
  public let address: String
  /// Where captures go; of S3, the server.
  public let destination: EndpointURL
  /// What is to be known of a destination that is S3; nil for a receiver.
  public let s3: S3Settings?
  /// What is to be known of a destination that is a form; nil for others.
  public let form: FormSettings?
  /// What is to be known of a destination that is tus.
  public let tus: TusSettings?
  /// Further addresses of the same receiver.
  public let alternatives: [EndpointURL]
  /// Holds captures until they are delivered; as given, not empty.
  public let spool: String
  /// A file whose first line is the bearer token; nil when the destination asks for none.
  public let tokenFile: String?
  /// A file whose first line is `user:password`; nil when the destination asks for none.
  public let basicAuthFile: String?
  /// A command that prints the bearer token; nil when there is none.
  public let tokenCommand: String?
  /// The way to the servers: a proxy's address, nil for what the environment says.
  public let proxy: String?
  /// Hosts that are reached without it; nil for what the environment says.
  public let proxyExceptions: String?
  /// A file whose first line is the proxy's `user:password`.
  public let proxyAuthFile: String?
  /// PEM file with the certificate that is shown to servers that ask for one.
  public let clientCertificateFile: String?
  /// PEM file with its key; nil when it lies with the certificate.
  public let clientKeyFile: String?
  /// PEM file with the certification authorities to trust instead of the system's.
  public let authorityFile: String?
  /// Further destinations, to which files go by rule; each is set up as if it were the only one.
  public let further: [FurtherDestination]
  /// How each file is treated, by its path.
  public let rules: FileRules
  /// Names that are temporary beside those that always are.
  public let temporaryNames: [Glob]
  /// Bytes of a chunk, within the specification's bounds and a multiple of 4 KiB.
  public let chunkBytes: Int
  /// False when the chunk size was not given, and follows from the speed of the link and the size of each file.
  public let isChunkSizeFixed: Bool
  /// Chunk requests in flight over all files.
  public let parallel: Int
  /// Free space that is kept on the spool's filesystem.
  public let reserveBytes: UInt64
  /// How long a delivered file is kept in the spool; nil: until its space is needed.
  public let keepDelivered: Duration?
  /// A file cannot grow beyond this.
  public let fileBytesMax: UInt64
  /// HTTP versions that may be used.
  public let httpVersion: HTTPVersion
  /// Threads that answer the kernel.
  public let threadCount: Int
  /// Other users may use the mount.
  public let allowOther: Bool
  /// Plain http is accepted beyond loopback.
  public let allowPlainHTTP: Bool
  /// How long stopping may wait for deliveries; nil: until everything is delivered.
  public let drainTimeout: Duration?
  /// How much is logged.
  public let logLevel: LogLevel

  /// Space that is kept free unless configured otherwise.
  public static let reserveBytesDefault = UploadConstants.diskHeadroomBytes + UploadConstants.diskMarginBytes

  /// Each has buffers and connections of its own.
  static let destinationsMax = 4

  /// Addresses of one receiver, the first included.
  static let endpointsMax = 8

  /// Understands and checks every setting; the first that is wrong is the error.
  public init(_ sources: SettingSources) throws(ConfigurationError) {
    let read = SettingReader(sources)
    allowPlainHTTP = try read.boolean(.allowPlainHTTP) ?? false
    fileBytesMax = try read.bytes(.maxFileSize, atLeast: 1) ?? UploadConstants.fileBytesMax
    s3 = try read.s3(allowPlainHTTP: allowPlainHTTP)
    form = try read.form(allowPlainHTTP: allowPlainHTTP)
    tus = try read.tus(allowPlainHTTP: allowPlainHTTP)
    if let address = s3?.address.endpoint ?? form?.address.endpoint ?? tus?.address.endpoint {
      destination = address
    } else {
      destination = try read.destination(allowPlainHTTP: allowPlainHTTP)
    }
    address = String((sources[.to]?.text ?? "").prefix { $0 != "?" })
    alternatives = try read.alternatives(to: destination, allowPlainHTTP: allowPlainHTTP)
    spool = try read.required(.spool, because: "captures need a folder to lie in until they are delivered")
    tokenFile = try read.path(.tokenFile)
    basicAuthFile = try read.path(.basicAuthFile)
    tokenCommand = try read.path(.tokenCommand)
    proxy = try read.proxy()
    proxyExceptions = read.text(.noProxy)
    proxyAuthFile = try read.path(.proxyAuthFile)
    clientCertificateFile = try read.path(.clientCert)
    clientKeyFile = try read.path(.clientKey)
    try read.checkCredentials(areOfReceiver: s3 == nil && form == nil && tus == nil)
    authorityFile = try read.path(.ca)
    further = try read.furtherDestinations()
    rules = try read.rules(destinations: [.main] + further.map(\.name))
    temporaryNames = try read.temporaryNames()
    if let tus {
      chunkBytes = try read.chunkBytes(of: tus)
    } else {
      chunkBytes = try s3 == nil ? read.chunkBytes() : read.partBytes(fileBytesMax: fileBytesMax)
    }
    isChunkSizeFixed = sources[.chunkSize] != nil || tus.map { $0.profile != .standard } ?? false
    parallel =
      try read.integer(.parallel, in: 1...UploadConstants.maxParallelChunkUploads)
      ?? UploadConstants.maxParallelChunkUploads
    reserveBytes = try read.bytes(.reserve) ?? MountConfiguration.reserveBytesDefault
    httpVersion = try read.choice(.http) ?? .automatic
    threadCount = try read.integer(.threads, in: 1...64) ?? 6
    allowOther = try read.boolean(.allowOther) ?? false
    drainTimeout = try read.duration(.drainTimeout)
    keepDelivered = try read.duration(.keep)
    logLevel = try read.choice(.logLevel) ?? .info
  }
}

/// A destination besides that of `--to`.
public struct FurtherDestination: Hashable, Sendable {
  /// What rules call it.
  public var name: DestinationName
  /// The mount's settings with those of this destination in their place.
  public var configuration: MountConfiguration
}

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

/// A form and how it is filled in.
public struct FormSettings: Hashable, Sendable {
  /// Where it is.
  public var address: FormAddress
  /// The field that holds the file.
  public var fileField: String
  /// Further fields.
  public var fields: [FormField]
  /// What follows when it is not known how a request ended.
  public var unclear: UnclearEnd
  /// The largest file that is sent; nil when no limit is known.
  public var fileBytesMax: UInt64?
}

/// A server that speaks tus and how it is used.
public struct TusSettings: Hashable, Sendable {
  /// Where uploads are created.
  public var address: TusAddress
  /// The known limits of who runs the server.
  public var profile: TusProfile
  /// Part of every upload's metadata.
  public var metadata: [TusMetadataEntry]
  /// What follows when it is not known how a request ended.
  public var unclear: UnclearEnd
}

/// Turns the text of one setting into its value; each error names the setting as the user wrote it.
private struct SettingReader {
  private let sources: SettingSources

  init(_ sources: SettingSources) {
    self.sources = sources
  }

  func required(_ setting: Setting, because reason: String) throws(ConfigurationError) -> String {
    guard let given = sources[setting] else {
      throw ConfigurationError(
        "\(setting.flag) is missing: \(reason); give it as a flag, as \(setting.environmentName) "
          + "or as “\(setting.rawValue)” in the configuration file")
    }
    return try nonEmpty(given, setting)
  }

  func path(_ setting: Setting) throws(ConfigurationError) -> String? {
    guard let given = sources[setting] else { return nil }
    return try nonEmpty(given, setting)
  }

  func boolean(_ setting: Setting) throws(ConfigurationError) -> Bool? {
    guard let given = sources[setting] else { return nil }
    switch given.text.lowercased() {
    case "true", "yes", "on", "1": return true
    case "false", "no", "off", "0": return false
    default: throw refusal(given, setting, "use true or false")
    }
  }

  func integer(_ setting: Setting, in range: ClosedRange<Int>) throws(ConfigurationError) -> Int? {
    guard let given = sources[setting] else { return nil }
    guard let number = Int(given.text), range.contains(number) else {
      throw refusal(given, setting, "use a number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  func bytes(_ setting: Setting, atLeast minimum: UInt64 = 0) throws(ConfigurationError) -> UInt64? {
    guard let given = sources[setting] else { return nil }
    guard let bytes = Units.bytes(given.text), bytes >= minimum else {
      throw refusal(given, setting, "use a size such as 500MB, 4MiB or 100GB")
    }
    return bytes
  }

  func choice<Value: RawRepresentable & CaseIterable>(_ setting: Setting) throws(ConfigurationError) -> Value?
  where Value.RawValue == String {
    guard let given = sources[setting] else { return nil }
    guard let value = Value(rawValue: given.text.lowercased()) else {
      let names = Value.allCases.map(\.rawValue)
      let hint = nearestName(to: given.text, among: names).map { "did you mean \($0)? " } ?? ""
      throw refusal(given, setting, hint + "use one of " + names.joined(separator: ", "))
    }
    return value
  }

  func destination(allowPlainHTTP: Bool) throws(ConfigurationError) -> EndpointURL {
    let text = try required(.to, because: "uploadfs must know where captures go")
    return try endpoint(text, of: .to, allowPlainHTTP: allowPlainHTTP)
  }

  /// The bucket and how it is used; nil when the destination is something else.
  func s3(allowPlainHTTP: Bool) throws(ConfigurationError) -> S3Settings? {
    let own: [Setting] = [.s3Region, .s3Profile, .s3Style, .s3Checksum, .s3IfExists]
    let text = try required(.to, because: "uploadfs must know where captures go")
    guard S3Address.isOne(text) else {
      for setting in own {
        guard let given = sources[setting] else { continue }
        throw ConfigurationError("\(given.name(of: setting)) is for a destination of s3+https:// only")
      }
      return nil
    }
    for setting in [Setting.tokenFile, .tokenCommand, .basicAuthFile, .alsoTo] {
      guard let given = sources[setting] else { continue }
      throw ConfigurationError("\(given.name(of: setting)) is not for S3; see docs/destinations.md")
    }
    let address: S3Address
    do {
      address = try S3Address(text, allowPlainHTTP: allowPlainHTTP)
    } catch {
      let advice = error.code == .plainHTTP ? " (\(Setting.allowPlainHTTP.flag))" : ""
      throw ConfigurationError("\(sources[.to]?.name(of: .to) ?? Setting.to.flag): \(error.message)\(advice)")
    }
    return S3Settings(
      address: address, region: try path(.s3Region), profile: try path(.s3Profile), style: try choice(.s3Style),
      checksum: try choice(.s3Checksum) ?? .auto, ifExists: try choice(.s3IfExists) ?? .replace)
  }

  /// The form and how it is filled in; nil when the destination is something else.
  func form(allowPlainHTTP: Bool) throws(ConfigurationError) -> FormSettings? {
    let text = try required(.to, because: "uploadfs must know where captures go")
    guard FormAddress.isOne(text) else {
      for setting in [Setting.formField, .formExtra, .formUnclear, .maxUploadSize] {
        guard let given = sources[setting] else { continue }
        throw ConfigurationError("\(given.name(of: setting)) is for a destination of form+https:// only")
      }
      return nil
    }
    if let given = sources[.alsoTo] {
      throw ConfigurationError("\(given.name(of: .alsoTo)) is not for forms: a form has one address")
    }
    let address: FormAddress
    do {
      address = try FormAddress(text, allowPlainHTTP: allowPlainHTTP)
    } catch {
      let advice = error.code == .plainHTTP ? " (\(Setting.allowPlainHTTP.flag))" : ""
      throw ConfigurationError("\(sources[.to]?.name(of: .to) ?? Setting.to.flag): \(error.message)\(advice)")
    }
    var fields: [FormField] = []
    for line in sources[.formExtra]?.values ?? [] {
      do {
        fields.append(try FormField(line))
      } catch {
        throw ConfigurationError("\(sources[.formExtra]?.name(of: .formExtra) ?? ""): \(error.message)")
      }
    }
    return FormSettings(
      address: address, fileField: try path(.formField) ?? FormOptions().fileField, fields: fields,
      unclear: try choice(.formUnclear) ?? FormOptions().unclear, fileBytesMax: try bytes(.maxUploadSize, atLeast: 1))
  }

  /// There is one proof of who uploads, of a kind that the destination understands.
  func checkCredentials(areOfReceiver: Bool) throws(ConfigurationError) {
    var proofs: [(Setting, SettingText)] = []
    for setting in [Setting.tokenFile, .tokenCommand, .basicAuthFile] {
      if let given = sources[setting] { proofs.append((setting, given)) }
    }
    if proofs.count > 1 {
      throw ConfigurationError(
        "\(proofs[0].1.name(of: proofs[0].0)) and \(proofs[1].1.name(of: proofs[1].0)) exclude each other; use the one "
          + "that the server wants")
    }
    if areOfReceiver, let given = sources[.basicAuthFile] {
      throw ConfigurationError(
        "\(given.name(of: .basicAuthFile)): an uploadfs-receiver knows tokens, and no passwords; use "
          + "\(Setting.tokenFile.flag) or \(Setting.tokenCommand.flag)")
    }
    if let key = sources[.clientKey], sources[.clientCert] == nil {
      throw ConfigurationError("\(key.name(of: .clientKey)) is of no use without \(Setting.clientCert.flag)")
    }
  }

  /// The address of a proxy, with nothing in it that others must not see.
  func proxy() throws(ConfigurationError) -> String? {
    guard let given = sources[.proxy] else { return nil }
    guard !given.text.contains("@") else {
      throw ConfigurationError(
        "\(given.name(of: .proxy)) holds a user name or password, which other users would see; use "
          + Setting.proxyAuthFile.flag)
    }
    let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
    guard schemes.contains(where: { given.text.lowercased().hasPrefix("\($0)://") }) else {
      throw refusal(given, .proxy, "use an address such as http://host:3128 or socks5h://host:1080")
    }
    return given.text
  }

  /// As it is; it may be empty.
  func text(_ setting: Setting) -> String? { sources[setting]?.text }

  /// The server and how it is used; nil when the destination is something else.
  func tus(allowPlainHTTP: Bool) throws(ConfigurationError) -> TusSettings? {
    let text = try required(.to, because: "uploadfs must know where captures go")
    guard TusAddress.isOne(text) else {
      for setting in [Setting.tusProfile, .tusMetadata, .tusUnclear] {
        guard let given = sources[setting] else { continue }
        throw ConfigurationError("\(given.name(of: setting)) is for a destination of tus+https:// only")
      }
      return nil
    }
    if let given = sources[.alsoTo] {
      throw ConfigurationError("\(given.name(of: .alsoTo)) is not for tus; see docs/destinations.md")
    }
    var metadata: [TusMetadataEntry] = []
    for entry in sources[.tusMetadata]?.values ?? [] {
      do {
        metadata.append(try TusMetadataEntry(entry))
      } catch {
        throw ConfigurationError("\(sources[.tusMetadata]?.name(of: .tusMetadata) ?? ""): \(error.message)")
      }
    }
    do {
      return TusSettings(
        address: try TusAddress(text, allowPlainHTTP: allowPlainHTTP),
        profile: try choice(.tusProfile) ?? .standard, metadata: metadata,
        unclear: try choice(.tusUnclear) ?? TusOptions().unclear)
    } catch let error as DestinationError {
      let advice = error.code == .plainHTTP ? " (\(Setting.allowPlainHTTP.flag))" : ""
      throw ConfigurationError("\(sources[.to]?.name(of: .to) ?? Setting.to.flag): \(error.message)\(advice)")
    } catch let error as ConfigurationError {
      throw error
    } catch {
      throw ConfigurationError("\(Setting.to.flag): \(error)")
    }
  }

  /// As the profile has it, or within what it allows.
  func chunkBytes(of tus: TusSettings) throws(ConfigurationError) -> Int {
    guard let given = sources[.chunkSize] else { return tus.profile.chunkBytes }
    let bytes = try chunkBytes()
    guard tus.profile.allows(chunkBytes: bytes) else {
      throw refusal(given, .chunkSize, "\(Setting.tusProfile.flag) \(tus.profile.rawValue) wants \(tus.profile.wish)")
    }
    return bytes
  }

  /// Parts are as long as the largest file needs them, because a file that is being written may become that.
  func partBytes(fileBytesMax: UInt64) throws(ConfigurationError) -> Int {
    var abilities = DestinationAbilities(
      parallelChunks: 1, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 0,
      fileBytesMax: fileBytesMax)
    abilities.chunkBytesMin = S3Limits.partBytesMin
    abilities.chunkCountMax = S3Limits.partCountMax
    let least = abilities.chunkBytesLeast(forFileOf: nil)
    let given = sources[.chunkSize] == nil ? least : try chunkBytes()
    guard given >= least, given <= UploadConstants.chunkBytesMax else {
      let most = UInt64(S3Limits.partCountMax) * UInt64(min(given, UploadConstants.chunkBytesMax))
      let advice =
        given < S3Limits.partBytesMin
        ? "S3 wants parts of \(Units.text(bytes: UInt64(S3Limits.partBytesMin))) at least; use a larger "
          + Setting.chunkSize.flag
        : "S3 takes \(S3Limits.partCountMax) parts, so that files of up to \(most) bytes fit; use a larger "
          + "\(Setting.chunkSize.flag) (32MiB at most) or a smaller \(Setting.maxFileSize.flag)"
      throw ConfigurationError("parts of \(given) bytes are not possible with S3: \(advice)")
    }
    return given
  }

  /// In the order given; the same address twice would count its health twice.
  func alternatives(to first: EndpointURL, allowPlainHTTP: Bool) throws(ConfigurationError) -> [EndpointURL] {
    guard let given = sources[.alsoTo] else { return [] }
    var known = [first]
    for text in try nonEmpty(given, .alsoTo).split(separator: ",") {
      let next = try endpoint(
        String(text.drop { $0 == " " }.prefix { $0 != " " }), of: .alsoTo, allowPlainHTTP: allowPlainHTTP)
      guard !known.contains(next) else {
        throw ConfigurationError("\(given.name(of: .alsoTo)): the address \(next.text) is given twice")
      }
      known.append(next)
    }
    guard known.count <= MountConfiguration.endpointsMax else {
      throw refusal(given, .alsoTo, "use at most \(MountConfiguration.endpointsMax - 1) addresses")
    }
    return Array(known.dropFirst())
  }

  private func endpoint(
    _ text: String, of setting: Setting, allowPlainHTTP: Bool
  ) throws(ConfigurationError) -> EndpointURL {
    let name = sources[setting]?.name(of: setting) ?? setting.flag
    if TusAddress.isOne(text) {
      throw ConfigurationError("\(name): a tus server has one address, which \(Setting.to.flag) takes")
    }
    if S3Address.isOne(text) {
      throw ConfigurationError("\(name): an S3 server has one address, which \(Setting.to.flag) takes")
    }
    do {
      return try EndpointURL(text, allowPlainHTTP: allowPlainHTTP)
    } catch {
      let advice = error.code == .plainHTTP ? " (\(Setting.allowPlainHTTP.flag))" : ""
      throw ConfigurationError("\(name): \(error.message)\(advice)")
    }
  }

  /// Each text is `NAME to=URL key=value …`, with the settings of a destination as keys.
  func furtherDestinations() throws(ConfigurationError) -> [FurtherDestination] {
    guard let given = sources[.destination] else { return [] }
    let place = given.name(of: .destination)
    var further: [FurtherDestination] = []
    for text in given.values {
      let words = FileRule.words(of: text)
      guard let first = words.first, let name = DestinationName(first) else {
        throw ConfigurationError(
          "\(place): “\(words.first ?? text)” is no name; use small letters, digits and hyphens, such as archive to=https://…"
        )
      }
      guard name != .main, !further.contains(where: { $0.name == name }) else {
        throw ConfigurationError(
          "\(place): the name \(name) is taken; \(DestinationName.main) is that of \(Setting.to.flag)")
      }
      do {
        let own = try sources.ofDestination(settings: words.dropFirst(), from: given.origin)
        further.append(FurtherDestination(name: name, configuration: try MountConfiguration(own)))
      } catch {
        throw ConfigurationError("\(place), \(name): \(error.message)")
      }
    }
    guard further.count < MountConfiguration.destinationsMax else {
      throw ConfigurationError(
        "\(place): there can be \(MountConfiguration.destinationsMax) destinations, \(DestinationName.main) included")
    }
    return further
  }

  /// What is ignored comes first, so that a rule can make an exception of it.
  func rules(destinations: [DestinationName]) throws(ConfigurationError) -> FileRules {
    var rules = FileRules()
    // Only patterns keep files here: a mount that uploads nothing is a mistake.
    if sources[.upload]?.text.lowercased() != FileSettings.Upload.never.rawValue {
      rules.defaults.upload = try choice(.upload) ?? rules.defaults.upload
    } else if let given = sources[.upload] {
      throw refusal(given, .upload, "use while-writing or on-close; what is not to be uploaded is named by --ignore")
    }
    rules.defaults.interrupted = try choice(.interrupted) ?? rules.defaults.interrupted
    rules.defaults.whenFull = try choice(.whenFull) ?? rules.defaults.whenFull
    if let given = sources[.nameTemplate] {
      do {
        rules.defaults.name = try NameTemplate(given.text)
      } catch {
        throw ConfigurationError("\(given.name(of: .nameTemplate)): \(error.message)")
      }
    }
    try list(.ignore) { text throws(FileRuleProblem) in
      var rule = FileRule(try Glob(checking: text))
      rule.upload = .never
      rules.rules.append(rule)
    }
    try list(.rule) { text throws(FileRuleProblem) in
      let rule = try FileRule(text)
      if let unknown = rule.destinations?.first(where: { !destinations.contains($0) }) {
        throw FileRuleProblem(
          "no destination is called \(unknown); use one of \(destinations.map(\.text).joined(separator: ", ")), or set one "
            + "up with \(Setting.destination.flag)")
      }
      rules.rules.append(rule)
    }
    return rules
  }

  func temporaryNames() throws(ConfigurationError) -> [Glob] {
    var names: [Glob] = []
    try list(.temporary) { text throws(FileRuleProblem) in names.append(try Glob(checking: text)) }
    return names
  }

  /// Each of several values, with its blanks around it removed.
  private func list(
    _ setting: Setting, _ take: (String) throws(FileRuleProblem) -> Void
  ) throws(ConfigurationError) {
    guard let given = sources[setting] else { return }
    for line in given.values {
      do throws(FileRuleProblem) {
        try take(line)
      } catch {
        throw ConfigurationError("\(given.name(of: setting)): \(error.message)")
      }
    }
  }

  func chunkBytes() throws(ConfigurationError) -> Int {
    guard let bytes = try bytes(.chunkSize), let given = sources[.chunkSize] else {
      return UploadConstants.chunkBytesDefault
    }
    let range = UInt64(UploadConstants.chunkBytesMin)...UInt64(UploadConstants.chunkBytesMax)
    guard range.contains(bytes), bytes.isMultiple(of: 4096) else {
      let (least, most) = (Units.text(bytes: range.lowerBound), Units.text(bytes: range.upperBound))
      throw refusal(given, .chunkSize, "use \(least) to \(most), in steps of 4 KiB")
    }
    return Int(bytes)
  }

  func duration(_ setting: Setting) throws(ConfigurationError) -> Duration? {
    guard let given = sources[setting], given.text.lowercased() != "none" else { return nil }
    guard let duration = Units.duration(given.text) else {
      throw refusal(given, setting, "use a duration such as 90s, 10m or 2h, or none")
    }
    return duration
  }

  private func nonEmpty(_ given: SettingText, _ setting: Setting) throws(ConfigurationError) -> String {
    guard !given.text.isEmpty else { throw ConfigurationError("\(given.name(of: setting)) is empty") }
    return given.text
  }

  private func refusal(_ given: SettingText, _ setting: Setting, _ advice: String) -> ConfigurationError {
    ConfigurationError("\(given.name(of: setting)): “\(given.text)” is not possible; \(advice)")
  }
}

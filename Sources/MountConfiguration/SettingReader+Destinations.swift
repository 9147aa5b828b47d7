import Destinations
import FileModel
import UploadEngine
import Quantities

/// Where captures go, on which way, and as whose.
extension SettingReader {
  func destinationSettings(allowPlainHTTP: Bool) throws(ConfigurationError) -> DestinationSettings {
    // Each says so of settings that are another one's.
    let s3 = try s3(allowPlainHTTP: allowPlainHTTP)
    let form = try form(allowPlainHTTP: allowPlainHTTP)
    let tus = try tus(allowPlainHTTP: allowPlainHTTP)
    if let s3 { return .s3(s3) }
    if let form { return .form(form) }
    if let tus { return .tus(tus) }
    if let webDAV = try webDAV(allowPlainHTTP: allowPlainHTTP) { return .webDAV(webDAV) }
    return .receiver(try destination(allowPlainHTTP: allowPlainHTTP))
  }

  /// The folder; nil when the destination is something else.
  private func webDAV(allowPlainHTTP: Bool) throws(ConfigurationError) -> WebDAVSettings? {
    let text = try required(.to, because: "uploadfs must know where captures go")
    guard WebDAVAddress.isOne(text) else { return nil }
    if let given = sources[.alsoTo] {
      throw ConfigurationError("\(given.name(of: .alsoTo)) is not for WebDAV; see docs/destinations.md")
    }
    do {
      return WebDAVSettings(address: try WebDAVAddress(text, allowPlainHTTP: allowPlainHTTP))
    } catch {
      let advice = error.code == .plainHTTP ? " (\(Setting.allowPlainHTTP.flag))" : ""
      throw ConfigurationError("\(sources[.to]?.name(of: .to) ?? Setting.to.flag): \(error.message)\(advice)")
    }
  }

  private func destination(allowPlainHTTP: Bool) throws(ConfigurationError) -> EndpointURL {
    let text = try required(.to, because: "uploadfs must know where captures go")
    return try endpoint(text, of: .to, allowPlainHTTP: allowPlainHTTP)
  }

  /// The bucket and how it is used; nil when the destination is something else.
  private func s3(allowPlainHTTP: Bool) throws(ConfigurationError) -> S3Settings? {
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
    let style: S3Address.Style? = try choice(.s3Style)
    guard style != .virtualHost || !HostName.isAddress(address.endpoint.host) else {
      throw ConfigurationError(
        "\(sources[.s3Style]?.name(of: .s3Style) ?? Setting.s3Style.flag): virtual-host puts the bucket before the host's name, "
          + "and \(address.endpoint.host) is an address; use path")
    }
    return S3Settings(
      address: address, region: try path(.s3Region), profile: try path(.s3Profile), style: style,
      checksum: try choice(.s3Checksum) ?? .auto, ifExists: try s3IfExists())
  }

  /// At S3 the older spelling is as good, and says no more.
  private func s3IfExists() throws(ConfigurationError) -> S3Options.IfExists {
    let own: S3Options.IfExists? = try choice(.s3IfExists)
    guard let given = sources[.ifExists] else { return own ?? S3Options().ifExists }
    if let other = sources[.s3IfExists] {
      throw ConfigurationError(
        "\(other.name(of: .s3IfExists)) and \(given.name(of: .ifExists)) say the same thing; give one of them")
    }
    return try choice(.ifExists) ?? S3Options().ifExists
  }

  /// What becomes of a file whose name is another capture's: for servers that can tell whose a name is.
  func ifExists(at settings: DestinationSettings) throws(ConfigurationError) -> FileSettings.IfExists? {
    // S3 has its own words for it (``s3IfExists()``).
    if case .s3 = settings { return nil }
    guard let given = sources[.ifExists] else { return nil }
    let policy: FileSettings.IfExists? = try choice(.ifExists)
    guard settings.tellsOwners || policy == .replace else {
      throw ConfigurationError("\(given.name(of: .ifExists)): \(Self.cannotTellOwners)")
    }
    return policy
  }

  static let cannotTellOwners =
    "forms and servers that speak tus cannot tell whose a name is; only replace is possible there"

  /// The form and how it is filled in; nil when the destination is something else.
  private func form(allowPlainHTTP: Bool) throws(ConfigurationError) -> FormSettings? {
    let text = try required(.to, because: "uploadfs must know where captures go")
    guard FormAddress.isOne(text) else {
      for setting in [
        Setting.formField, .formExtra, .formUnclear, .formSuccess, .formDigestField, .formOmit, .maxUploadSize,
      ] {
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
    for line in sources[.formExtra]?.plainValues ?? [] {
      do {
        fields.append(try FormField(line))
      } catch {
        throw ConfigurationError("\(sources[.formExtra]?.name(of: .formExtra) ?? ""): \(error.message)")
      }
    }
    return FormSettings(
      address: address, successText: try path(.formSuccess),
      fileField: try path(.formField) ?? FormOptions().fileField, fields: fields,
      unclear: try choice(.formUnclear) ?? FormOptions().unclear,
      digestField: try path(.formDigestField) ?? FormOptions().digestField,
      omittedMembers: (sources[.formOmit]?.plainValues ?? []).map { $0.lowercased() },
      fileBytesMax: try bytes(.maxUploadSize, atLeast: 1))
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

  /// The server and how it is used; nil when the destination is something else.
  private func tus(allowPlainHTTP: Bool) throws(ConfigurationError) -> TusSettings? {
    let text = try required(.to, because: "uploadfs must know where captures go")
    guard TusAddress.isOne(text) else {
      for setting in [Setting.tusProtocol, .tusProfile, .tusMetadata, .tusUnclear] {
        guard let given = sources[setting] else { continue }
        throw ConfigurationError("\(given.name(of: setting)) is for a destination of tus+https:// only")
      }
      return nil
    }
    if let given = sources[.alsoTo] {
      throw ConfigurationError("\(given.name(of: .alsoTo)) is not for tus; see docs/destinations.md")
    }
    let uploadProtocol = try choice(.tusProtocol) ?? UploadProtocol.tus
    for setting in [Setting.tusProfile, .tusMetadata] where uploadProtocol == .ietf {
      guard let given = sources[setting] else { continue }
      throw ConfigurationError(
        "\(given.name(of: setting)) is for servers of tus; the IETF draft (\(Setting.tusProtocol.flag) ietf) has nothing "
          + "like it")
    }
    var metadata: [TusMetadataEntry] = []
    for entry in sources[.tusMetadata]?.plainValues ?? [] {
      do {
        metadata.append(try TusMetadataEntry(entry))
      } catch {
        throw ConfigurationError("\(sources[.tusMetadata]?.name(of: .tusMetadata) ?? ""): \(error.message)")
      }
    }
    do {
      return TusSettings(
        address: try TusAddress(text, allowPlainHTTP: allowPlainHTTP),
        uploadProtocol: uploadProtocol, profile: try choice(.tusProfile) ?? .standard, metadata: metadata,
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
    if WebDAVAddress.isOne(text) {
      throw ConfigurationError("\(name): a WebDAV server has one address, which \(Setting.to.flag) takes")
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
}

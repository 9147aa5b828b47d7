import Destinations
import FileModel
import Quantities
import TransferModel

/// Where captures go, on which way, and as whose.
extension SettingReader {
  func destinationSettings(_ texts: DestinationTexts) throws(ConfigurationError) -> DestinationSettings {
    let address = try required(.to, because: "uploadfs must know where captures go")
    do {
      return try DestinationSettings(at: address, texts)
    } catch {
      throw ConfigurationError(error.message)
    }
  }

  /// What becomes of a file whose name is another capture's; nil for what is usual there.
  func ifExists(
    at settings: DestinationSettings, _ texts: DestinationTexts
  ) throws(ConfigurationError) -> FileSettings.IfExists? {
    do {
      return try settings.ifExists(texts)
    } catch {
      throw ConfigurationError(error.message)
    }
  }

  /// Bytes of a chunk, as the destination has them.
  func chunkBytes(
    of settings: DestinationSettings, fileBytesMax: UInt64, _ texts: DestinationTexts
  ) throws(ConfigurationError) -> Int {
    let given = try chunkBytes()
    do {
      return try settings.chunkBytes(given: given, fileBytesMax: fileBytesMax, texts)
    } catch {
      throw ConfigurationError(error.message)
    }
  }

  /// Those that were asked for.
  private func chunkBytes() throws(ConfigurationError) -> Int? {
    guard let bytes = try bytes(.chunkSize), let given = sources[.chunkSize] else { return nil }
    let range = UInt64(UploadConstants.chunkBytesMin)...UInt64(UploadConstants.chunkBytesMax)
    guard range.contains(bytes), bytes.isMultiple(of: 4096) else {
      let (least, most) = (Units.text(bytes: range.lowerBound), Units.text(bytes: range.upperBound))
      throw refusal(given, .chunkSize, "use \(least) to \(most), in steps of 4 KiB")
    }
    return Int(bytes)
  }

  /// There is one proof of who uploads, of a kind that the destination understands.
  func checkCredentials(of settings: DestinationSettings) throws(ConfigurationError) {
    var proofs: [(Setting, SettingText)] = []
    for setting in [Setting.tokenFile, .tokenCommand, .basicAuthFile] {
      if let given = sources[setting] { proofs.append((setting, given)) }
    }
    if proofs.count > 1 {
      throw ConfigurationError(
        "\(proofs[0].1.name(of: proofs[0].0)) and \(proofs[1].1.name(of: proofs[1].0)) exclude each other; use the one "
          + "that the server wants")
    }
    if let reason = settings.whyNoPassword, let given = sources[.basicAuthFile] {
      throw ConfigurationError("\(given.name(of: .basicAuthFile)): \(reason)")
    }
    if let key = sources[.clientKey], sources[.clientCert] == nil {
      throw ConfigurationError("\(key.name(of: .clientKey)) is of no use without \(Setting.clientCert.flag)")
    }
  }

  /// What the certificates of these servers must show.
  func serverTrust(of servers: [EndpointURL]) throws(ConfigurationError) -> ServerTrust {
    var trust = ServerTrust()
    if let given = sources[.pin] {
      guard !given.plainValues.isEmpty else { throw ConfigurationError("\(given.name(of: .pin)) is empty") }
      for text in given.plainValues {
        guard let pin = PublicKeyPin(text) else {
          throw ConfigurationError(
            "\(given.name(of: .pin)): “\(text)” is no pin; use sha256// and the SHA-256 of a public key in base64, as "
              + "“uploadfs-mount doctor --json” shows those of a server")
        }
        trust.pins.append(pin)
      }
    }
    trust.transparency = try choice(.transparency) ?? .publicOnly
    trust.logListFile = try path(.transparencyLogs)
    if trust.transparency == .always, trust.logListFile == nil, let given = sources[.transparency] {
      throw ConfigurationError(
        "\(given.name(of: .transparency)): “always” is not possible without a list of logs; give one with "
          + Setting.transparencyLogs.flag)
    }
    try checkCertificates(of: servers, for: trust)
    return trust
  }

  /// Without TLS there is no certificate to look at.
  private func checkCertificates(of servers: [EndpointURL], for trust: ServerTrust) throws(ConfigurationError) {
    guard let plain = servers.first(where: { !$0.isEncrypted }) else { return }
    let given = trust.pins.isEmpty ? nil : sources[.pin]?.name(of: .pin)
    let always = trust.transparency == .always ? sources[.transparency]?.name(of: .transparency) : nil
    guard let name = given ?? always else { return }
    throw ConfigurationError(
      "\(name): \(plain.text) has no certificate that could be looked at; use https, or leave the setting out")
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
}

import Synchronization

/// Where the credentials for S3 come from: the environment, the shared files, or a command that they name. Those of the
/// environment stay; the others may end to be valid, or be replaced in a file.
public final class S3CredentialSource: CredentialSource {
  private let profile: String?
  private let places: any CredentialPlaces
  private let current: Mutex<S3Credentials>
  /// What messages call them.
  public let name = "S3 credentials"
  /// They may be others one day.
  public let renews: Bool
  /// Knows those that there were.
  public let mask = CredentialMask()

  /// Takes the credentials that there are now; a profile that is named wins over the environment's keys.
  init(profile: String?, places: any CredentialPlaces) throws(DestinationError) {
    self.profile = profile
    self.places = places
    let own = profile == nil ? try Self.ofEnvironment(places) : nil
    renews = own == nil
    if let own {
      current = Mutex(own)
    } else {
      // Texts of variables have U+FFFD where they are no UTF-8, and would lead to other files.
      try places.check(variables: Self.variables(profile: profile) { places.variable($0) != nil })
      guard let found = try Self.ofFiles(profile, places, runsCommands: true) else {
        throw DestinationError(
          .invalidCredential,
          "there are no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them to "
            + "~/.aws/credentials (docs/destinations.md)")
      }
      current = Mutex(found)
    }
    mask.learn(credentials)
  }

  /// For the next request.
  var credentials: S3Credentials { current.withLock { $0 } }

  /// When the present ones end to be valid; nil when they do not, or that is not known.
  public var expiresAtSeconds: Int64? { credentials.expiresAtSeconds }

  /// Takes those that the files have now, or that their command prints.
  public func renew(runsCommands: Bool) throws(DestinationError) {
    guard let renewed = try Self.ofFiles(profile, places, runsCommands: runsCommands) else { return }
    mask.learn(renewed)
    current.withLock { $0 = renewed }
  }

  /// The environment's variables that say where the credentials lie in files. Those that nothing is read from are not among them.
  package static func variables(profile: String?, isSet: (_ name: String) -> Bool) -> [String] {
    let files = ["AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"]
    let home = files.allSatisfy(isSet) ? [] : ["HOME"]
    return files + home + (profile == nil ? ["AWS_PROFILE"] : [])
  }

  private static func ofEnvironment(_ places: any CredentialPlaces) throws(DestinationError) -> S3Credentials? {
    guard let id = places.variable("AWS_ACCESS_KEY_ID"), let secret = places.variable("AWS_SECRET_ACCESS_KEY") else {
      return nil
    }
    do {
      return try S3Credentials(
        accessKeyID: id, secretAccessKey: secret, sessionToken: places.variable("AWS_SESSION_TOKEN"))
    } catch {
      throw DestinationError(error.code, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: \(error.message)")
    }
  }

  /// Nil for what only a command would tell that is not to be run, and for files that say nothing.
  private static func ofFiles(
    _ profile: String?, _ places: any CredentialPlaces, runsCommands: Bool
  ) throws(DestinationError) -> S3Credentials? {
    let name = profile ?? places.variable("AWS_PROFILE") ?? "default"
    guard let found = try S3Profile(name, in: places) else {
      guard profile ?? places.variable("AWS_PROFILE") == nil else {
        throw DestinationError(.invalidCredential, "The AWS files know no profile “\(name)”.")
      }
      return nil
    }
    if let known = found.credentials { return known }
    guard runsCommands, let command = found.credentialProcess else { return nil }
    return try S3Credentials(processOutput: try places.output(of: command, called: "credential_process"))
  }
}

extension S3Profile {
  /// Looks a profile up in the files of this machine.
  fileprivate init?(_ name: String, in places: any CredentialPlaces) throws(DestinationError) {
    let folder = (places.variable("HOME") ?? "") + "/.aws"
    let credentials = try places.text(
      ofFile: places.variable("AWS_SHARED_CREDENTIALS_FILE") ?? folder + "/credentials", called: "AWS credentials"
    ) { _ in true }
    // Most hold no secret, and are readable by everyone.
    let configuration = try places.text(
      ofFile: places.variable("AWS_CONFIG_FILE") ?? folder + "/config", called: "AWS credentials"
    ) { $0.contains("aws_secret_access_key") }
    try self.init(name, credentialsFile: credentials, configurationFile: configuration)
  }
}

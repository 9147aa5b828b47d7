import ChunkProtocol
import Lookup
import Quantities

/// What AWS's shared files say of one profile
/// (https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html).
public struct S3Profile: Hashable, Sendable {
  /// Keys that stand there.
  public var credentials: S3Credentials?
  /// A command that prints credentials.
  public var credentialProcess: String?

  /// Looks a profile up: keys in the credentials file win over a command, and it wins over the configuration file. Nil when
  /// neither file knows the profile.
  public init?(_ name: String, credentialsFile: String, configurationFile: String) throws(DestinationError) {
    let own = Self.section(name, in: credentialsFile)
    let common = Self.section(name == "default" ? name : "profile \(name)", in: configurationFile)
    guard own != nil || common != nil else { return nil }
    for section in [own, common].compactMap({ $0 }) {
      if let id = section["aws_access_key_id"], let secret = section["aws_secret_access_key"] {
        credentials = try S3Credentials(
          accessKeyID: id, secretAccessKey: secret, sessionToken: section["aws_session_token"])
        return
      }
      credentialProcess = section["credential_process"]
      if credentialProcess != nil { return }
    }
  }

  /// The settings of a section; nil when there is none of this name. Lines that belong to a setting before them are skipped.
  private static func section(_ name: String, in text: String) -> LookupTable<String, String>? {
    var settings: LookupTable<String, String>?
    var isInside = false
    for line in text.split(whereSeparator: \.isNewline) {
      guard let first = line.first, !first.isWhitespace, first != "#", first != ";" else { continue }
      if first == "[" {
        let title = trimmed(line.dropFirst().prefix { $0 != "]" })
        isInside = title.split(whereSeparator: \.isWhitespace).joined(separator: " ") == name
        if isInside { settings = settings ?? [:] }
      } else if isInside, let mark = line.firstIndex(of: "=") {
        settings?[trimmed(line[..<mark]).lowercased()] = trimmed(line[line.index(after: mark)...])
      }
    }
    return settings
  }

  private static func trimmed(_ text: Substring) -> String {
    let start = text.drop(while: \.isWhitespace)
    return String(start.reversed().drop(while: \.isWhitespace).reversed())
  }
}

extension S3Credentials {
  private struct ProcessAnswer: Decodable {
    var version: Int
    var accessKeyID: String
    var secretAccessKey: String
    var sessionToken: String?
    var expiration: String?

    enum CodingKeys: String, CodingKey {
      case version = "Version"
      case accessKeyID = "AccessKeyId"
      case secretAccessKey = "SecretAccessKey"
      case sessionToken = "SessionToken"
      case expiration = "Expiration"
    }
  }

  /// What a `credential_process` prints
  /// (https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html).
  public init(processOutput bytes: [UInt8]) throws(DestinationError) {
    let answer: ProcessAnswer
    do {
      answer = try WireJSON.decode(ProcessAnswer.self, from: bytes)
    } catch {
      // Only the names of members: the rest may be a secret.
      throw DestinationError(
        .invalidCredential, "The credential_process did not print the JSON that is expected of it (\(error.field)).")
    }
    guard answer.version == 1 else {
      throw DestinationError(.invalidCredential, "The credential_process printed version \(answer.version), not 1.")
    }
    var expiresAtSeconds: Int64?
    if let text = answer.expiration {
      guard let seconds = Timestamp.seconds(text) else {
        throw DestinationError(.invalidCredential, "The credential_process printed an Expiration that is no time.")
      }
      expiresAtSeconds = seconds
    }
    try self.init(
      accessKeyID: answer.accessKeyID, secretAccessKey: answer.secretAccessKey, sessionToken: answer.sessionToken,
      expiresAtSeconds: expiresAtSeconds)
  }
}

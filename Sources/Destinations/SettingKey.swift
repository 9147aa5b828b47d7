/// The name of a setting, as it stands in a configuration file.
public struct SettingKey: Hashable, Sendable {
  /// The name.
  public let name: String

  /// The command line's spelling.
  public var flag: String { "--\(name)" }

  init(_ name: String) {
    self.name = name
  }
}

/// The settings that several kinds of destination look at.
extension SettingKey {
  static let to = SettingKey("to")
  static let alsoTo = SettingKey("also-to")
  static let tokenFile = SettingKey("token-file")
  static let tokenCommand = SettingKey("token-command")
  static let basicAuthFile = SettingKey("basic-auth-file")
  static let allowPlainHTTP = SettingKey("allow-plain-http")
  static let ifExists = SettingKey("if-exists")
  static let chunkSize = SettingKey("chunk-size")
  static let maxFileSize = SettingKey("max-file-size")

  static let common = [
    to, alsoTo, tokenFile, tokenCommand, basicAuthFile, allowPlainHTTP, ifExists, chunkSize, maxFileSize,
  ]
}

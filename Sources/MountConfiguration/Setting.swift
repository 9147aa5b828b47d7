/// Everything that can be set for a mount. The raw value is the key in the configuration file; flag and environment
/// variable follow from it, so that the three can never differ.
public enum Setting: String, CaseIterable, Sendable, Hashable {
  case to
  case alsoTo = "also-to"
  case spool
  case tokenFile = "token-file"
  case basicAuthFile = "basic-auth-file"
  case tokenCommand = "token-command"
  case proxy
  case noProxy = "no-proxy"
  case proxyAuthFile = "proxy-auth-file"
  case clientCert = "client-cert"
  case clientKey = "client-key"
  case s3Region = "s3-region"
  case s3Profile = "s3-profile"
  case s3Style = "s3-style"
  case s3Checksum = "s3-checksum"
  case s3IfExists = "s3-if-exists"
  case ifExists = "if-exists"
  case formSuccess = "form-success"
  case formField = "form-field"
  case formExtra = "form-extra"
  case formUnclear = "form-unclear"
  case formDigestField = "form-digest-field"
  case formOmit = "form-omit"
  case maxUploadSize = "max-upload-size"
  case tusProtocol = "tus-protocol"
  case tusProfile = "tus-profile"
  case tusMetadata = "tus-metadata"
  case tusUnclear = "tus-unclear"
  case ca
  case pin
  case transparency
  case transparencyLogs = "transparency-logs"
  case destination
  case upload
  case interrupted
  case whenFull = "when-full"
  case ignore
  case temporary
  case nameTemplate = "name-template"
  case rule
  case chunkSize = "chunk-size"
  case parallel
  case reserve
  case keep
  case maxFileSize = "max-file-size"
  case compress
  case http
  case congestion
  case threads
  case limitRate = "limit-rate"
  case uploadPriority = "upload-priority"
  case passthrough
  case reading
  case allowOther = "allow-other"
  case allowPlainHTTP = "allow-plain-http"
  case drainTimeout = "drain-timeout"
  case expert
  case logLevel = "log-level"

  /// The command line's spelling.
  public var flag: String { "--\(rawValue)" }

  /// The environment's spelling.
  public var environmentName: String {
    Setting.environmentPrefix + rawValue.uppercased().replacing("-", with: "_")
  }

  /// Its value names a file or folder; a relative one in a configuration file starts at that file's folder.
  public var isPath: Bool {
    switch self {
    case .spool, .tokenFile, .basicAuthFile, .proxyAuthFile, .clientCert, .clientKey, .ca, .transparencyLogs: true
    default: false
    }
  }

  /// Its file holds a secret: where it is not given, a credential of systemd that is called like it takes its place.
  public var isSecret: Bool {
    switch self {
    case .tokenFile, .basicAuthFile, .proxyAuthFile, .clientKey: true
    default: false
    }
  }

  /// It takes several values: a flag that can be given more than once, a list in the configuration file, and anywhere values
  /// with `;` or a line break between them.
  public var isList: Bool {
    switch self {
    case .destination, .ignore, .temporary, .rule, .formExtra, .formOmit, .tusMetadata, .pin, .limitRate, .expert: true
    default: false
    }
  }

  /// Whose business it is where there are several destinations.
  enum Scope {
    /// The mount's: there is one value.
    case mount
    /// Each destination's, and the mount's value holds for those that have none.
    case inherited
    /// Each destination's alone. Secrets are: one server's must not be shown to another one.
    case own
  }

  /// Whose business it is where there are several destinations.
  var scope: Scope {
    switch self {
    case .formSuccess: .own
    case .to, .alsoTo, .tokenFile, .basicAuthFile, .tokenCommand, .clientCert, .clientKey, .s3Region, .s3Profile,
      .s3Style, .s3Checksum, .s3IfExists, .ifExists,
      .formField, .formExtra, .formUnclear, .formDigestField, .formOmit, .maxUploadSize, .tusProtocol, .tusProfile,
      .tusMetadata, .tusUnclear, .pin,
      .chunkSize:
      .own
    case .ca, .transparency, .transparencyLogs, .proxy, .noProxy, .proxyAuthFile, .parallel, .http, .congestion,
      .uploadPriority, .allowPlainHTTP,
      .expert:
      .inherited
    case .destination, .spool, .upload, .interrupted, .whenFull, .ignore, .temporary, .nameTemplate, .rule, .reserve,
      .keep,
      .maxFileSize, .compress,
      .threads, .limitRate, .passthrough, .reading, .allowOther, .drainTimeout, .logLevel:
      .mount
    }
  }

  /// Every variable that starts with this belongs to uploadfs; an unknown one is an error, because it is most likely a
  /// known one misspelt.
  public static let environmentPrefix = "UPLOADFS_"

  /// Names the configuration file itself.
  public static let configurationFileVariable = "UPLOADFS_CONFIG"
}

/// Where a value was given; part of every message about it.
public enum SettingOrigin: Hashable, Sendable {
  case flag
  case environment
  case file(path: String)
}

/// A value as it was written, with its origin.
public struct SettingText: Hashable, Sendable {
  /// The text, not yet understood.
  public var text: String
  /// Where it was given.
  public var origin: SettingOrigin

  /// A text from an origin.
  public init(_ text: String, from origin: SettingOrigin) {
    self.text = text
    self.origin = origin
  }

  /// How the user wrote this setting, for messages: `--spool`, `UPLOADFS_SPOOL`, `spool in mount.yaml`.
  public func name(of setting: Setting) -> String {
    switch origin {
    case .flag: setting.flag
    case .environment: setting.environmentName
    case .file(let path): "“\(setting.rawValue)” in \(path)"
    }
  }

  /// The values of a setting that takes several: what stands between line breaks and `;`. One behind a backslash is part of
  /// its value.
  var values: [String] {
    var values: [[UInt8]] = [[]]
    var isEscaped = false
    for byte in text.utf8 {
      if !isEscaped, byte == UInt8(ascii: ";") || byte == UInt8(ascii: "\n") {
        values.append([])
      } else {
        values[values.count - 1].append(byte)
      }
      isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
    }
    return values.map { String(decoding: Self.trimmed($0), as: UTF8.self) }.filter { !$0.isEmpty }
  }

  /// The same of a setting whose values are no patterns: `\;` is a `;`.
  var plainValues: [String] { values.map(SettingText.withSemicolons) }

  /// With each `\;` as `;`. A backslash behind another one, or before anything else, stays.
  static func withSemicolons(_ text: String) -> String {
    var bytes: [UInt8] = []
    var isEscaped = false
    for byte in text.utf8 {
      if isEscaped, byte == UInt8(ascii: ";") { bytes.removeLast() }
      bytes.append(byte)
      isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Without blanks around it; one behind a backslash stays.
  private static func trimmed(_ bytes: [UInt8]) -> ArraySlice<UInt8> {
    let blanks: Set<UInt8> = [UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r")]
    var rest = bytes.drop(while: blanks.contains)
    while let last = rest.last, blanks.contains(last), rest.dropLast().last != UInt8(ascii: "\\") { rest.removeLast() }
    return rest
  }
}

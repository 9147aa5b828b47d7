public import FileModel
public import TransferModel

/// What captures go to, with what is to be known of it: one case for each kind of destination.
public enum DestinationSettings: Hashable, Sendable {
  case s3(S3Settings)
  case form(FormSettings)
  case tus(TusSettings)
  case webDAV(WebDAVSettings)
  /// Of an address that is none of the others'.
  case receiver(ReceiverSettings)

  /// Those with a scheme of their own, in the order in which they say what is wrong with settings.
  static var schemes: [any DestinationScheme.Type] {
    [S3Settings.self, FormSettings.self, TusSettings.self, WebDAVSettings.self]
  }

  private var kind: any DestinationKind {
    switch self {
    case .s3(let settings): settings
    case .form(let settings): settings
    case .tus(let settings): settings
    case .webDAV(let settings): settings
    case .receiver(let settings): settings
    }
  }

  /// Understands and checks what was set of the destination at an address; the first that is wrong is the error.
  public init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal) {
    var found: DestinationSettings?
    // Each says so of settings that are its own, also behind the one that the address is of.
    for scheme in Self.schemes {
      if let settings = try scheme.read(at: address, source)?.settings { found = settings }
    }
    if let found {
      self = found
    } else {
      self = .receiver(try ReceiverSettings(at: address, source))
    }
  }
}

extension DestinationSettings {
  /// The server.
  public var endpoint: EndpointURL { kind.endpoint }

  /// Further addresses of the same server.
  public var alternatives: [EndpointURL] { kind.alternatives }

  /// It can tell whose a name is.
  public var tellsOwners: Bool { kind.tellsOwners }

  /// How long chunks are follows from it, whatever the link does.
  public var fixesChunkSize: Bool { kind.fixesChunkSize }

  /// There is something to ask for that is not a file, which shows whether the credentials count.
  public var triesCredentials: Bool { kind.triesCredentials }

  /// Why it takes no user names and passwords; nil where it does.
  public var whyNoPassword: String? { type(of: kind).whyNoPassword }

  /// What is said of those that cannot tell whose a name is.
  public static let cannotTellOwners =
    "forms and servers that speak tus cannot tell whose a name is; only replace is possible there"

  /// Every setting that some kind of destination looks at.
  package static var keys: [SettingKey] { SettingKey.common + schemes.flatMap { $0.ownSettings } }

  /// What becomes of a file whose name is another capture's; nil for what is usual there.
  public func ifExists(_ source: any DestinationSettingSource) throws(SettingRefusal) -> FileSettings.IfExists? {
    try kind.ifExists(source)
  }

  /// Bytes of a chunk, of those that were asked for.
  public func chunkBytes(
    given: Int?, fileBytesMax: UInt64, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> Int {
    try kind.chunkBytes(given: given, fileBytesMax: fileBytesMax, source)
  }

  /// Credentials that this kind of destination finds by itself; nil where there are none but those that settings name.
  public func makeCredentialSource(_ places: any CredentialPlaces) throws(DestinationError) -> (any CredentialSource)? {
    try kind.makeCredentialSource(places)
  }

  /// What these settings describe.
  public func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination {
    try kind.makeDestination(in: context)
  }

  /// Adds to requests what is said with each of them of the spool that they come from, and hears what answers say of the server.
  /// `warn` is told what people should know of that.
  public func transport(
    over requests: any HTTPTransport, spool: any SpoolPresence, warn: @escaping @Sendable (_ text: String) -> Void
  ) -> any HTTPTransport {
    kind.transport(over: requests, spool: spool, warn: warn)
  }
}

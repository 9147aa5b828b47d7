public import Destinations

/// What captures go to, with what is to be known of it: one case for each kind of destination.
public enum DestinationSettings: Hashable, Sendable {
  /// An uploadfs-receiver.
  case receiver(EndpointURL)
  case s3(S3Settings)
  case form(FormSettings)
  case tus(TusSettings)
  case webDAV(WebDAVSettings)

  /// The server.
  public var endpoint: EndpointURL {
    switch self {
    case .receiver(let address): address
    case .s3(let settings): settings.address.endpoint
    case .form(let settings): settings.address.endpoint
    case .tus(let settings): settings.address.endpoint
    case .webDAV(let settings): settings.address.endpoint
    }
  }

  /// It can tell whose a name is.
  var tellsOwners: Bool {
    switch self {
    case .receiver, .s3, .webDAV: true
    case .form, .tus: false
    }
  }

  /// It knows tokens, and no passwords.
  var isReceiver: Bool {
    if case .receiver = self { true } else { false }
  }

  /// How long chunks are follows from it, whatever the link does.
  var fixesChunkSize: Bool {
    if case .tus(let settings) = self { settings.profile != .standard } else { false }
  }

  /// There is something to ask for that is not a file, which shows whether the credentials count.
  public var triesCredentials: Bool {
    if case .form = self { false } else { true }
  }
}

/// A folder of a WebDAV server.
public struct WebDAVSettings: Hashable, Sendable {
  /// Where it is.
  public var address: WebDAVAddress
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
  /// What the answer of a success holds; nil where its status and its JSON tell.
  public var successText: String?
  /// The field that holds the file.
  public var fileField: String
  /// Further fields.
  public var fields: [FormField]
  /// What follows when it is not known how a request ended.
  public var unclear: AmbiguousOutcomePolicy
  /// Where a conflict's JSON says the SHA-256 of what the server has.
  public var digestField: String
  /// Members of its answers that are not kept, beside the usual ones.
  public var omittedMembers: [String]
  /// The largest file that is sent; nil when no limit is known.
  public var fileBytesMax: UInt64?
}

/// A server that speaks tus and how it is used.
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

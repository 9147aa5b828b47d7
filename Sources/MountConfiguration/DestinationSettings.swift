public import Destinations

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
  public var unclear: UnclearEnd
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
  public var unclear: UnclearEnd
}

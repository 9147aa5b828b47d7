import FileModel
import TransferModel

/// A kind of destination: what its settings are, and what they make.
protocol DestinationKind: Hashable, Sendable {
  /// Why it takes no user names and passwords; nil where it does.
  static var whyNoPassword: String? { get }

  /// Understands and checks its settings; the first that is wrong is the error.
  init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal)

  /// The server.
  var endpoint: EndpointURL { get }
  /// Further addresses of the same server.
  var alternatives: [EndpointURL] { get }
  /// It can tell whose a name is.
  var tellsOwners: Bool { get }
  /// How long chunks are follows from it, whatever the link does.
  var fixesChunkSize: Bool { get }
  /// There is something to ask for that is not a file, which shows whether the credentials count.
  var triesCredentials: Bool { get }

  /// What becomes of a file whose name is another capture's; nil for what is usual there.
  func ifExists(_ source: any DestinationSettingSource) throws(SettingRefusal) -> FileSettings.IfExists?
  /// Bytes of a chunk, of those that were asked for.
  func chunkBytes(
    given: Int?, fileBytesMax: UInt64, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> Int
  /// Credentials that it finds by itself; nil where there are none but those that settings name.
  func makeCredentialSource(_ places: any CredentialPlaces) throws(DestinationError) -> (any CredentialSource)?
  /// What these settings describe.
  func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination
  /// Adds to requests what is said with each of them of the spool that they come from, and hears what answers say of the server.
  /// `warn` is told what people should know of that.
  func transport(
    over requests: any HTTPTransport, spool: any SpoolPresence, warn: @escaping @Sendable (_ text: String) -> Void
  ) -> any HTTPTransport
}

/// What holds of most kinds.
extension DestinationKind {
  static var whyNoPassword: String? { nil }
  var alternatives: [EndpointURL] { [] }
  var tellsOwners: Bool { true }
  var fixesChunkSize: Bool { false }
  var triesCredentials: Bool { true }

  func ifExists(_ source: any DestinationSettingSource) throws(SettingRefusal) -> FileSettings.IfExists? {
    let policy: FileSettings.IfExists? = try source.choice(of: .ifExists)
    guard let policy, policy != .replace, !tellsOwners else { return policy }
    throw SettingRefusal("\(source.name(of: .ifExists)): \(DestinationSettings.cannotTellOwners)")
  }

  func chunkBytes(
    given: Int?, fileBytesMax: UInt64, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> Int {
    given ?? UploadConstants.chunkBytesDefault
  }

  func makeCredentialSource(_ places: any CredentialPlaces) throws(DestinationError) -> (any CredentialSource)? { nil }

  func transport(
    over requests: any HTTPTransport, spool: any SpoolPresence, warn: @escaping @Sendable (_ text: String) -> Void
  ) -> any HTTPTransport { requests }
}

public import FileModel

/// What a destination is made with beside its own settings.
public struct DestinationContext: Sendable {
  /// The credential that settings name, where they do.
  public var credential: Credential?
  /// The credentials that the kind of destination has found by itself, where it does.
  public var credentialSource: (any CredentialSource)?
  /// A command prints the credential.
  public var hasTokenCommand = false
  /// Requests in flight.
  public var parallelRequests: Int
  /// Bytes of a chunk.
  public var chunkBytes: Int
  /// The largest file.
  public var fileBytesMax: UInt64
  /// What becomes of a file whose name is another capture's; nil for what is usual there.
  public var ifExists: FileSettings.IfExists?
  /// Plain http is accepted beyond loopback.
  public var allowPlainHTTP = false
  /// A variable of the environment.
  public var variable: @Sendable (_ name: String) -> String? = { _ in nil }
  /// The clock, which is read at each request.
  public var secondsSince1970: @Sendable () -> Int64
  /// Is told, from any thread, whenever the server says that the credentials of the source have ended.
  public var whenExpired: @Sendable () -> Void = {}
  /// Is told in words for people where the server turns out not to keep conditions.
  public var whenConditionsFail: @Sendable (_ text: String) -> Void = { _ in }

  /// A context with these limits, and nothing else.
  public init(
    parallelRequests: Int, chunkBytes: Int, fileBytesMax: UInt64, secondsSince1970: @escaping @Sendable () -> Int64
  ) {
    self.parallelRequests = parallelRequests
    self.chunkBytes = chunkBytes
    self.fileBytesMax = fileBytesMax
    self.secondsSince1970 = secondsSince1970
  }
}

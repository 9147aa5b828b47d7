public import FileModel

/// What a session is opened with.
public struct SessionOpening: Hashable, Sendable {
  /// The file's identity.
  public var fileID: FileID
  /// The epoch at which the session was opened; with the file's identity it makes the idempotency key.
  public var revision: UInt64
  /// Distinguishes sessions of one file: a fresh one for each new session, the same for a retry of the same opening.
  public var nonce: [UInt8]
  /// The path at the time of opening; a hint, the commit names the file.
  public var path: RelativePath
  /// The size; nil while the file is still being written.
  public var sizeBytes: UInt64?
  /// Fixed for the session's life.
  public var chunkBytes: Int
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// Whose the name may be; nil where the destination does not compare, or the name is not bound yet.
  public var right: NameRight?
  /// The session is to begin with what the server has published of the file.
  public var takesBase = false

  /// Collects what a session is opened with.
  public init(
    fileID: FileID, revision: UInt64, nonce: [UInt8], path: RelativePath, sizeBytes: UInt64?, chunkBytes: Int,
    modifiedNanoseconds: Int64, mode: UInt32
  ) {
    self.fileID = fileID
    self.revision = revision
    self.nonce = nonce
    self.path = path
    self.sizeBytes = sizeBytes
    self.chunkBytes = chunkBytes
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
  }
}

/// Names a session at the server, with the nonce that its chunk MACs are bound to.
public struct SessionIdentity: Hashable, Sendable {
  /// The server's id of the session.
  public var id: String
  /// The nonce that the client chose when it opened the session (32 bytes).
  public var nonce: [UInt8]

  /// Names a session.
  public init(id: String, nonce: [UInt8]) {
    self.id = id
    self.nonce = nonce
  }

  /// A session that no server has: a question about it is answered as one of a client without rights, or as for what is gone.
  public static let credentialTrial = SessionIdentity(id: "credentials", nonce: [])
}

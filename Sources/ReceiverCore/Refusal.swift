/// Why a request is not granted, as a value; the HTTP side turns it into a status and a problem document.
public struct Refusal: Error, Hashable, Sendable {
  /// What is wrong.
  public enum Kind: Hashable, Sendable {
    /// The request itself makes no sense; the field says where.
    case badRequest(field: String)
    /// No such session for this credential, or no longer.
    case sessionGone
    /// The session was this credential's and ended by itself.
    case sessionExpired
    /// What the session has stored cannot be told any more; it is kept, and will not be published.
    case sessionDamaged
    /// The state does not allow this.
    case conflict
    /// The state does not allow this yet; come back.
    case underWay
    /// The commit lacks these chunks, or holds other sizes for them.
    case incomplete(missing: [UInt32])
    /// Something has the name already and the request said not to replace it.
    case nameExists
    /// The idempotency key was used for something else.
    case idempotencyMismatch
    /// The file or the chunk is too large.
    case tooLarge(limitBytes: UInt64)
    /// The bytes that arrived, or the file that they make, are not the ones that were announced; the field says which
    /// announcement.
    case digestMismatch(field: String)
    case tagMismatch
    /// The name cannot be published.
    case nameRefused
    /// The body arrived too slowly.
    case bodyTimeout
    /// Too much at once; come back.
    case busy
    case tooManySessions
    /// The disk is full.
    case insufficientStorage
    /// The credential's quota is used up.
    case quotaExceeded
    /// The receiver's own trouble.
    case storeFailed
  }

  /// What is wrong, for decisions.
  public var kind: Kind
  /// What is wrong and what to do, for people; no secret.
  public var detail: String

  /// A refusal with its explanation.
  public init(_ kind: Kind, _ detail: String) {
    self.kind = kind
    self.detail = detail
  }

  static let sessionGone = Refusal(.sessionGone, "there is no such upload session; open a new one")
  static let sessionExpired = Refusal(.sessionExpired, "this upload session has expired; open a new one")
  static let sessionQuarantined = Refusal(
    .storeFailed, "the receiver cannot read this upload session; its log says why. It is kept, and read again")
  static let sessionDamaged = Refusal(
    .sessionDamaged,
    "this upload session was damaged at the receiver, whose log says how; it is kept there. Open a new one")
  static let sessionEnded = Refusal(.sessionGone, "the receiver's operator has ended this upload session")
  static let diskSilent = Refusal(
    .storeFailed, "the receiver's disk does not say how much is free; the receiver's log says why")
  static func fileTooLarge(_ limitBytes: UInt64) -> Refusal {
    Refusal(.tooLarge(limitBytes: limitBytes), "files of such chunks are limited to \(limitBytes) bytes")
  }

  static let restarting = Refusal(.underWay, "the session's stored chunks are being checked; come back")
}

/// Why the store could not do what it was asked.
public enum StoreFailure: Error, Hashable, Sendable {
  /// No space, or the disk quota of the receiver's account.
  case full
  /// Something has the name, and it was not to be replaced.
  case nameExists
  /// Whose the name is may not be replaced by this publication; the text says whose it is.
  case nameTaken(String)
  /// The name cannot be reached below the credential's root: a component is no directory, or a symbolic link.
  case nameUnreachable(String)
  /// The folder of the name was taken away after it was found or made.
  case folderGone
  /// A folder of the store is not where the configuration says; the text names it. Nothing was taken, and everything goes on once
  /// it is back.
  case misplaced(String)
  /// The file has its name, and is not known to be on the disk. It is not taken back: the same publication is asked for
  /// again, and only goes on from there. The text names the call.
  case unsynced(String)
  /// What lies in the place of the receiver's own files is something else; nothing was written or published through it.
  case damaged(String)
  /// The session's folder is not there.
  case sessionGone(String)
  /// The process, or the machine, has as many files open as it may; the text names the call. Nothing was taken.
  case tooManyOpen(String)
  /// Anything else; the text names the call.
  case io(String)

  /// What the client is told.
  var refusal: Refusal {
    switch self {
    case .full: Refusal(.insufficientStorage, "the receiver's disk is full")
    case .nameExists: Refusal(.nameExists, "a file of that name exists")
    case .nameTaken(let holder): Refusal(.nameExists, "the name is taken: \(holder)")
    case .nameUnreachable(let reason): Refusal(.nameRefused, reason)
    case .folderGone: Refusal(.storeFailed, "the folder of this name is taken away again and again; its log says where")
    case .misplaced:
      Refusal(
        .busy,
        "a folder of the receiver is not in its place, and nothing can be taken until it is back; its log says which")
    case .tooManyOpen:
      Refusal(.busy, "the receiver has as many files open as it may; its log says more")
    case .damaged: .sessionDamaged
    case .sessionGone: .sessionGone
    case .io, .unsynced: Refusal(.storeFailed, "the receiver could not store this; its log says why")
    }
  }
}

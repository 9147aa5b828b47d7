public import ChunkProtocol
public import Lookup

/// A request's body, complete and verified, in pieces.
public protocol BodyBytes: Sendable {
  /// The number of bytes in all pieces.
  var byteCount: Int { get }
  /// Hands out the pieces in order until the closure throws.
  func forEachPiece(_ body: (UnsafeRawBufferPointer) throws(StoreFailure) -> Void) throws(StoreFailure)
}

extension [UInt8]: BodyBytes {
  /// All of them.
  public var byteCount: Int { count }

  /// One piece.
  public func forEachPiece(_ body: (UnsafeRawBufferPointer) throws(StoreFailure) -> Void) throws(StoreFailure) {
    // withUnsafeBytes cannot forward a typed error, so it is carried out as a value.
    let result: Result<Void, StoreFailure> = withUnsafeBytes { bytes in
      do throws(StoreFailure) { return .success(try body(bytes)) } catch { return .failure(error) }
    }
    try result.get()
  }
}

/// A verified whole file that is to be published.
public struct WholeFilePublication: Sendable {
  /// Its content.
  public var body: any BodyBytes
  /// What is remembered of the request.
  public var record: WholeFileRecord
  /// Name, attributes and receipt.
  public var publication: Publication

  /// Collects what is to be published.
  public init(body: any BodyBytes, record: WholeFileRecord, publication: Publication) {
    self.body = body
    self.record = record
    self.publication = publication
  }
}

/// Something to say of a folder of the store.
public struct FolderNotice: Hashable, Sendable {
  /// What has happened, for the log.
  public var words: String
  /// The operator has to see to it, or to know of it.
  public var isTrouble: Bool

  /// A line for the log.
  public init(words: String, isTrouble: Bool) {
    self.words = words
    self.isTrouble = isTrouble
  }
}

/// Where uploads lie. Every call blocks and may be made from any thread; calls for one session's publication, removal
/// and verification never overlap (the core sees to that), chunk writes of different indices do.
public protocol UploadStore: Sendable {
  /// What is free for ordinary users of the disk.
  func freeBytes() throws(StoreFailure) -> UInt64
  /// Makes a session that outlives the process, and reserves the space of its stated size where that is cheap.
  func create(_ facts: SessionRecord) throws(StoreFailure) -> SpaceReservation

  /// What lies under the name of a session that is being opened, and is a publication of the same file; nil also where that cannot be read.
  func published(before facts: SessionRecord) -> PublishedContent?
  /// Writes a verified chunk, then records it.
  func write(
    _ body: any BodyBytes, to session: SessionID, index: UInt32, offset: UInt64, facts: ChunkChecksums
  ) throws(StoreFailure)
  /// Makes these chunks zeros, as holes where the disk has such, then records them. No bytes are written for what is a hole already.
  func writeZeros(to session: SessionID, _ chunks: IndexRanges, chunkBytes: UInt64) throws(StoreFailure)
  /// Brings to the disk what was written before the call; called about once a second.
  func syncWritten() throws(StoreFailure)
  /// Brings to the disk what was written to a session before the call.
  func secure(_ session: SessionID) throws(StoreFailure)
  /// The recorded chunks whose bytes are really there. `takesBase`: a session that holds nothing may begin with what is published.
  func verify(_ session: SessionID, takesBase: Bool) throws(StoreFailure) -> ChunkTable
  /// Publishes the session's data under the receipt's name: atomic, durable, and recognised after a crash.
  func publish(_ session: SessionID, _ publication: Publication) throws(StoreFailure) -> PublicationResult
  /// Publishes verified whole files likewise; what they need of the disk they share. The names are different ones.
  func publish(_ files: [WholeFilePublication]) -> [Result<PublicationResult, StoreFailure>]
  /// Checks sessions again that were set aside; those of which nothing is left are in none of its lists.
  func recover(_ ids: [SessionID]) throws(StoreFailure) -> RecoveredState
  /// Deletes all of a session but what it has published.
  func remove(_ session: SessionID)
  /// Deletes all that lies in a session's folder, whatever it is: its operator has said so.
  func clear(_ session: SessionID) throws(StoreFailure)
  /// Forgets whole files that were published before.
  func forgetReceipts(before: Milliseconds)
  /// The bytes of all files under the credential's root.
  func usedBytes(of credential: CredentialID) throws(StoreFailure) -> UInt64
  /// Checks whether the store's folders are where the configuration says; what has changed since the last check. Called about once
  /// a second.
  func checkFolders() -> [FolderNotice]
  /// Folders that were not in their place at the last check.
  var foldersAway: Int { get }
  /// Leaves on the disk that a receiver runs. Called about once a second.
  func signOfLife()
  /// Puts on the disk what is remembered of spools, in the place of what was there.
  func save(_ spools: [SpoolRecord]) throws(StoreFailure)
}

extension UploadStore {
  /// No folder is moved.
  public func checkFolders() -> [FolderNotice] { [] }

  /// None.
  public var foldersAway: Int { 0 }

  /// Nothing that it knows of.
  public func published(before facts: SessionRecord) -> PublishedContent? { nil }

  /// Nothing is known of earlier ones.
  public func signOfLife() {}

  /// There is nothing else in it.
  public func clear(_ session: SessionID) { remove(session) }

  /// Nothing is remembered.
  public func save(_ spools: [SpoolRecord]) {}
}

/// A session that is not published.
public struct RecoveredSession: Sendable {
  /// The session.
  public var facts: SessionRecord
  /// The time of its last change.
  public var lastChange: Milliseconds
  /// The chunks on record.
  public var recordedChunks: ChunkTable
  /// Its client may have given up its own copy.
  public var mayHoldOnlyCopy: Bool

  /// A session as it was found.
  public init(
    facts: SessionRecord, lastChange: Milliseconds, recordedChunks: ChunkTable, mayHoldOnlyCopy: Bool
  ) {
    self.facts = facts
    self.lastChange = lastChange
    self.recordedChunks = recordedChunks
    self.mayHoldOnlyCopy = mayHoldOnlyCopy
  }
}

/// A session of which the store cannot say what it holds.
public struct QuarantinedSession: Hashable, Sendable {
  /// Its name.
  public var id: SessionID
  /// What is wrong, for the log.
  public var why: String
  /// It was read, and is not what the receiver has put there. Otherwise the disk may say more the next time.
  public var isDamaged: Bool

  /// A session that is set aside.
  public init(id: SessionID, why: String, isDamaged: Bool) {
    self.id = id
    self.why = why
    self.isDamaged = isDamaged
  }
}

/// What a store found at the start.
public struct RecoveredState: Sendable {
  /// Sessions that are not published, with the time of their last change and the sizes of the chunks on record.
  public var open: [RecoveredSession] = []
  /// Sessions that are published, and whether a client relied upon them before.
  public var published: [(facts: SessionRecord, receipt: PublicationReceipt, mayHoldOnlyCopy: Bool)] = []
  /// Whole files that are published, oldest first.
  public var wholeFiles: [RecoveredWholeFile] = []

  /// What lies among the sessions and is none, and was left alone.
  public var strays: [String] = []
  /// How long no receiver has run since the last one, or the clock says so: nothing ages meanwhile.
  public var pause: Milliseconds = 0
  /// When that one ran last.
  public var lastRun: Milliseconds = .max
  /// What lies in the place of receipts' journals and is none.
  public var strayReceipts: [String] = []
  /// The last starts of spools.
  public var spools: [SpoolRecord] = []
  /// What is wrong with what was remembered of spools.
  public var spoolTrouble: String?
  /// Sessions that could not be read, and why. They are left as they are, and checked again.
  public var quarantined: [QuarantinedSession] = []

  /// Nothing.
  public init() {}
}

extension ReceiverCore {
  /// Takes over what the store found.
  public mutating func recover(_ state: RecoveredState) {
    for session in state.quarantined { quarantined[session.id] = session }
    for session in state.open {
      recover(
        open: session.facts, lastChange: session.lastChange, recordedChunks: session.recordedChunks,
        mayHoldOnlyCopy: session.mayHoldOnlyCopy)
    }
    if state.pause > 0 { earlierRun = (state.lastRun, state.pause) }
    for session in state.published {
      recover(published: session.facts, receipt: session.receipt, mayHoldOnlyCopy: session.mayHoldOnlyCopy)
    }
    for file in state.wholeFiles { recover(file) }
    finished.sort { $0.at < $1.at }
  }
}

import FileModel
import Integrity
import Lookup

/// One upload session at the server, as far as the client knows it. The session outlives revisions: what was sent of an
/// earlier content and is still the same is not sent again.
struct UploadSession: Sendable {
  enum State: Hashable, Sendable {
    /// To be opened.
    case wanted
    /// The opening request is in flight.
    case opening(HTTPRequestID)
    /// Chunks may be sent.
    case open
    /// Taken over from an earlier run or suspected after failures: the server is asked what it holds before anything is
    /// sent.
    case unconfirmed
    /// The query is in flight.
    case querying(HTTPRequestID)
    /// The server has already published the session, with this receipt, in an answer that was lost. Chunks are only
    /// read and hashed, to see whether that was the present content.
    case published(Receipt)
  }

  /// The content that may have been published through it.
  enum Tried: Hashable, Sendable {
    /// No content, as far as is known.
    case nothing
    /// The content of this epoch.
    case content(UInt64)
    /// An earlier content of the file, however alike the present one is.
    case earlier
  }

  var state: State
  var id: String?
  let nonce: [UInt8]
  var chunkBytes: Int
  let epoch: UInt64
  /// The name under which the session publishes, where that is fixed when it is opened.
  var boundPath: RelativePath?
  /// Names under which a request may have published the session.
  var triedPaths: [RelativePath] = []
  /// Of these, names that the file has lost since, if only for a moment. Another file may have been published there
  /// after it, so the server's report of a publication does not show what the name shows.
  private(set) var lostPaths: [RelativePath] = []
  var tried = Tried.nothing
  var openedAtSeconds: Int64
  /// The expiry that the server has reported. A hint for users: only the server decides whether the session exists,
  /// whatever the clock here shows.
  var expiresAtSeconds: Int64?
  /// The owner of the session at the server, as far as that is known.
  var owner: SessionOwner?
  var held = HeldChunks()
  /// Chunks with a request in flight, also one of an earlier content: two requests for one chunk could overtake each other.
  var chunksInFlight: LookupSet<Int> = []
  /// Chunks acknowledged while the server is asked what it holds; its list may be older.
  var acknowledgedSinceAsked: [ChunkOrder] = []
  /// Acknowledgements since the last resume record.
  var acknowledgedSinceRecord = 0
  /// When the latest record was requested after an acknowledgement.
  var recordedAt: MonotonicTime?
  /// A record is due as soon as that is long enough ago.
  var isRecordPlanned = false
  var recordedChunks = 0
  /// The change of ``held`` up to which the resume record on the disk is complete.
  var recordedChange: UInt64?
  /// The server was asked to sync what it holds to its disk.
  var isSecuring = false
  /// Nothing is known here of the session but its location: what the server reports as stored is what was sent.
  var trustsServer = false
  /// Whether that report agrees with the label of its file; nil before they are compared.
  var saysAsLabel: Bool?
  /// Everything that its record names was sent while its file was written for the first time, and never closed.
  var isOfFirstWriting = false
  /// The sync has failed, and is requested again at this time.
  var securingRest: MonotonicTime?
  /// The server has refused the sync: the pause before the next request, and the failure to report.
  var securingPause: Duration?
  var securingFailure: FileStatus.Failure?

  var identity: SessionIdentity? { id.map { SessionIdentity(id: $0, nonce: nonce) } }

  /// Chunk requests may go out.
  var isOpen: Bool { state == .open }

  /// A request goes out that publishes the content of this epoch through the session.
  mutating func tries(_ path: RelativePath, epoch: UInt64) {
    if !triedPaths.contains(path) { triedPaths.append(path) }
    tried = .content(epoch)
  }

  /// The server's report of a publication concerns this content, or nothing yet.
  func belongs(toEpoch epoch: UInt64) -> Bool { tried == .nothing || tried == .content(epoch) }

  /// Its file has these names, and perhaps has lost others.
  mutating func keeps(_ names: [RelativePath]) {
    lostPaths += triedPaths.filter { !names.contains($0) && !lostPaths.contains($0) }
    triedPaths.removeAll { !names.contains($0) }
  }

  /// Whether the server's report agrees with what the label of its file records of parts given up: a restored server
  /// may have an earlier version of a part. A label of an earlier version contradicts nothing.
  func agrees(with released: ReleasedChunks?) -> Bool {
    guard let released, released.chunkBytes == chunkBytes else { return true }
    return released.held { held.sha256(of: $0)?.bytes } ?? true
  }

  /// The server has reported that the session is not published.
  mutating func isUnpublished() {
    lostPaths = []
    if tried == .earlier { tried = .nothing }
  }
}

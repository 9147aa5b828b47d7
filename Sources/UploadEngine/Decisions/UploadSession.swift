import FileModel
import Lookup

/// One upload session at the server, as far as the client knows it. It outlives revisions: what was sent of an earlier
/// content and is still the same need not be sent again.
struct UploadSession: Sendable {
  enum State: Hashable, Sendable {
    /// To be opened.
    case wanted
    /// The request is under way.
    case opening(HTTPRequestID)
    /// Chunks may be sent.
    case open
    /// Taken over from an earlier run or suspected after failures: ask what the server holds before sending.
    case unconfirmed
    /// The question is under way.
    case querying(HTTPRequestID)
    /// The server has already published it, with this receipt, in an answer that never reached us. Chunks are only read
    /// and hashed, to see whether that was the present content.
    case published(Receipt)
  }

  /// The content that may have been published through it.
  enum Tried: Hashable, Sendable {
    /// None that is known of.
    case nothing
    /// The one of this epoch.
    case content(UInt64)
    /// One that the file has had before, however alike the present one looks.
    case earlier
  }

  var state: State
  var id: String?
  let nonce: [UInt8]
  var chunkBytes: Int
  let epoch: UInt64
  /// The name under which it publishes, where that is fixed when it is opened.
  var boundPath: RelativePath?
  /// Names under which a request may have published it.
  var triedPaths: [RelativePath] = []
  /// Of these, what its file was not called for a moment since. Another file may have been published there after it, so what the
  /// server says of its publication does not say what the name shows.
  private(set) var lostPaths: [RelativePath] = []
  var tried = Tried.nothing
  var openedAtSeconds: Int64
  /// What the server has said of its end. A hint for people: whether it lives is the server's to say, whatever the clock here
  /// shows.
  var expiresAtSeconds: Int64?
  /// Whose it is at the server, as far as that is known.
  var owner: SessionOwner?
  var held = HeldChunks()
  /// Chunks with a request under way, also one of an earlier content: two requests for one chunk could overtake each other.
  var chunksInFlight: LookupSet<Int> = []
  /// Acknowledged while the server is asked what it holds, which may have been before that.
  var acknowledgedSinceAsked: [ChunkOrder] = []
  /// Acknowledgements since the last resume record.
  var acknowledgedSinceRecord = 0
  /// When the last one was asked for after an acknowledgement.
  var recordedAt: MonotonicTime?
  /// One is due as soon as it is so long ago.
  var isRecordPlanned = false
  var recordedChunks = 0
  /// The change of ``held`` up to which the resume record on the disk goes.
  var recordedChange: UInt64?
  /// The server was asked to bring what it holds to its disk.
  var isSecuring = false
  /// Nothing of it is known here but where it is: what the server says that it holds is what was sent.
  var trustsServer = false
  /// Whether that agrees with the label of its file; nil before they are compared.
  var saysAsLabel: Bool?
  /// Everything that its record names was sent while its file was written for the first time, and never closed.
  var isOfFirstWriting = false
  /// It could not, and is asked again at this time.
  var securingRest: MonotonicTime?
  /// It has refused; after which pause it is asked again, and what is said of it.
  var securingPause: Duration?
  var securingFailure: FileStatus.Failure?

  var identity: SessionIdentity? { id.map { SessionIdentity(id: $0, nonce: nonce) } }

  /// Chunk requests may go out.
  var isOpen: Bool { state == .open }

  /// A request goes out that publishes the content of this epoch through it.
  mutating func tries(_ path: RelativePath, epoch: UInt64) {
    if !triedPaths.contains(path) { triedPaths.append(path) }
    tried = .content(epoch)
  }

  /// What the server may say of its publication is of this content, or of nothing yet.
  func belongs(toEpoch epoch: UInt64) -> Bool { tried == .nothing || tried == .content(epoch) }

  /// Its file has these names, and perhaps no longer others.
  mutating func keeps(_ names: [RelativePath]) {
    lostPaths += triedPaths.filter { !names.contains($0) && !lostPaths.contains($0) }
    triedPaths.removeAll { !names.contains($0) }
  }

  /// What the server says that it holds is what the label of its file knows of what was given up: one that was restored may have what a
  /// part was before it was written again. A label of an earlier version contradicts nothing.
  func agrees(with released: ReleasedChunks?) -> Bool {
    guard let released, released.chunkBytes == chunkBytes else { return true }
    return released.held { held.sha256(of: $0) } ?? true
  }

  /// The server says that it has not been published.
  mutating func isUnpublished() {
    lostPaths = []
    if tried == .earlier { tried = .nothing }
  }
}

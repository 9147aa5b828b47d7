import FileModel
import Integrity
import Lookup
import TransferModel

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

  private(set) var state: State
  private(set) var id: String?
  let nonce: [UInt8]
  private(set) var chunkBytes: Int
  let epoch: UInt64
  /// The name under which the session publishes, where that is fixed when it is opened.
  private(set) var boundPath: RelativePath?
  /// Names under which a request may have published the session.
  private(set) var triedPaths: [RelativePath] = []
  /// Of these, names that the file has lost since, if only for a moment. Another file may have been published there
  /// after it, so the server's report of a publication does not show what the name shows.
  private(set) var lostPaths: [RelativePath] = []
  private(set) var tried = Tried.nothing
  private(set) var openedAtSeconds: Int64
  /// The expiry that the server has reported. A hint for users: only the server decides whether the session exists,
  /// whatever the clock here shows.
  private(set) var expiresAtSeconds: Int64?
  /// The owner of the session at the server, as far as that is known.
  private(set) var owner: SessionOwner?
  private(set) var held = HeldChunks()
  /// Chunks with a request in flight, also one of an earlier content: two requests for one chunk could overtake each other.
  private(set) var chunksInFlight: LookupSet<Int> = []
  /// Chunks acknowledged while the server is asked what it holds; its list may be older.
  private(set) var acknowledgedSinceAsked: [ChunkOrder] = []
  /// Acknowledgements since the last resume record.
  private(set) var acknowledgedSinceRecord = 0
  /// When the latest record was requested after an acknowledgement.
  private(set) var recordedAt: MonotonicTime?
  /// A record is due as soon as that is long enough ago.
  private(set) var isRecordPlanned = false
  private(set) var recordedChunks = 0
  /// The change of ``held`` up to which the resume record on the disk is complete.
  private(set) var recordedChange: UInt64?
  /// The server was asked to sync what it holds to its disk.
  private(set) var isSecuring = false
  /// Nothing is known here of the session but its location: what the server reports as stored is what was sent.
  private(set) var trustsServer = false
  /// Whether that report agrees with the label of its file; nil before they are compared.
  private(set) var saysAsLabel: Bool?
  /// Everything that its record names was sent while its file was written for the first time, and never closed.
  private(set) var isOfFirstWriting = false
  /// The sync has failed, and is requested again at this time.
  private(set) var securingRest: MonotonicTime?
  /// The server has refused the sync: the pause before the next request, and the failure to report.
  private(set) var securingPause: Duration?
  private(set) var securingFailure: FileStatus.Failure?

  var identity: SessionIdentity? { id.map { SessionIdentity(id: $0, nonce: nonce) } }

  /// Chunk requests may go out.
  var isOpen: Bool { state == .open }

  // MARK: - The session at the server

  /// The opening request goes out; where the server binds names, with the one to be published.
  mutating func opening(_ request: HTTPRequestID) { state = .opening(request) }

  /// The session publishes under this name.
  mutating func bind(to path: RelativePath) { boundPath = path }

  /// The session publishes under whatever name its commit has.
  mutating func unbind() { boundPath = nil }

  /// The server has opened it; one with a base has contents that the server is asked for.
  mutating func opened(as id: String, isBased: Bool, atSeconds: Int64, expiresAt: Int64?) {
    state = isBased ? .unconfirmed : .open
    self.id = id
    openedAtSeconds = atSeconds
    expiresAtSeconds = expiresAt
  }

  /// The chunks are as long as this.
  mutating func cut(into chunkBytes: Int) { self.chunkBytes = chunkBytes }

  /// The query goes out: what is acknowledged from now on may be missing in its answer.
  mutating func query(by request: HTTPRequestID) {
    acknowledgedSinceAsked = []
    state = .querying(request)
  }

  /// Before anything more is sent the server is asked what it holds.
  mutating func doubt() { state = .unconfirmed }

  /// The server has said what it holds, or that it holds the same.
  mutating func confirm() { state = .open }

  /// The server holds this, for this owner; nothing is known yet of the label of its file.
  mutating func confirm(
    holding digests: LookupTable<Int, Digest32>, tokens: LookupTable<Int, String>, owner: SessionOwner?
  ) {
    self.owner = owner
    held.replace(with: digests, tokens: tokens)
    saysAsLabel = nil
    state = .open
  }

  /// The server has already published it.
  mutating func wasPublished(as receipt: Receipt) { state = .published(receipt) }

  /// The server says how long it keeps the session.
  mutating func expires(atSeconds seconds: Int64) { expiresAtSeconds = seconds }

  /// Whether the server's report agrees with the label of its file.
  mutating func compared(withLabel isAsLabel: Bool) { saysAsLabel = isAsLabel }

  // MARK: - Chunks

  mutating func chunkSent(_ index: Int) { chunksInFlight.insert(index) }

  mutating func chunkEnded(_ index: Int) { chunksInFlight.remove(index) }

  mutating func chunksEnded(_ indices: [Int]) { chunksInFlight.subtract(indices) }

  /// A chunk was acknowledged while the server is asked.
  mutating func acknowledgedWhileAsked(_ chunk: ChunkOrder) { acknowledgedSinceAsked.append(chunk) }

  /// So much was acknowledged that no record has.
  mutating func acknowledgedUnrecorded(_ count: Int = 1) { acknowledgedSinceRecord += count }

  // MARK: - Records

  mutating func planRecord() { isRecordPlanned = true }

  mutating func endPlannedRecord() { isRecordPlanned = false }

  /// A record is requested after an acknowledgement.
  mutating func requestRecord(at now: MonotonicTime) { recordedAt = now }

  /// What was acknowledged is in the record that is being written.
  mutating func recordBegan() { acknowledgedSinceRecord = 0 }

  /// The record is on the disk as of this change.
  mutating func recorded(upTo change: UInt64) { recordedChange = change }

  /// So many of the chunks are in the record.
  mutating func recorded(chunks count: Int) { recordedChunks = count }

  // MARK: - Syncs at the server

  mutating func secure() { isSecuring = true }

  mutating func securingEnded() { isSecuring = false }

  /// The server keeps what it holds, after it had refused to.
  mutating func secured() { (securingFailure, securingPause) = (nil, nil) }

  /// The sync is requested again at this time.
  mutating func restSecuring(until time: MonotonicTime) { securingRest = time }

  /// The server refuses the sync.
  mutating func refuseSecuring(for pause: Duration, until time: MonotonicTime) {
    securingPause = pause
    securingRest = time
  }

  mutating func report(securingFailure failure: FileStatus.Failure) { securingFailure = failure }

  // MARK: - What it may have published

  /// An earlier run may have published it under any of these names.
  mutating func mayHaveTried(_ names: [RelativePath]) { triedPaths = names }

  /// An earlier run may have published the present content through it, or an earlier one.
  mutating func mayHavePublished(_ content: Tried) { tried = content }

  /// The record names what was sent of a first writing, or not.
  mutating func recall(isOfFirstWriting: Bool) { self.isOfFirstWriting = isOfFirstWriting }

  /// A record that was begun from the pointer alone may omit earlier acknowledgements.
  mutating func recall(trustsServer: Bool) { self.trustsServer = trustsServer }

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

extension UploadSession {
  /// A session that only the spool's file, or the catalog, still names.
  init(_ pointer: SessionPointer, at now: ClockReading) {
    self.init(
      state: .unconfirmed, id: pointer.sessionID, nonce: pointer.nonce, chunkBytes: pointer.chunkBytes, epoch: 0,
      openedAtSeconds: now.wallMilliseconds / 1000,
      owner: pointer.address.isEmpty
        ? nil : SessionOwner(address: pointer.address, credentialMark: pointer.credentialMark))
    trustsServer = true
  }

  /// A session of an earlier run: its chunks count only once the server has confirmed them and the spool's bytes have
  /// the same digests.
  init(_ record: ResumeRecord, bindsName: Bool) {
    self.init(
      state: .unconfirmed, id: record.sessionID, nonce: record.nonce, chunkBytes: record.chunkBytes, epoch: 0,
      openedAtSeconds: record.openedAtSeconds, expiresAtSeconds: record.expiresAtSeconds,
      owner: record.owner, held: HeldChunks(acknowledged: record.acknowledged))
    recordedChunks = record.acknowledged.count
    boundPath = bindsName ? record.path : nil
  }
}

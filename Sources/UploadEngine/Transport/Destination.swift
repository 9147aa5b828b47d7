public import FileModel

/// Where files go. Sans-I/O: it turns a step into a request value and a response value into an outcome, so that every
/// rule of a protocol is a plain unit test and a simulation runs the real code (design: Destinations).
public protocol Destination: Sendable {
  /// What the destination can do. The engine decides from these, never from the destination's name (spec G5).
  var abilities: DestinationAbilities { get }
  /// The address for people and logs; holds no credentials.
  var displayURL: String { get }
  /// One of its addresses, likewise.
  func displayURL(of endpoint: EndpointID) -> String
  /// How many addresses lead to it; at least 1. Whatever was begun over one can go on over another.
  var endpointCount: Int { get }
  /// The request that carries out a step over one of its addresses.
  func request(for step: UploadStep, at endpoint: EndpointID) -> HTTPRequest
  /// What a response to a step means.
  func outcome(of step: UploadStep, response: HTTPResponse) -> StepOutcome
  /// A further request that a step needs before it can be said what became of it: the next page of a list, or a look at
  /// what is published. Nil when the responses so far, oldest first and at least one, are enough.
  func followUp(of step: UploadStep, after responses: [HTTPResponse], at endpoint: EndpointID) -> HTTPRequest?
  /// What the response to a step means, with those to its follow-ups.
  func outcome(of step: UploadStep, responses: [HTTPResponse]) -> StepOutcome
  /// What it means for a step that there was no answer.
  func outcome(of step: UploadStep, lost error: TransportError) -> StepOutcome
  /// What a response says about the server, whatever the step was.
  func offers(in response: HTTPResponse) -> DestinationOffers
  /// The name under which a file's path will be published; tells people when it differs from the path.
  func publishedName(for path: RelativePath) -> String
  /// The request that takes away again what was published; nil where nobody can. Captures are never taken away: only a test
  /// of the destination cleans up behind itself.
  func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest?
  /// The request that asks what the server takes; nil where it cannot be asked.
  func limitsRequest(at endpoint: EndpointID) -> HTTPRequest?
  /// What the server takes, by its answer to that; nil when it is not understood.
  func limits(in response: HTTPResponse) -> DestinationLimits?
  /// The request that lists the sessions that are open at the place where files go, whoever began them, from the first on or
  /// behind ``SessionPage/next``; nil where nobody lists them.
  func sessionListRequest(after next: String?, at endpoint: EndpointID) -> HTTPRequest?
  /// What a session is called in that list.
  func listedID(ofSession id: String) -> String
  /// A page of that list; nil when the answer is none.
  func sessionPage(in response: HTTPResponse) -> SessionPage?
}

extension Destination {
  /// One address.
  public var endpointCount: Int { 1 }

  /// Every step is one request.
  public func followUp(
    of step: UploadStep, after responses: [HTTPResponse], at endpoint: EndpointID
  ) -> HTTPRequest? { nil }

  /// Only the step's own response counts.
  public func outcome(of step: UploadStep, responses: [HTTPResponse]) -> StepOutcome {
    guard let first = responses.first else {
      return .refused(StepFailure(.unexpectedAnswer, "There is no answer."))
    }
    return outcome(of: step, response: first)
  }

  /// It can be tried again.
  public func outcome(of step: UploadStep, lost error: TransportError) -> StepOutcome {
    .refused(StepFailure(.transport(error.kind), error.message))
  }

  /// Nothing beyond the abilities.
  public func offers(in response: HTTPResponse) -> DestinationOffers { DestinationOffers() }

  /// The only address.
  public func displayURL(of endpoint: EndpointID) -> String { displayURL }

  /// What is published stays.
  public func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest? {
    nil
  }

  /// There is nobody to ask.
  public func limitsRequest(at endpoint: EndpointID) -> HTTPRequest? { nil }

  /// Nobody was asked.
  public func limits(in response: HTTPResponse) -> DestinationLimits? { nil }

  /// There is no such list.
  public func sessionListRequest(after next: String?, at endpoint: EndpointID) -> HTTPRequest? { nil }

  /// As everywhere else.
  public func listedID(ofSession id: String) -> String { id }

  /// Nobody was asked.
  public func sessionPage(in response: HTTPResponse) -> SessionPage? { nil }
}

/// A page of the sessions that are open at a destination, whoever began them.
public struct SessionPage: Hashable, Sendable {
  /// One of them.
  public struct Session: Hashable, Sendable {
    /// What ``Destination/listedID(ofSession:)`` makes of ``SessionIdentity/id``.
    public var id: String
    /// When it began by the server's clock, seconds since 1970; nil when the server does not say.
    public var begunAtSeconds: Int64?

    /// A session in a list.
    public init(id: String, begunAtSeconds: Int64?) {
      self.id = id
      self.begunAtSeconds = begunAtSeconds
    }
  }

  /// The sessions of this page.
  public var sessions: [Session]
  /// Where the next page begins; nil after the last.
  public var next: String?

  /// A page of a list.
  public init(sessions: [Session], next: String? = nil) {
    self.sessions = sessions
    self.next = next
  }
}

/// What a server says that it takes, when it is asked.
public struct DestinationLimits: Hashable, Sendable {
  /// The largest file; nil when it does not say.
  public var fileBytesMax: UInt64?
  /// The shortest and the longest chunk; nil when it does not say.
  public var chunkBytes: ClosedRange<Int>?

  /// What a server says.
  public init(fileBytesMax: UInt64? = nil, chunkBytes: ClosedRange<Int>? = nil) {
    self.fileBytesMax = fileBytesMax
    self.chunkBytes = chunkBytes
  }
}

/// What a destination can do, as data.
public struct DestinationAbilities: Hashable, Sendable {
  /// Chunk requests that may be in flight for one upload.
  public var parallelChunks: Int
  /// A chunk may be sent again with other bytes until the commit.
  public var replaceableChunks: Bool
  /// A session can be opened before the size is known.
  public var unknownLength: Bool
  /// A file of at most this size goes in one request; 0 when there is no such request.
  public var wholeFileBytesMax: Int
  /// What must not be published twice: a file of which it is not known whether it was published waits until somebody has
  /// looked, also after a crash.
  public var publishesOnce = PublishedOnce.nothing
  /// A larger one does as well: it is read while it is sent.
  public var streamsWholeFiles = false
  /// The largest file that is accepted; nil when unknown.
  public var fileBytesMax: UInt64?
  /// A commit may be sent while chunks are on their way: the server waits for them.
  public var commitWaitsForChunks: Bool
  /// A session publishes under the name that it was opened with; another name needs another session.
  public var bindsNameAtOpening = false
  /// Which chunks are taken only one after another.
  public var rows = ChunkRows.none
  /// A commit names every chunk by its digest and the token with which it was acknowledged.
  public var commitListsChunks = false
  /// A session without a chunk cannot be published: an empty file goes as a whole file.
  public var needsChunks = false
  /// Every chunk but the last is at least so long.
  public var chunkBytesMin = 1
  /// A session has no more chunks than this.
  public var chunkCountMax = Int.max
  /// A session that nobody ends may stay at the server for ever, and takes space there.
  public var sessionsStay = false
  /// The server can be asked to bring chunks to its disk before the commit.
  public var durableChunks: Bool

  /// States the abilities.
  public init(
    parallelChunks: Int, replaceableChunks: Bool, unknownLength: Bool, wholeFileBytesMax: Int, fileBytesMax: UInt64?,
    commitWaitsForChunks: Bool = false, durableChunks: Bool = false
  ) {
    self.durableChunks = durableChunks
    self.commitWaitsForChunks = commitWaitsForChunks
    self.parallelChunks = parallelChunks
    self.replaceableChunks = replaceableChunks
    self.unknownLength = unknownLength
    self.wholeFileBytesMax = wholeFileBytesMax
    self.fileBytesMax = fileBytesMax
  }
}

extension DestinationAbilities {
  /// Files can be sent while they are written.
  public var sendsWhileWriting: Bool { (replaceableChunks || rows == .one) && unknownLength }

  /// What was acknowledged of a large file outlives a broken connection and the death of either side.
  public var resumes: Bool { !streamsWholeFiles }

  /// The shortest chunk with which a file of this size fits into one session; nil is a size that is not known yet.
  public func chunkBytesLeast(forFileOf sizeBytes: UInt64?) -> Int {
    guard let sizeBytes = sizeBytes ?? fileBytesMax, chunkCountMax < .max else { return chunkBytesMin }
    let count = UInt64(max(1, chunkCountMax))
    let least = Int(clamping: sizeBytes / count + (sizeBytes.isMultiple(of: count) ? 0 : 1))
    let step = 64 << 10
    guard least < .max - step else { return least }
    return max(chunkBytesMin, (least + step - 1) / step * step)
  }
}

/// Requests of which a second one may make another file at the server.
public enum PublishedOnce: Hashable, Sendable {
  /// None, or nobody minds.
  case nothing
  /// Those that carry the whole file; what a commit has published can be asked for.
  case wholeFiles
  /// Commits as well.
  case everything
}

/// One thing to ask of a destination.
public enum UploadStep: Sendable {
  /// Open a connection, ask for nothing (spec F2, stages 1 and 3).
  case prewarm
  /// Open an upload session.
  case openSession(SessionOpening)
  /// Ask which chunks the server holds, with their digests (spec D6).
  case querySession(SessionIdentity)
  /// Ask which chunks the server holds on its disk, where they outlive a power cut; it may take a while.
  case secureSession(SessionIdentity)
  /// Send one chunk.
  case sendChunk(ChunkSending)
  /// Publish the file.
  case commit(SessionCommit)
  /// Give the session up; what was sent is discarded.
  case abort(SessionIdentity)
  /// Send and publish a small file in one request.
  case sendWholeFile(WholeFileSending)
  /// Send and publish several small files in one request; only for a server that has offered it.
  case sendBundle([WholeFileSending])
}

/// What a server takes, as its answers say beside what they answer.
public struct DestinationOffers: Hashable, Sendable {
  /// How bodies may be coded; nil when the answer does not say.
  public var encodings: Set<ChunkEncoding>?
  /// How many small files one request may carry; nil when the answer does not say.
  public var filesPerRequest: Int?
  /// What the destination can do, now that its server has said so; nil when the answer does not say. Until then a
  /// destination claims no more than any of its servers can do.
  public var abilities: DestinationAbilities?

  /// What an answer says.
  public init(
    encodings: Set<ChunkEncoding>? = nil, filesPerRequest: Int? = nil, abilities: DestinationAbilities? = nil
  ) {
    self.abilities = abilities
    self.encodings = encodings
    self.filesPerRequest = filesPerRequest
  }
}

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

/// Names a session at the server, with the nonce that its chunk tags are bound to.
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
}

/// SHA-256 and CRC32C of one chunk's plain bytes.
public struct ChunkDigest: Hashable, Sendable {
  /// 32 bytes.
  public var sha256: [UInt8]
  /// Castagnoli polynomial.
  public var crc32c: UInt32

  /// The two digests of the same bytes.
  public init(sha256: [UInt8], crc32c: UInt32) {
    self.sha256 = sha256
    self.crc32c = crc32c
  }
}

/// How a body's bytes travel. Digests, sizes and tags are always of the plain bytes (spec C5).
public enum ChunkEncoding: Hashable, Sendable {
  /// As they are.
  case identity
  /// One LZ4 block.
  case lz4
}

/// One chunk on its way.
public struct ChunkSending: Sendable {
  /// The session.
  public var session: SessionIdentity
  /// The chunk's position: it starts at index × the session's chunk size.
  public var index: Int
  /// Digests of the plain bytes.
  public var digest: ChunkDigest
  /// How many plain bytes there are.
  public var plainBytes: Int
  /// What `body` is.
  public var encoding: ChunkEncoding
  /// The chunk's bytes, as they travel.
  public var body: any PinnedBytes
  /// Where in its row it is.
  public var place: ChunkPlace
  /// Counts what has been handed to the network.
  public var sentBytes: SentByteCounter

  /// A chunk with its bytes; plain ones, unless said otherwise.
  public init(
    session: SessionIdentity, index: Int, digest: ChunkDigest, plainBytes: Int? = nil,
    encoding: ChunkEncoding = .identity, body: any PinnedBytes, place: ChunkPlace = ChunkPlace(),
    sentBytes: SentByteCounter
  ) {
    self.place = place
    self.plainBytes = plainBytes ?? body.bytes.count
    self.encoding = encoding
    self.session = session
    self.index = index
    self.digest = digest
    self.body = body
    self.sentBytes = sentBytes
  }
}

/// What a commit states; the server checks all of it before it publishes.
public struct SessionCommit: Hashable, Sendable {
  /// The session.
  public var session: SessionIdentity
  /// The file's size.
  public var sizeBytes: UInt64
  /// The number of chunks; 0 for an empty file.
  public var chunkCount: Int
  /// Merkle root over the chunk digests (spec D3).
  public var merkleRoot: [UInt8]
  /// Tip of the commitment chain (spec D4).
  public var chainTip: [UInt8]
  /// The final name, resolved now and never earlier.
  public var path: RelativePath
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// Every chunk, in order; empty where the destination does not ask for them.
  public var chunks: [CommittedChunk]
  /// The file's identity; nil where nobody asks for it.
  public var fileID: FileID?

  /// Collects what a commit states.
  public init(
    session: SessionIdentity, sizeBytes: UInt64, chunkCount: Int, merkleRoot: [UInt8], chainTip: [UInt8],
    path: RelativePath, modifiedNanoseconds: Int64, mode: UInt32, chunks: [CommittedChunk] = [],
    fileID: FileID? = nil
  ) {
    self.fileID = fileID
    self.chunks = chunks
    self.session = session
    self.sizeBytes = sizeBytes
    self.chunkCount = chunkCount
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.path = path
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
  }
}

/// A chunk as a commit names it.
public struct CommittedChunk: Hashable, Sendable {
  /// Digests of its bytes.
  public var digest: ChunkDigest
  /// What the server acknowledged it with.
  public var token: String

  /// A chunk with its digests and its token.
  public init(digest: ChunkDigest, token: String) {
    self.digest = digest
    self.token = token
  }
}

/// A file that is read while it is sent.
public protocol StreamedFile: StreamedBytes {
  /// Merkle root and tip of the commitment chain over its pieces; nil before all of it was sent.
  var proof: (merkleRoot: [UInt8], chainTip: [UInt8])? { get }
}

/// A file in one request.
public struct WholeFileSending: Sendable {
  /// The file's identity.
  public var fileID: FileID
  /// The epoch that is sent; with the file's identity and the path it makes the idempotency key.
  public var revision: UInt64
  /// Fresh for each upload of a file, the same for its retries.
  public var nonce: [UInt8]
  /// The final name.
  public var path: RelativePath
  /// Digests of the plain bytes.
  public var digest: ChunkDigest
  /// How many plain bytes there are.
  public var plainBytes: Int
  /// What `body` is.
  public var encoding: ChunkEncoding
  /// The file's bytes, as they travel; nil when it is empty, or streamed.
  public var body: (any PinnedBytes)?
  /// Its bytes when they are read while they are sent; `digest` says nothing then.
  public var stream: (any StreamedFile)?
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// Counts what has been handed to the network.
  public var sentBytes: SentByteCounter

  /// A small file with its bytes.
  public init(
    fileID: FileID, revision: UInt64, nonce: [UInt8], path: RelativePath, digest: ChunkDigest,
    plainBytes: Int? = nil, encoding: ChunkEncoding = .identity, body: (any PinnedBytes)?,
    modifiedNanoseconds: Int64, mode: UInt32, sentBytes: SentByteCounter
  ) {
    self.plainBytes = plainBytes ?? body?.bytes.count ?? 0
    self.encoding = encoding
    self.fileID = fileID
    self.revision = revision
    self.nonce = nonce
    self.path = path
    self.digest = digest
    self.body = body
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.sentBytes = sentBytes
  }
}

/// What a response means.
public enum StepOutcome: Hashable, Sendable {
  /// The server is there.
  case warmed
  /// The session exists. The server may have lowered the chunk size, says when the session expires (seconds since 1970)
  /// and how bodies may be coded.
  case sessionOpened(
    id: String, chunkBytes: Int, expiresAtSeconds: Int64?, encodings: Set<ChunkEncoding> = [.identity])
  /// What the server holds: SHA-256 by chunk index; with the session's facts as the server sees them now, as far as it
  /// says so, and whether all of it is on its disk. A server that knows no SHA-256 names what it holds by the tokens with
  /// which it acknowledged it.
  case held(
    digests: [Int: [UInt8]], chunkBytes: Int? = nil, expiresAtSeconds: Int64? = nil,
    encodings: Set<ChunkEncoding> = [.identity], tokens: [Int: String] = [:], isDurable: Bool = false)
  /// The session is there, and so is what it has acknowledged: the server keeps no list that could say otherwise.
  case stillThere
  /// The chunk is stored and its digests were checked.
  case chunkStored
  /// Likewise; from now on the server knows it by this token, and may say when the session expires now (seconds since 1970).
  case chunkStoredAs(token: String, expiresAtSeconds: Int64? = nil)
  /// Published and verified.
  case published(Receipt)
  /// The server lacks these chunks or holds other bytes for them.
  case incomplete(missing: [Int])
  /// The answers for several files of one request, in its order.
  case each([StepOutcome])
  /// The session is gone, as asked.
  case ended
  /// The server refused or could not; the failure says what.
  case refused(StepFailure)
}

/// Proof of delivery (spec D7).
public struct Receipt: Hashable, Sendable, Codable {
  /// The server's id of this publication.
  public var id: String
  /// The name under which the file was published.
  public var name: String
  /// The published size.
  public var sizeBytes: UInt64
  /// Merkle root, 64 hexadecimal digits.
  public var merkleRoot: String
  /// Tip of the commitment chain, 64 hexadecimal digits.
  public var chainTip: String
  /// When it was published by the server's clock, milliseconds since 1970.
  public var publishedAtMilliseconds: Int64
  /// What the server said, where that is not known beforehand: JSON.
  public var answer: String?

  /// A receipt as the server gave it.
  public init(
    id: String, name: String, sizeBytes: UInt64, merkleRoot: String, chainTip: String, publishedAtMilliseconds: Int64,
    answer: String? = nil
  ) {
    self.answer = answer
    self.id = id
    self.name = name
    self.sizeBytes = sizeBytes
    self.merkleRoot = merkleRoot
    self.chainTip = chainTip
    self.publishedAtMilliseconds = publishedAtMilliseconds
  }
}

/// Why a step did not succeed, as far as the destination can tell. Whether to retry is `RetryPolicy`'s business.
public struct StepFailure: Error, Hashable, Sendable {
  /// What went wrong.
  public enum Kind: Hashable, Sendable {
    /// 401: the token is missing, wrong or expired.
    case unauthorized
    /// 403: the token is known and may not do this.
    case forbidden
    /// 404 or 410: the session is unknown or has expired; start a new one.
    case sessionGone
    /// What was acknowledged of the chunk's row is gone, or the server holds bytes behind it of which nobody knows what they
    /// are: the row is to begin anew.
    case rowLost
    /// The server holds other bytes in the chunk's place and does not take new ones: the upload is to begin anew.
    case notReplaceable
    /// 409: another request for the same thing is under way, or the state does not allow it.
    case conflict
    /// 413: the file or the chunk is larger than the server takes.
    case tooLarge(limitBytes: UInt64?)
    /// 422: the bytes that arrived do not have the digest that was announced; they were damaged on the way.
    case digestMismatch
    /// 422: the chunk's tag is wrong: tampering, or the two sides hold different keys.
    case tagMismatch
    /// 422: the server does not accept the name.
    case nameRefused
    /// 400 or another 422: the request itself is wrong.
    case badRequest
    /// 425: sent too early; send again.
    case tooEarly
    /// 429 or 503.
    case busy
    /// 507: the server's disk or the token's quota is full.
    case insufficientStorage
    /// Another 5xx.
    case serverError
    /// An answer that the protocol does not know, or nonsense.
    case unexpectedAnswer
    /// Everything was sent and no answer came, and doing it twice may do harm.
    case unclearEnd
    /// No answer at all.
    case transport(TransportError.Kind)
  }

  /// What went wrong, for decisions.
  public var kind: Kind
  /// What went wrong and what to do, for people; one sentence, no secret.
  public var message: String
  /// The server's wish (Retry-After).
  public var retryAfter: Duration?

  /// A failure of this kind.
  public init(_ kind: Kind, _ message: String, retryAfter: Duration? = nil) {
    self.kind = kind
    self.message = message
    self.retryAfter = retryAfter
  }
}

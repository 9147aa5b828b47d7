/// One thing to ask of a destination. What it carries of files is what its speaker knows of them: the schedule names chunks in buffers
/// (``SendOrder``), and a destination is given their bytes (``DestinationStep``).
public enum UploadStep<Chunk: Sendable, WholeFile: Sendable>: Sendable {
  /// Open a connection, ask for nothing.
  case prewarm
  case openSession(SessionOpening)
  /// Ask which chunks the server holds, with their digests.
  case querySession(SessionIdentity)
  /// Ask which chunks the server holds on its disk, where they outlive a power cut; it may take a while.
  case secureSession(SessionIdentity)
  /// Send one chunk.
  case chunk(Chunk)
  /// Send several chunks of one session in one request, each answered for itself; only to a server that has offered it.
  case run([Chunk])
  /// Say which chunks are zeros, of which nothing is sent; only to a server that has offered it.
  case zeros(ZerosSending)
  /// Publish the file.
  case commit(SessionCommit)
  /// Give the session up; what was sent is discarded.
  case abort(SessionIdentity)
  /// Send and publish a small file in one request.
  case wholeFile(WholeFile)
  /// Send and publish several small files in one request, each answered for itself; only to a server that has offered it.
  case bundle([WholeFile])
}

extension UploadStep: Equatable where Chunk: Equatable, WholeFile: Equatable {}
extension UploadStep: Hashable where Chunk: Hashable, WholeFile: Hashable {}

/// A step with the bytes that it carries, as a destination is asked for it.
public typealias DestinationStep = UploadStep<ChunkSending, WholeFileSending>

extension UploadStep {
  /// The same step in other terms; nil where one of its parts has none.
  package func mapped<OtherChunk, OtherFile, Failure: Error>(
    opening: (SessionOpening) throws(Failure) -> SessionOpening?,
    commit: (SessionCommit) throws(Failure) -> SessionCommit?,
    chunk: (Chunk) throws(Failure) -> OtherChunk?,
    wholeFile: (WholeFile) throws(Failure) -> OtherFile?
  ) throws(Failure) -> UploadStep<OtherChunk, OtherFile>? {
    switch self {
    case .prewarm: return .prewarm
    case .openSession(let session): return try opening(session).map { .openSession($0) }
    case .querySession(let session): return .querySession(session)
    case .secureSession(let session): return .secureSession(session)
    case .chunk(let one): return try chunk(one).map { .chunk($0) }
    case .run(let several): return try Self.all(several, chunk).map { .run($0) }
    case .zeros(let zeros): return .zeros(zeros)
    case .commit(let session): return try commit(session).map { .commit($0) }
    case .abort(let session): return .abort(session)
    case .wholeFile(let one): return try wholeFile(one).map { .wholeFile($0) }
    case .bundle(let several): return try Self.all(several, wholeFile).map { .bundle($0) }
    }
  }

  private static func all<Part, Other, Failure: Error>(
    _ parts: [Part], _ other: (Part) throws(Failure) -> Other?
  ) throws(Failure) -> [Other]? {
    var others: [Other] = []
    others.reserveCapacity(parts.count)
    for part in parts {
      guard let found = try other(part) else { return nil }
      others.append(found)
    }
    return others
  }
}

extension DestinationStep {
  /// What it carries of files, as that travels; 0 of a stream, whose one request says it.
  package var bodyBytes: Int {
    switch self {
    case .chunk(let sending): sending.body.bytes.count
    case .wholeFile(let sending): sending.body?.bytes.count ?? 0
    case .run(let sendings): sendings.reduce(0) { $0 + $1.body.bytes.count }
    case .prewarm, .openSession, .querySession, .secureSession, .commit, .abort, .bundle, .zeros: 0
    }
  }
}

package import FileModel
public import TransferModel

/// One request, without the bytes that it carries.
public typealias SendOrder = UploadStep<SessionChunk, WholeFileOrder>

extension SendOrder {
  /// A request that carries no bytes of a file, and has a bound of its own.
  var isControl: Bool {
    switch self {
    case .openSession, .querySession, .secureSession, .zeros, .commit: true
    case .prewarm, .chunk, .run, .abort, .wholeFile, .bundle: false
    }
  }

  /// Bytes of files go out with the request.
  var carriesBytes: Bool {
    switch self {
    case .chunk, .run, .wholeFile, .bundle: true
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort: false
    }
  }

  /// The server assembles, or syncs to its disk, before it answers.
  var isAnsweredLate: Bool {
    switch self {
    case .commit, .secureSession: true
    case .prewarm, .openSession, .querySession, .chunk, .run, .zeros, .abort, .wholeFile, .bundle: false
    }
  }

  var isAbort: Bool { if case .abort = self { true } else { false } }

  /// What an answer to the request proves.
  var proof: DestinationGate.Proof {
    switch self {
    case .prewarm, .querySession, .secureSession, .abort: .answers
    case .openSession: .begins
    case .chunk, .run, .zeros, .commit, .wholeFile, .bundle: .takes
    }
  }

  /// The request may publish a file that must not be published twice.
  func isAtMostOnce(_ once: AtMostOnceScope) -> Bool {
    switch self {
    case .commit: once == .everything
    case .wholeFile, .bundle: once != .nothing
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .abort: false
    }
  }

  /// The chunks that the request carries, and their session.
  package var chunks: (session: SessionIdentity, chunks: [ChunkOrder])? {
    switch self {
    case .chunk(let one): (one.session, [one.chunk])
    case .run(let several): several.first.map { ($0.session, several.map(\.chunk)) }
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort, .wholeFile, .bundle: nil
    }
  }

  /// The files that the request carries whole.
  package var wholeFiles: [WholeFileOrder] {
    switch self {
    case .wholeFile(let one): [one]
    case .bundle(let several): several
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort: []
    }
  }

  /// The buffers whose bytes the request carries.
  var reads: [ReadID] { chunks?.chunks.map(\.read) ?? wholeFiles.compactMap(\.read) }

  /// The files whose contents the request publishes.
  var contents: [FileID] {
    if case .commit(let commit) = self { commit.fileID.map { [$0] } ?? [] } else { wholeFiles.map(\.file) }
  }

  /// The files that the request names, and their paths.
  package var publications: [(file: FileID, path: RelativePath)] {
    switch self {
    case .openSession(let opening): [(opening.fileID, opening.path)]
    case .commit(let commit): commit.fileID.map { [($0, commit.path)] } ?? []
    case .wholeFile, .bundle: wholeFiles.map { ($0.file, $0.path) }
    case .prewarm, .querySession, .secureSession, .chunk, .run, .zeros, .abort: []
    }
  }
}

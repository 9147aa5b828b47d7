package import FileModel

/// One request, without the bytes that it carries.
public typealias SendOrder = UploadStep<SessionChunk, WholeFileOrder>

extension SendOrder {
  /// It carries nothing of a file's bytes, and is one of those that have a bound of their own.
  var isControl: Bool {
    switch self {
    case .openSession, .querySession, .secureSession, .zeros, .commit: true
    case .prewarm, .chunk, .run, .abort, .wholeFile, .bundle: false
    }
  }

  /// Bytes of files go out with it.
  var carriesBytes: Bool {
    switch self {
    case .chunk, .run, .wholeFile, .bundle: true
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort: false
    }
  }

  /// The server assembles, or brings to its disk, before it answers.
  var isAnsweredLate: Bool {
    switch self {
    case .commit, .secureSession: true
    case .prewarm, .openSession, .querySession, .chunk, .run, .zeros, .abort, .wholeFile, .bundle: false
    }
  }

  var isAbort: Bool { if case .abort = self { true } else { false } }

  /// What an answer to it proves.
  var proof: DestinationGate.Proof {
    switch self {
    case .prewarm, .querySession, .secureSession, .abort: .answers
    case .openSession: .begins
    case .chunk, .run, .zeros, .commit, .wholeFile, .bundle: .takes
    }
  }

  /// A file may be published by it that must not be published twice.
  func isAtMostOnce(_ once: AtMostOnceScope) -> Bool {
    switch self {
    case .commit: once == .everything
    case .wholeFile, .bundle: once != .nothing
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .abort: false
    }
  }

  /// The chunks that it carries, and of which session.
  package var chunks: (session: SessionIdentity, chunks: [ChunkOrder])? {
    switch self {
    case .chunk(let one): (one.session, [one.chunk])
    case .run(let several): several.first.map { ($0.session, several.map(\.chunk)) }
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort, .wholeFile, .bundle: nil
    }
  }

  /// The files that go whole with it.
  package var wholeFiles: [WholeFileOrder] {
    switch self {
    case .wholeFile(let one): [one]
    case .bundle(let several): several
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .commit, .abort: []
    }
  }

  /// The buffers whose bytes it carries.
  var reads: [ReadID] { chunks?.chunks.map(\.read) ?? wholeFiles.compactMap(\.read) }

  /// The files whose contents it publishes.
  var contents: [FileID] {
    if case .commit(let commit) = self { commit.fileID.map { [$0] } ?? [] } else { wholeFiles.map(\.file) }
  }

  /// The files that it names, and their paths.
  package var publications: [(file: FileID, path: RelativePath)] {
    switch self {
    case .openSession(let opening): [(opening.fileID, opening.path)]
    case .commit(let commit): commit.fileID.map { [($0, commit.path)] } ?? []
    case .wholeFile, .bundle: wholeFiles.map { ($0.file, $0.path) }
    case .prewarm, .querySession, .secureSession, .chunk, .run, .zeros, .abort: []
    }
  }
}

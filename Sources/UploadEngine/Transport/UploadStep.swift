/// One thing to ask of a destination.
public enum UploadStep: Sendable {
  /// Open a connection, ask for nothing (spec F2, stages 1 and 3).
  case prewarm
  case openSession(SessionOpening)
  /// Ask which chunks the server holds, with their digests (spec D6).
  case querySession(SessionIdentity)
  /// Ask which chunks the server holds on its disk, where they outlive a power cut; it may take a while.
  case secureSession(SessionIdentity)
  case sendChunk(ChunkSending)
  /// Send several chunks of one session in one request; only to a server that has offered it.
  case sendRun([ChunkSending])
  /// Say which chunks are zeros; only to a server that has offered it.
  case sendZeros(ZerosSending)
  /// Publish the file.
  case commit(SessionCommit)
  /// Give the session up; what was sent is discarded.
  case abort(SessionIdentity)
  /// Send and publish a small file in one request.
  case sendWholeFile(WholeFileSending)
  /// Send and publish several small files in one request; only for a server that has offered it.
  case sendBundle([WholeFileSending])
}

extension UploadStep {
  /// What it carries of files, as that travels; 0 of a stream, whose one request says it.
  var bodyBytes: Int {
    switch self {
    case .sendChunk(let sending): sending.body.bytes.count
    case .sendWholeFile(let sending): sending.body?.bytes.count ?? 0
    case .sendRun(let sendings): sendings.reduce(0) { $0 + $1.body.bytes.count }
    case .prewarm, .openSession, .querySession, .secureSession, .commit, .abort, .sendBundle, .sendZeros: 0
    }
  }
}

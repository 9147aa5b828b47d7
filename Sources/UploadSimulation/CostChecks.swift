import FileModel
import Integrity
import Lookup
import UploadEngine

/// Watches what is sent again: the same bytes of a file go out no oftener than pauses that grow allow, whatever is answered
/// (spec E8). What each try may add to the bytes of a file is bounded by this at every moment.
struct CostChecks {
  private struct Piece: Hashable {
    var file: FileID
    var index: Int?
    var digest: ChunkDigest
  }

  /// A few tries break together, or follow at once.
  private static let triesAtOnceMax = 16
  /// From then on pauses are longer than this on average.
  private static let pauseMin: Int64 = 2_000_000_000

  private unowned let world: World
  private var files: LookupTable<[UInt8], FileID> = [:]
  private var tries: LookupTable<Piece, (count: Int, since: Int64)> = [:]

  init(_ world: World) { self.world = world }

  mutating func know(nonce: [UInt8], of file: FileID) { files[nonce] = file }

  mutating func forget() {
    files = [:]
    tries = [:]
  }

  mutating func sent(_ order: SendOrder) {
    let now = world.time.nanoseconds
    for piece in pieces(of: order) {
      let known = tries[piece] ?? (0, now)
      tries[piece] = (known.count + 1, known.since)
      let allowed = Self.triesAtOnceMax + Int((now - known.since) / Self.pauseMin)
      if known.count >= allowed {
        let seconds = (now - known.since) / 1_000_000_000
        world.fail(.cost, "the same bytes of \(piece.file) go out for the \(known.count + 1)th time in \(seconds) s")
      }
    }
  }

  private mutating func pieces(of order: SendOrder) -> [Piece] {
    switch order {
    case .openSession(let opening):
      know(nonce: opening.nonce, of: opening.fileID)
      return []
    case .chunk(let session, let index, let digest, _, _):
      return files[session.nonce].map { [Piece(file: $0, index: index, digest: digest)] } ?? []
    case .wholeFile(let whole): return [Piece(file: whole.file, index: nil, digest: whole.digest)]
    case .bundle(let files): return files.map { Piece(file: $0.file, index: nil, digest: $0.digest) }
    case .prewarm, .querySession, .secureSession, .commit, .abort: return []
    }
  }
}

import FileModel
import Integrity
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// Checks what is sent again: the same bytes of a file are sent no more often than growing pauses allow, whatever is
/// answered (docs/destinations.md, DE144). That bounds what each attempt may add to a file's bytes at every moment. It
/// also bounds openings and aborts of uploads, each of which may leave something at the server.
struct CostChecks {
  fileprivate enum Piece: Hashable {
    case chunk(of: FileID, index: Int, digest: ChunkDigest)
    /// Each content by itself: one that a writer creates again, as an empty one, is no attempt of the earlier one.
    case whole(of: FileID, epoch: UInt64, digest: ChunkDigest)
    case opening(of: FileID, revision: UInt64)
    case commit(of: FileID, root: Digest32)

    var file: FileID {
      switch self {
      case .chunk(let file, _, _), .whole(let file, _, _), .opening(let file, _), .commit(let file, _): file
      }
    }
  }

  /// A name of a file.
  private struct Place: Hashable {
    var file: FileID
    var path: RelativePath
  }

  /// A few attempts break together, or follow at once.
  private static let triesAtOnceMax = 10
  /// From then on pauses are longer than this on average, and after a minute, when they have grown, than that.
  private static let pauseMin: Int64 = 2_000_000_000
  private static let grownPauseMin: Int64 = 5_000_000_000
  private static let growthTime: Int64 = 60_000_000_000

  private unowned let world: World
  private var files: LookupTable<[UInt8], FileID> = [:]
  private var tries: LookupTable<Piece, (count: Int, since: Int64)> = [:]
  /// The pieces sent in each session, by its nonce.
  private var carried: LookupTable<[UInt8], OrderedSet<Piece>> = [:]
  /// The latest published content under each name of a file, by its root.
  private var published: LookupTable<Place, Digest32> = [:]
  /// Setbacks of each file's present content, and those that lost something that a server had acknowledged.
  private var setbacks: LookupTable<FileID, (count: Int, losses: Int)> = [:]
  /// Chunks of files that have lost repeatedly, sent since then.
  private var afterLosses: [(request: HTTPRequestID, file: FileID)] = []

  /// The codes of setbacks where something acknowledged is gone.
  private static let lossCodes = ["session-gone", "row-lost", "incomplete"]

  init(_ world: World) { self.world = world }

  mutating func know(nonce: [UInt8], of file: FileID) { files[nonce] = file }

  mutating func forget() {
    files = [:]
    tries = [:]
    carried = [:]
    published = [:]
    setbacks = [:]
    afterLosses = []
  }

  mutating func setBack(_ file: FileID, _ failure: FileStatus.Failure, count: Int) {
    // The count starts anew where the content is another, or a user has asked for it.
    let known = setbacks[file].flatMap { $0.count < count ? $0 : nil }
    setbacks[file] = (count, (known?.losses ?? 0) + (Self.lossCodes.contains(failure.code) ? 1 : 0))
  }

  /// The counts of a file start anew.
  mutating func beginsAnew(_ file: FileID) { setbacks[file] = nil }

  mutating func beginAnew() { setbacks = [:] }

  /// A session is published, perhaps while answers to its last chunks are still in flight. What published another
  /// content under a name is no attempt of what is published next: chunks that a change leaves unchanged are sent with
  /// each content, and under each name.
  mutating func published(_ commit: SessionCommit) {
    guard let file = files[commit.session.nonce] else { return }
    beginsAnew(file)
    let pieces = carried.removeValue(forKey: commit.session.nonce) ?? []
    let place = Place(file: file, path: commit.path)
    guard published[place] != commit.merkleRoot else { return }
    published[place] = commit.merkleRoot
    for piece in pieces { takeBack(piece) }
  }

  /// Of what was lost twice, over all files, one chunk is in flight.
  mutating func sent(_ request: HTTPRequestID, _ order: SendOrder) {
    guard let (session, chunks) = order.chunks, let file = files[session.nonce],
      setbacks[file]?.losses ?? 0 > 1
    else { return }
    afterLosses.removeAll { setbacks[$0.file]?.losses ?? 0 < 2 }
    if let other = afterLosses.first?.file {
      world.fail(
        .cost, "chunk \(chunks[0].index) of \(file) goes out beside one of \(other), and both have lost repeatedly")
    }
    afterLosses.append((request, file))
  }

  mutating func ended(_ request: HTTPRequestID) {
    afterLosses.removeAll { $0.request == request }
  }

  mutating func sent(_ order: SendOrder) {
    let now = world.time.nanoseconds
    for piece in pieces(of: order) {
      if case .chunk(let one) = order { carried[one.session.nonce, default: []].append(piece) }
      let known = tries[piece] ?? (0, now)
      tries[piece] = (known.count + 1, known.since)
      let allowed = Self.triesMax(in: now - known.since)
      if known.count >= allowed {
        let seconds = (now - known.since) / 1_000_000_000
        let what = "the same \(piece.word) of \(piece.file)"
        world.fail(.cost, "\(what) goes out for the \(known.count + 1)th time in \(seconds) s")
      }
    }
  }

  private static func triesMax(in nanoseconds: Int64) -> Int {
    let growing = min(nanoseconds, growthTime)
    return triesAtOnceMax + Int(growing / pauseMin + (nanoseconds - growing) / grownPauseMin)
  }

  /// No server was available to take the bytes.
  mutating func foundNoServer(_ order: SendOrder) {
    for piece in pieces(of: order) { takeBack(piece) }
  }

  private mutating func takeBack(_ piece: Piece) {
    guard let known = tries[piece] else { return }
    tries[piece] = (max(0, known.count - 1), known.since)
  }

  private mutating func pieces(of order: SendOrder) -> [Piece] {
    switch order {
    case .openSession(let opening):
      know(nonce: opening.nonce, of: opening.fileID)
      return [.opening(of: opening.fileID, revision: opening.revision)]
    case .chunk, .run:
      guard let (session, chunks) = order.chunks, let file = files[session.nonce] else { return [] }
      return chunks.map { .chunk(of: file, index: $0.index, digest: $0.digest) }
    case .wholeFile, .bundle:
      return order.wholeFiles.map { .whole(of: $0.file, epoch: $0.epoch, digest: $0.digest) }
    case .commit(let commit):
      guard let file = files[commit.session.nonce] else { return [] }
      return [.commit(of: file, root: commit.merkleRoot)]
    case .prewarm, .querySession, .secureSession, .zeros, .abort: return []
    }
  }
}

extension CostChecks.Piece {
  fileprivate var word: String {
    switch self {
    case .chunk, .whole: "piece"
    case .opening: "beginning"
    case .commit: "commit"
    }
  }
}

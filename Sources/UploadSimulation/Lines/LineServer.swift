import ChunkProtocol
import Destinations
import FileModel
import Integrity
import Lookup
import TransferModel
import UploadEngine

/// The far end of a line: a server that takes whatever arrives, by its kind's rules. Bytes are counted only.
struct LineServer {
  /// The overhead of a request beside its body, and of each member of a run or a bundle.
  static let headBytes = 600
  static let memberHeadBytes = 350
  private static let filesPerRequest = 64

  let kind: ServerKind
  let abilities: DestinationAbilities
  let offers: DestinationOffers
  private var chunks: LookupTable<String, LookupTable<Int, ChunkDigest>> = [:]
  private var sessionCount = 0

  init(_ kind: ServerKind) throws(DestinationError) {
    self.kind = kind
    (abilities, offers) = try Self.terms(of: kind)
  }

  /// Abilities and limits as of real servers, with a mount's default settings.
  private static func terms(of kind: ServerKind) throws(DestinationError) -> (DestinationAbilities, DestinationOffers) {
    let origin = SimulatedAddresses.first
    switch kind {
    case .receiver:
      let destination = try ChunkProtocolDestination(baseURL: origin, credential: .bearer(SimulatedReceiver.token))
      let offers = DestinationOffers(
        encodings: [.identity], filesPerRequest: filesPerRequest, runBytesMax: ProtocolLimits.runBytesMax,
        zeroRangesMax: ProtocolLimits.zeroRangesMax)
      return (destination.abilities, offers)
    case .tus:
      let destination = try TusDestination(
        address: TusAddress("tus+\(origin)/files/", allowPlainHTTP: false), secondsSince1970: { 0 })
      let fields = [("tus-version", "1.0.0"), ("tus-extension", TusServer.extensions.joined(separator: ","))]
      let offers = destination.offers(
        in: HTTPResponse(status: 204, headers: fields.map { HTTPHeader($0.0, $0.1) }))
      return (destination.abilities, offers)
    case .draft:
      let destination = try ResumableDestination(
        address: TusAddress("tus+\(origin)/files/", allowPlainHTTP: false), secondsSince1970: { 0 })
      return (destination.abilities, DestinationOffers())
    case .s3:
      let credentials = try S3Credentials(accessKeyID: "key", secretAccessKey: "secret")
      var options = S3Options()
      options.wholeFileBytesMax = partBytes
      let destination = try S3Destination(
        address: S3Address("s3+\(origin)/bucket", allowPlainHTTP: false), options: options,
        credentials: { credentials }, secondsSince1970: { 0 })
      return (destination.abilities, DestinationOffers())
    case .webDAV:
      let destination = try WebDAVDestination(
        address: WebDAVAddress("webdav+\(origin)/dav", allowPlainHTTP: false), credential: nil)
      return (destination.abilities, DestinationOffers())
    case .form:
      let destination = try FormDestination(
        address: FormAddress("form+\(origin)/upload", allowPlainHTTP: false), credential: nil)
      return (destination.abilities, DestinationOffers())
    }
  }

  /// The length of a part with which the largest file fits into one upload.
  private static let partBytes = {
    let step = 64 << 10
    let least = Int(UploadConstants.fileBytesMax) / S3Limits.partCountMax
    return (least + step - 1) / step * step
  }()

  /// The limits of a mount that uploads there, where no setting gives others.
  var limits: UploadLimits {
    var limits = UploadLimits()
    limits.adaptsChunkBytes = true
    limits.followsLine = true
    if kind == .s3 { (limits.chunkBytes, limits.bufferBytes) = (Self.partBytes, Self.partBytes) }
    return limits
  }

  /// Round trips of a step before the one that carries its body.
  func tripsBefore(_ order: SendOrder) -> Int {
    switch order {
    case .chunk: abilities.appendSequences == .growing || offers.abilities?.appendSequences == .growing ? 1 : 0
    default: 0
    }
  }

  /// Round trips that a stream pauses between two requests, beside those of any request.
  var tripsBetween: Int {
    abilities.appendSequences == .growing || offers.abilities?.appendSequences == .growing ? 2 : 0
  }

  // MARK: - Requests

  /// Nothing is missing of what is to be published.
  func hasAll(of commit: SessionCommit) -> Bool {
    !abilities.commitWaitsForChunks || chunks[commit.session.id]?.count ?? 0 >= commit.chunkCount
  }

  /// A chunk has arrived as a whole.
  mutating func keep(_ chunk: ChunkOrder, in session: String) {
    chunks[session, default: [:]][chunk.index] = chunk.digest
  }

  /// All of a request has arrived.
  mutating func answer(_ order: SendOrder) -> StepOutcome {
    switch order {
    case .prewarm: return .warmed
    case .openSession(let opening):
      sessionCount += 1
      return .sessionOpened(id: "s\(sessionCount)", chunkBytes: opening.chunkBytes, expiresAtSeconds: nil)
    case .querySession(let session), .secureSession(let session): return held(of: session.id)
    case .chunk(let one):
      keep(one.chunk, in: one.session.id)
      return stored(one.chunk.index)
    case .run(let members):
      for one in members { keep(one.chunk, in: one.session.id) }
      return .each(members.map { stored($0.chunk.index) })
    case .zeros: return .chunkStored
    case .commit(let commit):
      return .published(
        Receipt(
          id: "r", name: commit.path.displayText, sizeBytes: commit.sizeBytes,
          merkleRoot: Hex.encode(commit.merkleRoot), chainTip: Hex.encode(commit.chainTip), publishedAtMilliseconds: 1))
    case .abort: return .ended
    case .wholeFile(let whole): return published(whole)
    case .bundle(let files): return .each(files.map { published($0) })
    }
  }

  private func stored(_ index: Int) -> StepOutcome {
    abilities.commitListsChunks || offers.abilities?.commitListsChunks == true
      ? .chunkStoredAs(token: "t\(index)") : .chunkStored
  }

  private func held(of session: String) -> StepOutcome {
    let held = chunks[session] ?? [:]
    guard kind == .receiver else {
      return .held(digests: [:], tokens: LookupTable(held.keys.sorted().map { ($0, "t\($0)") }))
    }
    return .held(digests: held.mapValues(\.sha256))
  }

  private func published(_ whole: WholeFileOrder) -> StepOutcome {
    .published(
      Receipt(
        id: "r", name: whole.path.displayText, sizeBytes: 0, merkleRoot: "", chainTip: "", publishedAtMilliseconds: 1))
  }
}

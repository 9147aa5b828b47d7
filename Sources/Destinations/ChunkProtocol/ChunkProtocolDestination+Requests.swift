import ChunkProtocol
import FileModel
import Integrity
public import TransferModel

extension ChunkProtocolDestination {
  /// The request that carries out a step over one of the addresses; over the first for one that there is not.
  public func request(for step: DestinationStep, at endpoint: EndpointID = .first) -> HTTPRequest {
    var request = withPresentCredential().request(for: step)
    request.url = url(of: endpoint).text + request.url
    return request
  }

  /// Asks for the receiver's capabilities.
  public func limitsRequest(at endpoint: EndpointID) -> HTTPRequest? {
    var request = withPresentCredential().request(.get, .capabilities)
    request.url = url(of: endpoint).text + request.url
    return request
  }

  /// The whole body as one Zstandard frame, where that saves enough (docs/protocol.md, P118).
  public func compressedTogether(_ request: HTTPRequest) -> HTTPRequest {
    var request = request
    let plain = request.body.content
    let frame = frame(of: plain)
    request.sharedFrame = SharedFrame(plainBytes: plain.count, sentBytes: frame?.count ?? plain.count)
    guard let frame else { return request }
    request.body = .bytes(frame)
    request.headers.append(HTTPHeader(HeaderName.chunkEncoding, ChunkProtocol.ChunkEncoding.zstd(.none).headerValue))
    request.headers.append(HTTPHeader(HeaderName.chunkSize, String(plain.count)))
    request.limits = HTTPRequestLimits.forBody(of: frame.count)
    return request
  }

  /// The request without the address that stands in front of its target.
  private func request(for step: DestinationStep) -> HTTPRequest {
    switch step {
    case .prewarm: request(.head, .root)
    case .openSession(let opening): openingRequest(opening)
    case .querySession(let session):
      request(.get, .upload(id: session.id), query: ProtocolPath.digestsQuery)
    case .secureSession(let session):
      request(
        .get, .upload(id: session.id), query: ProtocolPath.digestsQuery + "&" + ProtocolPath.durableQuery,
        limits: HTTPRequestLimits(total: ChunkProtocolDestination.commitTimeout))
    case .chunk(let sending): chunkRequest(sending)
    case .commit(let commit): commitRequest(commit)
    case .abort(let session): request(.delete, .upload(id: session.id))
    case .wholeFile(let sending): wholeFileRequest(sending)
    case .bundle(let sendings): bundleRequest(sendings)
    case .run(let sendings): runRequest(sendings)
    case .zeros(let sending): zerosRequest(sending)
    }
  }

  /// A commit waits at the receiver for chunks on their way, and then for its disk.
  static let commitTimeout: Duration = .seconds(120)

  private func request(
    _ method: HTTPRequest.Method, _ path: ProtocolPath, query: String? = nil,
    headers: [(name: String, value: String)] = [], body: HTTPRequest.Body = .none,
    limits: HTTPRequestLimits = HTTPRequestLimits(), sentBytes: SentByteCounter? = nil
  ) -> HTTPRequest {
    var fields: [HTTPHeader] = []
    if let authorization { fields.append(HTTPHeader(HeaderName.authorization, authorization)) }
    fields += headers.map { HTTPHeader($0.name, $0.value) }
    let target = path.text + (query.map { "?" + $0 } ?? "")
    return HTTPRequest(method, target, headers: fields, body: body, limits: limits, sentBytes: sentBytes)
  }

  private func openingRequest(_ opening: SessionOpening) -> HTTPRequest {
    let body = WireJSON.encode(
      SessionRequest(
        name: publishedName(for: opening.path), sizeBytes: opening.sizeBytes, chunkBytes: opening.chunkBytes,
        modifiedNanoseconds: opening.modifiedNanoseconds, mode: opening.mode & 0o7777, contentType: nil,
        fileID: opening.fileID.description, revision: opening.revision, nonce: Hex.encode(opening.nonce),
        takesBase: opening.takesBase ? true : nil))
    let key = idempotencyKey(
      "\(opening.fileID)-\(opening.revision)-\(Hex.encode(opening.nonce))", covering: body)
    return request(
      .post, .uploads,
      headers: [
        (HeaderName.idempotencyKey, quoted(key)), (HeaderName.contentType, MediaType.json),
      ], body: .bytes(body))
  }

  private func chunkRequest(_ sending: ChunkSending) -> HTTPRequest {
    request(
      .put, path(of: sending), headers: chunkFields(sending), body: .pinned(sending.body),
      limits: HTTPRequestLimits.forBody(of: sending.body.bytes.count), sentBytes: sending.sentBytes)
  }

  private func path(of sending: ChunkSending) -> ProtocolPath {
    .chunk(id: sending.session.id, index: UInt32(clamping: sending.index))
  }

  private func chunkFields(_ sending: ChunkSending) -> [(name: String, value: String)] {
    let headers = chunkHeaders(
      sending.digest, sizeBytes: UInt64(clamping: sending.plainBytes), sending.encoding,
      index: UInt32(clamping: sending.index), sessionID: sending.session.id, nonce: sending.session.nonce)
    return headers.fields + [(HeaderName.contentType, MediaType.octets)]
  }

  /// Each chunk is written as the request that would send it alone.
  private func runRequest(_ sendings: [ChunkSending]) -> HTTPRequest {
    let session = sendings.first?.session.id ?? ""
    return severalRequest(
      .chunks(id: session),
      sendings.map { (path(of: $0), chunkFields($0), $0.body) }, sentBytes: sendings.first?.sentBytes)
  }

  private func zerosRequest(_ sending: ZerosSending) -> HTTPRequest {
    let ranges = sending.ranges.map {
      ChunkIndexRange(first: UInt32(clamping: $0.lowerBound), last: UInt32(clamping: $0.upperBound - 1))
    }
    let session = sending.session
    let key = ChunkMAC.sessionKey(masterKey: masterKey, nonce: session.nonce, sessionID: session.id)
    let mac = ChunkMAC.zerosMAC(
      key: key, ranges: ranges.map { ($0.first, $0.last) }, chunkBytes: UInt64(clamping: sending.chunkBytes),
      chunkSHA256: sending.digest.sha256, sessionID: session.id, nonce: session.nonce)
    return request(
      .post, .zeros(id: session.id), headers: [(HeaderName.contentType, MediaType.json)],
      body: .bytes(WireJSON.encode(ZerosRequest(ranges: ranges, mac: Hex.encode(mac)))))
  }

  private func commitRequest(_ commit: SessionCommit) -> HTTPRequest {
    let body = WireJSON.encode(
      CommitRequest(
        sizeBytes: commit.sizeBytes, chunkCount: UInt32(clamping: commit.chunkCount),
        merkleRoot: Hex.encode(commit.merkleRoot), chainTip: Hex.encode(commit.chainTip),
        name: publishedName(for: commit.path), ifExists: ifExists(commit.right), ownership: ownership(commit.right),
        modifiedNanoseconds: commit.modifiedNanoseconds, mode: commit.mode & 0o7777))
    return request(
      .post, .commit(id: commit.session.id), headers: [(HeaderName.contentType, MediaType.json)], body: .bytes(body),
      limits: HTTPRequestLimits(total: ChunkProtocolDestination.commitTimeout))
  }

  private func wholeFileRequest(_ sending: WholeFileSending) -> HTTPRequest {
    request(
      .put, .file(name: publishedName(for: sending.path)), headers: wholeFileFields(sending),
      body: sending.body.map { .pinned($0) } ?? .bytes([]),
      limits: HTTPRequestLimits.forBody(of: sending.body?.bytes.count ?? 0),
      sentBytes: sending.sentBytes)
  }

  /// Each file is written as the request that would send it alone.
  private func bundleRequest(_ sendings: [WholeFileSending]) -> HTTPRequest {
    severalRequest(
      .files,
      sendings.map { (.file(name: publishedName(for: $0.path)), wholeFileFields($0), $0.body) },
      sentBytes: sendings.first?.sentBytes)
  }

  /// Several requests in one. The counter is the first one's and counts for all.
  private func severalRequest(
    _ path: ProtocolPath,
    _ members: [(path: ProtocolPath, fields: [(name: String, value: String)], body: (any PinnedBytes)?)],
    sentBytes: SentByteCounter?
  ) -> HTTPRequest {
    var pieces: [HTTPRequest.Body.Piece] = []
    for member in members {
      let head = BundleMemberHead(target: member.path.text, fields: member.fields)
      pieces.append(.bytes(head.encode(contentLength: member.body?.bytes.count ?? 0)))
      if let body = member.body { pieces.append(.pinned(body)) }
    }
    return request(
      .post, path, headers: [(HeaderName.contentType, MediaType.bundle)], body: .pieces(pieces),
      limits: HTTPRequestLimits.forBody(of: pieces.reduce(0) { $0 + $1.byteCount }), sentBytes: sentBytes)
  }

  private func frame(of plain: [UInt8]) -> [UInt8]? {
    let bytesMax = plain.count - Int(Double(plain.count) * UploadConstants.compressionBenefitThreshold) - 1
    guard bytesMax > 0, let compressor = ZstandardCompressor() else { return nil }
    let frame = [UInt8](unsafeUninitializedCapacity: bytesMax) { target, count in
      count =
        plain.withUnsafeBytes { source in
          compressor.compress(
            source, level: UploadConstants.sharedFrameLevel,
            into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(target)[..<bytesMax]))
        } ?? 0
    }
    return frame.isEmpty ? nil : frame
  }

  /// For receivers that cannot tell whose a name is: what this spool has published there may be replaced, and nothing else.
  private func ifExists(_ right: NameRight?) -> IfExists {
    guard let right, right.ifExists != .replace else { return .replace }
    return right.replaces.isEmpty ? .fail : .replace
  }

  /// Without a right, as for the test files of the doctor, whatever has the name gives way.
  private func ownership(_ right: NameRight?) -> NameOwnership {
    guard let right else { return NameOwnership(ifTaken: .replace) }
    let taken: IfTaken =
      switch right.ifExists {
      case .number: .number
      case .refuse: .refuse
      case .replace: .replace
      }
    let claims = right.replaces.flatMap(claims).prefix(NameOwnership.replacesMax)
    return NameOwnership(ifTaken: taken, replaces: Array(claims), publishedAs: right.publishedAs)
  }

  /// With each size that the chunks may have had.
  private func claims(_ publication: EarlierPublication) -> [PublicationClaim] {
    guard let root = Digest32(hex: publication.merkleRoot) else { return [] }
    let sizes = publication.chunkBytes.map { [$0] } ?? chunkSizesOfEarlierVersions(publication.sizeBytes)
    return (sizes.isEmpty ? [nil] : sizes.map { UInt32(exactly: $0) }).map { chunkBytes in
      PublicationClaim(
        fileID: publication.fileID.description, merkleRoot: root, sizeBytes: publication.sizeBytes,
        chunkBytes: chunkBytes)
    }
  }

  /// They did not record it: the size that is set, or the usual one. A file of one chunk has its own.
  private func chunkSizesOfEarlierVersions(_ sizeBytes: UInt64) -> [Int] {
    var sizes: [Int] = []
    for set in [options.wholeFileBytesMax, UploadConstants.chunkBytesDefault] where set > 0 {
      let chunkBytes = max(1, Int(clamping: min(UInt64(set), sizeBytes)))
      let isPossible = sizeBytes / UInt64(chunkBytes) < UInt64(ProtocolLimits.chunkCountMax)
      if isPossible, !sizes.contains(chunkBytes) { sizes.append(chunkBytes) }
    }
    return sizes
  }

  private func wholeFileFields(_ sending: WholeFileSending) -> [(name: String, value: String)] {
    let key = wholeFileKey(sending)
    let headers = chunkHeaders(
      sending.digest, sizeBytes: plainBytes(sending), sending.encoding, index: 0, sessionID: key, nonce: sending.nonce)
    // The key is printable ASCII and short, whatever the file is called, so the fallback is never sent.
    var fields: [(name: String, value: String)] = []
    if let idempotencyKey = IdempotencyKey(text: key) {
      fields =
        FileHeaders(
          idempotencyKey: idempotencyKey, nonce: sending.nonce, modifiedNanoseconds: sending.modifiedNanoseconds,
          mode: sending.mode & 0o7777, fileID: sending.fileID.description, ifExists: ifExists(sending.right),
          ownership: ownership(sending.right)
        ).fields
    }
    return fields + headers.fields + [(HeaderName.contentType, MediaType.octets)]
  }

  /// The Idempotency-Key's text of a whole-file request; also its session id in MAC and chain.
  func wholeFileKey(_ sending: WholeFileSending) -> String {
    let facts =
      "\(publishedName(for: sending.path))\u{0}\(Hex.encode(sending.digest.sha256))\u{0}"
      + "\(sending.modifiedNanoseconds)\u{0}\(sending.mode)"
    return idempotencyKey(
      "\(sending.fileID)-\(sending.revision)-\(Hex.encode(sending.nonce))", covering: Array(facts.utf8))
  }

  /// The key also covers what the request says: a file that was renamed or touched between two tries is another
  /// request, and must not be refused for using the key of the first.
  private func idempotencyKey(_ text: String, covering facts: [UInt8]) -> String {
    "\(text)-\(Hex.encode(Array(sha256(facts).bytes.prefix(8))))"
  }

  private func quoted(_ key: String) -> String {
    IdempotencyKey(text: key)?.headerValue ?? "\"\""
  }

  /// The file's size; without a body there is nothing in it.
  func plainBytes(_ sending: WholeFileSending) -> UInt64 {
    sending.body == nil ? 0 : UInt64(clamping: sending.plainBytes)
  }

  private func protocolEncoding(_ encoding: TransferModel.ChunkEncoding) -> ChunkProtocol.ChunkEncoding {
    switch encoding {
    case .identity: .identity
    case .lz4: .lz4
    case .zstd(let filter): .zstd(filter)
    }
  }

  /// `Content-Digest` is left out: for plain bytes it would repeat the chunk's digest, and for compressed ones it would
  /// cost a second SHA-256 and find nothing that the first does not find after decompression.
  private func chunkHeaders(
    _ digest: ChunkDigest, sizeBytes: UInt64, _ encoding: TransferModel.ChunkEncoding, index: UInt32,
    sessionID: String, nonce: [UInt8]
  ) -> ChunkHeaders {
    let key = ChunkMAC.sessionKey(masterKey: masterKey, nonce: nonce, sessionID: sessionID)
    return ChunkHeaders(
      sha256: digest.sha256, crc32c: digest.crc32c, sizeBytes: sizeBytes,
      encoding: protocolEncoding(encoding),
      mac: ChunkMAC.mac(
        key: key, index: index, sizeBytes: sizeBytes, chunkSHA256: digest.sha256, sessionID: sessionID, nonce: nonce),
      contentSHA256: nil)
  }
}

import ChunkProtocol
public import FileModel
import Integrity
public import TransferModel

extension S3Destination {
  /// The request that carries out a step. There is one address.
  public func request(for step: DestinationStep, at endpoint: EndpointID = .first) -> HTTPRequest {
    begin(step)
    switch step {
    case .querySession(let session), .secureSession(let session): return listRequest(session, after: 0)
    case .chunk(let sending): return copyRequest(sending) ?? partRequest(sending)
    case .abort(let session): return uploadRequest(.delete, session)
    case .openSession, .commit, .wholeFile:
      // Each of them begins with one.
      return followUp(of: step, after: [], at: endpoint) ?? request(.head, key: nil)
    // Several files or chunks in one request are never asked for: they have to be offered.
    case .prewarm, .bundle, .run, .zeros: return request(.head, key: nil)
    }
  }

  /// The rest of a list of parts, probes of objects before and behind a publication, and the request without what the server does not
  /// know, checksums or conditions.
  public func followUp(
    of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID
  ) -> HTTPRequest? {
    switch step {
    case .querySession(let session), .secureSession(let session):
      return responses.last.flatMap { S3PartList($0)?.next }.map { listRequest(session, after: $0) }
    case .commit(let commit):
      switch machine(of: commit, responses).turn {
      case .probe(let key): return request(.head, key: key)
      case .send(_, let condition, _): return completionRequest(commit, condition)
      case .end: return nil
      }
    case .wholeFile(let sending):
      switch machine(of: sending, responses).turn {
      case .probe(let key): return request(.head, key: key)
      case .send(let key, let condition, let withChecksum):
        let checksum = withChecksum ? checksum(for: .object, nonce: sending.nonce) : .none
        return wholeFileRequest(sending, of: key, checksum, condition)
      case .end: return nil
      }
    case .openSession(let opening): return nextOpeningRequest(opening, responses)
    case .chunk(let sending):
      // What cannot be copied is sent.
      guard sending.copied != nil, responses.count == 1, let first = responses.first else { return nil }
      return switch S3CopyEnd(S3Answer(first), to: sending) {
      case .copied, .failed: nil
      case .isUnknown, .isUseless: partRequest(sending)
      }
    case .prewarm, .run, .zeros, .abort, .bundle:
      return nil
    }
  }

  private func nextOpeningRequest(_ opening: SessionOpening, _ responses: [HTTPResponse]) -> HTTPRequest? {
    switch place(of: opening, responses) {
    case .asked(let key): return request(.head, key: key)
    case .unanswered, .none: return nil
    case .found(let search, let answers):
      let key = search.key
      guard !answers.isEmpty else {
        return openingRequest(opening, of: key, checksum(for: .upload, nonce: opening.nonce))
      }
      switch self.answers(to: opening, of: key, answers) {
      case .opened: return nil
      case .refused: return openingRequest(opening, of: key, .none)
      case .ignored(let upload):
        // A server that keeps it without a word would want it with every part: it is asked again in a way that both know.
        guard answers.count == 1 else { return openingRequest(opening, of: key, .none) }
        return uploadRequest(.delete, SessionIdentity(id: upload.sessionID, nonce: []))
      }
    }
  }

  /// Takes an object away; in a bucket with versions the object stays as an older one.
  public func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest? {
    request(.delete, key: publishedName(for: path))
  }

  /// A complete answer may take minutes, while the server sends white space.
  private static let completionTimeout: Duration = .seconds(600)

  // MARK: - Steps

  private func openingRequest(
    _ opening: SessionOpening, of key: String, _ checksum: S3Options.Checksum
  ) -> HTTPRequest {
    var headers = facts(opening.fileID, opening.nonce, opening.modifiedNanoseconds)
    if checksum != .none { headers.append(("x-amz-checksum-algorithm", checksum.rawValue.uppercased())) }
    return request(
      .post, key: key, query: [("uploads", "")], headers: headers, body: .bytes([]))
  }

  private func partRequest(_ sending: ChunkSending) -> HTTPRequest {
    uploadRequest(
      .put, sending.session, query: [("partNumber", "\(sending.index &+ 1)")],
      headers: checksumHeaders(sending.digest, checksum(of: sending.session)), body: .pinned(sending.body),
      sha256: sending.digest.sha256,
      limits: .forBody(of: sending.body.bytes.count), sentBytes: sending.sentBytes)
  }

  /// UploadPartCopy: the server takes the part out of an object; nil where the part is sent.
  private func copyRequest(_ sending: ChunkSending) -> HTTPRequest? {
    guard let source = sending.copied else { return nil }
    let start = UInt64(sending.index) * UInt64(sending.plainBytes)
    let path = "/\(PercentCoding.encode(address.bucket))/\(PercentCoding.encode(source.name, keepsSlashes: true))"
    return uploadRequest(
      .put, sending.session, query: [("partNumber", "\(sending.index &+ 1)")],
      headers: [
        ("x-amz-copy-source", path),
        ("x-amz-copy-source-range", "bytes=\(start)-\(start + UInt64(sending.plainBytes) - 1)"),
        ("x-amz-copy-source-if-match", source.entityTag),
      ], body: .bytes([]), sha256: sha256([]), limits: HTTPRequestLimits(total: Self.completionTimeout))
  }

  private func listRequest(_ session: SessionIdentity, after marker: Int) -> HTTPRequest {
    uploadRequest(.get, session, query: marker == 0 ? [] : [("part-number-marker", "\(marker)")])
  }

  private func completionRequest(_ commit: SessionCommit, _ condition: S3Condition) -> HTTPRequest {
    let checksum = checksum(of: commit.session)
    let parts = commit.chunks.enumerated().map { index, chunk in
      "<Part>\(checksumElement(chunk.digest, checksum))<ETag>\(XMLElement.escape(chunk.token))</ETag>"
        + "<PartNumber>\(index + 1)</PartNumber></Part>"
    }
    let body = Array(
      ("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" + parts.joined()
        + "</CompleteMultipartUpload>").utf8)
    return uploadRequest(
      .post, commit.session,
      headers: [("content-type", "application/xml"), ("x-amz-mp-object-size", "\(commit.sizeBytes)")]
        + condition.headers,
      body: .bytes(body), sha256: sha256(body), limits: HTTPRequestLimits(total: Self.completionTimeout))
  }

  private func wholeFileRequest(
    _ sending: WholeFileSending, of key: String, _ checksum: S3Options.Checksum, _ condition: S3Condition
  ) -> HTTPRequest {
    let root = Hex.encode(sending.proof.merkleRoot)
    return request(
      .put, key: key,
      headers: facts(sending.fileID, sending.nonce, sending.modifiedNanoseconds)
        + [(S3Metadata.merkleRoot, root)] + checksumHeaders(sending.digest, checksum) + condition.headers,
      body: sending.body.map { .pinned($0) } ?? .bytes([]),
      sha256: sending.body == nil ? sha256([]) : sending.digest.sha256,
      limits: .forBody(of: sending.body?.bytes.count ?? 0), sentBytes: sending.sentBytes)
  }

  // MARK: - Parts of requests

  /// What is kept with an object.
  private func facts(_ file: FileID, _ nonce: [UInt8], _ modifiedNanoseconds: Int64) -> [(String, String)] {
    [
      ("content-type", "application/octet-stream"),
      (S3Metadata.modified, DecimalTime.seconds(ofNanoseconds: modifiedNanoseconds)),
      (S3Metadata.file, file.description), (S3Metadata.session, Hex.encode(nonce)),
    ]
  }

  private func checksumHeaders(_ digest: ChunkDigest, _ checksum: S3Options.Checksum) -> [(String, String)] {
    checksum.value(of: digest).map { [(checksum.field, $0)] } ?? []
  }

  private func checksumElement(_ digest: ChunkDigest, _ checksum: S3Options.Checksum) -> String {
    let name = "Checksum\(checksum.rawValue.uppercased())"
    return checksum.value(of: digest).map { "<\(name)>\($0)</\(name)>" } ?? ""
  }

  /// A request that is about a multipart upload. One whose id is none of ours is for an upload that cannot be.
  private func uploadRequest(
    _ method: HTTPRequest.Method, _ session: SessionIdentity, query: [(String, String)] = [],
    headers: [(String, String)] = [], body: HTTPRequest.Body = .none, sha256 payload: Digest32? = nil,
    limits: HTTPRequestLimits = HTTPRequestLimits(), sentBytes: SentByteCounter? = nil
  ) -> HTTPRequest {
    let upload = S3Upload(sessionID: session.id)
    return request(
      method, key: upload?.key ?? "", query: query + [("uploadId", upload?.uploadID ?? session.id)], headers: headers,
      body: body, sha256: payload, limits: limits, sentBytes: sentBytes)
  }

  /// A question about the bucket.
  func bucketRequest(query: [(String, String)]) -> HTTPRequest { request(.get, key: nil, query: query) }

  func request(
    _ method: HTTPRequest.Method, key: String?, query items: [(String, String)] = [],
    headers: [(String, String)] = [], body: HTTPRequest.Body = .none, sha256 payload: Digest32? = nil,
    limits: HTTPRequestLimits = HTTPRequestLimits(), sentBytes: SentByteCounter? = nil
  ) -> HTTPRequest {
    let path = pathStart + "/" + (key.map { PercentCoding.encode($0, keepsSlashes: true) } ?? "")
    let query = S3Query(items.map { (name: $0.0, value: $0.1) })
    let credentials = credentials()
    let time = SigningTime(secondsSince1970: secondsSince1970())
    let payloadSHA256 = Hex.encode(payload ?? Integrity.sha256([]))
    var fields = headers.map { (name: $0.0, value: $0.1) }
    fields.append((name: "x-amz-content-sha256", value: payloadSHA256))
    fields.append((name: "x-amz-date", value: time.timestamp))
    if let token = credentials.sessionToken { fields.append((name: "x-amz-security-token", value: token)) }
    let authorization = signature.authorization(
      for: SignatureV4.Request(
        method: method.rawValue, path: path, query: query, headers: fields + [(name: "host", value: host)],
        payloadSHA256: payloadSHA256),
      at: time, with: credentials)
    let url = urlStart + path + (query.canonicalText.isEmpty ? "" : "?" + query.canonicalText)
    return HTTPRequest(
      method, url, headers: fields.map { HTTPHeader($0.name, $0.value) } + [HTTPHeader("authorization", authorization)],
      body: body, limits: limits, sentBytes: sentBytes)
  }
}

/// The names under which facts are kept with an object.
enum S3Metadata {
  /// Seconds since 1970 with nine decimals, as rclone and s3fs read it.
  static let modified = "x-amz-meta-mtime"
  static let file = "x-amz-meta-uploadfs-file"
  /// The nonce of the session that made the object: proof that it is ours.
  static let session = "x-amz-meta-uploadfs-session"
  /// Of objects that were sent in one request; of others it is only known when their facts can no longer be changed.
  static let merkleRoot = "x-amz-meta-uploadfs-merkle-root"
}

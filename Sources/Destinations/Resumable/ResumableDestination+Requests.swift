import FileModel
import Integrity
import TransferModel

extension ResumableDestination {
  /// Asks what the server takes.
  func optionsRequest() -> HTTPRequest {
    HTTPRequest(.options, address.origin + address.path, headers: [version] + authorization)
  }

  /// A new upload to which nothing belongs yet.
  func creationRequest(_ path: RelativePath, lengthBytes: UInt64?) -> HTTPRequest {
    var headers = [version] + authorization + ContentNaming.fields(path) + [completeness(false)]
    if let lengthBytes { headers.append(HTTPHeader("upload-length", "\(lengthBytes)")) }
    return HTTPRequest(.post, address.origin + address.path, headers: headers, body: .bytes([]))
  }

  /// A file in one request.
  func wholeRequest(_ path: RelativePath, _ body: UploadBody?, sha256: Digest32) -> HTTPRequest {
    let digest = HTTPHeader("repr-digest", "sha-256=:\(Base64.encode(sha256)):")
    let headers =
      [version] + authorization + ContentNaming.fields(path) + [
        completeness(true), HTTPHeader("upload-length", "\(body?.count ?? 0)"), digest,
      ]
    guard let body else {
      return HTTPRequest(.post, address.origin + address.path, headers: headers, body: .bytes([]))
    }
    return HTTPRequest(
      .post, address.origin + address.path, headers: headers + [contentDigest(of: body)], body: .pinned(body.content),
      limits: .forBody(of: body.count), sentBytes: body.sentBytes)
  }

  /// More bytes of an upload, the last ones where they complete it.
  func patchRequest(_ upload: String, _ body: UploadBody, at offset: UInt64, completes: Bool) -> HTTPRequest {
    var request = uploadRequest(
      .patch, upload,
      headers: patchFields(at: offset, completes: completes) + [contentDigest(of: body)], body: .pinned(body.content),
      limits: .forBody(of: body.count), sentBytes: body.sentBytes)
    request.isSentOnce = completes
    return request
  }

  /// Nothing more, which completes an upload. The server may have all of the file to look at before it answers.
  func completionRequest(_ upload: String, lengthBytes: UInt64) -> HTTPRequest {
    var request = uploadRequest(
      .patch, upload, headers: patchFields(at: lengthBytes, completes: true), body: .bytes([]),
      limits: HTTPRequestLimits(total: Self.completionTimeout))
    // Whether the first one was heard decides what a refusal of the second one means.
    request.isSentOnce = true
    return request
  }

  /// How far an upload goes.
  func headRequest(_ upload: String) -> HTTPRequest { uploadRequest(.head, upload) }

  /// An upload is given up.
  func cancellation(of upload: String) -> HTTPRequest { uploadRequest(.delete, upload) }

  private static let completionTimeout: Duration = .seconds(600)

  private func uploadRequest(
    _ method: HTTPRequest.Method, _ upload: String, headers: [HTTPHeader] = [], body: HTTPRequest.Body = .none,
    limits: HTTPRequestLimits = HTTPRequestLimits(), sentBytes: SentByteCounter? = nil
  ) -> HTTPRequest {
    let (url, isOurs) = address.url(of: upload)
    return HTTPRequest(
      method, url, headers: [version] + (isOurs ? authorization : []) + headers, body: body, limits: limits,
      sentBytes: sentBytes)
  }

  private func patchFields(at offset: UInt64, completes: Bool) -> [HTTPHeader] {
    [
      HTTPHeader("content-type", Self.mediaType), HTTPHeader("upload-offset", "\(offset)"), completeness(completes),
    ]
  }

  private var version: HTTPHeader { HTTPHeader("upload-draft-interop-version", "\(Self.interopVersion)") }

  private func completeness(_ isComplete: Bool) -> HTTPHeader {
    HTTPHeader("upload-complete", isComplete ? "?1" : "?0")
  }

  /// RFC 9530: of the bytes that this request carries. A server that looks at it takes none of them, when they are damaged.
  private func contentDigest(of body: UploadBody) -> HTTPHeader {
    let digest = body.isWhole ? body.sha256 : sha256(body.content.bytes)
    return HTTPHeader("content-digest", "sha-256=:\(Base64.encode(digest)):")
  }

  private var authorization: [HTTPHeader] {
    credential.map { [HTTPHeader("authorization", $0.authorization)] } ?? []
  }
}

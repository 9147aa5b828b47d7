import Integrity
import TransferModel

extension TusDestination {
  /// Without a version: it asks for those that there are.
  func optionsRequest() -> HTTPRequest {
    HTTPRequest(.options, address.origin + address.path, headers: authorization)
  }

  /// A new upload; without a length it is for the server to know.
  func creationRequest(
    lengthBytes: UInt64?, headers: [HTTPHeader], body: UploadBody? = nil, _ features: TusFeatures = TusFeatures(),
    limits: HTTPRequestLimits = HTTPRequestLimits()
  ) -> HTTPRequest {
    var headers = [HTTPHeader("tus-resumable", Self.version)] + authorization + headers
    if let lengthBytes { headers.append(HTTPHeader("upload-length", "\(lengthBytes)")) }
    guard let body else {
      return HTTPRequest(.post, address.origin + address.path, headers: headers, body: .bytes([]), limits: limits)
    }
    return HTTPRequest(
      .post, address.origin + address.path, headers: headers + bodyHeaders(body, features), body: .pinned(body.content),
      limits: .forBody(of: body.count), sentBytes: body.sentBytes)
  }

  /// More bytes of an upload.
  func patchRequest(_ upload: String, _ body: UploadBody, at offset: UInt64, _ features: TusFeatures) -> HTTPRequest {
    uploadRequest(
      .patch, upload, headers: bodyHeaders(body, features) + [HTTPHeader("upload-offset", "\(offset)")],
      body: .pinned(body.content), limits: .forBody(of: body.count), sentBytes: body.sentBytes)
  }

  /// Nothing more, and how long the upload is that was begun without a length.
  func declaration(
    of upload: String, lengthBytes: UInt64, limits: HTTPRequestLimits = HTTPRequestLimits()
  ) -> HTTPRequest {
    uploadRequest(
      .patch, upload,
      headers: [
        HTTPHeader("content-type", "application/offset+octet-stream"), HTTPHeader("upload-offset", "\(lengthBytes)"),
        HTTPHeader("upload-length", "\(lengthBytes)"),
      ], body: .bytes([]), limits: limits)
  }

  /// How far an upload goes.
  func headRequest(_ upload: String) -> HTTPRequest { uploadRequest(.head, upload) }

  func uploadRequest(
    _ method: HTTPRequest.Method, _ upload: String, headers: [HTTPHeader] = [], body: HTTPRequest.Body = .none,
    limits: HTTPRequestLimits = HTTPRequestLimits(), sentBytes: SentByteCounter? = nil
  ) -> HTTPRequest {
    let (url, isOurs) = address.url(of: upload)
    return HTTPRequest(
      method, url, headers: [HTTPHeader("tus-resumable", Self.version)] + (isOurs ? authorization : []) + headers,
      body: body, limits: limits, sentBytes: sentBytes)
  }

  private func bodyHeaders(_ body: UploadBody, _ features: TusFeatures) -> [HTTPHeader] {
    [HTTPHeader("content-type", "application/offset+octet-stream")]
      + (checksum(of: body, features.checksum).map { [HTTPHeader("upload-checksum", $0)] } ?? [])
  }

  private func checksum(of body: UploadBody, _ algorithm: TusFeatures.Checksum?) -> String? {
    switch algorithm {
    case nil: nil
    case .sha256: "sha256 \(Base64.encode(body.isWhole ? body.sha256 : sha256(body.content.bytes)))"
    case .sha1: sha1(body.content.bytes).map { "sha1 \(Base64.encode($0))" }
    }
  }

  private var authorization: [HTTPHeader] {
    credential.map { [HTTPHeader("authorization", $0.authorization)] } ?? []
  }
}

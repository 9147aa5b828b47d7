import Integrity
import UploadEngine

/// Bytes to be sent, or the rest of them.
struct TusBody {
  /// All of them.
  let bytes: any PinnedBytes
  /// Of all of them.
  let sha256: [UInt8]
  let sentBytes: SentByteCounter
  /// Where the rest begins.
  private(set) var start = 0

  init(_ bytes: any PinnedBytes, sha256: [UInt8], sentBytes: SentByteCounter) {
    self.bytes = bytes
    self.sha256 = sha256
    self.sentBytes = sentBytes
  }

  var count: Int { bytes.bytes.count }

  func from(_ start: Int) -> TusBody {
    var rest = self
    rest.start = min(max(0, start), count)
    return rest
  }

  /// What is sent.
  var rest: any PinnedBytes { start == 0 ? bytes : PinnedRest(of: bytes, from: start) }
}

/// The end of other bytes, which it keeps in memory.
private final class PinnedRest: PinnedBytes {
  private let whole: any PinnedBytes
  private let start: Int

  init(of whole: any PinnedBytes, from start: Int) {
    self.whole = whole
    self.start = start
  }

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: whole.bytes[start...]) }
}

extension TusDestination {
  /// Without a version: it asks for those that there are.
  func optionsRequest() -> HTTPRequest {
    HTTPRequest(.options, address.origin + address.path, headers: authorization)
  }

  /// A new upload; without a length it is for the server to know.
  func creationRequest(
    lengthBytes: UInt64?, headers: [HTTPHeader], body: TusBody? = nil, _ features: TusFeatures = TusFeatures(),
    limits: HTTPRequestLimits = HTTPRequestLimits()
  ) -> HTTPRequest {
    var headers = [HTTPHeader("tus-resumable", Self.version)] + authorization + headers
    if let lengthBytes { headers.append(HTTPHeader("upload-length", "\(lengthBytes)")) }
    guard let body else {
      return HTTPRequest(.post, address.origin + address.path, headers: headers, body: .bytes([]), limits: limits)
    }
    return HTTPRequest(
      .post, address.origin + address.path, headers: headers + bodyHeaders(body, features), body: .pinned(body.rest),
      limits: .forBody(of: body.count), sentBytes: body.sentBytes)
  }

  /// More bytes of an upload.
  func patchRequest(_ upload: String, _ body: TusBody, at offset: UInt64, _ features: TusFeatures) -> HTTPRequest {
    uploadRequest(
      .patch, upload, headers: bodyHeaders(body, features) + [HTTPHeader("upload-offset", "\(offset)")],
      body: .pinned(body.rest), limits: .forBody(of: body.count - body.start), sentBytes: body.sentBytes)
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

  private func bodyHeaders(_ body: TusBody, _ features: TusFeatures) -> [HTTPHeader] {
    [HTTPHeader("content-type", "application/offset+octet-stream")]
      + (checksum(of: body, features.checksum).map { [HTTPHeader("upload-checksum", $0)] } ?? [])
  }

  private func checksum(of body: TusBody, _ algorithm: TusFeatures.Checksum?) -> String? {
    switch algorithm {
    case nil: nil
    case .sha256: "sha256 \(Base64.encode(body.start == 0 ? body.sha256 : sha256(body.rest.bytes)))"
    case .sha1: sha1(body.rest.bytes).map { "sha1 \(Base64.encode($0))" }
    }
  }

  private var authorization: [HTTPHeader] {
    credential.map { [HTTPHeader("authorization", $0.authorization)] } ?? []
  }
}

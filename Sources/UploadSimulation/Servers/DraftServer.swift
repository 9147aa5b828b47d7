import ChunkProtocol
import Integrity
import OrderedCollections
import TransferModel

/// Resumable uploads as in draft-ietf-httpbis-resumable-upload-10 (interop version 8).
struct DraftServer: ForeignProtocol {
  private struct Upload {
    var bytes: [UInt8] = []
    var lengthBytes: Int?
    var name: String
    var isComplete = false
  }

  let origin: String
  /// A complete upload is dropped at once.
  let forgetsComplete: Bool
  var publications: [ForeignPublication] = []
  private var uploads: OrderedDictionary<String, Upload> = [:]
  private var count = 0

  init(origin: String, forgetsComplete: Bool) {
    self.origin = origin
    self.forgetsComplete = forgetsComplete
  }

  var leftovers: [String] { [] }

  mutating func expire() { uploads = [:] }

  func lengthBytes(of request: ForeignRequest) -> Int? {
    uploads[String(request.path)]?.lengthBytes ?? request.number("upload-length")
  }

  mutating func broke(_ request: ForeignRequest) {
    guard !request.body.isEmpty, request.field("content-digest") == nil else { return }
    // The bytes that have arrived stay, and an upload that breaks off is not complete.
    _ = request.method == "PATCH" ? append(request, isWhole: false) : create(request, isWhole: false)
  }

  mutating func answer(_ request: ForeignRequest) -> HTTPResponse {
    if request.method == "OPTIONS" {
      return HTTPResponse(
        status: 204,
        headers: [
          HTTPHeader("accept-patch", "application/partial-upload"), HTTPHeader("upload-limit", "min-size=0"),
          HTTPHeader("upload-draft-interop-version", "8"),
        ])
    }
    switch request.method {
    case "POST": return create(request, isWhole: true)
    case "HEAD":
      guard let upload = uploads[String(request.path)] else { return HTTPResponse(status: 404) }
      return HTTPResponse(status: 204, headers: state(upload))
    case "PATCH": return append(request, isWhole: true)
    case "DELETE": return HTTPResponse(status: uploads.removeValue(forKey: String(request.path)) == nil ? 404 : 204)
    default: return HTTPResponse(status: 405)
    }
  }

  func lie(_ lie: ServerLie, about request: ForeignRequest, _ honest: HTTPResponse?) -> HTTPResponse? {
    let upload = uploads[String(request.path)]
    let isOfUpload = request.method == "PATCH" || request.method == "HEAD" && upload != nil
    switch lie {
    case .deniesUpload where request.method == "PATCH", .deniesUploads where isOfUpload:
      return HTTPResponse(
        status: request.body.count.isMultiple(of: 2) ? 404 : 410,
        headers: [HTTPHeader("upload-draft-interop-version", "8")])
    case .deniesParts where request.method == "PATCH":
      return upload.map { problem("mismatching-upload-offset", 409, $0) }
    case .failsAtTheEnd where request.field("upload-complete") == "?1":
      // The server's part of the upload has another length than declared.
      return upload.map { problem("inconsistent-upload-length", 400, $0) }
    case .misnames: return honest.flatMap(ServerLie.beyond)
    default: return nil
    }
  }

  private mutating func create(_ request: ForeignRequest, isWhole: Bool) -> HTTPResponse {
    guard isUndamaged(request) else { return HTTPResponse(status: 400) }
    count += 1
    let place = "/uploads/\(count)"
    uploads[place] = Upload(
      bytes: request.body, lengthBytes: request.number("upload-length"), name: name(in: request))
    return end(place, request, isWhole: isWhole, status: 201, [HTTPHeader("location", place)])
  }

  private mutating func append(_ request: ForeignRequest, isWhole: Bool) -> HTTPResponse {
    let place = String(request.path)
    guard let upload = uploads[place] else { return HTTPResponse(status: 404) }
    guard !upload.isComplete else { return problem("completed-upload", 400, upload) }
    guard request.number("upload-offset") == upload.bytes.count else {
      return problem("mismatching-upload-offset", 409, upload)
    }
    guard isUndamaged(request) else { return HTTPResponse(status: 400) }
    guard upload.bytes.count + request.body.count <= upload.lengthBytes ?? .max else {
      return problem("inconsistent-upload-length", 400, upload)
    }
    uploads[place]?.bytes += request.body
    return end(place, request, isWhole: isWhole, status: 204, [])
  }

  private mutating func end(
    _ place: String, _ request: ForeignRequest, isWhole: Bool, status: Int, _ headers: [HTTPHeader]
  ) -> HTTPResponse {
    guard var upload = uploads[place] else { return HTTPResponse(status: 404) }
    if isWhole, request.field("upload-complete") == "?1" {
      guard upload.lengthBytes ?? upload.bytes.count == upload.bytes.count else {
        return problem("inconsistent-upload-length", 400, upload)
      }
      upload.isComplete = true
      uploads[place] = forgetsComplete ? nil : upload
      publications.append(ForeignPublication(name: upload.name, bytes: upload.bytes, receipt: origin + place))
      return HTTPResponse(status: status == 204 ? 200 : status, headers: headers + state(upload))
    }
    return HTTPResponse(status: status, headers: headers + state(upload))
  }

  private func state(_ upload: Upload) -> [HTTPHeader] {
    [
      HTTPHeader("upload-offset", "\(upload.bytes.count)"),
      HTTPHeader("upload-complete", upload.isComplete ? "?1" : "?0"),
    ] + (upload.lengthBytes.map { [HTTPHeader("upload-length", "\($0)")] } ?? [])
  }

  private func problem(_ name: String, _ status: Int, _ upload: Upload) -> HTTPResponse {
    HTTPResponse(
      status: status,
      headers: [HTTPHeader("content-type", "application/problem+json")] + state(upload),
      body: Array("{\"type\":\"https://iana.org/assignments/http-problem-types#\(name)\"}".utf8))
  }

  private func isUndamaged(_ request: ForeignRequest) -> Bool {
    guard let digest = request.field("content-digest") else { return true }
    return digest == "sha-256=:\(Base64.encode(sha256(request.body))):"
  }

  private func name(in request: ForeignRequest) -> String {
    PublishedName.encode((request.field("slug") ?? "").percentDecoded)
  }
}

import ChunkProtocol
import Integrity
import OrderedCollections
import TransferModel

/// The parts of S3 that an upload needs: objects, and multipart uploads whose parts are listed in short pages.
struct S3Server: ForeignProtocol {
  private struct Part {
    var bytes: [UInt8]
    var tag: String
  }

  private struct Upload {
    var key: String
    var facts: [HTTPHeader]
    var parts: OrderedDictionary<Int, Part> = [:]
  }

  private struct Object {
    var bytes: [UInt8]
    var facts: [HTTPHeader]
    var tag: String
  }

  /// The result of a request to copy a part from an object.
  enum Copying: CaseIterable {
    case known
    /// The object is copied without its condition.
    case unconditional
    case refused
    case failing
    /// The empty body becomes the part.
    case ignored
  }

  private static let pageParts = 3

  let bucket = "/bucket/"
  /// Ceph 16 ignores some.
  var keepsConditions = true
  var copying = Copying.known
  var publications: [ForeignPublication] = []
  private var uploads: OrderedDictionary<String, Upload> = [:]
  private var objects: OrderedDictionary<String, Object> = [:]
  private var count = 0

  var leftovers: [String] { [] }

  mutating func expire() { uploads = [:] }
  mutating func broke(_ request: ForeignRequest) {}

  mutating func answer(_ request: ForeignRequest) -> HTTPResponse {
    if request.field("x-amz-content-sha256").map({ $0 != Hex.encode(sha256(request.body)) }) ?? true {
      return error(400, "XAmzContentSHA256Mismatch")
    }
    guard request.path.hasPrefix(bucket) else { return HTTPResponse(status: request.method == "HEAD" ? 200 : 404) }
    let key = String(decoding: String(request.path.dropFirst(bucket.count)).percentDecoded, as: UTF8.self)
    switch (request.method, request.parameter("uploadId").map(String.init)) {
    case ("POST", nil) where request.parameter("uploads") != nil: return initiate(key, request)
    case ("PUT", nil): return put(key, request)
    case ("HEAD", nil): return look(key)
    case ("PUT", let id?): return putPart(id, request)
    case ("GET", let id?): return list(id, request)
    case ("POST", let id?): return complete(id, request)
    case ("DELETE", let id?):
      return uploads.removeValue(forKey: id) == nil ? error(404, "NoSuchUpload") : HTTPResponse(status: 204)
    default: return HTTPResponse(status: request.method == "HEAD" ? 200 : 405)
    }
  }

  func lie(_ lie: ServerLie, about request: ForeignRequest, _ honest: HTTPResponse?) -> HTTPResponse? {
    guard request.parameter("uploadId") != nil else { return nil }
    let completes = request.method == "POST"
    switch lie {
    case .deniesUpload, .deniesUploads: return error(404, "NoSuchUpload")
    case .deniesParts: return completes ? error(400, "InvalidPart") : nil
    case .failsAtTheEnd:
      return completes ? xml("<Error><Code>InternalError</Code><Message>no</Message></Error>") : nil
    case .misnames: return completes ? nil : honest.map(misnaming)
    default: return nil
    }
  }

  private func misnaming(_ response: HTTPResponse) -> HTTPResponse {
    var response = response
    response.headers = response.headers.map {
      $0.name == "etag" ? HTTPHeader("etag", "\"x" + $0.value.dropFirst()) : $0
    }
    let text = String(decoding: response.body, as: UTF8.self)
    response.body = Array(text.replacing("<ETag>\"", with: "<ETag>\"x").utf8)
    return response
  }

  private mutating func fresh(_ kind: String) -> String {
    count += 1
    return "\(kind)\(count)"
  }

  // MARK: Objects

  private mutating func put(_ key: String, _ request: ForeignRequest) -> HTTPResponse {
    refusal(of: key, request) ?? publish(key, request.body, facts(in: request))
  }

  /// The result of a request's condition, if it has one.
  private func refusal(of key: String, _ request: ForeignRequest) -> HTTPResponse? {
    guard keepsConditions else { return nil }
    let tag = objects[key].map { "\"\($0.tag)\"" }
    if let wanted = request.field("if-match"), wanted != tag {
      return tag == nil ? error(404, "NoSuchKey") : error(412, "PreconditionFailed")
    }
    return request.field("if-none-match") != nil && tag != nil ? error(412, "PreconditionFailed") : nil
  }

  private mutating func publish(_ key: String, _ bytes: [UInt8], _ facts: [HTTPHeader]) -> HTTPResponse {
    let tag = fresh("e")
    objects[key] = Object(bytes: bytes, facts: facts, tag: tag)
    publications.append(ForeignPublication(name: key, bytes: bytes, receipt: tag))
    return HTTPResponse(status: 200, headers: [HTTPHeader("etag", "\"\(tag)\"")])
  }

  private func look(_ key: String) -> HTTPResponse {
    guard let object = objects[key] else { return HTTPResponse(status: 404) }
    return HTTPResponse(
      status: 200,
      headers: [
        HTTPHeader("etag", "\"\(object.tag)\""), HTTPHeader("content-length", "\(object.bytes.count)"),
      ] + object.facts)
  }

  // MARK: Multipart uploads

  private mutating func initiate(_ key: String, _ request: ForeignRequest) -> HTTPResponse {
    let id = fresh("u")
    uploads[id] = Upload(key: key, facts: facts(in: request))
    return xml(
      "<InitiateMultipartUploadResult><Key>\(key)</Key><UploadId>\(id)</UploadId></InitiateMultipartUploadResult>")
  }

  private mutating func putPart(_ id: String, _ request: ForeignRequest) -> HTTPResponse {
    guard uploads[id] != nil else { return error(404, "NoSuchUpload") }
    guard let number = request.parameter("partNumber").flatMap({ Int($0) }) else {
      return error(400, "InvalidArgument")
    }
    if request.field("x-amz-copy-source") != nil, copying != .ignored { return copyPart(number, of: id, request) }
    let tag = tag(of: request.body)
    uploads[id]?.parts[number] = Part(bytes: request.body, tag: tag)
    return HTTPResponse(status: 200, headers: [HTTPHeader("etag", tag)])
  }

  /// As long as an MD5, and distinguished by the bytes.
  private func tag(of bytes: [UInt8]) -> String { "\"\(Hex.encode(Array(sha256(bytes).bytes.prefix(16))))\"" }

  private mutating func copyPart(_ number: Int, of id: String, _ request: ForeignRequest) -> HTTPResponse {
    guard copying != .refused else { return error(501, "NotImplemented") }
    guard copying != .failing else { return error(500, "InternalError") }
    let source = request.field("x-amz-copy-source") ?? ""
    let bounds = (request.field("x-amz-copy-source-range") ?? "").dropFirst("bytes=".count).split(separator: "-")
      .compactMap { Int($0) }
    guard source.hasPrefix(bucket), bounds.count == 2, bounds[0] <= bounds[1] else {
      return error(400, "InvalidArgument")
    }
    let key = String(decoding: String(source.dropFirst(bucket.count)).percentDecoded, as: UTF8.self)
    guard let object = objects[key] else { return error(404, "NoSuchKey") }
    if copying == .known, request.field("x-amz-copy-source-if-match") != "\"\(object.tag)\"" {
      return error(412, "PreconditionFailed")
    }
    guard bounds[1] < object.bytes.count else { return error(400, "InvalidRange") }
    let bytes = Array(object.bytes[bounds[0]...bounds[1]])
    let tag = tag(of: bytes)
    uploads[id]?.parts[number] = Part(bytes: bytes, tag: tag)
    return xml("<CopyPartResult><ETag>\(tag)</ETag></CopyPartResult>")
  }

  private func list(_ id: String, _ request: ForeignRequest) -> HTTPResponse {
    guard let upload = uploads[id] else { return error(404, "NoSuchUpload") }
    let after = request.parameter("part-number-marker").flatMap { Int($0) } ?? 0
    let rest = upload.parts.keys.sorted().filter { $0 > after }
    let page = rest.prefix(Self.pageParts)
    let parts = page.map { number in
      "<Part><PartNumber>\(number)</PartNumber><ETag>\(upload.parts[number]?.tag ?? "")</ETag></Part>"
    }
    return xml(
      "<ListPartsResult>\(parts.joined())<IsTruncated>\(rest.count > page.count)</IsTruncated>"
        + "<NextPartNumberMarker>\(page.last ?? 0)</NextPartNumberMarker></ListPartsResult>")
  }

  private mutating func complete(_ id: String, _ request: ForeignRequest) -> HTTPResponse {
    guard let upload = uploads[id] else { return error(404, "NoSuchUpload") }
    let text = String(decoding: request.body, as: UTF8.self)
    var bytes: [UInt8] = []
    var last = 0
    for piece in text.split(separator: "<Part>").dropFirst() {
      guard let number = element("PartNumber", piece).flatMap({ Int($0) }), number > last,
        let part = upload.parts[number], let tag = element("ETag", piece),
        tag.replacing("&quot;", with: "\"").replacing("&#34;", with: "\"") == part.tag
      else { return error(400, "InvalidPart") }
      bytes += part.bytes
      last = number
    }
    guard last > 0 else { return error(400, "MalformedXML") }
    if let refusal = refusal(of: upload.key, request) { return refusal }
    uploads[id] = nil
    let tag = publish(upload.key, bytes, upload.facts).header("etag") ?? ""
    return xml("<CompleteMultipartUploadResult><ETag>\(tag)</ETag></CompleteMultipartUploadResult>")
  }

  // MARK: Parts of messages

  private func facts(in request: ForeignRequest) -> [HTTPHeader] {
    ["x-amz-meta-uploadfs-session", "x-amz-meta-uploadfs-file", "x-amz-meta-uploadfs-merkle-root"].compactMap { name in
      request.field(name).map { HTTPHeader(name, $0) }
    }
  }

  private func element(_ name: String, _ text: Substring) -> String? {
    guard let start = text.firstRange(of: "<\(name)>"), let end = text.firstRange(of: "</\(name)>") else { return nil }
    return String(text[start.upperBound..<end.lowerBound])
  }

  private func xml(_ text: String) -> HTTPResponse {
    HTTPResponse(status: 200, headers: [HTTPHeader("content-type", "application/xml")], body: Array(text.utf8))
  }

  private func error(_ status: Int, _ code: String) -> HTTPResponse {
    HTTPResponse(
      status: status, headers: [HTTPHeader("content-type", "application/xml")],
      body: Array("<Error><Code>\(code)</Code><Message>no</Message></Error>".utf8))
  }
}

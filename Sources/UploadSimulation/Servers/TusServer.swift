import ChunkProtocol
import Integrity
import OrderedCollections
import TransferModel

/// tus 1.0.0 as specified (https://tus.io/protocols/resumable-upload), with the extensions that it is given.
struct TusServer: ForeignProtocol {
  private enum Kind: Equatable {
    case single, partial
    case joined([String])
  }

  private struct Upload {
    var kind: Kind
    var bytes: [UInt8] = []
    var lengthBytes: Int?
    var name: String
    var isPublished = false

    var isComplete: Bool { bytes.count == lengthBytes }
  }

  static let extensions = [
    "creation-with-upload", "creation-defer-length", "concatenation", "concatenation-unfinished", "termination",
    "checksum",
  ]

  let origin: String
  let extensions: [String]
  /// A single upload is removed as soon as it is complete.
  let forgetsComplete: Bool
  var publications: [ForeignPublication] = []
  private var uploads: OrderedDictionary<String, Upload> = [:]
  private var count = 0

  init(origin: String, extensions: [String], forgetsComplete: Bool) {
    self.origin = origin
    self.extensions = extensions
    self.forgetsComplete = forgetsComplete
  }

  var leftovers: [String] { [] }

  mutating func expire() { uploads.removeAll { !$0.value.isPublished } }

  func lengthBytes(of request: ForeignRequest) -> Int? {
    uploads[String(request.path)]?.lengthBytes ?? request.number("upload-length")
  }

  mutating func broke(_ request: ForeignRequest) {
    guard request.method == "PATCH" || request.method == "POST" && knows("creation-with-upload"),
      !request.body.isEmpty, request.field("upload-checksum") == nil
    else { return }
    // The bytes that have arrived stay, and the client does not learn the address of the created upload.
    _ = request.method == "PATCH" ? append(request) : create(request)
  }

  mutating func answer(_ request: ForeignRequest) -> HTTPResponse {
    var response: HTTPResponse
    switch request.method {
    case "OPTIONS":
      let algorithms = knows("checksum") ? [HTTPHeader("tus-checksum-algorithm", "md5,sha256")] : []
      response = HTTPResponse(
        status: 204,
        headers: [
          HTTPHeader("tus-version", "1.0.0"),
          HTTPHeader("tus-extension", (["creation"] + extensions).joined(separator: ",")),
        ] + algorithms)
    case _ where request.field("tus-resumable") != "1.0.0": response = HTTPResponse(status: 412)
    case "POST": response = create(request)
    case "HEAD": response = look(request)
    case "PATCH": response = append(request)
    case "DELETE":
      guard knows("termination") else { return HTTPResponse(status: 405) }
      response = HTTPResponse(status: uploads.removeValue(forKey: String(request.path)) == nil ? 404 : 204)
    default: response = HTTPResponse(status: 405)
    }
    response.headers.append(HTTPHeader("tus-resumable", "1.0.0"))
    return response
  }

  func lie(_ lie: ServerLie, about request: ForeignRequest, _ honest: HTTPResponse?) -> HTTPResponse? {
    let isOfUpload = request.method == "PATCH" || request.method == "HEAD" && uploads[String(request.path)] != nil
    let joins = request.field("upload-concat")?.hasPrefix("final") == true
    let isLast = request.method == "PATCH" && honest?.header("upload-offset") != nil
    switch lie {
    case .deniesUpload where request.method == "PATCH", .deniesUploads where isOfUpload:
      return ownWord(request.body.count.isMultiple(of: 2) ? 404 : 410)
    case .deniesParts where joins: return ownWord(404)
    case .failsAtTheEnd where joins || isLast: return ownWord(500)
    case .misnames: return honest.flatMap(ServerLie.beyond)
    default: return nil
    }
  }

  private func ownWord(_ status: Int) -> HTTPResponse {
    HTTPResponse(status: status, headers: [HTTPHeader("tus-resumable", "1.0.0")])
  }

  private func knows(_ name: String) -> Bool { extensions.contains(name) }

  // MARK: Requests

  private mutating func create(_ request: ForeignRequest) -> HTTPResponse {
    guard isUndamaged(request) else { return HTTPResponse(status: 460) }
    var upload = Upload(kind: .single, lengthBytes: request.number("upload-length"), name: name(in: request))
    if let concat = request.field("upload-concat") {
      guard knows("concatenation") else { return HTTPResponse(status: 400) }
      if concat == "partial" {
        upload.kind = .partial
      } else {
        let parts = concat.drop { $0 != ";" }.dropFirst().split(separator: " ").map(path)
        let known = parts.compactMap { uploads[$0] }
        guard known.count == parts.count else { return HTTPResponse(status: 404) }
        guard knows("concatenation-unfinished") || known.allSatisfy(\.isComplete) else {
          return HTTPResponse(status: 400)
        }
        upload.kind = .joined(parts)
      }
    }
    if upload.lengthBytes == nil, upload.kind == .single || upload.kind == .partial {
      guard knows("creation-defer-length"), request.field("upload-defer-length") == "1" else {
        return HTTPResponse(status: 400)
      }
    }
    count += 1
    let place = "/files/\(count)"
    var headers = [HTTPHeader("location", place)]
    if !request.body.isEmpty, knows("creation-with-upload") {
      upload.bytes = Array(request.body.prefix(upload.lengthBytes ?? .max))
      headers.append(HTTPHeader("upload-offset", "\(upload.bytes.count)"))
    }
    uploads[place] = upload
    complete(place)
    return HTTPResponse(status: 201, headers: headers)
  }

  private func look(_ request: ForeignRequest) -> HTTPResponse {
    guard let upload = uploads[String(request.path)] else { return HTTPResponse(status: 404) }
    var headers = [HTTPHeader("cache-control", "no-store")]
    if let length = upload.lengthBytes {
      headers.append(HTTPHeader("upload-length", "\(length)"))
    } else {
      headers.append(HTTPHeader("upload-defer-length", "1"))
    }
    let isOpen = if case .joined = upload.kind { !upload.isComplete } else { false }
    if !isOpen { headers.append(HTTPHeader("upload-offset", "\(upload.bytes.count)")) }
    return HTTPResponse(status: 200, headers: headers)
  }

  private mutating func append(_ request: ForeignRequest) -> HTTPResponse {
    let place = String(request.path)
    guard var upload = uploads[place] else { return HTTPResponse(status: 404) }
    if case .joined = upload.kind { return HTTPResponse(status: 403) }
    guard request.number("upload-offset") == upload.bytes.count else { return HTTPResponse(status: 409) }
    if let length = request.number("upload-length") {
      guard upload.lengthBytes ?? length == length, length >= upload.bytes.count else {
        return HTTPResponse(status: 400)
      }
      upload.lengthBytes = length
    }
    guard isUndamaged(request) else { return HTTPResponse(status: 460) }
    guard upload.bytes.count + request.body.count <= upload.lengthBytes ?? .max else {
      return HTTPResponse(status: 413)
    }
    upload.bytes += request.body
    uploads[place] = upload
    complete(place)
    return HTTPResponse(status: 204, headers: [HTTPHeader("upload-offset", "\(upload.bytes.count)")])
  }

  // MARK: What is complete

  private mutating func complete(_ place: String) {
    for (key, upload) in uploads where key == place || isJoined(upload, from: place) {
      var upload = upload
      if case .joined(let parts) = upload.kind {
        let known = parts.compactMap { uploads[$0] }
        guard !upload.isPublished, known.count == parts.count, known.allSatisfy(\.isComplete) else { continue }
        upload.bytes = known.flatMap(\.bytes)
        upload.lengthBytes = upload.bytes.count
      }
      guard upload.isComplete, upload.kind != .partial, !upload.isPublished else { continue }
      upload.isPublished = true
      uploads[key] = upload
      publications.append(ForeignPublication(name: upload.name, bytes: upload.bytes, receipt: origin + key))
      if forgetsComplete, upload.kind == .single { uploads.removeValue(forKey: key) }
    }
  }

  private func isJoined(_ upload: Upload, from place: String) -> Bool {
    if case .joined(let parts) = upload.kind { parts.contains(place) } else { false }
  }

  // MARK: Parts of requests

  private func path(_ text: Substring) -> String {
    text.hasPrefix(origin) ? String(text.dropFirst(origin.count)) : String(text)
  }

  private func isUndamaged(_ request: ForeignRequest) -> Bool {
    guard let checksum = request.field("upload-checksum") else { return true }
    return checksum == "sha256 \(Base64.encode(sha256(request.body)))"
  }

  private func name(in request: ForeignRequest) -> String {
    for entry in (request.field("upload-metadata") ?? "").split(separator: ",") {
      let words = entry.split(separator: " ")
      guard words.first == "relativePath", words.count == 2 else { continue }
      return PublishedName.encode(Base64.decode(String(words[1])) ?? [])
    }
    return ""
  }
}

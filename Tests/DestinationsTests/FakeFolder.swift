import ChunkProtocol
import Integrity
import TransferModel

@testable import Destinations

/// A WebDAV server of which every request is noted, and which refuses what RFC 4918 has no meaning for.
final class FakeFolder {
  struct File: Equatable {
    var bytes: Int
    var tag: String
    var mark: String?
  }

  static let origin = "https://dav.example.org"

  /// By their names below the address's folder.
  var files: [String: File] = [:]
  var folders: Set<String> = [""]
  /// Methods and names, a condition before them.
  private(set) var requests: [String] = []
  var keepsMarks = true
  var keepsConditions = true
  var givesTags = true
  var takesPaths = true
  /// Known to itself without TLS.
  var isBehindProxy = false
  /// So many bytes are lost of what is sent.
  var lostBytes = 0
  /// What it says of every file's digest.
  var checksum: String?
  /// Answered in the place of what it would do.
  var refusals: [String: Int] = [:]
  /// What else happens once a request with this name has been answered.
  var meanwhile: [String: () -> Void] = [:]
  private var count = 0

  func put(_ name: String, bytes: Int = 3, mark: String? = nil) {
    count += 1
    files[name] = File(bytes: bytes, tag: "\"t\(count)\"", mark: mark)
  }

  var published: [String] { files.keys.filter { !$0.contains(".uploadfs-") }.sorted() }
  var temporary: [String] { files.keys.filter { $0.contains(".uploadfs-") }.sorted() }

  /// Does a step as the engine does. `answersMax` requests are answered, and the answer to the next one is lost.
  func run(
    _ step: DestinationStep, at destination: WebDAVDestination, answersMax: Int = 100,
    error: TransportError = TransportError(.connectionLost, "lost")
  ) -> StepOutcome {
    requests = []
    var responses = [answer(destination.request(for: step))]
    guard answersMax > 0 else { return destination.outcome(of: step, lost: error) }
    while responses.count < 100, let next = destination.followUp(of: step, after: responses, at: .first) {
      let response = answer(next)
      guard responses.count < answersMax else {
        return destination.outcome(of: step, lost: error, after: responses)
      }
      responses.append(response)
    }
    return destination.outcome(of: step, responses: responses)
  }

  private func answer(_ request: HTTPRequest) -> HTTPResponse {
    let path = request.url.dropFirst(Self.origin.count)
    let isFolder = path.hasSuffix("/")
    let name = PercentCoding.decode(path.dropFirst("/dav/".count).drop { $0 == "/" }) ?? "?"
    let plain = isFolder && !name.isEmpty ? String(name.dropLast()) : name
    let shown = plain.contains(".uploadfs-") ? "upload" : plain
    let condition = (request.header("Overwrite").map { "\($0) " } ?? "") + (request.header("If") == nil ? "" : "if ")
    requests.append("\(condition)\(request.method.rawValue) \(shown)")
    defer { meanwhile.removeValue(forKey: requests.last ?? "")?() }
    if let status = refusals[request.method.rawValue] { return HTTPResponse(status: status) }
    switch request.method {
    case .options: return HTTPResponse(status: 200)
    case .propfind: return look(plain)
    case .proppatch:
      if keepsMarks { files[plain]?.mark = Self.mark(in: request.body.content) }
      return HTTPResponse(status: 207)
    case .mkcol: return make(plain, isFolder)
    case .put:
      guard folders.contains(Self.folder(of: plain)) else { return HTTPResponse(status: 409) }
      put(plain, bytes: request.body.byteCount - lostBytes)
      return HTTPResponse(status: 201)
    case .move: return move(plain, request)
    case .delete: return HTTPResponse(status: files.removeValue(forKey: plain) == nil ? 404 : 204)
    case .head, .get, .post, .patch: return HTTPResponse(status: 405)
    }
  }

  private func look(_ name: String) -> HTTPResponse {
    if folders.contains(name) {
      return multistatus("<D:resourcetype><D:collection/></D:resourcetype>")
    }
    guard let file = files[name] else { return HTTPResponse(status: 404) }
    let tag = givesTags ? "<D:getetag>\(XMLElement.escape(file.tag))</D:getetag>" : ""
    let mark = file.mark.map { "<uploadfs-upload xmlns=\"urn:uploadfs\">\($0)</uploadfs-upload>" } ?? ""
    let digest =
      checksum.map {
        "<o:checksums xmlns:o=\"http://owncloud.org/ns\"><o:checksum>\($0)</o:checksum></o:checksums>"
      } ?? ""
    return multistatus(
      "<D:resourcetype/><D:getcontentlength>\(file.bytes)</D:getcontentlength>"
        + "<D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>\(tag)\(mark)\(digest)")
  }

  private func multistatus(_ properties: String) -> HTTPResponse {
    Fixture.answer(
      207,
      text: "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/</D:href><D:propstat><D:prop>"
        + "\(properties)</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat><D:prop><D:x/></D:prop>"
        + "<D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response></D:multistatus>")
  }

  private func make(_ name: String, _ hasSlash: Bool) -> HTTPResponse {
    if folders.contains(name) || files[name] != nil { return HTTPResponse(status: 405) }
    guard hasSlash, folders.contains(Self.folder(of: name)) else { return HTTPResponse(status: 409) }
    folders.insert(name)
    return HTTPResponse(status: 201)
  }

  private func move(_ name: String, _ request: HTTPRequest) -> HTTPResponse {
    guard let file = files[name], let destination = request.header("Destination") else {
      return HTTPResponse(status: 404)
    }
    let start = isBehindProxy ? Self.origin.replacing("https", with: "http") : Self.origin
    guard takesPaths || !destination.hasPrefix("/") else { return HTTPResponse(status: 400) }
    guard destination.hasPrefix("/") || destination.hasPrefix(start) else { return HTTPResponse(status: 502) }
    let path = destination.hasPrefix("/") ? destination[...] : destination.dropFirst(start.count)
    let target = PercentCoding.decode(path.dropFirst("/dav/".count)) ?? "?"
    if let condition = request.header("If") {
      guard keepsConditions, condition == "<\(destination)> ([\(files[target]?.tag ?? "")])" else {
        return HTTPResponse(status: 412)
      }
    }
    let isTaken = files[target] != nil || folders.contains(target)
    guard !isTaken || request.header("Overwrite") == "T" else { return HTTPResponse(status: 412) }
    // RFC 4918, 9.9.3: with all that is in it.
    folders.remove(target)
    files[name] = nil
    files[target] = file
    return HTTPResponse(status: isTaken ? 204 : 201)
  }

  private static func folder(of name: String) -> String {
    name.lastIndex(of: "/").map { String(name[..<$0]) } ?? ""
  }

  private static func mark(in body: [UInt8]) -> String? {
    XMLElement(body)?.child("set")?.child("prop")?.child("uploadfs-upload")?.text
  }
}

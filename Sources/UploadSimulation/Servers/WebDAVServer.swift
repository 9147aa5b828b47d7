import ChunkProtocol
import OrderedCollections
import TransferModel

/// The parts of WebDAV that an upload needs: folders, files, conditions, which some servers do not know, and the
/// property that names the upload that made a file. Without that a capture gets a number where its client was killed
/// before it had the answer (docs/destinations.md, DE163).
struct WebDAVServer: ForeignProtocol {
  private struct File {
    var bytes: [UInt8]
    var tag: String
    var mark: String?
  }

  private static let root = "/dav/"

  var keepsConditions = true
  var publications: [ForeignPublication] = []
  private var files: OrderedDictionary<String, File> = [:]
  private var folders: OrderedSet<String> = [""]
  private var count = 0

  /// The remains of a killed client are handled with its next content.
  var leftovers: [String] { [] }

  mutating func expire() {}

  /// The beginning of a body stays (WsgiDAV).
  mutating func broke(_ request: ForeignRequest) {
    guard request.method == "PUT" else { return }
    _ = answer(request)
  }

  mutating func answer(_ request: ForeignRequest) -> HTTPResponse {
    let name = name(at: request.path)
    switch request.method {
    case "OPTIONS": return HTTPResponse(status: 200)
    case "PROPFIND": return look(name)
    case "PROPPATCH": return mark(name, request.body)
    case "MKCOL": return make(name)
    case "PUT": return put(name, request.body)
    case "MOVE": return move(name, request)
    case "DELETE": return HTTPResponse(status: files.removeValue(forKey: name) == nil ? 404 : 204)
    default: return HTTPResponse(status: 405)
    }
  }

  private func name(at path: Substring) -> String {
    let name = String(path.dropFirst(Self.root.count))
    let plain = name.hasSuffix("/") ? String(name.dropLast()) : name
    return String(decoding: plain.percentDecoded, as: UTF8.self)
  }

  private func folder(of name: String) -> String { name.lastIndex(of: "/").map { String(name[..<$0]) } ?? "" }

  private mutating func freshTag() -> String {
    count += 1
    return "e\(count)"
  }

  private func look(_ name: String) -> HTTPResponse {
    if folders.contains(name) { return multistatus("<D:resourcetype><D:collection/></D:resourcetype>") }
    guard let file = files[name] else { return HTTPResponse(status: 404) }
    let mark = file.mark.map { "<uploadfs-upload>\($0)</uploadfs-upload>" } ?? ""
    return multistatus(
      "<D:resourcetype/><D:getcontentlength>\(file.bytes.count)</D:getcontentlength>"
        + "<D:getetag>\"\(file.tag)\"</D:getetag>\(mark)")
  }

  private func multistatus(_ properties: String) -> HTTPResponse {
    let text =
      "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:propstat><D:prop>\(properties)</D:prop>"
      + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
    return HTTPResponse(
      status: 207, headers: [HTTPHeader("content-type", "application/xml")], body: Array(text.utf8))
  }

  private mutating func mark(_ name: String, _ body: [UInt8]) -> HTTPResponse {
    guard files[name] != nil else { return HTTPResponse(status: 404) }
    let text = String(decoding: body, as: UTF8.self)
    guard let start = text.firstRange(of: "<uploadfs-upload xmlns=\"urn:uploadfs\">"),
      let end = text.firstRange(of: "</uploadfs-upload>")
    else { return HTTPResponse(status: 400) }
    files[name]?.mark = String(text[start.upperBound..<end.lowerBound])
    return HTTPResponse(status: 207)
  }

  private mutating func make(_ name: String) -> HTTPResponse {
    guard !folders.contains(name), files[name] == nil else { return HTTPResponse(status: 405) }
    guard folders.contains(folder(of: name)) else { return HTTPResponse(status: 409) }
    folders.append(name)
    return HTTPResponse(status: 201)
  }

  private mutating func put(_ name: String, _ bytes: [UInt8]) -> HTTPResponse {
    guard folders.contains(folder(of: name)) else { return HTTPResponse(status: 409) }
    files[name] = File(bytes: bytes, tag: freshTag())
    return HTTPResponse(status: 201)
  }

  private mutating func move(_ name: String, _ request: ForeignRequest) -> HTTPResponse {
    guard let file = files[name] else { return HTTPResponse(status: 404) }
    guard let destination = request.field("destination") else { return HTTPResponse(status: 400) }
    let target = self.name(at: destination[...])
    guard folders.contains(folder(of: target)) else { return HTTPResponse(status: 409) }
    if let condition = request.field("if") {
      guard keepsConditions, condition == "<\(destination)> ([\"\(files[target]?.tag ?? "")\"])" else {
        return HTTPResponse(status: 412)
      }
    }
    let isTaken = files[target] != nil || folders.contains(target)
    guard !isTaken || request.field("overwrite") == "T" else { return HTTPResponse(status: 412) }
    files[name] = nil
    files[target] = file
    publications.append(
      ForeignPublication(name: PublishedName.encode(Array(target.utf8)), bytes: file.bytes, receipt: file.tag))
    return HTTPResponse(status: isTaken ? 204 : 201)
  }
}

import ChunkProtocol
import Quantities
import TransferModel

/// What a WebDAV server says of one resource (PROPFIND with a depth of 0; RFC 4918, 9.1).
struct WebDAVResource: Hashable {
  var isFolder = false
  /// Nil where the server does not say.
  var sizeBytes: UInt64?
  /// With its quotes, as a condition has it.
  var entityTag: String?
  /// By the server's clock; as text, which is only compared.
  var modified: String?
  /// The nonce that marks an upload, where the server keeps properties that it does not know.
  var mark: String?
  /// `ALGORITHM:DIGEST`, blanks between; what ownCloud calls so.
  var checksums: String?

  /// Tells one content from another: the ETag without its quotes, whether it is weak or not; else the time of the last change with the size,
  /// of which nginx makes its ETags as well.
  var version: String? {
    guard let entityTag else { return timeAndSize }
    let strong = entityTag.utf8.starts(with: "W/".utf8) ? entityTag.utf8.dropFirst(2) : entityTag.utf8[...]
    let text = String(decoding: strong.filter { $0 != UInt8(ascii: "\"") }, as: UTF8.self)
    return text.isEmpty ? timeAndSize : text
  }

  private var timeAndSize: String? {
    modified.flatMap(HTTPDate.seconds).map { "\($0)-\(sizeBytes ?? 0)" }
  }

  private static let textBytesMax = 256

  init() {}

  /// Nil for anything but a multistatus that says something of a resource.
  init?(_ response: HTTPResponse) {
    guard response.status == 207, let root = XMLElement(response.body), root.name == "multistatus",
      let found = root.child("response")
    else { return nil }
    let properties = found.children.filter { $0.name == "propstat" && Self.isFound($0) }.compactMap { $0.child("prop") }
    guard !properties.isEmpty else { return nil }
    let text = { (name: String) in
      properties.lazy.compactMap { $0.child(name) }.first.flatMap { Self.plain($0.text) }
    }
    isFolder = properties.contains { $0.child("resourcetype")?.child("collection") != nil }
    sizeBytes = text("getcontentlength").flatMap { UInt64($0) }
    entityTag = text("getetag")
    modified = text("getlastmodified")
    mark = text(WebDAVMark.name)
    checksums = properties.lazy.compactMap { $0.child("checksums") }.first.flatMap { $0.child("checksum") }
      .flatMap { Self.plain($0.text) }
  }

  private static func isFound(_ propstat: XMLElement) -> Bool {
    propstat.child("status").map { $0.text.split(separator: " ").dropFirst().first == "200" } ?? false
  }

  /// What can be kept, and sent back in a condition.
  private static func plain(_ text: String) -> String? {
    let start = text.utf8.drop { $0 <= UInt8(ascii: " ") }
    guard let last = start.lastIndex(where: { $0 > UInt8(ascii: " ") }) else { return nil }
    let trimmed = start[...last]
    guard trimmed.count <= textBytesMax, trimmed.allSatisfy({ (0x20...0x7e).contains($0) }) else { return nil }
    return String(Substring(trimmed))
  }
}

/// The property that says which upload has made a file: proof that it is ours. It moves with the file.
enum WebDAVMark {
  static let name = "uploadfs-upload"
  private static let namespace = "urn:uploadfs"

  /// The body of the request that sets it.
  static func setting(_ mark: String) -> [UInt8] {
    Array(
      """
      <?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:"><D:set><D:prop>\
      <\(name) xmlns="\(namespace)">\(mark)</\(name)></D:prop></D:set></D:propertyupdate>
      """.utf8)
  }

  /// The body of the request that asks for it, with what else is to be known of a resource.
  static let question = Array(
    """
    <?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/><D:getcontentlength/>\
    <D:getetag/><D:getlastmodified/><\(name) xmlns="\(namespace)"/><checksums xmlns="http://owncloud.org/ns"/></D:prop>\
    </D:propfind>
    """.utf8)
}

/// A digest that a server says of what it holds.
enum WebDAVChecksum {
  /// The SHA-256 among some `ALGORITHM:DIGEST`, in small letters; nil where there is none.
  static func sha256(in text: String?) -> String? {
    guard let text else { return nil }
    return text.split(separator: " ").map { $0.lowercased() }.first { $0.hasPrefix("sha256:") }
      .map { String($0.dropFirst("sha256:".count)) }
  }
}

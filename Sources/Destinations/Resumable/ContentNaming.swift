import ChunkProtocol
import FileModel
import TransferModel

/// What a file is called and what it is, in the fields of the request that begins its upload.
///
/// The draft names a file by `Content-Disposition: inline` (RFC 6266), whose recipients take the last part of a path at most.
/// Where it is to go is in `Slug` (RFC 5023, section 9.7): the wish of a client for the name of what a POST to a collection
/// makes, percent-encoded.
enum ContentNaming {
  static func fields(_ path: RelativePath) -> [HTTPHeader] {
    let text = TextName.usual.ofLastComponent(path)
    // Quoted names are ASCII; what else there is stands in the other parameter.
    let plain = String(text.unicodeScalars.map { isPlain($0) ? Character($0) : "_" })
    let encoded = PercentCoding.encode(Array(text.utf8))
    return [
      HTTPHeader("content-disposition", "inline; filename=\"\(plain)\"; filename*=UTF-8''\(encoded)"),
      HTTPHeader("slug", PercentCoding.encode(Array(TextName.usual.of(path).utf8), keepsSlashes: true)),
      HTTPHeader("content-type", MIMEType.ofFile(named: text)),
    ]
  }

  /// A percent sign is taken for an escape by some.
  private static func isPlain(_ character: Unicode.Scalar) -> Bool {
    (0x20...0x7e).contains(character.value) && !["\"", "\\", "%"].contains(character)
  }
}

import FileModel
import Integrity

/// One entry of an upload's metadata that was asked for. `{path}` and `{name}` in its value stand for the file's path and the
/// last part of it.
public struct TusMetadataEntry: Hashable, Sendable {
  /// ASCII, without blanks and commas.
  public let key: String
  /// As it was given.
  public let value: String

  /// From `key=value`.
  public init(_ text: String) throws(DestinationError) {
    let mark = text.unicodeScalars.firstIndex(of: "=") ?? text.endIndex
    key = String(text[..<mark])
    guard !key.isEmpty, mark < text.endIndex,
      key.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != UInt8(ascii: ",") })
    else {
      throw DestinationError(
        .invalidOption, "“\(text)” is no metadata; use key=value, with a key of ASCII without blanks and commas.")
    }
    value = String(text[text.unicodeScalars.index(after: mark)...])
  }
}

/// The value of an `Upload-Metadata` field.
enum TusMetadata {
  static func field(_ path: RelativePath, modifiedNanoseconds: Int64, _ more: [TusMetadataEntry]) -> String {
    let (whole, name) = (Array(TextName.usual.of(path).utf8), Array(TextName.usual.ofLastComponent(path).utf8))
    let type = MIMEType.ofFile(named: String(decoding: name, as: UTF8.self))
    var entries: [(key: String, value: [UInt8])] = [
      ("filename", name), ("filetype", Array(type.utf8)), ("relativePath", whole),
      ("mtime", Array(DecimalTime.seconds(ofNanoseconds: modifiedNanoseconds).utf8)),
    ]
    for entry in more {
      let value = Array(entry.value.utf8).replacing(Array("{path}".utf8), with: whole)
        .replacing(Array("{name}".utf8), with: name)
      entries.removeAll { $0.key == entry.key }
      entries.append((entry.key, value))
    }
    return entries.map { $0.value.isEmpty ? $0.key : "\($0.key) \(Base64.encode($0.value))" }.joined(separator: ",")
  }
}

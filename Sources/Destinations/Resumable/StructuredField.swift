import RawStructuredFieldValues
import TransferModel

/// Values of structured fields (RFC 9651). A field with any fault counts as absent.
enum StructuredField {
  /// A longer field is not parsed: the library looks for each key of a dictionary among all before it.
  static let bytesMax = 4096

  /// A field that is one item; its parameters are left out.
  static func item(_ text: String) -> RFC9651BareItem? {
    guard var parser = parser(of: text) else { return nil }
    return try? parser.parseItemFieldValue().rfc9651BareItem
  }

  /// A field that is a dictionary; of a repeated key, the last value.
  static func dictionary(_ text: String) -> OrderedMap<String, ItemOrInnerList>? {
    guard var parser = parser(of: text) else { return nil }
    return try? parser.parseDictionaryFieldValue()
  }

  private static func parser(of text: String) -> StructuredFieldValueParser<[UInt8]>? {
    text.utf8.count <= bytesMax ? StructuredFieldValueParser(Array(text.utf8)) : nil
  }
}

extension HTTPResponse {
  /// A structured field; its lines count as one.
  func structured(_ lowercasedName: String) -> String? {
    let lines = headers.filter { $0.name == lowercasedName }.map(\.value)
    return lines.isEmpty ? nil : lines.joined(separator: ", ")
  }

  /// A field that is an integer and not negative; nil for anything else.
  func structuredNumber(_ lowercasedName: String) -> UInt64? {
    guard case .integer(let value)? = structured(lowercasedName).flatMap(StructuredField.item) else { return nil }
    return UInt64(exactly: value)
  }

  /// A field that is true or false; nil for anything else.
  func structuredFlag(_ lowercasedName: String) -> Bool? {
    guard case .bool(let value)? = structured(lowercasedName).flatMap(StructuredField.item) else { return nil }
    return value
  }
}

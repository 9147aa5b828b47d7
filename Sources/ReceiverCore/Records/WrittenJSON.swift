import ChunkProtocol
import Integrity

/// Reads JSON that ``JSONText`` has written: known members in their order, no spaces, no escapes. A start reads a hundred thousand records,
/// and the general decoder takes fifteen times as long for each. What is written in another way is left to that one.
struct WrittenJSON {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  var isAtEnd: Bool { rest.isEmpty }

  /// Goes over this text, where it comes next.
  mutating func skip(_ text: StaticString) -> Bool {
    text.withUTF8Buffer { expected in
      guard rest.starts(with: expected) else { return false }
      rest = rest.dropFirst(expected.count)
      return true
    }
  }

  /// The rest of a text up to its quotation mark.
  mutating func text() -> String? {
    guard let bytes = quoted() else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }

  /// Likewise, as the digits of a digest.
  mutating func digest() -> Digest32? { text().flatMap { Digest32(hex: $0) } }

  mutating func number<Number: FixedWidthInteger>() -> Number? {
    let digits = rest.prefix { $0 == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    rest = rest.dropFirst(digits.count)
    return String(validating: digits, as: UTF8.self).flatMap { Number($0) }
  }

  private mutating func quoted() -> ArraySlice<UInt8>? {
    let bytes = rest.prefix { $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") && $0 >= 0x20 }
    guard bytes.endIndex < rest.endIndex, rest[bytes.endIndex] == UInt8(ascii: "\"") else { return nil }
    rest = rest[(bytes.endIndex + 1)...]
    return bytes
  }
}

extension JournalRecord.WholeFile {
  init?(written bytes: [UInt8]) {
    var json = WrittenJSON(bytes)
    guard json.skip("{\"inode\":"), let inode: UInt64 = json.number(), json.skip(",\"receipt\":"),
      let receipt = PublicationReceipt(written: &json), json.skip(",\"record\":{\"credential\":\""),
      let credential = json.text(), json.skip(",\"fingerprint\":\""), let fingerprint = json.digest(),
      json.skip(",\"idempotencyKey\":\""), let key = json.text(), json.skip("}}"), json.isAtEnd
    else { return nil }
    let record = WholeFileRecord(credential: credential, idempotencyKey: key, fingerprint: fingerprint)
    self.init(record: record, receipt: receipt, inode: inode)
  }
}

extension JournalRecord.Finished {
  init?(written bytes: [UInt8]) {
    var json = WrittenJSON(bytes)
    guard json.skip("{\"receiptID\":\""), let id = json.text(), json.skip("}"), json.isAtEnd else { return nil }
    self.init(receiptID: id)
  }
}

extension PublicationReceipt {
  fileprivate init?(written json: inout WrittenJSON) {
    guard json.skip("{\"chainTip\":\""), let chainTip = json.digest() else { return nil }
    var fileID: String?
    if json.skip(",\"fileID\":\"") {
      fileID = json.text()
      guard fileID != nil else { return nil }
    }
    guard json.skip(",\"id\":\""), let id = json.text(), json.skip(",\"merkleRoot\":\""),
      let merkleRoot = json.digest(), json.skip(",\"name\":\""), let name = json.text()
    else { return nil }
    var publishedAs: String?
    if json.skip(",\"publishedAs\":\"") {
      publishedAs = json.text()
      guard publishedAs != nil else { return nil }
    }
    guard json.skip(",\"publishedAt\":"), let publishedAt: Milliseconds = json.number(),
      json.skip(",\"sizeBytes\":"), let sizeBytes: UInt64 = json.number(), json.skip("}")
    else { return nil }
    self.init(
      id: id, name: name, sizeBytes: sizeBytes, merkleRoot: merkleRoot, chainTip: chainTip, publishedAt: publishedAt,
      publishedAs: publishedAs, fileID: fileID)
  }
}

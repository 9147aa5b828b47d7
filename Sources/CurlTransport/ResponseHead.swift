import TransferModel

/// Collects status and header fields of a response, line by line as libcurl delivers them.
///
/// Interim responses (1xx) come first and are dropped; trailers come last and are ignored. What the server sends is
/// bounded here, because libcurl of Debian 12 keeps whatever comes.
struct ResponseHead {
  /// The sum of a response's lines, in bytes, that is accepted.
  static let bytesMax = 64 << 10
  /// Likewise of all interim responses: a server may tell its progress by hundreds of them.
  static let interimBytesMax = 256 << 10

  /// The longest line with other characters than those of ASCII that is kept.
  static let textBytesMax = 1 << 10

  /// The status of the last response seen, 0 before the first.
  private(set) var status = 0
  /// What stands behind the status of the last response seen; HTTP/1.1 alone has it.
  private(set) var reasonPhrase = ""
  /// The fields of the last response seen; names in lower case.
  private(set) var headers: [HTTPHeader] = []
  /// The last response was a final one and its header has ended.
  private(set) var isComplete = false
  private var byteCount = 0
  /// Of the interim responses before this one.
  private var interimByteCount = 0

  /// Takes one line, its line break included. False when the server has sent too much.
  mutating func consume(_ line: UnsafeRawBufferPointer) -> Bool {
    let text = Self.trimmed(line[...])
    if text.starts(with: "HTTP/".utf8), (100..<200).contains(status) {
      interimByteCount += byteCount
      byteCount = 0
    }
    byteCount += line.count
    guard byteCount <= Self.bytesMax, interimByteCount <= Self.interimBytesMax else { return false }
    if text.starts(with: "HTTP/".utf8) {
      self = ResponseHead(
        status: Self.status(in: text), reasonPhrase: Self.reasonPhrase(in: text), byteCount: byteCount,
        interimByteCount: interimByteCount)
    } else if text.isEmpty {
      isComplete = isComplete || status >= 200
    } else if !isComplete {
      append(text, isContinuation: line.first == 0x20 || line.first == 0x09)
    }
    return true
  }

  /// The value of the first Content-Length field.
  var contentLength: Int? { headers.first { $0.name == "content-length" }.flatMap { Int($0.value) } }

  /// The body is a page for people: none of the protocols answers with one.
  var isHTML: Bool {
    let type = headers.first { $0.name == "content-type" }?.value.lowercased() ?? ""
    return type.hasPrefix("text/html") || type.hasPrefix("application/xhtml")
  }

  /// Nothing received yet.
  init() {}

  private init(status: Int, reasonPhrase: String, byteCount: Int, interimByteCount: Int) {
    self.status = status
    self.reasonPhrase = reasonPhrase
    self.byteCount = byteCount
    self.interimByteCount = interimByteCount
  }

  private mutating func append(_ text: Slice<UnsafeRawBufferPointer>, isContinuation: Bool) {
    if isContinuation {
      // A folded line (RFC 9112, 5.2) continues the value before it.
      guard var last = headers.popLast() else { return }
      guard text.allSatisfy({ $0 < 0x80 }) else { return headers.append(last) }
      last.value += " " + String(decoding: text, as: UTF8.self)
      headers.append(last)
      return
    }
    // Names are ASCII, and so is every value that anything asks for: to compare a long text of marks costs a second (MarkRuns).
    guard let colon = text.firstIndex(of: 0x3a), text[..<colon].allSatisfy({ $0 < 0x80 }),
      text.count <= Self.textBytesMax || text.allSatisfy({ $0 < 0x80 })
    else { return }
    let name = String(decoding: text[..<colon].lazy.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    let value = String(decoding: Self.trimmed(text[text.index(after: colon)...]), as: UTF8.self)
    headers.append(HTTPHeader(name, value))
  }

  /// The three digits after the first space; 0 when there are none.
  private static func status(in line: Slice<UnsafeRawBufferPointer>) -> Int {
    guard let space = line.firstIndex(of: 0x20) else { return 0 }
    let digits = line[space...].dropFirst().prefix(3)
    guard digits.count == 3, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return 0 }
    return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
  }

  /// What follows the status; empty when there is nothing.
  private static func reasonPhrase(in line: Slice<UnsafeRawBufferPointer>) -> String {
    guard let space = line.firstIndex(of: 0x20) else { return "" }
    return String(decoding: trimmed(line[space...].dropFirst(4)), as: UTF8.self)
  }

  private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0d).contains(byte) }
    let start = bytes.drop(while: isSpace)
    return start.lastIndex { !isSpace($0) }.map { start[...$0] } ?? start.prefix(0)
  }
}

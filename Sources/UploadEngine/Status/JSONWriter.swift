import Integrity
import LogText
import Quantities

/// Writes a JSON object: keys in the order given, the outermost ones on lines of their own, for people who `cat` it.
///
/// Not the protocol's `JSONText`, nor Foundation's encoder, whose bytes that one has: those sort the keys, know no line of their own and no
/// fixed decimals, and leave in a text what moves the cursor of a terminal.
package struct JSONWriter {
  private var bytes: [UInt8] = []
  private var depth = 0
  private var isFirst = true

  init(capacity: Int) {
    bytes.reserveCapacity(capacity)
  }

  /// The object, padded with spaces and a final newline to a multiple of `unitBytes`.
  package static func document(paddedTo unitBytes: Int, _ content: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter(capacity: 2 * unitBytes)
    writer.object(content)
    let length = writer.bytes.count + 1
    let padding = (unitBytes - length % unitBytes) % unitBytes
    writer.bytes.append(contentsOf: repeatElement(UInt8(ascii: " "), count: padding))
    writer.bytes.append(UInt8(ascii: "\n"))
    return writer.bytes
  }

  /// The object on one line, for streams of them.
  package static func line(_ content: (inout JSONWriter) -> Void) -> String {
    var writer = JSONWriter(capacity: 256)
    writer.depth = 1
    writer.object(content)
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  package mutating func field(_ key: StaticString, _ content: (inout JSONWriter) -> Void) {
    self.key(key)
    object(content)
  }

  package mutating func field(_ key: StaticString, _ text: String?) {
    self.key(key)
    if let text { string(text) } else { null() }
  }

  package mutating func field(_ key: StaticString, _ number: some FixedWidthInteger) {
    self.key(key)
    bytes.append(contentsOf: "\(number)".utf8)
  }

  package mutating func field(_ key: StaticString, _ flag: Bool?) {
    if let flag { field(key, flag) } else { nullField(key) }
  }

  package mutating func field(_ key: StaticString, _ number: UInt64?) {
    if let number { field(key, number) } else { nullField(key) }
  }

  package mutating func field(_ key: StaticString, _ flag: Bool) {
    self.key(key)
    bytes.append(contentsOf: (flag ? "true" : "false").utf8)
  }

  /// A number with a fixed count of decimals; null when it is unknown or not finite.
  package mutating func field(_ key: StaticString, _ number: Double?, decimals: Int) {
    self.key(key)
    if let number, let text = Self.decimal(number, decimals) {
      bytes.append(contentsOf: text.utf8)
    } else {
      null()
    }
  }

  package mutating func field(_ key: StaticString, millisecondsSince1970 time: Int64?) {
    field(key, time.map { Timestamp.text(millisecondsSince1970: $0) })
  }

  package mutating func field(_ key: StaticString, strings: [String]) {
    self.key(key)
    bytes.append(UInt8(ascii: "["))
    for (position, text) in strings.enumerated() {
      if position > 0 { bytes.append(contentsOf: ", ".utf8) }
      string(text)
    }
    bytes.append(UInt8(ascii: "]"))
  }

  /// A list of objects, one for each element.
  package mutating func field<Element>(
    _ key: StaticString, objects: [Element], _ content: (inout JSONWriter, Element) -> Void
  ) {
    self.key(key)
    bytes.append(UInt8(ascii: "["))
    for (position, element) in objects.enumerated() {
      if position > 0 { bytes.append(contentsOf: ", ".utf8) }
      object { content(&$0, element) }
    }
    isFirst = false
    bytes.append(UInt8(ascii: "]"))
  }

  package mutating func nullField(_ key: StaticString) {
    self.key(key)
    null()
  }

  private mutating func object(_ content: (inout JSONWriter) -> Void) {
    bytes.append(UInt8(ascii: "{"))
    depth += 1
    isFirst = true
    content(&self)
    isFirst = false
    depth -= 1
    if depth == 0 { bytes.append(UInt8(ascii: "\n")) }
    bytes.append(UInt8(ascii: "}"))
  }

  private mutating func key(_ key: StaticString) {
    if !isFirst { bytes.append(UInt8(ascii: ",")) }
    if depth == 1 {
      bytes.append(contentsOf: "\n  ".utf8)
    } else if !isFirst {
      bytes.append(UInt8(ascii: " "))
    }
    isFirst = false
    // Keys are ours: nothing in them needs escaping.
    bytes.append(UInt8(ascii: "\""))
    key.withUTF8Buffer { bytes.append(contentsOf: $0) }
    bytes.append(contentsOf: "\": ".utf8)
  }

  private mutating func null() {
    bytes.append(contentsOf: "null".utf8)
  }

  /// A terminal that shows the document must not take a name for a control sequence, nor show a line in another order: what ``VisibleText``
  /// hides is an escape, and the same text for a program that reads the document.
  private mutating func string(_ text: String) {
    bytes.append(UInt8(ascii: "\""))
    defer { bytes.append(UInt8(ascii: "\"")) }
    let isPlain = text.utf8.allSatisfy {
      (0x20..<0x7f).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
    }
    if isPlain { return bytes.append(contentsOf: text.utf8) }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\":
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(UInt8(truncatingIfNeeded: scalar.value))
      case "\n": bytes.append(contentsOf: "\\n".utf8)
      case "\t": bytes.append(contentsOf: "\\t".utf8)
      // None of them needs two units of UTF-16.
      case _ where VisibleText.isHidden(scalar):
        bytes.append(contentsOf: "\\u".utf8)
        bytes.append(contentsOf: Hex.encode(scalar.value).utf8.suffix(4))
      default: bytes.append(contentsOf: scalar.utf8)
      }
    }
  }

  /// Plain digits: `description` would turn to an exponent for large numbers.
  package static func decimal(_ number: Double, _ decimals: Int) -> String? {
    guard number.isFinite else { return nil }
    let scale: UInt64 = (0..<decimals).reduce(1) { scale, _ in scale * 10 }
    guard let scaled = UInt64(exactly: (number.magnitude * Double(scale)).rounded()) else { return nil }
    let sign = number < 0 && scaled > 0 ? "-" : ""
    guard decimals > 0 else { return "\(sign)\(scaled)" }
    let fraction = "\(scaled % scale)"
    return "\(sign)\(scaled / scale).\(String(repeating: "0", count: decimals - fraction.count))\(fraction)"
  }
}

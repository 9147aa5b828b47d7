public import Integrity

/// A value that writes its own JSON, where an encoder would cost more than all else that is done with it. What it writes is
/// byte for byte what ``WireJSON`` makes of it as `Encodable`.
public protocol JSONWritable: Encodable {
  /// Writes the value: for an object its members, in the order of their names.
  func write(to json: inout JSONText)
}

/// JSON in the making. Members' names are the program's own and need no escape. The engine's `JSONWriter`, which writes what people read,
/// escapes more and breaks lines.
public struct JSONText: Sendable {
  /// What is written.
  public private(set) var bytes: [UInt8] = []
  private var needsComma = false

  /// Nothing yet.
  public init(reserving capacity: Int = 512) {
    bytes.reserveCapacity(capacity)
  }

  /// An object with the members that the closure writes.
  public mutating func object(_ members: (inout JSONText) -> Void) {
    bytes.append(UInt8(ascii: "{"))
    needsComma = false
    members(&self)
    bytes.append(UInt8(ascii: "}"))
    needsComma = true
  }

  /// A member that is a text.
  public mutating func member(_ name: StaticString, _ text: String) {
    begin(name)
    bytes.append(UInt8(ascii: "\""))
    append(text)
    bytes.append(UInt8(ascii: "\""))
  }

  /// A member that is a number.
  public mutating func member(_ name: StaticString, _ number: some FixedWidthInteger) {
    begin(name)
    append(number)
  }

  /// A member that is a digest as hexadecimal digits.
  public mutating func member(_ name: StaticString, _ digest: Digest32) {
    begin(name)
    bytes.append(UInt8(ascii: "\""))
    bytes.append(contentsOf: Hex.encode(digest).utf8)
    bytes.append(UInt8(ascii: "\""))
  }

  /// A member that is a value.
  public mutating func member(_ name: StaticString, _ value: some JSONWritable) {
    begin(name)
    value.write(to: &self)
  }

  private mutating func begin(_ name: StaticString) {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
    bytes.append(UInt8(ascii: "\""))
    name.withUTF8Buffer { bytes.append(contentsOf: $0) }
    bytes.append(UInt8(ascii: "\""))
    bytes.append(UInt8(ascii: ":"))
  }

  private mutating func append(_ text: String) {
    var text = text
    text.withUTF8 { utf8 in
      if utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
        bytes.append(contentsOf: utf8)
      } else {
        for byte in utf8 { appendEscaped(byte) }
      }
    }
  }

  private mutating func appendEscaped(_ byte: UInt8) {
    let short: UInt8? =
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): byte
      case 0x08: UInt8(ascii: "b")
      case 0x09: UInt8(ascii: "t")
      case 0x0a: UInt8(ascii: "n")
      case 0x0c: UInt8(ascii: "f")
      case 0x0d: UInt8(ascii: "r")
      default: nil
      }
    if let short {
      bytes.append(UInt8(ascii: "\\"))
      bytes.append(short)
    } else if byte < 0x20 {
      bytes.append(contentsOf: "\\u00".utf8)
      bytes.append(contentsOf: Hex.encode([byte]).utf8)
    } else {
      bytes.append(byte)
    }
  }

  private mutating func append<Number: FixedWidthInteger>(_ number: Number) {
    if number < 0 { bytes.append(UInt8(ascii: "-")) }
    var rest = number.magnitude
    let start = bytes.count
    repeat {
      let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
      bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: digit))
      rest = quotient
    } while rest > 0
    bytes[start...].reverse()
  }
}

extension WireJSON {
  /// The value's own JSON.
  public static func encode(_ value: some JSONWritable) -> [UInt8] {
    var json = JSONText()
    value.write(to: &json)
    return json.bytes
  }
}

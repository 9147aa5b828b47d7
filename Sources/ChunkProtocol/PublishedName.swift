import Integrity

/// The rule of docs/protocol.md that a name breaks.
public enum PublishedNameViolation: Error, Hashable, Sendable, CustomStringConvertible {
  /// No characters at all.
  case empty
  /// Longer than ``ProtocolLimits/nameBytesMax``.
  case tooLong
  /// A component is longer than ``ProtocolLimits/nameComponentBytesMax``.
  case componentTooLong
  /// A slash at the start, at the end, or two in a row.
  case emptyComponent
  /// A component is `.` or `..`.
  case dotComponent
  /// A control character: U+0000 to U+001F and U+007F to U+009F.
  case controlCharacter

  /// The rule, for people.
  public var description: String {
    switch self {
    case .empty: "the name is empty"
    case .tooLong: "the name is longer than \(ProtocolLimits.nameBytesMax) bytes"
    case .componentTooLong: "a part of the name is longer than \(ProtocolLimits.nameComponentBytesMax) bytes"
    case .emptyComponent: "the name starts or ends with a slash, or has two in a row"
    case .dotComponent: "a part of the name is “.” or “..”"
    case .controlCharacter: "the name holds a control character"
    }
  }
}

/// Names of published files: relative, `/`-separated, and safe to use as they are below a folder.
///
/// Compare them by their UTF-8 bytes: Swift's `==` takes two spellings of é for one, filesystems do not.
public enum PublishedName {
  /// The first rule that the name breaks; nil when it is acceptable.
  public static func validate(_ text: String) -> PublishedNameViolation? {
    let bytes = text.utf8
    guard !bytes.isEmpty else { return .empty }
    guard bytes.count <= ProtocolLimits.nameBytesMax else { return .tooLong }
    for component in bytes.split(separator: slash, omittingEmptySubsequences: false) {
      if component.isEmpty { return .emptyComponent }
      if component.count > ProtocolLimits.nameComponentBytesMax { return .componentTooLong }
      if component.elementsEqual([dot]) || component.elementsEqual([dot, dot]) { return .dotComponent }
    }
    return text.unicodeScalars.contains(where: isControl) ? .controlCharacter : nil
  }

  /// An acceptable name for a path of any bytes; different paths have different names.
  ///
  /// Control characters, bytes that are no UTF-8, and `%` itself become %XX. A component that is longer than allowed
  /// after that is shortened to PREFIX`%~`HASH.EXT, where HASH is 16 digits of the SHA-256 of its original bytes; a
  /// path that is too long in all keeps its first folders and its last component, with `%~`HASH of the whole path
  /// between them. `%~` occurs in no other encoding.
  public static func encode(_ bytes: [UInt8]) -> String { encode(bytes, bytesMax: ProtocolLimits.nameBytesMax) }

  /// The same for a place where names have at most so many bytes. A last component that is too long for that keeps its own.
  public static func encode(_ bytes: [UInt8], bytesMax: Int) -> String {
    let raw = bytes.split(separator: slash)
    guard let last = raw.last else { return shortMark + hash(bytes[...]) }
    var name = raw.map(encode(component:)).joined(separator: "/")
    guard name.utf8.count > bytesMax else { return name }
    let tail = "/" + shortMark + hash(bytes[...]) + "/" + encode(component: last)
    name = ""
    for component in raw.dropLast() {
      let longer = (name.isEmpty ? "" : name + "/") + encode(component: component)
      guard longer.utf8.count + tail.utf8.count <= bytesMax else { break }
      name = longer
    }
    return name.isEmpty ? String(tail.dropFirst()) : name + tail
  }

  /// The path that ``encode(_:)`` was given; nil for a shortened name, which does not hold it, and for a text that is
  /// no encoding.
  public static func decode(_ text: String) -> [UInt8]? {
    PercentCoding.bytes(of: text)
  }

  /// What lies between the slashes of a path, byte by byte: to Swift a slash and a combining mark behind it are one character.
  package static func components(of path: some StringProtocol) -> [String] {
    path.utf8.split(separator: slash).map { String(decoding: $0, as: UTF8.self) }
  }

  /// A name for another file that the same one is asked for: `-2` and so on, before the extension of its last component. Nil where
  /// the number finds no room.
  public static func numbered(_ name: String, by number: Int) -> String? {
    let bytes = Array(name.utf8)
    let start = bytes.lastIndex(of: slash).map { $0 + 1 } ?? 0
    let last = bytes[start...]
    // A dot at the beginning is no extension's.
    let stem =
      last.lastIndex(of: dot).flatMap { end in last[..<end].contains { $0 != dot } ? end : nil } ?? bytes.endIndex
    let numbered = String(decoding: bytes[..<stem] + Array("-\(number)".utf8) + bytes[stem...], as: UTF8.self)
    return validate(numbered) == nil ? numbered : nil
  }

  private static let slash = UInt8(ascii: "/")
  private static let dot = UInt8(ascii: ".")
  private static let percent = UInt8(ascii: "%")
  private static let shortMark = "%~"
  private static let extensionBytesMax = 24

  private static func isControl(_ character: Unicode.Scalar) -> Bool {
    character.value < 0x20 || (0x7f...0x9f).contains(character.value)
  }

  /// A character of ASCII that stands for itself.
  private static func isPlain(_ byte: UInt8) -> Bool { (0x20..<0x7f).contains(byte) && byte != percent }

  private static func hash(_ bytes: ArraySlice<UInt8>) -> String {
    String(Hex.encode(sha256(Array(bytes))).prefix(16))
  }

  private static func encode(component: ArraySlice<UInt8>) -> String {
    if component.allSatisfy({ $0 == dot }), component.count <= 2 {
      return component.map(escape).joined()
    }
    // Nearly all are, and a name is encoded several times for each file.
    if component.count <= ProtocolLimits.nameComponentBytesMax, component.allSatisfy(isPlain) {
      return String(decoding: component, as: UTF8.self)
    }
    let units = units(of: component)
    let whole = units.joined()
    guard whole.utf8.count > ProtocolLimits.nameComponentBytesMax else { return whole }
    let suffix = shortMark + hash(component) + nameExtension(of: units)
    var prefix = ""
    var room = ProtocolLimits.nameComponentBytesMax - suffix.utf8.count
    for unit in units {
      room -= unit.utf8.count
      guard room >= 0 else { break }
      prefix += unit
    }
    return prefix + suffix
  }

  /// The component in pieces that must not be torn apart: a character, or one escaped byte.
  private static func units(of component: ArraySlice<UInt8>) -> [String] {
    var units: [String] = []
    var rest = component
    while let byte = rest.first {
      let length = characterLength(rest)
      guard length > 0, byte != percent else {
        units.append(escape(byte))
        rest = rest.dropFirst()
        continue
      }
      let text = String(decoding: rest.prefix(length), as: UTF8.self)
      if text.unicodeScalars.contains(where: isControl) {
        units += rest.prefix(length).map(escape)
      } else {
        units.append(text)
      }
      rest = rest.dropFirst(length)
    }
    return units
  }

  /// The bytes of the UTF-8 character at the start; 0 when there is none.
  private static func characterLength(_ bytes: ArraySlice<UInt8>) -> Int {
    var iterator = bytes.makeIterator()
    var decoder = UTF8()
    guard case .scalarValue(let character) = decoder.decode(&iterator) else { return 0 }
    return UTF8.width(character)
  }

  /// `.ext` of a long name, so that a published capture still opens with the right program; empty when there is none,
  /// or when it is no ordinary one.
  private static func nameExtension(of units: [String]) -> String {
    guard let position = units.lastIndex(of: "."), position > 0 else { return "" }
    let text = units[position...].joined()
    return text.utf8.count <= extensionBytesMax && text.utf8.count > 1 ? text : ""
  }

  private static func escape(_ byte: UInt8) -> String {
    "%" + Hex.encode([byte]).uppercased()
  }
}

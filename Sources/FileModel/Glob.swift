/// A pattern for names and paths, compared byte by byte, because names are bytes: `*` and `?` stand for any bytes and any
/// byte but `/`, `[a-z]` and `[!a-z]` for one byte of a set, `\` takes the next byte as it is. A pattern without `/` is
/// compared with the last component alone. One with `/` is compared with the whole path below the mount; in it a component
/// `**` stands for any number of components, none included, and at the end for everything below.
///
/// The time for a comparison is bounded by the product of both lengths, whatever the pattern: every place in the pattern
/// that the bytes so far may have led to is followed at the same time, so nothing is ever tried again. fnmatch(3) tries again, in a
/// time that grows with each `*` by a factor of the name's length; it knows no `**`, and takes bytes for characters of a locale.
public struct Glob: Hashable, Sendable, CustomStringConvertible {
  /// Why a text is no pattern.
  public enum Problem: Error, Hashable, Sendable {
    case empty
    case unclosedSet
    case emptyComponent
    case endsWithBackslash
  }

  private enum Token: Hashable, Sendable {
    case byte(UInt8)
    case set(ByteSet)
    /// `*`
    case run
    /// `**` as the last component.
    case everything
    /// `**/`
    case components
  }

  /// The pattern as it was written.
  public let description: String
  private let tokens: [Token]
  private let isOfLastComponent: Bool

  /// Understands a pattern.
  public init(_ text: String) throws(Problem) {
    description = text
    var bytes = Array(text.utf8)[...]
    // A leading slash says that it starts at the mount, and is no component.
    isOfLastComponent = !bytes.contains(Self.slash)
    if bytes.first == Self.slash { bytes.removeFirst() }
    guard !bytes.isEmpty else { throw .empty }
    tokens = try Self.tokens(of: bytes, isPath: !isOfLastComponent)
  }

  /// Whether a path below the mount, or its last component, is one that the pattern describes.
  public func matches(_ path: RelativePath) -> Bool {
    var here = [Bool](repeating: false, count: tokens.count + 1)
    enter(0, of: &here)
    for byte in isOfLastComponent ? path.lastComponent : path.bytes[...] {
      var next = [Bool](repeating: false, count: tokens.count + 1)
      var isAnywhere = false
      for index in tokens.indices where here[index] {
        isAnywhere = true
        step(over: byte, from: index, to: &next)
      }
      guard isAnywhere else { return false }
      here = next
    }
    return here[tokens.count]
  }

  private func step(over byte: UInt8, from index: Int, to next: inout [Bool]) {
    switch tokens[index] {
    case .byte(let wanted): if byte == wanted { enter(index + 1, of: &next) }
    case .set(let set): if set.contains(byte) { enter(index + 1, of: &next) }
    case .run: if byte != Self.slash { enter(index, of: &next) }
    case .everything: enter(index, of: &next)
    case .components:
      next[index] = true
      if byte == Self.slash { enter(index + 1, of: &next) }
    }
  }

  /// The comparison has come to a token; what may stand for nothing is passed as well.
  private func enter(_ index: Int, of places: inout [Bool]) {
    var index = index
    while true {
      places[index] = true
      guard index < tokens.count else { return }
      switch tokens[index] {
      case .run, .everything, .components: index += 1
      case .byte, .set: return
      }
    }
  }

  // MARK: - Reading a pattern

  private static let slash = UInt8(ascii: "/")

  private static func tokens(of pattern: ArraySlice<UInt8>, isPath: Bool) throws(Problem) -> [Token] {
    var tokens: [Token] = []
    var rest = pattern
    while let byte = rest.first {
      let isStart = rest.startIndex == pattern.startIndex || pattern[rest.startIndex - 1] == slash
      if isPath, isStart, let stars = doubleStar(&rest) {
        tokens.append(stars)
        continue
      }
      rest.removeFirst()
      switch byte {
      case UInt8(ascii: "*"): if tokens.last != .run { tokens.append(.run) }
      case UInt8(ascii: "?"): tokens.append(.set(.allButSlash))
      case UInt8(ascii: "["): tokens.append(.set(try set(&rest)))
      case UInt8(ascii: "\\"):
        guard let literal = rest.popFirst() else { throw .endsWithBackslash }
        tokens.append(.byte(literal))
      case slash:
        guard !isStart, !rest.isEmpty else { throw .emptyComponent }
        tokens.append(.byte(slash))
      default: tokens.append(.byte(byte))
      }
    }
    return tokens
  }

  /// Takes a whole component `**`, with the slash behind it.
  private static func doubleStar(_ rest: inout ArraySlice<UInt8>) -> Token? {
    guard rest.starts(with: "**".utf8) else { return nil }
    let after = rest.dropFirst(2)
    guard let next = after.first else {
      rest = after
      return .everything
    }
    guard next == slash, after.count > 1 else { return nil }
    rest = after.dropFirst()
    return .components
  }

  /// Takes a set up to its `]`; the first byte in it is never its end.
  private static func set(_ rest: inout ArraySlice<UInt8>) throws(Problem) -> ByteSet {
    let isNegated = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
    if isNegated { rest.removeFirst() }
    var set = ByteSet()
    var isFirst = true
    while var low = rest.popFirst() {
      if low == UInt8(ascii: "]"), !isFirst { return isNegated ? set.othersButSlash : set.withoutSlash }
      isFirst = false
      if low == UInt8(ascii: "\\"), let literal = rest.popFirst() { low = literal }
      var high = low
      if rest.first == UInt8(ascii: "-"), let end = rest.dropFirst().first, end != UInt8(ascii: "]") {
        rest.removeFirst(2)
        high = end
        if end == UInt8(ascii: "\\"), let literal = rest.popFirst() { high = literal }
      }
      if low <= high { for byte in low...high { set.insert(byte) } }
    }
    throw .unclosedSet
  }
}

/// Some of the 256 bytes.
private struct ByteSet: Hashable, Sendable {
  private var words = SIMD4<UInt64>(repeating: 0)

  static let allButSlash = ByteSet().othersButSlash

  func contains(_ byte: UInt8) -> Bool { words[Int(byte >> 6)] & (1 << UInt64(byte & 63)) != 0 }
  mutating func insert(_ byte: UInt8) { words[Int(byte >> 6)] |= 1 << UInt64(byte & 63) }

  var withoutSlash: ByteSet {
    var set = self
    set.words[0] &= ~(1 << UInt64(UInt8(ascii: "/")))
    return set
  }

  var othersButSlash: ByteSet {
    var set = self
    set.words = ~words
    return set.withoutSlash
  }
}

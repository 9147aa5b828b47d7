public import FileModel

/// Recognises names that a program uses while it writes and renames afterwards (spec H4): such a file is complete only
/// once it has its final name.
public struct TemporaryNameRule: Hashable, Sendable {
  /// Endings, compared without regard to ASCII case.
  public var suffixes: [String]
  /// What mkstemp(3) makes of a name: rsync's `.name.XXXXXX` and GNU patch's `name.oXXXXXX`.
  public var recognisesDrawnNames: Bool
  /// Others, by the user's choice.
  public var patterns: [Glob] = []

  /// The names of browsers, downloaders, editors, rsync and patch.
  public static let standard = TemporaryNameRule(
    suffixes: [".part", ".partial", ".crdownload", ".download", ".tmp", ".temp", ".swp", ".swx", ".swpx", "~"],
    recognisesDrawnNames: true)

  /// Recognises the given endings.
  public init(suffixes: [String], recognisesDrawnNames: Bool) {
    self.suffixes = suffixes
    self.recognisesDrawnNames = recognisesDrawnNames
  }

  /// True when the path is temporary.
  public func matches(_ path: RelativePath) -> Bool {
    matches(path.lastComponent) || patterns.contains { $0.matches(path) }
  }

  /// True when the name (a path's last component) is temporary, whatever the user's patterns say.
  public func matches(_ name: some Collection<UInt8>) -> Bool {
    let lowercased = name.map { $0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0 }
    for suffix in suffixes where lowercased.count > suffix.utf8.count {
      if lowercased.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) { return true }
    }
    return recognisesDrawnNames && Self.drawnNameEnds(Array(name)) != nil
  }

  /// The name that a file with a temporary one will probably get; nil when it is not temporary, or only by a pattern.
  public func finalName(of name: some Collection<UInt8>) -> [UInt8]? {
    guard matches(name) else { return nil }
    let bytes = Array(name)
    if recognisesDrawnNames, let ends = Self.drawnNameEnds(bytes) {
      return Array(bytes.dropFirst(ends.first).dropLast(ends.last))
    }
    let lowercased = bytes.map { $0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0 }
    let suffix = suffixes.filter { lowercased.suffix($0.utf8.count).elementsEqual($0.utf8) }.map(\.utf8.count).max()
    return Array(bytes.dropLast(suffix ?? 0))
  }

  /// How many bytes a name with six drawn letters or digits has before and after the final one; nil for every other name.
  ///
  /// `.NAME.XXXXXX` is rsync's. A word such as `.bashrc.backup` has the same shape: only a mixture of cases, or of letters and
  /// digits, counts, which the draw is in 99 of 100 names. `NAME.oXXXXXX` is GNU patch's; nothing else sets it apart from
  /// names such as `a.oldFile`, so that it takes all three kinds, which is so in 6 of 10: what is taken for temporary by
  /// mistake is never published.
  private static func drawnNameEnds(_ name: [UInt8]) -> (first: Int, last: Int)? {
    guard name.count > 8, let kinds = kindCount(name.suffix(6)) else { return nil }
    let before = name.dropLast(6)
    if kinds >= 2, name.first == UInt8(ascii: "."), before.last == UInt8(ascii: ".") { return (1, 7) }
    return kinds == 3 && before.suffix(2).elementsEqual(".o".utf8) ? (0, 8) : nil
  }

  /// How many of lower-case letters, capitals and digits there are among bytes that are nothing else.
  private static func kindCount(_ bytes: ArraySlice<UInt8>) -> Int? {
    var hasLower = false
    var hasUpper = false
    var hasDigit = false
    for byte in bytes {
      switch byte {
      case 0x61...0x7a: hasLower = true
      case 0x41...0x5a: hasUpper = true
      case 0x30...0x39: hasDigit = true
      default: return nil
      }
    }
    return [hasLower, hasUpper, hasDigit].filter { $0 }.count
  }
}

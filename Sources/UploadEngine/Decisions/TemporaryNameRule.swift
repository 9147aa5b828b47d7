/// Recognises names that a program uses while it writes and renames afterwards (spec H4): such a file is complete only
/// once it has its final name.
public struct TemporaryNameRule: Hashable, Sendable {
  /// Endings, compared without regard to ASCII case.
  public var suffixes: [String]
  /// rsync's `.name.XXXXXX` and mkstemp's kind.
  public var recognisesRsync: Bool

  /// The names of browsers, downloaders, editors and rsync.
  public static let standard = TemporaryNameRule(
    suffixes: [".part", ".partial", ".crdownload", ".download", ".tmp", ".temp", ".swp", ".swx", ".swpx", "~"],
    recognisesRsync: true)

  /// Recognises the given endings.
  public init(suffixes: [String], recognisesRsync: Bool) {
    self.suffixes = suffixes
    self.recognisesRsync = recognisesRsync
  }

  /// True when the name (a path's last component) is temporary.
  public func matches(_ name: some Collection<UInt8>) -> Bool {
    let lowercased = name.map { $0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0 }
    for suffix in suffixes where lowercased.count > suffix.utf8.count {
      if lowercased.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) { return true }
    }
    return recognisesRsync && Self.isRsyncName(Array(name))
  }

  /// The name that a file with a temporary one will probably get; nil when it is not temporary.
  public func finalName(of name: some Collection<UInt8>) -> [UInt8]? {
    guard matches(name) else { return nil }
    let bytes = Array(name)
    if recognisesRsync, Self.isRsyncName(bytes) { return Array(bytes.dropFirst().dropLast(7)) }
    let lowercased = bytes.map { $0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0 }
    let suffix = suffixes.filter { lowercased.suffix($0.utf8.count).elementsEqual($0.utf8) }.map(\.utf8.count).max()
    return Array(bytes.dropLast(suffix ?? 0))
  }

  /// `.NAME.XXXXXX` with six letters or digits drawn from 62 characters. A word such as `.bashrc.backup` has the same
  /// shape: only a mixture of cases, or of letters and digits, counts, which rsync's draw is in 99 of 100 names.
  private static func isRsyncName(_ name: [UInt8]) -> Bool {
    guard name.count > 8, name.first == UInt8(ascii: "."), name[name.count - 7] == UInt8(ascii: ".") else {
      return false
    }
    var hasLower = false
    var hasUpper = false
    var hasDigit = false
    for byte in name.suffix(6) {
      switch byte {
      case 0x61...0x7a: hasLower = true
      case 0x41...0x5a: hasUpper = true
      case 0x30...0x39: hasDigit = true
      default: return false
      }
    }
    return [hasLower, hasUpper, hasDigit].filter { $0 }.count >= 2
  }
}

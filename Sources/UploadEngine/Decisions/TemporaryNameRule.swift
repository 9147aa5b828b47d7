public import FileModel

/// Recognises names that a program uses while it writes and renames afterwards (docs/semantics.md, S62a): such a file
/// is complete only once it has its final name.
public struct TemporaryNameRule: Hashable, Sendable {
  /// Endings, compared without regard to ASCII case.
  public var suffixes: [String]
  /// What mkstemp(3) and its like make: rsync's `.name.XXXXXX`, GNU patch's `name.oXXXXXX`, GLib's `name.XXXXXX`, rrdtool's
  /// `name.rrdXXXXXX`, and the whole names of zip, perl -i, strip, gphoto2 and git's objects; and git's locks.
  public var recognisesDrawnNames: Bool
  /// Other patterns, by the user's choice.
  public var patterns: [Glob] = []

  /// The names of browsers, downloaders, editors, DuckDB, exiftool, metaflac, gphoto2, git, rsync, patch, GLib, rrdtool, zip, perl and
  /// strip.
  public static let standard = TemporaryNameRule(
    suffixes: [
      ".part", ".partial", ".crdownload", ".download", ".tmp", ".temp", ".swp", ".swx", ".swpx", "~", ".aria2",
      ".aria2__temp", ".lftp-pget-status", ".wal", "_exiftool_tmp", ".metadata_edit",
    ],
    recognisesDrawnNames: true)

  /// Recognises the given endings.
  public init(suffixes: [String], recognisesDrawnNames: Bool) {
    self.suffixes = suffixes
    self.recognisesDrawnNames = recognisesDrawnNames
  }

  /// True when the path is temporary.
  public func matches(_ path: RelativePath) -> Bool {
    matches(path.lastComponent) || patterns.contains { $0.matches(path) }
      || recognisesDrawnNames && Self.isLockOfGit(path)
  }

  /// git writes `index.lock` and renames it. Outside of repositories such names are those of whole files: `Cargo.lock`.
  private static func isLockOfGit(_ path: RelativePath) -> Bool {
    path.lastComponent.count > 5 && path.lastComponent.suffix(5).elementsEqual(".lock".utf8)
      && path.components.dropLast().contains { $0.suffix(4).elementsEqual(".git".utf8) }
  }

  /// True when the name (a path's last component) is temporary, without regard to the user's patterns.
  public func matches(_ name: some Collection<UInt8>) -> Bool {
    let lowercased = name.map { $0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0 }
    for suffix in suffixes where lowercased.count > suffix.utf8.count {
      if lowercased.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) { return true }
    }
    guard recognisesDrawnNames else { return false }
    return Self.drawnNameEnds(Array(name)) != nil || Self.isDrawn(Array(name))
  }

  /// The probable final name of a file with a temporary one; nil when it is not temporary, or only by a pattern.
  public func finalName(of name: some Collection<UInt8>) -> [UInt8]? {
    guard matches(name) else { return nil }
    let bytes = Array(name)
    if recognisesDrawnNames, let ends = Self.drawnNameEnds(bytes) {
      return Array(bytes.dropFirst(ends.first).dropLast(ends.last))
    }
    if recognisesDrawnNames, Self.isDrawn(bytes) { return nil }
    let lowercased = bytes.map { $0 >= 0x41 && $0 <= 0x5a ? $0 | 0x20 : $0 }
    let suffix = suffixes.filter { lowercased.suffix($0.utf8.count).elementsEqual($0.utf8) }.map(\.utf8.count).max()
    return Array(bytes.dropLast(suffix ?? 0))
  }

  /// How many bytes a name with six drawn letters or digits has before and after the final one; nil for every other name.
  ///
  /// `.NAME.XXXXXX` is rsync's. A word such as `.bashrc.backup` has the same shape: only a mixture of cases, or of
  /// letters and digits, counts, which the draw is in 99 of 100 names. `NAME.oXXXXXX` is GNU patch's; nothing else
  /// distinguishes it from names such as `a.oldFile`. So all three kinds are required, which holds for 6 of 10: a name
  /// taken for temporary by mistake is never published. Likewise rrdtool's `NAME.rrdXXXXXX`, for `a.rrdBackup`.
  private static func drawnNameEnds(_ name: [UInt8]) -> (first: Int, last: Int)? {
    guard name.count > 8, let kinds = kindCount(name.suffix(6)) else { return nil }
    let before = name.dropLast(6)
    if kinds >= 2, name.first == UInt8(ascii: "."), before.last == UInt8(ascii: ".") { return (1, 7) }
    if before.last == UInt8(ascii: "."), isDrawnOfCapitals(name.suffix(6)) { return (0, 7) }
    guard kinds == 3 else { return nil }
    if before.suffix(2).elementsEqual(".o".utf8) { return (0, 8) }
    return before.count > 4 && before.suffix(4).elementsEqual(".rrd".utf8) ? (0, 6) : nil
  }

  /// `NAME.XXXXXX` with capitals and digits is GLib's. Cameras number their files with letters in front of digits, as
  /// in `roll.TAKE01`: the name counts only where a letter follows a digit, which holds for 3 of 4.
  private static func isDrawnOfCapitals(_ bytes: ArraySlice<UInt8>) -> Bool {
    let isCapital = { (byte: UInt8) in (0x41...0x5a).contains(byte) }
    let isDigit = { (byte: UInt8) in (0x30...0x39).contains(byte) }
    guard bytes.allSatisfy({ isCapital($0) || isDigit($0) }) else { return false }
    return zip(bytes, bytes.dropFirst()).contains { isDigit($0) && isCapital($1) }
  }

  /// The whole names of zip (`ziXXXXXX`), perl -i (`XXXXXXXX`, of which two letters stay) and strip (`stXXXXXX`).
  /// `st000001` and `stations` are other names: the six contain a capital and another kind. gphoto2's `tmpfileXXXXXX`
  /// and those of git's objects and packs have distinct prefixes, apart from numbers and words that users put there.
  private static func isDrawn(_ name: [UInt8]) -> Bool {
    let begins = { (prefix: String) in name.count == prefix.utf8.count + 6 && name.starts(with: prefix.utf8) }
    if begins("tmpfile") || ["tmp_obj_", "tmp_pack_", "tmp_idx_"].contains(where: begins) {
      return kindCount(name.suffix(6)) ?? 0 >= 2
    }
    guard name.count == 8, ["zi", "XX", "st"].contains(where: { name.prefix(2).elementsEqual($0.utf8) }) else {
      return false
    }
    let drawn = name.suffix(6)
    return (kindCount(drawn) ?? 0) >= 2 && drawn.contains { (0x41...0x5a).contains($0) }
  }

  /// How many kinds (lower-case letters, capitals, digits) occur among bytes that are nothing else.
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

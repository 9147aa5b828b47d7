/// Settings as the kernel hands them over. What is no UTF-8 would become another path, with U+FFFD in it, and is
/// refused where it stands.
public enum SettingBytes {
  /// The arguments of the process, its name first.
  public static func check(arguments: [[UInt8]]) throws(ConfigurationError) {
    for (index, argument) in arguments.enumerated().dropFirst() where !isText(argument) {
      let flag = [flag(in: argument[...]), flag(in: arguments[index - 1][...])].compactMap { $0 }.first
      throw notText(flag.map { "the value of \($0)" } ?? "argument \(index)")
    }
  }

  /// The arguments of a command about captures of a mount. The captures' own names may have any bytes; the mount point and the values of
  /// `flags` may not.
  public static func check(
    arguments: [[UInt8]], ofMountAt mountPoint: String, flags: [String]
  ) throws(ConfigurationError) {
    // The parser has made texts of them; the first one that became the mount point is what it was made of.
    let place = arguments.dropFirst().firstIndex {
      String(decoding: $0, as: UTF8.self).utf8.elementsEqual(mountPoint.utf8)
    }
    for (index, argument) in arguments.enumerated().dropFirst() where !isText(argument) {
      let named = flag(in: argument[...]) ?? String(decoding: arguments[index - 1], as: UTF8.self)
      if flags.contains(named) { throw notText("the value of \(named)") }
      if index == place { throw notText("the mount point") }
    }
  }

  /// The environment's variables that settings are read from, as `bytes` has them.
  public static func check(environment bytes: (_ name: String) -> [UInt8]?) throws(ConfigurationError) {
    let names = Setting.allCases.map(\.environmentName) + [Setting.configurationFileVariable, "CREDENTIALS_DIRECTORY"]
    try check(variables: names, bytes)
  }

  /// Variables of the environment by their names.
  public static func check(
    variables names: [String], _ bytes: (_ name: String) -> [UInt8]?
  ) throws(ConfigurationError) {
    for name in names {
      if let value = bytes(name), !isText(value) { throw notText("the environment's \(name)") }
    }
  }

  /// The text of a configuration file, without the mark that some editors put before it.
  public static func text(ofFile bytes: [UInt8], path: String) throws(ConfigurationError) -> String {
    let content = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? bytes[3...] : bytes[...]
    if let text = String(validating: content, as: UTF8.self) { return text }
    let lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    throw notText("\(path), line \((lines.firstIndex { !isText(Array($0)) } ?? 0) + 1)")
  }

  private static func isText(_ bytes: [UInt8]) -> Bool { String(validating: bytes, as: UTF8.self) != nil }

  /// `--name`, of `--name` or `--name=value`.
  private static func flag(in argument: ArraySlice<UInt8>) -> String? {
    guard argument.starts(with: Array("--".utf8)) else { return nil }
    return String(validating: argument.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
  }

  private static func notText(_ place: String) -> ConfigurationError {
    ConfigurationError("\(place) is no UTF-8, in which settings and the paths in them are written; use a path that is")
  }
}
